"""Rates of groups and attributes from released counts: hand values, and intervals that hold as often as they say."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from fairdp.certify import rates as rates_module
from fairdp.certify.bounds import arms_of, laplace_sum, noise_quantile, noise_reach, release_counts, score_box_bound
from fairdp.certify.certificate import certify
from fairdp.certify.outlook import cost_in_tau, expected_widths
from fairdp.certify.rates import (
    NoisySum,
    Rate,
    cost_of_scores,
    estimated_metrics,
    group_table,
    over_largest,
    parts_of,
    rate_of,
    tables_by_attribute,
    upper_rate,
)
from statistical import assert_rate_at_most

pytestmark = pytest.mark.usefixtures("rough_bounds")

NAMES = ("f & n", "f & s", "m & n", "m & s")
# By group, label and decision.
COUNTS = np.array([[[60, 20], [5, 15]], [[100, 20], [10, 30]], [[30, 30], [10, 40]], [[80, 20], [20, 80]]])
RATES = ("base_rate", "selection_rate", "true_positive_rate", "false_positive_rate", "accuracy")


def certificate_of(counts, *, names=NAMES, epsilon=1.0, **options):
    sizes = (200.0,) * len(names)
    return certify(
        counts, epsilon=epsilon, group_names=names, expected_sizes=sizes, metrics=("demographic_parity",), **options
    )


@pytest.fixture
def quick_rates(monkeypatch):
    """Ends of intervals that take no time, and follow from all that they are made of."""

    def upper(positive, negative, *, failure_probability):
        share, draws = rates_module.share(positive.value, negative.value), (*positive.epsilons, *negative.epsilons)
        return share if math.isnan(share) else min(1.0, share + failure_probability + 0.001 * sum(draws))

    monkeypatch.setattr(rates_module, "upper_rate", upper)


class TestGroups:
    @pytest.mark.usefixtures("quick_rates")
    def test_estimates_are_those_of_the_counts(self):
        first = group_table(certificate_of(COUNTS))[0]
        assert (first.name, first.n) == ("f & n", 100)
        found = {name: getattr(first, name).estimate for name in RATES}
        # 20 of 100 have label 1; 35 are accepted, 15 of 20 and 20 of 80; 60 + 15 are right.
        expected = dict(zip(RATES, (0.2, 0.35, 0.75, 0.25, 0.75), strict=True))
        assert found == pytest.approx(expected)
        for name in RATES:
            rate = getattr(first, name)
            assert 0 <= rate.low < rate.estimate < rate.high <= 1

    @pytest.mark.usefixtures("quick_rates")
    def test_selection_rates_are_those_of_the_certificate(self):
        made = certificate_of(COUNTS)
        own = {row.name: row.selection_rate.estimate for row in group_table(made)}
        assert own == pytest.approx(estimated_metrics(made)["positive_rate_by_group"])

    def test_every_rate_knows_its_noise_and_its_share_of_the_failure_probability(self):
        """Sums of two cells have two draws; five rates of two groups, both ends; decisions have what scores leave."""
        made = certificate_of(COUNTS[:2], names=NAMES[:2], score_share=0.5, epsilon=2.0)
        row, part = group_table(made)[0], 0.05 / (5 * 2 * 2)
        for kind, rate in (("positive", row.selection_rate), ("true_positive", row.true_positive_rate)):
            arm = arms_of(COUNTS[:2], kind, (1.0, 1.0))[0]
            assert rate.high == score_box_bound(arm, failure_probability=part)
            assert rate.low == 1 - score_box_bound(arm.mirrored(), failure_probability=part)
        right, wrong = NoisySum(75, (1.0, 1.0)), NoisySum(25, (1.0, 1.0))
        assert row.accuracy == rate_of(right, wrong, failure_probability=2 * part, estimate=0.75)

    def test_noise_that_left_nothing_is_no_crash(self):
        row = group_table(certificate_of(-COUNTS))[0]
        assert row.n == -100
        assert all(math.isnan(getattr(row, name).estimate) for name in RATES)
        assert (row.accuracy.low, row.accuracy.high) == (0.0, 1.0)


@pytest.mark.usefixtures("quick_rates")
class TestAttributes:
    def test_groups_add_up_to_their_values(self):
        tables = tables_by_attribute(certificate_of(COUNTS), ("sex", "region"))
        assert list(tables) == ["sex", "region", "sex & region"]
        assert [(row.name, row.n) for row in tables["sex"]] == [("f", 260), ("m", 310)]
        assert [(row.name, row.n) for row in tables["region"]] == [("n", 210), ("s", 360)]
        assert [row.name for row in tables["sex & region"]] == list(NAMES)
        # 35 + 50 of 260, and 70 + 100 of 310.
        assert [row.selection_rate.estimate for row in tables["sex"]] == pytest.approx([85 / 260, 170 / 310])

    def test_a_sum_has_the_noise_of_all_its_groups_and_all_tables_hold_together(self):
        tables = tables_by_attribute(certificate_of(COUNTS))
        part, ones = 0.05 / (5 * 8), (1.0,) * 4
        expected = rate_of(NoisySum(85, ones), NoisySum(175, ones), failure_probability=part, estimate=85 / 260)
        assert tables["attribute 1"][0].selection_rate == expected

    def test_names_that_do_not_come_apart_stay_whole(self):
        assert parts_of(("a & b", "c"), ("sex", "race")) == {"sex & race": {"a & b": (0,), "c": (1,)}}
        assert parts_of(("a", "b"), ("sex",)) == {"sex": {"a": (0,), "b": (1,)}}
        assert list(parts_of(("a & b & c", "d & e & f"))) == [
            *(f"attribute {place}" for place in (1, 2, 3)),
            "attribute 1 & attribute 2 & attribute 3",
        ]

    def test_impact_ratios_are_rates_over_the_largest(self):
        rows = tables_by_attribute(certificate_of(COUNTS), ("sex", "region"))["sex"]
        found = over_largest({row.name: row.selection_rate for row in rows})
        female, male = (row.selection_rate for row in rows)
        assert found["m"].estimate == 1.0
        assert found["f"].estimate == pytest.approx((85 / 260) / (170 / 310))
        assert found["f"].low == pytest.approx(female.low / male.high)
        assert found["f"].high == pytest.approx(female.high / male.low)

    def test_nobody_selected_is_no_crash(self):
        refused = COUNTS * np.array([1, -1])
        found = over_largest({row.name: row.selection_rate for row in group_table(certificate_of(refused))})
        assert all(math.isnan(ratio.estimate) and ratio.high == 1.0 for ratio in found.values())


class TestOneRate:
    def test_noise_reach_is_exact_for_one_draw_and_covers_sums(self):
        for epsilon, level in ((0.1, 0.01), (0.7, 1e-4), (3.0, 0.3)):
            assert noise_reach((epsilon,), level) == noise_quantile(epsilon, 1, level)
            exact = noise_quantile(epsilon, 6, level)
            assert exact <= noise_reach((epsilon,) * 6, level) <= 1.6 * exact + 3

    def test_sums_of_different_noises_are_covered(self):
        law, level = laplace_sum(0.5, 2).plus(laplace_sum(1.5, 1)), 1e-3
        reach = noise_reach((0.5, 1.5, 0.5), level)
        assert law.at_least(np.array([reach + 1]))[0] <= level
        # Without the first two draws it would not be.
        assert law.at_least(np.array([noise_reach((1.5,), level) + 1]))[0] > level

    def test_without_noise_to_speak_of_the_bound_is_that_of_clopper_and_pearson(self):
        """At epsilon 60 a reach is zero; half of the probability is for the draw of the people."""
        own = upper_rate(NoisySum(3, (60.0,)), NoisySum(17, (60.0, 60.0)), failure_probability=0.1)
        expected = stats.binomtest(3, 20).proportion_ci(1 - 2 * 0.05, "exact").high
        assert own == pytest.approx(expected)

    def test_each_count_may_be_off_by_the_reach_of_its_noise(self):
        """By hand: more positives and fewer negatives by the reach, each at a quarter of the probability."""
        one, two = (0.5,), (0.5, 0.25)
        more, fewer = noise_reach(one, 0.025), noise_reach(two, 0.025)
        assert 0 < more < fewer < 40
        own = upper_rate(NoisySum(30, one), NoisySum(170, two), failure_probability=0.1)
        n_people = 30 + more + 170 - fewer
        assert own == pytest.approx(stats.binomtest(30 + more, n_people).proportion_ci(1 - 2 * 0.05, "exact").high)

    def test_which_bound_is_taken_does_not_depend_on_counts(self, monkeypatch):
        taken = []
        monkeypatch.setattr(rates_module, "score_box_bound", lambda arm, **_: taken.append(arm) or 0.5)
        for value in (-5, 0, 1000):
            upper_rate(NoisySum(value, (1.0,)), NoisySum(10, (1.0,)), failure_probability=0.1)
            upper_rate(NoisySum(value, (1.0,)), NoisySum(10, (1.0, 1.0)), failure_probability=0.1)
            upper_rate(NoisySum(value, (0.01,)), NoisySum(10, (0.01,)), failure_probability=0.1)
        assert len(taken) == 3

    def test_counts_that_say_nothing_bound_nothing(self):
        for positive, negative in ((5, -100), (-100, 5), (0, 0)):
            sums = NoisySum(positive, (0.5,)), NoisySum(negative, (0.5, 0.5))
            assert upper_rate(*sums, failure_probability=0.01) == 1.0


SIZE, TRUE, LEVEL, EPSILONS = 150, 0.2, 0.2, (0.05, 0.1, 0.1)


def misses(bound, n_runs=1000):
    """Miss rate of an upper bound on the rate behind a count with one draw of noise and one with two."""
    rng, missed = np.random.default_rng(1), 0
    for _ in range(n_runs):
        positive = rng.binomial(SIZE, TRUE)
        cells = np.array([[[positive]], [[SIZE - positive]], [[0]]])
        noisy = release_counts(cells, epsilon=EPSILONS, rand_below=lambda below: int(rng.integers(below))).ravel()
        sums = NoisySum(int(noisy[0]), EPSILONS[:1]), NoisySum(int(noisy[1:].sum()), EPSILONS[1:])
        missed += bound(*sums, failure_probability=LEVEL) < TRUE
    return missed, n_runs


def test_a_bound_from_unequal_sums_fails_no_more_often_than_stated():
    """A thousand runs notice a true rate of about .27 against .2; false-alarm rate 1e-6."""
    assert_rate_at_most(*misses(upper_rate), limit=LEVEL)


def test_that_check_notices_a_bound_that_forgets_the_noise():
    def exact(positive, negative, *, failure_probability):
        without = (NoisySum(max(0, total.value), (60.0,) * len(total.epsilons)) for total in (positive, negative))
        return upper_rate(*without, failure_probability=failure_probability)

    with pytest.raises(AssertionError):
        assert_rate_at_most(*misses(exact), limit=LEVEL)


# Joint chances of label and decision in two groups, and all rates that follow from them.
CHANCES = np.array([[[0.5, 0.2], [0.1, 0.2]], [[0.3, 0.1], [0.2, 0.4]]])


def true_rates(cells):
    (tn, fp), (fn, tp) = cells
    return fn + tp, fp + tp, tp / (fn + tp), fp / (fp + tn), tn + tp


def tables_missed(n_runs):
    """Number of tables that miss at least one of their ten rates."""
    rng, missed = np.random.default_rng(2), 0
    made = certificate_of(COUNTS[:2], names=NAMES[:2])
    for _ in range(n_runs):
        exact = np.array([rng.multinomial(120, cells.ravel()).reshape(2, 2) for cells in CHANCES])
        noisy = release_counts(exact, epsilon=1.0, rand_below=lambda below: int(rng.integers(below)))
        rows = group_table(replace(made, counts=noisy.tolist()))
        missed += any(
            not (own := getattr(row, name)).low <= true <= own.high
            for row, cells in zip(rows, CHANCES, strict=True)
            for name, true in zip(RATES, true_rates(cells), strict=True)
        )
    return missed, n_runs


def test_that_check_of_tables_notices_intervals_without_a_margin(monkeypatch):
    def bare(*_, estimate, **__):
        return Rate(estimate=estimate, low=estimate, high=estimate)

    monkeypatch.setattr(rates_module, "rate_of", bare)
    with pytest.raises(AssertionError):
        assert_rate_at_most(*tables_missed(40), limit=0.05)


@pytest.mark.more
def test_all_intervals_of_a_table_hold_together_as_often_as_stated():
    """Forty tables notice a true rate of .4 against .05; the negative control misses every time."""
    assert_rate_at_most(*tables_missed(40), limit=0.05)


class TestCost:
    def test_it_is_the_difference_of_two_expected_widths(self):
        made = certificate_of(COUNTS, score_share=0.3, epsilon=0.5)
        found = cost_of_scores(made)
        selected, labelled = COUNTS[..., 1].sum() / COUNTS.sum(), COUNTS[:, 1].sum() / COUNTS.sum()
        known = {
            **{"group_sizes": (1000,) * 4, "certify_fraction": 0.2, "epsilon": 0.5, "confidence": 0.95},
            **{"positive_rate": selected, "label_rate": labelled, "metrics": ("demographic_parity",)},
        }
        wide, narrow = (expected_widths(**known, score_share=share)["demographic_parity"] for share in (0.3, 0.0))
        assert found == {"demographic_parity": pytest.approx(wide - narrow)}
        assert 0 < wide - narrow < narrow

    def test_nothing_kept_costs_nothing(self):
        assert cost_of_scores(certificate_of(COUNTS)) == {"demographic_parity": 0.0}
        assert math.isnan(cost_of_scores(certificate_of(-COUNTS, score_share=0.1))["demographic_parity"])

    def test_a_larger_share_costs_more(self):
        registration = certificate_of(COUNTS).registration
        known = {"sizes": (200.0, 300.0), "epsilon": 0.3, "positive_rate": 0.3, "label_rate": 0.4}
        costs = [
            cost_in_tau(replace(registration, score_share=share), **known)["demographic_parity"]
            for share in (0.0, 0.1, 0.3, 0.5)
        ]
        assert costs[0] == 0
        assert costs == sorted(costs)
