"""One fit: hold out, plan, pay, train, certify.

And before that, where nobody has declared the columns of a table: read them once, with noise that is paid for.
"""

import hashlib
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from fairdp._io import RecordError, content_of, from_plain, json_bytes, parsed_json, write_file
from fairdp.accounting.mechanisms import PrivacyBudget, Reading, reading_epsilon, reading_for
from fairdp.accounting.plan import Plan, SizesNoise, sizes_noise
from fairdp.accounting.spent import FITTED_BEFORE, NAMES_READ, NOISY, READ_FROM_TABLE, PrivacySpent
from fairdp.certify.certificate import Certificate, NotCertified
from fairdp.config import ModelConfig, TrainConfig
from fairdp.data.columns import EncodedColumns, chosen_positive, refuse_unsaid, repeated
from fairdp.data.grouped import GroupedData, bytes_of, declared_groups, split_by_own_coin
from fairdp.data.infer import column_tally, refuse_continuous, released_tally, schema_from, tally_of
from fairdp.data.schema import TableSchema, refuse_unfilled
from fairdp.distributed import agree_on_program, process_group
from fairdp.errors import DataError, InputError, ParameterError, rounded_up
from fairdp.frontier.curve import Frontier, Target
from fairdp.ledger.ledger import Spending
from fairdp.methods import METHODS, PLAIN
from fairdp.methods.functional import smoothing_notes, solve, train_group_models
from fairdp.networks.model import ParameterSmoothing, ScoreModel, build_model, mark_trained
from fairdp.parameters import Parameters
from fairdp.randomness import Chain, Generators, RandBelow, seed_of
from fairdp.run.certifying import (
    Run,
    TrainHoldoutSplit,
    Trial,
    breached,
    certified,
    check_certifiable,
    counted_sizes,
    post_processed,
    read_frontier,
)
from fairdp.run.checkpoint import (
    Checkpoint,
    CheckpointWriter,
    check_resumable,
    check_sizes,
    fingerprint_of,
    network_digest,
    restore,
    resumed_checkpoint,
)
from fairdp.run.plan import (
    BuildInfo,
    budget_of,
    build_info,
    declared_sizes,
    epsilon_follows,
    floored,
    held_out_fraction,
    is_private,
    kind_of,
    known_sizes_of,
    network_for,
    plan_run,
    registration_of,
    train_config,
)
from fairdp.run.predictor import Predictor
from fairdp.training.loop import FlatOptimizer, InterimResults, Trainer, TrainingState, kept_memory, torch_threads

# Where files are, and the module, which is compared by what it does once it is built.
_OWN = ("ledger", "table", "module")
# A module is code, a seed may be the secret that the guarantee rests on, and where the ledger is concerns its holder.
NOT_STORED = ("module", "random_state", "ledger", "table")
_UNKNOWN_GROUPS = "fill them, or let fairdp schema propose 'other: unknown', by which they are a group"
# Of groups, while the numbers of a run are checked and nobody is counted yet.
_ANY_SIZE = 1e6


