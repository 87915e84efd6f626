"""`fairdp fit`: from files to a trained, certified and measured model."""

import math
import time
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex
from typing import Any

from fairdp._io import to_plain
from fairdp.accounting.spent import PUBLIC, PrivacySpent
from fairdp.certify.certificate import Certificate, NotCertified
from fairdp.certify.statement import certificate_record, certificate_statement
from fairdp.classifier import FairDPClassifier
from fairdp.cli.terminal import progress_bar, say, say_cell_issues, say_spent
from fairdp.data.catalog import DATASETS
from fairdp.data.columns import counts_by_column
from fairdp.defaults import kind_of
from fairdp.distributed import WorkerLost, note, noted, process_group
from fairdp.errors import InputError, ParameterError
from fairdp.frontier.curve import FrontierPoint, chosen_point, frontier_points
from fairdp.frontier.verdict import Verdict
from fairdp.ledger.ledger import Spending
from fairdp.methods import METHODS
from fairdp.randomness import seed_of
from fairdp.records import (
    Records,
    Source,
    equal_records,
    hidden_beforehand,
    keep_split_key,
    kept_split_key,
    load_records,
    measured,
    new_split_key,
    split_key_path,
    training_sizes,
    warnings_of,
)
from fairdp.run.certifying import Run
from fairdp.run.checkpoint import check_new, resumed_checkpoint
from fairdp.run.fit import PrivateSchemaReader, Progress, keep_reading, reader_for, reading_path
from fairdp.run.holdout import agree_on_files, agree_on_program, declared_sizes
from fairdp.run.plan import budget_of, checked, reason_for_no_certificate
from fairdp.saved.folder import MARKER, place_for_model, write_model
from fairdp.tuning import tune

# A note of `fairsmooth`, and what it is.
_BOUND = "overall_against_group_classifier"
_BOUND_IN_WORDS = (
    "for any input, the largest possible difference between the expectations of the averaged model and of each group's "
    "model over all noise on the parameters; not a bound on a gap between groups, nor on the deployed decision, which "
    "is made from a fixed number of draws"
)
# What a launch notes before its run may be paid for, and the process that has noted it.
_BEGUN, _PROCESS = "begun", token_hex()


@dataclass(frozen=True, kw_only=True)
class FitTask:
    """One call of `fairdp fit`, or with the keywords of `fairdp.tune` in ``search`` of `fairdp tune`."""

    source: Source
    parameters: dict[str, Any]
    checkpoint: Path | None
    resume: bool
    out: Path | None
    overwrite: bool = False
    private_metrics: bool = False
    ledger: Path | None = None
    budget: float | None = None
    search: dict[str, Any] | None = None

    @property
    def compared(self) -> tuple[object, ...]:
        """Options that all processes must share; where files are may differ, and which of them write."""
        source = replace(self.source, table=None, schema=None, test=None, cache=None)
        files = (self.source.schema, self.source.test, self.source.cache, self.checkpoint, self.ledger)
        given = tuple(path is None for path in files)
        return source, self.parameters, self.resume, given, self.budget, self.private_metrics

    def continued(self) -> "FitTask":
        """As it is at the first start of a launch; started again, it goes on, and never begins a second time."""
        how = process_group().from_rank_zero(self._how)
        return replace(self, resume=b"resume" in how, overwrite=self.overwrite or b"replace" in how)

    def _how(self) -> bytes:
        begun = (noted(_BEGUN) or "").split()
        if begun and begun[0] != _PROCESS:
            return self._later_start(begun[1])
        # From here on a checkpoint of this name, and a model that was not there, are this launch's own.
        if self.checkpoint is not None and not self.resume:
            check_new(self.checkpoint)
        note(_BEGUN, f"{_PROCESS} {self._model()}")
        return b"resume" if self.resume else b""

    def _later_start(self, model_before: str) -> bytes:
        if self.checkpoint is None:
            raise InputError(
                "a worker was lost, and without `checkpoint` the run cannot go on; start it again with one."
            )
        wrote, there = self._model() != model_before, self.checkpoint.exists()
        if wrote and not there:
            # Whoever had written it was lost before the launch could end.
            raise InputError(f"this run has already finished; its model is in {str(self.out)!r}.")
        return b"resume" * there + b" replace" * wrote

    def _model(self) -> str:
        """Another word for every model that was ever written to the folder."""
        marker = None if self.out is None else self.out / MARKER
        if marker is None or not marker.exists():
            return "none"
        state = marker.stat()
        return f"{state.st_ino}-{state.st_mtime_ns}"


