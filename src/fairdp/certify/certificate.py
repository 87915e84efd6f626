"""The fairness certificate of a deployed predictor: noisy counts in, bounds on all gaps out."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fairdp._io import to_plain
from fairdp.certify.bounds import Counts, GapBound, arms_of, gap_bound, per_group, release_counts, small
from fairdp.certify.outlook import ShiftBound, bound_under_shift
from fairdp.config import Preregistration
from fairdp.errors import ParameterError
from fairdp.parameters import CERTIFIABLE, METRICS, SCORE_EDGES, NoCertificate
from fairdp.randomness import RandBelow

# By group, label and decision.
NoisyCounts = tuple[tuple[tuple[int, ...], ...], ...]

# What the data holder vouches for about fresh records, because it was not or could not be checked.
UNUSED, UNUSED_UNCHECKED = "unused_as_far_as_equal_values_tell", "unused_unchecked"
NOT_CHOSEN_BY_TEST = "nothing_chosen_by_test_records"
EQUAL_ALLOWED = "equal_records_are_other_people"


@dataclass(frozen=True, kw_only=True)
class CertifiedGap:
    """One metric's bound: the gap is at most ``tau``; for demographic parity also the ratio is at least ``ratio``.

    ``claimed`` is false where a fixed sequence ended before this metric: its ``tau`` of one says nothing.
    """

    tau: float
    pair: tuple[str, str]
    ratio: float | None = None
    claimed: bool = True


@dataclass(frozen=True, kw_only=True)
class Event:
    """An event that may fail: its probability, and the construction that bounds it, ``"pair"`` or ``"score_box"``."""

    failure_probability: float
    construction: str


@dataclass(frozen=True, kw_only=True)
class DecisionRule:
    """The rule that was certified, as `Predictor` has it; ``key_id`` names the key of its coins, which stays secret."""

    kind: str
    smoothing: float
    flips: tuple[tuple[float, float], ...] | None
    key_id: str | None

    @property
    def tosses_coins(self) -> bool:
        """True if two people with the same record may get different decisions."""
        return self.kind != "deterministic" or self.flips is not None


@dataclass(frozen=True, kw_only=True)
class HeldOutRecords:
    """Records that a keyed coin for each held out of training: which fraction, and at which look they were counted.

    Of several looks, ``met`` has the noisy counts of the earlier ones, all of which met what is required, and
    ``missed`` those of the next, which did not and ended training; None if there was none.
    """

    fraction: float
    look: int
    met: tuple[NoisyCounts, ...] = ()
    missed: NoisyCounts | None = None
    kind: Literal["held_out"] = "held_out"


@dataclass(frozen=True, kw_only=True)
class EarlierCertificate:
    """Claims of an earlier certificate of the same model."""

    confidence: float
    epsilon: float
    tau: dict[str, float]


def share_of_alpha(number: int, of: int) -> float:
    r"""The part of α that certificate k of N spends, so that all of them hold together; N = 0: there is no last one.

    :math:`1 / N`, or :math:`6 / (\pi k)^2`; all parts together are at most one.
    """
    return 1 / of if of else 6 / (math.pi * number) ** 2


def in_series(registration: Preregistration, series: tuple[int, int] | None) -> Preregistration:
    """With the part of the failure probability that a certificate of a series spends."""
    if series is None:
        return registration
    return replace(registration, confidence=1 - (1 - registration.confidence) * share_of_alpha(*series))


@dataclass(frozen=True, kw_only=True)
class FreshRecords:
    """Records that came after training.

    Parameters
    ----------
    group_sizes
        Whether their group sizes are ``"public"``, or ``"noisy"``: counted with noise.
    sizes_epsilon
        Pure ε that these counts cost.
    earlier
        What earlier certificates claimed, oldest first: picking the best of several would void them.
    assumed
        Codes of what the data holder vouches for; nothing in them depends on records.
    series
        Which of how many certificates that hold together this is; zero for a series without end. None: one by itself.
    """

    group_sizes: str
    sizes_epsilon: float
    earlier: tuple[EarlierCertificate, ...]
    assumed: tuple[str, ...]
    series: tuple[int, int] | None = None
    kind: Literal["fresh"] = "fresh"


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The model and the records that a certificate is about.

    Parameters
    ----------
    model_sha256
        Digest of the certified parameters.
    smoothing
        How the model is smoothed over its parameters, if it is.
    noise_seeded
        Whether the noise on the counts came from a fixed seed.
    """

    model_sha256: str
    predictor: DecisionRule
    smoothing: dict[str, object] | None
    records: HeldOutRecords | FreshRecords
    noise_seeded: bool

    @property
    def earlier(self) -> tuple[EarlierCertificate, ...]:
        """Earlier certificates of the model, as far as this one names them."""
        return self.records.earlier if isinstance(self.records, FreshRecords) else ()


