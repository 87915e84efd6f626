"""When training would halt: by the certificate that holds, and by the paper's τ_emp, which nothing pays for."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fairdp.classifier import FairDPClassifier
from fairdp.experiments.studies.protocol import N_SEEDS, QUICK_SETTINGS, tables_of
from fairdp.experiments.studies.results import Findings, Run, table
from fairdp.experiments.sweeps.populations import Population, load
from fairdp.metrics.rates import decision_counts, metrics_of_counts
from fairdp.run.certifying import look
from fairdp.run.fit import train_model
from fairdp.run.halting import all_heads, is_due
from fairdp.run.last_step import LastStep
from fairdp.run.prepared import PreparedRun, prepare_run
from fairdp.run.progress import Progress
from fairdp.run.settings import RunSettings
from fairdp.run.tau_emp import tau_emp
from fairdp.training.loop import Trainer
from fairdp.training.state import Looked

TARGETS, N_LOOKS, METRIC = (0.02, 0.03, 0.05), 4, "demographic_parity"
RULES = {"certified": "certificate", "tau_emp": "τ_emp"}
# A bound that no look meets: each then shows the one that it is judged by.
_UNMET = 1e-6

_Task = tuple[str, int, Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One look of a run that never halts: the bound that either rule judges it by, and the model on the test records.

    ``certified`` is compared with a target in a fixed order of looks, and no claim by itself. ``tau_emp`` is
    Proposition 3 on the very records that were trained on: a diagnostic, neither private nor a bound for the model.
    """

    dataset: str
    seed: int
    look: int
    certified: float
    tau_emp: float
    accuracy: float
    positive_rate: float
    test_gap: float


def halting_study(run: Run) -> Findings:
    """The look at which each rule halts on the same runs, and what the models that it keeps are worth."""
    settings = dict(QUICK_SETTINGS) if run.quick else {}
    asked: list[_Task] = [
        (dataset, seed, settings)
        for dataset in tables_of(run)
        for seed in range(run.seed, run.seed + (1 if run.quick else N_SEEDS[dataset]))
    ]
    found = run.done(_looks, asked, what="runs")
    datasets = {dataset: [looks for looks in found if looks[0].dataset == dataset] for dataset in tables_of(run)}
    lines = [line for runs in datasets.values() for target in TARGETS for line in _lines(runs, target)]
    text = (
        f"FairDP at ε = 1, a fifth of the records held out, {N_LOOKS} looks at demographic parity; mean over seeds of "
        "the models that a rule keeps. It halts at the first look whose bound is above the target and keeps the one "
        "before, or the first if that is above. The certificate's claim, at most the target, holds for the kept model "
        "with confidence .95, and is paid for. τ_emp is computed without noise from the records that were trained on: "
        f"a diagnostic for experiments, neither private nor a guarantee.\n\n{table(lines)}"
    )
    rows = [asdict(seen) for looks in found for seen in looks]
    return Findings({"targets": TARGETS, "n_looks": N_LOOKS, "rows": rows}, text, runs=rows)


def kept_by(rule: str, looks: Sequence[Seen], target: float) -> Seen:
    """The model that a rule keeps: the last look before the first whose bound is above the target, or the first."""
    misses = [number for number, seen in enumerate(looks) if getattr(seen, rule) > target]
    return looks[max(0, min(misses, default=len(looks)) - 1)]


def _looks(task: _Task, rng: np.random.Generator) -> list[Seen]:
    """One run to its end, looked at by both rules; its randomness is that of the fit with the same seed."""
    dataset, seed, settings = task
    parts = load(Population(dataset=dataset))
    looks: dict[str, Any] = {"n_looks": N_LOOKS, "require_tau": _UNMET, "certify_metrics": (METRIC,)}
    chosen = FairDPClassifier(
        method="fairdp", random_state=seed, group_sizes=parts.group_sizes, **looks, **settings
    ).get_params(deep=False)
    prepared = prepare_run(RunSettings.of(**chosen), parts.train, Progress())
    looked, found, test = Looked(), list[Seen](), parts.test

    def note() -> None:
        decisions = prepared.predictor.decisions(prepared.model, test.inputs)
        measured = metrics_of_counts(decision_counts(test.y, decisions, test.groups, test.n_groups), test.group_names)
        found.append(
            Seen(
                dataset=dataset,
                seed=seed,
                look=len(found) + 1,
                certified=look(prepared, looked, prepared.predictor).gaps[METRIC].tau,
                tau_emp=_tau_emp(prepared),
                accuracy=float(str(measured["accuracy"])),
                positive_rate=float(str(measured["positive_rate"])),
                test_gap=float(str(measured[f"{METRIC}_difference"])),
            )
        )

    def at_step(trainer: Trainer) -> bool:
        if is_due(prepared, trainer.state.step):
            with all_heads(trainer):
                note()
        return False

    given = (prepared.plan, prepared.config, prepared.generators, Progress(), None)
    train_model(prepared.model, prepared.parts.train, *given, looked=looked, look=at_step)
    note()
    return found


def _tau_emp(prepared: PreparedRun) -> float:
    """The paper's τ_emp of the heads that are looked at, with the noise of one of them, on their training records."""
    last = LastStep.planned(prepared.plan, prepared.config)
    assert last is not None
    return tau_emp(prepared.model, prepared.parts.train, deviation=last.deviations["one_head"])[METRIC]


def _lines(runs: Sequence[list[Seen]], target: float) -> list[dict[str, object]]:
    """A line of the table for each rule, and one for the last look."""
    kept = {title: [kept_by(rule, looks, target) for looks in runs] for rule, title in RULES.items()}
    missed = [sum(getattr(looks[0], rule) > target for looks in runs) for rule in RULES]
    kept["nothing, the last look"] = [looks[-1] for looks in runs]
    return [
        {
            "data": models[0].dataset,
            "target": f"{target:g}",
            "halts by": title,
            "looks kept": ", ".join(str(seen.look) for seen in models),
            "missed at once": f"{n_missed} of {len(runs)}",
            "accuracy": float(np.mean([seen.accuracy for seen in models])),
            "positive rate": float(np.mean([seen.positive_rate for seen in models])),
            "test gap": float(np.mean([seen.test_gap for seen in models])),
            "bound of the look": float(np.mean([seen.certified for seen in models])),
            "τ_emp": float(np.mean([seen.tau_emp for seen in models])),
        }
        for (title, models), n_missed in zip(kept.items(), [*missed, 0], strict=True)
    ]
