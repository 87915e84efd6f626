"""Encoding by a declared schema as a scikit-learn transformer, and the forms in which a schema is handed over."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import _check_feature_names_in

from fairdp._checks import DataError
from fairdp.data.columns import repeated
from fairdp.data.frames import frame_of, is_table
from fairdp.data.schema import TableSchema, read_schema
from fairdp.data.treatments import Treated, refuse_unreadable

Declared = TableSchema | Mapping[str, Any] | str | Path


def schema_of(declared: Declared) -> TableSchema:
    """The schema that is given as itself, as plain values, or as the path of its file."""
    if isinstance(declared, TableSchema):
        return declared
    if isinstance(declared, Mapping):
        return TableSchema.from_dict(declared)
    if isinstance(declared, str | Path):
        return read_schema(declared)
    raise DataError(
        f"`schema` must be the path of a YAML or JSON file, a dict or a TableSchema, got {type(declared).__name__}; "
        "fairdp schema TABLE proposes a file."
    )


def encoded(schema: TableSchema, table: Any) -> NDArray[np.float32]:
    """The inputs of a table to decide about, which must have all their columns, and numbers in most cells of each."""
    frame, treated = frame_of(table), list[Treated]()
    _check_names(schema, [str(name) for name in frame.columns])
    records = schema.encode(frame, tell=treated.append)
    refuse_unreadable(treated)
    return records


class SchemaEncoder(TransformerMixin, BaseEstimator):
    """Encode the columns of a table by what a schema declares of them: no row has a say in how others are encoded.

    Numbers are scaled into [0, 1] by their declared bounds, categories become columns of zeros and ones, as in every
    command. A scaler, imputer or encoder that is fitted on private rows would tell of them what no ε covers; this one
    is fitted from declarations alone. `fit` looks at no value: it checks that the columns are there.

    Parameters
    ----------
    schema
        Path of a YAML or JSON file, the same as a dict, or a ``TableSchema``. The label and the protected columns that
        it declares are no inputs and need not be in the table.

    Attributes
    ----------
    schema_
        The schema, read once.
    n_features_in_, feature_names_in_
        The columns of the table that it was fitted on.

    Examples
    --------
    >>> import pandas as pd
    >>> schema = {
    ...     "label": "paid", "positive": "1", "negative": "0",
    ...     "sensitive": [{"name": "sex", "groups": ["f", "m"]}],
    ...     "columns": [{"name": "age", "type": "numeric", "low": 0, "high": 100}],
    ... }
    >>> SchemaEncoder(schema).fit_transform(pd.DataFrame({"age": [20, 50]})).tolist()
    [[0.20000000298023224], [0.5]]
    """

    def __init__(self, schema: Declared) -> None:
        self.schema = schema

    def fit(self, X: Any, y: Any = None) -> Self:
        """Read the schema and check that its columns are in the table; values are not looked at."""
        schema = schema_of(self.schema)
        names = [str(name) for name in _frame(X).columns]
        _check_names(schema, names)
        self.schema_, self.n_features_in_ = schema, len(names)
        self.feature_names_in_ = np.array(names, dtype=object)
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Features in [0, 1], shape (n_samples, n_features); columns that are not declared are left out."""
        frame = _frame(X)
        _check_names(self._schema(), [str(name) for name in frame.columns])
        return self._schema().encode(frame)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Name of each encoded feature."""
        if hasattr(self, "schema_"):
            _check_feature_names_in(self, input_features)
        return np.array(self._schema().feature_names, dtype=object)

    def _schema(self) -> TableSchema:
        """What was read by `fit`; without it, nothing else would be there to learn."""
        return self.schema_ if hasattr(self, "schema_") else schema_of(self.schema)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.two_d_array, tags.input_tags.string, tags.input_tags.categorical = False, True, True
        tags.input_tags.allow_nan = True
        return tags


def _frame(X: Any) -> Any:
    if not is_table(X):
        raise DataError(
            f"SchemaEncoder encodes named columns of a table of pandas, polars or Arrow, got {type(X).__name__}."
        )
    return frame_of(X)


def refuse_repeated(names: list[str], wanted: Collection[str]) -> None:
    """Refuse a table that has a wanted column twice: nobody can tell which of them is meant."""
    if (twice := repeated([name for name in names if name in wanted])) is not None:
        raise DataError(f"the table has the column {twice!r} twice; keep one of them.")


def _check_names(schema: TableSchema, names: list[str]) -> None:
    """Refuse a table without some of the columns: scikit-learn's sentence, in one line."""
    refuse_repeated(names, {column.name for column in schema.columns})
    missing = [column.name for column in schema.columns if column.name not in names]
    if missing:
        shown = ", ".join(map(repr, missing[:5])) + (", …" if len(missing) > 5 else "")
        raise DataError(
            "The feature names should match those that were passed during fit: feature names that the schema declares, "
            f"yet now missing: {shown}; the table has {', '.join(names[:12])}{', …' if len(names) > 12 else ''}."
        )
