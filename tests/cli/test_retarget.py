"""`fairdp retarget`: from a saved folder to a new one with another target, without a record; refusals in one line."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from classifier_cases import fitted
from cli_cases import SCHEMA
from fairdp import FairDPClassifier
from fairdp.saved.used_records import read_used_records
from onnx_cases import Own
from priced_cases import priced_model

FIT = ("fit", "people.csv", "--label", "y", "--sensitive", "sex", "--schema", "schema.yaml", "--out", "model")
SETTINGS = ("--method", "fairdp_frontier", "--epsilon", "8", "--n-steps", "20", "--seed", "0")


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

        used = read_used_records(Path("moved.register"))
        assert set(used.uses) == {"training", "certificate 1"}
        assert Path("moved.register").stat().st_mode & 0o077 == 0
        refused = run("certify", "moved", "away.csv", "--epsilon", "1")
        assert (refused.code, "for training" in refused.err) == (2, True)
        certified = run("certify", "moved", "fresh.csv", "--epsilon", "1", "--seed", "1")
        assert (certified.code, certified.err) == (0, "")
        assert run("verify", "moved").code == 0
        assert run("verify", "model").code == 0

    def test_it_prints_the_frontier_and_that_there_is_no_certificate(self, run):
        priced_model().save("model", overwrite=True)
        done = run("retarget", "model", "--min-ratio", "0.8", "--price", "2", "--out", "moved")
        assert done.code == 0
        assert done.out.startswith("result    ")
        assert "demographic parity ratio about " in done.out
        assert "at least 0.8 asked for" in " ".join(done.out.split())
        assert "positive rate" in done.out
        assert "not certified: the rule was moved after it was certified" in " ".join(done.out.split())
        assert "are not listed in" in done.err
        assert not Path("moved.register").exists()

    def refused(self, run, *words: str, asked=("--max-gap", "0.3"), out: str = "moved") -> None:
        before = sorted(Path().rglob("*"))
        done = run("retarget", "model", *asked, "--out", out)
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
        assert done.err.startswith("fairdp: ")
        assert all(word in done.err for word in words), done.err
        assert sorted(Path().rglob("*")) == before

    def test_bad_input_is_refused_in_one_line(self, run):
        self.refused(run, "'model' is not a saved model")
        fitted().save("model", overwrite=True)
        self.refused(run, "method='fairdp' has no frontier", "fit one with")
        fitted(method="fairdp_frontier", module=Own).save("model", overwrite=True)
        self.refused(run, "your own module", ".retarget(...).save(out)")
        priced_model().save("model", overwrite=True)
        self.refused(run, "--max-gap, --min-ratio or --price", asked=())
        self.refused(run, "No such option", asked=("--parity", "equalized_odds"))
        self.refused(run, "aims at this target already", asked=("--max-gap", "0.1"))
        self.refused(run, "--max-gap must be in [0, 1]", asked=("--max-gap", "2"))
        self.refused(run, "--out='model' holds a model already; choose a new folder", out="model")
        Path("other").mkdir()
        Path("other/file").touch()
        self.refused(run, "holds other files", out="other")
        Path("moved.register").write_text("mine")
        self.refused(run, "moved.register' would be overwritten")

    def test_a_target_that_is_certainly_missed_ends_with_one(self, run):
        priced_model().save("model", overwrite=True)
        done = run("retarget", "model", "--max-gap", "0.1", "--price", "0.01", "--out", "moved")
        assert done.code == 1
        assert "missed: --max-gap 0.1: estimated at 0." in done.err
        assert run("verify", "moved").code == 0
