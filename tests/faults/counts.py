"""The counts of the campaign, kind by kind."""

from collections.abc import Callable
from dataclasses import dataclass

NegativeControl = Callable[[], None]


@dataclass(frozen=True, kw_only=True)
class Count:
    """Number of trials of one kind, and of those in which something that must hold did not.

    Parameters
    ----------
    kind, what
        What was done, and to what.
    first
        What went wrong first, if anything did.
    control
        The mistake that was put into the code to see whether it is noticed, with counts of its own.
    """

    kind: str
    what: str
    tried: int
    failed: int
    first: str = ""
    control: str
    control_tried: int
    control_failed: int

    @property
    def good(self) -> bool:
        """True if every trial held, and a failure would have been noticed."""
        return self.tried > 0 and not self.failed and self.control_failed > 0


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

    def count(self, kind: str, what: str, *, control: str, noticed: "Tally") -> Count:
        """With what became of the negative control."""
        return Count(
            kind=kind,
            what=what,
            tried=self.tried,
            failed=self.failed,
            first=self.first,
            control=control,
            control_tried=noticed.tried,
            control_failed=noticed.failed,
        )
