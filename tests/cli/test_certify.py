"""`fairdp certify` and `fairdp verify`: new certificates on fresh records, each of which counts once."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fairdp.cli import main
from fairdp.commands import certify as certify_task
from fairdp.saved.used_records import read_used_records, used_records_path
from forgeries import certificate_with, forge

METRICS = ("demographic_parity", "equal_opportunity", "equalized_odds")
COLUMNS = ("--label", "approved", "--sensitive", "sex")
SETTINGS = ("--epsilon", 2, "--n-steps", 20, "--sample-rate", 0.2, "--seed", 0)
ONE = ("--certify-metrics", "demographic_parity")


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
FIT = ("fit", "train.csv", *COLUMNS, *SETTINGS, "--schema", "schema.json")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A workplace with a model for each kind of table; copied for every test."""
    above = tmp_path_factory.mktemp("prepared")
    (above / "schema.json").write_text(json.dumps(SCHEMA))
    people().to_csv(above / "train.csv", index=False)
    coarse().to_csv(above / "coarse.csv", index=False)
    schema = ("--schema", above / "schema.json", *ONE)
    for table, name in (("train.csv", "model"), ("coarse.csv", "coarse_model")):
        with pytest.raises(SystemExit):
            main([str(a) for a in ("fit", above / table, *COLUMNS, *SETTINGS, *schema, "--out", above / name)])
    return above


@pytest.fixture(autouse=True)
def workplace(prepared, tmp_path, monkeypatch):
    shutil.copytree(prepared, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    people(seed=1).to_csv("fresh.csv", index=False)
    Path("notes").mkdir()


CERTIFY = ("certify", "model", "fresh.csv", "--epsilon", 1, "--seed", 1, *ONE)


def everything() -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in Path().rglob("*") if path.is_file()}


def check_refusal(run, arguments, *words):
    before = everything()
    result = run(*arguments)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("fairdp: ")
    assert result.err.count("\n") == 1
    assert "internal error" not in result.err
    for word in words:
        assert word in result.err
    assert everything() == before


def certificate() -> dict:
    return json.loads(Path("model/certificate.json").read_text())


def test_certify_prints_every_key_of_the_contract_and_writes_the_certificate(run):
    result = run("certify", "model", "fresh.csv", "--epsilon", 1, "--json")
    assert (result.code, result.err) == (0, "")
    report = json.loads(result.out, parse_constant=pytest.fail)
    assert report.keys() >= {"certificate", "n_certify", "warnings", "seconds"}
    assert all(0 <= report["certificate"][metric]["tau"] <= 1 for metric in METRICS)
    assert (report["n_certify"], report["warnings"]) == (1000, [])
    assert report["seconds"]["certify"] > 0
    files = certificate().pop("files")
    assert {**report["certificate"], "files": files} == certificate()
    # The rest counts the groups.
    assert report["certificate"]["epsilon"] == 0.95
    assert run("verify", "model").code == 0


def test_a_second_certificate_remembers_the_first_and_says_so(run):
    first = certificate()
    assert "This is certificate" not in first["statement"]
    result = run(*CERTIFY, "--verbose")
    assert result.code == 0
    second = certificate()
    assert "This is certificate 2 of the model" in second["statement"]
    assert second["statement"] in result.out
    tau = {"demographic_parity": first["demographic_parity"]["tau"]}
    assert second["about"]["records"]["earlier"] == [{"confidence": 0.95, "epsilon": first["epsilon"], "tau": tau}]
    people(seed=2).to_csv("fresh.csv", index=False)
    assert run(*CERTIFY).code == 0
    assert "This is certificate 3 of the model" in certificate()["statement"]
    assert len(certificate()["about"]["records"]["earlier"]) == 2
    assert run("verify", "model").code == 0


def test_fresh_certificates_of_a_model_that_held_nothing_out_are_verified(run):
    assert run(*FIT, "--certify-fraction", 0, "--out", "own").code == 0
    for seed in (1, 2):
        people(seed=seed).to_csv("fresh.csv", index=False)
        assert run("certify", "own", *CERTIFY[2:]).code == 0
        assert run("verify", "own").code == 0


@pytest.mark.parametrize("spent", [0.0, -0.9, 0.049])
def test_less_than_the_group_sizes_cost_is_noticed(run, spent):
    """The words about what fresh records spent rest on it."""
    assert run(*FIT, "--certify-fraction", 0, "--out", "own").code == 0
    assert run("certify", "own", *CERTIFY[2:]).code == 0
    assert run("verify", "own").code == 0
    forge(Path("own"), certificate_with("about", "records", "sizes_epsilon", value=spent))
    assert run("verify", "own").code == 1


