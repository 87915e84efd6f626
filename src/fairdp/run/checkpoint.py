"""Checkpoints of a run: parameters, optimiser, keys and the step count, in one file without pickle.

A checkpoint holds the keys of the noise to come, but not those of noise that was added before it was written. Whoever
has it can subtract the coming noise, that of the certificate included, so it is written for its owner only, belongs in
the same safe place as the data, and should go when the run is done. After the tensors stands the SHA-256 of all that
goes before: a file that was damaged anywhere, or cut, is refused.
"""

import copy
import hashlib
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Literal

import numpy as np
from safetensors.torch import save
from torch import Tensor

from fairdp._io import (
    MOST_TENSORS,
    RecordError,
    content_of,
    from_plain,
    json_bytes,
    parsed_json,
    tensors_in,
    try_place,
    write_file,
)
from fairdp.accounting.plan import Plan
from fairdp.certify.certificate import NoisyCounts
from fairdp.config import TrainConfig
from fairdp.data.grouped import GroupedData, bytes_of
from fairdp.distributed import process_group
from fairdp.errors import InputError, ParameterError
from fairdp.networks.model import ScoreModel, public_probe
from fairdp.randomness import KEY_BYTES, Generators
from fairdp.training.loop import FlatOptimizer, TrainingState

FORMAT = 10
_DIGEST_BYTES = 32
# Larger sizes of groups are nobody's, and no float counts them.
_LARGEST_SIZE = 2.0**53
# What the names of tensors begin with, by the part of a run that they belong to.
INPUT_LAYER, OPTIMIZER, MEMORY = "input layer.", "optimizer.", "memory."
Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True, kw_only=True)
class OptimizerRecord:
    """The state of an optimiser beside its tensors."""

    kind: Literal["adam", "sgd"]
    momentum: float
    n_updates: int


@dataclass(frozen=True, kw_only=True)
class LooksRecord:
    """Releases of the looks so far."""

    n_ensembles: int
    counts: tuple[NoisyCounts, ...]


