"""The fairness certificate of a deployed predictor: noisy counts in, bounds on all gaps out."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from fairdp import _checks
from fairdp._checks import ParameterError
from fairdp._files import to_plain
from fairdp._format import bound_above, html_table
from fairdp.certify.claims import CertifiedGap, Dilution, Event
from fairdp.certify.gaps import GapBound, gap_bound
from fairdp.certify.gaussian import dilution_for
from fairdp.certify.origin import Origin
from fairdp.certify.release import Counts, arms_of, per_group, small
from fairdp.certify.scores import ScoreCounts
from fairdp.certify.shift import ShiftBound, bound_under_shift
from fairdp.config.certificate import CERTIFIABLE, METRICS, NoCertificate
from fairdp.config.preregistration import Preregistration


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
    dilution: Dilution | None = None
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
        """Whether every metric meets what was required beforehand."""
        required = self.registration.require_tau
        return required is None or all(gap.tau <= required for gap in self.gaps.values())

    def __getitem__(self, name: str) -> object:
        return self.to_dict()[name]

    def _repr_html_(self) -> str:
        rows = [(f"{name.replace('_', ' ')} gap", f"≤ {bound_above(gap.tau)}") for name, gap in self.gaps.items()]
        return html_table(f"Certified with confidence {100 * self.confidence:g} %, together", rows)

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
                "dilution": self.dilution,
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

    def diluted(self, target_tau: float) -> "Certificate":
        """The certificate of the predictor that is diluted just so far that every metric meets a target.

        The gaps of chances shrink by the share exactly, so the bounds hold by the same event: no new records, no new
        budget. The constant is the more frequent label by the noisy counts. A ratio can only rise, so its bound stays.
        """
        _checks.in_unit_interval(target_tau=target_tau)
        share = max(dilution_for(gap.tau, target=target_tau) for gap in self.gaps.values())
        negatives, positives = np.array(self.counts).sum((0, 2))
        gaps = {name: replace(gap, tau=min(target_tau, (1 - share) * gap.tau)) for name, gap in self.gaps.items()}
        dilution = Dilution(share=share, constant=int(positives > negatives), target_tau=target_tau)
        return replace(self, gaps=gaps, dilution=dilution)

    def under_shift(self, shift: float) -> dict[str, float]:
        r"""Bounds after the shares of groups and labels, Pr(a, y), have moved by a total variation of ``shift``.

        They hold together, for all shifts at once and with the confidence of the certificate, as long as
        :math:`\Pr(x \mid a, y)` is what it was. Equal opportunity and equalized odds do not change. Demographic parity
        spends its share of the failure probability on the gap, on label gaps and on group shares: even at no shift its
        bound is a little wider, and it is claimed instead of the plain one, not beside it.
        """
        bounds = {name: gap.tau for name, gap in self.gaps.items()}
        if "demographic_parity" in bounds:
            shrunk = 1.0 if self.dilution is None else 1 - self.dilution.share
            bounds["demographic_parity"] = shrunk * self._shift_bound().at(shift)
        return bounds

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
    """That no bound is claimed, and why."""

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
        return html_table("Not certified", [("because", self.explanation)])

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        return {"certified": False, "reason": str(self.reason)}


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
    ratio = worst.ratio if metric == "demographic_parity" else None
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
