"""Commands that do the same every time, and fast: so that disturbing one at each of its calls takes minutes.

What is random or costly here is no part of what is tried: tokens, names of drafts and the clock; bounds and totals,
which are functions of numbers; and pictures.
"""

import contextlib
import io
import itertools
import random
import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fairdp.certify import certificate
from fairdp.cli import main
from fairdp.ledger import ledger as book
from fairdp.ledger import store as totals
from fairdp.saved import verify_checks as checks
from fairdp_lab.sweeps import compare


class _Clock:
    """Always the same moment."""

    @staticmethod
    def now(zone: Any) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)


def steady(command: list[str], patch: pytest.MonkeyPatch) -> None:
    """Draw the same tokens and names whenever the same command runs."""
    drawn = random.Random(repr(command))
    patch.setattr(secrets, "token_bytes", drawn.randbytes)
    patch.setattr(secrets, "token_hex", lambda n_bytes: drawn.randbytes(n_bytes).hex())
    patch.setattr(tempfile, "_name_sequence", (f"{number:08d}" for number in itertools.count()))
    patch.setattr(book, "datetime", _Clock)
    patch.setattr(compare, "_draw", lambda found, folder: [])


@contextmanager
def remembering() -> Iterator[None]:
    """Let this process and its copies compute no bound and no total twice."""
    with pytest.MonkeyPatch.context() as patch:
        bound, total = _remembered(certificate.gap_bound), _remembered(totals.composed)
        for module in (certificate, checks):
            patch.setattr(module, "gap_bound", bound)
        patch.setattr(totals, "composed", total)
        yield


def _remembered(function: Callable[..., Any]) -> Callable[..., Any]:
    known: dict[str, Any] = {}

    def remembered(*values: Any, **named: Any) -> Any:
        values = tuple(tuple(value) if isinstance(value, Iterator) else value for value in values)
        key = repr((values, named))
        if key not in known:
            known[key] = function(*values, **named)
        return known[key]

    return remembered


def rehearse(folder: Path, command: tuple[str, ...]) -> None:
    """Run a command in this very process, for what it will remember."""
    out, err = (contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()))
    with pytest.MonkeyPatch.context() as patch, out, err:
        patch.chdir(folder)
        steady(list(command), patch)
        with pytest.raises(SystemExit) as end:
            main(list(command))
    assert end.value.code == 0