@dataclass(frozen=True, kw_only=True)
class FitReport:
    """The results of a run: produced, spent, measured and promised.

    ``metrics`` are exact, for the data holder; with private metrics they and ``n_certify`` come from the released
    counts, and the other sizes are None. Without test records they come from these counts too, and are None if there
    is no certificate. ``verdict`` follows from counts that are paid for, and ``frontier`` is what the model offers at
    other prices, of which ``chosen`` is deployed. ``positive`` is what a positive decision means: the value of column
    ``label``, or without one a text. ``treated`` is which cells of the table were not as declared, by column, exactly.
    ``tuned`` is what may be shown about a search: which settings won, not how many were tried or how the others did.
    """

    method: str
    dataset: str
    n_train: int | None
    n_certify: int
    n_test: int | None
    metrics: Mapping[str, Any] | None
    privacy: PrivacySpent
    certificate: Certificate | NotCertified
    notes: Mapping[str, object]
    warnings: tuple[str, ...]
    seconds: Mapping[str, float]
    out: str | None
    statement: str
    verdict: Verdict
    frontier: tuple[FrontierPoint, ...] | None
    chosen: FrontierPoint | None
    positive: str
    treated: Mapping[str, Mapping[str, int]] | None = None
    label: str | None = None
    tuned: dict[str, Any] | None = None

    @property
    def measured(self) -> str:
        """The records that the metrics are of."""
        return f"on {self.n_test:,} test records" if self.n_test else "from the noisy counts"

    @property
    def certificate_statement(self) -> str:
        """The certificate in words."""
        return certificate_statement(self.certificate)

    def to_json(self) -> dict[str, object]:
        """Plain values under the names users see."""
        plain = {**to_plain(self), "certificate": certificate_record(self.certificate)}
        del plain["chosen"], plain["label"]
        quality, target = self.verdict.quality, self.verdict.target
        plain |= {
            "quality": None if quality is None else quality.to_dict(),
            "target": None if target is None else target.to_dict(),
            "verdict": self.verdict.verdict,
        }
        note = self.privacy.ledger
        del plain["privacy"]["ledger"]
        plain["ledger"] = None if note is None else note.to_json()
        if _BOUND in self.notes:
            plain["notes"] |= {"what_it_is": _BOUND_IN_WORDS}
        return plain if self.tuned is not None else {name: plain[name] for name in plain if name != "tuned"}


def run_fit(task: FitTask) -> FitReport:
    """Train, certify, measure and save; whatever can be refused is refused before training.

    In a process group, this is what its first process does.
    """
    agree_on_program(task.compared)
    task = task.continued()
    source, out, start = task.source, task.out, time.perf_counter()
    # Data sets that are known by name are published: what is learnt from them need not be added up.
    path = None if source.table is None else task.ledger
    command = "fit" if task.search is None else "tune"
    place = nullcontext() if out is None else place_for_model(out, overwrite=task.overwrite)
    with place, Spending(path, command=command, budget=task.budget, checkpoint=task.checkpoint) as spending:
        estimator, records = _fitted(task, spending)
        estimator.release(privacy=replace(estimator.privacy_, ledger=spending.note()))
        equal = None if source.test is None else equal_records(records.train, records.test, source.test)
        if equal is not None:
            say(f"warning: {equal}")
        n_certify, metrics = measured(estimator, records.test, private=task.private_metrics)
        saved = [] if out is None else save_fitted(estimator, out, task.checkpoint)
        say_spent(spending)
        total, tuned = time.perf_counter() - start, None
        if task.search is not None:
            # Seconds of the best trial only: the total would reveal the number of trials.
            total, selection = math.fsum(estimator.seconds_.values()), estimator.privacy_.selection
            tuned = {
                "chosen": {name: getattr(estimator, name) for name in task.search["grid"]},
                "expected_trials": None if selection is None else selection.expected_trials,
                "epsilon_of_one_trial": float(estimator.get_params()["epsilon"]),
            }
        frontier, target, card = estimator.frontier_, estimator.target_, DATASETS.get(source.dataset or "")
        report = FitReport(
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
            seconds={**estimator.seconds_, "total": total},
            out=None if out is None else str(out),
            statement=estimator.privacy_statement(),
            verdict=estimator.verdict_,
            frontier=None if frontier is None else tuple(frontier_points(frontier)),
            chosen=None if frontier is None or target is None else chosen_point(frontier, target),
            positive=str(estimator.classes_[1]) if card is None else card.label,
            treated=None if task.private_metrics else counts_by_column(records.treated),
            label=None if source.table is None or records.schema is None else records.schema.label,
            tuned=tuned,
        )
    # All is written: whoever was lost since then is not missed.
    with suppress(WorkerLost):
        _all_is_done()
    return report


def join_fit(task: FitTask) -> None:
    """Read and train along with the rank-zero process, which writes and reports."""
    agree_on_program(task.compared)
    task = task.continued()
    with Spending(None, command="fit") as unpaid:
        _fitted(replace(task, out=None), unpaid)
    _all_is_done()


def _all_is_done() -> None:
    """Wait for the first process, so that somebody can say it if that one is lost before the model is written."""
    process_group().from_rank_zero(lambda: b"done")


