"""What `fairdp fit` says first about a model, and how its exit code follows from it."""

import json
from dataclasses import replace

import click
import numpy as np
import pandas as pd
import pytest

from answer_cases import MET, QUALITY, TARGET, verdict
from fairdp.cli.exits import exit_unless_good
from fairdp.cli.frontiers import print_frontier, print_verdict
from fairdp.frontier.outlook import GroupOutlook, outlook_warning
from fairdp.frontier.points import FrontierPoint


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (verdict("good", target=MET), ["has learnt", "target is met"]),
        (verdict("good", target=None), ["without a fairness target"]),
        (
            verdict("missed"),
            ["gap about 0.12 instead of 0.03", "2.1 points of accuracy", "--price 0.28", "--method dp_postprocess"],
        ),
        (verdict("missed", target=replace(TARGET, rest=None)), ["no price", "--max-gap", "--epsilon"]),
        (
            verdict("missed", target=replace(TARGET, kind="min_ratio", value=0.8, estimate=0.6, rest=None)),
            ["ratio about 0.60 instead of 0.80", "looser --min-ratio"],
        ),
        (verdict("missed", target=replace(TARGET, rest=(0.1, 0.0))), ["although", "stricter target"]),
        (verdict("weak", quality=replace(QUALITY, learnt="no")), ["next to nothing", "more records", "--epsilon"]),
        (
            verdict("collapsed", positive_rate=0.001, base_rate=0.03),
            ["negative decision", "0.001", "0.030 of the labels", "--cost-ratio 33"],
        ),
        (
            verdict("collapsed", positive_rate=0.001, quality=replace(QUALITY, learnt="no")),
            ["next to nothing", "labels and rows"],
        ),
        (
            verdict("collapsed", positive_rate=0.001, has_prices=False),
            ["--method fairdp_frontier with --cost-ratio"],
        ),
        (verdict("undecided", target=replace(TARGET, met="undecided")), ["whether the fairness target", "--epsilon"]),
        (verdict("undecided", quality=None, target=None, counted_on=None), ["--certify-fraction above 0"]),
    ],
)
def test_the_first_line_says_why_and_what_to_try(found, said, capsys):
    print_verdict(found)
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith(f"{found.verdict}: ")
    assert [text for text in said if text not in first] == []
    assert "`" not in first


def test_target_quality_and_hidden_groups_have_a_line_each(capsys):
    print_verdict(verdict("missed", target=replace(TARGET, explicit=False, unmeasured=("Other", "<b>"))))
    _, target, quality, hidden = capsys.readouterr().out.splitlines()
    assert target.startswith("target: demographic parity gap about 0.120 (0.100 to 0.140) among the groups")
    assert "at most 0.03 was aimed at, by default: missed, at a price of 0.10" in target
    assert quality.startswith("quality: accuracy about 0.840 (0.832 to 0.848), majority class 0.760; ranking")
    assert quality.endswith("learnt. Counted with noise on held-out records, the ranking on training records.")
    assert hidden.startswith("not measured: Other, <b>. The noise hides")


def test_a_target_without_evidence_is_stated_and_left_open(capsys):
    nothing = replace(TARGET, estimate=None, error=None, met="undecided", rest=None, price=None)
    print_verdict(verdict("undecided", quality=None, target=nothing, counted_on=None))
    assert "nothing was counted" in capsys.readouterr().out


def code_of(found, *, strict=False):
    try:
        exit_unless_good(found, strict=strict)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    return 0


@pytest.mark.parametrize("explicit", [True, False])
def test_only_a_stated_target_that_is_missed_fails(explicit, capsys):
    assert code_of(verdict("missed", target=replace(TARGET, explicit=explicit))) == int(explicit)
    assert ("missed: --max-gap 0.03: estimated at 0.120." in capsys.readouterr().err) == explicit


@pytest.mark.parametrize("word", ["yes", "undecided"])
def test_a_stated_target_that_is_not_certainly_missed_passes(word):
    assert code_of(verdict("undecided", target=replace(TARGET, met=word))) == 0


@pytest.mark.parametrize("word", ["good", "missed", "weak", "collapsed", "undecided"])
def test_strict_passes_a_good_verdict_alone(word, capsys):
    found = verdict(word, target=replace(TARGET, explicit=False))
    assert code_of(found, strict=True) == int(word != "good")
    assert (f"the verdict is {word}" in capsys.readouterr().err) == (word != "good")


def test_a_few_rules_of_a_frontier_are_shown_with_the_chosen_one(capsys):
    points = [
        FrontierPoint(
            price=0.01 * k, gap=0.2 - 0.0065 * k, gap_standard_error=0.006, accuracy=0.86 - 0.001 * k, positive_rate=0.2
        )
        for k in range(31)
    ]
    print_frontier(points, replace(points[15], price=0.153))
    rows = [line for line in capsys.readouterr().out.splitlines() if "±" in line][1:]
    assert len(rows) == 7
    assert rows[0].split()[:4] == ["0.00", "0.200", "±", "0.006"]
    assert next(row for row in rows if "chosen" in row).startswith("  0.15")
    assert rows[-1].split()[0] == "0.30"


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
    asked = ("--label", "y", "--positive", "yes", "--sensitive", "sex", "--method", "fairdp_frontier")
    return run("fit", table, *asked, "--epsilon", 2, "--seed", 0, *more)


