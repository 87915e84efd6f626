"""Checkpoints of a run: parameters, optimiser, keys and the step count, in one file without pickle.

A checkpoint holds the keys of the noise to come, but not those of noise that was added before it was written. Whoever
has it can subtract the coming noise, that of the certificate included, so it is written for its owner only, belongs in
the same safe place as the data, and should go when the run is done. After the tensors stands the SHA-256 of all that
goes before: a file that was damaged anywhere, or cut, is refused.
"""

import hashlib
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Literal

from safetensors.torch import save
from torch import Tensor

from fairdp._checks import InputError, ParameterError
from fairdp._files import (
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
from fairdp.certify.origin import NoisyCounts
from fairdp.config.training import TrainConfig
from fairdp.data.grouped import GroupedData, bytes_of
from fairdp.networks.inspection import public_probe
from fairdp.networks.models import ScoreModel
from fairdp.randomness import Generators
from fairdp.run.progress import Progress
from fairdp.streams import KEY_BYTES
from fairdp.team import the_team
from fairdp.training.state import FlatOptimizer, TrainingState

FORMAT = 10
_DIGEST_BYTES = 32
# What the names of tensors begin with, by the part of a run that they belong to.
INPUT_LAYER, OPTIMIZER, MEMORY = "input layer.", "optimizer.", "memory."


@dataclass(frozen=True, kw_only=True)
class OptimizerRecord:
    """How far an optimiser is, beside its tensors."""

    kind: Literal["adam", "sgd"]
    momentum: float
    n_updates: int


@dataclass(frozen=True, kw_only=True)
class LooksRecord:
    """What looks have released so far."""

    n_ensembles: int
    counts: tuple[NoisyCounts, ...]


@dataclass(frozen=True, kw_only=True)
class CheckpointRecord:
    """What a checkpoint says beside its tensors.

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


def fingerprint_of(
    parts: Sequence[GroupedData], plan: Plan, config: TrainConfig, model: ScoreModel, *, fixed: object
) -> str:
    """What a run must have in common with its checkpoint: the same records, plan, numbers, network and promises.

    The version too: another one may release something else from the same noise.

    Parameters
    ----------
    parts
        Records to train on and records that are held out: the noise on counts is drawn but once, so it may not meet
        other records.
    fixed
        What else was fixed beforehand, by its ``repr``: what is certified, and how decisions are made.
    """
    about = (
        version("fairdp"),
        plan,
        config,
        fixed,
        [part.group_names for part in parts],
        model.extractor,
        model.slices,
    )
    digest = hashlib.sha256(repr(about).encode())
    for part in parts:
        digest.update(repr(part.X.shape).encode())
        for array in (part.X, part.y, part.groups, part.weights):
            if array is not None:
                for content in bytes_of(array):
                    digest.update(content)
    return digest.hexdigest()


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


def network_digest(model: ScoreModel) -> str:
    """The network's output on public noise, with its fixed parts: another forward pass is another network.

    Two networks that continued with the same noise would reveal the difference of their gradients without any.
    """
    digest = hashlib.sha256(model.embed_fixed(public_probe(model)).numpy().tobytes())
    for name, value in sorted(model.fixed_state().items()):
        digest.update(name.encode() + value.numpy().tobytes())
    return digest.hexdigest()


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
    optimizer, looked = state.optimizer, state.looked
    record = CheckpointRecord(
        format=FORMAT,
        fingerprint=fingerprint,
        network=network_digest(state.model),
        seeded=seeded,
        group_sizes=group_sizes,
        lasting_key=lasting_key.hex(),
        present_key=state.chain.present.hex(),
        step=state.step,
        looks=LooksRecord(n_ensembles=looked.n_ensembles, counts=tuple(looked.counts)),
        optimizer=OptimizerRecord(
            kind="adam" if optimizer.kind == "adam" else "sgd",
            momentum=optimizer.momentum,
            n_updates=optimizer.n_updates,
        ),
    )
    tensors = {
        "params": state.model.params,
        **{INPUT_LAYER + name: value for name, value in state.model.surveyed_state().items()},
        **{OPTIMIZER + name: value for name, value in state.optimizer.state.items()},
        **{MEMORY + name: value for name, value in state.memory.items()},
        **({} if state.average is None else {"average": state.average}),
        **({} if state.looked.kept is None else {"kept": state.looked.kept}),
    }
    content = save(tensors, metadata={"fairdp": json_bytes(record).decode()})
    write_file(path, content + hashlib.sha256(content).digest(), owner_only=True)


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint; one clear line if it is missing, damaged or of another version."""
    try:
        content = the_team().from_first(lambda: _content(path))
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
    looked, kept = state.looked, tensors.get("kept")
    looked.n_ensembles, looked.kept = record.looks.n_ensembles, None if kept is None else kept.clone()
    looked.counts = list(record.looks.counts)
    state.chain.present = checkpoint.present_key


def named(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of one part of a run, by their names in it."""
    return {name.removeprefix(prefix): value.clone() for name, value in tensors.items() if name.startswith(prefix)}


class CheckpointWriter:
    """Writes before the first step, after the last, and at least this often in between.

    So an interruption loses little, and never what was paid for: the first one is there before anything is released. Of
    a team the first process writes.
    """

    def __init__(self, progress: Progress, plan: Plan, generators: Generators, fingerprint: str) -> None:
        self.progress, self.plan, self.generators, self.fingerprint = progress, plan, generators, fingerprint
        self._written = -math.inf

    def write_if_due(self, state: TrainingState) -> None:
        since = time.monotonic() - self._written
        due = since >= self.progress.seconds_between_checkpoints or state.step == self.plan.n_steps
        if self.progress.checkpoint is None or not due or not the_team().is_first:
            return
        self._written = time.monotonic()
        write_checkpoint(
            self.progress.checkpoint,
            state,
            fingerprint=self.fingerprint,
            group_sizes=self.plan.recipe.group_sizes,
            lasting_key=self.generators.lasting_key,
            seeded=self.generators.seeded,
        )


def resumed_checkpoint(progress: Progress) -> Checkpoint | None:
    """The checkpoint to continue from, if the run was asked to."""
    if not progress.resume:
        if progress.checkpoint is not None and the_team().is_first:
            check_new(progress.checkpoint)
        return None
    if progress.checkpoint is None:
        raise InputError("`resume` needs a checkpoint file; give `checkpoint` as well.")
    return read_checkpoint(progress.checkpoint)
