"""The public schema of a table: what its columns may hold, so that encoding a row needs no other row."""

import difflib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from numpy.typing import NDArray

from fairdp._checks import DataError, InputError
from fairdp.data.columns import (
    Binned,
    Categorical,
    Column,
    EncodedColumns,
    Numeric,
    OtherThan,
    category_codes,
    refuse_missing,
    text_of,
)
from fairdp.data.entries import COLUMN_TYPES, check_keys, column_of, entry_text, listed, others_of, texts_of
from fairdp.data.inference import distinct_values, infer_columns, infer_positive

__all__ = ["Binned", "Categorical", "Numeric", "OtherThan", "TableSchema", "infer_schema", "read_schema"]

READ_FROM_TABLE = (
    "types, categories, ranges and groups were read from the table and count as public; "
    "give a schema to declare them in advance."
)
PROTECTED_KEYS = ("name", "groups", "other")
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
    others
        For each protected column the declared value that any other one counts as; empty: such a value is refused.
    """

    columns: tuple[Column, ...]
    label: str
    positive: str
    negative: str
    sensitive: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]
    declared: bool = True
    others: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = [*(column.name for column in self.columns), self.label, *self.sensitive]
        for name in names:
            if names.count(name) > 1:
                raise DataError(f"column {name!r} is named twice; label, protected columns and inputs must differ.")
        # Making the protected columns checks their values.
        if not self.columns or len(self.sensitive) != len(self.groups) or not self.protected:
            raise DataError(
                "a schema needs at least one input column besides the label, and one protected column with its values."
            )
        if self.positive == self.negative:
            raise DataError(f"positive and negative must differ, got {self.positive!r} for both.")

    @property
    def protected(self) -> tuple[Categorical, ...]:
        """The protected columns with their values."""
        others = self.others or ("",) * len(self.sensitive)
        each = zip(self.sensitive, self.groups, others, strict=True)
        return tuple(Categorical(name=name, categories=values, other=other) for name, values, other in each)

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
        features = np.empty((len(frame), self.n_features), dtype=np.float32)
        stop = 0
        for column in self.columns:
            start, stop = stop, stop + len(column.feature_names)
            # Into its place at once: all the parts beside the whole would take the memory twice.
            features[:, start:stop] = column.encode(_values(frame, column.name))
        return features

    def encode_labels(self, frame: pd.DataFrame) -> NDArray[np.int64]:
        """1 for the positive value and 0 for the negative one, shape (n_samples,)."""
        return category_codes(_complete(frame, self.label), self.label, (self.negative, self.positive))

    def encode_groups(self, frame: pd.DataFrame) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        """Group code of each row, shape (n_samples,), and the names of all declared groups."""
        codes = np.zeros(len(frame), dtype=np.int64)
        for column in self.protected:
            values = _complete(frame, column.name)
            codes = codes * len(column.categories) + category_codes(
                values, column.name, column.categories, other=column.other
            )
        return codes, self.group_names

    def to_dict(self) -> dict[str, Any]:
        """The schema as plain values that JSON and YAML can hold."""
        types = {kind: name for name, kind in COLUMN_TYPES.items()}
        columns = [{"type": types[type(column)], **_plain(asdict(column))} for column in self.columns]
        # Lists, not mappings, where the order matters: group codes follow it.
        groups = [
            {
                "name": column.name,
                "groups": list(column.categories),
                **({"other": column.other} if column.other else {}),
            }
            for column in self.protected
        ]
        outcome = {"label": self.label, "positive": self.positive, "negative": self.negative}
        return {**outcome, "sensitive": groups, "columns": columns, "declared": self.declared}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "TableSchema":
        """The schema that these plain values describe."""
        check_keys("schema", content, allowed=SCHEMA_KEYS, required=SCHEMA_KEYS[:-1])
        sensitive = listed("sensitive", content["sensitive"])
        for entry in sensitive:
            check_keys("each entry of sensitive", entry, allowed=PROTECTED_KEYS, required=PROTECTED_KEYS[:-1])
        return cls(
            columns=tuple(column_of(entry) for entry in listed("columns", content["columns"])),
            label=entry_text("label", content["label"]),
            positive=entry_text("positive", content["positive"]),
            negative=entry_text("negative", content["negative"]),
            sensitive=tuple(entry_text("sensitive: name", entry["name"]) for entry in sensitive),
            groups=tuple(texts_of("sensitive: groups", entry["groups"]) for entry in sensitive),
            declared=bool(content.get("declared", True)),
            others=others_of(sensitive),
        )


def read_schema(path: str | Path) -> TableSchema:
    """The schema in a YAML or JSON file.

    Raises
    ------
    DataError
        With one line that names the file and the entry at fault.
    """
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise FileNotFoundError(f"schema {str(path)!r} does not exist.") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}" if mark else "its text"
        raise DataError(f"schema {str(path)!r} is neither YAML nor JSON: {where} cannot be read.") from None
    try:
        return TableSchema.from_dict(content)
    except InputError as error:
        raise DataError(f"schema {str(path)!r}: {error.template}") from None


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
        raise DataError(f"label {label!r} has {count} ({some}); fairdp needs exactly two; {remedy}.")
    texts = [text_of(value) for value in outcomes]
    chosen, label_notes = infer_positive(outcomes) if positive is None else (text_of(positive), ())
    if chosen not in texts:
        raise DataError(f"`positive` must be a value of label {label!r} ({', '.join(texts)}), got {chosen!r}.")
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
        raise DataError(f"the table has no column {name!r}; {hint}")
    return frame[name]


def _complete(frame: pd.DataFrame, name: str) -> pd.Series:
    """A label or protected column, which must be filled in every row."""
    values = _values(frame, name)
    refuse_missing(name, values.isna().to_numpy(dtype=bool), values.index, remedy="fill or drop them")
    return values


def _plain(values: Mapping[str, object]) -> dict[str, object]:
    """Without empty defaults, which older models do not know."""
    return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items() if value != ""}
