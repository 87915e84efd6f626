"""Who a process is among those that were started together, by what launchers say in the environment."""

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from torch.distributed import HashStore

from fairdp import cli
from fairdp.distributed import ALONE, WorkerLost, process_group, rendezvous, shares, starts_again, world_size
from fairdp.errors import InputError


@pytest.fixture
def said(monkeypatch):
    """An environment that says just this."""

    def say(**variables: str) -> None:
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return say


def test_without_a_launcher_a_process_is_alone(said):
    said()
    assert process_group() is ALONE
    said(WORLD_SIZE="1", RANK="0")
    assert process_group() is ALONE
    assert world_size() == 1


@pytest.mark.parametrize("rubbish", ["two", "-1", "1.5", " 2"])
def test_rubbish_is_refused_in_one_line_by_every_command(said, rubbish, capsys):
    said(WORLD_SIZE=rubbish)
    with pytest.raises(SystemExit) as ended:
        cli.main(["methods"])
    assert ended.value.code == cli.BAD_INPUT
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert f"WORLD_SIZE={rubbish!r}" in line


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"WORLD_SIZE": "2"}, "not RANK"),
        ({"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "127.0.0.1"}, "not MASTER_PORT"),
        ({"WORLD_SIZE": "2", "RANK": "5", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}, "RANK=5 must be below"),
    ],
)
def test_what_does_not_fit_together_is_refused(said, variables, words):
    said(**variables)
    with pytest.raises(InputError, match=words):
        process_group()


def test_torchrun_says_whether_it_starts_again(monkeypatch):
    for count, most, expected in (("0", "2", True), ("2", "2", False), ("", "", False)):
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", count)
        monkeypatch.setenv("TORCHELASTIC_MAX_RESTARTS", most)
        assert starts_again() == expected


def test_nobody_takes_a_lost_worker_for_a_file_that_cannot_be_read():
    assert not issubclass(WorkerLost, OSError | RuntimeError | ValueError)


def test_shares_are_neighbours_and_none_is_left_out():
    assert shares([], 3) == []
    for sizes in ([5], [1, 1], [3, 3, 3, 3], [10, 1, 1, 1], [0, 0, 7]):
        for n_workers in (1, 2, 5):
            found = shares(sizes, n_workers)
            assert found == sorted(found)
            assert set(found) <= set(range(n_workers))


def store_that_waits() -> HashStore:
    """For some seconds, where torch's own would wait for minutes."""
    store = HashStore()
    store.set_timeout(timedelta(seconds=10))
    return store


@pytest.mark.parametrize("late", [0, 1, 2, 3])
def test_every_start_has_a_name_of_its_own_though_the_store_stays(late):
    """Torchrun keeps the store when it starts all again; whoever comes first finds what an earlier start has left."""
    store, size, names = store_that_waits(), 4, []

    def process(rank: int) -> str:
        time.sleep(0.3 * (rank == late))
        return rendezvous(store, rank, size)

    for _ in range(3):
        with ThreadPoolExecutor(size) as pool:
            found = list(pool.map(process, range(size)))
        assert len(set(found)) == 1
        names += found[:1]
    assert len(set(names)) == 3


def test_the_name_that_an_earlier_start_has_left_would_be_taken_for_this_one():
    """Negative control: whoever takes the name as it stands has the addresses of an earlier start."""
    store = store_that_waits()
    with ThreadPoolExecutor(2) as pool:
        before = list(pool.map(lambda rank: rendezvous(store, rank, 2), range(2)))
        second = pool.submit(rendezvous, store, 1, 2)
        time.sleep(0.2)
        assert store.get("fairdp first").decode() == before[0]
        assert not second.done()
        assert rendezvous(store, 0, 2) == second.result() != before[0]
