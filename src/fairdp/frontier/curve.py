"""The frontier of one training: what the noisy sketch tells about every price, and how surely."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fairdp.frontier.events import Events, Flags, Floats, plain_values, total_price
from fairdp.frontier.ranking import Estimate, area_under_curve
from fairdp.frontier.sketch import counts_of, covariance_of

# Prior of a rate along the positions: a line, and a smooth part of this height that bends over this part of them.
_HEIGHT, _LENGTH = 0.2, 0.05
# Looks at the end of the direction were taken around its last point, not at it.
_AROUND = 1.5
# Prices on both sides of none, closer together near it; or up to those that were found: beyond them, they are wrong.
LINE = tuple(0.6 * np.sign(u) * abs(u) ** 1.7 for u in np.linspace(-1, 1, 65))
RAY = tuple(np.linspace(0, 1, 33))
# A rate that is less certain than this is not compared with others.
MEASURABLE = 0.03
# Unless it is so many errors beyond those of all others.
_PLAINLY = 4.0


@dataclass(frozen=True, kw_only=True)
class Frontier:
    """Everything that was released after training, and what follows from it; public.

    Parameters
    ----------
    parity, cost_ratio
        Which rates are compared, and what a wrong refusal costs in wrong acceptances.
    cell_sizes, cells_std
        Noisy number of records of each group and label, and the deviation of its noise.
    prices, shift
        Price of each event at position 1, and what is added to everybody's value of a positive decision, for a rate of
        them that was aimed at.
    positions
        Multiples of these prices, rising; 0 is the rule without a target.
    sketch, sketch_std
        Noisy sums of `fairdp.frontier.sketch`, a row for each cell, and the deviation of their noise.
    looked
        Rates of the events at position 1 and their standard errors, where prices were found by looks; else empty.
    ranking, ranking_std
        Noisy records by label and probability, and the deviation of the noise.
    """

    parity: str
    cost_ratio: float
    cell_sizes: tuple[float, ...]
    cells_std: float
    prices: tuple[float, ...]
    shift: float
    positions: tuple[float, ...]
    sketch: tuple[tuple[float, ...], ...]
    sketch_std: float
    looked: tuple[tuple[float, float], ...]
    ranking: tuple[tuple[float, ...], ...]
    ranking_std: float

    @cached_property
    def events(self) -> Events:
        """The rates that are compared."""
        return Events(self.parity, len(self.cell_sizes) // 2)

    @property
    def sizes(self) -> Floats:
        """Noisy sizes of the cells, at least one each."""
        return np.maximum(np.array(self.cell_sizes), 1.0)

    @property
    def origin(self) -> int:
        """Index of the rule without a target."""
        return int(np.argmin(np.abs(self.positions)))

    @property
    def total_prices(self) -> Floats:
        """What is paid at each position, in points of accuracy for a point of gap."""
        return np.abs(self.positions) * total_price(np.array(self.prices))

    def values_at(self, position: float) -> Floats:
        """What a positive decision is worth in each cell under the prices of a position."""
        pulls = self.events.pulls(np.array(self.prices), self.sizes)
        return plain_values(len(self.cell_sizes), self.cost_ratio) + self.shift - position * pulls

    @cached_property
    def counts(self) -> Floats:
        """Noisy positive decisions of each cell at each position."""
        return counts_of(np.array(self.sketch))

    @cached_property
    def _covariance(self) -> Floats:
        return covariance_of(len(self.positions), self.sketch_std)

    @property
    def count_variances(self) -> Floats:
        """Variance of the noise on the count of one cell at each position."""
        return np.diag(self._covariance)

    @cached_property
    def rates(self) -> tuple[Floats, Floats]:
        """Rate of each event at each position and its standard error, smoothed along the positions.

        The posterior under a prior that is a line with free coefficients and a smooth part, given the sketch with its
        exact covariance, and the last looks at position 1. Sizes are noisy as well: their error is added.
        """
        n_points = len(self.positions)
        place = np.linspace(-0.5, 0.5, n_points)
        bend = np.exp(-0.5 * ((place[:, None] - place) / _LENGTH) ** 2)
        prior = 1.0 + 4.0 * np.outer(place, place) + _HEIGHT**2 * bend
        pick = np.eye(n_points)
        if self.looked:
            pick = np.vstack([pick, pick[np.argmin(np.abs(np.array(self.positions) - 1))]])
        found = [self._posterior(event, prior, pick) for event in range(len(self.events.members))]
        return np.array([rate for rate, _ in found]), np.array([error for _, error in found])

    def _posterior(self, event: int, prior: Floats, pick: Floats) -> tuple[Floats, Floats]:
        members = self.events.members[event]
        size = float(self.events.sizes(self.sizes)[event])
        seen, noise = members @ self.counts / size, self._covariance * members.sum() / size**2
        if self.looked:
            rate, error = self.looked[event]
            seen, noise = np.append(seen, rate), np.pad(noise, (0, 1))
            noise[-1, -1] = _AROUND * error**2
        known = pick @ prior
        gain = np.linalg.solve(known @ pick.T + noise + 1e-12 * np.eye(len(seen)), known).T
        rate = 0.5 + gain @ (seen - 0.5)
        variance = np.maximum(np.diag(prior - gain @ known), 0.0)
        return rate, np.sqrt(variance + members.sum() * (rate * self.cells_std / size) ** 2)

    @cached_property
    def measurable(self) -> Flags:
        """Events whose rate is certain enough to be compared, or plainly another one than that of the certain ones.

        In each band at least the two most certain ones.
        """
        errors, bands = np.median(self.rates[1], axis=1), self.events.bands
        rates, use = self.rates[0][:, self.origin], errors <= MEASURABLE
        for band in np.unique(bands):
            members = np.flatnonzero(bands == band)
            use[members[np.argsort(errors[members])[:2]]] = True
            certain = rates[members[use[members]]]
            away = np.maximum(certain.min() - rates[members], rates[members] - certain.max())
            use[members] |= away > _PLAINLY * errors[members]
        return use

    @cached_property
    def gaps(self) -> tuple[Floats, Floats]:
        """Largest gap between the rates of measurable events at each position, and its standard error."""
        return self._spread(ratio=False)

    @cached_property
    def ratios(self) -> tuple[Floats, Floats]:
        """Smallest ratio of two such rates at each position, and its standard error."""
        lack, error = self._spread(ratio=True)
        return 1 - lack, error

    @property
    def is_line(self) -> bool:
        """Whether there are two events, on both sides of the rule without a target."""
        return len(self.events.members) == 2 and self.positions[0] < 0

    def difference(self) -> Floats:
        """Rates of two events, weighted by their prices, along a line: a sum that can only fall."""
        return falling(np.array(self.prices) @ self.rates[0])

    @property
    def outwards(self) -> NDArray[np.int64]:
        """Indices of the rules on the side on which the gap is closed, from the one without a target on."""
        if self.is_line and np.sign(self.prices) @ self.compared[:, self.origin] < 0:
            return np.arange(self.origin, -1, -1)
        return np.arange(self.origin, len(self.positions))

    @cached_property
    def compared(self) -> Floats:
        """Rates of the events as they are compared: along a line moved as little as makes their difference fall."""
        rates, prices = self.rates[0], np.array(self.prices)
        if not self.is_line:
            return rates
        return rates + np.outer(prices, self.difference() - prices @ rates) / (prices @ prices)

    def _spread(self, *, ratio: bool) -> tuple[Floats, Floats]:
        rates, errors = self.compared, self.rates[1]
        bands = [np.flatnonzero((self.events.bands == band) & self.measurable) for band in np.unique(self.events.bands)]
        found = [spread_of(rates[members], errors[members], ratio=ratio) for members in bands]
        worst = np.max([value for value, _ in found], axis=0)
        # A band that seems better may be worse if less is known of it.
        return worst, np.max([value + error for value, error in found], axis=0) - worst

    @cached_property
    def accuracy(self) -> tuple[Floats, Floats]:
        """Accuracy at each position, counted on the training records, and its standard error."""
        n_cells, total = len(self.cell_sizes), float(self.sizes.sum())
        sign = np.where(np.arange(n_cells) % 2 == 1, 1.0, -1.0)
        value = (sign @ self.counts + self.sizes[::2].sum()) / total
        variance = self.count_variances * n_cells + n_cells / 2 * self.cells_std**2
        return value, np.sqrt(variance + value.clip(0, 1) * (1 - value.clip(0, 1)) * total) / total

    @property
    def positive_rates(self) -> Floats:
        """Share of positive decisions at each position."""
        return (self.counts.sum(0) / float(self.sizes.sum())).clip(0.0, 1.0)

    @property
    def auc(self) -> Estimate:
        """How well the model ranks, by the noisy counts of probabilities."""
        return area_under_curve(np.array(self.ranking), self.ranking_std)

    def at(self, row: Floats, position: float) -> float:
        """A figure that is known at all positions, between two of them."""
        return float(np.interp(position, self.positions, row))


def falling(values: Floats) -> Floats:
    """The closest sequence that never rises (pool adjacent violators)."""
    from scipy.optimize import isotonic_regression

    return np.asarray(isotonic_regression(values, increasing=False).x)


def spread_of(rates: Floats, errors: Floats, *, ratio: bool) -> tuple[Floats, Floats]:
    """Largest less smallest rate at each position, or one less their ratio, and its standard error.

    Noise alone spreads many rates: they are first drawn to their mean by what it explains. How far is uncertain, too:
    half of what this takes from the spread is added to its error.
    """
    columns = np.arange(rates.shape[1])
    if len(rates) < 2:
        return np.zeros(len(columns)), np.zeros(len(columns))
    if ratio:
        rates = np.maximum(rates, 0.0)
    seen = rates
    if len(rates) > 2:
        weights = errors**-2.0
        mean = (weights * rates).sum(0) / weights.sum(0)
        real = np.maximum(((rates - mean) ** 2 - errors**2).sum(0) / (len(rates) - 1), 0.0)
        rates = mean + (rates - mean) * np.sqrt(real / np.maximum(real + errors**2, 1e-12))
    top, bottom = rates.argmax(0), rates.argmin(0)
    high, low = np.maximum(rates[top, columns], 1e-9), rates[bottom, columns]
    above, below = errors[top, columns], errors[bottom, columns]
    if ratio:
        return 1 - low / high, np.hypot(below, low / high * above) / high
    return high - low, np.hypot(np.hypot(above, below), (np.ptp(seen, axis=0) - (high - low)) / 2)
