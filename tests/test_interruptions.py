"""Fits that are ended in mid-course: what is left, and that they continue."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fairdp.run.checkpoint import read_checkpoint

N_STEPS = 2500


def start(*arguments) -> subprocess.Popen:
    """A run of its own process; one thread, so that sums are added in the same order every time."""
    settings = [
        "fit",
        "--dataset",
        "synthetic",
        "--method",
        "fairdp",
        "--n-steps",
        N_STEPS,
        "--sample-rate",
        0.05,
        "--json",
        *arguments,
    ]
    return subprocess.Popen(
        [sys.executable, "-c", "from fairdp.cli import main; main()", *map(str, settings)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        # A shell that runs the tests in the background lets them, and so their children, ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def holds_something(path: Path) -> bool:
    """One look: a file may be gone between two."""
    try:
        return path.stat().st_size > 0
    except FileNotFoundError:
        return False


def wait_for(path: Path, process: subprocess.Popen) -> None:
    """Until there is a checkpoint: the run is then in mid-course."""
    limit = time.monotonic() + 120
    while not holds_something(path):
        assert process.poll() is None, "the run ended before it wrote a checkpoint"
        assert time.monotonic() < limit, "no checkpoint within two minutes"
        time.sleep(0.005)


def finish(process: subprocess.Popen) -> None:
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert out


@pytest.mark.more
def test_a_run_ended_by_sigkill_continues_to_the_same_file(tmp_path):
    checkpoint = tmp_path / "run.ckpt"
    whole = start("--seed", 1, "--out", tmp_path / "whole")
    killed = start("--seed", 1, "--checkpoint", checkpoint, "--out", tmp_path / "a")
    wait_for(checkpoint, killed)
    while read_checkpoint(checkpoint).record.step == 0:
        time.sleep(0.05)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    assert not (tmp_path / "a").exists()
    assert 0 < read_checkpoint(checkpoint).record.step < N_STEPS
    finish(start("--seed", 1, "--checkpoint", checkpoint, "--resume", "--out", tmp_path / "b"))
    finish(whole)
    for name in ("model.safetensors", "privacy.json", "certificate.json"):
        resumed, expected = ((tmp_path / folder / name).read_bytes() for folder in ("b", "whole"))
        assert resumed == expected, name
    # The model is safe, and the file held the state of the noise generator.
    assert not checkpoint.exists()


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [
        (signal.SIGINT, 130, "interrupted"),
        # In this process `cli/test_interruption.py` sends it every time.
        pytest.param(signal.SIGTERM, 143, "terminated", marks=pytest.mark.more),
    ],
)
def test_ctrl_c_and_sigterm_end_with_one_line_and_leave_nothing(tmp_path, number, code, word):
    checkpoint = tmp_path / "checkpoints" / "run.ckpt"
    checkpoint.parent.mkdir()
    process = start("--checkpoint", checkpoint, "--out", tmp_path / "out" / "model")
    wait_for(checkpoint, process)
    while read_checkpoint(checkpoint).record.step == 0:
        # The first one is written before the first step.
        time.sleep(0.05)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    assert out == ""
    kept = f"the run is kept in '{checkpoint}': run the same command with --resume to continue"
    assert err == f"fairdp: {word}: {kept}.\n"
    assert os.listdir(tmp_path) == ["checkpoints"]
    # What was asked for stays: the run can be continued.
    assert os.listdir(checkpoint.parent) == ["run.ckpt"]
    assert read_checkpoint(checkpoint).record.step > 0


def test_ctrl_c_while_modules_are_loaded_ends_with_one_line():
    """The import of the commands is interrupted, as by somebody who is quick."""
    program = """
import runpy, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "fairdp.cli":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupting())
runpy.run_module("fairdp", run_name="__main__")
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "fairdp: interrupted.\n")
