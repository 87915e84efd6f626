import pytest

from fairdp.certify.arms import NoisyArm
from fairdp.certify.gaps import gap_bound
from fairdp.certify.widths import expected_slack, expected_widths, fraction_for_width

PLAN = {"group_sizes": (10_000, 20_000), "epsilon": 1.0, "confidence": 0.95, "positive_rate": 0.2, "label_rate": 0.25}
CERTIFIED = [
    # sizes, rates, epsilon, folds, and the slack of the certificate at typical counts, at 5 %
    ((1077, 2179), (0.08, 0.13), 1.0, 2, 0.0196),
    ((2154, 4358), (0.08, 0.13), 1.0, 2, 0.0138),
    ((3231, 6537), (0.08, 0.13), 1.0, 2, 0.0112),
    ((2154, 4358), (0.028, 0.076), 1.0, 2, 0.0097),
    ((118, 666), (0.16, 0.20), 1.0, 1, 0.0651),
    ((236, 1332), (0.16, 0.20), 1.0, 1, 0.0458),
    ((354, 1998), (0.16, 0.20), 1.0, 1, 0.0375),
    ((236, 1332), (0.5, 0.6), 1.0, 1, 0.0633),
    ((2154, 4358), (0.08, 0.13), 0.5, 2, 0.0141),
    ((118, 666), (0.16, 0.20), 0.5, 1, 0.0743),
    ((236, 1332), (0.16, 0.20), 0.5, 1, 0.0488),
    ((2154, 4358), (0.08, 0.13), 0.1, 2, 0.0220),
    ((236, 1332), (0.16, 0.20), 4.0, 1, 0.0458),
]


def slack(sizes, rates, epsilon, folds):
    return expected_slack(sizes=sizes, rates=rates, epsilon=epsilon, failure_probability=0.05, folds=folds)


@pytest.mark.parametrize(("sizes", "rates", "epsilon", "folds", "certified"), CERTIFIED)
def test_the_estimate_is_close_where_it_says_so(sizes, rates, epsilon, folds, certified):
    assert slack(sizes, rates, epsilon, folds) == pytest.approx(certified, rel=0.05)


def test_the_estimate_is_less_close_at_rates_near_zero():
    assert slack((1918, 3026), (0.012, 0.021), 1.0, 1) == pytest.approx(0.0069, rel=0.08)


def test_the_certificate_itself_is_that_wide():
    arms = [NoisyArm(positive=38, negative=198, epsilon=1.0, folds=1)]
    arms += [NoisyArm(positive=266, negative=1066, epsilon=1.0, folds=1)]
    width = gap_bound(arms, failure_probability=0.05).tau - (266 / 1332 - 38 / 236)
    assert slack((236, 1332), (0.16, 0.20), 1.0, 1) == pytest.approx(width, rel=0.05)


@pytest.mark.parametrize(("sizes", "certified"), [((236, 1332), 0.1261), ((118, 666), 0.2629)])
def test_the_estimate_is_too_small_where_it_says_so(sizes, certified):
    assert 0.72 * certified < slack(sizes, (0.16, 0.20), 0.1, 1) < 0.8 * certified


def test_the_slack_by_hand():
    # ν = 1.8413; .25/100 + ν/2/100² = .00259207, the same twice: 1.05 · 1.64485 · √.00518413 = .12435.
    assert slack((100, 100), (0.5, 0.5), 1.0, 1) == pytest.approx(0.12435, abs=1e-5)
    assert slack((100, 9000, 100), (0.5, 0.5, 0.5), 1.0, 1) == pytest.approx(0.12435, abs=1e-5)
    assert slack((1, 1), (0.5, 0.5), 1.0, 1) == 1.0
    assert slack((100, 100), (0.5, 0.5), 1.0, 1) < slack((100, 100), (0.5, 0.5), (1.0, 0.1), 1)


def test_widths_are_those_of_the_cells():
    widths = expected_widths(**PLAN, certify_fraction=0.2, metrics=("demographic_parity",))
    # Groups of 2,000 and 4,000 at the full 5 %: 1.05 · 1.64485 · √(.16 · (1/2000 + 1/4000)) = .01892, noise nearly nil;
    # skewness adds 1.64485² · .6 / 4000 = .00041.
    assert widths == {"demographic_parity": pytest.approx(0.01933, rel=0.005)}
    cells = expected_slack(sizes=(500, 1000), rates=(0.2, 0.2), epsilon=1.0, failure_probability=0.05 * 0.6, folds=1)
    # The normal quantile at 3 % is 1.88079: 1.88079² · .6 / 1000.
    together = expected_widths(**PLAN, certify_fraction=0.2)["equal_opportunity"]
    assert together == pytest.approx(cells + 0.0021224, abs=1e-6)


def test_equalized_odds_is_as_wide_as_the_wider_of_its_two_rates():
    # Where positives are the many, the false-positive rates are the less certain ones.
    few, many = (
        expected_widths(**{**PLAN, "label_rate": rate}, certify_fraction=0.2, metrics=("equalized_odds",))
        for rate in (0.25, 0.75)
    )
    assert few["equalized_odds"] == pytest.approx(many["equalized_odds"])
    together = expected_widths(**{**PLAN, "label_rate": 0.75}, certify_fraction=0.2)
    assert together["equalized_odds"] > together["equal_opportunity"]


def test_the_fraction_is_the_smallest_that_is_enough():
    fraction = fraction_for_width(0.05, **PLAN)
    assert fraction == round(fraction, 3)
    assert max(expected_widths(**PLAN, certify_fraction=fraction).values()) <= 0.05
    assert max(expected_widths(**PLAN, certify_fraction=fraction - 0.001).values()) > 0.05


def test_the_fraction_by_hand():
    # Without noise .0795 of the records give 1.05 · 1.64485 · √(.16 · 1.5 / 795) = .03; the noise adds a little, and
    # skewness 1.64485² · .6 / (2 · 795) = .001, a thirtieth of the width, so that a fifteenth more are needed.
    fraction = fraction_for_width(0.03, **PLAN, metrics=("demographic_parity",))
    assert fraction == pytest.approx(0.0865, abs=0.0016)


def test_no_fraction_may_be_enough():
    assert fraction_for_width(0.005, **PLAN) is None
    assert fraction_for_width(1.0, **PLAN) == 0.001


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"certify_fraction": 1.5}, r"^certify_fraction must be in \(0, 1\), got 1\.5\.$"),
        ({"label_rate": 0.0}, r"^label_rate must be in \(0, 1\), got 0\.0\.$"),
        ({"metrics": ("parity",)}, r"^certify_metrics must be one of .*; got 'parity'\.$"),
        ({"epsilon": 0.0}, r"^epsilon must be positive, got 0\.0\.$"),
        ({"group_sizes": (10, 0)}, r"^sizes must be positive, got 0\.0\.$"),
    ],
)
def test_bad_input_is_named(changes, message):
    with pytest.raises(ValueError, match=message):
        expected_widths(**{**PLAN, "certify_fraction": 0.2, **changes})


def test_a_bad_width_is_named():
    with pytest.raises(ValueError, match=r"^width must be positive, got -1\.$"):
        fraction_for_width(-1, **PLAN)
