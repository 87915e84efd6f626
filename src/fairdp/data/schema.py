"""The public schema of a table: what its columns may hold, so that encoding a row needs no other row."""

import datetime
import difflib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from numpy.typing import NDArray

from fairdp.data.columns import (
    Binned,
    Categorical,
    Column,
    EncodedColumns,
    Numeric,
    OtherThan,
    category_codes,
    days_of,
    refuse_missing,
    text_of,
)
from fairdp.data.inference import distinct_values, infer_columns, infer_positive

__all__ = ["Binned", "Categorical", "Numeric", "OtherThan", "TableSchema", "infer_schema", "read_schema"]

COLUMN_TYPES: Mapping[str, type[Column]] = {
    "numeric": Numeric,
    "categorical": Categorical,
    "binned": Binned,
    "other_than": OtherThan,
}
READ_FROM_TABLE = (
    "types, categories, ranges and groups were read from the table and count as public; "
    "give a schema to declare them in advance."
)
SCHEMA_KEYS = ("label", "positive", "negative", "sensitive", "columns", "declared")


@dataclass(frozen=True, kw_only=True)
class TableSchema:
    """What a table may hold. Values are compared as text, so 1, 1.0 and "1" are the same.

    Parameters
    ----------
    columns
        The inputs. Neither the label nor a protected column is ever one.
    label, positive, negative
        Column of the label and its two values.
    sensitive
        Protected columns.
    groups
        Declared values of each protected column; a group is one value of each.
    declared
        False if any of this was read from the table instead of being known in advance.
    """

    columns: tuple[Column, ...]
    label: str
    positive: str
    negative: str
    sensitive: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]
    declared: bool = True

    def __post_init__(self) -> None:
        names = [*(column.name for column in self.columns), self.label, *self.sensitive]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"column {name!r} is named twice; label, protected columns and inputs must differ.")
        if not self.columns or not self.sensitive or len(self.sensitive) != len(self.groups):
            raise ValueError(
                "a schema needs at least one input column besides the label, and one protected column with its values."
            )
        for name, values in zip(self.sensitive, self.groups, strict=True):
            Categorical(name=name, categories=values)
        if self.positive == self.negative:
            raise ValueError(f"positive and negative must differ, got {self.positive!r} for both.")

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Name of each encoded feature."""
        return tuple(itertools.chain.from_iterable(column.feature_names for column in self.columns))

    @property
    def n_features(self) -> int:
        """Number of encoded features, d."""
        return len(self.feature_names)

    @property
    def group_names(self) -> tuple[str, ...]:
        """Name of each group: its values joined with ``&``; the last protected column changes fastest."""
        return tuple(" & ".join(values) for values in itertools.product(*self.groups))

    @property
    def encoded(self) -> EncodedColumns:
        """What a model may know of the inputs."""
        return EncodedColumns.of(self.columns)

    def encode(self, frame: pd.DataFrame) -> NDArray[np.float32]:
        """Features in [0, 1], shape (n_samples, n_features); no row depends on another."""
        return np.hstack([column.encode(_values(frame, column.name)) for column in self.columns])

    def encode_labels(self, frame: pd.DataFrame) -> NDArray[np.int64]:
        """1 for the positive value and 0 for the negative one, shape (n_samples,)."""
        return category_codes(_complete(frame, self.label), self.label, (self.negative, self.positive))

    def encode_groups(self, frame: pd.DataFrame) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        """Group code of each row, shape (n_samples,), and the names of all declared groups."""
        codes = np.zeros(len(frame), dtype=np.int64)
        for name, values in zip(self.sensitive, self.groups, strict=True):
            codes = codes * len(values) + category_codes(_complete(frame, name), name, values)
        return codes, self.group_names

    def to_dict(self) -> dict[str, Any]:
        """The schema as plain values that JSON and YAML can hold."""
        types = {kind: name for name, kind in COLUMN_TYPES.items()}
        columns = [{"type": types[type(column)], **_plain(asdict(column))} for column in self.columns]
        # Lists, not mappings, where the order matters: group codes follow it.
        pairs = zip(self.sensitive, self.groups, strict=True)
        groups = [{"name": name, "groups": list(values)} for name, values in pairs]
        outcome = {"label": self.label, "positive": self.positive, "negative": self.negative}
        return {**outcome, "sensitive": groups, "columns": columns, "declared": self.declared}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "TableSchema":
        """The schema that these plain values describe."""
        _check_keys("schema", content, allowed=SCHEMA_KEYS, required=SCHEMA_KEYS[:-1])
        sensitive = _listed("sensitive", content["sensitive"])
        for entry in sensitive:
            _check_keys("each entry of sensitive", entry, allowed=("name", "groups"), required=("name", "groups"))
        return cls(
            columns=tuple(_column(entry) for entry in _listed("columns", content["columns"])),
            label=_text("label", content["label"]),
            positive=_text("positive", content["positive"]),
            negative=_text("negative", content["negative"]),
            sensitive=tuple(_text("sensitive: name", entry["name"]) for entry in sensitive),
            groups=tuple(_texts("sensitive: groups", entry["groups"]) for entry in sensitive),
            declared=bool(content.get("declared", True)),
        )


def read_schema(path: str | Path) -> TableSchema:
    """The schema in a YAML or JSON file.

    Raises
    ------
    ValueError
        With one line that names the file and the entry at fault.
    """
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise FileNotFoundError(f"schema {str(path)!r} does not exist.") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}" if mark else "its text"
        raise ValueError(f"schema {str(path)!r} is neither YAML nor JSON: {where} cannot be read.") from None
    try:
        return TableSchema.from_dict(content)
    except ValueError as error:
        raise ValueError(f"schema {str(path)!r}: {error}") from None


def infer_schema(
    frame: pd.DataFrame, label: str, sensitive: Sequence[str], positive: object = None
) -> tuple[TableSchema, tuple[str, ...]]:
    """A schema with types, categories and ranges read from the table, and notes for the user.

    What is read from private records is outside the privacy guarantee: the schema says ``declared=False``.
    """
    sensitive = (sensitive,) if isinstance(sensitive, str) else tuple(sensitive)
    outcomes = distinct_values(_complete(frame, label))
    if len(outcomes) != 2:
        some = ", ".join(text_of(value) for value in outcomes[:5]) + (", …" if len(outcomes) > 5 else "")
        remedy = "make it binary or choose another column"
        count = f"{len(outcomes)} value{'s' if len(outcomes) != 1 else ''}"
        raise ValueError(f"label {label!r} has {count} ({some}); fairdp needs exactly two; {remedy}.")
    texts = [text_of(value) for value in outcomes]
    chosen, label_notes = infer_positive(outcomes) if positive is None else (text_of(positive), ())
    if chosen not in texts:
        raise ValueError(f"positive must be a value of label {label!r} ({', '.join(texts)}), got {chosen!r}.")
    groups = tuple(tuple(text_of(v) for v in distinct_values(_complete(frame, name))) for name in sensitive)
    columns, notes = infer_columns(frame.drop(columns=[label, *sensitive]))
    schema = TableSchema(
        columns=columns,
        label=label,
        positive=chosen,
        negative=texts[1 - texts.index(chosen)],
        sensitive=sensitive,
        groups=groups,
        declared=False,
    )
    return schema, (READ_FROM_TABLE, *label_notes, *notes)


def _values(frame: pd.DataFrame, name: str) -> pd.Series:
    if name not in frame.columns:
        columns = [str(column) for column in frame.columns]
        near = [c for c in columns if c.lower() == name.lower()] or difflib.get_close_matches(name, columns, n=1)
        shown = ", ".join(columns[:12]) + (", …" if len(columns) > 12 else "")
        hint = f"did you mean {near[0]!r}?" if near else f"it has {shown}."
        raise ValueError(f"the table has no column {name!r}; {hint}")
    return frame[name]


def _complete(frame: pd.DataFrame, name: str) -> pd.Series:
    """A label or protected column, which must be filled in every row."""
    values = _values(frame, name)
    refuse_missing(name, values.isna().to_numpy(dtype=bool), values.index, remedy="fill or drop them")
    return values


def _column(entry: Any) -> Column:
    """One input from its plain description."""
    if not isinstance(entry, Mapping) or entry.get("type") not in COLUMN_TYPES:
        kinds = ", ".join(COLUMN_TYPES)
        raise ValueError(f"every column needs a name and a type ({kinds}), got {entry!r}.")
    kind = COLUMN_TYPES[entry["type"]]
    allowed = [field.name for field in fields(kind)]
    needed = {"numeric": ("name", "low", "high")}.get(entry["type"], tuple(allowed))
    where = f"column {entry.get('name')!r}"
    _check_keys(where, entry, allowed=("type", *allowed), required=needed)
    values = {key: _entry(f"{where}: {key}", key, entry[key]) for key in allowed if key in entry}
    return kind(**values)


def _entry(where: str, key: str, value: Any) -> Any:
    """One value of a column's description, in the type its field has."""
    if key in ("low", "high"):
        return _number(where, value)
    if key == "edges":
        return tuple(_number(where, edge) for edge in _listed(where, value))
    return _texts(where, value) if key == "categories" else _text(where, value)


