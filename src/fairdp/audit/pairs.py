"""One route on one table and on its neighbours, held against each other."""

import shutil
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from fairdp._checks import InputError
from fairdp._files import from_plain, parsed_json
from fairdp.accounting.spent import PrivacySpent
from fairdp.audit.accounted import Accounted, Found
from fairdp.audit.folders import Files, differing_files
from fairdp.audit.neighbours import Neighbour, neighbours_of, typical_neighbours
from fairdp.audit.noise_seen import suspicious_noise
from fairdp.audit.recording import Diverged, Move, Recorder, Replayer
from fairdp.audit.routes import Route
from fairdp.audit.tables import Table, base_table, group_of, is_numeric, label_of
from fairdp.audit.violations import ReplayReport, Violation
from fairdp.audit.ways import FOLDER
from fairdp.releases import Release, Watcher, watching
from fairdp.run.made import on_one_day
from fairdp.saved.folder import PRIVACY
from fairdp.saved.verify.folder import verify_folder

# Of each pair of tables so much is reported; the rest follows from it.
_MOST_FOUND = 3
_FEW = 7
_QUICK = ("the same table", "typical f", "a word among codes", "huge numbers", "equal to another")
# Every third record is removed too; typical ones are added until both parts were met, so many at most.
_REMOVED_EVERY, _MOST_FURTHER = 3, 30
_NOBODY = "the table itself"


@dataclass(frozen=True, kw_only=True, eq=False)
class Recording:
    """A run as it was recorded: what left the records, the files it wrote, and what they account for."""

    table: Table
    releases: Sequence[Release]
    files: Files
    privacy: PrivacySpent


def replay_route(
    method: str,
    route: Route,
    *,
    seed: int,
    rotation: int = 0,
    quick: bool = False,
    kinds: Sequence[str] | None = None,
) -> ReplayReport:
    """Record the route once and replay it on neighbours of every kind, or of these kinds."""
    with TemporaryDirectory() as place, on_one_day():
        audit = _Route(method=method, route=route, seed=seed, place=Path(place))
        found = neighbours_of(audit.base, seed)
        if kinds is not None:
            return audit.on([neighbour for neighbour in found if neighbour.name in kinds])
        return audit.on(_chosen(found, route, rotation, quick=quick), further=True)


def _chosen(found: Sequence[Neighbour], route: Route, rotation: int, *, quick: bool) -> list[Neighbour]:
    """All neighbours on the main route; on others a few, different ones on each, so that all kinds have their turn."""
    if quick:
        return [neighbour for neighbour in found if neighbour.name in _QUICK]
    if route.is_full:
        return list(found)
    kinds = found[1:]
    return [found[0], *(kinds[(rotation * _FEW + i) % len(kinds)] for i in range(_FEW))]


