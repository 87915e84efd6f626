"""`fairdp fit` with a certificate: required and reached bounds, metrics that may be published, coins for people."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fairdp.metrics import metrics_of_counts

ONE = ("--certify-metrics", "demographic_parity")
SCHEMA = {
    **{"label": "approved", "positive": "yes", "negative": "no"},
    "sensitive": [{"name": "sex", "groups": ["f", "m"]}],
    "columns": [
        {"name": "age", "type": "numeric", "low": 18, "high": 89},
        {"name": "income", "type": "numeric", "low": 1, "high": 99},
    ],
}
SETTINGS = ("--epsilon", 2, "--n-steps", 20, "--sample-rate", 0.2, "--seed", 0)
FIT = ("fit", "people.csv", "--schema", "schema.yaml", *SETTINGS, *ONE)
SMOOTHED = ("--method", "fairdp", "--predictor", "smoothed", "--weight-bound", 0.05)


def people(n_rows=1000, seed=0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age, income = rng.integers(18, 90, n_rows), rng.normal(40, 10, n_rows).clip(1, 99).round(3)
    sex, label = rng.choice(["f", "m"], n_rows), np.where(age + rng.normal(0, 10, n_rows) > 54, "yes", "no")
    return pd.DataFrame({"age": age, "income": income, "sex": sex, "approved": label})


@pytest.fixture
def fitted(taken):
    """A model of the pool with these options, and what its fit answered."""

    def take(*options):
        return json.loads((taken(*SETTINGS, *ONE, *options, table=people(), schema=SCHEMA) / "answer.json").read_text())

    return take


def certificate() -> dict:
    return json.loads(Path("model/certificate.json").read_text())


@pytest.mark.parametrize(("bound", "code"), [(0.0001, 1), (0.99, 0)], ids=["missed", "met"])
@pytest.mark.parametrize("looks", [(), ("--method", "fairdp", "--looks", 3)], ids=["once", "looks"])
def test_a_required_bound_decides_the_exit_code_and_the_model_is_written(run, golden, fitted, looks, bound, code):
    answered = fitted("--require-tau", bound, *looks)
    assert answered["code"] == code
    told = f"{answered['err']}\n{certificate()['statement']}"
    golden("models", f"fit, required tau {bound}, {len(looks) > 0 and 3} looks", told, figures=False)
    if looks:
        assert certificate()["about"]["records"]["look"] == (1 if code else 3)
        assert certificate()["demographic_parity"]["tau"] == 0.99 or code
        assert run("report", "model").code == 0
    assert run("verify", "model").code == 0


def test_a_bound_that_nothing_can_certify_is_missed(fitted):
    assert fitted("--require-tau", 0.99, "--certify-fraction", 0)["code"] == 1


def test_a_smoothed_model_is_certified_again(run, fitted):
    fitted(*SMOOTHED)
    cap = certificate()["input_agnostic_tau"]
    people(seed=1).to_csv("fresh.csv", index=False)
    assert run("certify", "model", "fresh.csv", "--epsilon", 1, *ONE).code == 0
    assert certificate()["input_agnostic_tau"] == cap
    assert run("verify", "model").code == 0


def test_private_metrics_follow_from_the_released_counts_alone(run, fitted):
    exact = fitted()["report"]
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


def decisions(run, *arguments) -> list[str]:
    assert run("predict", "model", "equal.csv", "--out", "decisions.csv", *arguments).code == 0
    return pd.read_csv("decisions.csv")["decision"].tolist()


def test_an_id_tells_people_with_equal_records_apart(run, refused, fitted):
    # A short head and much smoothing: every decision is nearly a fair coin.
    fitted(*SMOOTHED, "--smoothing", 5)
    equal = pd.concat([people()[:1]] * 200).assign(person=[f"p{i}" for i in range(200)])
    equal.to_csv("equal.csv", index=False)
    assert len(set(decisions(run))) == 1
    own = decisions(run, "--id", "person")
    assert 50 < own.count("yes") < 150
    equal[::-1].to_csv("equal.csv", index=False)
    assert decisions(run, "--id", "person") == own[::-1]
    refused("predict", "model", "equal.csv", "--out", "other.csv", "--id", "name")
