"""Epsilon of a saved model, computed again from its recorded mechanism, and the mechanism from the settings."""

import math
from collections.abc import Iterator

from fairdp._files import to_plain
from fairdp.accounting.account import trial_spends
from fairdp.accounting.mechanisms import RELATION, epsilon_spent, joint_multiplier
from fairdp.accounting.spent import PrivacySpent
from fairdp.run.plan import plan_run
from fairdp.saved.verify.check import SAME, Check, Recorded, equal, same


def privacy_checks(recorded: Recorded) -> Iterator[Check]:
    """All checks of the privacy record."""
    yield _epsilon(recorded.privacy)
    yield _mechanism(recorded.privacy)
    yield _summary(recorded.privacy)
    yield _planned(recorded)


def _epsilon(privacy: PrivacySpent) -> Check:
    """Epsilon of each group, recomputed from the recorded mechanism, and the total from those."""
    wrong, delta, selection = [], privacy.delta, privacy.selection
    for group, recorded in privacy.epsilon_by_group.items():
        computed = epsilon_spent(privacy.mechanisms[group], delta)
        if selection is not None:
            computed = selection.epsilon(group, delta)
        if not equal(recorded, computed):
            wrong.append(f"{group}: recorded {recorded}, computed {computed:.6g}")
    largest = max(privacy.epsilon_by_group.values(), default=math.inf)
    if not equal(privacy.epsilon, largest):
        wrong.append(f"total: recorded {privacy.epsilon}, computed {largest:.6g}")
    if selection is not None:
        spends = trial_spends(privacy)
        wrong += [
            f"{group}: no such trial" for group, spend in spends.items() if spend not in selection.by_group[group]
        ]
    if privacy.relation != RELATION:
        wrong.append(f"relation {privacy.relation!r}")
    found = "; ".join(wrong) if wrong else f"recomputed from the recorded mechanism: {largest:.6g} at delta {delta!r}"
    return Check("epsilon", not wrong, f"{found}.")


def _mechanism(privacy: PrivacySpent) -> Check:
    """That no group was accounted for with more noise than was added."""
    wrong = []
    for group, mechanism in privacy.mechanisms.items():
        sensitivity, multiplier = privacy.sensitivities[group], mechanism.noise_multiplier
        added = privacy.noise_std / sensitivity if math.isfinite(sensitivity) else 0.0
        if privacy.statistics_multiplier and added:
            added = joint_multiplier(added, privacy.statistics_multiplier)
        if multiplier > added * (1 + SAME) or mechanism.n_steps != privacy.n_steps:
            wrong.append(f"{group}: accounted {multiplier:.6g}, added {added:.6g}")
    found = "accounted noise was added in every group"
    if not privacy.noise_std:
        found = "no noise was added: the model is not private, and says so"
    return Check("noise", not wrong, f"{'; '.join(wrong) or found}.")


def _summary(privacy: PrivacySpent) -> Check:
    """That the numbers beside the mechanisms match them."""
    mechanisms = privacy.mechanisms.values()
    stated = [
        ("sample_rate", privacy.sample_rate, max(mechanism.sample_rate for mechanism in mechanisms)),
        ("noise_multiplier", privacy.noise_multiplier, min(mechanism.noise_multiplier for mechanism in mechanisms)),
        (
            "counts_epsilon",
            privacy.counts_epsilon,
            max(mechanism.counts_epsilon for mechanism in mechanisms) - privacy.histogram_epsilon,
        ),
    ]
    if privacy.selection is None:
        rdp = max(epsilon_spent(mechanism, privacy.delta, accountant="rdp") for mechanism in mechanisms)
        stated.append(("epsilon_rdp", privacy.epsilon_rdp, rdp))
    wrong = ", ".join(name for name, recorded, computed in stated if not equal(recorded, computed))
    found = f"{wrong} does not match the mechanisms." if wrong else "its figures match the mechanisms."
    return Check("privacy record", not wrong, found)


def _planned(recorded: Recorded) -> Check:
    """That every number of the record follows from the settings and the recorded sizes, planned again here."""
    settings, model, privacy = recorded.settings, recorded.model, recorded.privacy
    certifies = settings.reason_for_no_certificate(len(model.groups)) is None
    again = plan_run(
        method=settings.method,
        kind=model.model.kind,
        budget=settings.budget,
        training=settings.training,
        sizes={cell: privacy.planned_sizes[cell] for cell in recorded.cells},
        groups=model.groups,
        certify_fraction=settings.certification.fraction if certifies else 0.0,
        group_sizes=settings.group_sizes,
        noise_seeded=privacy.noise_seeded,
        public_assumptions=privacy.public_assumptions,
        selection=privacy.selection,
    ).privacy
    planned, stated = to_plain(again), to_plain(privacy)
    wrong = [name for name in planned if not same(stated[name], planned[name])]
    found = f"{', '.join(wrong)} is not that of the settings" if wrong else f"as planned for delta {privacy.delta!r}"
    return Check("plan", not wrong, f"{found}.")
