"""`fairdp paper-bounds` on a model whose heads are known: every figure by hand, from five records."""

from dataclasses import replace

import pandas as pd
import pytest
import torch

from fairdp import FairDPClassifier
from fairdp.data.schema import TableSchema
from fairdp.data.tables import encode_table

SCHEMA = {
    "label": "y",
    "positive": "yes",
    "negative": "no",
    "sensitive": [{"name": "sex", "groups": ["f", "m"]}],
    "columns": [{"name": "x", "type": "numeric", "low": 0, "high": 1}],
}
FIVE = pd.DataFrame(
    {"x": [0, 0, 0.75, 0.75, 0], "sex": ["f", "f", "m", "m", "m"], "y": ["no", "yes", "yes", "no", "no"]}
)


@pytest.fixture
def folder(tmp_path):
    """η = ½ and s = 1, hence σ₀ = ½, Nσ₀ = 1, √Nσ₀ = 1/√2; heads (2, −1) and (2, 0), whose mean is (2, −½)."""
    schema = TableSchema.from_dict(SCHEMA)
    many = pd.concat([FIVE] * 40, ignore_index=True)
    settings = {"method": "fairdp", "model": "logistic", "n_steps": 2, "sample_rate": 0.5, "certify_fraction": 0}
    model = FairDPClassifier(**settings, n_members=2, sgd_learning_rate=0.5, weight_bound=0.25, random_state=0)
    model.fit_grouped(encode_table(many, schema), feature_schema=schema.to_dict())
    model.score_model_.replace_params(torch.tensor([2.0, -1.0, 2.0, 0.0]))
    model.amend(privacy=replace(model.privacy_, mean_noise_std=1.0))
    model.save(tmp_path / "model")
    FIVE.to_csv(tmp_path / "five.csv", index=False)
    return tmp_path


@pytest.fixture
def found(folder, answer):
    return answer("paper-bounds", folder / "model", folder / "five.csv", "--seed", 0)


def test_tau_emp_by_hand(found):
    """Scores −½ at x = 0, norm 1, and 1 at x = ¾, norm 1.25: chances a = Φ(−½/σ) and b = Φ(.8/σ).

    At σ = 1: a = .308538, b = .788145. Radii √(ln 40 / 2n): 1.358102, .960323 and .784100 for 1, 2 and 3 records.
    Everybody: women a, men (2b + a)/3 = .628276; .628276 + .784100 − (.308538 − .960323) + (½ + ⅓)/(2√2).
    Label 1: women a, men b, one record each: b − a + 2 · 1.358102 + 2/(2√2).
    Label 0: a among one, (a + b)/2 among two: both ends are the women's, 2 · 1.358102 + 1.5/(2√2).
    """
    one_head = found["at"]["one_head"]
    assert one_head["deviation"] == pytest.approx(1.0)
    assert one_head["tau_emp"] == {
        "demographic_parity": pytest.approx(2.358789, abs=2e-6),
        "equal_opportunity": pytest.approx(3.902918, abs=2e-6),
        "equalized_odds": pytest.approx(3.902918, abs=2e-6),
        "false_positive_rate": pytest.approx(3.246534, abs=2e-6),
    }
    # Only a and b change: Φ(−1) = .158655 and Φ(1.6) = .945201; Φ(−.707107) = .239750 and Φ(1.131371) = .871051.
    assert found["at"]["printed"]["tau_emp"]["equal_opportunity"] == pytest.approx(4.209857, abs=2e-6)
    assert found["at"]["deployed"]["tau_emp"]["equal_opportunity"] == pytest.approx(4.054612, abs=2e-6)


def test_theorem_2_and_the_range_of_chances_by_hand(found):
    """M = ¼, ηC = ½, K = 2: printed (½ + ½)/2 = ½, corrected ¾; ‖w‖ = √4.25, all over σ√2, in erf."""
    at = found["at"]
    assert at["printed"]["theorem_2_printed"] == pytest.approx(0.682689, abs=2e-6)  # erf(.707107)
    assert at["printed"]["theorem_2_corrected"] == pytest.approx(0.866386, abs=2e-6)  # erf(1.060660)
    assert at["deployed"]["theorem_2_corrected"] == pytest.approx(0.711156, abs=2e-6)  # erf(.75)
    assert at["one_head"]["theorem_2_printed"] == pytest.approx(0.382925, abs=2e-6)  # erf(.353553)
    assert found["head_norm"] == pytest.approx(4.25**0.5)
    # erf(1.457738) = .960749
    assert at["one_head"]["lowest_chance"] == pytest.approx(0.0196257, abs=2e-6)
    assert at["one_head"]["highest_chance"] == pytest.approx(0.9803743, abs=2e-6)


def test_monte_carlo_errors_by_hand(found):
    """The first head accepts x = ¾ alone, the second everybody; the standard error of two rates is half their distance.

    Women 0 and 1, men ⅔ and 1: ½ + ⅙. Label 1: 0 and 1, 1 and 1: ½. Label 0: 0 and 1, ½ and 1: ½ + ¼.
    """
    errors = found["monte_carlo"]
    assert errors["measured"] == {
        "demographic_parity": pytest.approx(2 / 3),
        "equal_opportunity": pytest.approx(0.5),
        "equalized_odds": pytest.approx(1.25),
        "false_positive_rate": pytest.approx(0.75),
    }
    assert errors["printed"]["demographic_parity"] == pytest.approx(0.294628, abs=2e-6)
    assert errors["at_most_per_rate"] == pytest.approx(0.353553, abs=2e-6)
    rates = {(rate["event"], rate["group"]): rate for rate in found["rates"]}
    assert rates["everybody", "m"]["spread"] == pytest.approx(1 / 3)
    # 2/(n ε') at ε' = .1.
    assert rates["everybody", "m"]["scale_needed"] == pytest.approx(20 / 3)
    assert rates["label 1", "f"]["scale_needed"] == pytest.approx(20)
    assert found["remark_2"]["scale_printed"] == 10


def test_nothing_is_called_certified(folder, run, found):
    said = run("paper-bounds", folder / "model", folder / "five.csv")
    assert said.code == 0
    words = " ".join(said.out.split())
    assert "Diagnostics, not certified" in words
    assert "for the data holder's eyes only" in words
    assert "certified" not in words.replace("not certified", "")
    assert "2.3588" in words
    assert "4.2099" in words
    assert "not certified" in found["status"]


def test_the_noise_of_remark_2_is_repeatable_and_follows_its_epsilon(folder, answer, found):
    again = answer("paper-bounds", folder / "model", folder / "five.csv", "--seed", 0)
    assert again == found
    wide = answer("paper-bounds", folder / "model", folder / "five.csv", "--seed", 0, "--release-epsilon", 1e9)
    exact = found["at"]["printed"]["tau_emp"]["demographic_parity"]
    assert wide["remark_2"]["tau_printed"]["demographic_parity"] == pytest.approx(exact, abs=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        *((), ("five.csv", "--dataset", "adult"), ("five.csv", "--confidence", "1")),
        *(("five.csv", "--release-epsilon", "0"), ("--dataset", "synthetic")),
    ],
    ids=" ".join,
)
def test_what_it_refuses(folder, refused, monkeypatch, options):
    monkeypatch.chdir(folder)
    refused("paper-bounds", "model", *options)
