"""A table whose columns nobody declared: paid for before it is read, once, and no more than its model says."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fairdp.accounting.mechanisms import PrivacyBudget, reading_epsilon, reading_for
from fairdp.data import infer
from fairdp.ledger.costs import (
    AnyRelease,
    PureRelease,
    composed,
    loss_of,
    reading_cost,
    renyi_divergence,
    reserved_cost,
)
from fairdp.ledger.ledger import Ledger, Receipt, ledger_path
from fairdp.ledger.store import Limit
from fairdp.releases import watching
from fairdp.run.checkpoint import CheckpointWriter
from ledger_cases import claim, people
from private_schema_cases import naming_table

N_ROWS = 3000
SHORT = ("--label", "paid", "--sensitive", "sex", "--certify-metrics", "demographic_parity", "--sample-rate", "0.1")
SHORT += ("--method", "dpsgd", "--n-steps", "5", "--epsilon", "4")
READING = reading_for(PrivacyBudget(epsilon=1.0, delta=1e-5), 4)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    naming_table(N_ROWS).to_csv("people.csv", index=False)


def entries():
    with Ledger(ledger_path()) as ledger:
        return ledger.entries()


def test_all_that_may_be_spent_is_written_before_anything_is_released(run, monkeypatch):
    seen = []

    def released(*arguments, **options):
        (entry,) = entries()
        seen.append(entry)
        raise KeyboardInterrupt

    monkeypatch.setattr("fairdp.run.fit.released_tally", released)
    run("fit", "people.csv", *SHORT, "--out", "model", code=130)
    (entry,) = seen
    # A crash leaves the whole of it spent, on all records of the table.
    assert entries() == seen
    assert (entry.cost.epsilon, entry.cost.delta, entry.table) == (4.0, 1e-5, "people.csv")
    assert [type(mechanism) for mechanism in entry.cost.mechanisms] == [AnyRelease]
    assert max(view.n_records for view in entry.views.values()) == N_ROWS
    assert not Path("model").exists()


def test_a_fit_comes_to_cost_what_its_model_says(run):
    answer = json.loads(run("fit", "people.csv", *SHORT, "--out", "model", "--json"))
    (entry,) = entries()
    privacy = json.loads(Path("model/privacy.json").read_text())
    assert entry.state == "completed"
    # Encoded by a schema that there was not yet when the entry was written.
    assert entry.views["encoded"].n_records == answer["n_train"] + answer["n_certify"]
    assert json.loads(run("ledger", "check", "model", "--json"))["whole"]
    assert entry.cost.epsilon == privacy["epsilon"] == answer["privacy"]["epsilon"] <= 4
    readings = {mechanism.reading for mechanism in entry.cost.mechanisms}
    assert readings == {reading_for(PrivacyBudget(epsilon=4.0, delta=1e-5), 11)}
    assert privacy["reading"]["n_columns"] == 11
    # A record that is held out pays for the reading and for its counts, no more than one that is trained on.
    held_out = [mechanism for mechanism in entry.cost.mechanisms if isinstance(mechanism, PureRelease)]
    assert held_out
    for mechanism in held_out:
        assert mechanism.epsilon + reading_epsilon(mechanism.reading, 1e-5) <= privacy["epsilon"] * (1 + 1e-9)
    assert json.loads(run("ledger", "list", "--json"))["entries"][0]["epsilon"] == entry.cost.epsilon


def test_what_was_refused_after_reading_has_spent_the_reading_alone(run):
    error = run("fit", "people.csv", *("--label", "paid", "--sensitive", "name", "--epsilon", "4"), code=2)
    assert "protected column 'name'" in error
    (entry,) = entries()
    reading = reading_for(PrivacyBudget(epsilon=4.0, delta=1e-5), 11)
    assert entry.cost == reading_cost(reading, 1e-5, "people.csv")
    assert entry.cost.epsilon == reading_epsilon(reading, 1e-5) < 1.3


def test_what_fails_after_training_has_spent_all_that_was_planned(run, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fairdp.fitting.write_model", full)
    assert "No space left" in run("fit", "people.csv", *SHORT, "--out", "model", code=2)
    (entry,) = entries()
    assert entry.state == "spent"
    assert entry.cost.epsilon > 3.9


def test_what_can_be_refused_before_costs_nothing(run):
    frame = naming_table(N_ROWS)
    frame.loc[5, "sex"] = ""
    frame.to_csv("holes.csv", index=False)
    assert "missing values, the first in row 6" in run("fit", "holes.csv", *SHORT, code=2)
    assert "no column 'paied'" in run("fit", "people.csv", "--label", "paied", "--sensitive", "sex", code=2)
    assert "would pass the limit of 3" in run("fit", "people.csv", *SHORT, "--budget", 3, code=2)
    follows = ("--label", "paid", "--sensitive", "sex", "--method", "dpsgd", "--noise-multiplier", 2, "--n-steps", 9)
    assert "declare them in a schema" in run("fit", "people.csv", *follows, code=2)
    # Moments, which account for a δ as small as this, find no ε below some number, however much noise there is.
    tiny = (*SHORT[:-1], ".01", "--delta", "1e-10")
    assert "is less than reading the columns of the table takes" in run("fit", "people.csv", *tiny, code=2)
    wrong = {
        "--positive must be a value of label 'paid'": ("--positive", "perhaps"),
        "--clip-norm must": ("--clip-norm", "inf"),
        "give --checkpoint": ("--resume",),
        "is named twice": ("--sensitive", "paid"),
    }
    for words, options in wrong.items():
        assert words in run("fit", "people.csv", *SHORT, *options, code=2)
    assert entries() == []


def test_a_positive_decision_that_nobody_said_costs_nothing(run):
    frame = naming_table(N_ROWS)
    frame["paid"] = frame["paid"].map({"yes": "good", "no": "bad"})
    frame.to_csv("words.csv", index=False)
    assert "'bad' or 'good'? Say it with --positive." in run("fit", "words.csv", *SHORT, code=2)
    # A third value, which noise would hide, is no reason to pay.
    frame.loc[0, "paid"] = "yes"
    frame.to_csv("words.csv", index=False)
    assert "'bad', 'good', 'yes'? Say it with --positive." in run("fit", "words.csv", *SHORT, code=2)
    assert entries() == []


def test_a_resumed_run_reads_nothing_again(run, monkeypatch):
    write = CheckpointWriter.write_if_due

    def interrupted(writer, state):
        write(writer, state)
        if state.step == 2:
            raise KeyboardInterrupt

    command = ("fit", "people.csv", *SHORT, "--checkpoint", "run", "--out", "model")
    with monkeypatch.context() as patched:
        patched.setattr(CheckpointWriter, "write_if_due", interrupted)
        run(*command, code=130)
    kept = Path("run.schema")
    schema = kept.read_bytes()
    assert kept.stat().st_mode & 0o777 == 0o600
    kept.unlink()
    assert "what was read of the table is not in 'run.schema'" in run(*command, "--resume", code=2)
    kept.write_bytes(schema)
    seen = []
    with watching(lambda release: seen.append(release.purpose) or release.noisy):
        answer = json.loads(run(*command, "--resume", "--json"))
    assert "gradient" in seen
    assert infer.PURPOSE not in seen
    assert answer["ledger"]["entry"] == 1
    assert [entry.state for entry in entries()] == ["completed"]
    assert json.loads(Path("model/model.json").read_text())["feature_schema"] == json.loads(schema)["schema"]
    assert not list(Path().glob("run*"))
    run("verify", "model")


def test_a_search_reads_once_and_says_so(run):
    command = ("tune", "people.csv", *SHORT[:-2], "--epsilon", 8, "--grid", "learning_rate=.1,.5", "--seed", 2)
    seen = []
    with watching(lambda release: seen.append(release.purpose) or release.noisy):
        run(*command, "--trials", 2, "--out", "model")
    assert seen.count(infer.PURPOSE) == 3
    privacy = json.loads(Path("model/privacy.json").read_text())
    assert privacy["reading"] == privacy["selection"]["reading"]
    assert {mechanism["reading"] for mechanism in privacy["mechanisms"].values()} == {None}
    (entry,) = entries()
    assert entry.cost.epsilon == privacy["epsilon"] <= 8
    run("verify", "model")


def test_an_entry_never_comes_to_cost_more(tmp_path):
    with Ledger(tmp_path / "l.sqlite") as ledger:
        entry = ledger.spend(claim(ledger, reserved_cost(1.0, 1e-5, "loans"), people(*range(5))))
        receipt = Receipt(entry=entry.number, token=entry.token)
        cost = reading_cost(READING, 1e-5, "loans")
        for more in (replace(cost, epsilon=1.01), replace(cost, delta=2e-5)):
            with pytest.raises(ValueError, match="cannot come to cost more"):
                ledger.refine(receipt, more)
        assert ledger.refine(receipt, cost).cost == cost
        assert [each.cost for each in ledger.entries()] == [cost]
        ledger.complete(receipt)
        with pytest.raises(ValueError, match="cannot come to cost more"):
            ledger.refine(receipt, cost)
        assert ledger.check() == 1


def test_readings_are_composed_by_their_losses():
    costs = [reading_cost(READING, 1e-5, "loans")] * 3
    total = composed(costs)
    width = 1e-4
    by_hand = loss_of(PureRelease(epsilon=0.0, reading=READING), 0.0, 1e-5, width).self_compose(3)
    assert total.epsilon == pytest.approx(by_hand.get_epsilon_for_delta(3e-5))
    assert total.epsilon < 0.7 * total.epsilon_sum


def test_a_filter_at_an_order_takes_no_reading(run):
    assert renyi_divergence(PureRelease(epsilon=0.5, reading=READING), 8) == float("inf")
    assert renyi_divergence(AnyRelease(epsilon=1.0, delta=1e-5), 8) == float("inf")
    with Ledger(ledger_path()) as ledger:
        ledger.set_limit(Limit(table="people.csv", epsilon=50.0, delta=1e-4, order=8))
    assert "Renyi filter at order 8" in run("fit", "people.csv", *SHORT, code=2)


def test_a_named_data_set_is_not_read(run):
    seen = []
    with watching(lambda release: seen.append(release.purpose) or release.noisy):
        run("fit", "--dataset", "synthetic", "--method", "dpsgd", "--n-steps", 2, "--certify-fraction", 0)
    assert infer.PURPOSE not in seen


def test_a_model_that_is_not_private_reads_the_rows_as_they_stand_and_says_so(run):
    frame = naming_table(600)
    frame[frame["sex"].isin(["man", "woman"])].to_csv("people.csv", index=False)
    answer = json.loads(run("fit", "people.csv", *SHORT[:-6], "--method", "clean", "--n-steps", 2, "--json"))
    assert any("count as public" in line for line in answer["warnings"])
