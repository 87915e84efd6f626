"""`fairdp demo`: the paper's FairDP beside the default, on data that anybody can have."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairdp._checks import InputError, ParameterError
from fairdp.commands.fit import run_fit
from fairdp.commands.fit_report import FitReport
from fairdp.commands.fit_task import FitTask
from fairdp.commands.records import Source
from fairdp.commands.saved_models import run_paper_bounds
from fairdp.config.paper import paper_settings
from fairdp.data import sources
from fairdp.data.catalog import DATASETS
from fairdp.saved.place import check_place

EPSILON = 1.0
# Folders of the models, so that other commands can be tried on them.
PAPER, DEFAULT, ALL_COLUMNS = "paper", "model", "all-columns"


@dataclass(frozen=True, kw_only=True)
class DemoModel:
    """One model of the demonstration, and the paper's certificates of it, which are diagnostics.

    ``paper`` is None where the paper's formulas do not apply to how the model decides.
    """

    name: str
    n_inputs: int
    report: FitReport
    paper: "PaperFigures | None"

    def to_json(self) -> dict[str, Any]:
        """Plain values: those of `fairdp fit`, and the diagnostics."""
        figures = None if self.paper is None else {"tau_emp": self.paper.tau_emp, "theorem_2": self.paper.theorem_2}
        return {"name": self.name, "n_inputs": self.n_inputs, **self.report.to_json(), "paper_bounds": figures}


@dataclass(frozen=True, kw_only=True)
class PaperFigures:
    """τ_emp by metric and Theorem 2, both at the deviation of the head that the paper prints."""

    tau_emp: Mapping[str, float]
    theorem_2: float


def demo_datasets() -> tuple[tuple[str, ...], str]:
    """The data sets to train on, Adult if it can be had, and a line that says so if it cannot."""
    try:
        sources.fetch("adult")
    except (OSError, InputError):
        return ("synthetic",), "The Adult data could not be had; using the built-in synthetic population."
    return ("adult", "adult_full"), ""


def run_demo(out: Path, datasets: tuple[str, ...], *, seed: int | None, overwrite: bool = False) -> list[DemoModel]:
    """Train the paper's FairDP and the default on the paper's inputs, and the default on all columns."""
    budget = {"epsilon": EPSILON, "random_state": seed}
    plans = [(PAPER, datasets[0], paper_settings(**budget)), (DEFAULT, datasets[0], budget)]
    plans += [(ALL_COLUMNS, dataset, budget) for dataset in datasets[1:]]
    for name, _, _ in plans:
        check_place(out / name, overwrite=overwrite)
    return [_trained(name, dataset, parameters, out / name, overwrite) for name, dataset, parameters in plans]


def _trained(name: str, dataset: str, parameters: dict[str, Any], folder: Path, overwrite: bool) -> DemoModel:
    source = Source(
        table=None, dataset=dataset, label=None, positive=None, sensitive=(), schema=None, test_fraction=0.2
    )
    task = FitTask(source=source, parameters=parameters, checkpoint=None, resume=False, out=folder, overwrite=overwrite)
    report = run_fit(task)
    return DemoModel(
        name=name, n_inputs=DATASETS[dataset].features, report=report, paper=_paper_figures(folder, dataset)
    )


def _paper_figures(folder: Path, dataset: str) -> PaperFigures | None:
    try:
        printed = run_paper_bounds(folder, None, dataset).at["printed"]
    except ParameterError:
        # Not of one linear score with a noisy head.
        return None
    return PaperFigures(tau_emp=printed.tau_emp, theorem_2=printed.theorem_2_corrected)
