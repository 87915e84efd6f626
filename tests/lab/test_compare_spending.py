"""Spending of `fairdp compare` on a user's table: each training is an entry, and the reading of its columns is one."""

import json
from pathlib import Path

import pytest
import yaml

from cli_cases import SCHEMA, people
from fairdp.accounting.mechanisms import PrivacyBudget, reading_epsilon, reading_for
from fairdp.ledger.ledger import Ledger, ledger_path
from private_schema_cases import naming_table

NAMED = ("people.csv", "--label", "paid", "--sensitive", "sex")
RUNS = ("--methods", "dpsgd", "--epsilons", "4", "--workers", 1, "--grid", "n_steps=3", "--out", "compared")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    naming_table(3000).to_csv("people.csv", index=False)


def entries():
    with Ledger(ledger_path()) as ledger:
        return ledger.entries()


def test_every_training_is_an_entry_and_too_many_are_refused_before_the_first(run):
    people(1200).to_csv("loans.csv", index=False)
    Path("schema.yaml").write_text(yaml.safe_dump({**SCHEMA, "table": "loans"}))
    command = ("compare", "loans.csv", "--schema", "schema.yaml", "--methods", "clean,dpsgd", "--grid", "n_steps=3")
    command += ("--out", "compared")
    refused = run(*command, "--epsilons", ".5,1", "--seeds", 2, "--budget", 2.5, "--workers", 1)
    assert refused.code == 2
    assert "epsilon 3 would pass the limit of 2.5 on table 'loans'" in refused.err
    assert entries() == []
    assert run(*command, "--epsilons", ".5", "--seeds", 2, "--budget", 2.5, "--workers", 1).code == 0
    found = entries()
    assert [(entry.command, entry.state, entry.table) for entry in found] == [("compare", "completed", "loans")] * 2
    assert found[1].histories == ((1,),)
    # Those that are kept from before are not paid for again.
    assert run(*command, "--epsilons", ".5", "--seeds", 3, "--no-ledger", "--workers", 1).code == 0
    assert run(*command, "--epsilons", ".5", "--seeds", 3, "--workers", 1).code == 0
    assert len(entries()) == 2


def test_columns_are_read_once_and_paid_for_beside_the_trainings(run):
    told = run("compare", *NAMED, *RUNS, "--seeds", 2, "--json")
    warnings = json.loads(told.out)["warnings"]
    assert any("were read from the table once, with noise, for epsilon" in line for line in warnings)
    reading, *trainings = entries()
    assert reading.cost.epsilon == reading_epsilon(reading_for(PrivacyBudget(epsilon=4.0, delta=1e-5), 11), 1e-5)
    assert len(trainings) == 2
    assert run("compare", *NAMED, *RUNS, "--seeds", 2).code == 0
    assert len(entries()) == 3
    refused = run("compare", *NAMED, *RUNS[:-1], "other", "--seeds", 2, "--budget", 9)
    assert (refused.code, "would pass the limit of 9" in refused.err) == (2, True)
    assert len(entries()) == 3


def test_a_table_is_read_as_the_options_say_it_is_written(run):
    naming_table(3000).to_csv("people.csv", index=False, sep=";")
    assert run("compare", *NAMED, "--sep", ";", *RUNS, "--seeds", 1).code == 0
    assert len(entries()) == 2
    assert json.loads(Path("compared/schema.json").read_text())["format"] == {"sep": ";"}
