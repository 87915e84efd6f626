"""A comparison in the terminal: methods side by side, and what all their runs cost."""

from collections.abc import Iterable, Mapping
from typing import Any

from fairdp._format import with_error
from fairdp.cli.printing import print_json, print_warnings
from fairdp.cli.tables import print_table
from fairdp.report.comparison import Row


def print_comparison(report: dict[str, Any], *, as_json: bool) -> None:
    """Methods side by side, and what all their runs cost."""
    if as_json:
        print_json(report)
        return
    names = {"auc": "AUC", "accuracy": "accuracy", "positive_rate": "positive"}
    names |= {"demographic_parity_difference": "parity gap", "demographic_parity_ratio": "ratio"}
    for dataset in dict.fromkeys(row["dataset"] for row in report["rows"]):
        of_dataset = [row for row in [*report["rows"], *report["controls"]] if row["dataset"] == dataset]
        rows = [
            (Row.of(row).label, "∞" if row["epsilon"] is None else f"{row['epsilon']:g}", *_means(row, names))
            for row in of_dataset
        ]
        n_runs = of_dataset[0]["n_runs"]
        seeds = f"mean ± standard error over {n_runs} seeds" if n_runs > 1 else "one seed"
        positive = report["positive"].get(dataset)
        title = f"{dataset}: {seeds}, on the test records{f'; positive: {positive}' if positive else ''}"
        print_table(title, rows, headers=("method", "ε", *names.values()), wrap_numbers=False)
    if report["controls"]:
        print("dpsgd at another method: DP-SGD with its threshold moved to that method's positive rate.\n")
    for cost in report["privacy"]:
        print(cost["statement"])
    print_warnings(report["warnings"])
    print(f"\nWritten to {report['out']}: {', '.join(report['files'])}.")


def _means(row: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """Means, with errors for only the two metrics that are traded: a terminal is narrow."""
    traded = {name: row["standard_error"][name] for name in ("accuracy", "demographic_parity_difference")}
    return [with_error(row["mean"][name], traded.get(name)) for name in names]
