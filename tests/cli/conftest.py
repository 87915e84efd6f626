"""Commands as users type them, in this process."""

import json
from types import SimpleNamespace

import pytest

from fairdp.cli import main


@pytest.fixture
def run(capsys):
    """A command in this process: exit code, stdout, stderr, and what it says there of the ledger."""

    def call(*arguments):
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        lines = err.splitlines(keepends=True)
        ledger = "".join(line for line in lines if line.startswith("ledger: "))
        others = "".join(line for line in lines if not line.startswith("ledger: "))
        return SimpleNamespace(code=stop.value.code, out=out, err=others, ledger=ledger)

    return call


@pytest.fixture
def answer(run):
    """The one JSON object of a command that must succeed without a word on stderr but of small groups and odd cells."""

    def call(*arguments):
        result = run(*arguments, "--json")
        said = [line for line in result.err.splitlines() if not line.startswith(("before training: ", "column '"))]
        assert (result.code, said) == (0, [])
        return json.loads(result.out, parse_constant=pytest.fail)

    return call
