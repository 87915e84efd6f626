"""The transformer that encodes by declarations alone."""

import pickle

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest
import yaml
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks, get_tags

from fairdp import DataError, SchemaEncoder
from fairdp.data.schema import TableSchema
from reason_cases import APPLICANTS, applicants

SCHEMA = TableSchema.from_dict(APPLICANTS)
TABLE = applicants(200)


def forms(folder):
    path = folder / "applicants.yaml"
    path.write_text(yaml.safe_dump(APPLICANTS))
    return [APPLICANTS, SCHEMA, path, str(path)]


def test_every_form_of_a_schema_encodes_as_commands_do(tmp_path):
    expected = SCHEMA.encode(TABLE)
    for form in forms(tmp_path):
        found = SchemaEncoder(form).fit_transform(TABLE)
        assert found.dtype == np.float32
        assert np.array_equal(found, expected)


@pytest.mark.parametrize("library", [polars.from_pandas, pa.Table.from_pandas])
def test_tables_of_every_library_are_encoded_alike(library):
    assert np.array_equal(SchemaEncoder(APPLICANTS).fit_transform(library(TABLE)), SCHEMA.encode(TABLE))


def test_fit_looks_at_names_only():
    """A cell that no declaration knows is nothing to `fit`; to `transform` it is a missing one."""
    broken = TABLE.assign(years="many")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(TableSchema, "encode", lambda *_: pytest.fail("the rows were read"))
        encoder = SchemaEncoder(APPLICANTS).fit(broken)
    assert encoder.feature_names_in_.tolist() == list(TABLE.columns)
    assert encoder.n_features_in_ == len(TABLE.columns)
    # Nothing that it keeps is of the rows.
    assert set(vars(encoder)) == {"schema", "schema_", "n_features_in_", "feature_names_in_"}
    years = list(encoder.get_feature_names_out()).index("years")
    assert encoder.transform(broken)[:, years].tolist() == [0.5] * len(broken)


def test_no_row_has_a_say_in_how_others_are_encoded():
    whole = SchemaEncoder(APPLICANTS).fit_transform(TABLE)
    rest = SchemaEncoder(APPLICANTS).fit(TABLE.iloc[1:]).transform(TABLE.iloc[1:])
    assert np.array_equal(whole[1:], rest)


def test_it_needs_no_fit_and_no_protected_columns():
    inputs = TABLE.drop(columns=["ward", "repaid"])
    assert np.array_equal(SchemaEncoder(APPLICANTS).transform(inputs), SCHEMA.encode(TABLE))
    assert not get_tags(SchemaEncoder(APPLICANTS)).requires_fit


def test_columns_in_another_order_and_others_do_not_matter():
    turned = TABLE[TABLE.columns[::-1]].assign(more=1)
    assert np.array_equal(SchemaEncoder(APPLICANTS).fit(TABLE).transform(turned), SCHEMA.encode(TABLE))


def test_features_have_names_that_scikit_learn_can_put_on_its_output():
    encoder = SchemaEncoder(APPLICANTS).set_output(transform="pandas").fit(TABLE)
    found = encoder.transform(TABLE)
    assert isinstance(found, pd.DataFrame)
    assert found.columns.tolist() == list(SCHEMA.feature_names)
    assert encoder.get_feature_names_out().tolist() == list(SCHEMA.feature_names)
    assert SchemaEncoder(APPLICANTS).get_feature_names_out().tolist() == list(SCHEMA.feature_names)
    with pytest.raises(ValueError, match="input_features is not equal to feature_names_in_"):
        encoder.get_feature_names_out(["a"])


def test_it_stands_in_pipelines_and_column_transformers():
    columns = ColumnTransformer([("declared", SchemaEncoder(APPLICANTS), list(TABLE.columns))])
    piped = make_pipeline(columns).set_output(transform="pandas").fit(TABLE)
    assert np.array_equal(piped.transform(TABLE).to_numpy(), SCHEMA.encode(TABLE))
    assert piped.get_feature_names_out()[0] == "declared__income"


def test_clones_and_pickles_encode_alike(tmp_path):
    for form in forms(tmp_path):
        encoder = SchemaEncoder(form)
        assert encoder.get_params() == {"schema": form}
        copied = clone(encoder.fit(TABLE))
        assert not hasattr(copied, "schema_")
        assert np.array_equal(copied.fit_transform(TABLE), SCHEMA.encode(TABLE))
    # What was fitted carries its schema along: the file need not.
    kept = pickle.dumps(encoder)
    (tmp_path / "applicants.yaml").unlink()
    assert np.array_equal(pickle.loads(kept).transform(TABLE), SCHEMA.encode(TABLE))


@pytest.mark.parametrize(
    ("table", "line"),
    [
        (TABLE.drop(columns="age"), r"^The feature names should match .* yet now missing: 'age'; the table has income"),
        (pd.concat([TABLE, TABLE[["age"]]], axis=1), r"^the table has the column 'age' twice; keep one of them\.$"),
        (TABLE.to_numpy(), r"named columns of a table of pandas, polars or Arrow, got ndarray\.$"),
        (TABLE["age"], r"got Series\.$"),
    ],
)
def test_what_it_cannot_encode_is_refused_in_one_line(table, line):
    for call in (SchemaEncoder(APPLICANTS).fit, SchemaEncoder(APPLICANTS).transform):
        with pytest.raises(DataError, match=line) as refusal:
            call(table)
        assert "\n" not in str(refusal.value)


def test_anything_else_than_a_schema_is_refused_by_fit_and_not_before():
    encoder = SchemaEncoder(3)
    with pytest.raises(
        DataError, match=r"^schema must be the path of a YAML or JSON file, a dict or a TableSchema, got"
    ):
        encoder.fit(TABLE)


@pytest.mark.parametrize(
    "check",
    [
        "check_estimator_cloneable",
        "check_estimator_repr",
        "check_estimator_tags_renamed",
        "check_valid_tag_types",
        "check_no_attributes_set_in_init",
        "check_get_params_invariance",
        "check_set_params",
        "check_do_not_raise_errors_in_init_or_set_params",
        "check_mixin_order",
    ],
)
def test_it_passes_those_checks_of_scikit_learn_that_need_no_table_of_numbers(check):
    getattr(estimator_checks, check)("SchemaEncoder", SchemaEncoder(APPLICANTS))
