"""Messages name the flags that a user typed, and leave all other words as they are."""

import re

import pytest

from fairdp.cli import fairdp
from fairdp.cli.terminal import in_flags
from fairdp.errors import DataError, ParameterError

FIT = fairdp.every_command()["fit"]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ParameterError("n_steps", 0, "must be at least 1"), "--n-steps must be at least 1, got 0."),
        (
            ParameterError("n_looks", 3, "needs `require_tau`: the bound at whose breach training ends"),
            "--looks=3 needs --require-tau: the bound at whose breach training ends.",
        ),
        (ParameterError("random_state", -1, "must be at least 0"), "--seed must be at least 0, got -1."),
        (DataError("`table` has no rows; use `sample_rate` of 1."), "TABLE has no rows; use --sample-rate of 1."),
        (ParameterError("module", 1, "cannot be called"), "module=1 cannot be called."),
    ],
)
def test_parameters_become_what_is_typed(error, message):
    assert in_flags(error, FIT) == message


def test_words_that_are_no_parameters_stay():
    message = "the table has no column 'n_steps' but label, n_steps=, epsilon and sample_rate."
    assert in_flags(DataError(message), FIT) == message


def test_only_options_of_the_command_are_flags():
    error = ParameterError("positive_rate", 2, "must be in (0, 1)", "Use `predictor`.")
    assert in_flags(error, fairdp.every_command()["plan"]) == "--positive-rate must be in (0, 1), got 2. Use predictor."


@pytest.mark.parametrize("name", fairdp.every_command())
def test_help_names_only_flags_that_the_command_takes(name):
    command = fairdp.every_command()[name]
    mentioned = re.findall(r"--[a-z][a-z-]*", " ".join(getattr(param, "help", None) or "" for param in command.params))
    assert set(mentioned) <= {flag for param in command.params for flag in (*param.opts, *param.secondary_opts)}
