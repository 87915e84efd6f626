"""The training part of a run, from its start or from a checkpoint."""

from collections.abc import Callable
from typing import Any

from fairdp._checks import InputError
from fairdp.accounting.plan import Plan
from fairdp.config.training import TrainConfig
from fairdp.data.grouped import GroupedData
from fairdp.methods.group_models import smoothing_notes, train_group_models
from fairdp.networks.models import ScoreModel
from fairdp.randomness import Generators
from fairdp.run.checkpoint import Checkpoint, CheckpointWriter, fingerprint_of, restore
from fairdp.run.progress import Progress
from fairdp.training.loop import train
from fairdp.training.optimizer import FlatOptimizer
from fairdp.training.resources import kept_memory, torch_threads
from fairdp.training.state import TrainingState


def run(
    model: ScoreModel,
    data: GroupedData,
    plan: Plan,
    config: TrainConfig,
    generators: Generators,
    progress: Progress,
    resumed: Checkpoint | None,
    *,
    held_out: GroupedData | None = None,
    fixed: object = None,
    look: Callable[[int], bool] = lambda step: False,
) -> dict[str, Any]:
    """Train the model in place, from its start or from a checkpoint, until the end or until a look says enough.

    A checkpoint continues only with the same held-out records and with what else was fixed beforehand. Returns what
    there is to say of the training besides.
    """
    kind = "sgd" if config.optimizer == "sgd" else "adam"
    state = TrainingState(model, FlatOptimizer(kind, config.momentum), generators.sampling, generators.noise)
    parts = [data] if held_out is None else [data, held_out]
    writer = CheckpointWriter(progress, plan, generators)
    if progress.checkpoint:
        writer.fingerprint = fingerprint_of(parts, plan, config, model, fixed=fixed)
    if resumed is not None:
        restore(resumed, state, fingerprint=writer.fingerprint)
        # The run may have been stopped between a checkpoint and the look that was due.
        if state.step < plan.n_steps and look(state.step):
            return {}

    def after(state: TrainingState) -> bool:
        progress.observe(state.step, plan.n_steps)
        writer.write_if_due(state)
        return look(state.step)

    notes: dict[str, Any] = {}
    with kept_memory(), torch_threads(for_batch=plan.recipe.expected_batch_sizes.sum(), shape=model.shape):
        if plan.recipe.group_models:
            notes = smoothing_notes(train_group_models(state, data, plan, config, after), plan)
        else:
            train(state, data, plan, config, after)
    check_unchanged(model)
    return notes


def check_unchanged(model: ScoreModel) -> None:
    """Refuse a trained model whose module has written down what it saw."""
    if model.has_changed_itself():
        raise InputError(
            "the module changed its own buffers in training, so it remembers private records; remove these buffers."
        )
