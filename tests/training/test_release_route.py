"""One route out of the data: every value that leaves it passes one of a few named functions.

None of them is called by a network or a method.
"""

import ast
import itertools
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import fairdp
from fairdp import METHODS, FairDPClassifier
from fairdp.accounting.mechanisms import epsilon_spent
from fairdp.accounting.plan import AuxiliaryMechanism
from fairdp.certify import bounds as certify_release
from fairdp.data.grouped import GroupedData
from fairdp.methods import dpsgd, functional
from fairdp.randomness import Stream
from fairdp.run import certifying
from fairdp.run import fit as running
from fairdp.training import loop, noise

pytestmark = pytest.mark.usefixtures("rough_bounds")

# Where noise that protects records is drawn, by module and function.
RELEASES = {
    "training.noise": {"add_gaussian_noise"},
    "certify.bounds": {"release_counts"},
    "run.certifying": {"counted_sizes"},
    "data.infer": {"released_tally", "noisy"},
    "methods.functional": {"_with_laplace"},
    # The paper's remark, for its studies; no run makes it.
    "paper": {"remark_2_release"},
}
# Noise that protects nobody: a smoothed model, here and exported, a simulated population; and what noise is made of.
PUBLIC_NOISE = {
    "networks.model": {"with_noise"},
    "saved.onnx": {"_draws"},
    "data.datasets": {"sample"},
    "randomness": {"discrete_gaussian"},
}
NOISE = {
    *("standard_normal", "normal", "laplace", "exponential"),
    *("discrete_laplace", "discrete_gaussian", "round_with_gaussian"),
}
SOURCE = Path(fairdp.__file__).parent
STEPS = 6
GAUSSIAN = RELEASES["training.noise"]


def noisy_functions(tree: ast.Module) -> set[str]:
    """Functions in which noise is drawn."""
    return {
        function.name
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Call)
        and (getattr(node.func, "attr", None) in NOISE or getattr(node.func, "id", None) in NOISE)
    }


def test_noise_is_drawn_in_the_named_functions_only():
    found = {}
    for path in SOURCE.rglob("*.py"):
        module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        found[module] = noisy_functions(ast.parse(path.read_text()))
    assert {module: names for module, names in found.items() if names} == RELEASES | PUBLIC_NOISE


def records(n_samples: int = 240) -> GroupedData:
    rng = np.random.default_rng(0)
    X = rng.random((n_samples, 4)).astype(np.float32)
    return GroupedData(X, (X[:, 0] > 0.5).astype(np.int64), np.arange(n_samples) % 2, ("f", "m"))


def callers() -> list[str]:
    """Modules of this package on the stack, innermost first."""
    frame, found = sys._getframe(2), []
    while frame is not None:
        found.append(str(frame.f_globals.get("__name__")))
        frame = frame.f_back
    return [name.removeprefix("fairdp.") for name in found if name.startswith("fairdp.")]


@pytest.fixture
def released(monkeypatch):
    """The releases of a run, by the function that made each; fails if a network or a method asked for one."""
    made: list[str] = []

    def observe(module, name: str, *also) -> None:
        original = getattr(module, name)

        def spy(*given, **options):
            # Within a step: between its release and the loop stands neither a network nor a method.
            inside = itertools.takewhile(lambda module: module != "training.loop", callers())
            asked = [module for module in inside if module.startswith(("networks.", "methods.")) and name in GAUSSIAN]
            assert not asked, f"{name} was called from {asked[0]}"
            made.append(name)
            return original(*given, **options)

        for where in (module, *also):
            monkeypatch.setattr(where, name, spy)

    observe(noise, "add_gaussian_noise", loop)
    observe(certify_release, "release_counts", certifying)
    observe(running, "counted_sizes")
    observe(functional, "_with_laplace")
    return made


def expected_releases(name: str, data: GroupedData) -> dict[str, int]:
    """The releases of a method's run: gradients, statistics beside them, counts, sizes, polynomials."""
    fixed = {"release_counts": 1 + METHODS[name].post_processes}
    if METHODS[name].private:
        fixed["counted_sizes"] = 1
    if METHODS[name].closed_form:
        return {**fixed, "_with_laplace": 2 * data.n_groups}
    runs = data.n_groups if name == "fairsmooth" else 1
    statistics = {"dpsgd_f": STEPS, "raco_dp": STEPS}.get(name, 0)
    return {**fixed, "add_gaussian_noise": runs * STEPS + statistics}


@pytest.mark.parametrize("name", METHODS)
def test_a_run_releases_what_was_planned_and_nothing_else(name, released):
    data = records()
    settings = {"sample_rate": 0.3, "n_steps": STEPS, "n_members": 2, "random_state": 0, "epsilon": 2.0}
    # Neither how tight the accounting is nor what is certified changes what is released: the fastest of either.
    settings |= {"accountant": "rdp", "certify_metrics": ("demographic_parity",)}
    FairDPClassifier(method=name, **settings).fit_grouped(data)
    counted = {function: released.count(function) for function in sorted(set(released))}
    assert counted == dict(sorted(expected_releases(name, data).items()))


LOOKS = {"require_tau": 0.999, "n_looks": 4, "certify_metrics": ("demographic_parity",)}


@pytest.mark.parametrize(("name", "n_members", "extra"), [("fairdp", 2, 3), ("fairdp", 1, 0), ("dpsgd", 2, 0)])
def test_the_heads_of_every_look_are_a_release_that_is_accounted_for(name, n_members, extra, released):
    """Four looks, the last at the finished model; the others make their heads by a noisy step of their own."""
    settings = {"sample_rate": 0.3, "n_steps": STEPS, "random_state": 0, "epsilon": 8.0}
    model = FairDPClassifier(method=name, n_members=n_members, **settings, **LOOKS).fit_grouped(records())
    spent = model.privacy_
    assert (released.count("release_counts"), released.count("add_gaussian_noise")) == (4, STEPS + extra)
    assert (spent.n_steps, spent.look_steps) == (STEPS + extra, extra)
    for mechanism in spent.mechanisms.values():
        assert mechanism.n_steps == STEPS + extra
        assert 0.99 * 8 < epsilon_spent(mechanism, spent.delta) <= 8


class Leaking(AuxiliaryMechanism):
    """A method that releases something on its own, in the middle of a backward pass."""

    def score_gradient(self, seen, memory):
        bounded = loop.BoundedSum(seen.scores.double(), np.ones(2))
        loop.add_gaussian_noise(bounded, 1.0, accounted_multipliers=np.ones(2), stream=Stream(bytes(32)))
        return torch.sigmoid(seen.scores) - seen.labels


def test_that_check_notices_a_release_inside_a_callback(released, monkeypatch):
    # This module stands for a method's.
    monkeypatch.setitem(globals(), "__name__", "fairdp.methods.leaking")
    method = replace(METHODS["dpsgd"], recipe=lambda config, sizes: replace(dpsgd(config, sizes), auxiliary=Leaking()))
    monkeypatch.setitem(METHODS, "dpsgd", method)
    with pytest.raises(AssertionError, match="was called from methods"):
        FairDPClassifier(method="dpsgd", sample_rate=0.3, n_steps=2, random_state=0).fit_grouped(records())
