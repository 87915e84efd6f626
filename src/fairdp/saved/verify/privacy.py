"""Epsilon of a saved model, computed again from its recorded mechanism, and the mechanism from the settings."""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from fairdp._files import to_plain
from fairdp.accounting.account import SizesNoise, counts_std_of, trial_spends
from fairdp.accounting.calibration import reading_for
from fairdp.accounting.mechanisms import RELATION, bound_by, epsilon_spent, joint_multiplier
from fairdp.accounting.spent import PrivacySpent
from fairdp.accounting.words import NOISY
from fairdp.run.hold_out import declared_sizes, floored
from fairdp.run.plan import plan_run
from fairdp.saved.verify.check import SAME, Check, Recorded, equal, same


def privacy_checks(recorded: Recorded) -> Iterator[Check]:
    """All checks of the privacy record."""
    yield _epsilon(recorded.privacy)
    yield _mechanism(recorded)
    yield _summary(recorded)
    yield _sizes(recorded.privacy)
    yield _planned(recorded)


def _epsilon(privacy: PrivacySpent) -> Check:
    """Epsilon of each group, recomputed from the recorded mechanism, and the total from those."""
    wrong, delta, selection = [], privacy.delta, privacy.selection
    for group, recorded in privacy.epsilon_by_group.items():
        computed = epsilon_spent(privacy.mechanisms[group], delta, accountant=privacy.accountant)
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


def _mechanism(recorded: Recorded) -> Check:
    """That no group was accounted for with more noise than was added, in the steps and in the surveys beside them."""
    privacy, wrong = recorded.privacy, []
    surveyed = _surveys_multiplier(recorded)
    for group, mechanism in privacy.mechanisms.items():
        sensitivity, multiplier = privacy.sensitivities[group], mechanism.noise_multiplier
        added = privacy.noise_std / sensitivity if math.isfinite(sensitivity) else 0.0
        if privacy.statistics_multiplier and added:
            added = joint_multiplier(added, privacy.statistics_multiplier)
        if multiplier > added * (1 + SAME) or mechanism.n_steps != privacy.n_steps:
            wrong.append(f"{group}: accounted {multiplier:.6g}, added {added:.6g}")
        accounted = getattr(mechanism, "surveys_multiplier", 0.0)
        # No multiplier stands for no surveys: where there are some, it would account for none of them.
        if accounted > surveyed * (1 + SAME) or (surveyed and not accounted):
            wrong.append(f"{group}: accounted {accounted:.6g} in surveys, added {surveyed:.6g}")
    if privacy.noise_std and not all(privacy.surveys.values()):
        wrong.append("surveys without noise")
    found = "accounted noise was added in every group"
    if not privacy.noise_std:
        found = "no noise was added: the model is not private, and says so"
    return Check("noise", not wrong, f"{'; '.join(wrong) or found}.")


def _surveys_multiplier(recorded: Recorded) -> float:
    """Noise multiplier of all surveys together, each as often as the method looks; zero for none."""
    stds = recorded.privacy.surveys
    each = [stds.get(survey.what, 0.0) for survey in recorded.recipe.surveys for _ in range(survey.n_looks)]
    return joint_multiplier(*each) if each and all(each) else 0.0


def _summary(recorded: Recorded) -> Check:
    """That the numbers beside the mechanisms match them."""
    privacy = recorded.privacy
    mechanisms = privacy.mechanisms.values()
    stated = [
        ("sample_rate", privacy.sample_rate, max(mechanism.sample_rate for mechanism in mechanisms)),
        ("noise_multiplier", privacy.noise_multiplier, min(mechanism.noise_multiplier for mechanism in mechanisms)),
        (
            "counts_epsilon",
            privacy.counts_epsilon,
            max(mechanism.counts_epsilon for mechanism in mechanisms) - privacy.histogram_epsilon,
        ),
        ("counts_std", privacy.counts_std, counts_std_of(mechanisms, privacy.selection)),
        ("surveys", _surveys_multiplier(recorded), min(getattr(m, "surveys_multiplier", 0.0) for m in mechanisms)),
    ]
    if privacy.selection is None:
        for name, written in (("rdp", privacy.epsilon_rdp), ("pld", privacy.epsilon_pld)):
            bound = max(bound_by(name, mechanism, privacy.delta) for mechanism in mechanisms)
            stated.append((f"epsilon_{name}", written, bound))
    names = [name for name, written, computed in stated if not equal(written, computed)]
    note = privacy.ledger
    # One of the entries that it adds up is this model's.
    if note is not None and not privacy.epsilon <= note.epsilon_sum * (1 + SAME) >= note.epsilon:
        names.append("ledger")
    wrong = ", ".join(names)
    found = f"{wrong} does not match the mechanisms." if wrong else "its figures match the mechanisms."
    return Check("privacy record", not wrong, found)


def _sizes(privacy: PrivacySpent) -> Check:
    """That sizes said to be counted with noise are whole numbers, or what small ones are raised to."""
    wrong = []
    noise = SizesNoise(epsilon=privacy.counts_epsilon, std=privacy.counts_std)
    if privacy.group_sizes == NOISY and not (noise.epsilon or noise.std):
        wrong = ["sizes without any noise"]
    elif privacy.group_sizes == NOISY:
        (least,) = floored(np.zeros(1, dtype=np.int64), noise)
        wrong = [f"{name}: {n:g}" for name, n in privacy.planned_sizes.items() if n < least or (n != least and n % 1)]
    found = f"{', '.join(wrong)} cannot have been counted" if wrong else f"{privacy.group_sizes}"
    return Check("group sizes", not wrong, f"{found}.")


def _planned(recorded: Recorded) -> Check:
    """That every number of the record follows from the settings and the recorded sizes, planned again here.

    Sizes that were declared are among the settings, so the recorded ones must follow from them.
    """
    settings, model, privacy = recorded.settings, recorded.model, recorded.privacy
    fraction = 0.0 if settings.reason_for_no_certificate(len(model.groups)) else settings.certification.fraction
    sizes = {cell: privacy.planned_sizes[cell] for cell in recorded.cells}
    declared = [(1 - fraction) * size for size in declared_sizes(settings.group_sizes, tuple(sizes))]
    again = plan_run(
        method=settings.method,
        kind=model.model.kind,
        budget=settings.budget,
        training=settings.training,
        sizes=sizes,
        groups=model.groups,
        certify_fraction=fraction,
        group_sizes=settings.known_sizes,
        noise_seeded=privacy.noise_seeded,
        public_assumptions=privacy.public_assumptions,
        reading=reading_for(settings.budget, privacy.reading.n_columns) if privacy.reading else None,
        selection=privacy.selection,
        noise_multiplier=settings.goal.noise_multiplier,
        n_looks=settings.certification.registration.n_looks,
    ).privacy
    # What a ledger adds up is not planned.
    planned, stated = to_plain(again), to_plain(replace(privacy, ledger=None))
    wrong = [name for name in planned if not same(stated[name], planned[name])]
    if declared and not same(list(sizes.values()), declared):
        wrong.append("planned_sizes")
    # Sizes that were counted once for a whole search have the noise that the search says, but they have some.
    if privacy.group_sizes == NOISY and not (privacy.counts_std or privacy.counts_epsilon):
        wrong.append("counts_std")
    found = f"{', '.join(wrong)} is not that of the settings" if wrong else f"as planned for delta {privacy.delta!r}"
    return Check("plan", not wrong, f"{found}.")
