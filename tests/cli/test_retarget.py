"""`fairdp retarget`: from a saved folder to a new one with another target, without a record; refusals in one line."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from classifier_cases import fitted
from cli_cases import SCHEMA
from fairdp import FairDPClassifier
from onnx_cases import Own
from priced_cases import priced_model

FIT = ("fit", "people.csv", "--label", "y", "--sensitive", "sex", "--schema", "schema.yaml", "--out", "model")
SETTINGS = ("--method", "fairdp_frontier", "--epsilon", "8", "--n-steps", "20", "--seed", "0")
SETTINGS += ("--certify-metrics", "demographic_parity")


def unequal_table(n_rows=3000, seed=0) -> pd.DataFrame:
    """Ages with so many digits that no two people are equal; one group is older, and the label follows the age."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m"], n_rows)
    age = (rng.normal(54, 12, n_rows) + np.where(sex == "m", 8, -8)).clip(18, 90)
    yes = age + rng.normal(0, 8, n_rows) > 54
    job = rng.choice(["clerk", "nurse"], n_rows)
    return pd.DataFrame({"age": age, "job": job, "sex": sex, "y": np.where(yes, "yes", "no")})


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("workplace")
class TestCommand:
    def test_from_a_table_to_another_target_and_a_new_certificate(self, run, answer):
        unequal_table().to_csv("people.csv", index=False)
        unequal_table(seed=1).query("18 < age < 90").to_csv("fresh.csv", index=False)
        Path("schema.yaml").write_text(yaml.safe_dump(SCHEMA))
        assert run(*FIT, *SETTINGS).code == 0
        Path("people.csv").rename("away.csv")
        Path("model/SIGNATURE").write_text("of the rule as it was")
        answered = answer("retarget", "model", "--max-gap", "0.3", "--out", "moved")
        assert answered["warnings"] == ["the signature of 'model' does not cover 'moved'; run fairdp sign on it."]
        assert not Path("moved/SIGNATURE").exists()
        assert {"target", "frontier", "out"} <= answered.keys()
        assert answered["out"] == "moved"
        assert answered["target"]["metric"] == "demographic_parity"
        assert (answered["target"]["kind"], answered["target"]["value"]) == ("max_gap", 0.3)
        prices = [point["price"] for point in answered["frontier"]]
        assert prices == sorted(prices)
        assert answered["frontier"][0].keys() == {"price", "gap", "gap_standard_error", "accuracy", "positive_rate"}
        assert FairDPClassifier.load("moved").target_.max_gap == 0.3
        assert run("verify", "moved").code == 0

        refused = run("certify", "moved", "away.csv", "--epsilon", "1")
        assert (refused.code, " in entry 1 of the ledger" in refused.err) == (2, True)
        certified = run("certify", "moved", "fresh.csv", "--epsilon", "1", "--seed", "1", *SETTINGS[-2:])
        assert (certified.code, certified.err) == (0, "")
        # What certified one of them is used for both.
        refused = run("certify", "model", "fresh.csv", "--epsilon", "1")
        assert (refused.code, " in entry 2 of the ledger" in refused.err) == (2, True)
        assert run("verify", "moved").code == 0
        assert run("verify", "model").code == 0

    def test_it_prints_the_frontier_and_that_there_is_no_certificate(self, run, golden):
        priced_model().save("model", overwrite=True)
        done = run("retarget", "model", "--min-ratio", "0.8", "--price", "2", "--out", "moved")
        assert done.code == 0
        golden("models", "retarget", done.out + done.err, figures=False)

    def test_bad_input_is_refused_in_one_line(self, refused):
        def retarget(*asked, out="moved"):
            refused("retarget", "model", *asked, "--out", out)

        retarget("--max-gap", "0.3")
        fitted().save("model", overwrite=True)
        retarget("--max-gap", "0.3")
        fitted(method="fairdp_frontier", module=Own).save("model", overwrite=True)
        retarget("--max-gap", "0.3")
        priced_model().save("model", overwrite=True)
        for asked in ((), ("--parity", "equalized_odds"), ("--max-gap", "0.1"), ("--max-gap", "2")):
            retarget(*asked)
        retarget("--max-gap", "0.3", out="model")
        Path("other").mkdir()
        Path("other/file").touch()
        retarget("--max-gap", "0.3", out="other")

    def test_a_target_that_is_certainly_missed_ends_with_one(self, run, golden):
        priced_model().save("model", overwrite=True)
        done = run("retarget", "model", "--max-gap", "0.1", "--price", "0.01", "--out", "moved")
        assert done.code == 1
        golden("models", "retarget, missed", done.err, figures=False)
        assert run("verify", "moved").code == 0
