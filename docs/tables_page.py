"""Write docs/explanation/benchmarks.md from results/tables.json: `python docs/tables_page.py`."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parent / "explanation" / "benchmarks.md"
RESULTS = PAGE.parents[2] / "results" / "tables.json"

Row = Mapping[str, Any]
OURS, ALL, NO_TARGET = "fairdp_frontier", "all", "none"
# Private ones first; dp_postprocess asks for the group when it decides.
TITLES = {
    OURS: "ours",
    "dpsgd": "DP-SGD",
    "dp_ebm": "DP-EBM",
    "dp_ebm_tuned": "DP-EBM, tuned",
    "raco_dp": "RaCO-DP",
    "dp_postprocess": "post-processing",
    "boosting": "boosting",
    "logistic_regression": "logistic regression",
    "reduction": "reduction",
}
NOT_PRIVATE = ("boosting", "logistic_regression", "reduction")

OPENING = """# Where it stands

<!-- Made by `python docs/tables_page.py` from results/tables.json; change these instead. -->

The default, [`fairdp_frontier`](../reference/methods.md#fairdp_frontier), beside what else one could train, in one
run, on the same records: `{command}` (about a quarter of an hour of CPU; DP-EBM needs `pip install '.[lab]'`).
ε = 1 and δ = 1e-5 for all that is private; mean over five seeds, three for faces. [All
numbers](../../results/tables.md), with standard errors, AUC, training gaps and certified gaps.

![Accuracy against the gap between groups on all columns of Adult, ours and its rivals](../../results/tables.svg)

Everyone has their own defaults. DP-EBM gets whole columns with declared types and bounds; *tuned* is the best of six
learning rates by its accuracy on the test records, which favours it. Post-processing asks for the group when it
decides, the others do not. Boosting (scikit-learn's HistGradientBoosting), logistic regression and the reduction
(fairlearn's ExponentiatedGradient over logistic regression) are **not private**. The constants of ours were chosen
with test records of Adult and Default-CCC in view, which favours it too.
"""

LIMITS = """
The AUC of a model with a target is that of the score that decides; `predict_proba` of ours ranks by the label, whatever
the target. What these lists cannot show: the reduction has a linear model under it, and was not run over boosting.
Standard errors are those of the randomness of training, on one set of test records; the accuracy of one rule on another
sample of 16,281 (Adult) or 6,000 records (Default-CCC) would differ by a standard deviation of about .003 or .005,
√(p(1 − p)/n). What a fit costs is measured by `fairdp bench`.
"""


def page(record: Mapping[str, Any] | None = None) -> str:
    """The whole page, from the results of the study."""
    record = record or json.loads(RESULTS.read_text())
    rows: list[Row] = record["rows"]
    parts = [
        OPENING.format(command=str(record["command"]).removesuffix(" --seed 0")),
        "\n## Without a target\n\nAccuracy; ours trains on all records, or, *held out*, as by default.\n\n",
        _table(_free_lines(rows)),
        "\n## With a target\n\nAccuracy (test gap), for a demographic parity gap on all columns of Adult:\n\n",
        _table(_aimed_lines(rows)),
        "\nOther targets of ours:\n\n",
        _table(_other_lines(rows)),
        "\n## Where ours is below a rival\n\n",
        "\n".join(_losses(rows)) or "Nowhere in this run.",
        "\n\n## Where ours misses its target on the test records\n\n",
        "\n".join(_misses(rows)) or "Nowhere in this run.",
        "\n",
        LIMITS,
    ]
    return "".join(parts)


def _free_lines(rows: Sequence[Row]) -> Iterator[list[str]]:
    free = [row for row in rows if row["target"] == NO_TARGET]
    methods = [method for method in TITLES if any(row["method"] == method for row in free)]
    yield ["data", TITLES[OURS], "ours, held out", *(_heading(method) for method in methods[1:])]
    for data in dict.fromkeys(row["population"] for row in free):
        own = {(row["method"], row["records"] == ALL): row for row in free if row["population"] == data}
        found = [own.get((OURS, True)), own.get((OURS, False)), *(own.get((name, True)) for name in methods[1:])]
        yield [data, *(_cell(row, "accuracy") for row in found)]


def _aimed_lines(rows: Sequence[Row]) -> Iterator[list[str]]:
    aimed = [row for row in rows if row["target"] != NO_TARGET and row["records"] == ALL]
    rivalled = {(row["population"], row["target"]) for row in aimed if row["method"] != OURS}
    methods = [method for method in TITLES if any(row["method"] == method for row in aimed)]
    yield ["target", *(_heading(method) for method in methods)]
    for case in dict.fromkeys((row["population"], row["target"]) for row in aimed):
        if case in rivalled:
            own = {row["method"]: row for row in aimed if (row["population"], row["target"]) == case}
            cells = (f"{_cell(own[name], 'accuracy')} ({_cell(own[name], 'gap')})" for name in methods)
            yield [_number(_aim(case[1])), *cells]


def _other_lines(rows: Sequence[Row]) -> Iterator[list[str]]:
    rivalled = {(row["population"], row["target"]) for row in rows if row["method"] != OURS}
    yield ["data", "target", "accuracy", "test gap", "ratio", "positive rate"]
    for row in rows:
        if row["target"] != NO_TARGET and (row["population"], row["target"]) not in rivalled:
            names = ("accuracy", "gap", "demographic_parity_ratio", "positive_rate")
            yield [row["population"], row["target"], *(_with_error(row, name) for name in names)]


def _losses(rows: Sequence[Row]) -> Iterator[str]:
    """Every rival whose mean is above ours, in accuracy or in AUC; randomised decisions have none."""
    ours = {(row["population"], row["target"]): row for row in rows if row["method"] == OURS and row["records"] == ALL}
    for row in rows:
        mine = ours[row["population"], row["target"]]
        names = {"accuracy": "accuracy", "auc": "AUC"}
        behind = {title: _behind(mine, row, name) for name, title in names.items() if name in row["mean"]}
        said = ", ".join(f"{_number(by)} {title}{_doubt(by, error)}" for title, (by, error) in behind.items() if by > 0)
        if row["method"] != OURS and said:
            where = f"{row['population']}, target {row['target']}"
            yield f"- {where}: **{_heading(row['method'])}** is ahead by {said}{_at_gap(mine, row)}."


def _behind(mine: Row, theirs: Row, name: str) -> tuple[float, float]:
    """By how much a rival is ahead, with the standard error of the difference."""
    errors = [row["standard_error"].get(name) or 0.0 for row in (mine, theirs)]
    return theirs["mean"][name] - mine["mean"][name], math.hypot(*errors)


def _doubt(by: float, error: float) -> str:
    return "" if by > 2 * error else " (within two standard errors)"


def _at_gap(mine: Row, theirs: Row) -> str:
    if theirs["target"] == NO_TARGET:
        return ""
    group = ", and asks for the group" if theirs["method"] == "dp_postprocess" else ""
    return f", at a gap of {_cell(theirs, 'gap')} against {_cell(mine, 'gap')}{group}"


def _misses(rows: Sequence[Row]) -> Iterator[str]:
    """Every target of ours that the mean over its runs does not meet."""
    for row in rows:
        if row["method"] != OURS or row["target"] == NO_TARGET:
            continue
        is_ratio, aim = "ratio" in row["target"], _aim(row["target"])
        name = "demographic_parity_ratio" if is_ratio else "gap"
        over = (aim - row["mean"][name]) if is_ratio else (row["mean"][name] - aim)
        if over > 0:
            doubt = _doubt(over, row["standard_error"].get(name) or 0.0)
            held = "" if row["records"] == ALL else ", held out"
            yield f"- {row['population']}, {row['target']}{held}: {_with_error(row, name)}{doubt}."


def _aim(target: str) -> float:
    return float(target.split()[-1])


def _heading(method: str) -> str:
    return TITLES[method] + (" (not private)" if method in NOT_PRIVATE else "")


def _cell(row: Row | None, name: str) -> str:
    return "–" if row is None else _number(row["mean"][name])


def _with_error(row: Row, name: str) -> str:
    error = row["standard_error"].get(name)
    return _number(row["mean"][name]) + ("" if error is None else f" ± {_number(error)}")


def _number(value: float) -> str:
    """Digits that can be read: the fourth is noise everywhere.

    >>> _number(0.0512), _number(1.0)
    ('.051', '1.000')
    """
    return f"{value:.3f}".removeprefix("0") if value < 1 else f"{value:.3f}"


def _table(lines: Iterator[list[str]]) -> str:
    heads, *rows = lines
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (heads, ["---"] * len(heads), *rows))


if __name__ == "__main__":
    PAGE.write_text(page())
