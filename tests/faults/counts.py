"""What the campaign counts, kind by kind."""

from collections.abc import Callable
from dataclasses import dataclass

Twin = Callable[[], None]


@dataclass(frozen=True, kw_only=True)
class Count:
    """How often something was tried, and how often what must hold did not.

    Parameters
    ----------
    kind, what
        What was done, and to what.
    first
        What went wrong first, if anything did.
    twin
        The mistake that was put into the code to see whether it is noticed, with counts of its own.
    """

    kind: str
    what: str
    tried: int
    failed: int
    first: str = ""
    twin: str
    twin_tried: int
    twin_failed: int

    @property
    def good(self) -> bool:
        """Whether all held, and would have been noticed if not."""
        return self.tried > 0 and not self.failed and self.twin_failed > 0


@dataclass
class Tally:
    """Counts as it goes along."""

    tried: int = 0
    failed: int = 0
    first: str = ""

    def add(self, where: str, complaints: list[str]) -> None:
        """One more, and what did not hold."""
        self.tried += 1
        self.failed += bool(complaints)
        if complaints and not self.first:
            self.first = f"{where}: {'; '.join(complaints)}"

    def count(self, kind: str, what: str, *, twin: str, noticed: "Tally") -> Count:
        """With what became of the twin."""
        return Count(
            kind=kind,
            what=what,
            tried=self.tried,
            failed=self.failed,
            first=self.first,
            twin=twin,
            twin_tried=noticed.tried,
            twin_failed=noticed.failed,
        )