def test_noisy_group_sizes_are_paid_from_the_epsilon_of_the_certificate(run, answer):
    assert run(*FIT, "--certify-fraction", 0, "--out", "private").code == 0
    made = answer("certify", "private", *CERTIFY[2:])["certificate"]
    # A twentieth of an epsilon of one for the sizes, and what is left for the counts.
    assert made["about"]["records"]["sizes_epsilon"] == pytest.approx(0.05)
    assert made["epsilon_by_group"] == pytest.approx({"f": 0.95, "m": 0.95})


def test_a_bound_that_is_missed_is_exit_code_1_and_named(run):
    result = run(*CERTIFY, "--require-tau", 0.0001)
    assert result.code == 1
    assert [line for line in result.err.splitlines() if line.startswith("missed: ") and "demographic_parity" in line]
    assert "missed." in certificate()["statement"]
    people(seed=2).to_csv("fresh.csv", index=False)
    assert run(*CERTIFY, "--require-tau", 0.99).code == 0


def test_records_are_looked_at_once(run):
    assert run(*CERTIFY).code == 0
    check_refusal(run, CERTIFY, "were used before (1000 for certificate 2)", "--allow-equal")


def test_the_training_table_is_refused(run):
    check_refusal(
        run, ("certify", "model", "train.csv", "--epsilon", 1), "of 1000 records", "for training", "for certificate 1"
    )


def test_a_table_with_some_of_the_training_records_is_refused(run):
    mixed = pd.concat([people().sample(300, random_state=0), people(700, seed=1)])
    mixed.to_csv("fresh.csv", index=False)
    check_refusal(run, CERTIFY, "of 1000 records some equal records that were used before")


def test_a_table_with_one_record_that_was_used_is_refused(run):
    """Of eight training records, some of which are test records, at least one was trained on or counted."""
    pd.concat([people()[:8], people(992, seed=1)]).to_csv("fresh.csv", index=False)
    check_refusal(run, CERTIFY, "were used before")


def test_fresh_people_with_coarse_values_are_accepted_only_if_they_are_declared_other_people(run):
    fresh = coarse(seed=1)
    columns = ["age", "sex", "approved"]
    assert fresh.merge(coarse()[columns].drop_duplicates(), on=columns).shape[0] > 900
    fresh.to_csv("fresh.csv", index=False)
    check_refusal(run, ("certify", "coarse_model", *CERTIFY[2:]), "for training", "--allow-equal")
    result = run("certify", "coarse_model", *CERTIFY[2:], "--allow-equal")
    assert (result.code, result.err) == (0, "")
    made = json.loads((Path("coarse_model") / "certificate.json").read_text())
    assert made["about"]["records"]["assumed"] == [
        "unused_as_far_as_equal_values_tell",
        "equal_records_are_other_people",
    ]
    assert "records that equal used ones are different people" in made["statement"]


def test_equal_records_may_be_declared_other_people(run):
    assert run(*CERTIFY).code == 0
    assert run(*CERTIFY, "--allow-equal").code == 0
    assert "This is certificate 3" in certificate()["statement"]


def test_a_missing_register_is_warned_of_and_the_certificate_says_so(run):
    Path("model.register").unlink()
    result = run(*CERTIFY)
    assert result.code == 0
    assert result.err.startswith("warning: the training records are not listed in ")
    assert certificate()["about"]["records"]["assumed"] == ["unused_unchecked"]
    assert "there was no list of used records to check" in certificate()["statement"]
    assert run("verify", "model").code == 0


@pytest.mark.parametrize("content", [b"", b"text", None], ids=["empty", "text", "flipped bit"])
def test_a_damaged_register_is_refused(run, content):
    register = Path("model.register")
    if content is None:
        content = bytearray(register.read_bytes())
        content[-1] ^= 1
    register.write_bytes(content)
    check_refusal(run, CERTIFY, "used records", "model.register", "restore them from a copy")


def test_the_register_is_beside_the_folder_and_for_its_owner_only(run):
    def mode() -> int:
        return Path("model.register").stat().st_mode & 0o777

    assert mode() == 0o600
    assert run(*CERTIFY).code == 0
    assert mode() == 0o600
    files = {"SHA256SUMS", "certificate.json", "model.json", "model.safetensors", "privacy.json"}
    assert {path.name for path in Path("model").iterdir()} == files


