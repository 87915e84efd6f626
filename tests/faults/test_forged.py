"""A sample of the forgeries and damages, and the negative controls that show that a failure is counted."""

import os
import signal
import time

import pytest

from faults import flips, forged, trials
from faults.trials import MEMORY_LIMIT, Trials, complaints, run_cases


@pytest.mark.more
def test_a_sample_of_forgeries_is_refused_in_one_line(tmp_path):
    done = forged.forged(tmp_path, 80)
    assert (done.failures, done.n >= 75) == ((), True)
    assert done.slowest < trials.CPU_LIMIT
    assert done.peak_bytes < MEMORY_LIMIT
    assert done.n_by_code[2] > done.n_by_code.get(0, 0)


@pytest.mark.more
def test_that_sample_counts_a_crash(tmp_path):
    assert len(forged.with_a_crash(tmp_path, 5).failures) == 5


@pytest.mark.more
def test_a_sample_of_flips_and_cuts_is_refused(tmp_path):
    done = flips.flips(tmp_path, stride=10)
    assert (done.failures, done.n_by_code.keys()) == ((), {2})


@pytest.mark.more
def test_that_sample_counts_flips_that_go_unnoticed(tmp_path):
    assert flips.without_a_checksum(tmp_path, stride=10).failures


def ended(*cases) -> Trials:
    """Trials of cases by their number."""
    return lambda place: run_cases([str(i) for i in range(len(cases))], lambda name: cases[int(name)], place, batch=3)


def fine(here, run):
    return []


def hangs(here, run):
    start = time.process_time()
    while time.process_time() - start < 20 * trials.CPU_LIMIT:
        pass
    return []


def dies(here, run):
    os.kill(os.getpid(), signal.SIGKILL)
    return []


def takes_much(here, run):
    bytearray(2 * MEMORY_LIMIT)
    return []


def holds_much(here, run):
    return [] if len(b"x" * 2**28) else ["nothing"]


def test_a_case_that_dies_hangs_or_takes_much_is_counted_and_the_others_run(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(trials, "CPU_LIMIT", 0.5)
    done = ended(fine, dies, fine, takes_much, fine, hangs, fine, fine)(tmp_path)
    assert done.failures == ("1: SIGKILL", "3: the case itself", "5: over 0.5 s")
    assert (done.n, done.good) == (8, False)
    assert "MemoryError" in capfd.readouterr().err


def test_memory_is_measured(tmp_path):
    assert ended(fine)(tmp_path).peak_bytes < 2**27 < ended(holds_much)(tmp_path).peak_bytes < MEMORY_LIMIT


@pytest.mark.parametrize(
    ("code", "said", "wrong"),
    [
        (0, "", ""),
        (2, "fairdp: no.\n", ""),
        (2, "warning: so.\nfairdp: no.\n", ""),
        (3, "fairdp: internal error\n", "exit 3"),
        (-11, "", "exit -11"),
        (2, "", "not one line"),
        (2, "fairdp: no.\nfairdp: no.\n", "not one line"),
        (2, "Traceback\n", "not one line"),
        (2, f"fairdp: {'x' * 5000}\n", "5008 characters"),
        (2, "fairdp: there is not enough memory.\n", "memory"),
    ],
)
def test_what_is_complained_about(code, said, wrong):
    found = complaints(code, said)
    assert wrong in "".join(found)
    assert bool(found) == bool(wrong)


def test_a_case_is_the_same_by_its_name(tmp_path):
    for kind in ("schemas", "tables"):
        assert f"{kind}: 0" in forged.names_of(100)
    assert len(forged.names_of(10_000)) == 10_000
