"""One fit from start to end: train on one part of the records, certify on the other."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from fairdp._checks import InputError
from fairdp.accounting.plan import Plan
from fairdp.accounting.spent import PrivacySpent
from fairdp.certify.certificate import Certificate, NotCertified
from fairdp.config.model import ModelConfig
from fairdp.config.training import TrainConfig
from fairdp.data.grouped import GroupedData
from fairdp.frontier.choice import Target
from fairdp.frontier.curve import Frontier
from fairdp.methods import METHODS
from fairdp.methods.functional import solve
from fairdp.methods.group_models import smoothing_notes, train_group_models
from fairdp.networks.freshness import note_learnt
from fairdp.networks.models import ScoreModel
from fairdp.randomness import Generators
from fairdp.run.certifying import certified, post_processed
from fairdp.run.checkpoint import Checkpoint, CheckpointWriter, restore
from fairdp.run.halting import breached
from fairdp.run.hold_out import Parts
from fairdp.run.made import Made, made_now
from fairdp.run.predictor import Predictor
from fairdp.run.prepared import PreparedRun
from fairdp.run.progress import Progress
from fairdp.run.read_frontier import read_frontier, target_of
from fairdp.training.loop import Trainer
from fairdp.training.resources import kept_memory, torch_threads
from fairdp.training.state import FlatOptimizer, Looked, TrainingState


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedRun:
    """What a fit produces: the model, the decision rule, what was spent, and what is promised."""

    model_config: ModelConfig
    model: ScoreModel
    predictor: Predictor
    privacy: PrivacySpent
    certificate: Certificate | NotCertified
    parts: Parts
    notes: dict[str, list[float]]
    frontier: Frontier | None
    target: Target | None
    seconds: dict[str, float]
    made: Made = field(default_factory=made_now)


def fit_run(prepared: PreparedRun, progress: Progress) -> FittedRun:
    """Train and certify; every record is used for one of the two."""
    parts, started, looked = prepared.parts, time.perf_counter(), Looked()
    if METHODS[prepared.settings.method].closed_form:
        solve(prepared.model, parts.train, prepared.plan, prepared.generators)
        return finish_run(prepared, {}, looked, started=started)
    notes = train_model(
        prepared.model,
        parts.train,
        prepared.plan,
        prepared.config,
        prepared.generators,
        progress,
        prepared.resumed,
        fingerprint=prepared.fingerprint,
        looked=looked,
        look=lambda trainer: breached(prepared, trainer),
    )
    return finish_run(prepared, notes, looked, started=started)


def finish_run(prepared: PreparedRun, notes: dict[str, list[float]], looked: Looked, *, started: float) -> FittedRun:
    """Build the decision rule of the trained model, certify it, and gather the results of the run."""
    frontier = _frontier(prepared)
    post_processes = METHODS[prepared.settings.method].post_processes
    predictor = post_processed(prepared) if post_processes else prepared.predictor
    trained = time.perf_counter()
    predictor, certificate = certified(prepared, predictor, looked)
    note_learnt(prepared.model.extractor)
    return FittedRun(
        model_config=prepared.model_config,
        model=prepared.model,
        predictor=predictor,
        privacy=prepared.privacy,
        certificate=certificate,
        parts=prepared.parts,
        notes=notes,
        frontier=frontier,
        target=None if frontier is None else target_of(prepared.config),
        seconds={"train": trained - started, "certify": time.perf_counter() - trained},
    )


def _frontier(prepared: PreparedRun) -> Frontier | None:
    """What a joint model offers at every price; its rule is set to the target."""
    if not METHODS[prepared.settings.method].joint:
        return None
    chain = prepared.generators.steps
    return read_frontier(prepared.model, prepared.parts.train, prepared.plan, prepared.config, chain)


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
    looked: Looked | None = None,
    look: Callable[[Trainer], bool] = lambda trainer: False,
) -> dict[str, list[float]]:
    """Train the model in place, from its start or from a checkpoint, to the end or until a look ends training.

    Checkpoints are written with the run's ``fingerprint``. Returns what there is to say of the training besides.
    """
    kind = "sgd" if config.optimizer == "sgd" else "adam"
    state = TrainingState(
        model, FlatOptimizer(kind, config.momentum), generators.steps, looked=Looked() if looked is None else looked
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