def test_json_has_the_keys_that_the_contract_names(run, tables):
    report = json.loads(fit(run, tables / "plain.csv", "--json").out)
    assert report["positive"] == "yes"
    assert {"metric", "kind", "value", "estimate", "met"} <= set(report["target"])
    assert {"accuracy", "majority_accuracy", "learnt"} <= set(report["quality"])
    assert set(report["frontier"][0]) == {"price", "gap", "gap_standard_error", "accuracy", "positive_rate"}
    prices = [point["price"] for point in report["frontier"]]
    assert prices == sorted(prices)
    assert report["verdict"] in {"good", "missed", "weak", "collapsed", "undecided"}
    assert report["quality"]["learnt"] == "yes"


def test_a_stated_target_that_its_price_does_not_pay_for_is_exit_1(run, tables):
    told = ("--max-gap", 0.02, "--price", 0.01)
    result = fit(run, tables / "plain.csv", *told)
    assert result.code == 1
    assert result.out.startswith("result    target missed: fairdp_frontier on plain.csv; ")
    assert "missed: --max-gap 0.02" in result.err
    assert fit(run, tables / "plain.csv", "--price", 0.01).code == 0
    assert fit(run, tables / "plain.csv", "--price", 0.01, "--strict").code == 1


def test_shuffled_labels_are_no_good_model(run, tables):
    report = json.loads(fit(run, tables / "shuffled.csv", "--json").out)
    assert report["quality"]["learnt"] != "yes"
    assert report["verdict"] in {"weak", "collapsed", "undecided"}


def test_rare_labels_that_are_never_predicted_suggest_a_cost_ratio(run, tables):
    out = fit(run, tables / "rare.csv", "--epsilon", 1).out
    assert out.startswith("result    not usable, nearly everybody gets the same decision: ")
    assert "next      the model was not kept, though its epsilon is spent" in out
    assert "--cost-ratio" in out


def test_a_method_without_a_target_or_paid_counts_is_undecided(run, tables):
    asked = ("--label", "y", "--positive", "yes", "--sensitive", "sex", "--method", "dpsgd", "--n-steps", 3)
    report = json.loads(run("fit", tables / "plain.csv", *asked, "--certify-fraction", 0, "--json").out)
    assert (report["quality"], report["target"], report["frontier"]) == (None, None, None)
    assert report["verdict"] == "undecided"


def test_a_plan_names_the_groups_that_cannot_be_measured(run):
    asked = ("plan", "--method", "fairdp_frontier", "--epsilon", 1, "--group-sizes", "a=20000,b=8000,c=200")
    outlook = json.loads(run(*asked, "--json").out)["outlook"]
    assert [group["measurable"] for group in outlook] == [True, True, False]
    small = outlook[-1]
    assert small["records_needed"] > small["records"]
    enough = f"a=20000,b=8000,c={round(1.02 * small['records_needed'] / 0.8)}"
    again = json.loads(run(*asked[:-1], enough, "--json").out)["outlook"]
    assert all(group["measurable"] for group in again)
    text = run(*asked).out
    assert "too little" in text
    assert "± 0.0" in text


def test_groups_that_cannot_be_measured_are_named_before_training_with_what_would_do(run, tables, tmp_path):
    frame = pd.read_csv(tables / "plain.csv")
    frame.loc[frame.index % 100 == 0, "sex"] = "x"
    frame.to_csv(tmp_path / "small.csv", index=False)
    told = fit(run, tmp_path / "small.csv", "--out", tmp_path / "model").err.splitlines()
    assert told[0] == "before training: the noise will hide how these groups are treated: x."
    # The figures once, when the share of positive labels is known too.
    hidden = [line for line in told if "±" in line or "not seen" in line]
    assert len(hidden) == 1
    assert hidden[0].startswith("warning: the noise hides how these groups are treated: x (")
    assert "training records or an epsilon of" in hidden[0]
    assert "before training" not in fit(run, tables / "plain.csv", "--out", tmp_path / "other").err


def test_a_rate_that_is_not_seen_has_no_error_beyond_what_a_rate_can_have():
    group = GroupOutlook(
        group="x", records=9.0, standard_error=4.79, measurable=False, records_needed=900.0, epsilon_needed=30.0
    )
    said = outlook_warning([group, replace(group, standard_error=0.24)])
    assert "x (not seen at all; 900 training records" in said
    assert "x (seen to about ±0.24; " in said
    assert "4.79" not in said


def test_a_table_that_is_spent_on_for_nothing_is_noticed_before_training(run, tables):
    told = fit(run, tables / "plain.csv").err.splitlines()
    assert told[0] == "before training: without --out the model is not kept, though its epsilon is spent."


def test_a_search_does_not_say_it_once_for_each_trial(run, tables, tmp_path):
    frame = pd.read_csv(tables / "plain.csv").iloc[:1500]
    frame.loc[frame.index % 100 == 0, "sex"] = "x"
    frame.to_csv(tmp_path / "small.csv", index=False)
    asked = ("--label", "y", "--positive", "yes", "--sensitive", "sex", "--grid", "learning_rate=0.1,0.5")
    assert "before training" not in run("tune", tmp_path / "small.csv", *asked, "--seed", 0).err


def test_a_plan_of_another_method_has_no_such_part(run):
    asked = ("plan", "--method", "dpsgd", "--epsilon", 1, "--group-sizes", "20000,200", "--json")
    assert json.loads(run(*asked).out)["outlook"] is None
