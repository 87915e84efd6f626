"""From file to folder: read, set test records aside, fit (`fairdp.run.fit`) or search, measure, save."""

import math
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex
from typing import Any

from fairdp._io import to_plain
from fairdp.accounting.spent import PUBLIC, PrivacySpent
from fairdp.certify.certificate import Certificate, NotCertified
from fairdp.classifier import FairDPClassifier
from fairdp.data.catalog import DATASETS
from fairdp.data.columns import counts_by_column, lines_for_holder
from fairdp.distributed import WorkerLost, agree_on_files, agree_on_program, note, noted, process_group
from fairdp.errors import InputError, ParameterError
from fairdp.frontier.curve import FrontierPoint, chosen_point, frontier_points
from fairdp.frontier.verdict import Verdict
from fairdp.ledger.ledger import Spending
from fairdp.methods import METHODS
from fairdp.parameters import Parameters
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
from fairdp.run.fit import Progress, keep_reading, reader_for, reading_path
from fairdp.run.plan import budget_of, checked, declared_sizes, kind_of, reason_for_no_certificate
from fairdp.saved.folder import MARKER, certificate_record, place_for_model, write_model
from fairdp.statements.certificate import BOUND_OF_SMOOTHING, certificate_statement
from fairdp.tuning import tune

# A note of `fairsmooth`.
_BOUND = "overall_against_group_classifier"
# What a launch notes before its run may be paid for, and the process that has noted it.
_BEGUN, _PROCESS = "begun", token_hex()


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
            plain["notes"] |= {"what_it_is": BOUND_OF_SMOOTHING}
        return plain if self.tuned is not None else {name: plain[name] for name in plain if name != "tuned"}


def fit_source(
    source: Source,
    parameters: dict[str, Any],
    *,
    checkpoint: Path | None = None,
    resume: bool = False,
    out: Path | None = None,
    overwrite: bool = False,
    private_metrics: bool = False,
    ledger: Path | None = None,
    budget: float | None = None,
    search: dict[str, Any] | None = None,
    observe: Callable[[int, int], None] = lambda step, n_steps: None,
    say: Callable[[str], None] = lambda line: None,
) -> FitReport:
    """Train, certify, measure and save; whatever can be refused is refused before training.

    Of several processes that do this together the first one pays, writes and measures.

    Parameters
    ----------
    parameters
        Those of `FairDPClassifier`.
    ledger, budget
        Where to add up what is spent on a table, and the most that may be spent on it in all.
    search
        The keywords of `fairdp.tune`, if the best of several fits is wanted.
    observe, say
        Told of each step, and what the data holder should not have to wait for.
    """
    start, first = time.perf_counter(), process_group().is_rank_zero
    # What all processes must share. Where their files are may differ, and so may which process writes.
    paths = (source.schema, source.test, source.cache, checkpoint, ledger)
    shared = replace(source, table=None, schema=None, test=None, cache=None), parameters, resume, budget
    agree_on_program((*shared, tuple(path is None for path in paths), private_metrics))
    resume, overwrite = _as_started(checkpoint, out, resume=resume, overwrite=overwrite)
    place = place_for_model(out, overwrite=overwrite) if first and out is not None else nullcontext()
    # Named data sets are public: what is learnt from them is not added up.
    ledger_path = ledger if first and source.table is not None else None
    paying: dict[str, Any] = {"budget": budget, "checkpoint": checkpoint} if first else {}
    with place, Spending(ledger_path, command="fit" if search is None else "tune", **paying) as spending:
        estimator = FairDPClassifier(**parameters)
        chosen, card = checked(**estimator.get_params(deep=False)), DATASETS.get(source.dataset or "")
        if card is not None and card.images and METHODS[chosen.method].closed_form:
            raise ParameterError(
                "method", chosen.method, f"takes tables only, and {source.dataset} has images", "use `method`='dpsgd'"
            )
        for file in (source.table, source.schema, source.test):
            if file is not None:
                agree_on_files(file)
        # Read. The key of the coins that choose a table's test records; named data sets bring theirs.
        split_key, reader, resumed_from = b"", None, checkpoint if resume else None
        if source.table is not None:
            split_key = (
                new_split_key(seed_of(chosen.random_state)) if resumed_from is None else kept_split_key(resumed_from)
            )
            if source.schema is None:
                # A checkpoint that cannot be had or written is refused before anything is paid for.
                resumed_checkpoint(checkpoint, resume=resume)
                reader = reader_for(chosen, spending, source.table.name, kept=resumed_from)

        def load() -> Records:
            return load_records(source, split_key=split_key, observe=spending.observe, read=reader)

        # What the first of every machine keeps encoded, the others find.
        records = load() if source.cache is None else process_group().local_rank_zero_first(load)
        estimator.group_sizes, estimator.table = _group_sizes(chosen, records, source), records.table
        chosen, n_groups = checked(**estimator.get_params(deep=False)), records.train.n_groups
        # Where ε follows from noise and steps, it depends on the kind of model that these records get.
        epsilon = budget_of(chosen, kind=kind_of(chosen, records.train.X.shape[1:]), n_groups=n_groups).epsilon
        reason = reason_for_no_certificate(chosen, n_groups=n_groups, epsilon=epsilon)
        if private_metrics and reason:
            raise InputError(
                "`private_metrics` come from the certificate's counts, but there is no certificate, because "
                f"{reason.explanation}."
            )
        # Consumed by the first call: a search calls this before every trial, and repeated lines would tell how many.
        treated = iter([records.treated])

        def before_training(run: Run) -> None:
            # Not for a search, for the same reason.
            if search is None:
                if out is None and source.table is not None:
                    say("before training: without --out the model is not kept, though its epsilon is spent.")
                hidden = hidden_beforehand(run)
                if hidden is not None:
                    say(f"before training: {hidden}")
            for line in lines_for_holder(next(treated, ())):
                say(line)
            # The checkpoint is of no use without these.
            if checkpoint is not None and not resume and split_key and first:
                keep_split_key(checkpoint, split_key)
                if reader is not None:
                    keep_reading(checkpoint, reader)

        progress = Progress(observe=observe, before_training=before_training, checkpoint=checkpoint, resume=resume)
        schema = records.schema
        options: dict[str, Any] = {
            "progress": progress,
            "spending": spending,
            "public_assumptions": records.public_assumptions,
            "feature_schema": None if schema is None else schema.to_dict(),
            "classes": (0, 1) if schema is None else (schema.negative, schema.positive),
            "reading": None if reader is None else reader.reading,
        }
        # Hold out, plan, pay, train and certify: see `fairdp.run.fit`.
        if search is not None:
            estimator = tune(estimator, data=records.train, **search, **options)
        else:
            # Once a table is split, only its parts are needed; named data sets may be read-only.
            train = replace(records.train, may_consume=source.table is not None)
            estimator.fit_grouped(train, **options)
        estimator.amend(privacy=replace(estimator.privacy_, ledger=spending.note()))
        # Measure, save, report.
        equal = None if source.test is None or not first else equal_records(records.train, records.test, source.test)
        if equal is not None:
            say(f"warning: {equal}")
        n_certify, metrics = measured(estimator, records.test, private=private_metrics) if first else (0, None)
        saved = [] if out is None or not first else _save(estimator, out, checkpoint)
        line = spending.complete()
        if line:
            say(line)
        total, tuned = time.perf_counter() - start, None
        if search is not None:
            # Seconds of the best trial only: the total would reveal the number of trials.
            total, selection = math.fsum(estimator.seconds_.values()), estimator.privacy_.selection
            tuned = {
                "chosen": {name: getattr(estimator, name) for name in search["grid"]},
                "expected_trials": None if selection is None else selection.expected_trials,
                "epsilon_of_one_trial": float(estimator.get_params()["epsilon"]),
            }
        frontier, target = estimator.frontier_, estimator.target_
        report = FitReport(
            method=estimator.method,
            dataset=records.name,
            n_train=None if private_metrics else estimator.n_train_,
            n_certify=n_certify,
            n_test=None if private_metrics else records.test.n_samples,
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
            treated=None if private_metrics else counts_by_column(records.treated),
            label=None if source.table is None or records.schema is None else records.schema.label,
            tuned=tuned,
        )
    # All wait for the first process, so that somebody can report it if that one is lost before the model is written.
    # Once it is written, a process that has been lost since does not matter.
    with suppress(WorkerLost) if first else nullcontext():
        process_group().from_rank_zero(lambda: b"done")
    return report


