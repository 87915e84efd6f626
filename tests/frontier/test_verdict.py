"""Verdicts: by hand, and seldom wrong in simulation."""

import math
from dataclasses import replace

import numpy as np
import pytest

from fairdp.certify.bounds import release_counts
from fairdp.certify.certificate import Certificate
from fairdp.config import Preregistration
from fairdp.frontier.curve import (
    Chance,
    Estimate,
    Events,
    Frontier,
    Target,
    changes_of,
    choose,
    exact_ranking,
    plain_values,
    sketch_of,
)
from fairdp.frontier.verdict import (
    HELD_OUT,
    TOLERANCE,
    TRAINING,
    Evidence,
    Quality,
    TargetMet,
    certified_evidence,
    is_collapsed,
    judged_quality,
    met,
    sketched_evidence,
    verdict_of,
)
from fairdp.statements.verdict import _target_line
from statistical import assert_rate_at_most

# Standard normal quantiles: a claim alone, and one of two that share the chance of being wrong.
ONE, OF_TWO = 1.7507, 2.0537


def evidence(rates=(0.30, 0.34), errors=(0.003, 0.004), *, gain=(0.1, 0.01), auc=(0.8, 0.01), **more) -> Evidence:
    """A rule that is better than the better constant decision by some gain."""
    known = Evidence(
        counted_on=HELD_OUT,
        events=Events("demographic_parity", len(rates)),
        rates=np.array(rates),
        errors=np.array(errors),
        accuracy=Estimate(0.75 + gain[0], 0.01),
        gains=(Estimate(*gain), Estimate(gain[0] + 0.5, gain[1])),
        separation=Estimate(0.5, 0.01),
        base_rate=0.25,
        positive_rate=0.3,
        auc=None if auc is None else Estimate(*auc),
    )
    return replace(known, **more)


def quality(learnt: str) -> Quality:
    numbers = {"accuracy": 0.8, "accuracy_error": 0.01, "majority_accuracy": 0.75, "auc": 0.8, "auc_error": 0.01}
    return Quality(**numbers, learnt=learnt)


def target(word: str) -> TargetMet:
    return TargetMet(metric="demographic_parity", kind="max_gap", value=0.05, estimate=0.04, error=0.01, met=word)


@pytest.mark.parametrize(
    ("gain", "auc", "learnt"),
    [
        ((0.023, 0.01), (0.5, 0.01), "yes"),  # 2.3 errors better than a constant
        ((0.020, 0.01), (0.59, 0.02), "undecided"),  # 2.0 are too few, and the ranking may be anything
        ((0.0, 0.005), (0.573, 0.01), "yes"),  # ranks 2.3 errors above .55
        ((-0.03, 0.005), (0.50, 0.04), "no"),  # surely below .6, and surely no better than a constant
        ((-0.03, 0.005), (0.50, 0.05), "undecided"),
        ((0.0, 0.015), (0.50, 0.04), "undecided"),  # it may be better than a constant by more than .02
        ((-0.05, 0.01), (0.9, 0.01), "yes"),  # a cost ratio may cost accuracy: ranking is learning
    ],
)
def test_what_was_learnt(gain, auc, learnt):
    assert judged_quality(evidence(gain=gain, auc=auc)).learnt == learnt


def test_both_constants_must_be_beaten():
    lucky = replace(evidence(auc=(0.5, 0.01)), gains=(Estimate(0.3, 0.01), Estimate(-0.1, 0.01)))
    assert judged_quality(lucky).learnt == "no"


def test_what_chance_alone_reaches_on_training_records_is_no_learning():
    seen = evidence(gain=(0.03, 0.005), auc=(0.62, 0.01), counted_on=TRAINING)
    assert judged_quality(seen).learnt == "yes"
    assert judged_quality(replace(seen, chance=Chance(auc=0.61, gain=0.03))).learnt == "no"
    # On held-out records, accuracy is not by chance.
    assert judged_quality(replace(seen, chance=Chance(auc=0.61, gain=0.03), counted_on=HELD_OUT)).learnt == "yes"


def test_without_probabilities_decisions_rank():
    ranks = evidence(gain=(0.0, 0.01), auc=None, separation=Estimate(0.7, 0.05))
    assert judged_quality(ranks).learnt == "yes"
    assert judged_quality(ranks).auc is None
    not_at_all = evidence(gain=(-0.05, 0.01), auc=None, separation=Estimate(0.5, 0.01))
    assert judged_quality(not_at_all).learnt == "no"
    # A constant decision says nothing about the probabilities behind it.
    assert judged_quality(replace(not_at_all, positive_rate=0.001)).learnt == "undecided"


