"""How fast the program starts: help and plans must not wait for libraries they do not use."""

import json
import os
import resource
import subprocess
import sys

import pytest

HEAVY = {"torch", "pandas", "sklearn", "dp_accounting", "matplotlib", "pyarrow", "scipy"}
PLAN = ("plan", "--epsilon", "1", "--group-sizes", "10771,21790")
REPORT_MODULES = """
import atexit, json, sys
atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))
from fairdp.cli import main
main()
"""


def modules_loaded_by(*arguments: str) -> set[str]:
    run = subprocess.run([sys.executable, "-c", REPORT_MODULES, *arguments], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return set(json.loads(run.stderr.splitlines()[-1]))


def cpu_seconds(*arguments: str) -> float:
    """CPU time of one call, children of this process only: what the machine does meanwhile does not count."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", "from fairdp.cli import main; main()", *arguments]
    subprocess.run(command, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize("arguments", [("--help",), ("fit", "--help"), ("--version",)], ids=" ".join)
def test_help_loads_no_heavy_library(arguments):
    assert not modules_loaded_by(*arguments) & {*HEAVY, "numpy"}


@pytest.mark.parametrize("arguments", [("methods",), ("data", "list")], ids=" ".join)
def test_catalogues_load_neither_torch_nor_pandas(arguments):
    assert not modules_loaded_by(*arguments) & {"torch", "pandas", "sklearn", "dp_accounting"}


def test_a_plan_does_not_load_torch():
    loaded = modules_loaded_by(*PLAN)
    assert not loaded & {"torch", "pandas", "sklearn"}
    # The twin: the check sees what is loaded.
    assert "dp_accounting" in loaded


@pytest.mark.parametrize("arguments", [("--help",), ("fit", "--help")], ids=" ".join)
def test_help_takes_less_than_half_a_second_of_cpu(arguments):
    assert min(cpu_seconds(*arguments) for _ in range(3)) < 0.5


def test_a_plan_takes_less_than_three_seconds_of_cpu():
    assert min(cpu_seconds(*PLAN) for _ in range(2)) < 3


def test_the_shell_is_told_what_could_follow():
    asked = {"COMP_WORDS": "fairdp fit --max-g", "COMP_CWORD": "2", "_FAIRDP_COMPLETE": "bash_complete"}
    command = [sys.executable, "-m", "fairdp"]
    answer = subprocess.run(command, env={**os.environ, **asked}, capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["plain,--max-gap"]
    script = {**os.environ, "_FAIRDP_COMPLETE": "bash_source"}
    assert "complete -o" in subprocess.run(command, env=script, capture_output=True, text=True, check=True).stdout
