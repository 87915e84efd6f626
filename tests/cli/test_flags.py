"""Messages name the flags that a user typed, and leave all other words as they are."""

import pytest

from fairdp.cli import fairdp
from fairdp.cli.flags import with_flags

FIT = fairdp.commands["fit"]


@pytest.mark.parametrize(
    ("message", "translated"),
    [
        ("n_steps must be at least 1, got 0.", "--n-steps must be at least 1, got 0."),
        ("epsilon must be positive.", "--epsilon must be positive."),
        ("n_looks=3 needs require_tau: the bound.", "--looks=3 needs --require-tau: the bound."),
        ("resume needs a checkpoint file.", "--resume needs a checkpoint file."),
        ("label is 'y', but the schema says 'z'.", "--label is 'y', but the schema says 'z'."),
        (
            "the recipe's rate; use sample_rate of 1 or n_steps.",
            "the recipe's rate; use --sample-rate of 1 or --n-steps.",
        ),
        ("none, because (certify_fraction=0).", "none, because (--certify-fraction=0)."),
    ],
)
def test_parameters_become_flags(message, translated):
    assert with_flags(message, FIT) == translated


@pytest.mark.parametrize(
    "message",
    [
        "a model of the method needs a label; every seed must be new.",
        "the table has no column 'sample_rate'; did you mean \"n_steps=\"?",
        "the table has no column 'x'; it has age, sample_rate, n_steps, y.",
        "schema 'fit.yaml': label must be one word.",
        "table 'n_steps.csv' or n_steps.csv or data/n_steps or n_steps/data is no table.",
        "--n-steps and sample_rates and group_codes must be right.",
        "label 'y' has 3 values; fairdp needs two.",
    ],
)
def test_words_that_are_no_parameters_stay(message):
    assert with_flags(message, FIT) == message


def test_only_options_of_the_command_are_flags():
    message = "positive_rate must be in (0, 1); use n_looks."
    assert with_flags(message, fairdp.commands["plan"]) == "--positive-rate must be in (0, 1); use n_looks."
