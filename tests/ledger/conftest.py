"""Commands that must end with a code, for the tests of what they spend."""

import pytest

from fairdp.cli import main


@pytest.fixture
def run(capsys):
    """A command in this process: what it prints, or what it says on stderr if it must fail."""

    def call(*arguments, code: int = 0):
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert stop.value.code == code, err
        return out if code == 0 else err

    return call