def _fitted(task: FitTask, spending: Spending) -> tuple[FairDPClassifier, Records]:
    estimator, source = FairDPClassifier(**task.parameters), task.source
    chosen, card = checked(**estimator.get_params(deep=False)), DATASETS.get(source.dataset or "")
    if card is not None and card.images and METHODS[estimator.method].closed_form:
        raise ParameterError(
            "method", estimator.method, f"takes tables only, and {source.dataset} has images", "use `method`='dpsgd'"
        )
    for path in (source.table, source.schema, source.test):
        if path is not None:
            agree_on_files(path)
    # The key of the coins that choose a table's test records; named data sets bring theirs.
    split_key, reader = b"", None
    resumed = task.checkpoint if task.resume else None
    if source.table is not None:
        split_key = new_split_key(seed_of(chosen.random_state)) if resumed is None else kept_split_key(resumed)
        if source.schema is None:
            # A checkpoint that cannot be had or written is refused before anything is paid for.
            resumed_checkpoint(task.checkpoint, resume=task.resume)
            reader = reader_for(chosen, spending, source.table.name, kept=resumed)

    def load() -> Records:
        return load_records(source, split_key=split_key, observe=spending.observe, read=reader)

    # What the first of every machine keeps encoded, the others find.
    records = load() if source.cache is None else process_group().local_rank_zero_first(load)
    estimator.group_sizes, estimator.table = _group_sizes(estimator, records, source), records.table
    chosen, n_groups = checked(**estimator.get_params(deep=False)), records.train.n_groups
    # An ε that follows does so from the kind of model that these records get.
    epsilon = budget_of(chosen, kind=kind_of(chosen, records.train.X.shape[1:]), n_groups=n_groups).epsilon
    reason = reason_for_no_certificate(chosen, n_groups=n_groups, epsilon=epsilon)
    if task.private_metrics and reason:
        raise InputError(
            "`private_metrics` come from the certificate's counts, but there is no certificate, because "
            f"{reason.explanation}."
        )
    return _train(estimator, records, task, split_key, spending, reader), records


def _group_sizes(estimator: FairDPClassifier, records: Records, source: Source) -> str | Mapping[str, float] | None:
    """Sizes of the groups as the command or else the data state them: published, or declared."""
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


def _train(
    estimator: FairDPClassifier,
    records: Records,
    task: FitTask,
    split_key: bytes,
    spending: Spending,
    reader: PrivateSchemaReader | None,
) -> FairDPClassifier:
    """The fitted estimator, or the best of several."""
    treated = iter([records.treated])

    def before_training(run: Run) -> None:
        # Once for each trial it would tell how many there are.
        if task.search is None:
            if task.out is None and task.source.table is not None:
                say("before training: without --out the model is not kept, though its epsilon is spent.")
            hidden = hidden_beforehand(run)
            if hidden is not None:
                say(f"before training: {hidden}")
        say_cell_issues(next(treated, ()))
        # The checkpoint is of no use without these.
        if task.checkpoint is not None and not task.resume and split_key and process_group().is_rank_zero:
            keep_split_key(task.checkpoint, split_key)
            if reader is not None:
                keep_reading(task.checkpoint, reader)

    with progress_bar("training" if task.search is None else "trials") as observe:
        progress = Progress(
            observe=observe, before_training=before_training, checkpoint=task.checkpoint, resume=task.resume
        )
        schema = records.schema
        options: dict[str, Any] = {
            "progress": progress,
            "spending": spending,
            "public_assumptions": records.public_assumptions,
            "feature_schema": None if schema is None else schema.to_dict(),
            "classes": (0, 1) if schema is None else (schema.negative, schema.positive),
            "reading": None if reader is None else reader.reading,
        }
        if task.search is None:
            # Once a table is split, only its parts are needed; named data sets may be read-only.
            train = replace(records.train, may_consume=task.source.table is not None)
            estimator.fit_grouped(train, **options)
        else:
            estimator = tune(estimator, data=records.train, **task.search, **options)
    return estimator


def save_fitted(estimator: FairDPClassifier, out: Path, checkpoint: Path | None) -> list[str]:
    """Write the model and remove its checkpoint; says what the user should know of it."""
    replaced = (out / MARKER).exists()
    try:
        write_model(out, estimator.fitted_)
    except OSError as error:
        kept = f"add `resume` to continue from {str(checkpoint)!r}" if checkpoint else ""
        raise ParameterError("out", str(out), f"cannot be written: {error.strerror}", kept) from None
    if checkpoint is not None:
        # The model is safe now, and the file holds the state of the noise generator.
        checkpoint.unlink(missing_ok=True)
        split_key_path(checkpoint).unlink(missing_ok=True)
        reading_path(checkpoint).unlink(missing_ok=True)
    return [f"the model that was in {str(out)!r} has been replaced."] if replaced else []