REFUSED = {
    "missing file": (("certify", "model", "none.csv", "--epsilon", 1), ["none.csv", "does not exist"]),
    "nothing named": (("certify", "model", "--epsilon", 1), ["TABLE", "--dataset"]),
    "both named": ((*CERTIFY, "--dataset", "synthetic"), ["TABLE", "--dataset"]),
    "data of another kind": (("certify", "model", "--dataset", "synthetic", "--epsilon", 1), ["synthetic"]),
    "no epsilon": (("certify", "model", "fresh.csv"), ["--epsilon"]),
    "confidence": ((*CERTIFY, "--confidence", 1.5), ["confidence", "1.5"]),
    "epsilon zero": ((*CERTIFY, "--epsilon", 0), ["epsilon", "0.0"]),
    "epsilon infinite": ((*CERTIFY, "--epsilon", "inf"), ["epsilon", "inf"]),
    "epsilon is no number": ((*CERTIFY, "--epsilon", "nan"), ["epsilon", "nan"]),
    "metric": ((*CERTIFY, "--certify-metrics", "parity"), ["metrics", "'parity'"]),
    "required bound": ((*CERTIFY, "--require-tau", 2), ["--require-tau", "2.0"]),
    "no model": (("certify", "notes", "fresh.csv", "--epsilon", 1), ["'notes'", "not a saved model"]),
    "no folder": (("certify", "nowhere", "fresh.csv", "--epsilon", 1), ["'nowhere'", "not a saved model"]),
    "verify nothing": (("verify", "nowhere"), ["'nowhere'", "not a folder"]),
}


@pytest.mark.parametrize(("arguments", "words"), REFUSED.values(), ids=REFUSED)
def test_arguments_that_cannot_be_used(run, arguments, words):
    check_refusal(run, arguments, *words)


TABLES = {
    "column": (lambda t: t.rename(columns={"age": "years"}), ["no column 'age'"]),
    "label": (lambda t: t.assign(approved=["perhaps", *t["approved"][1:]]), ["'approved'", "'perhaps'"]),
    "group": (lambda t: t.assign(sex=["x", *t["sex"][1:]]), ["'sex'", "'x'"]),
    "no rows": (lambda t: t[:0], ["fresh.csv", "no rows"]),
}


@pytest.mark.parametrize(("change", "words"), TABLES.values(), ids=TABLES)
def test_tables_that_cannot_be_used(run, change, words):
    change(people(seed=1)).to_csv("fresh.csv", index=False)
    check_refusal(run, CERTIFY, *words)


def test_a_changed_model_is_not_certified(run):
    with open("model/privacy.json", "a") as file:
        file.write(" ")
    check_refusal(run, CERTIFY, "'model'", "privacy.json", "SHA256SUMS")


def test_an_interruption_leaves_the_model_as_it_was(run, monkeypatch):
    def interrupted(*arguments, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr(certify_task, "release_certificate", interrupted)
    before = everything()
    result = run(*CERTIFY)
    assert (result.code, result.out) == (130, "")
    assert {n: c for n, c in everything().items() if n != "model.register"} == {
        n: c for n, c in before.items() if n != "model.register"
    }


def test_verify_says_what_it_checked(run):
    result = run("verify", "model", "--json")
    report = json.loads(result.out)
    assert (result.code, result.err, report["verified"]) == (0, "", True)
    assert all(check.keys() == {"name", "passed", "found"} and check["passed"] for check in report["checks"])
    text = run("verify", "model")
    assert text.code == 0
    assert text.out.endswith("Verified.\n")
    with open("model/privacy.json", "a") as file:
        file.write(" ")
    result = run("verify", "model", "--json")
    assert (result.code, json.loads(result.out)["verified"]) == (1, False)
    text = run("verify", "model")
    assert (text.code, text.err) == (1, "")
    assert "FAILED" in text.out
    assert text.out.endswith("NOT verified.\n")


def test_a_second_certificate_of_the_same_counts_has_other_noise(run):
    """Even where a seed is used again: the difference of two releases with the same noise would be exact."""
    found = []
    for _ in range(2):
        assert run(*CERTIFY, "--allow-equal").code == 0
        found.append(certificate()["counts"])
    assert found[0] != found[1]


def test_records_are_noted_before_their_certificate_is_written(run, monkeypatch):
    """An interruption in between wastes a look, and never gives a free one."""

    def interrupted(folder, model):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(certify_task, "write_model", interrupted)
        assert run(*CERTIFY).code != 0
    assert "certificate 2" in read_used_records(used_records_path(Path("model"))).uses


def test_a_new_certificate_drops_the_signature_and_says_so(run):
    Path("model/SIGNATURE").write_text("of the first certificate")
    result = run(*CERTIFY)
    assert result.code == 0
    assert "the signature of 'model' was about the earlier certificate and is gone" in result.err
    assert not Path("model/SIGNATURE").exists()
