"""Checkpoints of a joint model: what was asked before the first step, or after the last, is asked once."""

import functools

import numpy as np
import pytest
import torch

from fairdp import FairDPClassifier
from fairdp.data.grouped import GroupedData
from fairdp.networks.rows import SplineFeatures
from fairdp.run.checkpoint import read_checkpoint
from fairdp.run.fit import Progress

pytestmark = pytest.mark.usefixtures("rough_bounds")

ONE = {"certify_metrics": ("demographic_parity",)}
SETTINGS = {"method": "fairdp_frontier", "epsilon": 2.0, "n_steps": 10, "random_state": 0, **ONE}


class Killed(Exception):
    """Stands for whatever ends a process in mid-course."""


@functools.cache
def people(n_groups=2):
    rng = np.random.default_rng(0)
    X = rng.random((600, 3)).astype(np.float32)
    names = ("f", "m", "x")[:n_groups]
    return GroupedData(X, (X[:, 0] > 0.5).astype(np.int64), np.arange(600) % n_groups, names)


def killed_at(step):
    def observe(done, n_steps):
        if done == step:
            raise Killed

    return observe


def run(path=None, *, n_groups=2, resume=False, observe=lambda step, n_steps: None, **settings):
    progress = Progress(seconds_between_checkpoints=0.0, observe=observe, checkpoint=path, resume=resume)
    return FairDPClassifier(**{**SETTINGS, **settings}).fit_grouped(people(n_groups), progress=progress)


@functools.cache
def uninterrupted(**settings):
    return run(**settings)


def interrupted(path, step, **settings):
    """Killed before the checkpoint of this step is written: it is that of the step before."""
    with pytest.raises(Killed):
        run(path, observe=killed_at(step), **settings)


def finished(path, **settings):
    """Killed with the last checkpoint written, as the frontier is about to be read."""
    run(path, **settings)
    assert read_checkpoint(path).record.step == SETTINGS["n_steps"]


def assert_same(resumed, whole):
    ours, theirs = resumed.score_model_.tensors(), whole.score_model_.tensors()
    assert ours.keys() == theirs.keys()
    assert "cell_values" in ours
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert resumed.frontier_ == whole.frontier_
    assert resumed.privacy_ == whole.privacy_
    assert resumed.certificate_ == whole.certificate_


@pytest.mark.parametrize(("n_groups", "step"), [(2, 2), (3, 6)])
def test_a_killed_run_continues_to_the_same_model_and_the_same_frontier_bit_by_bit(tmp_path, step, n_groups):
    interrupted(tmp_path / "c", step, n_groups=n_groups)
    assert_same(run(tmp_path / "c", resume=True, n_groups=n_groups), uninterrupted(n_groups=n_groups))


@pytest.mark.parametrize("settings", [{}, {"n_groups": 3}, {"parity": "equalized_odds"}, {"model": "mlp"}], ids=str)
def test_one_that_had_taken_its_last_step_reads_the_same_frontier(tmp_path, settings):
    finished(tmp_path / "c", **settings)
    assert_same(run(tmp_path / "c", resume=True, **settings), uninterrupted(**settings))


def test_without_a_seed_too(tmp_path):
    """Nothing but the checkpoint holds the keys: two runs of the rest read the same frontier."""
    interrupted(tmp_path / "c", 10, random_state=None)
    content = (tmp_path / "c").read_bytes()
    once = run(tmp_path / "c", resume=True, random_state=None)
    (tmp_path / "c").write_bytes(content)
    assert_same(run(tmp_path / "c", resume=True, random_state=None), once)


def test_the_input_layer_asks_once(tmp_path, monkeypatch):
    interrupted(tmp_path / "c", 6)
    weights = read_checkpoint(tmp_path / "c").tensors["input layer.weights"]
    assert len(set(weights.tolist())) > 1

    def asked_again(self, records):
        raise AssertionError("the input layer asks about the records a second time")

    monkeypatch.setattr(SplineFeatures, "answers", asked_again)
    resumed = run(tmp_path / "c", resume=True)
    assert torch.equal(resumed.score_model_.extractor.weights, weights)
    # Negative control: a run from the start does ask.
    with pytest.raises(AssertionError, match="a second time"):
        run()


def test_another_target_is_another_run(tmp_path):
    """Looks at other decisions with the same noise would tell the difference without any."""
    interrupted(tmp_path / "c", 6, n_groups=3)
    with pytest.raises(ValueError, match="belongs to another run"):
        run(tmp_path / "c", resume=True, n_groups=3, max_gap=0.2)


def test_that_check_notices_an_input_layer_that_was_not_restored(tmp_path, monkeypatch):
    from fairdp.run import checkpoint

    original = checkpoint.read_checkpoint

    def forgetful(path):
        read = original(path)
        read.tensors["input layer.weights"] = torch.ones_like(read.tensors["input layer.weights"])
        return read

    interrupted(tmp_path / "c", 6)
    monkeypatch.setattr(checkpoint, "read_checkpoint", forgetful)
    with pytest.raises(ValueError, match="belongs to another run"):
        run(tmp_path / "c", resume=True)