def test_quality_repeats_its_numbers():
    known = judged_quality(evidence())
    assert (known.accuracy, known.accuracy_error, known.majority_accuracy) == (0.85, 0.01, 0.75)
    assert (known.auc, known.auc_error) == (0.8, 0.01)
    assert known.to_dict()["auc_interval"] == pytest.approx([0.8 - 0.0196, 0.8 + 0.0196], abs=1e-4)


@pytest.mark.parametrize(
    ("gap", "error", "word"),
    [
        (0.03, 0.01, "yes"),
        (0.05, 0.011, "yes"),  # .05 + 1.75 · .011 is within the tolerance of .02
        (0.05, 0.012, "undecided"),
        (0.07, 0.011, "no"),  # .07 − 1.75 · .011 is above .05
        (0.07, 0.012, "undecided"),
        (0.0, 0.041, "undecided"),
    ],
)
def test_whether_a_gap_is_met(gap, error, word):
    """The error of a gap of two groups, each with the same."""
    seen = evidence((0.3, 0.3 + gap), (error / math.sqrt(2),) * 2)
    estimate, found = met(seen, 0.05, kind="max_gap")
    assert found == word
    assert estimate == pytest.approx((gap, error))


def test_the_tolerance_is_no_larger_than_the_target():
    assert met(evidence((0.3, 0.308), (0.001, 0.001)), 0.005, kind="max_gap")[1] == "no"
    assert met(evidence((0.3, 0.308), (0.003, 0.003)), 0.005, kind="max_gap")[1] == "undecided"
    assert met(evidence((0.3, 0.301), (0.001, 0.001)), 0.005, kind="max_gap")[1] == "yes"


@pytest.mark.parametrize(("low", "word"), [(0.36, "yes"), (0.316, "undecided"), (0.28, "no")])
def test_whether_a_ratio_is_met(low, word):
    """.8 of .4 is .32; errors of .01 make that of the ratio hypot(.01, .008) / .4 = .032."""
    estimate, found = met(evidence((low, 0.4), (0.01, 0.01)), 0.8, kind="min_ratio")
    assert found == word
    assert estimate.value == pytest.approx(low / 0.4)


def test_a_pair_that_may_be_far_apart_leaves_doubt_whatever_the_others_say():
    seen = evidence((0.3, 0.31, 0.3), (0.001, 0.001, 0.09))
    assert met(seen, 0.05, kind="max_gap")[1] == "undecided"
    assert met(replace(seen, errors=np.array([0.001, 0.001, 0.002])), 0.05, kind="max_gap")[1] == "yes"
    # Too uncertain to be believed, even if it seems far away.
    assert met(evidence((0.3, 0.31, 0.9), (0.001, 0.001, 0.11)), 0.05, kind="max_gap")[1] == "undecided"
    assert met(evidence((0.3, 0.31, 0.9), (0.001, 0.001, 0.09)), 0.05, kind="max_gap")[1] == "no"


def test_rates_of_different_labels_are_not_compared():
    seen = evidence((0.1, 0.1, 0.8, 0.8), (0.001,) * 4, events=Events("equalized_odds", 2))
    assert met(seen, 0.05, kind="max_gap")[1] == "yes"


def test_of_many_models_that_were_looked_at_more_is_asked():
    seen = evidence((0.3, 0.37), (0.0075, 0.0075))
    assert met(seen, 0.05, kind="max_gap")[1] == "no"
    assert met(replace(seen, n_claims=20.0), 0.05, kind="max_gap")[1] == "undecided"
    learnt = evidence(gain=(0.023, 0.01), auc=(0.59, 0.02))
    assert judged_quality(learnt).learnt == "yes"
    assert judged_quality(replace(learnt, n_claims=20.0)).learnt == "undecided"


@pytest.mark.parametrize(
    ("positive_rate", "base_rate", "collapsed"),
    [
        (0.009, 0.3, True),
        (0.01, 0.3, False),
        (0.991, 0.3, True),
        (0.006, 0.02, False),  # rare labels: a quarter of .02
        (0.004, 0.02, True),
        (0.009, None, True),
    ],
)
def test_what_has_collapsed(positive_rate, base_rate, collapsed):
    assert is_collapsed(positive_rate, base_rate) == collapsed


