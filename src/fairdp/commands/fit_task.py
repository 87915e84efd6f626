"""One call of `fairdp fit` or `fairdp tune`: what was asked for."""

from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex
from typing import Any

from fairdp._checks import InputError
from fairdp.commands.records import Source
from fairdp.launch import note, noted
from fairdp.run.checkpoint import check_new
from fairdp.saved.folder import MARKER
from fairdp.team import the_team

# What a launch notes before its run may be paid for, and the process that has noted it.
_BEGUN, _PROCESS = "begun", token_hex()


@dataclass(frozen=True, kw_only=True)
class FitTask:
    """One call of `fairdp fit`."""

    source: Source
    parameters: dict[str, Any]
    checkpoint: Path | None
    resume: bool
    out: Path | None
    overwrite: bool = False
    private_metrics: bool = False
    ledger: Path | None = None
    budget: float | None = None
    search: "Search | None" = None

    @property
    def compared(self) -> tuple[object, ...]:
        """What all processes of a team must be told alike; where files are may differ, and which of them write."""
        source = replace(self.source, table=None, schema=None, test=None, cache=None)
        files = (self.source.schema, self.source.test, self.source.cache, self.checkpoint, self.ledger)
        given = tuple(path is None for path in files)
        return source, self.parameters, self.resume, given, self.budget, self.private_metrics

    def continued(self) -> "FitTask":
        """As it is at the first start of a launch; started again, it goes on, and never begins a second time."""
        how = the_team().from_first(self._how)
        return replace(self, resume=b"resume" in how, overwrite=self.overwrite or b"replace" in how)

    def _how(self) -> bytes:
        begun = (noted(_BEGUN) or "").split()
        if begun and begun[0] != _PROCESS:
            return self._later_start(begun[1])
        # From here on a checkpoint of this name, and a model that was not there, are this launch's own.
        if self.checkpoint is not None and not self.resume:
            check_new(self.checkpoint)
        note(_BEGUN, f"{_PROCESS} {self._model()}")
        return b"resume" if self.resume else b""

    def _later_start(self, model_before: str) -> bytes:
        if self.checkpoint is None:
            raise InputError(
                "a worker was lost, and without `checkpoint` the run cannot go on; start it again with one."
            )
        wrote, there = self._model() != model_before, self.checkpoint.exists()
        if wrote and not there:
            # Whoever had written it was lost before the launch could end.
            raise InputError(f"the run is not begun again: its model is in {str(self.out)!r}.")
        return b"resume" * there + b" replace" * wrote

    def _model(self) -> str:
        """Another word for every model that was ever written to the folder."""
        marker = None if self.out is None else self.out / MARKER
        if marker is None or not marker.exists():
            return "none"
        state = marker.stat()
        return f"{state.st_ino}-{state.st_mtime_ns}"


@dataclass(frozen=True, kw_only=True)
class Search:
    """A search for settings that ε covers."""

    grid: dict[str, list[Any]]
    within_gap: float
    expected_trials: float | None
