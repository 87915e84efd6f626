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
        return replace(self, resume=bool(the_team().from_first(lambda: b"yes" if self._goes_on() else b"")))

    def _goes_on(self) -> bool:
        if noted(_BEGUN) in (None, _PROCESS):
            # From here on a checkpoint of this name is this launch's own.
            if self.checkpoint is not None and not self.resume:
                check_new(self.checkpoint)
            note(_BEGUN, _PROCESS)
            return self.resume
        if self.checkpoint is None:
            raise InputError(
                "a worker was lost, and without `checkpoint` the run cannot go on; start it again with one."
            )
        there = self.checkpoint.exists()
        if not there and self.out is not None and (self.out / MARKER).exists():
            # Whoever had written it was lost before the launch could end.
            raise InputError(f"the run is not begun again: there is a model in {str(self.out)!r}, and no checkpoint.")
        return there


@dataclass(frozen=True, kw_only=True)
class Search:
    """A search for settings that ε covers."""

    grid: dict[str, list[Any]]
    within_gap: float
    expected_trials: float | None
