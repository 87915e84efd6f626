"""How well the rate of each group could be measured, before anything is trained: from sizes and planned noise alone."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from fairdp.accounting.plan import Plan
from fairdp.accounting.words import CELLS, DIRECTION, FRONTIER
from fairdp.frontier.curve import LINE, MEASURABLE, RAY, Frontier
from fairdp.frontier.direction import last_looks
from fairdp.frontier.events import Events, Floats
from fairdp.frontier.sketch import prefix_root

# No number of records beyond this multiple is worth naming.
_MOST = 1e4
# A rate is between 0 and 1: whoever knows it only to this knows nothing of it.
NOT_AT_ALL = 0.5


@dataclass(frozen=True, kw_only=True)
class GroupOutlook:
    """How well one group's rate could be measured, and what would suffice if that is not enough.

    ``standard_error`` is that of the noise; ``records_needed``, and ``epsilon_needed`` for the records there are, are
    None where it is enough.
    """

    group: str
    records: float
    standard_error: float
    measurable: bool
    records_needed: float | None = None
    epsilon_needed: float | None = None


@dataclass(frozen=True, kw_only=True)
class SurveyNoise:
    """Deviations of the noise of the surveys; ``looks`` is that of the mean of the last looks, None without any."""

    cells: float
    sketch: float
    looks: float | None

    @classmethod
    def of(cls, plan: Plan) -> "SurveyNoise":
        """What a plan would add."""
        stds, looked = plan.survey_stds, [s for s in plan.recipe.surveys if s.what == DIRECTION]
        looks = stds[DIRECTION] / math.sqrt(last_looks(looked[0].n_looks)) if looked else None
        return cls(cells=stds[CELLS], sketch=stds[FRONTIER], looks=looks)

    @classmethod
    def of_frontier(cls, frontier: Frontier) -> "SurveyNoise":
        """What was added."""
        sizes = frontier.events.sizes(frontier.sizes)
        looks = frontier.looked[0][1] * float(sizes[0]) if frontier.looked else None
        return cls(cells=frontier.cells_std, sketch=frontier.sketch_std, looks=looks)


def outlook_of(
    sizes: Mapping[str, float],
    noise: SurveyNoise,
    *,
    parity: str,
    epsilon: float,
    label_rate: float = 0.25,
    positive_rate: float = 0.25,
) -> list[GroupOutlook]:
    """Each group's outlook.

    Parameters
    ----------
    sizes
        Training records of each group, as planned.
    label_rate, positive_rate
        Guesses: share of positive labels, and of positive decisions.
    """

    def error_of(records: float) -> float:
        return _error(records, noise, parity=parity, label_rate=label_rate, positive_rate=positive_rate)

    found = []
    for name, size in sizes.items():
        error = error_of(size)
        more = None if error <= MEASURABLE else _enough(error_of, size)
        found.append(
            GroupOutlook(
                group=name,
                records=size,
                standard_error=error,
                measurable=more is None,
                records_needed=None if more is None else two_digits(more * size),
                # Deviations fall about as epsilon grows, and errors with both.
                epsilon_needed=None if more is None else two_digits(more * epsilon),
            )
        )
    return found


def outlook_warning(groups: list[GroupOutlook]) -> str | None:
    """What to tell a user some of whose groups cannot be measured."""
    hidden = [group for group in groups if not group.measurable]
    if not hidden:
        return None
    each = ", ".join(
        f"{group.group} ({_seen(group.standard_error)}; {group.records_needed:,.0f} training records or an epsilon of "
        f"{group.epsilon_needed:g} would do)"
        for group in hidden
    )
    return (
        f"the noise hides how these groups are treated: {each}. The target does not reach them: merge small groups, "
        "or use more records or a larger epsilon."
    )


def forewarning(groups: list[GroupOutlook]) -> str | None:
    """The same before training, when the share of positive labels is a guess: names alone, figures follow."""
    hidden = [group.group for group in groups if not group.measurable]
    if not hidden:
        return None
    return f"the noise will hide how these groups are treated: {', '.join(hidden)}."


def _seen(error: float) -> str:
    return "not seen at all" if error >= NOT_AT_ALL else f"seen to about ±{error:.2f}"


def _error(records: float, noise: SurveyNoise, *, parity: str, label_rate: float, positive_rate: float) -> float:
    """Standard error of the rate of a group of this size, the larger over its labels for equalized odds."""
    positions = LINE if noise.looks is None else RAY
    sizes = np.maximum(np.tile([records * (1 - label_rate), records * label_rate], 2), 1.0)
    root, sensitivity = prefix_root(len(positions))
    frontier = Frontier(
        parity=parity,
        cost_ratio=1.0,
        cell_sizes=tuple(sizes.tolist()),
        cells_std=noise.cells,
        prices=(0.0,),
        shift=0.0,
        positions=positions,
        # The same share of positive decisions everywhere.
        sketch=tuple(map(tuple, (positive_rate * np.outer(sizes, root[:, 0]) / sensitivity).tolist())),
        sketch_std=noise.sketch,
        looked=_looked(parity, sizes, noise.looks, positive_rate),
        ranking=((), ()),
        ranking_std=0.0,
    )
    return float(np.median(frontier.rates[1], axis=1).max())


def _looked(parity: str, sizes: Floats, std: float | None, rate: float) -> tuple[tuple[float, float], ...]:
    if std is None:
        return ()
    # Of the two like groups of the made-up frontier.
    events = Events(parity, 2).sizes(sizes)
    return tuple((rate, std / float(size)) for size in events)


def _enough(error_of: Callable[[float], float], size: float) -> float:
    """Smallest multiple of a size at which its rate can be measured, by halving on a logarithmic scale."""
    low, high = 1.0, _MOST
    while high / low > 1.005:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if error_of(middle * size) <= MEASURABLE else (middle, high)
    return high


def two_digits(value: float) -> float:
    """Rounded up.

    >>> two_digits(1234.0)
    1300.0
    """
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / unit - 1e-9) * unit:.2g}")
