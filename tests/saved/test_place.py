"""A model and its used records: whatever happens while they are replaced, the path holds a model with its own."""

import os
import shutil
import signal
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from fairdp import _folders as folders
from fairdp._checks import SavedModelError
from fairdp.accounting.mechanisms import PrivacyBudget
from fairdp.certify.certificate import NotCertified
from fairdp.config.certificate import NoCertificate
from fairdp.config.model import ModelConfig
from fairdp.run.made import made_now
from fairdp.run.plan import plan_run
from fairdp.run.predictor import Predictor
from fairdp.saved import place
from fairdp.saved.folder import ModelRecord, SavedModel, read_model, sha256, write_model
from fairdp.saved.place import place_for_model, with_used_records
from fairdp.saved.used_records import (
    UsedRecords,
    read_used_records,
    used_records_of,
    used_records_path,
    write_used_records,
)
from faults import disturbing
from faults.disturbing import CALLS, Calls

PLAN = plan_run(
    method="clean",
    kind="logistic",
    budget=PrivacyBudget(epsilon=1.0, delta=1e-5),
    training={"sample_rate": 0.1, "n_steps": 5, "clip_norm": 1.0, "learning_rate": 1.0},
    sizes={"f": 100.0, "m": 300.0},
    groups=("f", "m"),
    certify_fraction=0.0,
    group_sizes="exact",
)
OLD = SavedModel(
    tensors={"params": torch.arange(6, dtype=torch.float32)},
    model=ModelRecord(
        parameters={"epsilon": 1.0},
        classes=(0, 1),
        groups=("f", "m"),
        feature_schema=None,
        feature_names=None,
        predictor=Predictor(),
        notes={},
        made=made_now(),
        model=ModelConfig(kind="logistic"),
        shape=(2,),
        heads=(2, 3),
        smoothing=None,
        frontier=None,
        target=None,
    ),
    privacy=PLAN.privacy,
    certificate=NotCertified(NoCertificate.NO_RECORDS_HELD_OUT),
)
NEW = replace(OLD, tensors={"params": torch.arange(6, dtype=torch.float32) + 1})
# Whom a model was trained on, by what is in it.
TRAINED_ON = {"old": [1, 2, 3], "new": [3, 4]}
# All calls of the file layer, not only those that change something.
KINDS = (*CALLS, "exchange")


def digest_of(saved: SavedModel) -> str:
    return sha256(place_bytes(saved))


def place_bytes(saved: SavedModel) -> bytes:
    from fairdp.networks.models import tensor_bytes

    return tensor_bytes(saved.tensors)


def used_by(saved: SavedModel, name: str) -> UsedRecords:
    records = np.array(TRAINED_ON[name], dtype=np.uint64)
    return replace(UsedRecords.new().with_use("training", records), model_sha256=digest_of(saved))


def put(out: Path, saved: SavedModel, name: str) -> None:
    """As commands do it."""
    with place_for_model(out, overwrite=True), with_used_records(out, used_by(saved, name)):
        write_model(out, saved)


def found(out: Path) -> str:
    """Which model is at the path; fails unless it can be read and has its own used records."""
    params = read_model(out).tensors["params"]
    name = "old" if torch.equal(params, OLD.tensors["params"]) else "new"
    used = used_records_of(out, sha256((out / "model.safetensors").read_bytes()))
    assert used is not None
    assert used.model_sha256 == digest_of(OLD if name == "old" else NEW)
    assert used.uses["training"].tolist() == TRAINED_ON[name]
    return name


def killed(out: Path, at: int) -> bool:
    """Replace the model in a child that is killed at a call; whether it came so far."""
    child = os.fork()
    if not child:
        try:
            with Calls(at=at, then=disturbing.killed, kinds=KINDS).counting():
                put(out, NEW, "new")
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def filled(out: Path, at: int) -> bool:
    """The same, where the disk is full at that call, and only there."""
    calls = Calls(at=at, then=disturbing.no_space, kinds=KINDS)
    with calls.counting():
        try:
            put(out, NEW, "new")
        except (OSError, SavedModelError):
            assert len(calls.seen) >= at
    return len(calls.seen) >= at


def outcomes(tmp_path: Path, disturbed: Callable[[Path, int], bool]) -> list[str]:
    """Which model is there after a fault at each of the calls; afterwards nothing is left that should not be."""
    models = []
    for at in range(1, 1000):
        out = tmp_path / str(at) / "model"
        out.parent.mkdir()
        put(out, OLD, "old")
        if not disturbed(out, at):
            assert at > 30
            return models
        models.append(found(out))
        put(out, NEW, "new")
        assert sorted(os.listdir(out.parent)) == ["model", "model.register"]
        assert found(out) == "new"
        shutil.rmtree(out.parent)
    raise AssertionError("there is no end of calls")


@pytest.fixture(params=["exchange", "two renames"])
def way(request, monkeypatch):
    """As the system does it, and as where it cannot exchange."""
    if request.param == "two renames":
        monkeypatch.setattr(folders, "exchange", lambda one, other: False)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("disturbed", [killed, filled])
def test_a_fault_at_any_call_leaves_a_readable_model_with_its_own_used_records(tmp_path, disturbed):
    models = outcomes(tmp_path, disturbed)
    # Both occur: faults come before and after the one step that replaces it. Until then nothing has changed.
    assert models[0] == "old"
    assert models[-1] == "new"
    assert models == sorted(models, reverse=True) or disturbed is filled


@pytest.mark.parametrize("disturbed", [killed, filled])
def test_that_check_notices_a_folder_that_is_removed_before_the_new_one_is_in_place(tmp_path, monkeypatch, disturbed):
    def remove_first(staging: Path, folder: Path) -> None:
        if folder.exists():
            shutil.rmtree(folder)
        os.rename(staging, folder)

    monkeypatch.setattr(folders, "_put_in_place", remove_first)
    with pytest.raises(SavedModelError, match=r"not a saved model|incomplete|was changed"):
        outcomes(tmp_path, disturbed)


@pytest.mark.parametrize("disturbed", [killed, filled])
def test_that_check_notices_used_records_that_are_written_over_those_of_the_model_that_stays(
    tmp_path, monkeypatch, disturbed
):
    @contextmanager
    def records_first(out, used):
        write_used_records(used_records_path(out), used)
        yield

    monkeypatch.setattr(f"{__name__}.with_used_records", records_first)
    with pytest.raises(AssertionError):
        outcomes(tmp_path, disturbed)


def test_a_model_is_replaced_only_if_that_is_said(tmp_path):
    put(tmp_path / "model", OLD, "old")
    with (
        pytest.raises(ValueError, match=r"model' holds a model already; choose another folder, or add overwrite"),
        place_for_model(tmp_path / "model", overwrite=False),
    ):
        pytest.fail("begun")
    assert found(tmp_path / "model") == "old"


def test_used_records_that_wait_go_to_their_model_at_the_next_use(tmp_path):
    out = tmp_path / "model"
    put(out, OLD, "old")
    with pytest.raises(KeyError), with_used_records(out, used_by(NEW, "new")):
        raise KeyError
    assert sorted(os.listdir(tmp_path)) == ["model", "model.register"]
    write_used_records(tmp_path / ".model.register.next", used_by(NEW, "new"))
    assert found(out) == "old"
    write_model(out, NEW)
    assert found(out) == "new"
    assert read_used_records(used_records_path(out)).model_sha256 == digest_of(OLD)
    with place.place_of_model(out):
        assert read_used_records(used_records_path(out)).model_sha256 == digest_of(NEW)
    assert sorted(os.listdir(tmp_path)) == ["model", "model.register"]