@dataclass(frozen=True, kw_only=True)
class ScoreCounts:
    """Noisy numbers of certification records by group, label and bin of their score.

    A score is the model's chance of label 1, as `predict_proba` gives it. Counted once, for the deployed model.

    Parameters
    ----------
    epsilons
        Pure ε that a record of each group spends on this release; each count has a discrete Laplace draw of its own.
    edges
        Inner edges of the bins, fixed before anybody was counted; a score on an edge is in the bin above it.
    counts
        The released counts, shape (n_groups, 2, n_bins), with as many bins as edges and one more.
    """

    epsilons: tuple[float, ...]
    edges: tuple[float, ...]
    counts: tuple[tuple[tuple[int, ...], ...], ...]


def binned(
    scores: NDArray[np.float64], labels: NDArray[np.int64], groups: NDArray[np.int64], n_groups: int
) -> NDArray[np.int64]:
    """Exact numbers of records by group, label and bin of their score, shape (n_groups, 2, n_bins): still private.

    >>> binned(np.array([0.04, 0.05, 1.0]), np.array([0, 1, 1]), np.array([0, 0, 0]), 1)[0].sum(0).tolist()
    [1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    """
    n_bins = len(SCORE_EDGES) + 1
    cells = (2 * groups + labels) * n_bins + np.searchsorted(SCORE_EDGES, scores, side="right")
    return np.bincount(cells, minlength=2 * n_groups * n_bins).reshape(n_groups, 2, n_bins)


def release_scores(counts: Counts, *, epsilons: Sequence[float], rand_below: RandBelow) -> ScoreCounts | None:
    """Counts of scores with exact discrete Laplace noise; None if no ε is kept for them."""
    if not min(epsilons):
        return None
    noisy = release_counts(counts, epsilon=epsilons, rand_below=rand_below, purpose="scores")
    counted = tuple(tuple(tuple(int(n) for n in row) for row in group) for group in noisy)
    return ScoreCounts(epsilons=tuple(epsilons), edges=SCORE_EDGES, counts=counted)


