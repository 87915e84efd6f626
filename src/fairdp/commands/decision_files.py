"""The file that `fairdp predict` writes: whole or not at all, and only in the place of earlier decisions."""

import csv
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from fairdp._checks import ParameterError
from fairdp._files import allowed_mode, sync_folder

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


@contextmanager
def drafted(out: Path) -> Iterator[BinaryIO]:
    """A file to write to some at a time, which takes its name when all is written."""
    with saying_out(out):
        handle, temporary = tempfile.mkstemp(dir=out.parent, prefix=f".{out.name}.")
    try:
        with os.fdopen(handle, "wb") as draft:
            yield draft
            with saying_out(out):
                draft.flush()
                os.fsync(draft.fileno())
        with saying_out(out):
            os.chmod(temporary, allowed_mode(0o666))
            os.replace(temporary, out)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    sync_folder(out.parent)


@contextmanager
def saying_out(out: Path) -> Iterator[None]:
    """Say in one line why the file cannot be written."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error).splitlines()[0]
        raise ParameterError("out", str(out), f"cannot be written: {reason}") from None
