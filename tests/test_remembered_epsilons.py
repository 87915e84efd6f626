"""What tests remember is what is computed, under a name that says all it depends on."""

import numpy as np
import pytest

import remembered_epsilons
from fairdp.accounting import mechanisms

ARGUMENTS = (0.2, 3.0, 20, 1e-5, "pld")


def test_what_is_remembered_is_what_is_computed(tmp_path):
    found = [remembered_epsilons.remembering(tmp_path)(*ARGUMENTS) for _ in range(2)]
    assert found == [remembered_epsilons.ORIGINAL(*ARGUMENTS)] * 2


def test_nothing_is_computed_twice_and_other_arguments_are(tmp_path):
    asked = []

    def counted(*arguments):
        asked.append(arguments)
        return float(len(asked))

    # Two workers have a function each and the folder in common.
    here, there = (remembered_epsilons.remembering(tmp_path, counted) for _ in range(2))
    assert (here(0.1, "pld"), there(0.1, "pld"), there(np.nextafter(0.1, 1), "pld")) == (1.0, 1.0, 2.0)
    assert len(asked) == 2


def test_other_code_or_versions_know_nothing(tmp_path, monkeypatch):
    remembered_epsilons.remembering(tmp_path)(*ARGUMENTS)
    monkeypatch.setattr(remembered_epsilons, "version", lambda name: "another")
    remembered_epsilons.remembering(tmp_path)
    assert sorted(len(list(folder.iterdir())) for folder in tmp_path.iterdir()) == [0, 1]


@pytest.mark.usefixtures("real_accounting")
def test_tests_of_accounting_read_no_file():
    assert mechanisms._sampled_gaussian_epsilon is remembered_epsilons.ORIGINAL
