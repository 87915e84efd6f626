"""A family of tables whose law is known: every rate of every rule, and the best rule within a gap, are exact sums."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from fairdp.data.columns import Categorical, Numeric
from fairdp.data.grouped import GroupedData
from fairdp.data.schema import TableSchema
from fairdp.frontier.events import Events, Floats

# Values of the two numbers and of the category: few enough for sums over all, many enough that each is rare.
_LEVELS, _CATEGORIES = 24, 4
# The numbers' scale in standard deviations of one cell, from the middle.
_REACH = 3.0
_N_GROUPS = (2, 2, 2, 3, 3, 4, 4, 6, 8, 12, 16)
_ROWS, _SMALLEST, _BASE_RATES, _MOST_APART = (1_000, 100_000), 0.01, (0.03, 0.5), 0.4
# A group of fewer than sixteen records is refused.
_FEWEST = 30
# Records of every cell from which on a target should cost no more than it must.
ENOUGH = 1000


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A table of the family.

    Parameters
    ----------
    n_rows
        Records to train on.
    shares, base_rates
        Share of each group, and of label 1 in it.
    skill, proxy, lean
        How far label and group move the numbers, in deviations: the first number by the label, the second by the group,
        the first by the group.
    seed
        Decides what else there is: which group lies where, and the category.
    """

    n_rows: int
    shares: tuple[float, ...]
    base_rates: tuple[float, ...]
    skill: float
    proxy: float
    lean: float
    seed: int

    @property
    def n_groups(self) -> int:
        """Number of groups, K."""
        return len(self.shares)

    @property
    def smallest_cell(self) -> float:
        """Expected records of the smallest cell, group by label."""
        rates = np.array(self.base_rates)
        return float(self.n_rows * (np.array(self.shares) * np.minimum(rates, 1 - rates)).min())


def drawn_settings(n_settings: int, seed: int, *, most_rows: int = _ROWS[1]) -> list[Setting]:
    """Tables of the family; of every four, one has a thousand records in every cell."""
    rng = np.random.default_rng(seed)
    found: list[Setting] = []
    while len(found) < n_settings:
        setting = drawn_setting(rng, most_rows=most_rows)
        if len(found) % 4 or setting.smallest_cell >= ENOUGH or most_rows < _ROWS[1]:
            found.append(setting)
    return found


def without_signal(setting: Setting) -> Setting:
    """The same table with labels that have nothing to do with anything."""
    rate = float(np.dot(setting.shares, setting.base_rates))
    return replace(setting, skill=0.0, base_rates=(rate,) * setting.n_groups)


def drawn_setting(rng: np.random.Generator, *, most_rows: int = _ROWS[1]) -> Setting:
    """One table of the family, sizes on a logarithmic scale."""
    n_groups = int(rng.choice(_N_GROUPS))
    n_rows = int(_log_uniform(rng, _ROWS[0], most_rows))
    smallest = _log_uniform(rng, max(_SMALLEST, _FEWEST / n_rows), 1 / n_groups)
    lowest = _log_uniform(rng, *_BASE_RATES)
    apart = rng.uniform(0, min(_MOST_APART, _BASE_RATES[1] - lowest))
    rates = lowest + apart * np.concatenate([[0.0, 1.0], rng.random(n_groups - 2)])
    return Setting(
        n_rows=n_rows,
        shares=_shares(smallest, n_groups, rng),
        base_rates=tuple(rng.permutation(rates).tolist()),
        skill=rng.uniform(1.0, 3.0),
        proxy=rng.uniform(0.0, 2.5),
        lean=rng.uniform(-0.5, 1.0),
        seed=int(rng.integers(2**31)),
    )


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def _shares(smallest: float, n_groups: int, rng: np.random.Generator) -> tuple[float, ...]:
    """The smallest share, and what is left spread over the others, none of which gets less."""
    more = rng.dirichlet(np.full(n_groups - 1, 2.0)) * (1 - n_groups * smallest)
    return tuple((smallest + np.concatenate([[0.0], more])).tolist())