def _number(where: str, value: Any) -> float:
    if isinstance(value, datetime.date):
        return days_of(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{where} must be a number or a date, got {value!r}.")
    return float(value)


def _text(where: str, value: Any) -> str:
    # YAML reads an unquoted yes, no, on or off as a truth value: the word the table holds would be lost.
    if isinstance(value, bool):
        raise ValueError(f"{where} was read as the truth value {value}; put it in quotes.")
    if not isinstance(value, str | int | float):
        raise ValueError(f"{where} must be one word or number, got {value!r}.")
    return text_of(value)


def _texts(where: str, values: Any) -> tuple[str, ...]:
    return tuple(_text(where, value) for value in _listed(where, values))


def _listed(where: str, values: Any) -> Sequence[Any]:
    if not isinstance(values, list | tuple):
        raise ValueError(f"{where} must be a list, got {values!r}.")
    return values


def _check_keys(where: str, content: Any, *, allowed: Sequence[str], required: Sequence[str]) -> None:
    if not isinstance(content, Mapping):
        raise ValueError(f"{where} must be a mapping of names to values, got {type(content).__name__}.")
    for key in content:
        if key not in allowed:
            raise ValueError(f"{where} has the unknown key {key!r}; it may have {', '.join(allowed)}.")
    for key in required:
        if key not in content:
            raise ValueError(f"{where} lacks the key {key!r}.")


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}