@pytest.mark.parametrize(
    ("learnt", "aim", "positive_rate", "verdict"),
    [
        ("yes", "yes", 0.3, "good"),
        ("yes", None, 0.3, "good"),
        ("yes", "no", 0.3, "missed"),
        ("yes", "undecided", 0.3, "undecided"),
        ("no", "yes", 0.3, "weak"),
        ("no", "no", 0.3, "weak"),
        ("undecided", "yes", 0.3, "undecided"),
        ("undecided", "no", 0.3, "missed"),
        (None, "yes", 0.3, "undecided"),
        ("yes", "yes", 0.009, "collapsed"),
        (None, None, 0.991, "collapsed"),
        ("yes", "yes", None, "good"),
    ],
)
def test_one_word(learnt, aim, positive_rate, verdict):
    known = None if learnt is None else quality(learnt)
    assert verdict_of(known, None if aim is None else target(aim), positive_rate) == verdict


@pytest.mark.parametrize(
    ("kind", "estimate", "chance"),
    [("max_gap", 0.163, True), ("max_gap", 0.158, False), ("min_ratio", 0.037, True), ("min_ratio", 0.045, False)],
)
def test_an_interval_that_leaves_the_target_out_and_decides_nothing_is_explained(kind, estimate, chance):
    """An error of .03 reaches .0588 to either side of the estimate, and the target is .1."""
    target = TargetMet(
        metric="demographic_parity", kind=kind, value=0.1, estimate=estimate, error=0.03, met="undecided"
    )
    said = _target_line(target)
    assert ("undecided, because the largest of several gaps may look so by chance." in said) == chance
    assert "missed" in _target_line(replace(target, met="no"))


# 500 runs notice a true rate of .14 with a chance of 99 %, at a false-alarm rate of 1e-6.
WRONG, N_RUNS = 0.05, 500


def certificate_of(rng, sizes, rates, *, epsilon, base=0.25, skill=0.0):
    """A certificate's counts of records drawn from a population with these rates of positive decisions by group.

    ``skill`` moves positive decisions from label 0 to label 1, by this difference between the two rates.
    """
    true = []
    for size, rate in zip(sizes, rates, strict=True):
        positives = rng.binomial(size, base)
        for_positive, for_negative = rate + skill * (1 - base), rate - skill * base
        yes, no = rng.binomial(positives, for_positive), rng.binomial(size - positives, for_negative)
        true.append([[size - positives - no, no], [positives - yes, yes]])
    counts = release_counts(np.array(true), epsilon=epsilon, rand_below=lambda bound: int(rng.integers(bound)))
    return Certificate(
        registration=Preregistration(),
        epsilons=(epsilon,) * len(sizes),
        group_names=tuple(f"group {index}" for index in range(len(sizes))),
        expected_sizes=tuple(map(float, sizes)),
        counts=tuple(tuple(tuple(map(int, row)) for row in group) for group in counts),
        gaps={},
    )


def words_of(certificates, limit, *, kind="max_gap", without_errors=False):
    """The statement about a target after each of these certificates."""
    found = []
    for certificate in certificates:
        seen = certified_evidence(certificate, "demographic_parity")
        if without_errors:
            seen = replace(seen, errors=np.zeros_like(seen.errors))
        found.append(met(seen, limit, kind=kind)[1])
    return found


CASES = {
    "two groups": ([2000, 1500], [0.20, 0.25], 1.0),
    "much noise": ([2000, 1500], [0.20, 0.25], 0.05),
    "small groups": ([120, 80], [0.05, 0.10], 1.0),
    "rare decisions": ([3000, 300], [0.0, 0.05], 0.5),
    "five groups": ([3000, 1000, 900, 400, 30], [0.2, 0.2, 0.25, 0.22, 0.25], 1.0),
}


@pytest.mark.parametrize("case", CASES)
def test_met_is_seldom_said_of_a_target_that_is_missed(case):
    sizes, rates, epsilon = CASES[case]
    rng = np.random.default_rng(1)
    runs = (certificate_of(rng, sizes, rates, epsilon=epsilon) for _ in range(N_RUNS))
    # The gap is .05: beyond .03 by just what is tolerated.
    assert_rate_at_most(words_of(runs, 0.03).count("yes"), N_RUNS, WRONG)


@pytest.mark.parametrize("case", CASES)
def test_missed_is_seldom_said_of_a_target_that_is_met(case):
    sizes, rates, epsilon = CASES[case]
    rng = np.random.default_rng(2)
    runs = (certificate_of(rng, sizes, rates, epsilon=epsilon) for _ in range(N_RUNS))
    assert_rate_at_most(words_of(runs, 0.05).count("no"), N_RUNS, WRONG)


def test_a_ratio_that_is_missed_is_seldom_called_met():
    rng = np.random.default_rng(3)
    low = (0.8 - TOLERANCE) * 0.25
    runs = (certificate_of(rng, [2000, 1500], [low, 0.25], epsilon=1.0) for _ in range(N_RUNS))
    assert_rate_at_most(words_of(runs, 0.8, kind="min_ratio").count("yes"), N_RUNS, WRONG)


