"""What an audit by replay reports."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Violation:
    """Something that one record changed and that is not accounted for."""

    method: str
    route: str
    neighbour: str
    release: str
    found: str


@dataclass(frozen=True, kw_only=True)
class ReplayReport:
    """What was replayed and what was found.

    Parameters
    ----------
    releases, neighbours, files
        How many releases, pairs of tables and files were held against each other.
    in_batches
        In how many of the replayed batches the record was by which the tables differ.
    refused
        Neighbours that were refused in one line, as the schema demands.
    made, met
        Route and purpose of the releases that were made, and of those that some neighbour moved.
    """

    releases: int = 0
    neighbours: int = 0
    files: int = 0
    in_batches: int = 0
    refused: int = 0
    violations: tuple[Violation, ...] = ()
    made: frozenset[tuple[str, str]] = frozenset()
    met: frozenset[tuple[str, str]] = frozenset()

    @property
    def untested(self) -> list[tuple[str, str]]:
        """Where no neighbour moved a release: a model that refuses everybody has counts that nobody moves."""
        return sorted(self.made - self.met)

    @property
    def never_tested(self) -> list[str]:
        """Purposes whose releases no neighbour moved on any route: of these the replay has shown nothing."""
        return sorted({part for _, part in self.made} - {part for _, part in self.met})

    def __add__(self, other: "ReplayReport") -> "ReplayReport":
        return ReplayReport(
            releases=self.releases + other.releases,
            neighbours=self.neighbours + other.neighbours,
            files=self.files + other.files,
            in_batches=self.in_batches + other.in_batches,
            refused=self.refused + other.refused,
            violations=self.violations + other.violations,
            made=self.made | other.made,
            met=self.met | other.met,
        )