@dataclass(frozen=True, kw_only=True)
class CheckpointRecord:
    """The text of a checkpoint beside its tensors.

    ``group_sizes`` are the sizes it was planned with, noisy ones if they are private, which must not be counted twice;
    ``lasting_key`` and ``present_key`` are those of `fairdp.randomness.Generators`, in hexadecimal digits.
    """

    format: int
    fingerprint: str
    network: str
    seeded: bool
    group_sizes: tuple[int | float, ...]
    lasting_key: str = field(repr=False)
    present_key: str = field(repr=False)
    step: int
    looks: LooksRecord
    optimizer: OptimizerRecord


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A run in progress: what its file says, its keys as bytes, and its tensors."""

    record: CheckpointRecord
    lasting_key: bytes = field(repr=False)
    present_key: bytes = field(repr=False)
    tensors: dict[str, Tensor] = field(repr=False)


class CheckpointWriter:
    """Writes before the first step, after the last, and in between once ``seconds_between`` have passed.

    So an interruption loses little, and never what was paid for: the first one is there before anything is released. In
    a process group rank zero writes.
    """

    def __init__(
        self, path: Path | None, plan: Plan, generators: Generators, fingerprint: str, *, seconds_between: float
    ) -> None:
        self.path, self.plan, self.generators, self.fingerprint = path, plan, generators, fingerprint
        self._seconds_between, self._written = seconds_between, -math.inf

    def write_if_due(self, state: TrainingState) -> None:
        since = time.monotonic() - self._written
        due = since >= self._seconds_between or state.step == self.plan.n_steps
        if self.path is None or not due or not process_group().is_rank_zero:
            return
        self._written = time.monotonic()
        write_checkpoint(
            self.path,
            state,
            fingerprint=self.fingerprint,
            group_sizes=self.plan.recipe.group_sizes,
            lasting_key=self.generators.lasting_key,
            seeded=self.generators.seeded,
        )


def write_checkpoint(
    path: Path,
    state: TrainingState,
    *,
    fingerprint: str,
    group_sizes: tuple[float, ...],
    lasting_key: bytes,
    seeded: bool,
) -> None:
    """Replace the checkpoint atomically: a kill at any moment leaves the old one or the new one."""
    optimizer, interim = state.optimizer, state.interim
    record = CheckpointRecord(
        format=FORMAT,
        fingerprint=fingerprint,
        network=network_digest(state.model),
        seeded=seeded,
        group_sizes=group_sizes,
        lasting_key=lasting_key.hex(),
        present_key=state.chain.present.hex(),
        step=state.step,
        looks=LooksRecord(n_ensembles=interim.n_ensembles, counts=tuple(interim.counts)),
        optimizer=OptimizerRecord(
            kind="adam" if optimizer.kind == "adam" else "sgd",
            momentum=optimizer.momentum,
            n_updates=optimizer.n_updates,
        ),
    )
    tensors = {
        "params": state.model.params,
        **{INPUT_LAYER + name: value for name, value in state.model.queried_state().items()},
        **{OPTIMIZER + name: value for name, value in state.optimizer.state.items()},
        **{MEMORY + name: value for name, value in state.memory.items()},
        **({} if state.average is None else {"average": state.average}),
        **({} if state.interim.kept is None else {"kept": state.interim.kept}),
    }
    content = save(tensors, metadata={"fairdp": json_bytes(record).decode()})
    write_file(path, content + hashlib.sha256(content).digest(), owner_only=True)


def resumed_checkpoint(path: Path | None, *, resume: bool) -> Checkpoint | None:
    """The checkpoint to continue from, if the run was asked to."""
    if not resume:
        if path is not None and process_group().is_rank_zero:
            check_new(path)
        return None
    if path is None:
        raise InputError("`resume` needs a checkpoint file; give `checkpoint` as well.")
    return read_checkpoint(path)


def check_new(path: Path) -> None:
    """Refuse, before training, a checkpoint that would overwrite a file or could not be written."""
    if path.exists():
        raise ParameterError(
            "checkpoint", str(path), "exists already", "add `resume` to continue from it, or choose another name"
        )
    try:
        try_place(path)
    except OSError as error:
        raise ParameterError("checkpoint", str(path), f"cannot be written: {error.strerror}") from None


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint; one clear line if it is missing, damaged or of another version."""
    try:
        content = process_group().from_rank_zero(lambda: _content(path))
        checkpoint = _read(content[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:])
    except (RecordError, OSError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ParameterError("checkpoint", str(path), f"cannot be read ({why})", "start the run again") from None
    if checkpoint.record.format != FORMAT:
        raise ParameterError(
            "checkpoint", str(path), f"has format {checkpoint.record.format}, this version reads {FORMAT}"
        )
    return checkpoint


def _content(path: Path) -> bytes:
    if not path.exists():
        raise ParameterError("checkpoint", str(path), "does not exist", "leave out `resume` to start a new run")
    return content_of(path, most=MOST_TENSORS)


def _read(content: bytes, digest: bytes) -> Checkpoint:
    if not _fits(content, digest):
        raise RecordError("it is damaged, or of an earlier version: its checksum does not fit")
    about, tensors = tensors_in(content, framework="pt")
    record = from_plain(CheckpointRecord, parsed_json(about.get("fairdp", "")))
    try:
        lasting, present = bytes.fromhex(record.lasting_key), bytes.fromhex(record.present_key)
    except ValueError:
        lasting = present = b""
    if not len(lasting) == len(present) == KEY_BYTES:
        raise RecordError("it has no keys")
    return Checkpoint(record=record, lasting_key=lasting, present_key=present, tensors=tensors)


def _fits(content: bytes, digest: bytes) -> bool:
    return hashlib.sha256(content).digest() == digest


def restore(checkpoint: Checkpoint, state: TrainingState) -> None:
    """Restore a run to where its checkpoint was written, once that was checked to be one of this run."""
    record, tensors = checkpoint.record, checkpoint.tensors
    state.step = record.step
    state.model.replace_params(tensors["params"].clone())
    # Released before the first step, and not to be released again.
    state.model.load_fixed_state(named(INPUT_LAYER, tensors))
    state.optimizer = FlatOptimizer(**vars(record.optimizer), state=named(OPTIMIZER, tensors))
    state.memory, average = named(MEMORY, tensors), tensors.get("average")
    state.average = None if average is None else average.clone()
    # Looks that were taken are not taken again: training goes on only after those that met what is required.
    interim, kept = state.interim, tensors.get("kept")
    interim.n_ensembles, interim.kept = record.looks.n_ensembles, None if kept is None else kept.clone()
    interim.counts = list(record.looks.counts)
    state.chain.present = checkpoint.present_key


def named(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of one part of a run, by their names in it."""
    return {name.removeprefix(prefix): value.clone() for name, value in tensors.items() if name.startswith(prefix)}


def fingerprint_of(
    parts: Sequence[GroupedData], plan: Plan, config: TrainConfig, model: ScoreModel, *, fixed: object
) -> str:
    """The digest that a run must share with its checkpoint: the same records, plan, numbers, network and promises.

    The version too: another one may release something else from the same noise.

    Parameters
    ----------
    parts
        Records to train on and records that are held out: the noise on counts is drawn but once, so it may not meet
        other records.
    fixed
        What else was fixed beforehand, by its ``repr``: what is certified, and how decisions are made.
    """
    names = [part.group_names for part in parts]
    about = (version("fairdp"), plan, config, fixed, names, model.extractor, model.slices, len(model.params))
    digest = hashlib.sha256(repr(about).encode())
    for part in parts:
        digest.update(repr(part.X.shape).encode())
        for array in (part.X, part.y, part.groups, part.weights):
            if array is not None:
                for content in bytes_of(array):
                    digest.update(content)
    return digest.hexdigest()


def network_digest(model: ScoreModel) -> str:
    """The network's output on public noise, with its fixed parts: another forward pass is another network.

    Two networks that continued with the same noise would reveal the difference of their gradients without any.
    """
    digest = hashlib.sha256(model.embed_fixed(public_probe(model)).numpy().tobytes())
    for name, value in sorted(model.fixed_state().items()):
        digest.update(name.encode() + value.numpy().tobytes())
    return digest.hexdigest()


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
    rebuilt = copy.deepcopy(model)
    rebuilt.replace_params(checkpoint.tensors["params"].clone())
    rebuilt.load_fixed_state(named(INPUT_LAYER, checkpoint.tensors))
    if checkpoint.record.network != network_digest(rebuilt):
        raise _another()


def due_steps(n_steps: int, n_looks: int) -> set[int]:
    """After which steps there is a look; the last is at the finished model, and not among these."""
    return {n_steps * number // n_looks for number in range(1, n_looks)}


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
    for name, value in checkpoint.tensors.items():
        if value.dtype != model.params.dtype or not value.isfinite().all():
            yield name


def optimizer_after(step: int, plan: Plan, config: TrainConfig) -> OptimizerRecord:
    """The optimiser after so many steps; the step that makes several heads is not its own."""
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
    remembered = {} if recipe.auxiliary is None else recipe.auxiliary.start()
    return {
        "params": _whole(model, plan) if step == plan.n_steps else flat,
        **({} if recipe.averaging == "none" or not step else {"average": flat}),
        **(dict.fromkeys((OPTIMIZER + name for name in moments), moved) if optimizer.n_updates else {}),
        **_prefixed(INPUT_LAYER, model.queried_state()),
        **(_prefixed(MEMORY, remembered) if step else {}),
    }


def _prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> Shapes:
    return {prefix + name: tuple(value.shape) for name, value in tensors.items()}


def _whole(model: ScoreModel, plan: Plan) -> tuple[int, ...]:
    """Shape of the parameters with all heads, which the last step makes of one."""
    n_members = plan.recipe.n_members
    return (model.params.numel() + (n_members - 1) * model.head_size,)


def _another() -> InputError:
    return InputError(
        "the checkpoint belongs to another run: data, method, settings, network and version of fairdp must be the same."
    )
