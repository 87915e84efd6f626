"""`fairdp fit`: from files to a trained, certified and measured model."""

import math
import time
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fairdp._checks import InputError, ParameterError
from fairdp.accounting.words import PUBLIC
from fairdp.classifier import FairDPClassifier
from fairdp.commands.fit_report import FitReport, Tuned
from fairdp.commands.fit_task import FitTask, Search
from fairdp.commands.measuring import hidden_beforehand, measured, say_equal, warnings_of
from fairdp.commands.progress import progress_bar, say, say_spent, say_treated
from fairdp.commands.records import Records, Source, load_records, training_sizes
from fairdp.commands.split_keys import keep_split_key, kept_split_key, new_split_key, split_key_path
from fairdp.data.catalog import DATASETS
from fairdp.data.grouped import GroupedData
from fairdp.data.treatments import counts_by_column
from fairdp.frontier.points import FrontierPoint, chosen_point, frontier_points
from fairdp.ledger.spending import Spending
from fairdp.methods import METHODS
from fairdp.run.agreement import agree_on_files, agree_on_program
from fairdp.run.checkpoint import resumed_checkpoint
from fairdp.run.hold_out import declared_sizes
from fairdp.run.plan import PlannedRun
from fairdp.run.progress import Progress
from fairdp.run.reading import PaidReader, keep_reading, reader_for, reading_path
from fairdp.run.settings import RunSettings
from fairdp.saved.fitted import saved_form
from fairdp.saved.folder import MARKER, write_model
from fairdp.saved.place import place_for_model, with_used_records
from fairdp.saved.used_records import TRAINING, UsedRecords, fingerprints
from fairdp.team import WorkerLost, the_team
from fairdp.tuning import tune


def run_fit(task: FitTask) -> FitReport:
    """Train, certify, measure and save; whatever can be refused is refused before training.

    Of a team, this is what its first process does.
    """
    agree_on_program(task.compared)
    task = task.continued()
    # Data sets that are known by name are published: what is learnt from them need not be added up.
    path = None if task.source.table is None else task.ledger
    command = "fit" if task.search is None else "tune"
    place = nullcontext() if task.out is None else place_for_model(task.out, overwrite=task.overwrite)
    with (
        place,
        Spending(path, command=command, budget=task.budget, checkpoint=task.checkpoint) as spending,
    ):
        report = _run_fit(task, spending)
    # All is written: whoever was lost since then is not missed.
    with suppress(WorkerLost):
        _all_is_done()
    return report


def join_fit(task: FitTask) -> None:
    """What the other processes of a team do: read and train along with the first, which writes and reports."""
    agree_on_program(task.compared)
    task = task.continued()
    with Spending(None, command="fit") as unpaid:
        _fitted(replace(task, out=None), unpaid)
    _all_is_done()


def _all_is_done() -> None:
    """Wait for the first process, so that somebody can say it if that one is lost before the model is written."""
    the_team().from_first(lambda: b"done")


def _fitted(task: FitTask, spending: Spending) -> tuple[FairDPClassifier, UsedRecords, Records]:
    estimator = FairDPClassifier(**task.parameters)
    chosen = RunSettings.of(**estimator.get_params(deep=False))
    _check_serves(estimator.method, task.source)
    for path in (task.source.table, task.source.schema, task.source.test):
        if path is not None:
            agree_on_files(path)
    split_key = _split_key(task, chosen)
    reader = _reader(task, chosen, spending)

    def load() -> Records:
        return load_records(task.source, split_key=split_key, observe=spending.observe, read=reader)

    # What the first of every machine keeps encoded, the others find.
    records = load() if task.source.cache is None else the_team().after_first_here(load)
    estimator.group_sizes = _group_sizes(estimator, records, task.source)
    reason = _planned_for(estimator, records.train).reason_for_no_certificate(records.train.n_groups)
    if task.private_metrics and reason:
        raise InputError(
            "`private_metrics` come from the certificate's counts, but there is no certificate, because "
            f"{reason.explanation}."
        )
    estimator, used = _train(estimator, records, task, UsedRecords.new(split_key), spending, reader)
    return estimator, used, records