@dataclass(frozen=True, kw_only=True, eq=False)
class Fitted:
    """The results of a fit: what is saved, loaded and reported.

    ``model`` configures the network, ``heads`` is the number of heads and the size of each, ``made`` the day and the
    versions, ``notes`` what a method says of its own training. A joint model has a ``frontier``, and the ``target``
    that its rule was chosen for, which may have been moved since. Not saved: the numbers of records, and the
    ``seconds`` that the fit took.
    """

    parameters: Parameters
    classes: tuple[Any, ...] = (0, 1)
    groups: tuple[str, ...]
    feature_schema: dict[str, object] | None
    feature_names: tuple[str, ...] | None = None
    predictor: Predictor
    notes: dict[str, object]
    made: BuildInfo
    model: ModelConfig
    shape: tuple[int, ...]
    heads: tuple[int, int]
    smoothing: ParameterSmoothing | None
    frontier: Frontier | None
    target: Target | None
    privacy: PrivacySpent
    certificate: Certificate | NotCertified
    tensors: dict[str, Tensor] = field(repr=False)
    n_train: int = 0
    n_certify: int = 0
    seconds: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Callbacks before the first step and after each, and where checkpoints go.

    ``before_training`` is called when a run has been planned and paid for, before its first checkpoint is written.
    """

    observe: Callable[[int, int], None] = lambda step, n_steps: None
    before_training: Callable[[Run], None] = lambda run: None
    checkpoint: Path | None = None
    resume: bool = False
    seconds_between_checkpoints: float = 1.0


def fit(
    chosen: Parameters, data: GroupedData, spending: Spending, progress: Progress, **given: Any
) -> tuple[ScoreModel, Fitted]:
    """Hold out, plan and pay (`begin`), train, certify (`finish`): every record is used either to train or to certify.

    What else is ``given`` is for `begin`.
    """
    run = begin(chosen, data, spending, progress, **given)
    progress.before_training(run)
    started, interim = time.perf_counter(), InterimResults()
    notes: dict[str, list[float]] = {}
    if METHODS[chosen.method].closed_form:
        solve(run.model, run.parts.train, run.plan, run.generators)
    else:
        notes = train_model(
            run.model,
            run.parts.train,
            run.plan,
            run.config,
            run.generators,
            progress,
            run.resumed,
            fingerprint=run.fingerprint,
            interim=interim,
            look=lambda trainer: breached(run, trainer),
        )
    return run.model, finish(run, notes, interim, started=started)


def begin(
    chosen: Parameters,
    data: GroupedData,
    spending: Spending,
    progress: Progress,
    *,
    table: str = Parameters.table,
    public_assumptions: tuple[str, ...] = (),
    columns: EncodedColumns | None = None,
    reading: Reading | None = None,
    trial: Trial | None = None,
) -> Run:
    """Hold records out, plan for the rest, build the model, and pay.

    Parameters
    ----------
    chosen
        As `fairdp.run.plan.checked` returns them.
    table
        The name under which ``spending`` adds up.
    columns
        What is public about the columns of a table, which may have been read with noise before (``reading``).
    trial
        The search that this run is part of.
    """
    selection = None if trial is None else trial.selection
    registration = registration_of(chosen, expected_trials=1.0 if selection is None else selection.expected_trials)
    check_weighted(chosen, data.weights is not None)
    agree_on_run(chosen, data)
    shape = data.X.shape[1:]
    kind = kind_of(chosen, shape)
    budget = budget_of(chosen, kind=kind, n_groups=data.n_groups)
    generators, resumed = _start(chosen, progress)
    # Sizes that were released before must not be counted a second time.
    known = _sizes_of(resumed, chosen, data) if resumed is not None else trial.sizes if trial is not None else None
    split_key = None if trial is None else trial.split_key
    # Before it is split, which may use the memory of the whole for a part.
    spending.note_encoded(data)
    parts = hold_out(chosen, data, budget, generators, split_key=split_key, sizes=known)
    # Notes whose records will be paid for; nothing is paid before `spend` below.
    spending.charge(parts.train, parts.held_out)
    config, plan, privacy = plan_run(
        chosen,
        kind=kind,
        budget=budget,
        sizes=dict(zip(parts.train.group_names, parts.sizes, strict=True)),
        groups=data.group_names,
        certify_fraction=parts.fraction,
        noise_seeded=generators.seeded,
        public_assumptions=public_assumptions,
        reading=reading,
        selection=selection,
    )
    network = network_for(chosen, shape, columns, data.n_groups)
    check_certifiable(privacy, n_looks=chosen.n_looks)
    model = build_model(network, shape, chosen.module, generators.start_seed)
    model.smoothing = smoothing_of(chosen, config, generators)
    process_group().agree(bytes.fromhex(network_digest(model)), "another network")
    predictor, fingerprint = Predictor(kind=chosen.predictor, smoothing=chosen.smoothing), ""
    if progress.checkpoint is not None:
        fixed = (chosen.method, chosen.certify_fraction, registration, predictor)
        fingerprint = fingerprint_of([parts.train, parts.held_out], plan, config, model, fixed=fixed)
    if resumed is not None:
        check_resumable(
            resumed,
            model,
            plan,
            config,
            fingerprint=fingerprint,
            n_groups=data.n_groups,
            n_looks=chosen.n_looks if parts.fraction else 1,
        )
    if predictor.tosses_coins or METHODS[chosen.method].post_processes:
        # A rule that tosses coins, or may come to do so, has a key.
        predictor = replace(predictor, key=generators.key("people").hex())
    # Last, so that whatever is refused costs nothing. Its key tells the run from others of the same table.
    spending.spend(privacy, table, resume=progress.resume, run=generators.key("run").hex())
    return Run(
        chosen=chosen,
        registration=registration,
        parts=parts,
        generators=generators,
        config=config,
        plan=plan,
        privacy=privacy,
        network=network,
        model=model,
        predictor=predictor,
        resumed=resumed,
        fingerprint=fingerprint,
    )


def hold_out(
    chosen: Parameters,
    data: GroupedData,
    budget: PrivacyBudget,
    generators: Generators,
    *,
    split_key: bytes | None = None,
    sizes: tuple[float, ...] | None = None,
    noise: SizesNoise | None = None,
) -> TrainHoldoutSplit:
    """Send every record to training or to the certificate by its own coin, and find the sizes to plan with.

    The key of the coins is drawn without looking at the data, and adding or removing a record moves no other. Trials of
    one selection share their key, so that a record is held out in all of them or in none.

    Parameters
    ----------
    sizes
        Sizes that were released before; None finds them now.
    noise
        How to count, where sizes are counted with noise; None: the noise that a single run with these choices pays for.
    """
    finer = chosen.grouping == "attribute_and_label"
    # Before the split, which may put the records in another order.
    totals = (data.by_label() if finer else data).group_sizes
    key = int.from_bytes(split_key or generators.key("hold out"), "little")
    nobody = data.take(np.arange(0))
    fraction = held_out_fraction(chosen, n_groups=data.n_groups, epsilon=budget.epsilon)
    train, held_out = split_by_own_coin(data, seed=key, share=fraction) if fraction else (data, nobody)
    train = train.by_label() if finer else train
    if sizes is None and known_sizes_of(chosen) == NOISY:
        # A record's coin is its own, so those that are held out are in no count and pay for none.
        noise = noise or sizes_noise(NOISY, budget, pure=METHODS[chosen.method].closed_form)
        purpose = f"group sizes {train.group_sizes.tolist()} at {budget.epsilon}"
        sizes = floored(counted_sizes(train.group_sizes, noise, generators.below(purpose)), noise)
    elif sizes is None:
        known = declared_sizes(chosen.group_sizes, train.group_names) or totals.tolist()
        sizes = tuple((1 - fraction) * size for size in known)
    return TrainHoldoutSplit(train=train, held_out=held_out, fraction=fraction, sizes=sizes)


def assumed_with(assumed: tuple[str, ...], schema: TableSchema | None, *, paid: bool) -> tuple[str, ...]:
    """Assumptions of what is public, a schema included that was read from the rows as they stand."""
    free = schema is not None and not schema.declared and not paid
    return (*assumed, READ_FROM_TABLE) if free and READ_FROM_TABLE not in assumed else assumed


def assumptions_from_records(
    estimator: Parameters, sensitive_features: object, *, schema: TableSchema | None, before: tuple[str, ...]
) -> tuple[str, ...]:
    """Assumptions of what is public though it was read from the records: names of groups that nobody declared.

    And what steps ``before`` the estimator, in a pipeline, have learnt.
    """
    learnt = (FITTED_BEFORE + ", ".join(before),) if before else ()
    undeclared = sensitive_features is not None and schema is None and declared_groups(estimator) is None
    return (*learnt, NAMES_READ) if undeclared else learnt


def agree_on_run(chosen: Parameters, data: GroupedData) -> None:
    """The same parameters, the same records in the same order."""
    processes = process_group()
    if processes.size == 1:
        return
    shared = {name: value for name, value in vars(chosen).items() if name not in _OWN}
    agree_on_program((shared, chosen.module is None))
    processes.agree(records_digest([data]), "other records, or the same in another order,")


def records_digest(parts: Iterable[GroupedData]) -> bytes:
    """A digest of records: all that is trained on, in its order."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(repr((part.X.shape, part.group_names)).encode())
        for array in (part.X, part.y, part.groups, part.weights):
            for content in bytes_of(array) if array is not None else ():
                digest.update(content)
    return digest.digest()


