"""`fairdp demo`: the paper's FairDP and the default side by side."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairdp._format import bound_above, rounded_up
from fairdp.cli.options import json_option, seed_option
from fairdp.commands.progress import say

if TYPE_CHECKING:
    from fairdp.commands.demo import DemoModel

GAPS = {"demographic_parity": "parity gap", "equal_opportunity": "EOpp gap", "equalized_odds": "EOdds gap"}
TITLES = {"paper": "the paper", "model": "our default", "all-columns": "all columns"}


@click.command(epilog="\b\nExample:\n  fairdp demo --out demo/\n")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default="demo",
    show_default=True,
    help="Folder for the models.",
)
@click.option("--overwrite", is_flag=True, help="Replace the models that are in --out.")
@seed_option("Seed of all trainings.  [default: the operating system's randomness]")
@json_option
def demo(out: Path, overwrite: bool, seed: int | None, as_json: bool) -> None:
    """Train the paper's FairDP and the default method on the Adult data, and show them side by side.

    The paper's FairDP gets the settings of --paper of fairdp fit; the default is trained on the paper's inputs and on
    all columns. Without the Adult data, both are trained on a population that is built in.
    """
    from fairdp.cli.printing import print_fit, print_json
    from fairdp.commands.demo import DEFAULT, demo_datasets, run_demo

    datasets, note = demo_datasets()
    if note:
        say(note)
    models = run_demo(out, datasets, seed=seed, overwrite=overwrite)
    if as_json:
        print_json({"models": [model.to_json() for model in models]})
        return
    _print_side_by_side(models)
    print_fit(next(model.report for model in models if model.name == DEFAULT), as_json=False)


def _print_side_by_side(models: "list[DemoModel]") -> None:
    from fairdp.cli.tables import print_table

    columns = [_column(model) for model in models]
    rows = [(name, *(column[name] for column in columns)) for name in columns[0]]
    print_table(None, rows, headers=("", *(TITLES[model.name] for model in models)), wrap_numbers=False)
    print(
        "Gaps on the test records, and (≤) what is certified with confidence 95 %. τ_emp and\n"
        "Theorem 2 are the paper's own certificates: diagnostics, no bounds for these models.\n"
        f"\nModels: {', '.join(str(model.report.out) for model in models)}. Of {TITLES['model']}:\n"
    )


def _column(model: "DemoModel") -> dict[str, str]:
    """What the table says of one model, by the names of its rows."""
    report, metrics, privacy = model.report, model.report.metrics, model.report.privacy
    # Named data sets have test records.
    assert metrics is not None
    found = {
        "method": report.method,
        "data": report.dataset,
        "inputs": str(model.n_inputs),
        "epsilon": f"{rounded_up(privacy.epsilon)} ({privacy.accountant.upper()})",
        "accuracy": f"{metrics['accuracy']:.4f}",
        "majority class": f"{metrics['majority_accuracy']:.4f}",
        "ROC-AUC": f"{metrics['auc']:.4f}",
        "positive rate": f"{metrics['positive_rate']:.4f}",
        "parity ratio": f"{metrics['demographic_parity_ratio']:.4f}",
    }
    for metric, title in GAPS.items():
        certified = report.certificate.gaps.get(metric)
        bound = "" if certified is None else f" (≤ {bound_above(certified.tau)})"
        found[title] = f"{metrics[f'{metric}_difference']:.4f}{bound}"
    for metric, title in GAPS.items():
        found[f"τ_emp, {title.removesuffix(' gap')}"] = (
            "–" if model.paper is None else f"{model.paper.tau_emp[metric]:.4f}"
        )
    found["Theorem 2"] = "–" if model.paper is None else f"{model.paper.theorem_2:.4f}"
    return found | {"verdict": report.verdict.verdict}
