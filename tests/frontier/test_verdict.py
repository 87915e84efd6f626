"""Each word of the verdict, by hand, from evidence of known errors."""

import math
from dataclasses import replace

import numpy as np
import pytest

from fairdp.frontier.advice import _target
from fairdp.frontier.events import Events
from fairdp.frontier.evidence import HELD_OUT, TRAINING, Evidence
from fairdp.frontier.judging import Quality, TargetMet, is_collapsed, judged_quality, met, verdict_of
from fairdp.frontier.ranking import Chance, Estimate

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
    said = _target(target)
    assert ("undecided, because the largest of several gaps may look so by chance." in said) == chance
    assert "missed" in _target(replace(target, met="no"))
