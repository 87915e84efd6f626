"""Default of credit card clients (Taiwan 2005): 89 features, and one canonical form of its several files."""

import hashlib
import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from fairdp._checks import DataError
from fairdp.data.columns import Categorical, Column, Numeric
from fairdp.data.distinct import numbers_of, spellings_of
from fairdp.data.schema import TableSchema

LABEL = "Default"
LABEL_ALIASES = ("default payment next month", "default.payment.next.month")
CODED_COLUMNS = ("EDUCATION", "MARRIAGE", "PAY_0", "PAY_2", "PAY_3", "PAY_4", "PAY_5", "PAY_6")
BILL_COLUMNS = tuple(f"BILL_AMT{month}" for month in range(1, 7))
PAYMENT_COLUMNS = tuple(f"PAY_AMT{month}" for month in range(1, 7))
FILE_COLUMNS = (
    "ID",
    "LIMIT_BAL",
    "SEX",
    *CODED_COLUMNS[:2],
    "AGE",
    *CODED_COLUMNS[2:],
    *BILL_COLUMNS,
    *PAYMENT_COLUMNS,
    LABEL,
)
SEX_NAMES = {"1": "Male", "2": "Female"}
# What the codes mean, for groups; the codes for others, and those that nobody has documented, are one group.
GROUP_NAMES = {
    "EDUCATION": {"1": "graduate school", "2": "university", "3": "high school"},
    "MARRIAGE": {"1": "married", "2": "single"},
}
OTHER = "other"


def credit_schema() -> TableSchema:
    """89 features: 75 one-hot and 14 numeric. Sex is the protected column and no input."""
    delays = tuple(str(code) for code in range(-2, 9))
    # The paper's 89 features have ten codes in the two oldest months: no client is one month late there.
    old_delays = tuple(code for code in delays if code != "1")
    columns: tuple[Column, ...] = (
        Categorical(name="EDUCATION", categories=tuple("0123456")),
        Categorical(name="MARRIAGE", categories=tuple("0123")),
        *(Categorical(name=name, categories=delays) for name in CODED_COLUMNS[2:6]),
        *(Categorical(name=name, categories=old_delays) for name in CODED_COLUMNS[6:]),
        # Round public bounds in New Taiwan dollars and years, not extremes of the rows.
        Numeric(name="LIMIT_BAL", low=10_000, high=1_000_000, transform="signed_log", missing="error"),
        Numeric(name="AGE", low=20, high=80, missing="error"),
        *(
            Numeric(name=n, low=-1_000_000, high=1_000_000, transform="signed_log", missing="error")
            for n in BILL_COLUMNS
        ),
        *(Numeric(name=n, low=0, high=1_000_000, transform="signed_log", missing="error") for n in PAYMENT_COLUMNS),
    )
    return TableSchema(
        columns=columns,
        label=LABEL,
        positive="1",
        negative="0",
        sensitive=("SEX",),
        groups=(("Male", "Female"),),
    )


def read_credit(folder: str | Path) -> pd.DataFrame:
    """All rows with the label column ``Default`` and sex as ``Male`` or ``Female``."""
    frame = canonical_credit(_read_csv((Path(folder) / "UCI_Credit_Card.csv").read_bytes()))
    return frame.assign(SEX=[SEX_NAMES.get(code, code) for code in spellings_of(frame["SEX"])])


def with_named_groups(
    schema: TableSchema, frames: Sequence[pd.DataFrame]
) -> tuple[TableSchema, tuple[pd.DataFrame, ...]]:
    """A schema and its rows with words in place of the codes of protected columns, so that groups have names."""
    named = {name: GROUP_NAMES[name] for name in schema.sensitive if name in GROUP_NAMES}
    groups = tuple(
        (*named[name].values(), OTHER) if name in named else values
        for name, values in zip(schema.sensitive, schema.groups, strict=True)
    )
    return replace(schema, groups=groups), tuple(
        frame.assign(
            **{name: [words.get(code, OTHER) for code in spellings_of(frame[name])] for name, words in named.items()}
        )
        for frame in frames
    )


def canonical_credit(frame: pd.DataFrame) -> pd.DataFrame:
    """The columns in one order, under one set of names, as whole numbers."""
    named = frame.rename(columns=dict.fromkeys(LABEL_ALIASES, LABEL))
    lacking = [name for name in FILE_COLUMNS if name not in named.columns]
    if lacking:
        raise DataError(f"the credit table has no column {lacking[0]!r}; give the file as published.")
    numbers = np.column_stack([numbers_of(named[name]) for name in FILE_COLUMNS])
    if not (np.isfinite(numbers) & (numbers == np.rint(numbers))).all():
        raise DataError("the credit table must hold whole numbers only; give the file as published.")
    return pd.DataFrame(numbers.astype(np.int64), columns=list(FILE_COLUMNS))


def canonical_csv(content: bytes, *, suffix: str) -> bytes:
    """A published file, spreadsheet or CSV, as the canonical CSV file."""
    frame = _read_csv(content) if suffix == ".csv" else _read_spreadsheet(content)
    return canonical_credit(frame).to_csv(index=False, lineterminator="\n").encode()


def content_sha256(content: bytes) -> str:
    """Digest of the numbers in a CSV file, the same for every way to write them."""
    table = canonical_credit(_read_csv(content)).to_numpy(dtype="<i8")
    return hashlib.sha256(table.tobytes()).hexdigest()


def _read_csv(content: bytes) -> pd.DataFrame:
    try:
        return pd.read_csv(io.BytesIO(content), dtype=str, keep_default_na=False)
    except ValueError:
        raise DataError("the credit table is not a CSV file; give the file as published.") from None


def _read_spreadsheet(content: bytes) -> pd.DataFrame:
    # The first row of the published spreadsheet holds placeholders X1 … X23, the second the names.
    try:
        return pd.read_excel(io.BytesIO(content), header=1)
    except ImportError:
        remedy = "install xlrd, or save it as CSV and give that with --from"
        raise DataError(f"the credit data come as an .xls spreadsheet; {remedy}.") from None
    except Exception:  # Every spreadsheet engine has errors of its own.
        raise DataError("the credit spreadsheet cannot be read; give the file as published.") from None
