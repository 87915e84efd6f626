"""Another target for a joint model: its rule is moved along the released frontier, and no record is touched."""

import copy
import math
from dataclasses import replace
from typing import TypeVar

import torch

from fairdp._checks import InputError, SavedModelError
from fairdp.certify.certificate import Certificate, NotCertified
from fairdp.config.certificate import NoCertificate
from fairdp.config.defaults import train_config
from fairdp.config.parameters import check_parameters
from fairdp.frontier.choice import Target, choose
from fairdp.frontier.curve import Frontier
from fairdp.run.read_frontier import target_of
from fairdp.run.settings import RunSettings
from fairdp.saved.fitted import Fitted
from fairdp.saved.parameters import restored

AnyFitted = TypeVar("AnyFitted", bound=Fitted)


def retargeted(
    estimator: AnyFitted,
    *,
    max_gap: float | None = None,
    min_ratio: float | None = None,
    price: float | None = None,
) -> AnyFitted:
    """A copy of a fitted estimator whose rule is the one that its frontier has for another target.

    What was released already is all that is needed, so it costs no privacy. A certificate was about the old rule: the
    copy has none. The parameters stay those of the fit.
    """
    frontier, present = _frontier(estimator), estimator.target_
    assert present is not None
    target = _target(present, max_gap=max_gap, min_ratio=min_ratio, price=price)
    if target == present:
        raise InputError("the rule aims at this target already; use the model as it is, or state another target.")
    void = _void(estimator.certificate_)
    if void.reason == NoCertificate.RULE_MOVED and target == _fitted_for(estimator):
        # Else a certificate could be lost by moving there and back.
        raise InputError("the model was fitted for this target; use it as the fit left it, with its certificate.")
    moved = copy.copy(estimator)
    moved.score_model_ = copy.deepcopy(estimator.score_model_)
    moved.score_model_.cell_values = torch.from_numpy(frontier.values_at(choose(frontier, target).position))
    moved.target_, moved.certificate_ = target, void
    return moved


def _frontier(estimator: Fitted) -> Frontier:
    if estimator.frontier_ is None:
        method = estimator.fitted_parameters_["method"]
        raise SavedModelError(
            f"a model of `method`={method!r} has no frontier to move along; fit one with `method`='fairdp_frontier'."
        )
    if len(estimator.group_names_) < 2:
        raise SavedModelError("the model knows only one group, so there is no gap to aim at; fit one with groups.")
    return estimator.frontier_


def _target(present: Target, *, max_gap: float | None, min_ratio: float | None, price: float | None) -> Target:
    """As for a fit: a stated target may cost any price, and a ratio alone allows any gap; a price alone keeps it."""
    check_parameters(max_gap=max_gap, min_ratio=min_ratio, price=price)
    if max_gap is None and min_ratio is None:
        if price is None:
            raise InputError("say what the rule should aim at: `max_gap`, `min_ratio` or `price`.")
        return replace(present, price=float(price))
    return Target(
        max_gap=1.0 if max_gap is None else float(max_gap),
        min_ratio=0.0 if min_ratio is None else float(min_ratio),
        price=math.inf if price is None else float(price),
    )


def _fitted_for(estimator: Fitted) -> Target:
    """What the fit aimed at, whatever was done since."""
    settings = RunSettings.of(**restored(estimator.fitted_parameters_), module=None, random_state=None)
    sizes = tuple(estimator.privacy_.planned_sizes.values())
    return target_of(train_config(estimator.model_config_.kind, settings.method, sizes, **settings.training))


def _void(certificate: Certificate | NotCertified) -> NotCertified:
    """What is left of a certificate: that there was none before stays the reason."""
    return certificate if isinstance(certificate, NotCertified) else NotCertified(NoCertificate.RULE_MOVED)
