"""Ctrl-C in `fairdp fit`: one line says what is kept and how to go on."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from cli_cases import SCHEMA, people
from fairdp import fitting
from pool import SHORT

FIT = ("fit", "--dataset", "synthetic")
ONE = ("--certify-metrics", "demographic_parity")
UNCERTIFIED = ("--method", "dpsgd", "--certify-fraction", "0")
NOTHING = "no model was written"


CKPT, MODEL = Path("run.ckpt"), Path("m/model.json")
GO_ON = "the run is kept in 'run.ckpt': run the same command with --resume to continue"


@pytest.mark.parametrize(
    ("before", "written", "options", "line"),
    [
        ((), (), (), f"{NOTHING}; with --checkpoint FILE a run can be continued.\n"),
        ((), (), ("--checkpoint", CKPT), f"{NOTHING}.\n"),
        ((CKPT,), (), ("--checkpoint", CKPT), f"{NOTHING}.\n"),
        ((), (CKPT,), ("--checkpoint", CKPT), f"{GO_ON}.\n"),
        ((CKPT,), (), ("--checkpoint", CKPT, "--resume"), f"{GO_ON}.\n"),
        ((), (MODEL,), ("--out", "m"), "the model had just been written to 'm'.\n"),
    ],
    ids=["no checkpoint", "before the first", "of another run", "kept", "resumed", "complete"],
)
def test_what_is_kept_is_said_and_no_more(run, monkeypatch, tmp_path, before, written, options, line):
    monkeypatch.chdir(tmp_path)
    for path in before:
        path.write_text("something")

    def interrupted(*given, **options):
        for path in written:
            path.parent.mkdir(exist_ok=True)
            path.write_text("something")
        raise KeyboardInterrupt

    monkeypatch.setattr(fitting, "fit_source", interrupted)
    result = run(*FIT, *options)
    assert (result.code, result.out, result.err) == (130, "", f"fairdp: interrupted: {line}")


def test_a_terminated_run_says_so_with_a_code_of_its_own(run, monkeypatch):
    def terminated(*given, **options):
        signal.raise_signal(signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(fitting, "fit_source", terminated)
    result = run(*FIT)
    assert (result.code, result.out) == (143, "")
    assert result.err == f"fairdp: terminated: {NOTHING}; with --checkpoint FILE a run can be continued.\n"
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_second_signal_does_not_cut_the_clearing_up_short(run, monkeypatch, tmp_path):
    def terminated(*given, **options):
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            signal.raise_signal(signal.SIGTERM)
            (tmp_path / "cleared").touch()

    monkeypatch.setattr(fitting, "fit_source", terminated)
    assert run(*FIT).code == 143
    assert (tmp_path / "cleared").exists()


def test_an_error_that_a_signal_has_led_to_is_no_fault_of_the_program(run, monkeypatch):
    """Cut off by a signal, an import may fail in words of its own when it is tried again."""

    def terminated(*given, **options):
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        raise ImportError("is already registered")

    monkeypatch.setattr(fitting, "fit_source", terminated)
    result = run(*FIT)
    assert (result.code, result.err) == (143, "fairdp: terminated: no file was left half-written.\n")
    monkeypatch.setattr(fitting, "fit_source", lambda *given, **options: 1 / 0)
    assert run(*FIT).code == 3


@pytest.mark.parametrize("missed", [False, pytest.param(True, marks=pytest.mark.more)], ids=["met", "missed"])
def test_a_reader_who_has_seen_enough_is_no_failure_and_hides_no_miss(tmp_path, missed):
    """`fairdp fit … | head -1`: rich ends the program there, with a code that says that a target was missed."""
    people().to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "schema.yaml").write_text(yaml.safe_dump(SCHEMA))
    asked = ("fit", "people.csv", "--schema", "schema.yaml", "--no-ledger", *SHORT, *ONE)
    asked += ("--require-tau", "0.0001" if missed else "0.99")
    command = [sys.executable, "-m", "fairdp", *asked]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.wait() == missed


def test_whoever_no_longer_reads_the_notes_ends_no_run(tmp_path):
    """`fairdp fit … 2>&1 | true`: what was begun, and is paid for, is written."""
    command = [sys.executable, "-m", "fairdp", *FIT, *UNCERTIFIED, "--n-steps", "5", "--out", str(tmp_path / "model")]
    reading, writing = os.pipe()
    os.close(reading)
    with subprocess.Popen(command, stdout=writing, stderr=writing) as process:
        os.close(writing)
    assert process.returncode == 0
    assert (tmp_path / "model" / "model.json").exists()
