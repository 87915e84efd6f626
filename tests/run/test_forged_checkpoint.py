"""Checkpoints that were damaged, or changed and hashed again: one line, and nothing is spent or trained."""

import functools
import itertools

import numpy as np
import pytest
import torch

from checkpoint_forgeries import forge, seal
from classifier_cases import Watching
from fairdp import FairDPClassifier
from fairdp.data.grouped import GroupedData
from fairdp.randomness import KEY_BYTES
from fairdp.run.checkpoint import read_checkpoint
from fairdp.run.fit import Progress

pytestmark = pytest.mark.usefixtures("rough_bounds")

ONE = {"certify_metrics": ("demographic_parity",)}
SETTINGS = {
    "method": "fairdp",
    "epsilon": 2.0,
    "n_steps": 8,
    "sample_rate": 0.2,
    "random_state": 0,
    "hidden": (2,),
    **ONE,
}
# So much epsilon that every look meets the requirement.
LOOKS = {"require_tau": 0.95, "n_looks": 4, "epsilon": 16.0}
ONE_LINE = r"^(checkpoint=.*|the checkpoint (belongs to another run: |contradicts itself: )[^\n]*)\.$"


class Killed(Exception):
    """Stands for whatever ends a process in mid-course."""


@functools.cache
def people():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3)).astype(np.float32)
    return GroupedData(X, (X[:, 0] > 0).astype(np.int64), np.arange(400) % 2, ("f", "m"))


def run(path, *, kill=None, watched=None, **settings):
    def observe(step, n_steps):
        if step == kill:
            raise Killed

    given = {"checkpoint": path, "resume": kill is None, "observe": observe}
    progress = Progress(seconds_between_checkpoints=0.0, **given)
    return FairDPClassifier(**{**SETTINGS, **settings}).fit_grouped(people(), progress=progress, spending=watched)


def interrupted(path, step=5, **settings):
    with pytest.raises(Killed):
        run(path, kill=step + 1, **settings)
    return path


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    return interrupted(tmp_path_factory.mktemp("good") / "c").read_bytes()


@pytest.fixture
def checkpoint(good, tmp_path):
    (tmp_path / "c").write_bytes(good)
    return tmp_path / "c"


def test_a_flipped_bit_or_a_cut_is_refused_in_one_line(checkpoint, good):
    """A bit of every byte, and a cut after every one: the campaign of faults flips all of them."""
    flips = (good[:i] + bytes([good[i] ^ (1 << i % 8)]) + good[i + 1 :] for i in range(len(good)))
    for content in itertools.chain(flips, (good[:i] for i in range(len(good)))):
        checkpoint.write_bytes(content)
        with pytest.raises(ValueError, match=r"^checkpoint='.*c' cannot be read \([^\n]*start the run again\.$"):
            read_checkpoint(checkpoint)
    checkpoint.write_bytes(good)
    assert read_checkpoint(checkpoint).record.step == 5


def said(**values):
    return lambda record, tensors: record.update(values)


def optimizer_with(**values):
    return lambda record, tensors: record["optimizer"].update(values)


def tensor(name, value):
    return lambda record, tensors: tensors.update({name: value})


def made(name, change):
    return lambda record, tensors: tensors.update({name: change(tensors[name]).clone()})


def without(name):
    return lambda record, tensors: tensors.pop(name)


