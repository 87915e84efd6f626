"""Whether a checkpoint is one that this very run could have written, asked before anything is spent or trained."""

import copy
from collections.abc import Iterator, Mapping
from typing import cast

import numpy as np
from torch import Tensor

from fairdp._checks import InputError
from fairdp.accounting.plan import Plan
from fairdp.config.training import TrainConfig
from fairdp.networks.models import ScoreModel
from fairdp.run.checkpoint import INPUT_LAYER, MEMORY, OPTIMIZER, Checkpoint, OptimizerRecord, named, network_digest
from fairdp.training.companion import Companion

# Larger sizes of groups are nobody's, and no float counts them.
_LARGEST_SIZE = 2.0**53
Shapes = dict[str, tuple[int, ...]]


def check_sizes(checkpoint: Checkpoint, n_cells: int) -> None:
    """Before a run is planned with the group sizes of a checkpoint, refuse those that no run could have."""
    sizes = checkpoint.record.group_sizes
    if len(sizes) != n_cells or not all(0 < size <= _LARGEST_SIZE for size in sizes):
        raise _another()


def check_resumable(
    checkpoint: Checkpoint,
    model: ScoreModel,
    plan: Plan,
    config: TrainConfig,
    *,
    fingerprint: str,
    n_groups: int,
    n_looks: int,
) -> None:
    """Refuse a checkpoint of another run, and one whose parts do not fit each other, whatever its checksum says.

    Parameters
    ----------
    model
        As it was built, before its first step.
    n_looks
        How many looks at held-out records were planned, the last at the finished model.
    """
    if checkpoint.record.fingerprint != fingerprint:
        raise _another()
    wrong = next(_contradictions(checkpoint, model, plan, config, n_groups=n_groups, n_looks=n_looks), None)
    if wrong is not None:
        raise InputError(f"the checkpoint contradicts itself: its {wrong} cannot be so; start the run again.")
    twin = copy.deepcopy(model)
    twin.replace_params(checkpoint.tensors["params"].clone())
    twin.load_fixed_state(named(INPUT_LAYER, checkpoint.tensors))
    if checkpoint.record.network != network_digest(twin):
        raise _another()


def due_steps(n_steps: int, n_looks: int) -> set[int]:
    """After which steps there is a look; the last is at the finished model, and not among these."""
    return {n_steps * number // n_looks for number in range(1, n_looks)}


def _another() -> InputError:
    return InputError(
        "the checkpoint belongs to another run: data, method, settings, network and version of fairdp must be the same."
    )


def _contradictions(
    checkpoint: Checkpoint, model: ScoreModel, plan: Plan, config: TrainConfig, *, n_groups: int, n_looks: int
) -> Iterator[str]:
    record = checkpoint.record
    if not 0 <= record.step <= plan.n_steps:
        yield "number of steps"
        return
    if record.optimizer != optimizer_after(record.step, plan, config):
        yield "optimiser"
    # A checkpoint is written before the look that is due.
    n_taken = sum(step < record.step for step in due_steps(plan.n_steps, n_looks))
    counted = all(np.shape(counts) == (n_groups, 2, 2) for counts in record.looks.counts)
    made = n_taken if plan.look_steps else 0
    if len(record.looks.counts) != n_taken or record.looks.n_ensembles != made or not counted:
        yield "looks"
    expected = _shapes(record.optimizer, record.step, model, plan) | ({"kept": _whole(model, plan)} if n_taken else {})
    found = {name: tuple(value.shape) for name, value in checkpoint.tensors.items()}
    yield from sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
    yield from (name for name, value in checkpoint.tensors.items() if not _is_usable(value, model.params))


def optimizer_after(step: int, plan: Plan, config: TrainConfig) -> OptimizerRecord:
    """How far the optimiser is after so many steps; the step that makes several heads is not its own."""
    n_updates = step - (step == plan.n_steps and plan.recipe.n_members > 1)
    n_adam = 0 if config.optimizer == "sgd" else sum(not config.is_after_adam(number) for number in range(n_updates))
    is_adam = config.optimizer != "sgd" and n_adam == n_updates
    return OptimizerRecord(
        kind="adam" if is_adam else "sgd", momentum=config.momentum, n_updates=n_adam if is_adam else n_updates - n_adam
    )


def _shapes(optimizer: OptimizerRecord, step: int, model: ScoreModel, plan: Plan) -> Shapes:
    """Shape of every tensor that a run has after so many steps, but for the model of a look.

    Before the first step nothing is remembered or averaged yet.
    """
    recipe, flat = plan.recipe, tuple(model.params.shape)
    moved = (len(recipe.group_sizes), *flat) if recipe.group_optimizers else flat
    moments = ("first_moment", "second_moment") if optimizer.kind == "adam" else ("velocity",)[: optimizer.momentum > 0]
    companion = cast(Companion | None, recipe.companion)
    remembered = {} if companion is None else companion.start()
    return {
        "params": _whole(model, plan) if step == plan.n_steps else flat,
        **({} if recipe.averaging == "none" or not step else {"average": flat}),
        **(dict.fromkeys((OPTIMIZER + name for name in moments), moved) if optimizer.n_updates else {}),
        **_prefixed(INPUT_LAYER, model.surveyed_state()),
        **(_prefixed(MEMORY, remembered) if step else {}),
    }


def _prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> Shapes:
    return {prefix + name: tuple(value.shape) for name, value in tensors.items()}


def _whole(model: ScoreModel, plan: Plan) -> tuple[int, ...]:
    """Shape of the parameters with all heads, which the last step makes of one."""
    n_members = plan.recipe.n_members
    return (model.params.numel() + (n_members - 1) * model.head_size,)


def _is_usable(value: Tensor, like: Tensor) -> bool:
    return value.dtype == like.dtype and bool(value.isfinite().all())
