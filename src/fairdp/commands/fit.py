"""`fairdp fit`: from files to a trained, certified and measured model."""

import math
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fairdp._files import check_replaceable
from fairdp.certify.certificate import Certificate
from fairdp.certify.record import certificate_record, estimated_metrics
from fairdp.classifier import FairDPClassifier
from fairdp.commands.measuring import measure, warnings_of
from fairdp.commands.progress import progress_bar
from fairdp.commands.records import Records, Source, load_records
from fairdp.data.catalog import DATASETS
from fairdp.data.grouped import GroupedData
from fairdp.methods import METHODS
from fairdp.run.checkpoint import Progress
from fairdp.run.settings import RunSettings
from fairdp.saved.folder import MARKER
from fairdp.saved.used_records import TRAINING, Register, check_register, fingerprints, register_path, write_register
from fairdp.tuning import tune


@dataclass(frozen=True, kw_only=True)
class FitTask:
    """One call of `fairdp fit`."""

    source: Source
    parameters: dict[str, Any]
    checkpoint: Path | None
    resume: bool
    out: Path | None
    private_metrics: bool = False
    search: "Search | None" = None


@dataclass(frozen=True, kw_only=True)
class Search:
    """Settings that are chosen out of several, and paid for."""

    grid: dict[str, list[Any]]
    within_gap: float
    expected_trials: float | None


def run_fit(task: FitTask) -> dict[str, Any]:
    """Train, certify, measure and save; all that can be refused is refused before training."""
    start = time.perf_counter()
    estimator = FairDPClassifier(**task.parameters)
    settings = RunSettings.of(**estimator.get_params(deep=False))
    if task.out is not None:
        check_replaceable(task.out, marker=MARKER)
        check_register(register_path(task.out))
    _check_serves(estimator.method, task.source)
    records = load_records(task.source)
    reason = settings.reason_for_no_certificate(records.train.n_groups)
    if task.private_metrics and reason:
        raise ValueError(f"--private-metrics come from the certificate's counts, but there is none, because {reason}.")
    estimator, register = _train(estimator, records, task)
    measured = _measured(estimator, records, private=task.private_metrics)
    saved = [] if task.out is None else _save(estimator, register, task.out, task.checkpoint)
    return {
        "method": estimator.method,
        "dataset": records.name,
        **measured,
        "privacy": estimator.privacy_.to_dict(),
        "certificate": certificate_record(estimator.certificate_),
        "notes": estimator.notes_,
        "warnings": [*records.warnings, *warnings_of(estimator, measured["metrics"]), *saved],
        "seconds": {**estimator.seconds_, "total": _total(estimator, start, task)},
        "out": None if task.out is None else str(task.out),
        "statement": estimator.privacy_statement(),
        **({} if task.search is None else {"tuned": _chosen(estimator, task.search)}),
    }


def _total(estimator: FairDPClassifier, start: float, task: FitTask) -> float:
    """Seconds of it all; of a search only those of the best trial, because all would tell how many there were."""
    return time.perf_counter() - start if task.search is None else math.fsum(estimator.seconds_.values())


def _chosen(estimator: FairDPClassifier, search: Search) -> dict[str, Any]:
    """What may be shown of a search: which settings won, not how many were tried or what the others reached."""
    selection = estimator.privacy_.selection
    return {
        "chosen": {name: getattr(estimator, name) for name in search.grid},
        "expected_trials": None if selection is None else selection.expected_trials,
        "epsilon_of_one_trial": estimator.epsilon,
    }


def _check_serves(method: str, source: Source) -> None:
    """Refuse, before anything is read, images for a method that takes tables only."""
    card = DATASETS.get(source.dataset or "")
    if card is not None and card.images and METHODS[method].closed_form:
        raise ValueError(f"method={method!r} takes tables only, and {source.dataset} has images; use method='dpsgd'.")


def _train(estimator: FairDPClassifier, records: Records, task: FitTask) -> tuple[FairDPClassifier, Register]:
    """The fitted estimator, or the best of several, and the register of the records that were used."""
    register = Register.new()

    def note(train: GroupedData, held_out: GroupedData) -> None:
        nonlocal register
        # Trials of a search share their parts.
        if task.out is not None and not register.uses:
            for name, part in ((TRAINING, train), ("certificate 1", held_out)):
                register = register.with_use(name, fingerprints(part, register.key))

    with progress_bar("training" if task.search is None else "trials") as observe:
        options: dict[str, Any] = {
            "progress": Progress(observe=observe, observe_parts=note, checkpoint=task.checkpoint, resume=task.resume),
            "public_assumptions": records.public_assumptions,
            "feature_schema": None if records.schema is None else records.schema.to_dict(),
        }
        if task.search is None:
            # Of a table, once it is split, only the parts are needed; named data sets may be there for reading only.
            estimator.fit_grouped(replace(records.train, expendable=task.source.table is not None), **options)
        else:
            own = task.search
            gap, trials = own.within_gap, own.expected_trials
            estimator = tune(estimator, own.grid, records.train, max_gap=gap, expected_trials=trials, **options)
    if records.schema is not None:
        estimator.classes_ = np.array([records.schema.negative, records.schema.positive])
    return estimator, register


def _measured(estimator: FairDPClassifier, records: Records, *, private: bool) -> dict[str, Any]:
    """Metrics and sizes: exact ones for the data holder, or what follows from the released counts."""
    certificate = estimator.certificate_
    if private and isinstance(certificate, Certificate):
        counted = sum(max(0, n) for group in certificate.counts for row in group for n in row)
        sizes = {"n_train": None, "n_certify": counted, "n_test": None}
        return {**sizes, "metrics": estimated_metrics(certificate)}
    sizes = {
        "n_train": estimator.n_train_,
        "n_certify": estimator.n_certify_,
        "n_test": records.test.n_samples,
    }
    return {**sizes, "metrics": measure(estimator, records.test)}


def _save(estimator: FairDPClassifier, register: Register, out: Path, checkpoint: Path | None) -> list[str]:
    """Write the model, its register beside it, and remove its checkpoint; returns what the user should know of it."""
    replaced = (out / MARKER).exists()
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        # The register first: it names its model, so that beside any other it counts as none.
        write_register(register_path(out), register.of_model(estimator.score_model_.digest()))
        estimator.save(out)
    except OSError as error:
        kept = f"; add --resume to continue from {str(checkpoint)!r}" if checkpoint else ""
        raise ValueError(f"--out {str(out)!r} cannot be written: {error.strerror}{kept}.") from None
    if checkpoint is not None:
        # The model is safe now, and the file holds the state of the noise generator.
        checkpoint.unlink(missing_ok=True)
    return [f"the model that was in {str(out)!r} has been replaced."] if replaced else []
