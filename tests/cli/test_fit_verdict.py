"""The verdict of `fairdp fit` on real fits, its exit code, and what is noticed before training."""

import json

import numpy as np
import pandas as pd
import pytest

ONE = ("--certify-metrics", "demographic_parity")


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Records whose label follows the inputs, and more often so in one group; the same with shuffled or rare labels."""
    rng = np.random.default_rng(0)
    n_rows, folder = 8000, tmp_path_factory.mktemp("tables")
    sex = rng.choice(["f", "m"], n_rows)
    age = rng.integers(18, 90, n_rows)
    hours = np.clip(rng.normal(36, 8, n_rows) + 8 * (sex == "m"), 0, 80).round()
    score = (age - 54) / 20 + (hours - 40) / 5 + rng.normal(0, 0.5, n_rows)
    frame = pd.DataFrame({"age": age, "hours": hours, "sex": sex, "y": np.where(score > 0, "yes", "no")})
    labels = {
        "plain": frame.y,
        "shuffled": rng.permutation(frame.y),
        "rare": np.where(rng.random(n_rows) < 0.06 / (1 + np.exp(-score)), "yes", "no"),
    }
    for name, y in labels.items():
        frame.assign(y=y).to_csv(folder / f"{name}.csv", index=False)
    return folder


def fit(run, table, *more):
    asked = ("--label", "y", "--positive", "yes", "--sensitive", "sex", "--method", "fairdp_frontier", *ONE)
    return run("fit", table, *asked, "--epsilon", 2, "--seed", 0, *more)


def test_json_has_the_keys_that_the_contract_names_and_a_model_that_is_not_kept_is_noticed(run, tables):
    told = fit(run, tables / "plain.csv", "--json")
    notes = told.err.splitlines()
    assert notes[0] == "before training: without --out the model is not kept, though its epsilon is spent."
    report = json.loads(told.out)
    assert report["positive"] == "yes"
    assert {"metric", "kind", "value", "estimate", "met"} <= set(report["target"])
    assert {"accuracy", "majority_accuracy", "learnt"} <= set(report["quality"])
    assert set(report["frontier"][0]) == {"price", "gap", "gap_standard_error", "accuracy", "positive_rate"}
    prices = [point["price"] for point in report["frontier"]]
    assert prices == sorted(prices)
    assert report["verdict"] in {"good", "missed", "weak", "collapsed", "undecided"}
    assert report["quality"]["learnt"] == "yes"


def test_a_stated_target_that_its_price_does_not_pay_for_is_exit_1(run, golden, tables):
    told = ("--max-gap", 0.02, "--price", 0.01)
    result = fit(run, tables / "plain.csv", *told)
    assert result.code == 1
    golden("models", "fit, target missed", result.out + result.err, figures=False)
    assert fit(run, tables / "plain.csv", "--price", 0.01).code == 0
    assert fit(run, tables / "plain.csv", "--price", 0.01, "--strict").code == 1


def test_shuffled_labels_are_no_good_model(run, tables):
    report = json.loads(fit(run, tables / "shuffled.csv", "--json").out)
    assert report["quality"]["learnt"] != "yes"
    assert report["verdict"] in {"weak", "collapsed", "undecided"}


def test_rare_labels_that_are_never_predicted_suggest_a_cost_ratio(run, golden, tables):
    golden("models", "fit, rare labels", fit(run, tables / "rare.csv", "--epsilon", 1).out, figures=False)


def test_a_method_without_a_target_or_paid_counts_is_undecided(run, tables):
    asked = ("--label", "y", "--positive", "yes", "--sensitive", "sex", "--method", "dpsgd", "--n-steps", 3)
    report = json.loads(run("fit", tables / "plain.csv", *asked, "--certify-fraction", 0, "--json").out)
    assert (report["quality"], report["target"], report["frontier"]) == (None, None, None)
    assert report["verdict"] == "undecided"


def test_a_plan_names_the_groups_that_cannot_be_measured(run, golden):
    asked = ("plan", "--method", "fairdp_frontier", "--epsilon", 1, "--group-sizes", "a=20000,b=8000,c=200")
    outlook = json.loads(run(*asked, "--json").out)["outlook"]
    assert [group["measurable"] for group in outlook] == [True, True, False]
    small = outlook[-1]
    assert small["records_needed"] > small["records"]
    enough = f"a=20000,b=8000,c={round(1.02 * small['records_needed'] / 0.8)}"
    again = json.loads(run(*asked[:-1], enough, "--json").out)["outlook"]
    assert all(group["measurable"] for group in again)
    golden("models", "plan with a small group", run(*asked).out, figures=False)


def test_groups_that_cannot_be_measured_are_named_before_training_with_what_would_do(run, tables, tmp_path):
    frame = pd.read_csv(tables / "plain.csv")
    frame.loc[frame.index % 100 == 0, "sex"] = "x"
    frame.to_csv(tmp_path / "small.csv", index=False)
    told = fit(run, tmp_path / "small.csv", "--out", tmp_path / "model").err.splitlines()
    assert told[0] == "before training: too few records at this epsilon to measure x."
    # The figures once, when the share of positive labels is known too.
    hidden = [line for line in told if "±" in line or "not seen" in line]
    assert len(hidden) == 1
    assert hidden[0].startswith("warning: the noise hides how these groups are treated: x (")
    assert "training records or an epsilon of" in hidden[0]
    assert "before training" not in fit(run, tables / "plain.csv", "--out", tmp_path / "other").err


def test_a_search_does_not_say_it_once_for_each_trial(run, tables, tmp_path):
    frame = pd.read_csv(tables / "plain.csv").iloc[:1500]
    frame.loc[frame.index % 100 == 0, "sex"] = "x"
    frame.to_csv(tmp_path / "small.csv", index=False)
    asked = ("--label", "y", "--positive", "yes", "--sensitive", "sex", "--grid", "learning_rate=0.1,0.5")
    assert "before training" not in run("tune", tmp_path / "small.csv", *asked, "--seed", 0).err


def test_a_plan_of_another_method_has_no_such_part(run):
    asked = ("plan", "--method", "dpsgd", "--epsilon", 1, "--group-sizes", "20000,200", "--json")
    assert json.loads(run(*asked).out)["outlook"] is None
