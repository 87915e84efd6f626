"""What a comparison comes to: who is most accurate, who has the smallest gap, and whether that is more than chance."""

import math
from collections.abc import Iterable, Sequence

from fairdp.metrics.rates import collapse_warning
from fairdp.report.comparison import Row

_GAP = "demographic_parity_difference"
# Differences below so many standard errors may be chance.
_SURE = 2.0


def conclusions(rows: Sequence[Row]) -> list[str]:
    """A sentence for each data set and budget, and one on what the sentences are worth."""
    found = []
    datasets = dict.fromkeys(row.dataset for row in rows)
    for dataset in datasets:
        own = [row for row in rows if row.dataset == dataset]
        where = f"{dataset}, " if len(datasets) > 1 else ""
        budgets = sorted({row.epsilon for row in own}, key=lambda budget: math.inf if budget is None else budget)
        for budget in budgets:
            found += _at_budget(where, [row for row in own if row.epsilon == budget])
    return [*found, *_worth(rows)]


def _at_budget(where: str, rows: list[Row]) -> list[str]:
    # Where nearly everybody gets the same decision there is no gap, and no use.
    useful = [row for row in rows if _decides(row)]
    lead = f"{where}{rows[0].epsilon_text}: "
    if not useful:
        return [f"{lead}every method decides alike for nearly everybody, so none is useful."]
    if len(useful) == 1:
        return [f"{lead}only {useful[0].label} can be compared, with accuracy {useful[0].figure('accuracy')}."]
    best, even = max(useful, key=_accuracy), min(useful, key=_gap)
    if best is even:
        text = (
            f"{best.label} is the most accurate, {best.figure('accuracy')}, and has the smallest gap between groups, "
        )
        return [f"{lead}{text}{best.figure(_GAP)}{_doubt(best, useful)}."]
    lost = 100 * (_accuracy(best) - _accuracy(even))
    return [
        f"{lead}{best.label} is the most accurate, {best.figure('accuracy')}, with a demographic parity gap of "
        f"{best.figure(_GAP)}; {even.label} has the smallest gap, {even.figure(_GAP)}, and is {lost:.1f} points less "
        f"accurate{_doubt(best, useful)}."
    ]


def _decides(row: Row) -> bool:
    rate = row.value("positive_rate")[0]
    known = not any(math.isnan(row.value(name)[0]) for name in ("accuracy", _GAP))
    return known and not math.isnan(rate) and collapse_warning(rate) is None


def _accuracy(row: Row) -> float:
    return row.value("accuracy")[0]


def _gap(row: Row) -> float:
    return row.value(_GAP)[0]


def _doubt(best: Row, rows: Iterable[Row]) -> str:
    """Which methods are not told apart from the most accurate one by the spread over seeds."""
    close = [
        row.label
        for row in rows
        if row is not best
        and _accuracy(best) - _accuracy(row) <= _SURE * math.hypot(best.value("accuracy")[1], row.value("accuracy")[1])
    ]
    return f" (in accuracy not told apart from it: {', '.join(close)})" if close else ""


def _worth(rows: Sequence[Row]) -> list[str]:
    runs = min((row.n_runs for row in rows), default=0)
    several = f"Means of {runs} runs" if runs > 1 else "Single runs, whose differences may be chance"
    return [f"{several} on test records: estimates, and no promise about a model. A certificate is."]
