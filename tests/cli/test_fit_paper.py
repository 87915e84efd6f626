"""`fairdp fit --paper`: the paper's settings, typed or not."""

import json

import pytest

ONE = ("--certify-metrics", "demographic_parity")
SHORT = ("fit", "--dataset", "synthetic", "--n-steps", 12, "--seed", 0, *ONE)
TYPED = (
    *("--method", "fairdp", "--optimizer", "adam", "--learning-rate", ".007,.005", "--accountant", "rdp"),
    *("--n-members", 10, "--weight-bound", 0.75, "--sample-rate", 0.01, "--clip-norm", 1, "--hidden", 32),
    *("--noise-allocation", "per_group", "--sgd-learning-rate", 0.005, "--group-optimizers", "--no-bias"),
)


def without_time(out):
    return {name: value for name, value in json.loads(out).items() if name != "seconds"}


def test_it_is_what_one_would_type(run):
    short = run(*SHORT, "--paper", "--json")
    assert without_time(short.out) == without_time(run(*SHORT, *TYPED, "--json").out)
    # What the user typed is not among the settings that are said to be ours.
    assert "--weight-bound 0.75, --sample-rate 0.01, --clip-norm 1, --hidden 32" in short.err
    assert "--n-steps" not in short.err
    assert without_time(run(*SHORT, "--json").out)["method"] != "fairdp"


def test_what_the_paper_varies_may_be_chosen(run):
    asked = ("--epsilon", 2, "--weight-bound", 0.25, "--no-group-optimizers", "--group-sizes", "public")
    asked += ("--certify-fraction", 0)
    report = json.loads(run(*SHORT, "--paper", *asked, "--json").out)
    assert (report["method"], report["privacy"]["accountant"]) == ("fairdp", "rdp")
    assert 1.9 <= report["privacy"]["epsilon_rdp"] <= 2
    assert not report["certificate"]["certified"]


@pytest.mark.parametrize(
    "contradicting",
    [("--method", "dpsgd"), ("--bias",), ("--accountant", "pld"), ("--learning-rate", ".01")],
    ids=" ".join,
)
def test_what_it_states_may_not_be_contradicted(refused, tmp_path, contradicting):
    refused(*SHORT, "--paper", *contradicting, "--out", tmp_path / "model")


def test_a_table_is_trained_on_too(run, tmp_path):
    from cli_cases import people

    people(2_000).to_csv(tmp_path / "people.csv", index=False)
    columns = ("--label", "y", "--sensitive", "sex", "--sample-rate", 0.1, "--n-steps", 5, "--seed", 0)
    report = json.loads(run("fit", tmp_path / "people.csv", *columns, "--paper", "--json").out)
    assert (report["method"], report["privacy"]["sample_rate"]) == ("fairdp", 0.1)
