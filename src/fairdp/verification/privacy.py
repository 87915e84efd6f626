"""Epsilon of a saved model, computed again from what was recorded of its mechanism."""

import math
from collections.abc import Iterator

from fairdp.accounting import RELATION, SampledGaussian, epsilon_spent
from fairdp.verification.check import SAME, Check, Record, equal, number


def privacy_checks(model: Record, privacy: Record) -> Iterator[Check]:
    """Everything about the privacy record."""
    yield _epsilon(privacy)
    yield _mechanism(privacy)
    yield _summary(model, privacy)


def _epsilon(privacy: Record) -> Check:
    """Epsilon of each group from what was recorded of the mechanism, and the total from those."""
    wrong, delta = [], privacy["delta"]
    for group, recorded in privacy["epsilon_by_group"].items():
        mechanism = SampledGaussian(**privacy["mechanisms"][group])
        spent = epsilon_spent(mechanism, delta)
        if not equal(recorded, spent):
            wrong.append(f"{group}: recorded {recorded}, computed {spent:.6g}")
    largest = max((number(value) for value in privacy["epsilon_by_group"].values()), default=math.inf)
    if not equal(privacy["epsilon"], largest):
        wrong.append(f"total: recorded {privacy['epsilon']}, computed {largest:.6g}")
    if privacy["relation"] != RELATION:
        wrong.append(f"relation {privacy['relation']!r}")
    found = "; ".join(wrong) if wrong else f"recomputed from the recorded mechanism: {largest:.6g} at delta {delta!r}"
    return Check("epsilon", not wrong, f"{found}.")


def _mechanism(privacy: Record) -> Check:
    """That no group was accounted with more noise than was added to what it can move."""
    wrong = []
    for group, mechanism in privacy["mechanisms"].items():
        sensitivity = number(privacy["sensitivities"][group])
        multiplier = mechanism["noise_multiplier"]
        added = privacy["noise_std"] / sensitivity if math.isfinite(sensitivity) else 0.0
        if multiplier > added * (1 + SAME) or mechanism["n_steps"] != privacy["n_steps"]:
            wrong.append(f"{group}: accounted {multiplier:.6g}, added {added:.6g}")
    found = "; ".join(wrong) if wrong else _noise_found(privacy)
    return Check("noise", not wrong, f"{found}.")


def _noise_found(privacy: Record) -> str:
    if not privacy["noise_std"]:
        return "no noise was added: the model is not private, and says so"
    return "accounted noise was added in every group"


def _summary(model: Record, privacy: Record) -> Check:
    """That the numbers beside the mechanisms are theirs, and delta the one that was asked for."""
    mechanisms = privacy["mechanisms"].values()
    computed = {
        "sample_rate": max(mechanism["sample_rate"] for mechanism in mechanisms),
        "noise_multiplier": min(mechanism["noise_multiplier"] for mechanism in mechanisms),
        "counts_epsilon": max(mechanism["counts_epsilon"] for mechanism in mechanisms),
        "delta": model["parameters"]["delta"],
    }
    wrong = [name for name, value in computed.items() if not equal(privacy[name], value)]
    found = f"{', '.join(wrong)} is not that of the mechanisms." if wrong else "is that of the mechanisms."
    return Check("summary", not wrong, found)
