"""Epsilon of a saved model, computed again from its recorded mechanism, and the mechanism from the settings."""

import json
import math
from collections.abc import Iterator

from fairdp._files import json_bytes
from fairdp.accounting.account import privacy_spent, trial_spends
from fairdp.accounting.mechanisms import RELATION, epsilon_spent, joint_multiplier, mechanism_from
from fairdp.accounting.selection import selection_from
from fairdp.accounting.spent import PrivacySpent
from fairdp.config.defaults import train_config
from fairdp.run.hold_out import COUNTS_SHARE
from fairdp.run.plan import plan_run
from fairdp.saved.verify.check import SAME, Check, Record, cells_of, equal, number, same, settings_of


def privacy_checks(model: Record, privacy: Record) -> Iterator[Check]:
    """Everything about the privacy record."""
    yield _epsilon(privacy)
    yield _mechanism(privacy)
    yield _summary(privacy)
    yield _planned(model, privacy)


def _epsilon(privacy: Record) -> Check:
    """Epsilon of each group from what was recorded of the mechanism, and the total from those."""
    wrong, delta = [], privacy["delta"]
    selection = selection_from(privacy["selection"])
    for group, recorded in privacy["epsilon_by_group"].items():
        mechanism = mechanism_from(privacy["mechanisms"][group])
        spent = epsilon_spent(mechanism, delta) if selection is None else selection.epsilon(group, delta)
        if not equal(recorded, spent):
            wrong.append(f"{group}: recorded {recorded}, computed {spent:.6g}")
    largest = max((number(value) for value in privacy["epsilon_by_group"].values()), default=math.inf)
    if not equal(privacy["epsilon"], largest):
        wrong.append(f"total: recorded {privacy['epsilon']}, computed {largest:.6g}")
    if selection is not None:
        own = trial_spends(PrivacySpent.from_dict(dict(privacy)))
        wrong += [f"{group}: no such trial" for group, spend in own.items() if spend not in selection.by_group[group]]
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
        if privacy["statistics_multiplier"] and added:
            added = joint_multiplier(added, privacy["statistics_multiplier"])
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
        "counts_epsilon": max(m["counts_epsilon"] for m in mechanisms) - privacy["histogram_epsilon"],
    }
    if not privacy["selection"]:
        computed["epsilon_rdp"] = max(
            epsilon_spent(mechanism_from(mechanism), privacy["delta"], accountant="rdp") for mechanism in mechanisms
        )
    wrong = [name for name, value in computed.items() if not equal(privacy[name], value)]
    found = (
        f"{', '.join(wrong)} is not that of the mechanisms." if wrong else "its figures are those of the mechanisms."
    )
    return Check("privacy record", not wrong, found)


def _planned(model: Record, privacy: Record) -> Check:
    """That every number of the record is what the settings and the recorded sizes make of it, planned here again."""
    settings = settings_of(model)
    cells = tuple(cell for group in model["groups"] for cell in cells_of(model, group))
    epsilon, sizes = settings.budget.epsilon, tuple(privacy["planned_sizes"][cell] for cell in cells)
    hidden = settings.group_sizes == "private" and math.isfinite(epsilon)
    counts = COUNTS_SHARE * epsilon if hidden else 0.0
    config = train_config(model["model"]["kind"], settings.method, min(sizes), **settings.training)
    certifies = settings.reason_for_no_certificate(len(model["groups"])) is None
    again = privacy_spent(
        plan_run(settings.method, config, settings.budget, sizes, counts + settings.histogram_epsilon),
        cells,
        certified_names=tuple(model["groups"]),
        group_sizes=settings.group_sizes,
        noise_seeded=privacy["noise_seeded"],
        public_assumptions=tuple(privacy["public_assumptions"]),
        certify_fraction=settings.certification.fraction if certifies else 0.0,
        histogram_epsilon=settings.histogram_epsilon,
        selection=selection_from(privacy["selection"]),
    )
    planned = json.loads(json_bytes(again.to_dict()))
    wrong = [name for name in planned if not same(privacy[name], planned[name])]
    found = f"{', '.join(wrong)} is not that of the settings" if wrong else f"as planned for delta {privacy['delta']!r}"
    return Check("plan", not wrong, f"{found}.")
