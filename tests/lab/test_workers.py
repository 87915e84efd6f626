"""Tasks on several workers, on one machine and on a Dask cluster: the numbers of one process."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from distributed import KilledWorker

import fairdp
from fairdp.accounting import plan
from fairdp.cli import main
from fairdp.errors import DataError
from fairdp.ledger.ledger import Ledger
from fairdp.ledger.store import COMPLETED, SPENT
from fairdp_lab.sweeps.workers import (
    Workers,
    _guarded,
    _in_one_line,
    _numbered,
    on_cluster,
    run_tasks,
    spread,
    told,
    torch_threads,
)


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
    with torch_threads(before + 1):
        assert torch.get_num_threads() == before + 1
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


LIMIT = 60


def until(happened, what):
    """Wait for it; seconds only end a test that hangs."""
    limit = time.monotonic() + LIMIT
    while not happened():
        assert time.monotonic() < limit, f"{what} did not happen within {LIMIT} s"
        time.sleep(0.01)


class Cluster:
    """A scheduler and workers, each a process of its own on this machine."""

    def __init__(self, folder: Path):
        self.folder, self.workers = folder, []
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
        self.scheduler = self._start("scheduler", "--host", self.address, "--no-dashboard")

    def _start(self, kind, *arguments, before=()):
        # What comes first on the path is found first: another version, or other code.
        path = os.pathsep.join(map(str, (*before, Path(fairdp.__file__).parents[1])))
        return subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.dask_{kind}", *arguments],
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path},
        )

    def add_worker(self, *before):
        options = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(self.folder))
        self.workers.append(self._start("worker", self.address, *options, before=before))
        return self.workers[-1]

    def end(self):
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()


@pytest.fixture
def cluster(tmp_path):
    own = Cluster(tmp_path)
    yield own
    own.end()


@pytest.fixture
def table(tmp_path):
    """A user's table with its schema."""
    rng = np.random.default_rng(0)
    income = rng.normal(3.0, 1.0, 3000).round(6)
    approved = np.where(income + rng.normal(0, 0.5, 3000) > 3, "yes", "no")
    frame = pd.DataFrame({"income": income, "sex": rng.choice(["f", "m"], 3000), "approved": approved})
    frame.to_csv(tmp_path / "loans.csv", index=False)
    schema = {
        "label": "approved",
        "positive": "yes",
        "negative": "no",
        "sensitive": [{"name": "sex", "groups": ["f", "m"]}],
        "columns": [{"name": "income", "type": "numeric", "low": -5, "high": 11}],
        "table": "loans",
    }
    (tmp_path / "loans.yaml").write_text(yaml.safe_dump(schema))
    return tmp_path / "loans.csv"


def swept(table, out, *arguments, seeds=4):
    """A comparison whose trainings each write into the ledger; their lines without how long they took."""
    options = ("--methods", "fairdp", "--seeds", seeds, "--grid", "n_steps=100", "--schema", table.with_suffix(".yaml"))
    with pytest.raises(SystemExit) as stop:
        main([str(each) for each in ("compare", table, *options, "--out", out, "--json", *arguments)])
    assert stop.value.code == 0
    records = [json.loads(line) for path in (out / "trainings").glob("*.jsonl") for line in path.open()]
    return sorted(json.dumps({**record, "seconds": None}, sort_keys=True) for record in records)


@pytest.fixture(autouse=True)
def as_workers_certify(monkeypatch):
    """Workers are processes of their own, without what tests round for any processor."""
    monkeypatch.setattr(plan, "certify_epsilons", plan.certify_epsilons.__wrapped__)


def states(ledger):
    with Ledger(ledger) as book:
        return [entry.state for entry in book.entries()]


@pytest.mark.more
@pytest.mark.filterwarnings("default")
def test_a_worker_that_dies_loses_nothing_and_nothing_is_paid_twice(cluster, table, tmp_path):
    ledger, victim = tmp_path / "ledger.sqlite", cluster.add_worker()

    def kill():
        # Once it has paid for a training, and not ended it; two others come in its place.
        until(lambda: ledger.exists() and SPENT in states(ledger), "a payment")
        victim.send_signal(signal.SIGKILL)
        cluster.add_worker()
        cluster.add_worker()

    killer = threading.Thread(target=kill)
    killer.start()
    died = swept(table, tmp_path / "spread", "--scheduler", cluster.address, "--ledger", ledger)
    killer.join()
    assert victim.poll() == -signal.SIGKILL
    assert len(died) == len(set(died)) == 4
    assert states(ledger) == [COMPLETED] * 4
    # The secret of the data holder decides the noise.
    shutil.copy(tmp_path / "spread.key", tmp_path / "alone.key")
    assert died == swept(table, tmp_path / "alone", "--workers", 1)
    # Negative control: with another secret no line is the same.
    assert not set(swept(table, tmp_path / "other", "--workers", 1, seeds=1)) & set(died)