FORGERIES = {
    "more steps than planned, all taken": lambda record, tensors: record.update(
        step=9, optimizer={**record["optimizer"], "n_updates": 9}
    ),
    "more steps than planned": said(step=9),
    "fewer steps than the optimiser took": said(step=4),
    "no step": said(step=0),
    "negative": said(step=-1),
    "half a step": said(step=4.5),
    "many steps": said(step=10**200),
    "steps in words": said(step="5"),
    "a truth value": said(step=True),
    "no steps": lambda record, tensors: record.pop("step"),
    "an unknown entry": said(more=1),
    "another format": said(format=9),
    "no format": said(format=None),
    "another fingerprint": said(fingerprint="0" * 64),
    "another network": said(network="0" * 64),
    "seeded in words": said(seeded="no"),
    "no sizes": said(group_sizes=[]),
    "one size": said(group_sizes=[10.0]),
    "three sizes": said(group_sizes=[10.0, 10.0, 10.0]),
    "negative sizes": said(group_sizes=[-10.0, 10.0]),
    "huge sizes": said(group_sizes=[1e300, 1e300]),
    "sizes that are none": said(group_sizes=[None, "a"]),
    "a short key": said(present_key="00"),
    "a long key": said(lasting_key="00" * (KEY_BYTES + 1)),
    "a key that is none": said(present_key="x" * 2 * KEY_BYTES),
    "no key": said(present_key=None),
    "another lasting key": said(lasting_key="00" * KEY_BYTES),
    "other updates": optimizer_with(n_updates=0),
    "more updates": optimizer_with(n_updates=6),
    "another optimiser": optimizer_with(kind="sgd"),
    "an optimiser of no kind": optimizer_with(kind="lion"),
    "another momentum": optimizer_with(momentum=0.9),
    "looks in words": said(looks="none"),
    "looks that were not planned": said(looks={"n_ensembles": 0, "counts": [[[[1, 2], [3, 4]]] * 2]}),
    "ensembles that were not planned": said(looks={"n_ensembles": 1, "counts": []}),
    "no parameters": without("params"),
    "one parameter more": made("params", lambda params: torch.cat([params, params[:1]])),
    "parameters in rows": made("params", lambda params: params[None]),
    "whole numbers": made("params", lambda params: params.long()),
    "double precision": made("params", lambda params: params.double()),
    "half precision": made("params", lambda params: params.half()),
    "NaN": made("params", lambda params: params * torch.nan),
    "one infinite": made("params", lambda params: params.index_fill(0, torch.tensor([1]), torch.inf)),
    "no moments": without("optimizer.first_moment"),
    "short moments": made("optimizer.second_moment", lambda moments: moments[:-1]),
    "moments that are NaN": made("optimizer.first_moment", lambda moments: moments * torch.nan),
    "a tensor too many": tensor("more", torch.zeros(1)),
    "a memory too many": tensor("memory.W", torch.zeros(1)),
    "an average too many": tensor("average", torch.zeros(1)),
    "a kept model too many": tensor("kept", torch.zeros(1)),
    "an input layer too many": tensor("input layer.weights", torch.zeros(1)),
}


@pytest.mark.parametrize("change", FORGERIES.values(), ids=FORGERIES)
def test_a_forged_checkpoint_is_refused_in_one_line(checkpoint, change):
    forge(checkpoint, change)
    watched = Watching()
    with pytest.raises(ValueError, match=ONE_LINE):
        run(checkpoint, watched=watched)
    assert watched.spent == []


def test_the_same_checkpoint_written_again_is_continued(checkpoint):
    """Negative control: it is the change that is refused, not the writing."""
    forge(checkpoint, lambda record, tensors: None)
    assert run(checkpoint).privacy_.epsilon > 0


def test_forged_looks_are_refused(tmp_path):
    """A look that was taken and is left out would be taken again, with other noise."""
    looks = interrupted(tmp_path / "c", 5, **LOOKS)
    good = looks.read_bytes()
    forge(looks, lambda record, tensors: record["looks"].update(counts=[]) or tensors.pop("kept"))
    watched = Watching()
    with pytest.raises(ValueError, match=r"^the checkpoint contradicts itself: its looks cannot be so"):
        run(looks, watched=watched, **LOOKS)
    assert watched.spent == []
    looks.write_bytes(good)
    run(looks, **LOOKS)


# Every kind of run at one step, and the one with looks at several.
@pytest.mark.parametrize(
    ("settings", "step"),
    [
        (settings, 5)
        for settings in [{"method": name} for name in ("dpsgd_f", "raco_dp", "dp_fermi", "fairdp_frontier", "clean")]
        + [{"n_members": 1}, {"optimizer": "adam_then_sgd", "momentum": 0.5}, {"optimizer": "sgd"}]
        + [{"group_optimizers": True}, {"method": "dp_is_sgd", "grouping": "attribute_and_label"}, LOOKS]
    ]
    + [({}, 1), (LOOKS, 1), (LOOKS, 7)],
)
def test_what_a_run_writes_is_never_refused(tmp_path, settings, step):
    """The other negative control, for all that a checkpoint may hold."""
    run(interrupted(tmp_path / "c", step, **settings), **settings)


@pytest.mark.parametrize(
    "content",
    [b"", b"\0" * 8, b"{}", (2**63).to_bytes(8, "little") + b"{}", (2).to_bytes(8, "little") + b"[]", b"x" * 500],
    ids=["empty", "zeros", "short", "endless", "list", "text"],
)
def test_any_sealed_content_is_refused(tmp_path, content):
    seal(tmp_path / "c", content)
    with pytest.raises(ValueError, match=ONE_LINE):
        read_checkpoint(tmp_path / "c")


def test_a_pipe_or_a_folder_is_refused_and_not_waited_for(tmp_path):
    import os

    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(ValueError, match=r"cannot be read \((not a file|Is a directory)\); start the run again\.$"):
            read_checkpoint(path)


def test_a_refused_checkpoint_costs_nothing(checkpoint):
    """Nothing is noted in a ledger before the checkpoint is known to be that of this run."""
    watched = Watching()
    with pytest.raises(ValueError, match="belongs to another run"):
        run(checkpoint, watched=watched, learning_rate=0.1)
    assert watched.spent == []
    run(checkpoint, watched=watched)
    assert len(watched.spent) == 1
