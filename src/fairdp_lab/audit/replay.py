"""Record and replay: a run on one table, and the same run on its neighbours with all releases held fixed."""

import secrets
import shutil
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fairdp import errors
from fairdp._io import from_plain, parsed_json
from fairdp.accounting.spent import PrivacySpent
from fairdp.errors import InputError
from fairdp.methods import METHODS
from fairdp.releases import OPEN_DOMAIN, Release, ReleaseHook, watching
from fairdp.run.plan import on_one_day
from fairdp.saved.folder import PRIVACY
from fairdp.saved.verify import verify_folder
from fairdp_lab.audit.routes import (
    FOLDER,
    GROUPS,
    LABEL,
    SENSITIVE,
    Diverged,
    Files,
    FitFile,
    Found,
    Move,
    PrivacyClaim,
    Recorder,
    Replayer,
    Route,
    Row,
    Table,
    base_table,
    differing_files,
    fit_file,
    group_of,
    is_numeric,
    label_of,
    named,
    routes_of,
    typical_row,
)

# Cells that differ from those of a typical record, by what they are.
_KINDS: dict[str, dict[str, str]] = {
    "a word among codes": {"code": "0A"},
    "a code without its zero": {"code": "3"},
    "a code with more zeros": {"code": "0003"},
    "a code as a decimal": {"code": "3.0"},
    "a truth value among codes": {"code": "TRUE"},
    "a missing code spelled out": {"code": "other"},
    "alone in its category": {"region": "west"},
    "quotes and commas": {"city": 'A "town", far'},
    "another script": {"city": "Ελλάδα"},
    "smallest numbers": {"age": "17", "income": "-10000", "hours": "0"},
    "largest numbers": {"age": "90", "income": "1000000", "hours": "168"},
    "numbers beyond the bounds": {"age": "-5", "income": "-1e9", "hours": "1e6"},
    "huge numbers": {"age": "1e300", "income": "1e30", "hours": "1e30"},
    "too large for a double": {"age": "1e400", "income": "-1e400"},
    "infinite": {"age": "inf", "income": "-inf"},
    "not a number": {"age": "nan"},
    "everything missing that may be": {"age": "", "region": "", "joined": ""},
    "a date among numbers": {"age": "1990-01-01"},
    "a number among dates": {"joined": "12000"},
    "a group that counts as another": {SENSITIVE: "divers"},
    "a word among numbers": {"income": "much", "age": "old"},
    "a missing value that nobody declared": {"hours": "", "income": "", "city": ""},
    "an undeclared category": {"region": "moon"},
    "largest weight": {"weight": "1.0"},
    "no weight": {"weight": "0.0"},
}
_REFUSED: dict[str, dict[str, str]] = {
    "an undeclared label": {LABEL: "maybe"},
    "no label": {LABEL: ""},
    # The declared schema says what it counts as; of columns that nobody declared, a group must be filled.
    "no group": {SENSITIVE: ""},
}
# Chance that noise as stated is reported, for each of the few tests of a run.
_FALSE_ALARM = 1e-9
_FEWEST_TO_COMPARE, _SAME_DIRECTION = 12, 0.9999
# Releases of a run whose noise is compared with itself, place by place.
_COMPARED_WITHIN = 3
# Of each pair of tables so much is reported; the rest follows from it.
_MOST_FOUND = 3
_FEW = 7
_QUICK = ("the same table", "typical f", "a word among codes", "huge numbers", "equal to another")
# Every third record is removed too; typical ones are added until both parts were met, so many at most.
_REMOVED_EVERY, _MOST_FURTHER = 3, 30
_NOBODY = "the table itself"
# A run as it was recorded: what left the records, and the files it wrote.
Recording = tuple[Sequence[Release], Files]
__all__ = ["ReplayReport", "Violation", "replay"]


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
    """Counts of what was replayed, and the violations that were found.

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


def replay(
    method: str,
    *,
    seed: int | None = None,
    observe: Callable[[str], None] = lambda line: None,
    quick: bool = False,
    fit: FitFile = fit_file,
) -> ReplayReport:
    """Record runs of a method and replay each on neighbouring tables: nothing unaccounted may depend on one record.

    Each route is taken once on a table and once more for each of its neighbours, which has one record more or less in
    the file itself. The replay draws the same coins and hands out the recorded releases. Checked are: the same releases
    in the same order, of the same shape and with the same noise; the distance of the exact values against what
    ``privacy.json`` accounts for the record's group; that nobody is both trained on and held out; and every byte of
    the saved folder. Methods that are not private have nothing to audit.

    Parameters
    ----------
    method
        One of ``fairdp.METHODS``.
    seed
        Of the table, its neighbours and all randomness; None for another one every time.
    observe
        Called with a line about each route before it is taken.
    quick
        Fewer routes, records and steps.
    fit
        How a file becomes a folder, such as the whole of `fairdp fit`.

    References
    ----------
    Auditing by record and replay: arXiv 2602.17454 (2026).
    """
    errors.one_of(METHODS, method=method)
    report = ReplayReport()
    if not METHODS[method].private:
        return report
    seed = secrets.randbelow(2**31) if seed is None else seed
    for number, route in enumerate(routes_of(method, fit, quick=quick)):
        observe(f"replay of {method}: {route.name}")
        report += replay_route(method, route, seed=seed, rotation=number, quick=quick)
    # A release that no neighbour moved on any route: an audit that tests nothing must not pass.
    untested = tuple(
        Violation(
            method=method, route="all", neighbour="all", release="the audit", found=f"no neighbour moved any {part}"
        )
        for part in report.never_tested
    )
    return report + ReplayReport(violations=untested)


@dataclass(frozen=True, kw_only=True)
class Neighbour:
    """A record that one of two tables has and the other has not; none for the same table twice.

    Parameters
    ----------
    refused
        Whether it may be refused, and the whole table with it, in one line.
    """

    name: str
    row: Row | None
    refused: bool = False


def neighbours_of(table: Table, seed: int) -> list[Neighbour]:
    """All kinds, each as one record; the same table comes first, to see that a run can be repeated at all."""
    rng = np.random.default_rng(seed)
    first = [Neighbour(name="the same table", row=None)]
    first += [Neighbour(name=f"typical {group}", row=typical_row(rng, group)) for group in GROUPS]
    row = typical_row(rng)
    other = {**row, LABEL: "no" if row[LABEL] == "yes" else "yes"}
    first += [Neighbour(name="one label", row=row), Neighbour(name="the other label", row=other)]
    first += [Neighbour(name="equal to another", row=dict(table.rows[0]))]
    first += [Neighbour(name=name, row={**typical_row(rng), **cells}) for name, cells in _KINDS.items()]
    refused = [
        Neighbour(name=name, row={**typical_row(rng), **cells}, refused=True) for name, cells in _REFUSED.items()
    ]
    return [*first, *refused]


def typical_neighbours(seed: int) -> Iterator[Neighbour]:
    """Typical records without end, for routes that have yet to meet one of their parts."""
    rng = np.random.default_rng([seed, 1])
    number = 0
    while True:
        number += 1
        yield Neighbour(name=f"further typical record {number}", row=typical_row(rng, GROUPS[number % len(GROUPS)]))


def suspicious_noise(releases: Sequence[Release]) -> Iterator[Found]:
    """Releases whose noise is too small or too large, or that repeat noise: of another release, or their own."""
    rng = np.random.default_rng(0)
    # Of counts of whatever occurs only large ones leave, whose noise is large for that reason.
    releases = [release for release in releases if release.exact.dtype != OPEN_DOMAIN]
    for purpose in dict.fromkeys(release.purpose for release in releases):
        chosen = [(place, release) for place, release in enumerate(releases) if release.purpose == purpose]
        draws = [_normal_draws(release, rng) for _, release in chosen]
        pooled = np.concatenate(draws)
        total = float(np.square(pooled).sum())
        tail = min(stats.chi2.cdf(total, pooled.size), stats.chi2.sf(total, pooled.size))
        if not tail >= _FALSE_ALARM / 2:
            yield purpose, f"the noise of its {len(chosen)} releases is not of the stated law and scale"
    noises = [np.ravel(_noise(release)) for release in releases]
    # A few whole numbers are the same by chance.
    real = [place for place, release in enumerate(releases) if not _is_whole(release)]
    again = next(((j, i) for j in real for i in real if i < j and _same(noises[i], noises[j])), None)
    if again is not None:
        yield named(again[0], releases[again[0]].purpose), "repeats the noise of an earlier release"
    inside = next((place for place in real[:_COMPARED_WITHIN] if _repeats_itself(noises[place])), None)
    if inside is not None:
        yield named(inside, releases[inside].purpose), "repeats its own noise in other places"


def _normal_draws(release: Release, rng: np.random.Generator) -> NDArray[np.float64]:
    """The noise as standard normal numbers, if it is of the stated law: each through its distribution function.

    A whole number stands for an interval of probability, from which one point is drawn.
    """
    noise = np.ravel(_noise(release))
    scale = np.ravel(np.broadcast_to(release.scale, np.shape(release.exact)))
    with np.errstate(divide="ignore", invalid="ignore"):
        if release.law == "laplace" and _is_whole(release):
            below, at = _discrete_laplace_below(noise, scale), _discrete_laplace_below(noise + 1, scale)
            return stats.norm.ppf(below + (at - below) * rng.random(len(noise)))
        if release.law == "laplace":
            return stats.norm.ppf(stats.laplace.cdf(noise / scale))
        # The mass of a discrete Gaussian of more than a few units is that of its interval.
        jitter = rng.random(len(noise)) - 0.5 if release.law == "discrete_gaussian" else 0.0
        return (noise + jitter) / scale


def _discrete_laplace_below(noise: NDArray[np.float64], scale: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""Chance of :math:`X < x` where :math:`\Pr(X = x) \propto r^{|x|}` with :math:`r = e^{-1 / b}`."""
    ratio = np.exp(-1 / scale)
    return np.where(noise <= 0, ratio ** np.maximum(1 - noise, 0), 1 + ratio - ratio ** np.maximum(noise, 0)) / (
        1 + ratio
    )


