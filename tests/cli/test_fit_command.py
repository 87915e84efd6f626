"""Commands: sources of records, runs, predictions and measurements."""

import json
import os
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from cli_cases import people
from fairdp.accounting.spent import READ_FROM_TABLE
from fairdp.cli.terminal import progress_bar
from fairdp.fitting import FitReport, fit_source
from fairdp.ledger.ledger import Spending
from fairdp.records import load_records, load_saved, predict_table
from pool import SHORT

UNCERTIFIED = (*SHORT, "--certify-fraction", 0)
ONE = {"certify_metrics": ("demographic_parity",)}
SETTINGS = {"epsilon": 2.0, "n_steps": 20, "sample_rate": 0.2, "random_state": 0, **ONE}


def fitted(source, out=None, *, checkpoint=None, resume=False, overwrite=False, **parameters) -> FitReport:
    options = {"checkpoint": checkpoint, "resume": resume, "overwrite": overwrite}
    return fit_source(source, {**SETTINGS, **parameters}, out=out, **options)


def test_records_of_a_table_are_split_and_named(source):
    records = load_records(source)
    assert records.name == "people.csv"
    assert records.train.n_samples + records.test.n_samples == 600
    assert records.train.group_names == ("f", "m")
    assert records.public_assumptions == (READ_FROM_TABLE,)
    assert any("count as public" in text for text in records.warnings)


def test_a_declared_schema_needs_no_assumption(declared):
    records = load_records(declared)
    assert records.public_assumptions == ()
    assert records.warnings == ()


def test_with_a_schema_removing_a_row_leaves_the_others_where_they_were(declared):
    """The whole path from file to split: no row depends on another."""

    def sides(frame):
        frame.to_csv(declared.table, index=False)
        records = load_records(declared, split_key=bytes(16))
        return [
            sorted(map(tuple, np.column_stack([s.X, s.y, s.groups]).tolist())) for s in (records.train, records.test)
        ]

    whole = sides(people())
    for row in (0, 17, 599):
        rest = sides(people().drop(index=row))
        removed = [list(side) for side in whole]
        for before, after in zip(removed, rest, strict=True):
            for record in after:
                before.remove(record)
        assert sum(map(len, removed)) == 1


def test_named_data_sets(source):
    named = load_records(replace(source, table=None, label=None, sensitive=(), dataset="synthetic"))
    assert (named.name, named.warnings) == ("synthetic", ())


@pytest.mark.parametrize(
    "changes",
    [
        *({"dataset": "adult"}, {"label": None}, {"sensitive": ()}, {"table": None, "dataset": "adult"}),
        {"table": None, "dataset": "adlt", "label": None, "sensitive": ()},
        *({"table": None}, {"test_fraction": 1.0}),
    ],
    ids=str,
)
def test_sources_that_say_too_much_or_too_little_are_refused(refuses, source, changes):
    refuses(lambda: load_records(replace(source, **changes)))


def test_fit_reports_and_saves(source, tmp_path):
    report = fitted(source, tmp_path / "model")
    assert report.n_train + report.n_certify + report.n_test == 600
    assert 1.9 <= report.privacy.epsilon <= 2
    assert set(report.metrics["positive_rate_by_group"]) == {"f", "m"}
    assert report.seconds["total"] >= report.seconds["train"] > 0
    assert "The 4 columns of the table were read with noise" in report.statement
    assert "Assumed public" not in report.statement
    assert "seed is secret" in report.statement
    assert json.loads((tmp_path / "model" / "privacy.json").read_text())["epsilon"] == report.privacy.epsilon
    saved = json.loads((tmp_path / "model" / "certificate.json").read_text())
    assert saved["certified"] is report.certificate.certified is True
    assert saved["statement"] == report.certificate_statement


def test_what_can_be_refused_is_refused_before_training(source, tmp_path, monkeypatch):
    from fairdp.run import fit

    monkeypatch.setattr(fit, "train_model", pytest.fail)
    (tmp_path / "file").write_text("text")
    for out in (tmp_path, tmp_path / "file", tmp_path / "file" / "model"):
        with pytest.raises(ValueError, match="output folder"):
            fitted(source, out)
    for parameters in ({"epsilon": 0.0}, {"delta": 0.5}, {"method": "x"}, {"sample_rate": 2.0}, {"n_steps": 0}):
        with pytest.raises(ValueError, match=next(iter(parameters))):
            fitted(source, **parameters)


def test_a_model_is_replaced_only_with_overwrite_and_asked_for_before_training(source, tmp_path, monkeypatch):
    from fairdp.run import fit

    fitted(source, tmp_path / "model")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with monkeypatch.context() as patched:
        patched.setattr(fit, "train_model", pytest.fail)
        with pytest.raises(ValueError, match=r"model' holds a model already; choose another folder, or add overwrite"):
            fitted(source, tmp_path / "model")
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    report = fitted(source, tmp_path / "model", random_state=1, overwrite=True)
    assert report.warnings[-1].endswith("model' has been replaced.")
    assert sorted(os.listdir(tmp_path)) == ["model", "people.csv"]


