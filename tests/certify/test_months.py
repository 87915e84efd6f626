"""Twelve monthly certificates of one model hold all together: years of them, where the bound is as tight as it gets.

Two groups, one metric registered beforehand, and a gap well above its slack, so that a miss is one-sided and spends
nearly all of its level. Counts, noise and bounds are made as `fairdp certify` makes them.
"""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from fairdp.certify.certificate import in_series
from fairdp.config import Preregistration
from fairdp.ledger.store import ENDLESS
from fairdp.randomness import Generators
from fairdp.run.certifying import release_certificate
from statistical import assert_rate_at_most

ALPHA, YEARS, MONTHS = 0.05, 80, 12
SIZE, RATES, EPSILON = 3000, (0.5, 0.3), 8.0
GAP = RATES[0] - RATES[1]
# Of the difference of the two rates, that of the noise included.
DEVIATION = np.sqrt(sum(rate * (1 - rate) / SIZE for rate in RATES))
REGISTERED = Preregistration(confidence=1 - ALPHA, metrics=("demographic_parity",))

pytestmark = pytest.mark.more


@cache
def counted() -> np.ndarray:
    """Records by year, month, group, label and decision; labels are as frequent as not, and say nothing."""
    rng = np.random.default_rng(12)
    shares = [[(1 - rate) / 2, rate / 2, (1 - rate) / 2, rate / 2] for rate in RATES]
    drawn = np.stack([rng.multinomial(SIZE, share, size=(YEARS, MONTHS)) for share in shares], axis=2)
    return drawn.reshape(YEARS, MONTHS, len(RATES), 2, 2)


@cache
def tau_of(year: int, month: int, series: tuple[int, int] | None) -> float:
    """The bound of one month; the noise is the same whatever the level."""
    made = release_certificate(
        counted()[year, month],
        group_names=("f", "m"),
        registration=in_series(REGISTERED, series),
        epsilons=(EPSILON, EPSILON),
        expected_sizes=(float(SIZE), float(SIZE)),
        rand_below=Generators.of(7).below(f"year {year}, month {month}"),
    )
    return made.gaps["demographic_parity"].tau


@cache
def missed_alone() -> tuple[tuple[int, int], ...]:
    """Months whose own certificate at the full level misses the gap.

    Only those are computed where the rates differ so much less than they should that a bound may miss.
    """
    positive = counted()[..., 1].sum(-1) / SIZE
    low = (positive[..., 0] - positive[..., 1] - GAP) / DEVIATION
    taus = {(year, month): tau_of(year, month, None) for year, month in zip(*np.nonzero(low < -1), strict=True)}
    # The least of those that are left out is far from a miss.
    nearest = [tau - GAP for (year, month), tau in taus.items() if low[year, month] > -1.2]
    assert len(nearest) > 10
    assert min(nearest) > 0.1 * DEVIATION
    return tuple(which for which, tau in taus.items() if tau < GAP)


def years_with_a_miss(series: int | None) -> int:
    """Years in which any certificate claims less than the gap; more confidence never claims less."""
    wrong = set()
    for year, month in missed_alone():
        place = None if series is None else (month + 1, series)
        tau = tau_of(year, month, place)
        assert tau >= tau_of(year, month, None)
        if tau < GAP:
            wrong.add(year)
    return len(wrong)


@pytest.mark.parametrize("series", [MONTHS, ENDLESS], ids=["of twelve", "without end"])
def test_all_certificates_of_a_year_hold_as_often_as_one_is_said_to(series):
    """80 years notice a rate of .27 with a chance of one half, at a false-alarm rate of 1e-6."""
    assert_rate_at_most(years_with_a_miss(series), YEARS, ALPHA)


def test_each_month_at_the_full_level_fails_that_check():
    wrong = years_with_a_miss(None)
    with pytest.raises(AssertionError):
        assert_rate_at_most(wrong, YEARS, ALPHA)


def test_the_bound_is_tight_here():
    """Single certificates miss nearly as often as they may, and no more often."""
    months = YEARS * MONTHS
    assert len(missed_alone()) > 0.6 * ALPHA * months
    assert_rate_at_most(len(missed_alone()), months, ALPHA)


def test_the_page_has_these_numbers():
    page = (Path(__file__).parents[2] / "docs" / "explanation" / "ledger.md").read_text()
    for named, series in (("each month at the full level", None), ("`--of 12`", MONTHS), ("`--of 0`", ENDLESS)):
        assert f"| {named} | {years_with_a_miss(series)} of {YEARS} |" in page
    assert f"{len(missed_alone())} of {YEARS * MONTHS} single certificates" in page
