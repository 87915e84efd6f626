"""From a DataFrame with mixed columns to a model and back, by a declared schema; to the bit as commands do it."""

import json

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest
import yaml
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from fairdp import DataError, FairDPClassifier, ParameterError, SchemaEncoder
from fairdp.cli import main
from fairdp.data.grouped import GroupedData
from fairdp.data.schema import TableSchema
from reason_cases import APPLICANTS, applicants

pytestmark = pytest.mark.usefixtures("rough_bounds")

SCHEMA = TableSchema.from_dict(APPLICANTS)
TABLE = applicants(1200)
NEW = applicants(100, seed=1)
SHORT = {"epsilon": 4.0, "random_state": 0, "certify_fraction": 0.0, "n_steps": 20}


def classifier(**changes) -> FairDPClassifier:
    return FairDPClassifier(**{**SHORT, **changes})


@pytest.fixture(scope="module")
def model() -> FairDPClassifier:
    return classifier().fit(TABLE, schema=APPLICANTS)


@pytest.fixture
def files(tmp_path):
    TABLE.to_csv(tmp_path / "loans.csv", index=False)
    NEW.assign(who=[f"{i:04d}" for i in range(len(NEW))]).to_csv(tmp_path / "new.csv", index=False)
    (tmp_path / "loans.yaml").write_text(yaml.safe_dump(APPLICANTS))
    return tmp_path


def command(*arguments) -> None:
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    assert stop.value.code == 0


def decisions_of(folder, files) -> pd.DataFrame:
    command("predict", folder, files / "new.csv", "--out", files / "out.parquet", "--id", "who")
    return pd.read_parquet(files / "out.parquet")


def test_a_schema_stands_for_label_groups_and_encoding(model):
    data = GroupedData(SCHEMA.encode(TABLE), SCHEMA.encode_labels(TABLE), *SCHEMA.encode_groups(TABLE))
    by_hand = classifier().fit_grouped(data, feature_schema=SCHEMA.to_dict())
    assert np.array_equal(model.predict_proba(NEW), by_hand.predict_proba(NEW))
    assert model.group_names_ == ("zq1", "zq2", "zq3")
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.feature_schema_ == SCHEMA.to_dict()


def test_every_form_of_schema_and_table_gives_the_same_model(model, files):
    for table, schema in ((polars.from_pandas(TABLE), files / "loans.yaml"), (pa.Table.from_pandas(TABLE), SCHEMA)):
        again = classifier().fit(table, schema=schema)
        assert np.array_equal(again.decision_function(NEW), model.decision_function(NEW))
        assert np.array_equal(again.predict(polars.from_pandas(NEW)), model.predict(NEW))


def test_labels_and_groups_may_be_given_beside_the_table(model):
    inputs = TABLE.drop(columns=["repaid", "ward"])
    apart = classifier().fit(inputs, TABLE["repaid"], sensitive_features=TABLE[["ward"]], schema=APPLICANTS)
    assert np.array_equal(apart.decision_function(NEW), model.decision_function(NEW))
    shuffled = TABLE["repaid"].sample(frac=1, random_state=0)
    # Rows belong together by their order, not by an index that happens to be there.
    moved = classifier().fit(inputs, shuffled, sensitive_features=TABLE["ward"].tolist(), schema=APPLICANTS)
    assert not np.array_equal(moved.decision_function(NEW), model.decision_function(NEW))


def test_predictions_compare_with_labels_of_any_type():
    numbers = APPLICANTS | {"positive": 1, "negative": 0}
    for labels in (TABLE["repaid"].eq("yes").astype(int), TABLE["repaid"].eq("yes").astype(float)):
        fitted = classifier().fit(TABLE.assign(repaid=labels), schema=numbers)
        assert fitted.classes_.dtype == labels.dtype
        assert set(fitted.predict(NEW)) <= {0, 1}
        told = NEW["repaid"].eq("yes").astype(labels.dtype)
        assert fitted.score(NEW, told) == fitted.score(NEW.assign(repaid=told))
    truth = APPLICANTS | {"positive": "True", "negative": "False"}
    fitted = classifier().fit(TABLE.assign(repaid=TABLE["repaid"].eq("yes")), schema=truth)
    assert fitted.classes_.dtype == bool


def test_measures_take_labels_and_groups_from_the_table(model):
    given = model.evaluate(NEW, NEW["repaid"], sensitive_features=NEW["ward"])
    found = model.evaluate(NEW)
    assert found.by_group.to_numpy().tolist() == given.by_group.to_numpy().tolist()
    assert model.score(NEW) == given.overall["accuracy"]
    assert model.reasons(NEW).shape == (100, 5)


