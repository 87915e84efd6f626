"""What a record moved, against what the saved privacy record accounts for a record of its group."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from scipy.stats import binom

from fairdp.accounting.mechanisms import LaplaceRelease, Mechanism
from fairdp.accounting.spent import PrivacySpent
from fairdp.accounting.words import CELLS, CENTRE, DIRECTION, FREQUENCIES, FRONTIER, RANKING
from fairdp.audit.recording import Move

LOOK, SCORES, SIZES, READING = "look", "scores", "sizes", "reading"
# Sizes are counted over the training records alone, so that held-out records pay for looks and scores only.
HELD_OUT = (LOOK, SCORES)
SURVEYS = (FREQUENCIES, CENTRE, CELLS, DIRECTION, FRONTIER, RANKING)
TRAINING = (SIZES, "gradient", "statistics", "histogram", "polynomial", *SURVEYS)
# Distances are computed in double precision from the very numbers that were accounted.
_SLACK = 1 + 1e-9
# Below this part of what is accounted a move is rounding, as when another row stands in a matrix product.
ROUNDING = 1e-4
# Chance that a record that is sampled as accounted is in so many batches that it is reported.
_FALSE_ALARM = 1e-9

Found = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class Accounted:
    """What the privacy record allows a record of one group to move, in units of the noise.

    Parameters
    ----------
    step
        Squared L2 distance over all Gaussian releases of one step.
    sample_rate, n_steps
        Chance to be in a batch, and the number of steps of one trial.
    polynomial, histogram, sizes, looks
        L1 distance of Laplace releases, over the whole trial; for sizes with Gaussian noise the squared L2 distance.
        ``looks`` is that of all looks and of the scores together.
    surveys
        Squared L2 distance of all Gaussian releases outside the steps.
    survey
        The same of a single one, by what it is: whoever moves one further may not make up for it in another.
    reading
        Squared L2 distance of all counts of the columns of a table, for any record.
    searched
        Whether the run was a search, whose trials are accounted one by one.
    """

    step: float
    sample_rate: float
    n_steps: int
    polynomial: float
    histogram: float
    sizes: float
    looks: float
    surveys: float
    survey: Mapping[str, float]
    reading: float
    searched: bool

    @classmethod
    def of(cls, privacy: PrivacySpent, group: str, label: int) -> "Accounted":
        """For a record of this group and label."""
        name = group if group in privacy.mechanisms else f"{group}, label {label}"
        mechanism = privacy.mechanisms[name]
        looks = privacy.certify_epsilons.get(group, 0.0)
        is_laplace = isinstance(mechanism, LaplaceRelease)
        return cls(
            step=0.0 if is_laplace else mechanism.noise_multiplier**-2,
            sample_rate=mechanism.sample_rate,
            n_steps=mechanism.n_steps,
            polynomial=1 / mechanism.noise_multiplier if is_laplace else 0.0,
            histogram=privacy.histogram_epsilon,
            sizes=_sizes_paid(privacy),
            looks=looks,
            surveys=_surveys_paid(mechanism),
            survey={what: std**-2 for what, std in privacy.surveys.items() if std},
            reading=privacy.reading.multiplier**-2 if privacy.reading else 0.0,
            searched=privacy.selection is not None,
        )

    def overspent(self, moves: Sequence[Move]) -> Iterator[Found]:
        """Releases that the record moved further than is accounted, each with what was found."""
        for trial in trials_of(moves) if self.searched else [moves]:
            yield from self._beyond_steps(trial)
            for purposes, allowed in (
                (("polynomial",), self.polynomial),
                (("histogram",), self.histogram),
                (HELD_OUT, self.looks),
            ):
                yield from _beyond([move for move in trial if move.purpose in purposes], allowed)
            yield from self._beyond_surveys([move for move in trial if move.purpose in SURVEYS])
            yield from _trained_and_held_out(trial)
        yield from _beyond([move for move in moves if move.purpose == SIZES], self.sizes)
        yield from _beyond([move for move in moves if move.purpose == READING], self.reading)

    def _beyond_steps(self, moves: Sequence[Move]) -> Iterator[Found]:
        steps = steps_of(moves)
        if len(steps) > self.n_steps:
            yield steps[self.n_steps][-1].name, f"one step more than the {self.n_steps} that are accounted"
        for step in steps:
            yield from _beyond(step, self.step)

    def _beyond_surveys(self, moves: Sequence[Move]) -> Iterator[Found]:
        for move in moves:
            yield from _beyond([move], self.survey.get(move.purpose, 0.0))
        yield from _beyond(moves, self.surveys)

    def in_batches(self, moves: Sequence[Move]) -> int:
        """In how many batches the record was: it moved the step by more than rounding."""
        limit = self.step * ROUNDING**2
        return sum(sum(move.distance**2 for move in step) > limit for step in steps_of(moves))

    def sampled_too_often(self, moves: Sequence[Move]) -> Iterator[Found]:
        """A record that is in more batches than its rate explains, at one false alarm in a billion."""
        n_steps, seen = len(steps_of(moves)), self.in_batches(moves)
        if seen and binom.sf(seen - 1, n_steps, self.sample_rate) < _FALSE_ALARM:
            yield (
                "sampling",
                f"in {seen} of {n_steps} batches, which a rate of {self.sample_rate:.3g} does not explain",
            )


def _sizes_paid(privacy: PrivacySpent) -> float:
    """What noisy sizes cost: a pure ε, or one over the squared deviation of Gaussian noise."""
    return privacy.counts_std**-2 if privacy.counts_std else privacy.counts_epsilon


def _surveys_paid(mechanism: Mechanism) -> float:
    """What releases outside the steps cost: one over their squared multiplier."""
    multiplier = 0.0 if isinstance(mechanism, LaplaceRelease) else mechanism.surveys_multiplier
    return multiplier**-2 if multiplier else 0.0


def _beyond(moves: Sequence[Move], allowed: float) -> Iterator[Found]:
    """Whether Laplace releases move by more than this in all, or Gaussian ones by more than this squared."""
    if not moves:
        return
    if moves[0].law == "laplace":
        spent, unit = sum(move.distance for move in moves), "scales"
    else:
        spent, allowed = math.sqrt(sum(move.distance**2 for move in moves)), math.sqrt(allowed)
        unit = "deviations"
    if not spent <= allowed * _SLACK:
        yield moves[-1].name, f"one record moves it by {spent:.4g} {unit} of the noise, accounted are {allowed:.4g}"


def _trained_and_held_out(moves: Sequence[Move]) -> Iterator[Found]:
    """A group pays for training or for the certificate, whichever costs more: no record may be in both."""
    trained = any(move.distance for move in moves if move.purpose in TRAINING)
    counted = next((move for move in moves if move.purpose in HELD_OUT and move.distance), None)
    if trained and counted is not None:
        yield counted.name, "the record was held out and trained on, but its group pays for one of the two"


def steps_of(moves: Sequence[Move]) -> list[list[Move]]:
    """The releases of each step: statistics and the gradient that follows them were made from one sample."""
    found: list[list[Move]] = []
    is_open = False
    for move in moves:
        if move.purpose in ("statistics", "gradient"):
            if not is_open:
                found.append([])
            found[-1].append(move)
            is_open = move.purpose == "statistics"
    return found


def trials_of(moves: Sequence[Move]) -> list[Sequence[Move]]:
    """The releases of each trial of a search: every trial ends with its look, and the scores that may follow it."""
    after = [*(move.purpose for move in moves[1:]), ""]
    stops = [place + 1 for place, move in enumerate(moves) if move.purpose in HELD_OUT and after[place] != SCORES]
    return [moves[start:stop] for start, stop in pairwise([0, *stops])]