# Scheduler and workers can import it, as they can no test.
SLOW = partial(_numbered, time.sleep)


@pytest.mark.more
@pytest.mark.filterwarnings("default")
def test_without_workers_or_scheduler_a_sweep_ends_with_one_line(cluster, monkeypatch):
    with pytest.raises(OSError, match=r"has had no worker for 0.5 seconds; finished work is kept"):
        list(on_cluster(SLOW, (0.1, 0.1), cluster.address, timeout=0.5))
    only = cluster.add_worker()
    with pytest.raises(OSError, match=r"has had no worker for 0.5 seconds; finished work is kept"):
        list(with_a_death(only, on_cluster(SLOW, (0.1,) * 50, cluster.address, timeout=0.5)))
    cluster.add_worker()
    with pytest.raises(OSError, match=r"the Dask scheduler 'tcp://.*' is gone; finished work is kept"):
        list(with_a_death(cluster.scheduler, on_cluster(SLOW, (0.1,) * 50, cluster.address)))
    monkeypatch.setattr("fairdp_lab.sweeps.workers.ANSWER", 1.0)
    with pytest.raises(ValueError, match=r"scheduler='tcp://.*' does not answer"):
        list(spread(time.sleep, (0.1, 0.1), Workers(scheduler="tcp://127.0.0.1:9")))


def with_a_death(process, results):
    """The same results; the process is killed when the first is there."""
    for result in results:
        yield result
        process.kill()


@pytest.mark.more
@pytest.mark.filterwarnings("default")
def test_other_versions_and_other_code_get_no_work(cluster, tmp_path):
    other = tmp_path / "other"
    (other / "scipy-0.1.dist-info").mkdir(parents=True)
    (other / "scipy-0.1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: scipy\nVersion: 0.1\n")
    outdated = cluster.add_worker(other)
    with pytest.raises(DataError, match=r"worker tcp://.* has scipy 0.1, this machine .*; install the same on both"):
        list(on_cluster(SLOW, (0.1, 0.1), cluster.address))
    outdated.terminate()
    outdated.wait()
    shutil.copytree(Path(fairdp.__file__).parent, tmp_path / "changed" / "fairdp")
    with (tmp_path / "changed" / "fairdp" / "streams.py").open("a") as stream:
        stream.write("# Another line.\n")
    changed = cluster.add_worker(tmp_path / "changed")
    with pytest.raises(DataError, match=r"worker tcp://.* has other code of the same version"):
        list(on_cluster(SLOW, (0.1, 0.1), cluster.address))
    changed.terminate()
    changed.wait()
    # Negative control: the same code is given work.
    cluster.add_worker()
    assert sorted(on_cluster(SLOW, (0.1, 0.1), cluster.address)) == [(0, None), (1, None)]


def test_a_worker_that_comes_later_is_asked_by_its_first_task(monkeypatch):
    monkeypatch.setattr("fairdp_lab.sweeps.workers.environment_digest", lambda: "here")
    assert _guarded(lambda position, task: (position, task), 1, "task", "here") == (1, "task")
    with pytest.raises(DataError, match="came with another fairdp or other libraries"):
        _guarded(pytest.fail, 1, "task", "there")


@pytest.mark.parametrize(
    ("raised", "kind", "words"),
    [
        (KilledWorker("task", None, 3), OSError, "4 workers died at the same task, perhaps because memory ran out"),
        (RuntimeError("Error during deserialization of the task graph"), DataError, "cannot load this fairdp"),
        (RuntimeError("of a training"), RuntimeError, "of a training"),
    ],
)
def test_what_becomes_of_a_cluster_is_said_in_one_line(raised, kind, words):
    with pytest.raises(kind, match=words) as caught, _in_one_line("tcp://127.0.0.1:9"):
        raise raised
    assert "\n" not in str(caught.value)