def test_of_two_fits_into_one_folder_one_wins_whole_and_the_other_says_so_before_training(source, tmp_path):
    refused = []

    def begin_another(run_plan=Spending.spend):
        def spend(spending, *arguments, **named):
            with pytest.raises(ValueError, match="another command is writing to") as refusal:
                fitted(source, tmp_path / "model", random_state=1)
            refused.append(refusal)
            return run_plan(spending, *arguments, **named)

        return spend

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Spending, "spend", begin_another())
        report = fitted(source, tmp_path / "model")
    assert refused
    assert json.loads((tmp_path / "model" / "privacy.json").read_text())["epsilon"] == report.privacy.epsilon
    assert sorted(os.listdir(tmp_path)) == ["model", "people.csv"]


@pytest.mark.parametrize("place", ["none/run.ckpt", ".", "file/run.ckpt"])
def test_a_checkpoint_that_cannot_be_written_is_refused_before_training_by_its_own_name(
    source, tmp_path, place, monkeypatch
):
    from fairdp.training import loop

    (tmp_path / "file").write_text("text")
    monkeypatch.setattr(loop.Trainer, "step", pytest.fail)
    with pytest.raises(ValueError, match=r"checkpoint"):
        fitted(source, checkpoint=tmp_path / place)


def test_the_checkpoint_is_removed_once_the_model_is_safe(source, tmp_path):
    fitted(source, tmp_path / "model", checkpoint=tmp_path / "run.ckpt")
    assert sorted(os.listdir(tmp_path)) == ["model", "people.csv"]


def test_predictions_follow_the_saved_model_and_the_positive_label(declared, tmp_path):
    fitted(declared, tmp_path / "model")
    model, schema = load_saved(tmp_path / "model")
    rows = people(50, seed=1)
    rows[["job", "age"]].to_csv(tmp_path / "new.csv", index=False)
    for name, read in (("out.csv", pd.read_csv), ("out.parquet", pd.read_parquet)):
        report = predict_table(tmp_path / "model", tmp_path / "new.csv", tmp_path / name)
        found = read(tmp_path / name)
        assert report["n_rows"] == len(found) == 50
        np.testing.assert_array_equal(found["decision"] == "yes", found["score"] >= 0)
        np.testing.assert_allclose(found["probability"], model.probabilities(schema.encode(rows[["job", "age"]])))
        assert report["positive_rate"] == pytest.approx((found["score"] >= 0).mean())


def test_the_positive_label_can_be_chosen(source, tmp_path):
    """Turning the labels round turns the training labels round."""
    as_usual, turned = (load_records(replace(source, positive=label)).train.y.mean() for label in ("yes", "no"))
    assert as_usual == pytest.approx(1 - turned, abs=0.1)


def test_evaluation_gives_intervals_around_the_metrics(answer, declared, tmp_path):
    fitted(declared, tmp_path / "model", epsilon=float("inf"), n_steps=60, learning_rate=0.2)
    people(400, seed=2).to_csv(tmp_path / "labelled.csv", index=False)
    evaluate = ("evaluate", tmp_path / "model", tmp_path / "labelled.csv", "--seed", 0, "--confidence")
    report = answer(*evaluate, 0.9)
    assert report["n_test"] == 400
    for name, (low, high) in report["intervals"].items():
        assert low <= high
        if not name.endswith("difference"):  # The bootstrap of a gap is biased upwards, as gaps are.
            assert low <= report["metrics"][name] <= high, name
    assert answer(*evaluate, 0.99)["intervals"]["auc"][0] < report["intervals"]["auc"][0]
    assert any("not private" in text for text in report["warnings"])


@pytest.mark.parametrize(("dataset", "confidence"), [(None, 0.95), ("synthetic", 95), ("synthetic", 0.95)])
def test_what_cannot_be_evaluated_is_refused(refused, taken, dataset, confidence):
    taken(*UNCERTIFIED)
    refused("evaluate", "model", *(() if dataset is None else ("--dataset", dataset)), "--confidence", confidence)


def test_a_model_of_records_that_are_no_table_says_so(answer, source, tmp_path):
    named = replace(source, table=None, dataset="synthetic", label=None, sensitive=())
    fitted(named, tmp_path / "model", certify_fraction=0.0)
    with pytest.raises(ValueError, match=r"does not read tables; use FairDPClassifier\.load in Python\.$"):
        predict_table(tmp_path / "model", source.table, tmp_path / "out.csv")
    assert answer("evaluate", tmp_path / "model", "--dataset", "synthetic", "--seed", 0)["n_test"] == 10_000


def test_a_collapsed_model_is_called_one(declared, tmp_path):
    """Labels that hardly vary and that no input explains: the same decision for everybody is the best one."""
    settings = {"epsilon": float("inf"), "n_steps": 60, "learning_rate": 0.2}
    learned = fitted(declared, **settings)
    people().assign(y=["no" if row % 40 == 0 else "yes" for row in range(600)]).to_csv(declared.table, index=False)
    collapsed = fitted(declared, **settings)
    assert collapsed.metrics["positive_rate"] == 1
    assert any("predicts the positive class for nearly everybody" in text for text in collapsed.warnings)
    assert not any("nearly everybody" in text for text in learned.warnings)


def test_there_is_no_progress_bar_without_a_terminal(capsys):
    with progress_bar("training") as observe:
        observe(1, 10)
    assert capsys.readouterr() == ("", "")
