"""Epsilon of a saved model, computed again from what was recorded of its mechanism."""

import math
from collections.abc import Iterator

from fairdp.accounting import ACCOUNTANTS, RELATION, SampledGaussian, epsilon_spent
from fairdp.config import default_n_steps, defaults_of
from fairdp.fitting import COUNTS_SHARE
from fairdp.methods import METHODS
from fairdp.verification.check import SAME, Check, Record, equal, number

# Noise is found so that at least this part of a budget is spent (99.9 %), with room for rounding.
_PART_THAT_PLANS_SPEND = 0.995


def privacy_checks(model: Record, privacy: Record) -> Iterator[Check]:
    """Everything about the privacy record."""
    yield _epsilon(privacy)
    yield _mechanism(privacy)
    yield _summary(privacy)
    yield _asked_for(model, privacy)


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


def _summary(privacy: Record) -> Check:
    """That the numbers beside the mechanisms are theirs."""
    mechanisms = privacy["mechanisms"].values()
    computed = {
        "sample_rate": max(mechanism["sample_rate"] for mechanism in mechanisms),
        "noise_multiplier": min(mechanism["noise_multiplier"] for mechanism in mechanisms),
        "counts_epsilon": max(mechanism["counts_epsilon"] for mechanism in mechanisms),
        "epsilon_rdp": max(
            epsilon_spent(SampledGaussian(**mechanism), privacy["delta"], accountant="rdp") for mechanism in mechanisms
        ),
    }
    wrong = [name for name, value in computed.items() if not equal(privacy[name], value)]
    found = (
        f"{', '.join(wrong)} is not that of the mechanisms." if wrong else "its figures are those of the mechanisms."
    )
    return Check("privacy record", not wrong, found)


def _asked_for(model: Record, privacy: Record) -> Check:
    """That the run is the one that was asked for: a plan spends the budget that it was given, or nothing of it."""
    chosen, kind, wrong = model["parameters"], model["model"]["kind"], []
    budget = number(None if chosen["epsilon"] == "inf" else chosen["epsilon"])
    private = METHODS[chosen["method"]].private and math.isfinite(budget)
    spent = number(privacy["epsilon"])
    if private and not _PART_THAT_PLANS_SPEND * budget <= spent <= budget * (1 + SAME):
        wrong.append("epsilon")
    if not private and math.isfinite(spent):
        wrong.append("epsilon")
    hidden = chosen["group_sizes"] == "private" and math.isfinite(budget)
    fixed = {
        "delta": chosen["delta"],
        "accountant": ACCOUNTANTS[0],
        "group_sizes": chosen["group_sizes"],
        "counts_epsilon": COUNTS_SHARE * budget if hidden else 0.0,
        "n_steps": chosen["n_steps"] or default_n_steps(kind, privacy["sample_rate"]),
    }
    if private:
        fixed["clip_norm"] = chosen["clip_norm"] or defaults_of(kind).clip_norm
    wrong += [name for name, value in fixed.items() if privacy[name] != value]
    found = f"{', '.join(wrong)} is not what was asked for." if wrong else "the run that was asked for."
    return Check("settings", not wrong, found)
