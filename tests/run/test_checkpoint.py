"""Checkpoints: a run that was killed continues as if it had not been."""

import copy
import functools
import os
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
import torch

from classifier_cases import Watching
from fairdp import FairDPClassifier
from fairdp.certify import certificate as certificates
from fairdp.certify.bounds import GapBound
from fairdp.data.grouped import GroupedData
from fairdp.randomness import Chain, Generators
from fairdp.releases import watching
from fairdp.run import certifying as halting
from fairdp.run import fit
from fairdp.run.checkpoint import fingerprint_of, read_checkpoint, restore
from fairdp.run.fit import Progress, hold_out
from fairdp.run.plan import budget_of, checked
from fairdp.training.loop import FlatOptimizer, TrainingState

pytestmark = pytest.mark.usefixtures("rough_bounds")

FIRST = "optimizer.first_moment"
ONE = {"certify_metrics": ("demographic_parity",)}
SETTINGS = {"method": "fairdp", "epsilon": 2.0, "n_steps": 20, "sample_rate": 0.2, "random_state": 0, **ONE}


class Killed(Exception):
    """Stands for whatever ends a process in mid-course."""


@functools.cache
def people():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3)).astype(np.float32)
    return GroupedData(X, (X[:, 0] > 0).astype(np.int64), np.arange(400) % 2, ("f", "m"))


def killed_at(step):
    def observe(done, n_steps):
        if done == step:
            raise Killed

    return observe


def run(path=None, *, data=None, resume=False, observe=lambda step, n_steps: None, **settings):
    progress = Progress(seconds_between_checkpoints=0.0, observe=observe, checkpoint=path, resume=resume)
    return FairDPClassifier(**{**SETTINGS, **settings}).fit_grouped(data or people(), progress=progress)


@functools.cache
def uninterrupted(**settings):
    return run(**settings)


def interrupted(path, step=11, **settings):
    with pytest.raises(Killed):
        run(path, observe=killed_at(step), **settings)


def params(model):
    return model.score_model_.params


@pytest.mark.parametrize(
    ("optimizer", "step"),
    [("adam", 2), ("adam", 11), ("adam", 20), ("sgd", 11), ("adam_then_sgd", 2), ("adam_then_sgd", 19)],
)
def test_a_killed_run_continues_to_the_same_parameters_bit_by_bit(tmp_path, optimizer, step):
    path = tmp_path / "c"
    settings = {"optimizer": optimizer, "momentum": 0.5 if optimizer == "sgd" else 0.0}
    whole = uninterrupted(**settings)
    interrupted(path, step, **settings)
    resumed = run(path, resume=True, **settings)
    assert torch.equal(params(resumed), params(whole))
    assert resumed.privacy_ == whole.privacy_
    assert resumed.certificate_ == whole.certificate_


@pytest.mark.parametrize("step", [2, 19])
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_so_does_one_with_an_optimizer_for_every_group(tmp_path, optimizer, step):
    path, settings = tmp_path / "c", {"optimizer": optimizer, "momentum": 0.5, "group_optimizers": True}
    interrupted(path, step, **settings)
    moments = [name for name in read_checkpoint(path).tensors if name.startswith("optimizer.")]
    assert {read_checkpoint(path).tensors[name].shape[0] for name in moments} == {2}
    assert torch.equal(params(run(path, resume=True, **settings)), params(uninterrupted(**settings)))
    with pytest.raises(ValueError, match="belongs to another run"):
        run(path, resume=True, optimizer=optimizer, momentum=0.5)


def test_that_check_notices_a_state_that_was_not_restored(tmp_path, monkeypatch):
    """Without the optimiser's moments, or with a fresh noise generator, the end is another one."""
    from fairdp.run import checkpoint

    whole = uninterrupted()
    original = checkpoint.read_checkpoint
    changes = (
        lambda c: replace(c, present_key=bytes(32)),
        lambda c: replace(c, tensors=c.tensors | {name: torch.zeros_like(c.tensors[name]) for name in [FIRST]}),
    )
    for number, change in enumerate(changes):
        path = tmp_path / f"checkpoint {number}"
        interrupted(path)
        monkeypatch.setattr(checkpoint, "read_checkpoint", lambda path, change=change: change(original(path)))
        assert not torch.equal(params(run(path, resume=True)), params(whole))
        monkeypatch.undo()


def test_a_resumed_run_holds_out_the_records_that_it_held_out_before(tmp_path, monkeypatch):
    """Without a seed the key of the coins is in the checkpoint alone; with another one it is another run."""
    from fairdp.run import checkpoint

    original, watched = checkpoint.read_checkpoint, Watching()
    progress = Progress(seconds_between_checkpoints=0.0, checkpoint=tmp_path / "c")
    for resume, last in ((False, 11), (True, 12)):
        with pytest.raises(Killed):
            FairDPClassifier(**{**SETTINGS, "random_state": None}).fit_grouped(
                people(), progress=replace(progress, resume=resume, observe=killed_at(last)), spending=watched
            )
    for before, after in zip(*watched.parts, strict=True):
        np.testing.assert_array_equal(before.X, after.X)
    monkeypatch.setattr(checkpoint, "read_checkpoint", lambda path: replace(original(path), lasting_key=bytes(32)))
    with pytest.raises(ValueError, match="belongs to another run"):
        run(tmp_path / "c", resume=True, random_state=None)


