"""`fairdp certify` and `fairdp verify`: new certificates on fresh records, each of which counts once."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from fairdp.certify.certificate import UNUSED, UNUSED_UNCHECKED
from fairdp.ledger.ledger import Ledger, ledger_path
from fairdp.ledger.records import RecordHasher
from fairdp.releases import watching
from forgeries import certificate_with, forge

ONE = ("--certify-metrics", "demographic_parity")
SETTINGS = ("--epsilon", 2, "--n-steps", 20, "--sample-rate", 0.2, "--seed", 0)


def people(n_rows=1000, seed=0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age, income = rng.integers(18, 90, n_rows), rng.normal(40, 10, n_rows).clip(1, 99).round(3)
    sex, label = rng.choice(["f", "m"], n_rows), np.where(age + rng.normal(0, 10, n_rows) > 54, "yes", "no")
    return pd.DataFrame({"id": np.arange(n_rows), "age": age, "income": income, "sex": sex, "approved": label})


def coarse(n_rows=1000, seed=0) -> pd.DataFrame:
    """Few different records: nearly every one of a fresh person equals a used one."""
    frame = people(n_rows, seed)
    return frame.assign(age=frame["age"] // 18 * 18, income=1.0).drop(columns="id")


SCHEMA = {
    "label": "approved",
    "positive": "yes",
    "negative": "no",
    "sensitive": [{"name": "sex", "groups": ["f", "m"]}],
    "columns": [
        {"name": "age", "type": "numeric", "low": 18, "high": 90},
        {"name": "income", "type": "numeric", "low": 0, "high": 100},
    ],
}
CERTIFY = ("certify", "model", "fresh.csv", "--epsilon", 1, "--seed", 1, *ONE)


@pytest.fixture
def place(taken):
    """A workplace with a model, which certified one metric or held nothing out, and fresh records."""

    def prepare(*options, table=None):
        taken(*SETTINGS, *(options or ONE), table=people() if table is None else table, schema=SCHEMA)
        people(seed=1).to_csv("fresh.csv", index=False)
        Path("notes").mkdir()

    return prepare


@pytest.fixture
def model(place):
    place()


@pytest.fixture
def uncertified(place):
    place("--certify-fraction", 0)


def certificate() -> dict:
    return json.loads(Path("model/certificate.json").read_text())


def test_certify_prints_every_key_of_the_contract_and_writes_the_certificate(run, answer, model):
    report = answer("certify", "model", "fresh.csv", "--epsilon", 1, *ONE)
    assert report.keys() >= {"certificate", "n_certify", "warnings", "seconds"}
    assert 0 <= report["certificate"]["demographic_parity"]["tau"] <= 1
    assert (report["n_certify"], report["warnings"]) == (1000, [])
    assert report["seconds"]["certify"] > 0
    files = certificate().pop("files")
    assert {**report["certificate"], "files": files} == certificate()
    # The rest counts the groups.
    assert report["certificate"]["epsilon"] == 0.95
    assert run("verify", "model").code == 0


def test_a_second_certificate_remembers_the_first_and_says_so(run, golden, model):
    first = certificate()
    assert first["about"]["records"]["kind"] == "held_out"
    result = run(*CERTIFY, "--verbose")
    assert result.code == 0
    second = certificate()
    golden("models", "certify, verbose", result.out, figures=False)
    tau = {"demographic_parity": first["demographic_parity"]["tau"]}
    assert second["about"]["records"]["earlier"] == [{"confidence": 0.95, "epsilon": first["epsilon"], "tau": tau}]
    people(seed=2).to_csv("fresh.csv", index=False)
    assert run(*CERTIFY).code == 0
    golden("models", "statement of a third certificate", certificate()["statement"], figures=False)
    assert len(certificate()["about"]["records"]["earlier"]) == 2
    assert run("verify", "model").code == 0


def test_fresh_certificates_of_a_model_that_held_nothing_out_are_verified(run, uncertified):
    """But not with less than the group sizes cost, on which the words about what fresh records spent rest."""
    for seed in (1, 2):
        people(seed=seed).to_csv("fresh.csv", index=False)
        assert run(*CERTIFY).code == 0
        assert run("verify", "model").code == 0
    for spent in (0.0, -0.9, 0.049):
        forge(Path("model"), certificate_with("about", "records", "sizes_epsilon", value=spent))
        assert run("verify", "model").code == 1, spent


def test_noisy_group_sizes_are_paid_from_the_epsilon_of_the_certificate(answer, uncertified):
    made = answer(*CERTIFY)["certificate"]
    # A twentieth of an epsilon of one for the sizes, and what is left for the counts.
    assert made["about"]["records"]["sizes_epsilon"] == pytest.approx(0.05)
    assert made["epsilon_by_group"] == pytest.approx({"f": 0.95, "m": 0.95})


def test_a_bound_that_is_missed_is_exit_code_1_and_named(run, golden, model):
    result = run(*CERTIFY, "--require-tau", 0.0001)
    assert result.code == 1
    golden("models", "certify, required bound missed", result.out + result.err, figures=False)
    people(seed=2).to_csv("fresh.csv", index=False)
    assert run(*CERTIFY, "--require-tau", 0.99).code == 0


def test_records_are_looked_at_once(run, refused, model):
    assert run(*CERTIFY).code == 0
    refused(*CERTIFY)


def test_the_training_table_is_refused(refused, model):
    refused("certify", "model", "people.csv", "--epsilon", 1)


@pytest.mark.parametrize("n_used", [300, 8])
def test_a_table_with_some_of_the_training_records_is_refused(refused, model, n_used):
    """Of eight, some of which are test records, at least one was trained on or counted."""
    pd.concat([people()[:n_used], people(1000 - n_used, seed=1)]).to_csv("fresh.csv", index=False)
    refused(*CERTIFY)


def test_fresh_people_with_coarse_values_are_accepted_only_if_they_are_declared_other_people(run, refused, place):
    place(table=coarse())
    fresh, columns = coarse(seed=1), ["age", "sex", "approved"]
    assert fresh.merge(coarse()[columns].drop_duplicates(), on=columns).shape[0] > 900
    fresh.to_csv("fresh.csv", index=False)
    refused(*CERTIFY)
    result = run(*CERTIFY, "--allow-equal")
    assert (result.code, result.err) == (0, "")
    assert certificate()["about"]["records"]["assumed"] == [
        "unused_as_far_as_equal_values_tell",
        "equal_records_are_other_people",
    ]
    assert "records that equal used ones are different people" in certificate()["statement"]


UNSEEN = {"no ledger": ("--no-ledger",), "another ledger": ("--ledger", "another.sqlite")}


@pytest.mark.parametrize("ledger", UNSEEN.values(), ids=UNSEEN)
def test_without_the_ledger_that_saw_the_training_only_declared_other_people_are_counted(
    run, refused, golden, model, ledger
):
    before = json.loads(Path("model/privacy.json").read_text())
    with Ledger("another.sqlite"):
        pass
    refused(*CERTIFY, *ledger)
    result = run(*CERTIFY, *ledger, "--allow-equal")
    assert result.code == 0
    golden(
        "models", f"certify, unseen training, {ledger[0]}", f"{result.err}\n{certificate()['statement']}", figures=False
    )
    assert certificate()["about"]["records"]["assumed"] == ["unused_unchecked", "equal_records_are_other_people"]
    assert run("verify", "model").code == 0
    # What another ledger adds up is not what the model's own has.
    assert json.loads(Path("model/privacy.json").read_text())["ledger"] == before["ledger"]


def test_a_series_of_certificates_needs_the_ledger_that_counts_them(refused, model):
    with Ledger("another.sqlite"):
        pass
    refused(*CERTIFY, "--allow-equal", "--of", 3, "--ledger", "another.sqlite")


def test_a_model_that_was_fitted_without_a_ledger_is_certified_only_on_declared_other_people(run, refused, model):
    assert run("fit", "people.csv", "--schema", "schema.yaml", *SETTINGS, *ONE, "--no-ledger", "--out", "own").code == 0
    refused("certify", "own", *CERTIFY[2:])
    assert run("certify", "own", *CERTIFY[2:], "--allow-equal").code == 0
    # The same records again: the ledger knows the first certificate, and still not the training.
    refused("certify", "own", *CERTIFY[2:])


def test_records_that_the_schema_makes_equal_are_the_same_people(run, refused, place):
    """To the model nothing has changed: what is compared is what it was trained on."""
    place()
    schema = {**SCHEMA, "columns": [{"name": "age", "type": "binned", "edges": [30, 50]}, SCHEMA["columns"][1]]}
    Path("schema.yaml").write_text(yaml.safe_dump(schema))
    table = people().drop(columns="id")
    table.to_csv("coarse.csv", index=False)
    table.assign(age=table["age"] + 0.3).to_csv("fresh.csv", index=False)
    fit = ("fit", "coarse.csv", "--schema", "schema.yaml", *SETTINGS, *ONE)
    assert run(*fit, "--out", "own").code == 0
    refused("certify", "own", *CERTIFY[2:])
    # Negative control: without what the model sees of them nobody would know them.
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(RecordHasher, "add_encoded", lambda hasher, data: None)
        assert run(*fit, "--out", "other").code == 0
        assert run("certify", "other", *CERTIFY[2:]).code == 0


@pytest.mark.parametrize("change", [{"id": -1}, {"exported": "2026-11-01"}, None], ids=["other ids", "more", "fewer"])
def test_columns_that_the_model_does_not_take_make_no_record_fresh(refused, model, change):
    """The day of an export, or an id that is given anew, must not hide a person."""
    table = people().drop(columns="id") if change is None else people().assign(**change)
    table.to_csv("fresh.csv", index=False)
    refused(*CERTIFY)


def test_a_changed_ledger_is_refused(refused, model):
    path = ledger_path()
    with Ledger(path) as ledger:
        ledger._store.execute("UPDATE records SET hashes = zeroblob(length(hashes)) WHERE entry = 1")
    refused(*CERTIFY)


def test_nothing_but_the_folder_is_written_beside_the_table(run, model):
    before = set(Path().rglob("*"))
    assert run(*CERTIFY).code == 0
    assert set(Path().rglob("*")) == before
    files = {"SHA256SUMS", "certificate.json", "model.json", "model.safetensors", "privacy.json"}
    assert {path.name for path in Path("model").iterdir()} == files


REFUSED = {
    "missing file": ("certify", "model", "none.csv", "--epsilon", 1),
    "nothing named": ("certify", "model", "--epsilon", 1),
    "both named": (*CERTIFY, "--dataset", "synthetic"),
    "data of another kind": ("certify", "model", "--dataset", "synthetic", "--epsilon", 1),
    "no epsilon": ("certify", "model", "fresh.csv"),
    "confidence": (*CERTIFY, "--confidence", 1.5),
    "epsilon zero": (*CERTIFY, "--epsilon", 0),
    "epsilon infinite": (*CERTIFY, "--epsilon", "inf"),
    "epsilon is no number": (*CERTIFY, "--epsilon", "nan"),
    "metric": (*CERTIFY, "--certify-metrics", "parity"),
    "required bound": (*CERTIFY, "--require-tau", 2),
    "no model": ("certify", "notes", "fresh.csv", "--epsilon", 1),
    "no folder": ("certify", "nowhere", "fresh.csv", "--epsilon", 1),
    "verify nothing": ("verify", "nowhere"),
}


@pytest.mark.parametrize("arguments", REFUSED.values(), ids=REFUSED)
def test_arguments_that_cannot_be_used(refused, model, arguments):
    refused(*arguments)


TABLES = {
    "column": lambda t: t.rename(columns={"age": "years"}),
    "label": lambda t: t.assign(approved=["perhaps", *t["approved"][1:]]),
    "group": lambda t: t.assign(sex=["x", *t["sex"][1:]]),
    "no rows": lambda t: t[:0],
}


@pytest.mark.parametrize("change", TABLES.values(), ids=TABLES)
def test_tables_that_cannot_be_used(refused, model, change):
    change(people(seed=1)).to_csv("fresh.csv", index=False)
    refused(*CERTIFY)


def test_a_changed_model_is_not_certified(refused, model):
    with open("model/privacy.json", "a") as file:
        file.write(" ")
    refused(*CERTIFY)


def test_an_interruption_leaves_the_model_as_it_was(run, model, monkeypatch):
    def interrupted(*arguments, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr("fairdp.run.certifying.release_certificate", interrupted)
    before = {path: path.read_bytes() for path in Path("model").iterdir()}
    result = run(*CERTIFY)
    assert (result.code, result.out) == (130, "")
    assert {path: path.read_bytes() for path in Path("model").iterdir()} == before


def test_verify_says_what_it_checked(run, golden, model):
    for verified in (True, False):
        report, text = run("verify", "model", "--json"), run("verify", "model")
        assert report.code == text.code == int(not verified)
        assert report.err == text.err == ""
        answer = json.loads(report.out)
        assert answer["verified"] is verified
        assert all(check.keys() == {"name", "passed", "found"} for check in answer["checks"])
        assert all(check["passed"] for check in answer["checks"]) is verified
        golden("models", f"verify, {verified=}", text.out, figures=False)
        with open("model/privacy.json", "a") as file:
            file.write(" ")


def test_a_second_certificate_of_the_same_counts_has_other_noise(run, model):
    """Even where a seed is used again: the difference of two releases with the same noise would be exact."""
    found = []
    for _ in range(2):
        assert run(*CERTIFY, "--allow-equal").code == 0
        found.append(certificate()["counts"])
    assert found[0] != found[1]
    assert len(certificate()["about"]["records"]["earlier"]) == 2


def test_a_seed_that_is_used_again_does_not_repeat_the_noise_on_other_records(run, model, tmp_path, monkeypatch):
    """Were the noise on two tables the same, the difference of their released counts would be exact."""
    noise = []
    for copy, seed in (("one", 1), ("two", 2), ("three", 1)):
        monkeypatch.chdir(shutil.copytree(tmp_path, tmp_path / copy, ignore=shutil.ignore_patterns("one", "two", copy)))
        monkeypatch.setenv("FAIRDP_LEDGER", str(tmp_path / copy / "ledger.sqlite"))
        people(seed=seed)[4:].to_csv("fresh.csv", index=False)
        seen = {}
        with watching(lambda release, seen=seen: seen.setdefault(release.purpose, release) and release.noisy):
            assert run("certify", "model", "fresh.csv", "--epsilon", 0.2, "--seed", 7, *ONE).code == 0
        noise.append({purpose: np.subtract(one.noisy, one.exact).tolist() for purpose, one in seen.items()})
    first, other, again = noise
    assert "look" in first
    assert first == again
    assert [purpose for purpose in first if first[purpose] == other[purpose]] == []


def test_records_are_noted_before_their_certificate_is_written(run, refused, model, monkeypatch):
    """An interruption in between wastes a look, and never gives a free one."""

    def interrupted(folder, model):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("fairdp.saved.folder.write_model", interrupted)
        assert run(*CERTIFY).code != 0
    with Ledger(ledger_path()) as ledger:
        last = ledger.entries()[-1]
    assert (last.command, last.model, last.state) == ("certify", "1", "spent")
    refused(*CERTIFY)


def test_a_new_certificate_drops_the_signature_and_says_so(run, golden, model):
    Path("model/SIGNATURE").write_text("of the first certificate")
    result = run(*CERTIFY)
    assert result.code == 0
    golden("models", "certify a signed model", result.err)
    assert not Path("model/SIGNATURE").exists()


def test_a_ledger_that_was_restored_cannot_tell_which_records_were_used(run, answer, model):
    """Of a copy from before a certificate, the records of that certificate would pass as fresh."""
    before = ledger_path().read_bytes()
    answer(*CERTIFY)
    ledger_path().write_bytes(before)
    made = certificate()
    refused = run(*CERTIFY)
    assert (refused.code, refused.out, certificate()) == (2, "", made)
    assert "fewer certificates" in refused.err
    assert run(*CERTIFY, "--allow-equal", "--of", 2).code == 2
    assumed = answer(*CERTIFY, "--allow-equal")["certificate"]["about"]["records"]["assumed"]
    assert UNUSED_UNCHECKED in assumed
    assert UNUSED not in assumed


def test_a_folder_with_other_files_is_refused_before_anything_is_spent(refused, model):
    Path("model/notes.txt").write_text("mine")
    with Ledger(ledger_path()) as ledger:
        before = len(ledger.entries())
    refused(*CERTIFY)
    with Ledger(ledger_path()) as ledger:
        assert len(ledger.entries()) == before
