"""The place of a model: whatever happens while the model is replaced, the path holds the old one or the new one."""

import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from fairdp import _io as folders
from fairdp.accounting.mechanisms import PrivacyBudget
from fairdp.certify.certificate import NotCertified
from fairdp.config import ModelConfig
from fairdp.errors import SavedModelError
from fairdp.parameters import NoCertificate, Parameters
from fairdp.run.fit import Fitted
from fairdp.run.plan import build_info, plan_run
from fairdp.run.predictor import Predictor
from fairdp.saved.folder import place_for_model, read_model, write_model
from faults import disturbing
from faults.disturbing import CALLS, Calls

_, _, PRIVACY = plan_run(
    Parameters(method="clean", sample_rate=0.1, n_steps=5, clip_norm=1.0, learning_rate=1.0),
    kind="logistic",
    budget=PrivacyBudget(epsilon=1.0, delta=1e-5),
    sizes={"f": 100.0, "m": 300.0},
    groups=("f", "m"),
    certify_fraction=0.0,
)
OLD = Fitted(
    parameters=Parameters(epsilon=1.0),
    groups=("f", "m"),
    feature_schema=None,
    predictor=Predictor(),
    notes={},
    made=build_info(),
    model=ModelConfig(kind="logistic"),
    shape=(2,),
    heads=(2, 3),
    smoothing=None,
    frontier=None,
    target=None,
    tensors={"params": torch.arange(6, dtype=torch.float32)},
    privacy=PRIVACY,
    certificate=NotCertified(NoCertificate.NO_RECORDS_HELD_OUT),
)
NEW = replace(OLD, tensors={"params": torch.arange(6, dtype=torch.float32) + 1})
# All calls of the file layer, not only those that change something.
KINDS = (*CALLS, "exchange")


def put(out: Path, saved: Fitted) -> None:
    """As commands do it."""
    with place_for_model(out, overwrite=True):
        write_model(out, saved)


def found(out: Path) -> str:
    """Which model is at the path; fails unless it can be read."""
    params = read_model(out).tensors["params"]
    return "old" if torch.equal(params, OLD.tensors["params"]) else "new"


def killed(out: Path, at: int) -> bool:
    """Replace the model in a child that is killed at a call; whether it came so far."""
    child = os.fork()
    if not child:
        try:
            with Calls(at=at, then=disturbing.killed, kinds=KINDS).counting():
                put(out, NEW)
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def filled(out: Path, at: int) -> bool:
    """The same, where the disk is full at that call, and only there."""
    calls = Calls(at=at, then=disturbing.no_space, kinds=KINDS)
    with calls.counting():
        try:
            put(out, NEW)
        except (OSError, SavedModelError):
            assert len(calls.seen) >= at
    return len(calls.seen) >= at


def outcomes(tmp_path: Path, disturbed: Callable[[Path, int], bool]) -> list[str]:
    """Which model is there after a fault at each of the calls; afterwards nothing is left that should not be."""
    models = []
    for at in range(1, 1000):
        out = tmp_path / str(at) / "model"
        out.parent.mkdir()
        put(out, OLD)
        if not disturbed(out, at):
            assert at > 30
            return models
        models.append(found(out))
        put(out, NEW)
        assert sorted(os.listdir(out.parent)) == ["model"]
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
def test_a_fault_at_any_call_leaves_a_readable_model(tmp_path, disturbed):
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


def test_a_model_is_replaced_only_if_that_is_said(tmp_path):
    put(tmp_path / "model", OLD)
    with (
        pytest.raises(ValueError, match=r"model' holds a model already; choose another folder, or add overwrite"),
        place_for_model(tmp_path / "model", overwrite=False),
    ):
        pytest.fail("begun")
    assert found(tmp_path / "model") == "old"
