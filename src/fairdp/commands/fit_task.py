"""One call of `fairdp fit` or `fairdp tune`: what was asked for."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fairdp._checks import InputError
from fairdp.commands.records import Source
from fairdp.saved.folder import MARKER
from fairdp.team import the_team


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
        """What all processes of a team must be told alike; where files are, and which of them write, may differ."""
        source = replace(self.source, table=None, schema=None, test=None, cache=None)
        return source, self.parameters, self.resume, self.checkpoint is None, self.private_metrics

    def continued(self) -> "FitTask":
        """A run that torchrun starts again after it lost a process: it goes on, and never begins a second time."""
        checkpoint = self.checkpoint
        if checkpoint is None:
            raise InputError(
                "a worker was lost, and without `checkpoint` the run cannot go on; start it again with one."
            )
        there = bool(the_team().from_first(lambda: b"yes" if checkpoint.exists() else b""))
        done = bool(the_team().from_first(lambda: b"yes" if self.out and (self.out / MARKER).exists() else b""))
        if done and not there:
            # A target that it missed looks to torchrun like a worker that was lost.
            raise InputError(f"the run is not begun again: there is a model in {str(self.out)!r}, and no checkpoint.")
        return replace(self, resume=there)


@dataclass(frozen=True, kw_only=True)
class Search:
    """A search for settings that ε covers."""

    grid: dict[str, list[Any]]
    within_gap: float
    expected_trials: float | None
