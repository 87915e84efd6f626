"""The commands as users type them: help, JSON, and the way from a table to decisions."""

import json
import os
import subprocess
import sys

import click
import numpy as np
import pandas as pd
import pytest
import yaml

import cli_cases
from fairdp.cli import fairdp

SETTINGS = ("--epsilon", 2, "--n-steps", 20, "--sample-rate", 0.2, "--seed", 0)
UNCERTIFIED = (*SETTINGS, "--certify-fraction", 0)
ONE = ("--certify-metrics", "demographic_parity")
PRIVACY_KEYS = {"epsilon", "delta", "epsilon_by_group", "accountant", "epsilon_rdp", "epsilon_pld", "relation"}
PRIVACY_KEYS |= {"noise_multiplier", "noise_allocation", "sample_rate", "n_steps", "clip_norm"}
METRIC_KEYS = {"auc", "accuracy", "positive_rate", "positive_rate_by_group", "demographic_parity_difference"}
METRIC_KEYS |= {"demographic_parity_ratio", "equal_opportunity_difference", "equalized_odds_difference"}
METRIC_KEYS |= {"false_positive_rate_difference"}
FIT_KEYS = {"method", "dataset", "n_train", "n_certify", "n_test", "privacy", "metrics", "certificate", "warnings"}
FIT_KEYS |= {"seconds"}
CERTIFICATE_KEYS = {"certified", "confidence", "epsilon", "counts", "statement", "estimates"}
CERTIFICATE_KEYS |= {"demographic_parity", "equal_opportunity", "equalized_odds"}
SCHEMA = {
    **cli_cases.SCHEMA,
    "label": "approved",
    "columns": [
        {"name": "age", "type": "numeric", "low": 18, "high": 90},
        {"name": "job", "type": "categorical", "categories": ["clerk", "driver, heavy", "nurse"]},
    ],
}