def _noise(release: Release) -> NDArray[np.float64]:
    return np.asarray(release.noisy, dtype=np.float64) - np.asarray(release.exact, dtype=np.float64)


def _is_whole(release: Release) -> bool:
    return np.issubdtype(np.asarray(release.exact).dtype, np.integer)


def _same(first: NDArray[np.float64], second: NDArray[np.float64]) -> bool:
    """True if two noises have one direction, or opposite ones, as a dozen independent draws never have."""
    size = min(len(first), len(second))
    lengths = np.linalg.norm(first[:size]) * np.linalg.norm(second[:size])
    return size >= _FEWEST_TO_COMPARE and abs(float(first[:size] @ second[:size])) > _SAME_DIRECTION * float(lengths)


def _repeats_itself(noise: NDArray[np.float64]) -> bool:
    """True if some stretch of the noise comes again later on."""
    return any(_same(noise[:-lag], noise[lag:]) for lag in range(1, len(noise) - _FEWEST_TO_COMPARE + 1))


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


class _Route:
    """One route, and which parts of the records its neighbours have met so far."""

    def __init__(self, *, method: str, route: Route, seed: int, place: Path) -> None:
        self.method, self.route, self.seed, self.place = method, route, seed, place
        self.base = Table(rows=tuple(row for row in base_table(seed).rows if group_of(row) != route.lacks))
        self.met: set[str] = set()

    def on(self, neighbours: Sequence[Neighbour], *, further: bool = False) -> ReplayReport:
        """The route on the table and on these neighbours, and on more of them until both parts are met."""
        try:
            recording = self._recorded(self.base)
        except Exception as error:
            return self._found(_NOBODY, [("reading", f"the table is refused: {type(error).__name__}: {error}")])
        releases = recording[0]
        report = self._found(_NOBODY, self._about_itself(releases))
        for number, neighbour in enumerate(neighbours):
            report += self._pair(recording, neighbour, removed=number % _REMOVED_EVERY == 1)
        if further:
            for neighbour in islice(typical_neighbours(self.seed), _MOST_FURTHER):
                if self.met >= {release.purpose for release in releases}:
                    break
                report += self._pair(recording, neighbour)
            made = frozenset((self.route.name, release.purpose) for release in releases)
            report += ReplayReport(made=made, met=frozenset(pair for pair in made if pair[1] in self.met))
        return report

    def _recorded(self, table: Table) -> Recording:
        recorder = Recorder()
        files = self._run(table, recorder)
        return recorder.releases, files

    def _run(self, table: Table, hook: ReleaseHook) -> Files:
        place = self.place / "run"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        with watching(hook), warnings.catch_warnings():
            # Numbers that are too large for single precision are meant to be.
            warnings.simplefilter("ignore", RuntimeWarning)
            return self.route.way(table, place, {**self.route.settings, "random_state": self.seed})

    def _about_itself(self, releases: Sequence[Release]) -> Iterator[Found]:
        """Faults of the recorded run alone: its noise, or an account that does not add up to its ε."""
        yield from suspicious_noise(releases)
        for check in verify_folder(self.place / "run" / FOLDER):
            if not check.passed:
                yield f"verify, {check.name}", check.found

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
        replayer = Replayer(recording[0])
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
            in_batches, found = self._held_against(recording[1], replayer.moves, files, neighbour)
        return self._found(name, found[:_MOST_FOUND]) + ReplayReport(
            releases=len(replayer.moves), neighbours=1, files=len(files), in_batches=in_batches
        )

    def _held_against(
        self, recorded: Files, moves: Sequence[Move], files: Files, neighbour: Neighbour
    ) -> tuple[int, list[Found]]:
        differing = list(differing_files(recorded, files))
        if neighbour.row is None:
            moved = [(move.name, "another value from the same records and coins") for move in moves if move.distance]
            return 0, [*moved, *differing]
        group = self.route.group(group_of(neighbour.row))
        privacy = from_plain(PrivacySpent, parsed_json(recorded[PRIVACY]))
        claim = PrivacyClaim.of(privacy, group, label_of(neighbour.row))
        self.met |= {move.purpose for move in moves if move.distance}
        found = [*claim.overspent(moves), *claim.sampled_too_often(moves), *differing]
        return claim.in_batches(moves), found

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