@dataclass(frozen=True, kw_only=True)
class Certificate:
    r"""Bounds on the true gaps of one predictor, all at once.

    For every population, with probability at least ``confidence`` over the certification records and the noise, and
    given the predictor: each gap is at most its ``tau``. ``gaps`` holds the metrics that were asked for beforehand;
    the others were not looked at.

    Parameters
    ----------
    epsilons
        Pure ε that a certification record of each group spends in all: on decisions over all looks, and on scores.
    counts
        The released counts per group, label and decision, shape (n_groups, 2, 2).
    expected_sizes
        Public expected number of certification records of each group, which decided how small cells are treated.
    input_agnostic_tau
        A bound on every gap that follows from the predictor alone, where there is one; no ``tau`` is larger.
    scores
        Released counts of scores; None if no share of ε was kept for them.
    about
        What ties the certificate to its model and its records; None for bare counts.
    """

    registration: Preregistration
    epsilons: tuple[float, ...]
    group_names: tuple[str, ...]
    expected_sizes: tuple[float, ...]
    counts: tuple[tuple[tuple[int, ...], ...], ...]
    gaps: dict[str, CertifiedGap]
    input_agnostic_tau: float | None = None
    scores: ScoreCounts | None = None
    about: Origin | None = None
    certified: bool = True

    @property
    def confidence(self) -> float:
        """Probability with which all claims hold together."""
        return self.registration.confidence

    @property
    def epsilon(self) -> float:
        """Pure ε of a certification record, the largest over the groups."""
        return max(self.epsilons)

    @property
    def epsilons_of_a_look(self) -> tuple[float, ...]:
        """Pure ε with which decisions were counted at each look, group by group: what every bound is computed with."""
        return self.registration.per_look(self.epsilons)

    @property
    def met(self) -> bool:
        """True if every metric meets what was required beforehand."""
        required = self.registration.require_tau
        return required is None or all(gap.tau <= required for gap in self.gaps.values())

    def __getitem__(self, name: str) -> object:
        return self.to_dict()[name]

    def _repr_html_(self) -> str:
        from fairdp.statements.certificate import certificate_html

        return certificate_html(self)

    @property
    def events(self) -> dict[str, Event]:
        """The events that may fail."""
        per_look = self.epsilons_of_a_look
        return {
            kind: Event(
                failure_probability=level,
                construction="score_box" if small(per_look, self.expected_sizes, kind) else "pair",
            )
            for kind, level in self.registration.levels().items()
        }

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON; the metrics stand beside the rest, as users read them."""
        plain: dict[str, object] = to_plain(
            {
                "certified": True,
                **asdict(self.registration),
                "epsilon": self.epsilon,
                "epsilon_by_group": dict(zip(self.group_names, self.epsilons, strict=True)),
                **self.gaps,
                "events": self.events,
                "input_agnostic_tau": self.input_agnostic_tau,
                "group_names": self.group_names,
                "expected_sizes": self.expected_sizes,
                "counts": self.counts,
                "scores": self.scores,
                "about": self.about,
            }
        )
        return plain

    def capped(self, tau: float | None) -> "Certificate":
        """The certificate with a bound that follows from the predictor alone, whatever the population."""
        if tau is None:
            return self
        gaps = {name: replace(gap, tau=min(gap.tau, tau)) for name, gap in self.gaps.items()}
        return replace(self, gaps=gaps, input_agnostic_tau=tau)

    def under_shift(self, shift: float) -> dict[str, float]:
        r"""Bounds after the shares of groups and labels, Pr(a, y), have moved by a total variation of ``shift``.

        They hold together, for all shifts at once and with the confidence of the certificate, as long as
        :math:`\Pr(x \mid a, y)` is what it was. Equal opportunity and equalized odds do not change. Demographic parity
        spends its share of the failure probability on the gap, on label gaps and on group shares: even at no shift its
        bound is a little wider, and it is claimed instead of the plain one, not beside it.
        """
        bounds = {name: gap.tau for name, gap in self.gaps.items()}
        moved = [name for name in bounds if not CERTIFIABLE[name].labels]
        return {**bounds, **dict.fromkeys(moved, self._shift_bound().at(shift))} if moved else bounds

    def _shift_bound(self) -> ShiftBound:
        if self.registration.require_tau is not None:
            raise ParameterError(
                "require_tau",
                self.registration.require_tau,
                "leaves a sequence of tests no level for bounds under a shift",
                "certify without it",
            )
        epsilons = self.epsilons_of_a_look
        return bound_under_shift(
            np.array(self.counts),
            epsilon=epsilons,
            failure_probability=self.registration.levels()["positive"],
            score_box_groups=small(epsilons, self.expected_sizes, "positive"),
            score_box_cells=small(epsilons, self.expected_sizes, "true_positive"),
        )


@dataclass(frozen=True)
class NotCertified:
    """No bound is claimed; the reason says why."""

    reason: NoCertificate
    certified: bool = False
    met: bool = False

    @property
    def gaps(self) -> dict[str, CertifiedGap]:
        """No claims."""
        return {}

    @property
    def confidence(self) -> float:
        """None at all."""
        return 0.0

    @property
    def explanation(self) -> str:
        """Why, in words that follow "because"."""
        return self.reason.explanation.replace("`", "")

    def __getitem__(self, name: str) -> object:
        return self.to_dict()[name]

    def _repr_html_(self) -> str:
        from fairdp.statements.certificate import certificate_html

        return certificate_html(self)

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        return {"certified": False, "reason": str(self.reason)}


def claims_so_far(certificate: Certificate | NotCertified) -> tuple[EarlierCertificate, ...]:
    """Claims of all certificates that a model has had, oldest first, the given one last."""
    if isinstance(certificate, NotCertified):
        return ()
    taus = {name: gap.tau for name, gap in certificate.gaps.items()}
    last = EarlierCertificate(confidence=certificate.confidence, epsilon=certificate.epsilon, tau=taus)
    return (*(() if certificate.about is None else certificate.about.earlier), last)


def certify(
    counts: Counts,
    *,
    epsilon: float | Sequence[float],
    confidence: float = 0.95,
    group_names: tuple[str, ...],
    expected_sizes: tuple[float, ...],
    metrics: tuple[str, ...] = METRICS,
    require_tau: float | None = None,
    n_looks: int = 1,
    expected_trials: float = 1.0,
    score_share: float = 0.0,
) -> Certificate:
    """Certificate from released counts; it may be computed again by anyone, with the same result.

    Parameters
    ----------
    counts
        Noisy counts per group, label and decision, shape (n_groups, 2, 2).
    epsilon
        Pure ε spent by a record in all, on decisions and on scores, for all groups or one for each.
    confidence, metrics, require_tau, n_looks, expected_trials, score_share
        See `Preregistration`.
    """
    registration = Preregistration(
        confidence=confidence,
        metrics=metrics,
        require_tau=require_tau,
        n_looks=n_looks,
        expected_trials=expected_trials,
        score_share=score_share,
    )
    epsilons = per_group(epsilon, len(counts))
    per_look = registration.per_look(epsilons)
    bounds = {
        kind: gap_bound(
            arms_of(counts, kind, per_look), failure_probability=level, score_box=small(per_look, expected_sizes, kind)
        )
        for kind, level in registration.levels().items()
    }
    gaps = {metric: _gap(metric, bounds, group_names) for metric in registration.metrics}
    return Certificate(
        registration=registration,
        epsilons=epsilons,
        group_names=group_names,
        expected_sizes=expected_sizes,
        counts=tuple(tuple(tuple(int(n) for n in row) for row in group) for group in counts),
        gaps=gaps if require_tau is None else _in_sequence(gaps, require_tau, n_looks),
    )


def _gap(metric: str, bounds: dict[str, GapBound], names: tuple[str, ...]) -> CertifiedGap:
    worst = max((bounds[kind] for kind in CERTIFIABLE[metric].rates), key=lambda bound: bound.tau)
    ratio = worst.ratio if CERTIFIABLE[metric].has_ratio else None
    return CertifiedGap(tau=worst.tau, pair=(names[worst.pair[0]], names[worst.pair[1]]), ratio=ratio)


def _in_sequence(gaps: dict[str, CertifiedGap], threshold: float, n_looks: int = 1) -> dict[str, CertifiedGap]:
    """Claims of a sequence of tests, each at the full level, which ends at the first that fails.

    Metrics that pass are claimed at the threshold, the first that fails at its own bound, the rest not at all. If all
    pass, all are claimed at their largest bound. A wrong claim needs the miss of one metric that the truth fixes, so
    the failure probability is paid once. The ratio is another claim: it stands only where no other metric is claimed.

    With several looks the sequence goes on at the next one. What meets the threshold is claimed at the threshold, never
    at its own bound: that would be one more claim for each look. Nor is a ratio.

    References
    ----------
    Hsu and Berger (1999), Stepwise confidence intervals without multiplicity adjustment for dose-response and toxicity
    studies.
    """
    ratios = {name: gap.ratio if len(gaps) == n_looks == 1 else None for name, gap in gaps.items()}
    if n_looks == 1 and all(gap.tau <= threshold for gap in gaps.values()):
        largest = max(gap.tau for gap in gaps.values())
        return {name: replace(gap, tau=largest, ratio=ratios[name]) for name, gap in gaps.items()}
    claims, failed = {}, False
    for name, gap in gaps.items():
        passed = gap.tau <= threshold
        if failed:
            claims[name] = replace(gap, tau=1.0, ratio=None, claimed=False)
        else:
            claims[name] = replace(gap, tau=threshold if passed else gap.tau, ratio=ratios[name])
            failed = not passed
    return claims
