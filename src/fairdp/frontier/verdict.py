"""What a fit is worth, from paid counts alone: the certificate's, or else the sketch's."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from fairdp.certify.certificate import Certificate, NotCertified
from fairdp.config.parameters import DEFAULT_MAX_GAP
from fairdp.frontier.advice import verdict_lines
from fairdp.frontier.choice import Target, choose
from fairdp.frontier.curve import Frontier
from fairdp.frontier.evidence import Evidence, certified_evidence, sketched_evidence
from fairdp.frontier.judging import TargetMet, Verdict, judged_quality, met, unmeasured, verdict_of
from fairdp.frontier.points import FrontierPoint, cost_of_rest, frontier_points
from fairdp.frontier.ranking import by_chance

__all__ = ["Fit", "Verdict", "judged"]


@dataclass(frozen=True, kw_only=True)
class Fit:
    """What a fit has released, as far as a verdict goes.

    Parameters
    ----------
    parameters
        Those of the estimator, of which the target is used.
    takes_target
        Whether the method aims at one.
    target
        What the rule of a frontier was chosen for, if it is not what the parameters say.
    n_inputs
        Numbers that the heads see of a record: with more of them a model ranks its own training records better than
        others.
    """

    parameters: Mapping[str, Any]
    takes_target: bool
    group_names: tuple[str, ...]
    certificate: Certificate | NotCertified
    frontier: Frontier | None
    target: Target | None
    n_inputs: int = 0

    @property
    def parity(self) -> str:
        """The rates that should agree."""
        return str(self.parameters["parity"])

    @property
    def aimed(self) -> Target | None:
        """What was aimed at; None for one group, or without a target."""
        if not self.takes_target or len(self.group_names) < 2:
            return None
        if self.target is not None:
            return self.target
        gap, ratio = self.parameters["max_gap"], self.parameters["min_ratio"]
        default = DEFAULT_MAX_GAP if ratio is None else 1.0
        return Target(max_gap=default if gap is None else gap, min_ratio=ratio or 0.0, price=math.inf)

    @property
    def explicit(self) -> bool:
        """Whether the user stated a target, now or after the fit."""
        stated = any(self.parameters[name] is not None for name in ("max_gap", "min_ratio"))
        aimed = self.aimed
        return stated or (aimed is not None and (aimed.max_gap != DEFAULT_MAX_GAP or aimed.min_ratio != 0.0))

    @cached_property
    def evidence(self) -> Evidence | None:
        """The certificate's counts, else the sketch's."""
        if isinstance(self.certificate, Certificate):
            auc = None if self.frontier is None else self.frontier.auc
            seen = certified_evidence(self.certificate, self.parity, auc)
        elif self.frontier is not None:
            seen = sketched_evidence(self.frontier, self.position)
        else:
            return None
        if self.frontier is None:
            return seen
        return replace(seen, chance=by_chance(self.n_inputs, float(self.frontier.sizes.sum()), seen.base_rate))

    @property
    def position(self) -> float:
        """Where the deployed rule lies on the frontier."""
        assert self.frontier is not None
        return 0.0 if self.target is None else choose(self.frontier, self.target).position

    @property
    def points(self) -> list[FrontierPoint] | None:
        """What the frontier offers."""
        return None if self.frontier is None else frontier_points(self.frontier)


def judged(fit: Fit) -> Verdict:
    """What the paid counts of a fit say of it."""
    seen, aimed = fit.evidence, fit.aimed
    quality = None if seen is None else judged_quality(seen)
    target = None if aimed is None else _judged_target(fit, aimed)
    found = Verdict(
        verdict=verdict_of(quality, target, seen.positive_rate if seen else None, seen.base_rate if seen else None),
        quality=quality,
        target=target,
        base_rate=None if seen is None else seen.base_rate,
        positive_rate=None if seen is None else seen.positive_rate,
        counted_on=None if seen is None else seen.counted_on,
        has_prices=fit.frontier is not None,
    )
    return replace(found, lines=tuple(verdict_lines(found, fit.certificate)))


def _judged_target(fit: Fit, aimed: Target) -> TargetMet:
    """The target that is further from being met, if both a gap and a ratio were asked for."""
    asked = [("max_gap", aimed.max_gap)] if aimed.max_gap < 1 or not aimed.min_ratio else []
    asked += [("min_ratio", aimed.min_ratio)] if aimed.min_ratio else []
    found = [_judged_limit(fit, kind, limit) for kind, limit in asked]
    return max(found, key=lambda target: ("yes", "undecided", "no").index(target.met))


def _judged_limit(fit: Fit, kind: str, limit: float) -> TargetMet:
    seen, frontier = fit.evidence, fit.frontier
    if seen is None:
        nothing: dict[str, Any] = {"estimate": None, "error": None, "met": "undecided"}
        return TargetMet(metric=fit.parity, kind=kind, value=limit, explicit=fit.explicit, **nothing)
    blind = unmeasured(seen)
    estimate, met_or_not = met(seen, limit, kind=kind)
    paid: dict[str, Any] = {}
    if frontier is not None and fit.target is not None:
        paid = {
            "price": choose(frontier, fit.target).price,
            "price_bound": fit.target.price,
            "rest": cost_of_rest(frontier, fit.target),
        }
    return TargetMet(
        metric=fit.parity,
        kind=kind,
        value=limit,
        estimate=estimate.value,
        error=estimate.error,
        met=met_or_not,
        explicit=fit.explicit,
        unmeasured=tuple(name for index, name in enumerate(fit.group_names) if index in blind),
        n_measured=len(fit.group_names) - len(blind),
        **paid,
    )
