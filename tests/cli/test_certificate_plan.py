"""Plans of certificates: how wide they would be, and what other bounds would cost."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest

from fairdp._io import to_plain
from fairdp.certify.certificate import certify
from fairdp.certify.outlook import expected_widths
from fairdp.cli import main
from fairdp.errors import ParameterError
from fairdp.planning import answer_for_tau, plan_report

METRICS = ("demographic_parity", "equal_opportunity", "equalized_odds")
DEFAULTS = {
    "group_sizes": (10_000, 20_000),
    "method": "fairdp",
    "epsilon": 1.0,
    "delta": 1e-5,
    "sample_rate": None,
    "n_steps": 20,
    "clip_norm": None,
    "weight_bound": 1.0,
    "n_members": 10,
    "noise_allocation": "per_group",
}
PLAN = ("plan", "--method", "fairdp", "--epsilon", 1, "--group-sizes", "10000,20000", "--n-steps", 20)


def plan_of(**changes):
    return to_plain(plan_report(**{**DEFAULTS, **changes}))


def expected_counts(sizes, planned) -> np.ndarray:
    """Counts of groups that are as the plan guesses: the same rates everywhere, hence no gap."""
    labels, decisions = (np.array([1 - planned[rate], planned[rate]]) for rate in ("label_rate", "positive_rate"))
    cells = planned["fraction"] * np.outer(labels, decisions)
    return np.array([np.rint(size * cells) for size in sizes]).astype(np.int64)


@pytest.mark.parametrize(
    ("guesses", "epsilon", "tolerance"),
    [
        ({}, 1.0, 0.05),
        ({"positive_rate": 0.2, "certify_metrics": ("equal_opportunity",)}, 1.0, 0.05),
        ({"positive_rate": 0.5, "confidence": 0.9, "certify_metrics": ("equal_opportunity",)}, 0.5, 0.1),
        ({"positive_rate": 0.5, "label_rate": 0.75, "certify_metrics": ("equalized_odds",)}, 2.0, 0.05),
        ({"positive_rate": 0.02, "certify_metrics": ("demographic_parity",)}, 1.0, 0.08),
    ],
    ids=["default", "more positives", "half and half", "equalized odds", "few positives"],
)
def test_expected_widths_are_those_of_the_certificate_that_a_run_would_get(guesses, epsilon, tolerance):
    """To the tolerance that `expected_widths` states, and mostly closer."""
    report = plan_of(**guesses, epsilon=epsilon)
    planned, metrics = report["certificate"], guesses.get("certify_metrics", METRICS)
    made = certify(
        expected_counts(DEFAULTS["group_sizes"], planned),
        epsilon=tuple(report["privacy"]["certify_epsilons"].values()),
        confidence=planned["confidence"],
        metrics=metrics,
        group_names=("a", "b"),
        expected_sizes=tuple(planned["fraction"] * size for size in DEFAULTS["group_sizes"]),
    )
    widths = planned["expected_widths"]
    assert tuple(widths) == metrics
    assert widths == {name: pytest.approx(gap.tau, rel=tolerance) for name, gap in made.gaps.items()}


def test_looks_share_epsilon_and_are_planned_with_the_steps_of_their_heads():
    """The width is that of the bound which decides whether a look meets the requirement."""
    report = plan_of(n_looks=4, certify_metrics=("demographic_parity", "equal_opportunity"))
    planned = report["certificate"]
    made = certify(
        expected_counts(DEFAULTS["group_sizes"], planned),
        epsilon=tuple(report["privacy"]["certify_epsilons"].values()),
        metrics=("equal_opportunity",),
        require_tau=1e-6,
        n_looks=4,
        group_names=("a", "b"),
        expected_sizes=tuple(planned["fraction"] * size for size in DEFAULTS["group_sizes"]),
    )
    assert planned["expected_widths"]["equal_opportunity"] == pytest.approx(made.gaps["equal_opportunity"].tau, rel=0.1)
    least = min(report["privacy"]["certify_epsilons"].values())
    assert planned["epsilon_of_a_look"] == pytest.approx((1 - planned["score_share"]) * least / 4)
    assert (report["privacy"]["n_steps"], report["privacy"]["look_steps"]) == (23, 3)
    assert report["privacy"]["noise_multiplier"] > plan_of()["privacy"]["noise_multiplier"]
    with pytest.raises(ValueError, match=r"^n_looks=2 needs a model to look at during training, which method='fairfm'"):
        plan_of(n_looks=2, method="fairfm")


def test_the_plan_says_what_it_assumed():
    report = plan_of(certify_fraction=0.3, confidence=0.9, positive_rate=0.4, label_rate=0.5)["certificate"]
    assumed = {name: report[name] for name in ("fraction", "confidence", "positive_rate", "label_rate")}
    assert assumed == {"fraction": 0.3, "confidence": 0.9, "positive_rate": 0.4, "label_rate": 0.5}
    assert (report["target_width"], report["fraction_for_target_width"]) == (None, None)


def test_more_held_out_records_mean_narrower_bounds_and_fewer_to_train_on():
    few, many = (plan_of(certify_fraction=fraction) for fraction in (0.1, 0.4))
    for metric in METRICS:
        assert many["certificate"]["expected_widths"][metric] < few["certificate"]["expected_widths"][metric]
    assert many["expected_batch_sizes"][0] < few["expected_batch_sizes"][0]
    # A record is in one part only: the certificate takes nothing from the budget of the other.
    assert many["privacy"]["epsilon"] == few["privacy"]["epsilon"]


def test_the_fraction_for_a_width_is_the_smallest_that_reaches_it():
    fraction = plan_of(positive_rate=0.2, target_width=0.05)["certificate"]["fraction_for_target_width"]
    widths = {
        share: max(plan_of(positive_rate=0.2, certify_fraction=share)["certificate"]["expected_widths"].values())
        for share in (fraction, fraction - 0.001)
    }
    assert widths[fraction] <= 0.05 < widths[fraction - 0.001]


def test_a_width_out_of_reach_has_no_fraction():
    assert plan_of(target_width=0.001)["certificate"]["fraction_for_target_width"] is None


@pytest.mark.parametrize(
    "changes",
    [{"group_sizes": (5000,)}, {"epsilon": math.inf}, {"certify_fraction": 0.0}],
    ids=["one group", "no noise", "nothing held out"],
)
def test_no_certificate_is_planned_where_a_run_would_make_none(changes):
    report = plan_of(**changes)
    assert report["certificate"] is None
    # All records are trained on then.
    size, rate = report["group_sizes"][0], report["privacy"]["sample_rate"]
    assert report["expected_batch_sizes"][0] == pytest.approx(rate * size)


@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_theorem_2_says_nothing_at_the_papers_settings(epsilon):
    paper = plan_of(epsilon=epsilon, n_steps=None)["paper"]
    assert paper["theorem_2"] == paper["theorem_2_at_zero"] == {"printed": 1.0, "corrected": 1.0, "deployed": 1.0}
    # One over twice the root of ten heads.
    assert paper["monte_carlo_error"] == pytest.approx(0.158114, abs=1e-6)


def test_theorem_2_would_say_something_only_with_a_head_that_is_next_to_nothing():
    """Negative control: the bound is computed, and reaches less than one."""
    noisy = {"group_sizes": (50, 50), "epsilon": 0.01, "n_steps": 200, "sample_rate": 1.0}
    theorem = plan_of(certify_fraction=0.0, weight_bound=1e-6, **noisy)["paper"]["theorem_2"]
    # The mean of ten heads is the noisier one, so that its bound is the smaller one here.
    assert 0 < theorem["deployed"] < theorem["printed"] < theorem["corrected"] < 1


def test_theorem_2_cannot_choose_anything():
    """Adult's batches, 107.71 and 217.9, at σ = 100: s = 50 √(107.71⁻² + 217.9⁻²) = .51778, whatever η is.

    With M = 0: erf(½/(s√2)) = .6657 as printed, erf(1/(s√2)) = .9465 corrected, and erf(1/(s√20)) = .4586 for the mean
    of ten heads.
    """
    given = {"epsilon": None, "noise_multiplier": 100.0, "n_steps": 2000, "sample_rate": 0.01}
    adult = {"group_sizes": {"f": 10771, "m": 21790}, "noise_allocation": "per_group", **given}
    for rate, clip_norm in ((0.005, 1.0), (0.5, 1.0), (0.005, 3.0)):
        paper = plan_of(certify_fraction=0.0, sgd_learning_rate=rate, clip_norm=clip_norm, **adult)["paper"]
        assert paper["learning_rate"] == rate
        found = {"printed": 0.6657, "corrected": 0.9465, "deployed": 0.4586}
        assert paper["theorem_2_at_zero"] == {name: pytest.approx(value, abs=1e-4) for name, value in found.items()}


def test_theorem_2_without_a_bound_on_the_head_is_one():
    paper = plan_of(method="dpsgd")["paper"]
    assert paper["theorem_2"] == {"printed": 1.0, "corrected": 1.0, "deployed": 1.0}
    # The step size is the schedule's last.
    assert (paper["optimizer"], paper["learning_rate"]) == ("adam", 0.005)


@pytest.mark.parametrize(
    "changes",
    [{"epsilon": math.inf}, {"method": "clean"}, {"method": "fairfm"}, {"method": "fairdp_frontier"}],
    ids=["no noise", "not private", "no steps", "no linear score"],
)
def test_theorem_2_needs_a_linear_score_and_noise(changes):
    assert plan_of(**changes)["paper"] is None


@pytest.mark.parametrize(
    ("label_rate", "tau", "accuracy"), [(0.25, 0.1, 0.7750), (0.75, 0.1, 0.7750), (0.5, 0.2, 0.6), (0.1, 0.5, 0.95)]
)
def test_the_utility_ceiling_by_hand(label_rate, tau, accuracy):
    # 1 − π + π τ with the rarer label's share π.
    ceiling = plan_of(label_rate=label_rate, input_agnostic_tau=tau)["utility_ceiling"]
    assert ceiling == {"input_agnostic_tau": tau, "accuracy": pytest.approx(accuracy)}


@pytest.fixture
def run(capsys):
    def call(*arguments):
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return SimpleNamespace(code=stop.value.code, out=" ".join(out.split()), err=err)

    return call


def test_the_command_prints_widths_fraction_theorem_and_ceiling(run):
    result = run(*PLAN, "--target-width", 0.05)
    assert (result.code, result.err) == (0, "")
    assert "for a slack of 0.05" in result.out
    assert "expected slack, equal opportunity" in result.out
    assert "0.7750 under a bound of 0.1 for all inputs" in result.out
    assert "1.0000 as printed, 1.0000 corrected, 1.0000 as deployed; a diagnostic, not for this model" in result.out
    report = json.loads(run(*PLAN, "--target-width", 0.05, "--json").out)["certificate"]
    assert f"{report['fraction_for_target_width']:g} of the records" in result.out
    assert all(f"{width:.4f} above the observed gap" in result.out for width in report["expected_widths"].values())


def test_the_command_says_when_a_width_is_out_of_reach_and_when_there_is_no_certificate(run):
    assert "more than 0.9: not with these records" in run(*PLAN, "--target-width", 0.001).out
    result = run(*PLAN, "--certify-fraction", 0)
    assert result.code == 0
    assert "certificate none" in result.out


def test_options_reach_the_plan(run):
    options = ("--certify-fraction", 0.3, "--confidence", 0.9, "--positive-rate", 0.4, "--label-rate", 0.5)
    report = json.loads(run(*PLAN, *options, "--certify-metrics", "equal_opportunity", "--json").out)["certificate"]
    asked = {"confidence": 0.9, "positive_rate": 0.4, "label_rate": 0.5, "certify_metrics": ("equal_opportunity",)}
    assert report == plan_of(certify_fraction=0.3, **asked)["certificate"]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--certify-fraction", 1),
        ("--certify-fraction", -0.1),
        ("--certify-fraction", "nan"),
        ("--confidence", 1.5),
        ("--positive-rate", 0),
        ("--label-rate", 1),
        ("--target-width", -1),
        ("--target-width", "nan"),
        ("--input-agnostic-tau", 2),
        ("--certify-metrics", "parity"),
        ("--positive-rate", "many"),
    ],
)
def test_what_cannot_be_planned_is_refused_in_one_line(run, option, value):
    result = run(*PLAN, option, value)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("fairdp: ")
    assert result.err.count("\n") == 1
    assert option in result.err
    assert str(value) in result.err


@pytest.mark.parametrize("arguments", [("--certify-metrics", "parity"), ("--target-width", -1)])
def test_bad_values_are_refused_even_where_no_certificate_is_planned(run, arguments):
    result = run(*PLAN, "--certify-fraction", 0, *arguments)
    assert result.code == 2


def test_the_command_shows_what_looks_cost(run):
    text = run(*PLAN, "--looks", 4).out
    assert "23 steps (3 of them for looks)" in text
    assert "4 looks at the held-out records, each with 0.225 of their epsilon" in text


def test_the_plan_shows_what_counts_of_scores_cost():
    """The whole width is shown, and beside it the part due to the scores."""
    paid, free = (plan_of(score_share=share)["certificate"] for share in (0.3, 0.0))
    for metric, width in paid["expected_widths"].items():
        assert width - paid["cost_in_tau"][metric] == pytest.approx(free["expected_widths"][metric])
        assert 0 < paid["cost_in_tau"][metric] < width / 10
    assert set(free["cost_in_tau"].values()) == {0.0}
    with pytest.raises(ValueError, match=r"^score_share must be in \[0, 0.5\], got 0.6"):
        plan_of(score_share=0.6)


def test_the_command_shows_what_counts_of_scores_cost(run):
    assert "of it for scores up to 0.00" in run(*PLAN).out
    assert "of it for scores" not in run(*PLAN, "--score-share", 0).out


ASKED = {"group_sizes": (10771, 21790), "certify_fraction": 0.2, "epsilon": (1.0, 1.0), "budget": 1.0}
GUESSED = {"confidence": 0.95, "positive_rate": 0.1, "label_rate": 0.25}


def widest(records=1.0, epsilon=1.0, fraction=0.2):
    sizes = [round(records * size) for size in ASKED["group_sizes"]]
    return max(expected_widths(group_sizes=sizes, certify_fraction=fraction, epsilon=epsilon, **GUESSED).values())


@pytest.mark.parametrize(("tau", "gap"), [(0.05, 0.02), (0.1, 0.03), (0.3, 0.0)])
def test_what_is_said_to_be_enough_for_a_bound_is_and_a_little_less_is_not(tau, gap):
    answer = answer_for_tau(tau, gap, **ASKED, **GUESSED)
    assert answer["expected"] == pytest.approx(gap + widest())
    assert answer["reached"] == (answer["expected"] <= tau)
    scale = answer["records"] / sum(ASKED["group_sizes"])
    assert widest(records=scale) <= tau - gap < widest(records=0.85 * scale)
    assert widest(fraction=answer["fraction"]) <= tau - gap < widest(fraction=0.9 * answer["fraction"])
    if answer["epsilon"] is not None:
        assert widest(epsilon=answer["epsilon"]) <= tau - gap < widest(epsilon=0.85 * answer["epsilon"])


def test_no_epsilon_makes_up_for_too_few_records():
    answer = answer_for_tau(0.05, 0.045, **ASKED, **GUESSED)
    assert answer["epsilon"] is None
    assert widest(epsilon=1e3) > 0.005


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        ({"for_tau": 0.05, "gap": 0.05}, "cannot lie below the gap"),
        ({"for_tau": 1.5}, "for_tau"),
        ({"gap": 0.02}, "for_tau"),
    ],
)
def test_a_bound_that_cannot_be_is_refused(asked, line):
    with pytest.raises(ParameterError, match=line):
        plan_of(**asked)