@dataclass(frozen=True, eq=False)
class Law:
    """P(cell, x) for each cell 2 a + y and each of finitely many x, shape (n_cells, n_atoms)."""

    joint: Floats

    @property
    def n_groups(self) -> int:
        """Number of groups, K."""
        return len(self.joint) // 2

    @cached_property
    def worth(self) -> Floats:
        """What a positive decision at each x adds to the accuracy."""
        return np.asarray(self.joint[1::2].sum(0) - self.joint[::2].sum(0))

    def accuracy(self, decisions: Floats) -> float:
        """Of a rule that decides positively with these chances at each x."""
        return float(self.joint[::2].sum() + decisions @ self.worth)

    def rates(self, decisions: Floats, events: Events) -> Floats:
        """Rate of positive decisions of each event."""
        return (events.members @ self.joint) @ decisions / (events.members @ self.joint.sum(1))

    def gap(self, decisions: Floats, events: Events, *, among: NDArray[np.bool_] | None = None) -> float:
        """Largest gap between rates that should agree, of all events or of some."""
        return widest(self.rates(decisions, events), events, among=among)

    def auc(self, scores: Floats) -> float:
        """How well scores of the x rank, equal ones counting half."""
        _, places = np.unique(scores, return_inverse=True)
        negative, positive = (np.bincount(places, self.joint[label::2].sum(0)) for label in (0, 1))
        below = np.cumsum(negative) - negative / 2
        return float(positive @ below / positive.sum() / negative.sum())

    def best_accuracy(self, gap: float, events: Events, *, among: NDArray[np.bool_] | None = None) -> float:
        """Accuracy of the best rule that sees x alone and keeps the events, or some of them, within a gap.

        A linear programme over the chances of a positive decision at each x and the lowest rate of each band.
        """
        use = np.ones(len(events.members), dtype=bool) if among is None else among
        rows = (events.members @ self.joint / (events.members @ self.joint.sum(1))[:, None])[use]
        lowest = (events.bands[use][:, None] == np.unique(events.bands)).astype(np.float64)
        limits = np.block([[rows, -lowest], [-rows, lowest]])
        most = np.concatenate([np.full(len(rows), gap), np.zeros(len(rows))])
        cost = np.concatenate([-self.worth, np.zeros(lowest.shape[1])])
        solved = linprog(cost, A_ub=limits, b_ub=most, bounds=(0.0, 1.0), method="highs")
        return float(self.joint[::2].sum() - solved.fun)

    def sample(self, n_rows: int, rng: np.random.Generator) -> GroupedData:
        """Independent records."""
        drawn = rng.choice(self.joint.size, size=n_rows, p=self.joint.ravel() / self.joint.sum())
        cells, atoms = np.divmod(drawn, self.joint.shape[1])
        names = tuple(f"group {group}" for group in range(self.n_groups))
        return GroupedData(inputs()[atoms], cells % 2, cells // 2, names)


def widest(rates: Floats, events: Events, *, among: NDArray[np.bool_] | None = None) -> float:
    """Largest gap between rates of one band, of all events or of some."""
    use = np.ones(len(rates), dtype=bool) if among is None else among
    bands = [rates[use & (events.bands == band)] for band in np.unique(events.bands)]
    return max(float(np.ptp(band)) if len(band) else 0.0 for band in bands)


def law_of(setting: Setting) -> Law:
    """Numbers and category are independent of each other in each cell, so that the log of P(cell | x) adds up."""
    rng, n_groups = np.random.default_rng(setting.seed), setting.n_groups
    place = np.repeat(rng.permutation(np.linspace(-0.5, 0.5, n_groups)), 2)
    label = np.tile([-0.5, 0.5], n_groups)
    first = _number(setting.skill * label + setting.lean * place)
    second = _number(setting.proxy * place + 0.3 * setting.skill * label)
    by_group, by_cell = (rng.standard_normal((n_rows, _CATEGORIES)) for n_rows in (n_groups, 2 * n_groups))
    category = np.exp(0.5 * np.repeat(by_group, 2, axis=0) + 0.25 * setting.skill * by_cell)
    category /= category.sum(1, keepdims=True)
    rates = np.array(setting.base_rates)
    cells = np.repeat(setting.shares, 2) * np.column_stack([1 - rates, rates]).ravel()
    joint = np.einsum("c,ci,cj,ck->cijk", cells, first, second, category)
    return Law(joint.reshape(2 * n_groups, -1))


def _number(means: Floats) -> Floats:
    """Chances of the values of a number that is normal around the mean of each cell, cut off at its scale's ends."""
    values = _REACH * (2 * _values() - 1)
    density = np.exp(-((values - means[:, None]) ** 2) / 2)
    return np.asarray(density / density.sum(1, keepdims=True))


def _values() -> Floats:
    return (np.arange(_LEVELS) + 0.5) / _LEVELS


def inputs() -> NDArray[np.float32]:
    """Every x as a model sees it, shape (n_atoms, 2 + number of categories)."""
    first, second, category = np.indices((_LEVELS, _LEVELS, _CATEGORIES)).reshape(3, -1)
    numbers = np.column_stack([_values()[first], _values()[second]])
    return np.hstack([numbers, np.eye(_CATEGORIES)[category]]).astype(np.float32)


def schema_of(group_names: Sequence[str]) -> TableSchema:
    """What is public about a table of the family."""
    categories = tuple(f"kind {index}" for index in range(_CATEGORIES))
    return TableSchema(
        columns=(
            Numeric(name="first", low=0.0, high=1.0),
            Numeric(name="second", low=0.0, high=1.0),
            Categorical(name="kind", categories=categories),
        ),
        label="label",
        positive="1",
        negative="0",
        sensitive=("group",),
        groups=(tuple(group_names),),
    )