def check_weighted(chosen: Parameters, weighted: bool) -> None:
    """Refuse weights if the method does not use them, instead of silently ignoring them."""
    if weighted and METHODS[chosen.method].closed_form:
        raise ParameterError(
            "method", chosen.method, "takes no `sample_weight`", f"leave it out or use `method`={PLAIN!r}"
        )


def _start(chosen: Parameters, progress: Progress) -> tuple[Generators, Checkpoint | None]:
    """Sources of randomness, and the checkpoint to continue from, whose secret key is used again."""
    if progress.checkpoint is not None and not METHODS[chosen.method].is_one_run:
        raise ParameterError("method", chosen.method, "writes no checkpoints", "leave out `checkpoint`")
    generators = Generators.of(seed_of(chosen.random_state))
    resumed = resumed_checkpoint(progress.checkpoint, resume=progress.resume)
    if resumed is not None:
        seeded = generators.seeded or resumed.record.seeded
        generators = Generators(lasting_key=resumed.lasting_key, steps=Chain(resumed.present_key), seeded=seeded)
    return generators, resumed


def _sizes_of(resumed: Checkpoint, chosen: Parameters, data: GroupedData) -> tuple[float, ...]:
    """The sizes that a checkpoint's run was planned with."""
    check_sizes(resumed, data.n_groups * (1 if chosen.grouping == "attribute" else 2))
    return resumed.record.group_sizes


