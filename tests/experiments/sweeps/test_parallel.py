"""Work that is spread: the same results for any number of workers, on one machine."""

import os

import numpy as np
import pytest
import torch

from fairdp.experiments.sweeps.parallel import Workers, run_tasks, spread, told


def squared(number: int) -> tuple[int, int, int]:
    return number**2, torch.get_num_threads(), os.getpid()


def drawn(task: int, rng: np.random.Generator) -> float:
    return task + float(rng.random())


def refused(number: int) -> int:
    raise ValueError(f"no {number}")


@pytest.mark.parametrize("number", [1, 2])
def test_every_task_is_done_once_with_one_thread(number):
    found = dict(spread(squared, range(5), Workers(number=number)))
    assert {position: own[0] for position, own in found.items()} == {i: i**2 for i in range(5)}
    assert {own[1] for own in found.values()} == {1}
    assert (os.getpid() in {own[2] for own in found.values()}) == (number == 1)


def test_threads_are_given_back():
    before = torch.get_num_threads()
    list(spread(squared, range(2), Workers()))
    assert torch.get_num_threads() == before


def test_generators_do_not_depend_on_the_workers():
    def work(seed, number):
        return run_tasks(drawn, range(4), seed=seed, workers=Workers(number=number), say=lambda line: None, what="work")

    assert work(0, 1) == work(0, 2) != work(1, 1)


@pytest.mark.parametrize("number", [1, pytest.param(2, marks=pytest.mark.more)])
def test_what_a_task_refuses_reaches_the_caller(number):
    with pytest.raises(ValueError, match=r"no [01]"):
        list(spread(refused, range(2), Workers(number=number)))


def test_progress_says_how_much_is_left():
    lines = []
    assert list(told(iter("abc"), 3, lines.append, what="work", seconds_between=-1.0)) == ["a", "b", "c"]
    assert lines == ["work: 1 of 3 tasks, about 0 s left", "work: 2 of 3 tasks, about 0 s left", "work: 3 of 3 tasks"]
