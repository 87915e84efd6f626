"""Fits at the same time in several threads give the same bits as one after the other."""

import itertools
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch import nn

from fairdp import METHODS, FairDPClassifier
from fairdp.networks import model as building
from fairdp.training import sums as records
from fairdp.training.loop import torch_threads

N_THREADS = 8
CHEAP = {"epsilon": 2.0, "n_steps": 4, "sample_rate": 0.2, "certify_fraction": 0.0, "n_draws": 3}


class Dropping(nn.Module):
    """A user's own network, which tosses coins."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.dropout, self.second = nn.Linear(3, 6), nn.Dropout(0.5), nn.Linear(6, 4)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.second(self.dropout(torch.tanh(self.first(X)))))


KINDS = {"logistic": {"model": "logistic"}, "mlp": {"model": "mlp", "hidden": (8,)}, "own": {"module": Dropping}}


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3)).astype(np.float32)
    return X, (X[:, 0] > 0).astype(int), np.array(["f", "m"] * 100)


def cases(*, n_rounds: int) -> list[tuple[str, str, int]]:
    """Method, kind of model and seed of each fit."""
    both = itertools.product(METHODS, KINDS)
    fit = [(method, kind) for method, kind in both if kind == "logistic" or not METHODS[method].closed_form]
    return [(*case, seed) for seed in range(n_rounds) for case in fit]


def bits_of(case: tuple[str, str, int], people) -> bytes:
    method, kind, seed = case
    X, y, sex = people
    model = FairDPClassifier(method=method, random_state=seed, **CHEAP, **KINDS[kind]).fit(X, y, sensitive_features=sex)
    return model.score_model_.params.numpy().tobytes() + model.decision_function(X).tobytes()


def at_once(cases, people) -> list[bytes]:
    with ThreadPoolExecutor(N_THREADS) as pool:
        return list(pool.map(lambda case: bits_of(case, people), cases))


def one_by_one(cases, people) -> list[bytes]:
    return [bits_of(case, people) for case in cases]


def different(cases, people) -> list[tuple[str, str, int]]:
    pairs = zip(cases, one_by_one(cases, people), at_once(cases, people), strict=True)
    return [case for case, alone, beside in pairs if alone != beside]


def test_fits_in_threads_are_those_of_one_thread(people):
    """Each method with one kind of model; all kinds where the tests take longer."""
    before = torch.random.get_rng_state()
    kinds = zip(METHODS, itertools.cycle(KINDS), strict=False)
    few = [(method, "logistic" if METHODS[method].closed_form else kind, 0) for method, kind in kinds]
    assert different(few, people) == []
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.more
def test_three_hundred_fits_in_threads_are_those_of_one_thread(people):
    chosen = cases(n_rounds=9)[:300]
    assert len(chosen) == 300
    assert different(chosen, people) == []


@contextmanager
def _without_a_lock(seed: int) -> Iterator[None]:
    torch.manual_seed(seed)
    # Long enough for another thread to draw.
    time.sleep(0.002)
    yield


@pytest.mark.parametrize("kind", ["mlp", "own"])
def test_that_check_notices_the_global_generator(people, monkeypatch, kind):
    def from_the_global_generator(config, shape, generator):
        with _without_a_lock(generator.initial_seed()):
            return building._layers(config, shape)

    monkeypatch.setattr(building, "_known_extractor", from_the_global_generator)
    for module in (building, records):
        monkeypatch.setattr(module, "seeded_globally", _without_a_lock)
    with torch.random.fork_rng(devices=[]):
        assert different([case for case in cases(n_rounds=2) if case[:2] == ("dpsgd", kind)] * 8, people)


@pytest.mark.parametrize(
    ("size", "shape", "expected"),
    [(1, (1, 4, 4), 1), (10**5, (1, 4, 4), 2), (10**6, (16,), 1)],
    ids=["few images", "many images", "a large table"],
)
def test_the_number_of_threads_does_not_depend_on_other_runs(size, shape, expected):
    """A new thread inherits the number that was set last, by whichever thread."""
    usual, found = torch.get_num_threads(), []
    torch.set_num_threads(2)

    def number_inside() -> None:
        with torch_threads(for_batch=size, shape=shape):
            found.append(torch.get_num_threads())

    try:
        with torch_threads(for_batch=1, shape=(1,)):
            with ThreadPoolExecutor(1) as pool:
                pool.submit(number_inside).result()
            # A run that is started by another one does not change it either.
            number_inside()
            found.append(torch.get_num_threads())
        found.append(torch.get_num_threads())
    finally:
        torch.set_num_threads(usual)
    assert found == [expected, expected, 1, 2]
