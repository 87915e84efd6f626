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
SHORT = ("--seed", 0, "--n-steps", 4, "--sample-rate", 0.2, *ONE)
DECLARED = {"m": 2000, "f": 1000}


@pytest.fixture
def fitted(taken):
    """A model of the pool with these options, and what its fit answered."""

    def take(*options, **more):
        place = taken(*SHORT, *options, schema={**SCHEMA, **more})
        return json.loads((place / "answer.json").read_text())["report"]

    return take


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


def test_weights_and_optimizers_of_groups_are_options_of_a_fit_and_of_a_plan(answer, run, refused, fitted):
    given = ("--method", "fairdp", "--group-weights", "m=1,f=2.5", "--group-optimizers")
    report = fitted(*given, "--no-bias", "--group-sizes", "f=1000,m=2000")
    assert report["privacy"]["group_optimizers"] is True
    assert run("verify", "model").code == 0
    saved = json.loads(Path("model/model.json").read_text())
    assert (saved["parameters"]["bias"], saved["heads"][1]) == (False, 32)
    planned = answer("plan", *given, "--group-sizes", "f=1000,m=2000", "--n-steps", 4)
    assert planned["sensitivities"] == [1.0, 1.0]
    refused("fit", "people.csv", "--schema", "schema.yaml", "--group-weights", "f=1,m=2", "--method", "dpsgd")


@pytest.mark.parametrize(
    ("options", "known", "std"),
    [((), "noisy", 37.3064), (("--group-sizes", "f=1000,m=2000"), "declared", 0), (None, "declared", 0)],
    ids=["by default", "declared", "in the schema"],
)
def test_sizes_are_counted_with_noise_unless_they_are_declared(run, fitted, golden, options, known, std, request):
    report = fitted(*options) if options is not None else fitted(group_sizes=DECLARED)
    assert (report["privacy"]["group_sizes"], report["privacy"]["counts_std"]) == (known, pytest.approx(std, abs=1e-3))
    golden("models", f"privacy statement, sizes {request.node.callspec.id}", report["statement"], figures=False)
    if known == "declared":
        # A fifth for testing, and of the rest a fifth for the certificate.
        assert report["privacy"]["planned_sizes"] == pytest.approx({"f": 640, "m": 1280})
    assert run("verify", "model").code == 0


def test_a_schema_that_declares_sizes_may_be_contradicted_by_public_ones_alone(answer, refused, fitted):
    fitted(group_sizes=DECLARED)
    saved = json.loads(Path("model/model.json").read_text())["feature_schema"]
    assert saved["group_sizes"] == DECLARED
    fit = ("fit", "people.csv", "--schema", "schema.yaml", *SHORT, "--group-sizes")
    refused(*fit, "f=900,m=2000")
    assert answer(*fit, "public")["privacy"]["group_sizes"] == "public"


@pytest.mark.parametrize("sizes", [{"f": 1000}, {"f": 1, "m": 2, "x": 3}, {"f": 1, "m": 0}, [1, 2]], ids=str)
def test_a_schema_that_declares_others_is_refused_in_one_line(refused, tmp_path, monkeypatch, sizes):
    monkeypatch.chdir(tmp_path)
    people().to_csv("people.csv", index=False)
    Path("schema.yaml").write_text(yaml.safe_dump({**SCHEMA, "group_sizes": sizes}))
    refused("fit", "people.csv", "--schema", "schema.yaml", *SHORT)


def test_a_schema_with_sizes_says_the_same_when_it_is_read_back():
    schema = TableSchema.from_dict({**SCHEMA, "group_sizes": {"m": 2, "f": 1.5}})
    assert schema.sizes == (1.5, 2.0)
    assert TableSchema.from_dict(schema.to_dict()) == schema
    assert "group_sizes" not in TableSchema.from_dict(SCHEMA).to_dict()


def test_sizes_of_a_named_data_set_are_published(answer, run, golden, tmp_path):
    model = tmp_path / "model"
    report = answer("fit", "--dataset", "synthetic", *SHORT, "--out", model)
    assert (report["privacy"]["group_sizes"], report["privacy"]["counts_std"]) == ("public", 0)
    golden("models", "privacy statement, published data set", report["statement"], figures=False)
    certified = answer("certify", model, "--dataset", "synthetic", "--epsilon", 1, "--allow-equal", *ONE)["certificate"]
    made = certified["about"]["records"]
    assert (made["group_sizes"], made["sizes_epsilon"]) == ("public", 0)
    assert run("verify", model).code == 0


@pytest.mark.parametrize(("sizes", "known"), [("public", "public"), ("f=300,m=300", "noisy"), (None, "noisy")], ids=str)
def test_fresh_records_are_counted_with_noise_unless_sizes_are_public(answer, run, fitted, sizes, known):
    fitted(*(() if sizes is None else ("--group-sizes", sizes)))
    people(seed=5).to_csv("fresh.csv", index=False)
    fresh = ("certify", "model", "fresh.csv", "--epsilon", 1, "--allow-equal", *ONE)
    records = answer(*fresh)["certificate"]["about"]["records"]
    assert records["group_sizes"] == known
    assert records["sizes_epsilon"] == pytest.approx(0.05 if known == "noisy" else 0.0)
    assert run("verify", "model").code == 0
