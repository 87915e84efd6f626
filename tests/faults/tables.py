"""Tables that nobody should write: broken text, broken Parquet files, and columns of every type."""

import datetime
import decimal
import io
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

from faults.forging import changed_bytes, changed_text

CELLS = (
    *("", "NA", "nan", "inf", "-inf", "1e400", "9" * 400, str(2**64), "0x10", "1_000", "2020-02-30"),
    *("2020-01-01T00:00Z", "a\x00b", '"', "'", "é", "\u202e", "f ", " m", "True", "01", "1e5", "x" * 10_000),
    *("\r", "a\nb", "\ud83d\ude00", "=1+1"),
)
COLUMNS = (
    pa.array([1.5, None, float("nan"), float("inf")]),
    pa.array([2**63, 1, None, 2**53 + 1], pa.uint64()),
    pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("1e10"), decimal.Decimal("0")], pa.decimal128(30, 5)),
    pa.array([datetime.date(1, 1, 1), None, datetime.date(9999, 12, 31), datetime.date(2020, 1, 1)]),
    pa.array([0, None, 2**62, -(2**62)], pa.timestamp("ns")),
    pa.array([0, None, 2**40, -(2**40)], pa.timestamp("s", tz="Europe/Paris")),
    pa.array([1, None, 2, 3], pa.duration("s")),
    pa.array([1, None, 2, 3], pa.time64("us")),
    pa.array([b"a", None, b"\xff", b""]),
    pa.array([[1], None, [], [2, 3]]),
    pa.array([{"a": 1}, None, {"a": None}, {"a": 2}]),
    pa.array(["f", "m", None, "f"]).dictionary_encode(),
    pa.array([True, None, False, True]),
    pa.nulls(4),
    pa.array([18, 90, 40, 50], pa.int8()),
    pa.array([18.0, 90.0, None, 50.0], pa.float32()),
    pa.array(["clerk", "nurse", "pilot", ""]),
)


def changed_csv(rng: Random, content: bytes) -> bytes:
    """A CSV file with another cell, header, line or bytes."""
    how = rng.randrange(5)
    if how == 0:
        return changed_bytes(rng, content)
    if how == 1:
        return changed_text(rng, content.decode()).encode()
    lines = [line.split(",") for line in content.decode().splitlines()]
    row = 0 if how == 2 else rng.randrange(len(lines))
    if how == 4:
        lines.insert(row, rng.choice((lines[row], lines[row] * 2, [], [""], lines[row][:-1])))
    else:
        lines[row][rng.randrange(len(lines[row]))] = rng.choice(CELLS)
    end = rng.choice(("\n", "\n", "\r\n", "\r", ""))
    return end.join(",".join(line) for line in lines).encode(errors="replace")


def changed_parquet(rng: Random, content: bytes) -> bytes:
    """A Parquet file with another column, or changed bytes."""
    if rng.randrange(2):
        return changed_bytes(rng, content)
    table = pq.read_table(io.BytesIO(content)).slice(0, 4)
    for _ in range(rng.choice((1, 1, 2))):
        place = rng.randrange(table.num_columns)
        name = table.column_names[place] if rng.randrange(4) else rng.choice(("", " age", "y", "1", "é"))
        table = table.set_column(place, name, rng.choice(COLUMNS))
    stream = io.BytesIO()
    pq.write_table(table, stream)
    return stream.getvalue()