def test_a_finished_run_does_not_continue_as_its_smoothed_twin(tmp_path):
    """Both train alike, but the negative control would count the held-out records a second time."""
    interrupted(tmp_path / "c", step=20, method="dpsgd")
    with pytest.raises(ValueError, match="belongs to another run"):
        run(tmp_path / "c", resume=True, method="dpsgd_smooth")


def test_another_version_does_not_continue_a_run(tmp_path, monkeypatch):
    """It may release something else, and what differs would stand without noise."""
    from fairdp.run import checkpoint

    interrupted(tmp_path / "c")
    monkeypatch.setattr(checkpoint, "version", lambda name: "another")
    with pytest.raises(ValueError, match="version of fairdp"):
        run(tmp_path / "c", resume=True)


@pytest.mark.parametrize("method", ["dpsgd_f", "raco_dp", "dp_fermi", "dp_postprocess"])
def test_what_a_method_remembers_is_continued_too(tmp_path, method):
    whole = run(method=method)
    interrupted(tmp_path / "c", method=method)
    resumed = run(tmp_path / "c", resume=True, method=method)
    assert torch.equal(params(resumed), params(whole))
    assert resumed.predictor_ == whole.predictor_


def test_a_resumed_run_takes_only_the_steps_that_are_left(tmp_path):
    """Steps are what was accounted for: 11 before the kill and 9 after it, never more."""
    path, steps = tmp_path / "c", []
    interrupted(path, 12)
    run(path, resume=True, observe=lambda step, n_steps: steps.append((step, n_steps)))
    assert steps == [(step, 20) for step in range(12, 21)]


class TestLooks:
    """Four looks, after 5, 10, 15 and 20 steps: all met, or the third missed, so that the second is kept."""

    SETTINGS: ClassVar = {"require_tau": 0.5, "n_looks": 4, "certify_metrics": ("demographic_parity",)}
    MET, MISSED = (0.1, 0.2, 0.3, 0.4), (0.1, 0.2, 0.8)

    @pytest.fixture(autouse=True)
    def prepare(self, monkeypatch):
        self.taus, self.releases = {}, []
        monkeypatch.setattr(certificates, "gap_bound", self.bound)

    def bound(self, arms, *, failure_probability, score_box):
        """The bounds of the looks in their order; counts that were seen before have the bound that they had."""
        tau = self.taus.setdefault(tuple(arms), self.outcome[min(len(self.taus), len(self.outcome) - 1)])
        return GapBound(tau=tau, pair=(0, 1), ratio=None)

    def watched(self, **options):
        """A run, or what is left of one that was killed, and all that leaves the records on the way."""
        with watching(self.note):
            return run(**self.SETTINGS, **options)

    def note(self, release):
        self.releases.append((release.purpose, release.noisy.tobytes()))
        return release.noisy

    def whole(self):
        """The run that nobody interrupts, and its releases."""
        model, made = self.watched(), self.releases
        self.releases, self.taus = [], {}
        return model, made

    @pytest.mark.parametrize("outcome", [MET, MISSED], ids=["met", "missed"])
    @pytest.mark.parametrize("step", [2, 5, 6, 10, 11, 15])
    def test_a_run_that_was_killed_between_its_looks_ends_the_same_and_repeats_no_release(
        self, tmp_path, outcome, step
    ):
        self.outcome = outcome
        model, made = self.whole()
        with pytest.raises(Killed):
            self.watched(path=tmp_path / "c", observe=killed_at(step))
        resumed = self.watched(path=tmp_path / "c", resume=True)
        self.is_same(resumed, model)
        # What was released twice is the same twice, and all together is what one run releases.
        assert list(dict.fromkeys(self.releases)) == made

    @pytest.mark.parametrize(
        ("module", "name", "n_calls"),
        [(fit, "breached", 6), (fit, "breached", 11), (halting, "look", 1), (halting, "look", 2), (halting, "look", 3)],
        ids=["before the first", "before the second", "in the first", "in the second", "in the third"],
    )
    def test_a_look_that_was_due_is_taken_after_a_kill(self, tmp_path, monkeypatch, module, name, n_calls):
        """Killed just before a look, when its checkpoint was written, or in it, when its heads were made."""
        self.outcome, calls, original = self.MISSED, [], getattr(module, name)
        model, made = self.whole()

        def kill(*given):
            calls.append(given)
            if len(calls) == n_calls:
                raise Killed
            return original(*given)

        with monkeypatch.context() as patched:
            patched.setattr(module, name, kill)
            with pytest.raises(Killed):
                self.watched(path=tmp_path / "c")
        self.is_same(self.watched(path=tmp_path / "c", resume=True), model)
        assert list(dict.fromkeys(self.releases)) == made

    def test_that_check_notices_a_kept_model_that_was_not_restored(self, tmp_path, monkeypatch):
        from fairdp.run import checkpoint

        self.outcome, original = self.MISSED, checkpoint.read_checkpoint
        model, _ = self.whole()
        with pytest.raises(Killed):
            self.watched(path=tmp_path / "c", observe=killed_at(12))
        forgetful = original(tmp_path / "c")
        forgetful.tensors["kept"] = torch.zeros_like(forgetful.tensors["kept"])
        monkeypatch.setattr(checkpoint, "read_checkpoint", lambda path: forgetful)
        assert not torch.equal(params(self.watched(path=tmp_path / "c", resume=True)), params(model))

    @staticmethod
    def is_same(resumed, whole):
        assert resumed.certificate_ == whole.certificate_
        assert resumed.privacy_ == whole.privacy_
        assert torch.equal(params(resumed), params(whole))