@dataclass(eq=False)
class _Route:
    """One route, and which parts of the records its neighbours have met so far."""

    method: str
    route: Route
    seed: int
    place: Path
    met: set[str] = field(default_factory=set)
    base: Table = field(init=False)

    def __post_init__(self) -> None:
        table = base_table(self.seed)
        self.base = Table(rows=tuple(row for row in table.rows if group_of(row) != self.route.lacks))

    def on(self, neighbours: Sequence[Neighbour], *, further: bool = False) -> ReplayReport:
        """The route on the table and on these neighbours, and on more of them until both parts are met."""
        try:
            recording = self._recorded(self.base)
        except Exception as error:
            return self._found(_NOBODY, [("reading", f"the table is refused: {type(error).__name__}: {error}")])
        report = self._found(_NOBODY, self._about_itself(recording))
        for number, neighbour in enumerate(neighbours):
            report += self._pair(recording, neighbour, removed=number % _REMOVED_EVERY == 1)
        if further:
            for neighbour in islice(typical_neighbours(self.seed), _MOST_FURTHER):
                if not self._unmet(recording):
                    break
                report += self._pair(recording, neighbour)
            report += self._met(recording)
        return report

    def _recorded(self, table: Table) -> Recording:
        recorder = Recorder()
        files = self._run(table, recorder)
        privacy = from_plain(PrivacySpent, parsed_json(files[PRIVACY]))
        return Recording(table=table, releases=recorder.releases, files=files, privacy=privacy)

    def _run(self, table: Table, watcher: Watcher) -> Files:
        place = self.place / "run"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        with watching(watcher), warnings.catch_warnings():
            # Numbers that are too large for single precision are meant to be.
            warnings.simplefilter("ignore", RuntimeWarning)
            return self.route.way(table, place, {**self.route.settings, "random_state": self.seed})

    def _about_itself(self, recording: Recording) -> Iterator[Found]:
        """What is wrong with the recorded run alone: its noise, or an account that does not add up to its ε."""
        yield from suspicious_noise(recording.releases)
        for check in verify_folder(self.place / "run" / FOLDER):
            if not check.passed:
                yield f"verify, {check.name}", check.found

    def _met(self, recording: Recording) -> ReplayReport:
        """What was released on this route, and what of it some neighbour moved."""
        made = frozenset((self.route.name, release.purpose) for release in recording.releases)
        return ReplayReport(made=made, met=frozenset(pair for pair in made if pair[1] in self.met))

    def _unmet(self, recording: Recording) -> list[str]:
        """Parts of the records whose releases no neighbour has moved so far: there, nothing has been tested."""
        needed = {release.purpose for release in recording.releases}
        return sorted(needed - self.met)

    def _pair(self, recording: Recording, neighbour: Neighbour, *, removed: bool = False) -> ReplayReport:
        """The table with one record more; on request also the larger table with that record removed."""
        row = neighbour.row
        if row is None:
            return self._replayed(recording, self.base, neighbour, neighbour.name)
        if not self.route.reads_raw_cells and not is_numeric(row):
            return ReplayReport()
        larger = self.base.with_row(row)
        report = self._replayed(recording, larger, neighbour, f"added: {neighbour.name}")
        if not removed or report.refused or report.violations:
            return report
        try:
            recorded = self._recorded(larger)
        except InputError:
            # Other sizes meet other noise, and noisy sizes may be too small to train with.
            return report
        return report + self._replayed(recorded, self.base, neighbour, f"removed: {neighbour.name}")

    def _replayed(self, recording: Recording, table: Table, neighbour: Neighbour, name: str) -> ReplayReport:
        replayer = Replayer(recording.releases)
        files: Files = {}
        in_batches, found = 0, list[Found]()
        try:
            files = self._run(table, replayer)
            replayer.check_complete()
        except Diverged as diverged:
            found = [(diverged.release, diverged.found)]
        except InputError as error:
            return self._refused(name, neighbour, error)
        except Exception as error:
            found = [("reading", f"ends in {type(error).__name__}: {error}")]
        else:
            in_batches, found = self._held_against(recording, replayer.moves, files, neighbour)
        return self._found(name, found[:_MOST_FOUND]) + ReplayReport(
            releases=len(replayer.moves), neighbours=1, files=len(files), in_batches=in_batches
        )

    def _held_against(
        self, recording: Recording, moves: Sequence[Move], files: Files, neighbour: Neighbour
    ) -> tuple[int, list[Found]]:
        differing = list(differing_files(recording.files, files))
        if neighbour.row is None:
            moved = [(move.name, "another value from the same records and coins") for move in moves if move.distance]
            return 0, [*moved, *differing]
        group = self.route.group(group_of(neighbour.row))
        accounted = Accounted.of(recording.privacy, group, label_of(neighbour.row))
        self.met |= {move.purpose for move in moves if move.distance}
        found = [*accounted.overspent(moves), *accounted.sampled_too_often(moves), *differing]
        return accounted.in_batches(moves), found

    def _refused(self, name: str, neighbour: Neighbour, error: InputError) -> ReplayReport:
        """A refusal in one line is right where the schema does not allow the record, and only there."""
        allowed = self.route.reads_raw_cells and not neighbour.refused
        report = ReplayReport(neighbours=1, refused=1)
        if "\n" in str(error) or allowed:
            report += self._found(name, [("reading", f"refused although the schema allows it: {error}")])
        return report

    def _found(self, neighbour: str, found: Sequence[Found] | Iterator[Found]) -> ReplayReport:
        violations = tuple(
            Violation(method=self.method, route=self.route.name, neighbour=neighbour, release=release, found=text)
            for release, text in found
        )
        return ReplayReport(violations=violations)
