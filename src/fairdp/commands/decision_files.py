"""Which file `fairdp predict` may replace: one of earlier decisions, which can be made again, and no other."""

import csv
from pathlib import Path

from fairdp._checks import ParameterError

# What every file of decisions has among its columns.
WRITTEN = ("score", "probability", "decision")


def refuse_foreign(out: Path) -> None:
    """Refuse to replace a file that `fairdp predict` has not written."""
    if out.is_file() and out.stat().st_size and not {*WRITTEN} <= _columns(out):
        raise ParameterError("out", str(out), "exists and holds no decisions of fairdp predict", "choose another file")


def _columns(path: Path) -> set[str]:
    """The columns of a table that may be none."""
    from pyarrow import ArrowException, parquet

    try:
        if path.suffix.lower() == ".parquet":
            return {*parquet.read_schema(path).names}
        with path.open(encoding="utf-8", newline="") as file:
            return {*next(csv.reader(file), [])}
    except (ArrowException, UnicodeDecodeError, csv.Error):
        return set()