def test_a_checkpoint_is_for_its_owner_and_is_no_pickle(tmp_path):
    path = tmp_path / "c"
    interrupted(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["c"]
    assert path.read_bytes()[8:9] == b"{"


def without_a_held_out_record():
    """The noise on counts may not meet other counts, or their difference would be seen without any."""
    chosen = checked(**FairDPClassifier(**SETTINGS).get_params(deep=False))
    budget = budget_of(chosen, kind="logistic", n_groups=people().n_groups)
    held_out = hold_out(chosen, people(), budget, Generators.of(0)).held_out.X[0]
    return people().take(np.flatnonzero((held_out != people().X).any(1)))


@pytest.fixture(scope="module")
def of_this_run(tmp_path_factory):
    path = tmp_path_factory.mktemp("this run") / "c"
    interrupted(path)
    return path


OTHER = GroupedData(people().X + 1e-6, people().y, people().groups, people().group_names)


@pytest.mark.parametrize(
    "changes",
    [
        {"data": OTHER},
        {"data": GroupedData(people().X, 1 - people().y, people().groups, people().group_names)},
        {"data": GroupedData(people().X, people().y, 1 - people().groups, people().group_names)},
        {"data": people().take(np.arange(399))},
        {"data": without_a_held_out_record()},
        {"confidence": 0.9},
        {"require_tau": 0.5},
        {"predictor": "gibbs"},
        {"epsilon": 3.0},
        {"n_steps": 40},
        {"method": "dpsgd"},
        {"learning_rate": 0.1},
        {"clip_norm": 2.0},
        {"noise_allocation": "average"},
        {"optimizer": "sgd"},
        {"hidden": (16,)},
        {"activation": "tanh"},
        {"bias": False},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_checkpoint_of_another_run_is_refused_in_one_line(of_this_run, changes):
    with pytest.raises(ValueError, match=r"^the checkpoint belongs to another run: [^\n]*$"):
        run(of_this_run, resume=True, **changes)


def test_a_checkpoint_of_another_format_is_refused(tmp_path, monkeypatch):
    from fairdp.run import checkpoint

    path = tmp_path / "c"
    monkeypatch.setattr(checkpoint, "FORMAT", 99)
    interrupted(path)
    monkeypatch.undo()
    with pytest.raises(ValueError, match=r"has format 99, this version reads 10\.$"):
        run(path, resume=True)


def test_restoring_moves_the_chain_to_where_it_was(tmp_path):
    """Otherwise the noise of the first steps would be drawn a second time."""
    interrupted(tmp_path / "c")
    checkpoint = read_checkpoint(tmp_path / "c")
    state = TrainingState(copy.deepcopy(uninterrupted().score_model_), FlatOptimizer("adam"), Chain(bytes(32)))
    restore(checkpoint, state)
    assert (state.chain.present, state.step) == (checkpoint.present_key, checkpoint.record.step)


def test_every_part_of_a_record_is_in_the_fingerprint():
    data, model = people(), uninterrupted().score_model_
    weights = np.ones(data.n_samples)
    variants = [data, replace(data, weights=weights), replace(data, weights=0.5 * weights)]
    for name in ("X", "y", "groups"):
        changed = getattr(data, name).copy()
        changed[7] = 1 - changed[7]
        variants.append(replace(data, **{name: changed}))
    prints = {fingerprint_of([own], "plan", "config", model, fixed=None) for own in variants}
    assert len(prints) == len(variants)
    assert fingerprint_of([data], "plan", "config", model, fixed=None) in prints


def test_a_new_run_does_not_overwrite_a_checkpoint(tmp_path):
    """It counts the steps that were taken: without it they could be taken again."""
    path = tmp_path / "c"
    interrupted(path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"c' exists already; add resume to continue from it"):
        run(path)
    assert path.read_bytes() == before
