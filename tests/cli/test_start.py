"""Start-up time: help and plans must not wait for libraries they do not use."""

import json
import os
import resource
import subprocess
import sys

import pytest

from cli_cases import people

PLAN = ("plan", "--epsilon", "1", "--group-sizes", "10771,21790")
SLOW = {"torch", "pandas", "sklearn"}
HEAVY = SLOW | {"numpy", "dp_accounting", "matplotlib", "pyarrow", "scipy"}
REPORT_MODULES = """
import atexit, json, sys
atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))
from fairdp.cli import main
main()
"""


def started(*arguments: str) -> tuple[float, set[str]]:
    """CPU time of one call, children of this process only, and the modules that it loads."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = subprocess.run([sys.executable, "-c", REPORT_MODULES, *arguments], capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert run.returncode == 0, run.stderr
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, set(json.loads(run.stderr.splitlines()[-1]))


@pytest.mark.parametrize(
    ("arguments", "unused", "limit"),
    [
        (("--help",), HEAVY, 0.5),
        # Its defaults are read where methods and their accounting are, which needs numpy and nothing else.
        (("fit", "--help"), HEAVY - {"numpy"}, 0.5),
        (("--version",), HEAVY, 0.5),
        (("methods",), {*SLOW, "dp_accounting"}, 3),
        (("data", "list"), {*SLOW, "dp_accounting"}, 3),
        (PLAN, SLOW, 3),
    ],
    ids=["help", "help of fit", "version", "methods", "data", "plan"],
)
def test_a_start_loads_no_library_that_it_does_not_use_and_takes_little_cpu(arguments, unused, limit):
    """Tried again where it takes longer: a processor may be busy with other things."""
    for _ in range(3):
        seconds, loaded = started(*arguments)
        assert not loaded & unused
        # Negative control: what is loaded is seen.
        assert ("dp_accounting" in loaded) == (arguments == PLAN)
        if seconds < limit:
            return
    raise AssertionError(f"{seconds} seconds of CPU")


def test_a_schema_is_proposed_without_what_models_need(tmp_path):
    people().to_csv(tmp_path / "people.csv", index=False)
    _, loaded = started("schema", str(tmp_path / "people.csv"), "--label", "y", "--sensitive", "sex")
    assert "pandas" in loaded
    assert not loaded & {"torch", "sklearn", "dp_accounting"}


def test_the_shell_is_told_what_could_follow():
    asked = {"COMP_WORDS": "fairdp fit --max-g", "COMP_CWORD": "2", "_FAIRDP_COMPLETE": "bash_complete"}
    command = [sys.executable, "-m", "fairdp"]
    answer = subprocess.run(command, env={**os.environ, **asked}, capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["plain,--max-gap"]
    script = {**os.environ, "_FAIRDP_COMPLETE": "bash_source"}
    assert "complete -o" in subprocess.run(command, env=script, capture_output=True, text=True, check=True).stdout
