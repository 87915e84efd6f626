"""One fit from the first step to its results: train on one part of the records, certify on the other.

And before that, where nobody has declared the columns of a table: read them once, with noise that is paid for.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from fairdp._format import rounded_up
from fairdp._io import RecordError, content_of, from_plain, json_bytes, parsed_json, write_file
from fairdp.accounting.mechanisms import PrivacyBudget, Reading, reading_epsilon, reading_for
from fairdp.accounting.plan import Plan
from fairdp.accounting.spent import PrivacySpent
from fairdp.certify.certificate import Certificate, NotCertified
from fairdp.config import ModelConfig, TrainConfig
from fairdp.data.columns import chosen_positive, refuse_unsaid, repeated
from fairdp.data.grouped import GroupedData
from fairdp.data.infer import column_tally, refuse_continuous, released_tally, schema_from, tally_of
from fairdp.data.schema import TableSchema, refuse_unfilled
from fairdp.defaults import train_config
from fairdp.distributed import process_group
from fairdp.errors import DataError, InputError, ParameterError
from fairdp.frontier.curve import Frontier, Target
from fairdp.ledger.ledger import Spending
from fairdp.methods import METHODS
from fairdp.methods.functional import smoothing_notes, solve, train_group_models
from fairdp.networks.model import ScoreModel, mark_trained
from fairdp.randomness import Generators, RandBelow
from fairdp.run.certifying import PreparedRun, breached, certified, post_processed, read_frontier, target_of
from fairdp.run.checkpoint import Checkpoint, CheckpointWriter, restore
from fairdp.run.plan import BuildInfo, build_info
from fairdp.run.predictor import Predictor
from fairdp.run.settings import Progress, RunSettings, TrainHoldoutSplit
from fairdp.training.loop import FlatOptimizer, InterimResults, Trainer, TrainingState, kept_memory, torch_threads

_UNKNOWN_GROUPS = "fill them, or let fairdp schema propose 'other: unknown', by which they are a group"
# Of groups, while the numbers of a run are checked and nobody is counted yet.
_ANY_SIZE = 1e6


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedRun:
    """The results of a fit: the model, the decision rule, what was spent, and what is promised."""

    model_config: ModelConfig
    model: ScoreModel
    predictor: Predictor
    privacy: PrivacySpent
    certificate: Certificate | NotCertified
    parts: TrainHoldoutSplit
    notes: dict[str, list[float]]
    frontier: Frontier | None
    target: Target | None
    seconds: dict[str, float]
    made: BuildInfo = field(default_factory=build_info)


def fit_run(prepared: PreparedRun, progress: Progress) -> FittedRun:
    """Train and certify; every record is used for one of the two."""
    parts, started, interim = prepared.parts, time.perf_counter(), InterimResults()
    if METHODS[prepared.settings.method].closed_form:
        solve(prepared.model, parts.train, prepared.plan, prepared.generators)
        return finish_run(prepared, {}, interim, started=started)
    notes = train_model(
        prepared.model,
        parts.train,
        prepared.plan,
        prepared.config,
        prepared.generators,
        progress,
        prepared.resumed,
        fingerprint=prepared.fingerprint,
        interim=interim,
        look=lambda trainer: breached(prepared, trainer),
    )
    return finish_run(prepared, notes, interim, started=started)


def finish_run(
    prepared: PreparedRun, notes: dict[str, list[float]], interim: InterimResults, *, started: float
) -> FittedRun:
    """Build the decision rule of the trained model, certify it, and gather the results of the run."""
    method, config, chain = METHODS[prepared.settings.method], prepared.config, prepared.generators.steps
    frontier = None
    if method.joint:
        frontier = read_frontier(prepared.model, prepared.parts.train, prepared.plan, config, chain)
    predictor = post_processed(prepared) if method.post_processes else prepared.predictor
    trained = time.perf_counter()
    certificate = certified(prepared, predictor, interim)
    mark_trained(prepared.model.extractor)
    return FittedRun(
        model_config=prepared.model_config,
        model=prepared.model,
        predictor=predictor,
        privacy=prepared.privacy,
        certificate=certificate,
        parts=prepared.parts,
        notes=notes,
        frontier=frontier,
        target=None if frontier is None else target_of(config),
        seconds={"train": trained - started, "certify": time.perf_counter() - trained},
    )


def train_model(
    model: ScoreModel,
    data: GroupedData,
    plan: Plan,
    config: TrainConfig,
    generators: Generators,
    progress: Progress,
    resumed: Checkpoint | None,
    *,
    fingerprint: str = "",
    interim: InterimResults | None = None,
    look: Callable[[Trainer], bool] = lambda trainer: False,
) -> dict[str, list[float]]:
    """Train the model in place, from its start or from a checkpoint, to the end or until a look ends training.

    Checkpoints are written with the run's ``fingerprint``. Returns what there is to say of the training besides.
    """
    kind = "sgd" if config.optimizer == "sgd" else "adam"
    state = TrainingState(
        model,
        FlatOptimizer(kind, config.momentum),
        generators.steps,
        interim=InterimResults() if interim is None else interim,
    )
    writer = CheckpointWriter(progress, plan, generators, fingerprint)
    if resumed is not None:
        restore(resumed, state)

    def after(state: TrainingState) -> None:
        progress.observe(state.step, plan.n_steps)
        writer.write_if_due(state)

    notes: dict[str, list[float]] = {}
    with kept_memory(), torch_threads(for_batch=plan.recipe.expected_batch_sizes.sum(), shape=model.shape):
        if plan.recipe.group_models:
            notes = smoothing_notes(train_group_models(state, data, plan, config, after), plan)
        else:
            if resumed is None:
                # Before anything is released, so that a run which ends early goes on and is not paid for twice.
                progress.before_training()
                writer.write_if_due(state)
            trainer = Trainer(state, data, plan, config)
            # The run may have been stopped between a checkpoint and the look that was due.
            while not look(trainer) and state.step < plan.n_steps:
                trainer.step()
                after(state)
    check_unchanged(model)
    return notes


def check_unchanged(model: ScoreModel) -> None:
    """Refuse a trained model whose module has stored what it saw, and one that nobody could use."""
    if not model.params.isfinite().all():
        raise InputError("the parameters are no longer finite; use a smaller `learning_rate`.")
    if model.has_changed_itself():
        raise InputError(
            "the module changed its own buffers in training, so it remembers private records; remove these buffers."
        )


@dataclass(kw_only=True)
class PrivateSchemaReader:
    """Reads the columns of one table, once.

    Parameters
    ----------
    budget
        What may be spent on the table in all.
    below
        Chance for a purpose.
    charge
        Called before anything is released, or used that was: writes down what is spent.
    reading
        How the table was read; None before.
    schema
        What was read of it; None before.
    """

    budget: PrivacyBudget
    below: Callable[[str], RandBelow]
    charge: Callable[[Reading], None] = lambda reading: None
    reading: Reading | None = None
    schema: TableSchema | None = field(default=None, repr=False)

    def __call__(
        self, frame: pd.DataFrame, label: str, sensitive: Sequence[str], positive: object
    ) -> tuple[TableSchema, tuple[str, ...]]:
        """The schema of a table and notes on it; what was read before is not read again."""
        if self.schema is not None and self.reading is not None:
            self.charge(self.reading)
            return self.schema, ()
        sensitive = (sensitive,) if isinstance(sensitive, str) else tuple(sensitive)
        # Whatever can be refused without telling anybody else is refused before it costs anything.
        twice = repeated((label, *sensitive))
        if twice is not None:
            raise DataError(f"column {twice!r} is named twice; label, protected columns and inputs must differ.")
        refuse_unfilled(frame, label)
        for name in sensitive:
            refuse_unfilled(frame, name, remedy=_UNKNOWN_GROUPS)
        tally = tally_of(frame)
        for name in sensitive:
            refuse_continuous(column_tally(tally, name, len(frame)))
        texts = list(column_tally(tally, label, len(frame)).values)
        if positive is None:
            refuse_unsaid(texts, label)
        else:
            chosen_positive(positive, texts, label)
        reading = reading_for(self.budget, len(tally.names))
        assert reading is not None
        spent = reading_epsilon(reading, self.budget.delta)
        if spent >= self.budget.epsilon:
            # Below a tiny δ no noise gets under some ε (moments).
            raise ParameterError(
                "epsilon",
                self.budget.epsilon,
                "is less than reading the columns of the table takes at "
                f"`delta`={self.budget.delta:g} ({rounded_up(spent)})",
                "declare them in a schema, or use more",
            )
        self.charge(reading)
        noisy = released_tally(tally, std=reading.std, threshold=reading.threshold, below=self.below)
        self.reading = reading
        self.schema, notes = schema_from(noisy, label, sensitive, positive)
        return self.schema, notes


def reader_for(
    settings: RunSettings, spending: Spending, table: str, *, kept: Path | None = None
) -> PrivateSchemaReader | None:
    """The reader of a table for a run with these settings; None if the run is not private, and reads it as it stands.

    ``kept`` is the checkpoint of a run that goes on.
    """
    if not METHODS[settings.method].private or not settings.goal.is_private:
        return None
    if settings.goal.epsilon_follows:
        raise ParameterError(
            "noise_multiplier",
            settings.goal.noise_multiplier,
            "with `n_steps` leaves open which epsilon the columns may be read with",
            "declare them in a schema, or give `epsilon` in place of `n_steps`",
        )
    # What can be refused whatever the table holds is refused before reading it costs anything.
    chosen = {**settings.training, "group_weights": None}
    train_config(settings.kind((1,)), settings.method, (_ANY_SIZE, _ANY_SIZE), **chosen)
    budget, below = settings.budget, Generators.of(settings.seed).below
    if kept is None:
        return PrivateSchemaReader(
            budget=budget, below=below, charge=lambda reading: spending.reserve(budget, reading, table)
        )
    reading, schema = _kept(kept)
    # The entry of the run that goes on is about all records of the table.
    return PrivateSchemaReader(
        budget=budget, below=below, charge=lambda reading: spending.charge_all(), reading=reading, schema=schema
    )


def _kept(checkpoint: Path) -> tuple[Reading, TableSchema]:
    path = reading_path(checkpoint)
    try:
        kept = parsed_json(process_group().from_rank_zero(lambda: content_of(path)))
        return from_plain(Reading, kept["reading"]), TableSchema.from_dict(kept["schema"])
    except (OSError, RecordError, ValueError, LookupError, TypeError):
        raise InputError(
            f"what was read of the table is not in {str(path)!r}, so that the run cannot be continued; restore the "
            "file, give the schema that the run had, or start the run again."
        ) from None


def keep_reading(checkpoint: Path, reader: PrivateSchemaReader) -> None:
    """Write what was read beside the checkpoint of a run: reading the table again would release it again."""
    assert reader.reading is not None
    assert reader.schema is not None
    content = json_bytes({"reading": reader.reading, "schema": reader.schema.to_dict()})
    write_file(reading_path(checkpoint), content, owner_only=True)


def reading_path(checkpoint: Path) -> Path:
    """The file beside a checkpoint that keeps what was read of its table."""
    return checkpoint.with_name(f"{checkpoint.name}.schema")