@pytest.mark.parametrize(("limit", "word"), [(0.03, "yes"), (0.05, "no")])
def test_those_checks_notice_counts_that_are_taken_as_exact(limit, word):
    sizes, rates, epsilon = CASES["small groups"]
    rng = np.random.default_rng(4)
    runs = (certificate_of(rng, sizes, rates, epsilon=epsilon) for _ in range(N_RUNS))
    with pytest.raises(AssertionError):
        assert_rate_at_most(words_of(runs, limit, without_errors=True).count(word), N_RUNS, WRONG)


def test_enough_records_decide():
    """The price of caution: with many records a plain case is decided either way, nearly always."""
    rng = np.random.default_rng(5)
    runs = [certificate_of(rng, [20_000, 15_000], [0.20, 0.22], epsilon=1.0) for _ in range(200)]
    assert words_of(runs, 0.03).count("yes") > 190
    runs = [certificate_of(rng, [20_000, 15_000], [0.20, 0.27], epsilon=1.0) for _ in range(200)]
    assert words_of(runs, 0.03).count("no") > 190


@pytest.mark.parametrize("base", [0.03, 0.25, 0.5])
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_learnt_is_seldom_said_of_decisions_that_ignore_the_label(base, epsilon):
    rng = np.random.default_rng(6)
    said = [
        judged_quality(
            certified_evidence(
                certificate_of(rng, [900, 600], [0.2, 0.2], epsilon=epsilon, base=base), "demographic_parity"
            )
        ).learnt
        for _ in range(N_RUNS)
    ]
    assert_rate_at_most(said.count("yes"), N_RUNS, WRONG)


def test_learnt_is_said_of_decisions_that_follow_the_label():
    rng = np.random.default_rng(7)
    runs = [certificate_of(rng, [9000, 6000], [0.2, 0.2], epsilon=1.0, skill=0.5) for _ in range(200)]
    said = [judged_quality(certified_evidence(run, "demographic_parity")).learnt for run in runs]
    assert said.count("yes") > 190


LINE = tuple(0.6 * np.sign(u) * abs(u) ** 1.7 for u in np.linspace(-1, 1, 65))
SHARES = np.array([0.45, 0.15, 0.22, 0.18])


def population(rng, n_records):
    """Chances of the four cells, which the inputs tell a little about, and a cell drawn by them."""
    inputs = rng.normal(size=(n_records, 2))
    logits = np.log(SHARES) + inputs @ np.array([[0.9, -0.9, 0.5, -0.5], [0.4, 0.4, -0.4, -0.4]])
    chances = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    cells = (rng.random((n_records, 1)) > chances.cumsum(1)).sum(1).clip(max=3)
    return chances, cells


def frontier_of(rng, chances, cells, *, noise):
    """A frontier of these records, as `read_frontier` releases it."""
    events, prices = Events("demographic_parity", 2), np.array([-1.0, 1.0])
    sizes = np.bincount(cells, minlength=4) + rng.normal(0, 3 * noise, 4)
    pulls = chances @ events.pulls(prices, sizes)
    sketch = sketch_of(changes_of(chances @ plain_values(4, 1.0), pulls, cells, 4, np.array(LINE)))
    ranking = exact_ranking(chances[:, 1::2].sum(1), cells % 2)
    return Frontier(
        parity="demographic_parity",
        cost_ratio=1.0,
        cell_sizes=tuple(sizes),
        cells_std=3 * noise,
        prices=tuple(prices),
        shift=0.0,
        positions=LINE,
        sketch=tuple(map(tuple, sketch + rng.normal(0, noise, sketch.shape))),
        sketch_std=noise,
        looked=(),
        ranking=tuple(map(tuple, ranking + rng.normal(0, 3 * noise, ranking.shape))),
        ranking_std=3 * noise,
    )


@pytest.mark.parametrize(("n_records", "noise"), [(8000, 4.0), (1000, 40.0)])
def test_training_records_never_call_a_target_met(n_records, noise):
    """A model fits them better than others; the same counts of held-out records would say yes."""
    rng = np.random.default_rng(8)
    frontier = frontier_of(rng, *population(rng, n_records), noise=noise)
    seen = sketched_evidence(frontier, choose(frontier, Target(max_gap=0.03, min_ratio=0.0, price=np.inf)).position)
    exact = replace(seen, errors=np.full_like(seen.errors, 1e-6), rates=np.full_like(seen.rates, 0.3))
    assert met(exact, 0.03, kind="max_gap")[1] == "undecided"
    assert met(replace(exact, counted_on=HELD_OUT), 0.03, kind="max_gap")[1] == "yes"