def test_a_method_that_decides_by_group_finds_it_in_the_table():
    fitted = classifier(method="dp_postprocess", n_steps=20, certify_fraction=0.2).fit(TABLE, schema=APPLICANTS)
    given = fitted.predict(NEW.drop(columns="ward"), sensitive_features=NEW["ward"])
    assert np.array_equal(fitted.predict(NEW), given)
    with pytest.raises(ValueError, match="sensitive_features"):
        fitted.predict(NEW.drop(columns="ward"))


def test_what_python_fits_commands_predict_with_the_same_bits(model, files):
    model.save(files / "model")
    written = decisions_of(files / "model", files)
    assert written["score"].tolist() == model.decision_function(NEW).tolist()
    assert written["probability"].tolist() == model.predict_proba(NEW)[:, 1].tolist()
    assert written["decision"].tolist() == model.predict(NEW).tolist()
    loaded = FairDPClassifier.load(files / "model")
    assert loaded.decision_function(NEW).tolist() == model.decision_function(NEW).tolist()
    assert loaded.evaluate(NEW).overall.tolist() == model.evaluate(NEW).overall.tolist()


def test_sizes_and_the_name_of_the_table_come_from_the_schema_and_stay_out_of_the_parameters(tmp_path):
    sizes = {"zq1": 300, "zq2": 600, "zq3": 300}
    declared = APPLICANTS | {"group_sizes": sizes, "table": "loans of 2026"}
    fitted = classifier(ledger=str(tmp_path / "ledger")).fit(TABLE, schema=declared)
    assert fitted.privacy_.group_sizes == "declared"
    assert fitted.privacy_.planned_sizes == sizes
    assert fitted.privacy_.ledger.table == "loans of 2026"
    assert fitted.group_sizes is None
    assert fitted.table == "records"
    with pytest.raises(ParameterError, match=r"^group_sizes=.* is not what the schema says"):
        classifier(group_sizes=sizes | {"zq1": 200}).fit(TABLE, schema=declared)


def test_names_of_groups_count_as_declared_unless_the_schema_was_read_from_rows(model):
    assert model.privacy_.public_assumptions == ()
    read = classifier().fit(TABLE, schema=APPLICANTS | {"declared": False})
    assert read.privacy_.public_assumptions == ("schema_read_from_table",)


def test_clones_searches_and_cross_validation_hand_the_schema_on():
    search = GridSearchCV(classifier(), {"max_gap": [0.05, 0.2]}, cv=2)
    search.fit(TABLE, schema=APPLICANTS)
    assert search.best_estimator_.feature_schema_ == SCHEMA.to_dict()
    assert search.predict(NEW).shape == (100,)
    found = cross_validate(clone(classifier()), TABLE, cv=2, params={"schema": APPLICANTS}, return_estimator=True)
    assert all(one.feature_schema_ for one in found["estimator"])


def test_a_later_fit_on_arrays_forgets_the_schema():
    fitted = classifier().fit(TABLE, schema=APPLICANTS)
    X = SCHEMA.encode(TABLE)
    fitted.fit(X, TABLE["repaid"], sensitive_features=TABLE["ward"])
    assert fitted.feature_schema_ is None
    without = pytest.warns(UserWarning, match="fitted without feature names")
    with without, pytest.raises(DataError, match="pass it as schema"):
        fitted.predict(NEW)
    named = classifier().fit(
        pd.DataFrame(X, columns=SCHEMA.feature_names), TABLE["repaid"], sensitive_features=TABLE["ward"]
    )
    assert not hasattr(named.fit(TABLE, schema=APPLICANTS), "feature_names_in_")


@pytest.mark.parametrize("library", [pd.DataFrame, polars.from_pandas, pa.Table.from_pandas])
def test_a_mixed_table_without_a_schema_gets_one_line_that_names_both(library):
    inputs = library(TABLE.drop(columns=["repaid", "ward"]))
    with pytest.raises(DataError, match=r"'job'.* pass it as schema: fairdp schema TABLE proposes one") as refusal:
        classifier().fit(inputs, TABLE["repaid"], sensitive_features=TABLE["ward"])
    assert "\n" not in str(refusal.value)


