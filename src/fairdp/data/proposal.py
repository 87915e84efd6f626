"""A schema file proposed from a table, for a human to confirm: what it read from the rows, it says."""

import datetime
import math
from typing import Any

import numpy as np
import pandas as pd
import yaml

from fairdp.data.columns import Categorical, Column, Numeric
from fairdp.data.distinct import readable_numbers
from fairdp.data.formats import PLAIN, TableFormat
from fairdp.data.inference import FEW_WORDS, RARE, READ_FROM_TABLE, infer_schema
from fairdp.data.observed import observe
from fairdp.data.schema import TableSchema

# Numbers whose largest value is so many times their median have a long tail.
_LONG_TAIL = 20.0

_HEAD = """\
# For the people in this table a positive decision is: {decision}
# Rates, gaps and certificates are about that one. If it is the other one, exchange "positive" and "negative" below.
#
# A proposal, read from the rows of {table}. Everything below has looked at private data: a category that one
# person has, or a largest value, is that person's. Go through it line by line:
#   - replace bounds and categories by what you know of the column, not of these rows;
#   - remove columns that must not be used; what stands for the label or a group in disguise is your call;
#   - then set "declared: true". Until you do, models trained with this file say that it was read from the table.
# How to write each line: docs/schema.md.
declared: false
"""


def proposed_schema(
    frame: pd.DataFrame,
    *,
    table: str,
    label: str,
    sensitive: tuple[str, ...],
    positive: object,
    written: TableFormat = PLAIN,
) -> str:
    """YAML with comments, and with the format in which the table was read; `read_schema` reads it."""
    schema, notes = infer_schema(frame, label, sensitive, positive)
    outcome = {"label": schema.label, "positive": schema.positive, "negative": schema.negative}
    decision = f"{schema.label} = {schema.positive}"
    lines = [_HEAD.format(table=table, decision=" ".join(decision.split())), _yaml(outcome)]
    if written != PLAIN:
        lines.append(f"format: {_flow(written.to_dict())}\n")
    lines.append("sensitive:\n")
    lines += [_protected(column, frame) for column in schema.protected]
    lines.append(_groups_note(schema, frame))
    lines.append("columns:\n")
    lines += [_column(column, frame[column.name]) for column in schema.columns]
    lines += [f"# {note}\n" for note in notes if note != READ_FROM_TABLE]
    return "".join(lines)


def _protected(column: Categorical, frame: pd.DataFrame) -> str:
    entry = {"name": column.name, "groups": list(column.categories)} | ({"other": column.other} if column.other else {})
    line = f"  - {_flow(entry)}\n"
    if column.other:
        line += f"    # Whoever has no value here, or another one, is in the group {column.other!r}.\n"
    counts = observe(frame[column.name]).counts
    rare = [text for text in column.categories if text != column.other and counts.get(text, 0) < RARE]
    if not rare:
        return line
    shown = ", ".join(rare[:5]) + (", …" if len(rare) > 5 else "")
    return line + f"    # Fewer than {RARE} rows each: {shown}. Whoever reads this file learns that they are there.\n"


def _groups_note(schema: TableSchema, frame: pd.DataFrame) -> str:
    """Groups that are too small to learn from or to certify, with their sizes."""
    codes, names = schema.encode_groups(frame)
    sizes = np.bincount(codes, minlength=len(names))
    small = [f"{name!r} {size}" for name, size in zip(names, sizes, strict=True) if size < 50 * RARE]
    if not small:
        return ""
    return (
        f"  # Small groups: {', '.join(small)} rows. How they are treated may be hidden by noise, and the smaller\n"
        "  # they are, the less a certificate says (fairdp plan). To merge them, list fewer values and add, for\n"
        "  # instance, 'other: rest' with 'rest' among them, which others then count as.\n"
    )


def _column(column: Column, values: pd.Series) -> str:
    if isinstance(column, Numeric):
        return _numeric(column, values)
    assert isinstance(column, Categorical)
    entry = {"name": column.name, "type": "categorical", "categories": list(column.categories), "other": column.other}
    return f"  - {_flow(entry)}\n{_merged(column, values)}"


def _merged(column: Categorical, values: pd.Series) -> str:
    """The share of rows whose values are not listed."""
    counts = observe(values, few_words=FEW_WORDS).counts
    merged = [count for text, count in counts.items() if text not in column.categories]
    if not merged:
        return ""
    several = f"{len(merged)} more values" if len(merged) > 1 else "One more value"
    share = f"{100 * sum(merged) / len(values):.2g} % of the rows"
    return f"    # {several}, in {share}, and any that is new, count as {column.other!r}.\n"


def _numeric(column: Numeric, values: pd.Series) -> str:
    entry: dict[str, object] = {"name": column.name, "type": "numeric"}
    seen = observe(values, few_words=FEW_WORDS)
    if seen.kind == "date":
        entry |= {"low": _date(column.low, -1), "high": _date(column.high, 1)}
    else:
        entry |= {"low": round_number(column.low, up=False), "high": round_number(column.high, up=True)}
        if column.low >= 0 and column.high > _LONG_TAIL * max(float(np.nanmedian(readable_numbers(values)[0])), 1.0):
            entry["transform"] = "signed_log"
    entry["missing"] = column.missing
    if column.missing_words:
        entry["missing_words"] = list(column.missing_words)
    line = f"  - {_flow(entry)}\n"
    if seen.words:
        share = f"{100 * sum(seen.words.values()) / len(values):.2g} % of the rows"
        line += f"    # Words in place of a number, in {share}, count as missing.\n"
    return line


def _date(days: float, years: int) -> datetime.date:
    """The first of January around a date, outwards: a birthday is a person's, a year is not."""
    year = (datetime.date(1970, 1, 1) + datetime.timedelta(days=math.floor(days))).year
    return datetime.date(year + (years if years > 0 else 0), 1, 1)


def round_number(value: float, *, up: bool) -> float:
    """The next number with one significant digit, so that a bound is nobody's value.

    >>> [round_number(v, up=True) for v in (90, 99_999, 0.37, 0, -17)]
    [90.0, 100000.0, 0.4, 0.0, -10.0]
    >>> round_number(17, up=False), round_number(-17, up=False)
    (10.0, -20.0)
    """
    if value == 0:
        return 0.0
    unit = 10.0 ** math.floor(math.log10(abs(value)))
    steps = math.ceil(value / unit) if up else math.floor(value / unit)
    return float(f"{steps * unit:.1g}") if steps else 0.0


def _yaml(value: Any) -> str:
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=10_000)


def _flow(value: Any) -> str:
    """On one line; dates and words that YAML would take for something else come out quoted or plain, as needed."""
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, default_flow_style=True, width=10**9).strip()
