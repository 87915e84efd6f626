"""When a model was made, and with which versions: the day, in UTC, and never the time of day."""

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, date, datetime
from importlib.metadata import version

# Of one context each, as the door of the releases is.
_DAY: ContextVar[str | None] = ContextVar("day", default=None)


@dataclass(frozen=True, kw_only=True)
class Made:
    """The day of a fit, as ISO 8601 writes it, and the versions that it ran with; nothing here depends on a record."""

    date: str
    fairdp: str
    torch: str
    python: str

    @property
    def is_a_day(self) -> bool:
        """Whether the date is one of the calendar, and no more than that: a time of day is not."""
        try:
            return date.fromisoformat(self.date).isoformat() == self.date
        except ValueError:
            return False

    @property
    def versions(self) -> str:
        """The versions in words."""
        return f"fairdp {self.fairdp}, torch {self.torch}, Python {self.python}"


def made_now() -> Made:
    """A model that is made at this moment."""
    return Made(
        date=_DAY.get() or _today(), fairdp=version("fairdp"), torch=version("torch"), python=platform.python_version()
    )


@contextmanager
def on_one_day() -> Iterator[None]:
    """Let everything inside be made on the same day, so that two runs around midnight can be compared byte by byte."""
    token = _DAY.set(_DAY.get() or _today())
    try:
        yield
    finally:
        _DAY.reset(token)


def _today() -> str:
    return datetime.now(UTC).date().isoformat()
