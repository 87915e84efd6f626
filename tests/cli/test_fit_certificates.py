"""`fairdp fit` with a certificate: required and reached bounds, metrics that may be published, coins for people."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fairdp.commands import certify as certify_task
from fairdp.metrics.rates import metrics_of_counts

ONE = ("--certify-metrics", "demographic_parity")
COLUMNS = ("--label", "approved", "--sensitive", "sex", "--schema", "schema.json")
SCHEMA = {
    **{"label": "approved", "positive": "yes", "negative": "no"},
    "sensitive": [{"name": "sex", "groups": ["f", "m"]}],
    "columns": [
        {"name": "age", "type": "numeric", "low": 18, "high": 89},
        {"name": "income", "type": "numeric", "low": 1, "high": 99},
    ],
}
SETTINGS = ("--epsilon", 2, "--n-steps", 20, "--sample-rate", 0.2, "--seed", 0)
FIT = ("fit", "people.csv", *COLUMNS, *SETTINGS, *ONE)


def people(n_rows=1000, seed=0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age, income = rng.integers(18, 90, n_rows), rng.normal(40, 10, n_rows).clip(1, 99).round(3)
    sex, label = rng.choice(["f", "m"], n_rows), np.where(age + rng.normal(0, 10, n_rows) > 54, "yes", "no")
    return pd.DataFrame({"age": age, "income": income, "sex": sex, "approved": label})


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    people().to_csv("people.csv", index=False)
    Path("schema.json").write_text(json.dumps(SCHEMA))


def certificate() -> dict:
    return json.loads(Path("model/certificate.json").read_text())


@pytest.mark.parametrize(("bound", "code", "verdict"), [(0.0001, 1, "missed"), (0.99, 0, "met")])
def test_a_required_bound_decides_the_exit_code_and_the_model_is_written(run, bound, code, verdict):
    result = run(*FIT, "--require-tau", bound, "--out", "model")
    assert result.code == code
    missed = [line for line in result.err.splitlines() if line.startswith("missed: ")]
    assert ["demographic_parity" in line for line in missed] == [True] * code
    assert f": {verdict}." in certificate()["statement"]
    assert run("verify", "model").code == 0


@pytest.mark.parametrize(("bound", "code", "said"), [(0.0001, 1, "missed"), (0.99, 0, "met")])
def test_looks_go_on_while_the_bound_is_met(run, bound, code, said):
    result = run(*FIT, "--method", "fairdp", "--require-tau", bound, "--looks", 3, "--out", "model")
    assert result.code == code
    words = " ".join(result.out.split())
    assert f"fairness required tau {bound:g} {said}: the model is that of look {1 if code else 3} of 3" in words
    assert result.out.startswith("result    required tau missed") == bool(code)
    assert certificate()["demographic_parity"]["tau"] == 0.99 or code
    assert run("verify", "model").code == 0
    assert run("report", "model").code == 0


def test_a_bound_that_nothing_can_certify_is_missed(run):
    result = run(*FIT, "--require-tau", 0.99, "--certify-fraction", 0)
    assert result.code == 1
    assert (
        "missed: --require-tau 0.99: not certified, because no records were held out for it (--certify-fraction=0)"
        in result.err
    )


def test_a_target_is_reached_and_the_model_goes_all_the_way(run):
    """Saved, verified, used, certified again on fresh records, and verified again."""
    assert run(*FIT, "--target-tau", 0.05, "--out", "model").code == 0
    assert certificate()["demographic_parity"]["tau"] <= 0.05 + 1e-12
    assert "whatever the record" in certificate()["statement"]
    assert run("verify", "model").code == 0
    assert run("predict", "model", "people.csv", "--out", "decisions.csv").code == 0
    people(seed=1).to_csv("fresh.csv", index=False)
    result = run("certify", "model", "fresh.csv", "--epsilon", 1, *ONE)
    assert (result.code, result.err) == (0, "")
    # The share of decisions that follow a constant bounds the gap of any population.
    assert certificate()["demographic_parity"]["tau"] <= 1 - certificate()["about"]["predictor"]["dilution"] + 1e-12
    assert run("verify", "model").code == 0


def test_a_smoothed_model_is_certified_again(run):
    assert (
        run(*FIT, "--method", "fairdp", "--predictor", "smoothed", "--weight-bound", 0.05, "--out", "model").code == 0
    )
    cap = certificate()["input_agnostic_tau"]
    people(seed=1).to_csv("fresh.csv", index=False)
    assert run("certify", "model", "fresh.csv", "--epsilon", 1, *ONE).code == 0
    assert certificate()["input_agnostic_tau"] == cap
    assert run("verify", "model").code == 0


def test_private_metrics_follow_from_the_released_counts_alone(run):
    exact = json.loads(run(*FIT, "--json").out)
    report = json.loads(run(*FIT, "--private-metrics", "--json").out)
    counts = np.array(report["certificate"]["counts"]).clip(min=0)
    expected = metrics_of_counts(counts, tuple(report["certificate"]["group_names"]))
    assert report["metrics"] == {"auc": None, **expected}
    assert report["n_train"] is report["n_test"] is None
    assert report["n_certify"] == counts.sum()
    # The same seed gives the same model, whose exact numbers are not in the report, neither in JSON nor in words.
    text = run(*FIT, "--private-metrics").out
    numbers = [exact["metrics"][name] for name in ("auc", "accuracy", "positive_rate")]
    assert not [number for number in numbers if f"{number:.4f}" in text or str(number) in json.dumps(report)]
    twin = run(*FIT).out
    assert all(f"{number:.4f}" in twin for number in numbers)
    assert "no evidence" in text


def test_private_metrics_need_a_certificate(run):
    result = run(*FIT, "--private-metrics", "--certify-fraction", 0)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(
        "fairdp: --private-metrics come from the certificate's counts, but there is no certificate"
    )
    assert result.err.count("\n") == 1


def decisions(run, *arguments) -> list[str]:
    assert run("predict", "model", "equal.csv", "--out", "decisions.csv", *arguments).code == 0
    return pd.read_csv("decisions.csv")["decision"].tolist()


def test_an_id_tells_people_with_equal_records_apart(run):
    # A short head and much smoothing: every decision is nearly a fair coin.
    smoothed = ("--method", "fairdp", "--predictor", "smoothed", "--smoothing", 5, "--weight-bound", 0.05)
    assert run(*FIT, *smoothed, "--out", "model").code == 0
    equal = pd.concat([people()[:1]] * 200).assign(person=[f"p{i}" for i in range(200)])
    equal.to_csv("equal.csv", index=False)
    assert len(set(decisions(run))) == 1
    own = decisions(run, "--id", "person")
    assert 50 < own.count("yes") < 150
    equal[::-1].to_csv("equal.csv", index=False)
    assert decisions(run, "--id", "person") == own[::-1]
    result = run("predict", "model", "equal.csv", "--out", "other.csv", "--id", "name")
    assert (result.code, result.err) == (2, "fairdp: --id='name' is not a column of 'equal.csv'.\n")
    assert not Path("other.csv").exists()


def test_a_seed_that_is_used_again_does_not_repeat_the_noise(run, monkeypatch):
    """The difference of two releases with the same noise would be exact."""
    noise, release = [], certify_task.release_certificate

    def observed(counts, **settings):
        made = release(counts, **settings)
        noise.append((np.array(made.counts) - counts).tolist())
        return made

    monkeypatch.setattr(certify_task, "release_certificate", observed)
    assert run(*FIT, "--out", "model").code == 0
    for seed in (1, 2):
        people(seed=seed)[4:].to_csv("fresh.csv", index=False)
        assert run("certify", "model", "fresh.csv", "--epsilon", 0.2, "--seed", 7, *ONE).code == 0
    assert noise[0] != noise[1]
