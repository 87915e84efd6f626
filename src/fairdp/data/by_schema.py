"""Tables in memory as a model with a schema takes them: labels and groups by its columns, or given beside it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from fairdp._checks import DataError, ParameterError
from fairdp.data.arrays import records_of, shares_of
from fairdp.data.encoder import encoded, refuse_repeated
from fairdp.data.frames import frame_of, is_table, known_table
from fairdp.data.grouped import GroupedData
from fairdp.data.labels import label_codes
from fairdp.data.schema import TableSchema
from fairdp.data.sensitive import codes_of
from fairdp.data.tables import encode_table


def grouped_table(
    schema: TableSchema, estimator: Any, X: Any, y: Any, sensitive_features: Any, sample_weight: Any = None
) -> tuple[GroupedData, NDArray[Any]]:
    """Records to fit an estimator on, encoded as every command does it, and the two labels in the type they have.

    Labels and groups that are not given are those of the columns that the schema names.
    """
    frame = whole_table(schema, X, y, sensitive_features)
    _take_declared(estimator, schema)
    # Names of an earlier fit, on arrays; what this one takes is said by the schema.
    estimator.__dict__.pop("feature_names_in_", None)
    data = encode_table(frame, schema)
    shares = None if sample_weight is None else shares_of(sample_weight, len(frame), estimator.max_sample_weight)
    classes = _classes(schema, frame[schema.label].dtype)
    return GroupedData(data.X, data.y, data.groups, data.group_names, shares), classes


def whole_table(schema: TableSchema, X: Any, y: Any, sensitive_features: Any) -> pd.DataFrame:
    """The table with the label and the protected columns that were given beside it."""
    if not is_table(X):
        raise DataError(f"`schema` is for a table of pandas, polars or Arrow with its columns, got {type(X).__name__}.")
    frame = frame_of(X)
    _refuse_repeated(schema, frame)
    if y is not None:
        frame = frame.assign(**{schema.label: _column(y, len(frame), "y")})
    if sensitive_features is not None:
        frame = frame.assign(**_protected(schema, sensitive_features, len(frame)))
    return frame


def _refuse_repeated(schema: TableSchema, frame: pd.DataFrame) -> None:
    wanted = {schema.label, *schema.sensitive, *(column.name for column in schema.columns)}
    refuse_repeated([str(name) for name in frame.columns], wanted)


def _take_declared(estimator: Any, schema: TableSchema) -> None:
    """Give an estimator what the schema declares beside the columns: the name of the table, and sizes of groups."""
    sizes = schema.group_sizes if estimator.grouping == "attribute" else {}
    chosen = estimator.group_sizes
    if sizes and isinstance(chosen, Mapping) and dict(chosen) != sizes:
        raise ParameterError(
            "group_sizes", dict(chosen), "is not what the schema says", "make them agree, or leave one of them out"
        )
    estimator.group_sizes = (sizes or None) if chosen is None else chosen
    # "records" is the default: a name that the schema gives says more.
    estimator.table = schema.table if schema.table and estimator.table == "records" else estimator.table


def schema_for(estimator: Any, X: Any) -> TableSchema | None:
    """The schema by which a fitted model reads these rows; None if it has none, or they are encoded already."""
    known = getattr(estimator, "feature_schema_", None)
    return TableSchema.from_dict(known) if known is not None and is_table(X) else None


def model_records(estimator: Any, X: Any) -> NDArray[np.float32]:
    """Records for a fitted model: a table by its schema, arrays as they are."""
    X = known_table(X)
    schema = schema_for(estimator, X)
    return records_of(estimator, X, shape=estimator.score_model_.shape) if schema is None else encoded(schema, X)


def labelled_records(estimator: Any, X: Any, y: Any, sensitive_features: Any) -> GroupedData:
    """Labelled records of the groups that a fitted model knows."""
    X = known_table(X)
    if (schema := schema_for(estimator, X)) is not None:
        _refuse_repeated(schema, frame_of(X))
    records, names = model_records(estimator, X), estimator.group_names_
    labels, groups = known_labels(estimator, X, y), known_groups(estimator, X, sensitive_features, len(records))
    if len(labels) != len(records):
        raise DataError(f"y has {len(labels)} entries, but X has {len(records)} records.")
    return GroupedData(records, labels, codes_of(None, len(records), names) if groups is None else groups, names)


def known_labels(estimator: Any, X: Any, y: Any) -> NDArray[np.int64]:
    """Which of a model's two labels each record has: as given, or by the label's column of a table."""
    schema = schema_for(estimator, X)
    if schema is None or (y is not None and np.isin(np.asarray(y), estimator.classes_).all()):
        if y is None:
            raise DataError("y is needed: only a table that a model's schema can read has its own labels.")
        return label_codes(y, estimator.classes_)
    frame = frame_of(X)
    return schema.encode_labels(frame if y is None else pd.DataFrame({schema.label: _column(y, len(frame), "y")}))


def known_groups(estimator: Any, X: Any, sensitive_features: Any, n_samples: int) -> NDArray[np.int64] | None:
    """Codes of the groups that a model knows: as given, or by the protected columns of a table; None if there is none.

    A table need not have these columns where nobody asks for its groups.
    """
    schema = schema_for(estimator, X)
    if sensitive_features is None:
        here = schema is not None and set(schema.sensitive) <= set(map(str, frame_of(X).columns))
        return schema.encode_groups(X)[0] if schema is not None and here else None
    if schema is not None and _n_columns(sensitive_features) == len(schema.sensitive):
        return schema.encode_groups(pd.DataFrame(_protected(schema, sensitive_features, n_samples)))[0]
    return codes_of(sensitive_features, n_samples, estimator.group_names_)


def _column(values: Any, n_samples: int, name: str) -> Any:
    """One column without an index, which would move its cells to other rows."""
    if hasattr(values, "to_pandas"):
        values = values.to_pandas()
    if isinstance(values, pd.DataFrame) and values.shape[1] == 1:
        values = values.iloc[:, 0]
    column = pd.Series(values)
    if len(column) != n_samples:
        # scikit-learn's sentence.
        raise DataError(
            f"Found input variables with inconsistent numbers of samples: [{n_samples}, {len(column)}]: `{name}` must "
            "have one entry for each row of X."
        )
    return column.array


def _n_columns(sensitive_features: Any) -> int:
    if is_table(sensitive_features):
        return len(frame_of(sensitive_features).columns)
    return 1 if np.ndim(sensitive_features) < 2 else np.shape(sensitive_features)[1]


def _protected(schema: TableSchema, sensitive_features: Any, n_samples: int) -> dict[str, Any]:
    """What was given as protected columns: by the names that the schema has, or in its order."""
    names, given = schema.sensitive, sensitive_features
    n_columns = _n_columns(given)
    given = frame_of(given) if is_table(given) else given
    if isinstance(given, pd.DataFrame) and set(names) <= set(map(str, given.columns)):
        return {name: _column(given[name], n_samples, "sensitive_features") for name in names}
    if n_columns != len(names):
        raise DataError(
            f"`sensitive_features` has {n_columns} columns, but the schema protects {', '.join(names)}; give these, or "
            "leave it out for the columns of the table."
        )
    if n_columns == 1:
        return {names[0]: _column(given, n_samples, "sensitive_features")}
    columns = pd.DataFrame(given, dtype=object)
    return {name: _column(columns.iloc[:, i], n_samples, "sensitive_features") for i, name in enumerate(names)}


def _classes(schema: TableSchema, kind: Any) -> NDArray[Any]:
    """The negative and the positive label in the type of their column, so that predictions compare with it."""
    texts = (schema.negative, schema.positive)
    try:
        if types.is_bool_dtype(kind):
            return np.array([{"True": True, "False": False}[text] for text in texts])
        if types.is_integer_dtype(kind):
            return np.array([int(float(text)) for text in texts])
        if types.is_float_dtype(kind):
            return np.array([float(text) for text in texts])
    except (KeyError, ValueError):
        pass
    return np.array(texts)