def _run_fit(task: FitTask, spending: Spending) -> FitReport:
    start = time.perf_counter()
    estimator, used, records = _fitted(task, spending)
    estimator.privacy_ = replace(estimator.privacy_, ledger=spending.note())
    say_equal(records.train, records.test, task.source.test)
    n_certify, metrics = measured(estimator, records.test, private=task.private_metrics)
    saved = [] if task.out is None else _save(estimator, used, task.out, task.checkpoint)
    say_spent(spending)
    return FitReport(
        method=estimator.method,
        dataset=records.name,
        n_train=None if task.private_metrics else estimator.n_train_,
        n_certify=n_certify,
        n_test=None if task.private_metrics else records.test.n_samples,
        metrics=metrics,
        privacy=estimator.privacy_,
        certificate=estimator.certificate_,
        notes=estimator.notes_,
        warnings=(*records.warnings, *warnings_of(estimator, metrics), *saved),
        seconds={**estimator.seconds_, "total": _total(estimator, start, task)},
        out=None if task.out is None else str(task.out),
        statement=estimator.privacy_statement(),
        verdict=estimator.verdict_,
        frontier=None if estimator.frontier_ is None else tuple(frontier_points(estimator.frontier_)),
        chosen=_chosen(estimator),
        positive=_positive(estimator, task.source),
        treated=None if task.private_metrics else counts_by_column(records.treated),
        label=None if task.source.table is None or records.schema is None else records.schema.label,
        tuned=None if task.search is None else _tuned(estimator, task.search),
    )


def _chosen(estimator: FairDPClassifier) -> FrontierPoint | None:
    frontier, target = estimator.frontier_, estimator.target_
    return None if frontier is None or target is None else chosen_point(frontier, target)


def _positive(estimator: FairDPClassifier, source: Source) -> str:
    """What a positive decision says: the label's value, or what it means in a data set that is known by name."""
    card = DATASETS.get(source.dataset or "")
    return str(estimator.classes_[1]) if card is None else card.label


def _total(estimator: FairDPClassifier, start: float, task: FitTask) -> float:
    """Total seconds; for a search only those of the best trial, because the total would reveal the number of trials."""
    return time.perf_counter() - start if task.search is None else math.fsum(estimator.seconds_.values())


def _tuned(estimator: FairDPClassifier, search: Search) -> Tuned:
    selection = estimator.privacy_.selection
    return Tuned(
        chosen={name: getattr(estimator, name) for name in search.grid},
        expected_trials=None if selection is None else selection.expected_trials,
        epsilon_of_one_trial=float(estimator.get_params()["epsilon"]),
    )


def _check_serves(method: str, source: Source) -> None:
    """Before anything is read, refuse images for a method that takes only tables."""
    card = DATASETS.get(source.dataset or "")
    if card is not None and card.images and METHODS[method].closed_form:
        raise ParameterError(
            "method", method, f"takes tables only, and {source.dataset} has images", "use `method`='dpsgd'"
        )


def _group_sizes(estimator: FairDPClassifier, records: Records, source: Source) -> str | Mapping[str, float] | None:
    """How the sizes of the groups are known, if the command or else the data says so: published, or declared."""
    chosen = estimator.group_sizes
    if chosen is None and records.published:
        return PUBLIC
    # A schema declares groups; where these are sampled by label, their parts are counted.
    declared = records.declared_sizes if estimator.grouping == "attribute" else {}
    if not isinstance(chosen, Mapping):
        return chosen or declared or None
    if estimator.grouping == "attribute":
        # Before they are scaled to the training records, so that a refusal shows what was given.
        declared_sizes(chosen, records.train.group_names)
    given = training_sizes(source, chosen)
    if declared and given != declared:
        raise ParameterError(
            "group_sizes", dict(chosen), "is not what the schema says", "make them agree, or leave one of them out"
        )
    return given


def _planned_for(estimator: FairDPClassifier, data: GroupedData) -> RunSettings:
    """The settings with their budget, which may follow from the kind of model that these records get."""
    settings = RunSettings.of(**estimator.get_params(deep=False))
    return settings.with_budget(settings.kind(data.X.shape[1:]), data.n_groups)


def _split_key(task: FitTask, settings: RunSettings) -> bytes:
    """The key of the coins that choose a table's test records; named data sets bring theirs."""
    if task.source.table is None:
        return b""
    if task.checkpoint is not None and task.resume:
        return kept_split_key(task.checkpoint)
    return new_split_key(settings.seed)