def smoothing_of(chosen: Parameters, config: TrainConfig, generators: Generators) -> ParameterSmoothing | None:
    """Smoothing of the deployed model, if the method has any; the draws are as public as the model."""
    if not METHODS[chosen.method].smooths:
        return None
    seed = int.from_bytes(generators.key("smoothing")[:8], "little")
    return ParameterSmoothing(deviation=config.parameter_noise, n_draws=config.n_draws, seed=seed)


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

    Checkpoints are written with the run's ``fingerprint``. Returns the method's notes on its training.
    """
    state = TrainingState(
        model,
        FlatOptimizer("sgd" if config.optimizer == "sgd" else "adam", config.momentum),
        generators.steps,
        interim=InterimResults() if interim is None else interim,
    )
    seconds = progress.seconds_between_checkpoints
    writer = CheckpointWriter(progress.checkpoint, plan, generators, fingerprint, seconds_between=seconds)
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


def finish(run: Run, notes: dict[str, list[float]], interim: InterimResults, *, started: float) -> Fitted:
    """Build the decision rule of the trained model, certify it, and gather the results."""
    method, model, frontier = METHODS[run.chosen.method], run.model, None
    if method.joint:
        frontier = read_frontier(model, run.parts.train, run.plan, run.config, run.generators.steps)
    predictor = post_processed(run) if method.post_processes else run.predictor
    trained = time.perf_counter()
    certificate = certified(run, predictor, interim)
    mark_trained(model.extractor)
    return Fitted(
        parameters=replace(run.chosen, **{name: getattr(Parameters, name) for name in NOT_STORED}),
        groups=run.parts.held_out.group_names,
        feature_schema=None,
        predictor=predictor,
        notes={**notes},
        made=build_info(),
        model=run.network,
        shape=tuple(model.shape),
        heads=(model.heads.shape[0], model.heads.shape[1]),
        smoothing=model.smoothing,
        frontier=frontier,
        target=None if frontier is None else Target.of(run.config),
        privacy=run.privacy,
        certificate=certificate,
        tensors=model.tensors(),
        n_train=run.parts.train.n_samples,
        n_certify=run.parts.held_out.n_samples,
        seconds={"train": trained - started, "certify": time.perf_counter() - trained},
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
    chosen: Parameters, spending: Spending, table: str, *, kept: Path | None = None
) -> PrivateSchemaReader | None:
    """The reader of a table for a run; None if the run is not private, and reads it as it stands.

    ``kept`` is the checkpoint of a run that goes on.
    """
    if not METHODS[chosen.method].private or not is_private(chosen):
        return None
    if epsilon_follows(chosen):
        raise ParameterError(
            "noise_multiplier",
            chosen.noise_multiplier,
            "with `n_steps` leaves open which epsilon the columns may be read with",
            "declare them in a schema, or give `epsilon` in place of `n_steps`",
        )
    # What can be refused whatever the table holds is refused before reading it costs anything.
    kind = kind_of(chosen, (1,))
    train_config(replace(chosen, group_weights=None), kind, (_ANY_SIZE, _ANY_SIZE))
    budget, below = budget_of(chosen, kind=kind, n_groups=2), Generators.of(seed_of(chosen.random_state)).below
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
