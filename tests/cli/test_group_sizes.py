"""Sizes of the groups on the command line and in schemas: declared, said to be public, or published."""

import json
from pathlib import Path

import click
import pytest
import yaml

from cli_cases import SCHEMA, people
from fairdp.cli.options import SIZES, ByGroup
from fairdp.data.schema import TableSchema

ONE = ("--certify-metrics", "demographic_parity")
FIT = ("fit", "people.csv", "--schema", "schema.yaml", "--seed", 0, "--n-steps", 4, "--sample-rate", 0.2, *ONE)


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    people().to_csv("people.csv", index=False)
    schema_with()


def schema_with(**more) -> None:
    Path("schema.yaml").write_text(yaml.safe_dump({**SCHEMA, **more}, sort_keys=False))


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("women=900,men=1100", {"women": 900, "men": 1100}),
        (" women = 900 , men=11.5", {"women": 900, "men": 11.5}),
        ("f & north=3,f & south=4", {"f & north": 3, "f & south": 4}),
        ("f, label 0=3,f, label 1=4", {"f, label 0": 3, "f, label 1": 4}),
        ("age>=65=10,age<65=20", {"age>=65": 10, "age<65": 20}),
        ("public", "public"),
    ],
)
def test_names_keep_their_own_commas_and_signs(text, sizes):
    assert ByGroup(SIZES, word="public").convert(text, None, None) == sizes


@pytest.mark.parametrize("text", ["900,1100", "women", "women=", "women=many", "f=1,f=2", "f=1,m", "private"])
def test_what_is_no_list_of_sizes_is_refused(text):
    with pytest.raises(click.BadParameter, match="is not a list such as women=900,men=1100, with each group once"):
        ByGroup(SIZES, word="public").convert(text, None, None)


def test_sizes_of_a_plan_need_no_names(answer):
    plain = answer("plan", "--group-sizes", "5000,6000", "--n-steps", 4)
    named = answer("plan", "--group-sizes", "women=5000,men=6000", "--n-steps", 4)
    assert plain["group_sizes"] == named["group_sizes"] == [5000, 6000]
    assert plain["privacy"]["group_sizes"] == "noisy"
    assert named["privacy"]["group_sizes"] == "declared"
    assert list(named["privacy"]["planned_sizes"]) == ["women", "men"]


def test_weights_and_optimizers_of_groups_are_options_of_a_fit_and_of_a_plan(answer, run):
    given = ("--method", "fairdp", "--group-weights", "m=1,f=2.5", "--group-optimizers")
    report = answer(*FIT, *given, "--no-bias", "--group-sizes", "f=1000,m=2000", "--out", "model")
    assert report["privacy"]["group_optimizers"] is True
    assert run("verify", "model").code == 0
    saved = json.loads(Path("model/model.json").read_text())
    assert (saved["parameters"]["bias"], saved["heads"][1]) == (False, 32)
    planned = answer("plan", *given, "--group-sizes", "f=1000,m=2000", "--n-steps", 4)
    assert planned["sensitivities"] == [1.0, 1.0]
    wrong = run(*FIT, "--group-weights", "f=1,m=2", "--method", "dpsgd")
    assert (wrong.code, wrong.err.count("\n")) == (2, 1)
    assert "--group-weights={'f': 1, 'm': 2} is for --method='fairdp'" in wrong.err


def test_by_default_they_are_counted_with_noise_and_no_exact_count_is_written(answer, run):
    report = answer(*FIT, "--out", "model")
    assert report["privacy"]["group_sizes"] == "noisy"
    assert report["privacy"]["counts_std"] == pytest.approx(37.3064)
    assert "no exact count of the records is in what may be published" in report["statement"]
    assert run("verify", "model").code == 0


def test_declared_for_a_table_they_are_planned_without_its_test_part(answer, run):
    privacy = answer(*FIT, "--group-sizes", "f=1000,m=2000", "--out", "model")["privacy"]
    assert privacy["group_sizes"] == "declared"
    # A fifth for testing, and of the rest a fifth for the certificate.
    assert privacy["planned_sizes"] == pytest.approx({"f": 640, "m": 1280})
    assert run("verify", "model").code == 0


def test_a_schema_may_declare_them(answer, run):
    schema_with(group_sizes={"m": 2000, "f": 1000})
    privacy = answer(*FIT, "--out", "model")["privacy"]
    assert privacy["planned_sizes"] == pytest.approx({"f": 640, "m": 1280})
    assert json.loads(Path("model/model.json").read_text())["feature_schema"]["group_sizes"] == {"f": 1000, "m": 2000}
    assert run("verify", "model").code == 0
    other = run(*FIT, "--group-sizes", "f=900,m=2000")
    assert other.code == 2
    assert "--group-sizes={'f': 900, 'm': 2000} is not what the schema says" in other.err
    assert answer(*FIT, "--group-sizes", "public")["privacy"]["group_sizes"] == "public"


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"f": 1000}, "group_sizes lacks the key 'm'"),
        ({"f": 1, "m": 2, "x": 3}, "group_sizes has the unknown key 'x'"),
        ({"f": 1, "m": 0}, "group_sizes must give every group a positive size, got {'m': 0}"),
        ([1, 2], "group_sizes must be a mapping"),
    ],
)
def test_a_schema_that_declares_others_is_refused_in_one_line(run, sizes, message):
    schema_with(group_sizes=sizes)
    result = run(*FIT)
    assert result.code == 2
    assert message in result.err.replace("--group-sizes", "group_sizes")
    assert result.err.count("\n") == 1


def test_a_schema_with_sizes_says_the_same_when_it_is_read_back():
    schema = TableSchema.from_dict({**SCHEMA, "group_sizes": {"m": 2, "f": 1.5}})
    assert schema.sizes == (1.5, 2.0)
    assert TableSchema.from_dict(schema.to_dict()) == schema
    assert "group_sizes" not in TableSchema.from_dict(SCHEMA).to_dict()


def test_sizes_of_a_named_data_set_are_published(answer, run):
    report = answer("fit", "--dataset", "synthetic", *FIT[4:], "--out", "model")
    assert report["privacy"]["group_sizes"] == "public"
    assert report["privacy"]["counts_std"] == 0
    assert "Assumed public: the data set is published, and the sizes of its groups with it." in report["statement"]
    made = answer("certify", "model", "--dataset", "synthetic", "--epsilon", 1, *ONE)["certificate"]["about"]["records"]
    assert (made["group_sizes"], made["sizes_epsilon"]) == ("public", 0)
    assert run("verify", "model").code == 0


@pytest.mark.parametrize(("sizes", "known"), [("public", "public"), ("f=300,m=300", "noisy"), (None, "noisy")], ids=str)
def test_fresh_records_are_counted_with_noise_unless_sizes_are_public(answer, run, sizes, known):
    assert run(*FIT, *(() if sizes is None else ("--group-sizes", sizes)), "--out", "model").code == 0
    people(seed=5).to_csv("fresh.csv", index=False)
    fresh = ("certify", "model", "fresh.csv", "--epsilon", 1, "--allow-equal", *ONE)
    records = answer(*fresh)["certificate"]["about"]["records"]
    assert records["group_sizes"] == known
    assert records["sizes_epsilon"] == pytest.approx(0.05 if known == "noisy" else 0.0)
    assert run("verify", "model").code == 0