def _reader(task: FitTask, settings: RunSettings, spending: Spending) -> PaidReader | None:
    """What reads the columns of a table that nobody has declared; None where there is none, or nothing is private."""
    source = task.source
    if source.table is None or source.schema is not None:
        return None
    # A checkpoint that cannot be had or written is refused before anything is paid for.
    resumed_checkpoint(Progress(checkpoint=task.checkpoint, resume=task.resume))
    return reader_for(settings, spending, source.table.name, kept=task.checkpoint if task.resume else None)


def _train(
    estimator: FairDPClassifier,
    records: Records,
    task: FitTask,
    used: UsedRecords,
    spending: Spending,
    reader: PaidReader | None,
) -> tuple[FairDPClassifier, UsedRecords]:
    """The fitted estimator, or the best of several, and the records that were used."""

    def note(train: GroupedData, held_out: GroupedData) -> None:
        nonlocal used
        spending.charge(train, held_out)
        # Trials of a search share their parts.
        if task.out is not None and not used.uses:
            for name, part in ((TRAINING, train), ("certificate 1", held_out)):
                used = used.with_use(name, fingerprints(part, used.key))

    def keep() -> None:
        # The checkpoint is of no use without these.
        if task.checkpoint is not None and used.split_key and the_team().is_first:
            keep_split_key(task.checkpoint, used.split_key)
            if reader is not None:
                keep_reading(task.checkpoint, reader)

    treated = iter([records.treated])

    def forewarn(planned: PlannedRun) -> None:
        spending.spend(planned.privacy, records.table, resume=task.resume, run=planned.run)
        # Once for each trial it would tell how many there are.
        if task.search is None:
            for line in _known_beforehand(planned, task):
                say(f"before training: {line}")
        say_treated(next(treated, ()))

    with progress_bar("training" if task.search is None else "trials") as observe:
        progress = Progress(
            observe=observe,
            before_training=keep,
            observe_parts=note,
            observe_plan=forewarn,
            checkpoint=task.checkpoint,
            resume=task.resume,
        )
        schema = None if records.schema is None else records.schema.to_dict()
        options: dict[str, Any] = {
            "progress": progress,
            "public_assumptions": records.public_assumptions,
            "feature_schema": schema,
            "reading": None if reader is None else reader.reading,
        }
        if task.search is None:
            # Once a table is split, only its parts are needed; named data sets may be read-only.
            train = replace(records.train, expendable=task.source.table is not None)
            estimator.fit_grouped(train, **options)
        else:
            estimator = tune(
                estimator,
                task.search.grid,
                records.train,
                max_gap=task.search.within_gap,
                expected_trials=task.search.expected_trials,
                **options,
            )
    if records.schema is not None:
        estimator.classes_ = np.array([records.schema.negative, records.schema.positive])
    return estimator, used


def _known_beforehand(planned: PlannedRun, task: FitTask) -> list[str]:
    """What somebody might want to stop for."""
    lost = "without --out the model is not kept, though its epsilon is spent."
    found = [lost] if task.out is None and task.source.table is not None else []
    hidden = hidden_beforehand(planned)
    return found if hidden is None else [*found, hidden]


def _save(estimator: FairDPClassifier, used: UsedRecords, out: Path, checkpoint: Path | None) -> list[str]:
    """Write the model, the used records beside it, and remove its checkpoint; says what the user should know of it."""
    replaced = (out / MARKER).exists()
    try:
        with with_used_records(out, used.of_model(estimator.score_model_.digest())):
            write_model(out, saved_form(estimator))
    except OSError as error:
        kept = f"add `resume` to continue from {str(checkpoint)!r}" if checkpoint else ""
        raise ParameterError("out", str(out), f"cannot be written: {error.strerror}", kept) from None
    if checkpoint is not None:
        # The model is safe now, and the file holds the state of the noise generator.
        checkpoint.unlink(missing_ok=True)
        split_key_path(checkpoint).unlink(missing_ok=True)
        reading_path(checkpoint).unlink(missing_ok=True)
    return [f"the model that was in {str(out)!r} has been replaced."] if replaced else []
