"""Ctrl-C in `fairdp fit`: one line says what is kept and how to go on."""

import os
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from fairdp.commands import fit

FIT = ("fit", "--dataset", "synthetic")
NOTHING = "no model was written"


def leaving(*paths):
    """A run that writes something and is then interrupted."""

    def interrupted(task):
        for path in paths:
            path.parent.mkdir(exist_ok=True)
            path.write_text("something")
        raise KeyboardInterrupt

    return interrupted


def line_of(run, monkeypatch, interrupted, *arguments):
    monkeypatch.setattr(fit, "run_fit", interrupted)
    result = run(*FIT, *arguments)
    assert (result.code, result.out) == (130, "")
    assert result.err.startswith("fairdp: interrupted: ")
    return result.err.removeprefix("fairdp: interrupted: ")


def test_without_a_checkpoint_nothing_is_written(run, monkeypatch):
    line = line_of(run, monkeypatch, leaving())
    assert line == f"{NOTHING}; with --checkpoint FILE a run can be continued.\n"


def test_before_the_first_checkpoint_nothing_is_written(run, monkeypatch, tmp_path):
    assert line_of(run, monkeypatch, leaving(), "--checkpoint", tmp_path / "run.ckpt") == f"{NOTHING}.\n"


def test_a_file_that_is_not_of_this_run_is_not_called_kept(run, monkeypatch, tmp_path):
    (tmp_path / "run.ckpt").write_text("of another run")
    assert line_of(run, monkeypatch, leaving(), "--checkpoint", tmp_path / "run.ckpt") == f"{NOTHING}.\n"


@pytest.mark.parametrize("resume", [(), ("--resume",)])
def test_a_checkpoint_is_named_with_the_flag_that_continues_it(run, monkeypatch, tmp_path, resume):
    path = tmp_path / "run.ckpt"
    if resume:
        path.write_text("as far as it came")
    line = line_of(run, monkeypatch, leaving(*() if resume else (path,)), "--checkpoint", path, *resume)
    assert line == f"the run is kept in '{path}': run the same command with --resume to continue.\n"


def test_a_model_that_is_complete_is_not_denied(run, monkeypatch, tmp_path):
    line = line_of(run, monkeypatch, leaving(tmp_path / "m" / "model.json"), "--out", tmp_path / "m")
    assert line == f"the model had just been written to '{tmp_path / 'm'}'.\n"


def test_a_terminated_run_says_so_with_a_code_of_its_own(run, monkeypatch):
    def terminated(task):
        signal.raise_signal(signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(fit, "run_fit", terminated)
    result = run(*FIT)
    assert (result.code, result.out) == (143, "")
    assert result.err == f"fairdp: terminated: {NOTHING}; with --checkpoint FILE a run can be continued.\n"
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_second_signal_does_not_cut_the_clearing_up_short(run, monkeypatch, tmp_path):
    def terminated(task):
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            signal.raise_signal(signal.SIGTERM)
            (tmp_path / "cleared").touch()

    monkeypatch.setattr(fit, "run_fit", terminated)
    assert run(*FIT).code == 143
    assert (tmp_path / "cleared").exists()


def test_an_error_that_a_signal_has_led_to_is_no_fault_of_the_program(run, monkeypatch):
    """Cut off by a signal, an import may fail in words of its own when it is tried again."""

    def terminated(task):
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        raise ImportError("is already registered")

    monkeypatch.setattr(fit, "run_fit", terminated)
    result = run(*FIT)
    assert (result.code, result.err) == (143, "fairdp: terminated: no file was left half-written.\n")
    monkeypatch.setattr(fit, "run_fit", lambda task: 1 / 0)
    assert run(*FIT).code == 3


def test_a_reader_who_has_seen_enough_is_no_failure_and_hides_no_miss():
    """`fairdp fit … | head -1`: rich ends the program there, with a code that says that a target was missed."""
    command = [sys.executable, "-m", "fairdp", *FIT, "--n-steps", "5", "--seed", "0", "--epsilon", "1"]
    for more, code in (([], 0), (["--require-tau", "0.0001"], 1)):
        with subprocess.Popen([*command, *more], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            process.stdout.readline()
            process.stdout.close()
            assert process.wait() == code


def test_whoever_no_longer_reads_the_notes_ends_no_run(tmp_path):
    """`fairdp fit … 2>&1 | true`: what was begun, and is paid for, is written."""
    command = [sys.executable, "-m", "fairdp", *FIT, "--n-steps", "5", "--seed", "0", "--out", str(tmp_path / "model")]
    reading, writing = os.pipe()
    os.close(reading)
    with subprocess.Popen(command, stdout=writing, stderr=writing) as process:
        os.close(writing)
    assert process.returncode == 0
    assert (tmp_path / "model" / "model.json").exists()