def loans(n_rows=1500, seed=0) -> pd.DataFrame:
    """Numbers, text with commas, dates, truth values and an identifier."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, n_rows)
    return pd.DataFrame(
        {
            "id": np.arange(n_rows),
            "age": age,
            "income": rng.lognormal(10, 0.5, n_rows).round(2),
            "job": rng.choice(["clerk", "driver, heavy", "nurse"], n_rows),
            "since": (pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 2000, n_rows), unit="D")).date,
            "owner": rng.random(n_rows) < 0.3,
            "sex": rng.choice(["f", "m"], n_rows, p=[0.4, 0.6]),
            "approved": np.where(age + rng.normal(0, 10, n_rows) > 54, "yes", "no"),
        }
    )


@pytest.fixture
def table(tmp_path):
    loans().to_csv(tmp_path / "loans.csv", index=False)
    return tmp_path / "loans.csv"


def commands_of(group: click.Group) -> dict[str, click.Command]:
    return fairdp.every_command() if group is fairdp else group.commands


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if not isinstance(command, click.Group):
        return [path]
    return [leaf for name, child in commands_of(command).items() for leaf in leaves(child, (*path, name))]


COMMANDS = leaves(fairdp)


def found(path: tuple[str, ...]) -> click.Command:
    command: click.Command = fairdp
    for name in path:
        command = commands_of(command)[name]
    return command


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_has_help_with_an_example_and_json(run, path):
    result = run(*path, "--help")
    assert result.code == 0
    assert "Example" in result.out
    assert f"fairdp {' '.join(path)}" in result.out.split("Example", 1)[1]
    assert "--json" in result.out
    assert run(*path, "-h") == result


def test_only_commands_that_draw_have_a_seed():
    seeded = [path for path in COMMANDS if any("--seed" in option.opts for option in found(path).params)]
    assert {" ".join(path) for path in seeded} == {
        "demo",
        "fit",
        "tune",
        "certify",
        "evaluate",
        "paper-bounds",
        "audit",
        "compare",
        "reproduce",
    }


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_option_is_explained(path):
    unexplained = [o.name for o in found(path).params if isinstance(o, click.Option) and not o.help]
    assert not unexplained


def test_the_program_itself_has_help_an_example_and_a_version(run):
    result = run("--help")
    assert result.code == 0
    assert "fairdp fit --dataset synthetic" in " ".join(result.out.split())
    assert all(path[0] in result.out for path in COMMANDS)
    assert run("--version").out.strip().endswith("0.1.0")


@pytest.mark.parametrize("path", [(), ("ledger",)])
def test_the_list_of_commands_cuts_no_sentence_and_follows_the_order_of_work(run, path):
    out = run(*path, "--help").out
    listed = out[out.index("Commands:" if path else "Train:") :]
    assert "..." not in listed
    places = [listed.index(f"\n  {name} ") for name in (("limit", "check") if path else ("schema", "fit", "predict"))]
    assert places == sorted(places)


def test_the_list_of_all_commands_has_a_line_for_each_under_five_headings(run):
    out = run("--help").out
    headings = [line for line in out.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert headings == ["Options:", "Train:", "Use:", "Check:", "Choose:", "Research:"]
    for name in fairdp.every_command():
        (line,) = [line for line in out.splitlines() if line.startswith(f"  {name} ")]
        assert line.rstrip().endswith((".", "?")), line


def test_a_limit_on_a_name_that_nothing_was_spent_under_is_pointed_out(run, golden, tmp_path):
    command = ("ledger", "limit", "lones.csv", "--epsilon", "3", "--ledger", str(tmp_path / "ledger.sqlite"))
    told = run(*command)
    assert told.code == 0
    golden("models", "ledger limit on an unknown table", told.out + told.err)
    limit = {"table": "lones.csv", "epsilon": 3.0, "delta": None, "order": None}
    assert json.loads(run(*command, "--json").out) == limit


def test_fit_prints_every_key_of_the_contract(answer):
    report = answer("fit", "--dataset", "synthetic", *SETTINGS)
    assert report.keys() >= FIT_KEYS
    assert report["privacy"].keys() >= PRIVACY_KEYS
    assert report["metrics"].keys() >= METRIC_KEYS
    assert report["certificate"].keys() >= CERTIFICATE_KEYS
    assert report["certificate"]["certified"] is True
    assert report["seconds"].keys() >= {"train", "certify", "total"}
    assert (report["method"], report["dataset"]) == ("fairdp_frontier", "synthetic")
    assert (report["n_train"] + report["n_certify"], report["n_test"]) == (20_000, 10_000)
    # A coin of 0.2 for each record: six standard deviations are 340.
    assert abs(report["n_certify"] - 4_000) < 340
    assert 1.9 <= report["privacy"]["epsilon"] <= 2
    assert report["privacy"]["accountant"] == "pld"
    assert report["privacy"]["relation"] == "add_or_remove_one"
    assert report["privacy"]["epsilon_by_group"].keys() == report["metrics"]["positive_rate_by_group"].keys()


@pytest.mark.parametrize("options", [ONE, ("--certify-fraction", 0)], ids=["certified", "not certified"])
def test_fit_as_text_states_the_guarantee(run, golden, options, request):
    result = run("fit", "--dataset", "synthetic", *SETTINGS, *options, "--verbose")
    assert result.code == 0
    golden("models", f"fit, verbose, {request.node.callspec.id}", result.out, figures=False)


def test_from_a_table_to_a_model_to_decisions_to_a_measurement(answer, run, refused, table, tmp_path):
    columns = ("--label", "approved", "--sensitive", "sex")
    settings = ("--epsilon", 8, "--seed", 0, "--learning-rate", "0.05", "--weight-bound", 5, *ONE)
    # Into a folder that is still to be made.
    model = tmp_path / "new" / "model"
    fitted = answer("fit", table, *columns, *settings, "--out", model)
    assert os.listdir(tmp_path / "new") == ["model"]
    assert fitted["n_train"] + fitted["n_certify"] + fitted["n_test"] == 1500
    assert fitted["metrics"]["auc"] > 0.8

    # Neither the label nor the protected column is needed for a decision.
    rows = loans(200, seed=1)
    rows.drop(columns=["approved", "sex"]).to_csv(tmp_path / "new.csv", index=False)
    predicted = answer("predict", model, tmp_path / "new.csv", "--out", tmp_path / "decisions.csv")
    decisions = pd.read_csv(tmp_path / "decisions.csv")
    assert predicted["n_rows"] == len(decisions) == 200
    assert set(decisions["decision"]) == {"no", "yes"}
    # Earlier decisions can be made again, and are replaced; nothing else is.
    again = ("predict", model, tmp_path / "new.csv", "--out")
    assert run(*again, tmp_path / "decisions.csv").code == 0
    for name in ("loans.csv", "mine.parquet"):
        (tmp_path / "mine.parquet").write_text("score,probability,decision")
        refused(*again, tmp_path / name)
    answer("predict", model, tmp_path / "new.csv", "--out", tmp_path / "said.parquet", "--reasons", 2)
    said = pd.read_parquet(tmp_path / "said.parquet")
    pd.testing.assert_frame_equal(said[["score", "probability"]], decisions[["score", "probability"]])
    assert ((said["reason_1"] != "") == (said["decision"] == "no")).all()
    assert (said["reasons_suffice"].isna() == (said["decision"] == "yes")).all()

    rows.to_csv(tmp_path / "labelled.csv", index=False)
    measured = answer("evaluate", model, tmp_path / "labelled.csv", "--seed", 0)
    agreement = (decisions["decision"] == rows["approved"]).mean()
    assert measured["metrics"]["accuracy"] == pytest.approx(agreement)
    low, high = measured["intervals"]["accuracy"]
    assert low <= agreement <= high


def test_decisions_by_group_need_the_column_and_say_their_chance(answer, refused, table, tmp_path):
    columns, target = ("--label", "approved", "--sensitive", "sex"), ("--parity", "equal_opportunity", "--max-gap", 0)
    answer("fit", table, *columns, *UNCERTIFIED, "--method", "dp_postprocess", *target, "--out", tmp_path / "model")
    rows = loans(200, seed=1)
    predict = ("predict", tmp_path / "model", tmp_path / "new.csv", "--out", tmp_path / "d.csv")
    rows.drop(columns=["approved"]).to_csv(tmp_path / "new.csv", index=False)
    assert answer(*predict)["n_rows"] == 200
    decided = pd.read_csv(tmp_path / "d.csv")
    assert list(decided) == ["score", "probability", "chance", "decision"]
    sure = decided["chance"].isin([0.0, 1.0])
    assert ((decided["chance"] == 1) == (decided["decision"] == "yes"))[sure].all()
    rows.drop(columns=["approved", "sex"]).to_csv(tmp_path / "new.csv", index=False)
    refused(*predict)


def test_a_schema_read_from_the_table_is_warned_of_and_a_declared_one_is_not(answer, run, table, tmp_path):
    columns = ("--label", "approved", "--sensitive", "sex")
    read = answer("fit", table, *columns, *UNCERTIFIED)
    assert any("read from the table with noise, which epsilon includes" in text for text in read["warnings"])
    said = run("fit", table, *columns, *UNCERTIFIED, "--verbose").out
    assert "The 8 columns of the table were read with noise" in said
    assert "reading of the columns" in said
    clean = ("--method", "clean", "--n-steps", 20, "--seed", 0)
    assert any("count as public" in text for text in answer("fit", table, *columns, *clean)["warnings"])

    (tmp_path / "schema.yaml").write_text(yaml.safe_dump(SCHEMA))
    declared = (*columns, "--schema", tmp_path / "schema.yaml")
    assert not any("read from the table" in text for text in answer("fit", table, *declared, *UNCERTIFIED)["warnings"])
    assert "Assumed public: " not in run("fit", table, *declared, *UNCERTIFIED, "--verbose").out


def test_several_protected_columns_are_intersections(answer, table):
    report = answer("fit", table, "--label", "approved", "--sensitive", "sex,owner", *SETTINGS, *ONE)
    names = report["metrics"]["positive_rate_by_group"]
    assert len(names) == 4
    assert "f & False" in names
    assert report["certificate"]["group_names"] == list(names)


@pytest.mark.parametrize("arguments", [("--method", "clean"), ("--epsilon", "inf")], ids=" ".join)
def test_a_run_without_noise_is_labelled(answer, arguments):
    report = answer("fit", "--dataset", "synthetic", *UNCERTIFIED, *arguments)
    assert report["privacy"]["epsilon"] is None
    assert any("not private" in text for text in report["warnings"])


def test_a_seed_repeats_a_run_and_no_seed_does_not(answer, table, tmp_path):
    (tmp_path / "schema.yaml").write_text(yaml.safe_dump(SCHEMA))

    def results(*seed):
        declared = ("--schema", tmp_path / "schema.yaml", "--group-sizes", "public")
        report = answer("fit", table, *declared, *SETTINGS[:-2], *ONE, *seed)
        return report["metrics"]["auc"], report["certificate"]["counts"]

    first, again, other, free = (results(*seed) for seed in (("--seed", 1), ("--seed", 1), ("--seed", 2), ()))
    assert first == again
    for another in (other, free):
        assert all(left != right for left, right in zip(first, another, strict=True))


def test_parquet_gives_the_same_model_as_csv(answer, table, tmp_path):
    pd.read_csv(table).to_parquet(tmp_path / "loans.parquet")
    columns = ("--label", "approved", "--sensitive", "sex")
    for name in ("loans.csv", "loans.parquet"):
        answer("fit", tmp_path / name, *columns, *UNCERTIFIED, "--out", tmp_path / f"{name}.model")
    first, again = ((tmp_path / f"loans.{kind}.model/model.safetensors").read_bytes() for kind in ("csv", "parquet"))
    assert first == again


def test_options_reach_the_run(answer):
    chosen = ("--clip-norm", 0.5, "--n-members", 3, "--noise-allocation", "average", "--delta", 1e-6)
    report = answer("fit", "--dataset", "synthetic", *UNCERTIFIED, *chosen, "--model", "logistic", "--method", "fairdp")
    privacy = report["privacy"]
    assert privacy["clip_norm"] == 0.5
    assert privacy["noise_allocation"] == "average"
    assert privacy["delta"] == 1e-6
    # The sizes of a named data set are published.
    assert privacy["group_sizes"] == "public"
    assert privacy["public_assumptions"] == ["published_data_set"]
    assert privacy["noise_seeded"]


def test_plan_prints_noise_and_epsilon_by_group(answer, run, golden):
    plan = ("plan", "--epsilon", 1, "--group-sizes", "200,400", "--n-steps", 20, "--sample-rate", 0.2)
    report = answer(*plan)
    assert report["privacy"].keys() >= PRIVACY_KEYS
    assert 0.95 <= report["privacy"]["epsilon"] <= 1
    assert len(report["privacy"]["epsilon_by_group"]) == 2
    golden("models", "plan", run(*plan).out, figures=False)


def test_methods_are_listed(answer, run):
    methods = {card["method"]: card for card in answer("methods")["methods"]}
    assert methods.keys() >= {"clean", "dpsgd", "fairdp"}
    assert methods["fairdp"]["private"] is True
    assert methods["clean"]["private"] is False
    assert "Abadi" in run("methods").out


def test_data_sets_are_listed_with_licence_and_checksums(answer, run):
    cards = {card["name"]: card for card in answer("data", "list")["datasets"]}
    assert cards.keys() >= {"adult", "adult_full", "credit", "utkface", "synthetic"}
    assert all(card["licence"] and card["source"] for card in cards.values())
    assert all(len(digest) == 64 for digest in cards["adult"]["sha256"].values())
    assert "CC BY" in run("data", "list").out


@pytest.mark.needs_data("adult")
def test_adult_by_name(answer, tmp_path):
    report = answer(
        "fit", "--dataset", "adult", *SETTINGS[:-4], "--sample-rate", 0.02, *ONE, "--out", tmp_path / "model"
    )
    assert (report["n_train"] + report["n_certify"], report["n_test"]) == (32_561, 16_281)
    measured = answer("evaluate", tmp_path / "model", "--dataset", "adult")
    assert measured["metrics"] == report["metrics"]


@pytest.mark.needs_data("adult")
def test_intersections_of_a_named_data_set_from_training_to_a_measurement(answer, refused, tmp_path):
    asked = ("--dataset", "adult", "--sensitive", "sex,race", "--method", "dpsgd", "--n-steps", 3, "--seed", 0)
    report = answer("fit", *asked, "--certify-fraction", 0, "--out", tmp_path / "model")
    groups = report["metrics"]["positive_rate_by_group"]
    assert len(groups) == 10
    assert "Female & Asian-Pac-Islander" in groups
    # The saved model knows which columns made its groups; with another data set's it has nothing in common.
    measured = answer("evaluate", tmp_path / "model", "--dataset", "adult", "--seed", 0)
    assert measured["metrics"]["positive_rate_by_group"] == groups
    refused("evaluate", tmp_path / "model", "--dataset", "synthetic")


def test_a_proposed_schema_trains_and_says_where_it_came_from(run, table, tmp_path):
    proposal = run("schema", table, "--label", "approved", "--sensitive", "sex")
    assert proposal.code == 0
    assert "declared: true" in proposal.err
    (tmp_path / "loans.yaml").write_text(proposal.out)
    for declared, warned in ((False, True), (True, False)):
        text = proposal.out.replace("declared: false", f"declared: {str(declared).lower()}")
        (tmp_path / "loans.yaml").write_text(text)
        result = run("fit", table, "--schema", tmp_path / "loans.yaml", *UNCERTIFIED, "--verbose")
        assert result.code == 0, result.err
        assert ("because no schema was declared" in result.out or "read from the table" in result.out) is warned


def test_options_before_a_command_of_the_ledger_are_meant_for_it(run, tmp_path, monkeypatch):
    """A limit that goes into another ledger than the one that was named limits nothing."""
    monkeypatch.setenv("FAIRDP_LEDGER", str(tmp_path / "usual.sqlite"))
    own = tmp_path / "own.sqlite"
    assert run("ledger", "--ledger", own, "limit", "loans.csv", "--epsilon", "3").code == 0
    assert (own.exists(), (tmp_path / "usual.sqlite").exists()) == (True, False)
    listed = run("ledger", "--ledger", own, "--json", "list")
    assert json.loads(listed.out)["limits"]["loans.csv"]["epsilon"] == 3
    # What is said after the command goes first.
    assert json.loads(run("ledger", "--ledger", own, "list", "--ledger", own, "--json").out)["ledger"] == str(own)


@pytest.mark.parametrize("command", ["list", "check"])
def test_a_ledger_that_was_named_and_is_not_there_is_refused(run, tmp_path, command):
    refused = run("ledger", command, "--ledger", tmp_path / "ledger.sqlite")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.endswith("name another with --ledger.\n")


def test_a_full_disk_behind_the_help_is_no_fault_of_the_program(run):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "fairdp", "--help"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "internal" not in done.stderr