def _as_started(checkpoint: Path | None, out: Path | None, *, resume: bool, overwrite: bool) -> tuple[bool, bool]:
    """Flags to resume and to overwrite: a launch that is started again goes on, and never begins a second time."""

    def model() -> str:
        # Another word for every model that was ever written to the folder.
        marker = None if out is None else out / MARKER
        if marker is None or not marker.exists():
            return "none"
        state = marker.stat()
        return f"{state.st_ino}-{state.st_mtime_ns}"

    def how() -> bytes:
        begun = (noted(_BEGUN) or "").split()
        if not begun or begun[0] == _PROCESS:
            # From here on a checkpoint of this name, and a model that was not there, are this launch's own.
            if checkpoint is not None and not resume:
                check_new(checkpoint)
            note(_BEGUN, f"{_PROCESS} {model()}")
            return b"resume" if resume else b""
        if checkpoint is None:
            raise InputError(
                "a worker was lost, and without `checkpoint` the run cannot go on; start it again with one."
            )
        wrote, there = model() != begun[1], checkpoint.exists()
        if wrote and not there:
            # Whoever had written it was lost before the launch could end.
            raise InputError(f"this run has already finished; its model is in {str(out)!r}.")
        return b"resume" * there + b" replace" * wrote

    answer = process_group().from_rank_zero(how)
    return b"resume" in answer, overwrite or b"replace" in answer


def _group_sizes(chosen: Parameters, records: Records, source: Source) -> str | Mapping[str, float] | None:
    """Sizes of the groups as the command or else the data state them: published, or declared."""
    sizes = chosen.group_sizes
    if sizes is None and records.published:
        return PUBLIC
    # A schema declares groups; where these are sampled by label, their parts are counted.
    declared = records.declared_sizes if chosen.grouping == "attribute" else {}
    if not isinstance(sizes, Mapping):
        return sizes or declared or None
    if chosen.grouping == "attribute":
        # Before they are scaled to the training records, so that a refusal shows what was given.
        declared_sizes(sizes, records.train.group_names)
    given = training_sizes(source, sizes)
    if declared and given != declared:
        raise ParameterError(
            "group_sizes", dict(sizes), "is not what the schema says", "make them agree, or leave one of them out"
        )
    return given


def _save(estimator: FairDPClassifier, out: Path, checkpoint: Path | None) -> list[str]:
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
