"""`fairdp paper-bounds`: the paper's own certificates of a saved model, as diagnostics."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairdp.cli.options import format_options, json_option, seed_option, taken_format
from fairdp.cli.tables import print_table

if TYPE_CHECKING:
    from fairdp.run.paper_bounds import PaperBounds

_METRICS = {
    "demographic_parity": "demographic parity",
    "equal_opportunity": "equal opportunity",
    "equalized_odds": "equalized odds",
    "false_positive_rate": "false positive rates",
}
_DEVIATIONS = {"printed": "σ₀, as printed", "one_head": "Nσ₀, one head", "deployed": "√Nσ₀, deployed"}


@click.command("paper-bounds", epilog="\b\nExample:\n  fairdp paper-bounds model/ loans.csv\n")
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("table", required=False, type=click.Path(path_type=Path))
@click.option("--dataset", help="The training split of a named data set instead of TABLE.")
@click.option("--confidence", type=float, default=0.95, show_default=True, help="α of Proposition 3.")
@click.option("--release-epsilon", type=float, default=0.1, show_default=True, help="ε' of Remark 2's Laplace noise.")
@seed_option("Seed of the noise that shows Remark 2, for repeatable figures.")
@format_options
@json_option
def paper_bounds(
    folder: Path,
    table: Path | None,
    dataset: str | None,
    confidence: float,
    release_epsilon: float,
    seed: int | None,
    as_json: bool,
    **written: Any,
) -> None:
    """Show the paper's own certificates of the model in FOLDER, on rows that the paper takes from its training.

    Theorem 2 as printed and corrected, Proposition 3 (τ_emp), the error of its heads, and Remark 2. All of them are
    diagnostics, and none is a guarantee for this model: see `fairdp certify`. The figures are exact, so they are for
    the data holder's eyes only: the privacy guarantee does not cover them.
    """
    from fairdp.cli.printing import print_json
    from fairdp.commands.saved_models import run_paper_bounds

    options = {"confidence": confidence, "release_epsilon": release_epsilon, "random_state": seed}
    found = run_paper_bounds(folder, table, dataset, written=taken_format(written), **options)
    if as_json:
        print_json(found.to_json())
        return
    _print(found)


def _print(found: "PaperBounds") -> None:
    last = found.last_step
    print(f"{found.method} on {found.n_records:,} records. {found.status}\n")
    step = f"{last.optimizer}, η = {last.learning_rate:g}, C = {last.clip_norm:g}, N = {last.n_members}"
    head = f"M = {last.weight_bound:g}, ‖w‖ = {found.head_norm:.4g}"
    rows = [("deviation of a weight", *(f"{bounds.deviation:.3g}" for bounds in found.at.values()))]
    rows += [
        (title, *(f"{getattr(bounds, name):.4f}" for bounds in found.at.values()))
        for name, title in {
            "theorem_2_printed": "Theorem 2, as printed",
            "theorem_2_corrected": "Theorem 2, corrected",
            "reach": "erf(‖w‖/(√2σ))",
            "lowest_chance": "P_lb",
            "highest_chance": "P_ub",
        }.items()
    ]
    rows += [
        (f"τ_emp, {title}", *(_number(bounds.tau_emp[metric]) for bounds in found.at.values()))
        for metric, title in _METRICS.items()
    ]
    print_table(f"Last step: {step}; {head}; α = {found.confidence:g}", rows, headers=("", *_DEVIATIONS.values()))
    _print_errors(found)
    _print_remark_2(found)
    for note in found.notes:
        print(note)


def _print_errors(found: "PaperBounds") -> None:
    errors = found.monte_carlo
    rows = [(title, _small(errors.printed[name]), _small(errors.measured[name])) for name, title in _METRICS.items()]
    at_most = f"of a single rate at most {errors.at_most_per_rate:.3f}"
    print_table(f"Monte Carlo error, summed over rates; {at_most}", rows, headers=("", "printed", "between the heads"))


def _print_remark_2(found: "PaperBounds") -> None:
    remark, scales = found.remark_2, [rate.scale_needed for rate in found.rates if rate.n_records]
    needed = f"2/(nε'): {min(scales):.2g} to {max(scales):.2g}"
    rows = [
        (f"τ_emp, {title}", _number(remark.tau_printed[name]), _number(remark.tau_needed[name]))
        for name, title in _METRICS.items()
    ]
    print_table(
        f"Remark 2 at ε' = {remark.epsilon:g}: one draw of Laplace noise on the rates, sizes n taken as public",
        rows,
        headers=("", f"scale 1/ε' = {remark.scale_printed:g}, as printed", f"scale {needed}, as needed"),
    )


def _number(value: float) -> str:
    return "no evidence" if math.isnan(value) else f"{value:.4f}"


def _small(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.2e}"
