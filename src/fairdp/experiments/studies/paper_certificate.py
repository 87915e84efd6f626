"""The paper's certificate beside ours: how tight, under which shifts, and the error of its ensemble."""

from collections.abc import Sequence
from typing import Any

from fairdp._format import with_error
from fairdp.certify.paper import monte_carlo_error, monte_carlo_error_printed
from fairdp.data.grouped import GroupedData
from fairdp.experiments.studies.protocol import Setting, budgets_of, datasets_of, train
from fairdp.experiments.studies.results import Findings, Run, markdown_table
from fairdp.experiments.sweeps.fits import METRICS, mean_and_error
from fairdp.experiments.sweeps.populations import Population, load

SHIFTS = (0.0, 0.05, 0.1, 0.2)
HELD_OUT = 0.2
N_MEMBERS = 10
# The digits that the paper prints, for demographic parity, equal opportunity and equalized odds.
PRINTED_ERRORS = {
    "adult": ("4.37e-5", "3.16e-4", "3.7e-4"),
    "credit": ("1.1e-4", "4.8e-4", "6.2e-4"),
    "utkface": ("1.36e-4", "3.7e-4", "6.1e-4"),
}


def tightness_study(run: Run) -> Findings:
    """Observed gaps with and without a shift, the paper's τ_emp and our certified τ, over budgets."""
    from fairdp.experiments.drawing import shift_figure

    own = [
        Setting(
            dataset=dataset,
            method="fairdp",
            epsilon=epsilon,
            changes=(("certify_fraction", HELD_OUT),),
            shifts=SHIFTS,
        )
        for dataset in datasets_of(run)
        for epsilon in budgets_of(run, "fairdp")
    ]
    clean = [Setting(dataset=dataset, method="clean", epsilon=None) for dataset in datasets_of(run)]
    runs = train([*own, *clean], run)
    beside = {setting.dataset: _pairs(runs[setting]) for setting in clean}
    rows = [row for setting in own for row in _rows(setting, runs[setting], beside[setting.dataset])]
    names = ("paper_tau", "certified_tau", "clean")
    lines = [
        (
            row["dataset"],
            row["metric"].replace("_", " "),
            f"{row['epsilon']:g}",
            *(with_error(*row["observed"].get(f"{shift:g}", row["observed"]["0"])) for shift in SHIFTS),
            *(with_error(*row[name]) for name in names),
            *(with_error(*row["certified_tau_shifted"].get(f"{s:g}", row["certified_tau"])) for s in SHIFTS[1:]),
            with_error(*row["positive_rate"]),
            *(f"{row[name]} of {row['n_runs']}" for name in ("paper_tau_too_small", "certified_tau_too_small")),
        )
        for row in rows
    ]
    headers = (
        "data",
        "metric",
        "ε",
        *(f"test gap, γ = {s:g}" for s in SHIFTS),
        "paper's τ_emp",
        "certified τ",
        "clean",
        *(f"certified, γ = {s:g}" for s in SHIFTS[1:]),
        "positive rate",
    )
    text = (
        "FairDP with a fifth of the training records held out; mean ± standard error over seeds. γ: the largest gap "
        "when so much mass moves from one cell of group and label, which must have it, to another (not the worst shift "
        "of that size, which may use several cells); for equal opportunity and equalized odds nothing moves. The "
        "paper's τ_emp speaks of an average over the noise of the last step and of the training records, ours "
        "(confidence .95) of the deployed model and its population. Last columns: runs whose gap on the test records, "
        "which has an error of its own, is above the bound at γ = 0; the runs of a seed share the records held out.\n\n"
        + markdown_table((*headers, "τ_emp below the gap", "certified τ below the gap"), lines)
    )
    return Findings({"rows": rows, "shifts": SHIFTS}, text, drawings={"": shift_figure(rows)})


Pair = tuple[float, float]


def _pairs(found: Sequence[dict[str, Any]]) -> dict[str, Pair]:
    row = mean_and_error(found)
    return {name: (value, row["standard_error"][name]) for name, value in row["mean"].items()}


def _rows(setting: Setting, found: Sequence[dict[str, Any]], clean: dict[str, Pair]) -> list[dict[str, Any]]:
    pairs, rows = _pairs(found), []
    for metric in METRICS:
        gap, moves = f"{metric}_difference", metric == "demographic_parity"
        rows.append(
            {
                "dataset": setting.dataset,
                "metric": metric,
                "epsilon": setting.epsilon,
                "n_runs": len(found),
                "positive_rate": pairs["positive_rate"],
                "clean": clean[gap],
                # What is conditioned on the label does not change with the shares of labels.
                "observed": {f"{s:g}": pairs[f"gap_at_shift_{s:g}"] for s in SHIFTS} if moves else {"0": pairs[gap]},
                "paper_tau": pairs[f"paper_{metric}"],
                "certified_tau": pairs[f"certified_{metric}"],
                "certified_tau_shifted": {f"{s:g}": pairs[f"certified_at_shift_{s:g}"] for s in SHIFTS[1:]}
                if moves
                else {},
                "paper_tau_too_small": sum(own[f"paper_{metric}"] < own[gap] for own in found),
                "certified_tau_too_small": sum(own[f"certified_{metric}"] < own[gap] for own in found),
            }
        )
    return rows


def mc_error_study(run: Run) -> Findings:
    """The paper's table of Monte Carlo errors, which follows from the sizes of the test cells."""
    rows: list[dict[str, Any]] = []
    for dataset in datasets_of(run):
        test = load(Population(dataset=dataset)).test
        errors = [monte_carlo_error_printed(cells, n_members=N_MEMBERS) for cells in _cells(test)]
        rows.append({"dataset": dataset, "errors": errors, "printed": PRINTED_ERRORS.get(dataset)})
    lines = [
        (
            row["dataset"],
            *(
                f"{error:.3e}" + (f" ({row['printed'][i]})" if row["printed"] else "")
                for i, error in enumerate(row["errors"])
            ),
        )
        for row in rows
    ]
    text = (
        f"N = {N_MEMBERS} heads, the cells of the test records; in brackets the paper's digits, which are cut off, not "
        "rounded, in some places. All people share the same heads, so averaging over people does not make the error "
        f"smaller: per rate it is up to {monte_carlo_error(n_members=N_MEMBERS):.3f}, not what this table says.\n\n"
        + markdown_table(("data", "demographic parity", "equal opportunity", "equalized odds"), lines)
    )
    return Findings({"n_members": N_MEMBERS, "rows": rows}, text)


def _cells(test: GroupedData) -> list[list[int]]:
    """Sizes of the cells that each metric is made of."""
    groups = range(test.n_groups)
    positive = [int(((test.groups == g) & (test.y == 1)).sum()) for g in groups]
    negative = [int(((test.groups == g) & (test.y == 0)).sum()) for g in groups]
    return [[p + n for p, n in zip(positive, negative, strict=True)], positive, [*positive, *negative]]