def test_dates_and_categories_of_pandas_get_the_same_line():
    for column in (pd.to_datetime(TABLE["since"]), TABLE["job"].astype("category")):
        with pytest.raises(DataError, match=f"'{column.name}'.* pass it as schema"):
            classifier().fit(column.to_frame().assign(age=1.0), TABLE["repaid"], sensitive_features=TABLE["ward"])


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"X": TABLE.drop(columns="age")}, "'age'"),
        ({"X": TABLE.drop(columns="repaid")}, "the table has no column 'repaid'"),
        (
            {"X": SCHEMA.encode(TABLE)},
            r"^schema is for a table of pandas, polars or Arrow with its columns, got ndarray",
        ),
        ({"X": TABLE, "y": TABLE["repaid"][:5]}, r"inconsistent numbers of samples: \[1200, 5\]"),
        (
            {"X": TABLE, "sensitive_features": TABLE[["ward", "job"]].to_numpy()},
            "has 2 columns, but the schema protects",
        ),
        ({"X": TABLE, "schema": 3}, r"^schema must be the path of a YAML or JSON file"),
        ({"X": TABLE.assign(repaid="maybe")}, "maybe"),
    ],
)
def test_what_does_not_fit_the_schema_is_refused_in_one_line(given, line):
    with pytest.raises(DataError, match=line) as refusal:
        classifier().fit(**{"schema": APPLICANTS, **given})
    assert "\n" not in str(refusal.value)


def test_a_table_without_a_column_is_refused_in_the_words_of_scikit_learn(model):
    with pytest.raises(DataError, match=r"^The feature names should match those that were passed during fit: .* 'age'"):
        model.predict(NEW.drop(columns="age"))


def test_a_column_of_words_is_refused_and_some_words_are_missing_numbers(model):
    some = NEW.assign(years=["many", *NEW["years"].astype(str)[1:]])
    assert np.array_equal(model.predict_proba(some)[1:], model.predict_proba(NEW)[1:])
    for measured in (model.predict, model.predict_proba, model.evaluate):
        with pytest.raises(DataError, match=r"^column 'years' holds no number or date in 100 of 100 cells"):
            measured(NEW.assign(years="many"))


def test_weights_go_with_a_schema(model):
    weights = np.where(TABLE["ward"] == "zq1", 0.0, 1.0)
    fitted = classifier(method="dpsgd", n_steps=20).fit(TABLE, schema=APPLICANTS, sample_weight=weights)
    plain = classifier(method="dpsgd", n_steps=20).fit(TABLE, schema=APPLICANTS)
    assert not np.array_equal(fitted.decision_function(NEW), plain.decision_function(NEW))


def test_a_statement_says_what_a_pipeline_has_learnt_before(tmp_path):
    numbers, y = TABLE[["years", "age"]], TABLE["repaid"]
    short = {"method": "fairdp", "n_steps": 20, "sample_rate": 0.2}
    scaled = make_pipeline(MinMaxScaler(), classifier(**short))
    fitted = scaled.fit(numbers, y, fairdpclassifier__sensitive_features=TABLE["ward"])[-1]
    assert fitted.privacy_.public_assumptions[0] == "fitted_on_records_before: MinMaxScaler"
    said = "Assumed public: what MinMaxScaler, before the model in a pipeline, learnt from the private rows"
    assert said in fitted.privacy_statement()
    assert "SchemaEncoder" in fitted.privacy_statement()
    fitted.save(tmp_path / "model")
    assert said in FairDPClassifier.load(tmp_path / "model").privacy_statement()
    command("verify", tmp_path / "model")
    record = json.loads((tmp_path / "model" / "privacy.json").read_text())
    assert record["public_assumptions"][0] == "fitted_on_records_before: MinMaxScaler"
    declared = make_pipeline(SchemaEncoder(APPLICANTS), classifier(**short))
    model = declared.fit(TABLE, y, fairdpclassifier__sensitive_features=TABLE["ward"])[-1]
    assert "learnt from the private rows" not in model.privacy_statement()


@pytest.mark.parametrize("name", ["repaid", "ward", APPLICANTS["columns"][0]["name"]])
def test_a_column_that_the_table_has_twice_is_refused_in_one_line(model, name):
    twice = pd.concat([TABLE, TABLE[[name]]], axis=1)
    for use in (lambda: classifier().fit(twice, schema=APPLICANTS), lambda: model.paper_bounds(twice)):
        with pytest.raises(ValueError, match=rf"^the table has the column '{name}' twice; keep one of them\.$"):
            use()
    # Negative control: a column that the schema does not name may be there as often as it likes.
    beside = TABLE.assign(note=1)
    classifier().fit(pd.concat([beside, beside[["note"]]], axis=1), schema=APPLICANTS)


def test_a_column_that_cannot_be_read_is_warned_of_before_it_is_trained_on():
    """`predict` refuses such a table; a fit on it would have learnt from missing values alone."""
    written_otherwise = TABLE.assign(income=["about " + str(value) for value in TABLE["income"]])
    with pytest.warns(UserWarning, match=r"column 'income' holds no number or date in 1200 of 1200 cells"):
        classifier().fit(written_otherwise, schema=APPLICANTS)
