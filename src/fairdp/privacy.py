"""What a run has spent, as numbers that can be recomputed and as words that can be read."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fairdp.accounting import RELATION, Mechanism, epsilon_spent, mechanism_from
from fairdp.notebook import html_table
from fairdp.rounding import rounded_up
from fairdp.selection import Selection, TrialSpend, selection_from
from fairdp.training.recipe import Plan

# Assumed where records are sampled by group and label.
BY_LABEL = "the number of records of each group with each label"

NOT_COVERED = (
    "exact metrics and record counts in reports (for the data holder's eyes only)",
    "anything done to the data before training (scaling, selection)",
    "hyper-parameters chosen by looking at private data",
    "other models trained on the same records (epsilons add up)",
)


@dataclass(frozen=True, kw_only=True)
class PrivacySpent:
    """The privacy record of a model.

    ``epsilon`` and ``epsilon_by_group`` come from PLD, ``epsilon_rdp`` from the moments accountant beside it; all are
    infinite for a run without noise. ``mechanisms`` holds what was accounted for a training record of each group,
    ``certify_epsilons`` what a certification record spent on its noisy counts, enough to recompute them: a record is
    one or the other, so the larger of the two is what its group spends. ``planned_sizes`` are the public or noisy sizes
    that everything else follows from. Of a model that was kept as the best of several trials, ``selection`` says what
    all candidates might have spent, and ``epsilon`` is that of the choice.
    """

    epsilon: float
    delta: float
    epsilon_by_group: dict[str, float]
    accountant: str
    epsilon_rdp: float
    noise_multiplier: float
    noise_allocation: str
    noise_std: float
    planned_sizes: dict[str, float]
    sensitivities: dict[str, float]
    sample_rate: float
    n_steps: int
    clip_norm: float
    relation: str
    group_sizes: str
    counts_epsilon: float
    noise_seeded: bool
    public_assumptions: tuple[str, ...]
    mechanisms: dict[str, Mechanism]
    statistics: str
    statistics_multiplier: float
    histogram_epsilon: float
    certify_fraction: float
    certify_epsilons: dict[str, float]
    selection: Selection | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> "PrivacySpent":
        """Inverse of `to_dict`."""
        mechanisms = {name: mechanism_from(values) for name, values in record["mechanisms"].items()}
        by_group = {
            field: {name: _unbounded(value) for name, value in record[field].items()}
            for field in ("epsilon_by_group", "sensitivities", "certify_epsilons")
        }
        known = {**record, "mechanisms": mechanisms, **by_group}
        known["public_assumptions"] = tuple(record["public_assumptions"])
        known["selection"] = selection_from(record["selection"])
        return cls(**{name: value if name == "selection" else _unbounded(value) for name, value in known.items()})

    def statement(self) -> str:
        """The guarantee in words: unit, relation, sampling, noise, accounting, and what is not covered."""
        return "\n".join(_statement_lines(self))

    def _repr_html_(self) -> str:
        rows = [("ε", rounded_up(self.epsilon)), ("δ", f"{self.delta:g}"), ("neighbours", "one record more or less")]
        rows += [(f"ε of {name}", rounded_up(value)) for name, value in self.epsilon_by_group.items()]
        private = "Not private: trained without noise." if math.isinf(self.epsilon) else "In words: statement()."
        return html_table("Privacy spent", rows, private)


def privacy_spent(
    plan: Plan,
    group_names: tuple[str, ...],
    *,
    certified_names: tuple[str, ...] | None = None,
    group_sizes: str,
    noise_seeded: bool,
    public_assumptions: tuple[str, ...] = (),
    certify_fraction: float = 0.0,
    histogram_epsilon: float = 0.0,
    selection: Selection | None = None,
) -> PrivacySpent:
    """Account for all the steps of a plan, group by group, and for a certificate from a held-out fraction.

    Where the groups that are sampled are finer than those that are certified, ``certified_names`` names the latter. A
    plan that is one trial of a selection spends what the selection does.
    """
    delta = plan.budget.delta
    epsilons = [epsilon_spent(mechanism, delta) for mechanism in plan.mechanisms]
    counts_epsilon = max(m.counts_epsilon for m in plan.mechanisms) - histogram_epsilon
    n_certified = len(certified_names or group_names)
    certified = certify_epsilons(plan, epsilons, counts_epsilon, n_certified) if certify_fraction else []
    companion = plan.recipe.companion
    if len(group_names) > n_certified and group_sizes == "public" and BY_LABEL not in public_assumptions:
        public_assumptions = (*public_assumptions, BY_LABEL)
    epsilon_rdp = max(epsilon_spent(mechanism, delta, accountant="rdp") for mechanism in plan.mechanisms)
    if selection is not None:
        epsilons = [selection.epsilon(name, delta) for name in group_names]
        epsilon_rdp = max(epsilons)
    return PrivacySpent(
        epsilon=max(epsilons),
        delta=delta,
        epsilon_by_group=dict(zip(group_names, epsilons, strict=True)),
        accountant="pld" if selection is None else "rdp",
        epsilon_rdp=epsilon_rdp,
        noise_multiplier=float(plan.noise_multipliers.min()),
        noise_allocation=plan.recipe.noise_allocation,
        noise_std=plan.noise_std,
        planned_sizes=dict(zip(group_names, plan.recipe.group_sizes, strict=True)),
        sensitivities=dict(zip(group_names, plan.recipe.sensitivities.tolist(), strict=True)),
        sample_rate=max(plan.recipe.sample_rates),
        n_steps=plan.n_steps,
        clip_norm=plan.recipe.clip_norm,
        relation=RELATION,
        group_sizes=group_sizes,
        counts_epsilon=counts_epsilon,
        noise_seeded=noise_seeded,
        public_assumptions=public_assumptions,
        mechanisms=dict(zip(group_names, plan.mechanisms, strict=True)),
        statistics=companion.what if companion is not None else "",
        statistics_multiplier=plan.statistics_std,
        histogram_epsilon=histogram_epsilon,
        certify_fraction=certify_fraction,
        certify_epsilons=dict(zip(certified_names or group_names, certified, strict=False)),
        selection=selection,
    )


def trial_spends(spent: PrivacySpent) -> dict[str, TrialSpend]:
    """What one trial with this record may spend on a record of each group; a group sampled by label counts twice."""
    held_out = spent.certify_epsilons
    return {
        name: TrialSpend(mechanism=mechanism, held_out_epsilon=held_out.get(name, max(held_out.values(), default=0.0)))
        for name, mechanism in spent.mechanisms.items()
    }


def certify_epsilons(plan: Plan, trained: list[float], counts_epsilon: float, n_groups: int) -> list[float]:
    """Pure ε of the certification records of each group: the least its training records spend, so that is no more.

    Noisy group sizes are counted over both parts, so their cost is taken off. Beside training without noise the budget
    itself is the limit.
    """
    smallest = np.reshape(trained, (n_groups, -1)).min(1).tolist()
    return [min(epsilon, plan.budget.epsilon) - counts_epsilon for epsilon in smallest]


def _statement_lines(spent: PrivacySpent) -> list[str]:
    if math.isinf(spent.epsilon):
        return ["This model is NOT private: it was trained without noise, and epsilon is infinite."]
    by_group = ", ".join(f"{name} {rounded_up(value)}" for name, value in spent.epsilon_by_group.items())
    lines = [
        f"The model is {_level(spent)}-differentially private for adding or removing one record.",
        f"Epsilon by group: {by_group}.",
        *(_laplace_lines(spent) if spent.noise_allocation == "laplace" else _gaussian_lines(spent)),
        *_histogram_lines(spent),
        *_certification_lines(spent),
        *_selection_lines(spent),
        _group_sizes_line(spent),
        f"Not covered: {', '.join(not_covered(spent)[:-1])}, and {NOT_COVERED[-1]}.",
    ]
    lines += [f"Assumed public: {assumption}." for assumption in spent.public_assumptions]
    if spent.noise_seeded:
        lines.append(
            "The noise came from a fixed seed: the guarantee holds only while that seed is secret and used for this "
            "run alone, and a small number can be guessed."
        )
    return lines


def not_covered(spent: PrivacySpent) -> list[str]:
    """What no ε here speaks of; the choice that was paid for is covered, any other is not."""
    other = " otherwise" if spent.selection else ""
    return [f"{words}{other if words.startswith('hyper-parameters') else ''}" for words in NOT_COVERED]


def _level(spent: PrivacySpent) -> str:
    epsilon = rounded_up(spent.epsilon)
    pure = spent.noise_allocation == "laplace" and spent.selection is None
    return epsilon if pure else f"({epsilon}, {spent.delta!r})"


def _gaussian_lines(spent: PrivacySpent) -> list[str]:
    noise = {
        "per_group": "independent Gaussian noise for every group, accounted by parallel composition over the groups",
        "average": "one draw of Gaussian noise on the average over the groups, accounted at each group's own exposure",
    }[spent.noise_allocation]
    gradient = spent.noise_multiplier
    if spent.statistics_multiplier:
        gradient = (gradient**-2 - spent.statistics_multiplier**-2) ** -0.5
    beside = (
        f"Beside the gradient each step releases {spent.statistics}, with noise of {spent.statistics_multiplier:.4g} "
        f"times the sensitivity; both come from one sample and are accounted as one query, with a noise multiplier of "
        f"{spent.noise_multiplier:.4g}."
    )
    return [
        f"Mechanism: {spent.n_steps} steps; each samples every record independently with probability at most "
        f"{spent.sample_rate:.4g} (Poisson), clips its gradient to norm {spent.clip_norm:g} and adds noise of "
        f"{gradient:.4g} times the sensitivity: {noise}.",
        *([beside] if spent.statistics_multiplier else []),
        *([] if spent.selection else [_accountant_line(spent)]),
    ]


def _accountant_line(spent: PrivacySpent) -> str:
    return (
        f"Accountant: PLD (privacy loss distribution); the moments accountant (RDP), a looser bound on "
        f"the same mechanism, gives {rounded_up(spent.epsilon_rdp)}."
    )


def _laplace_lines(spent: PrivacySpent) -> list[str]:
    return [
        "Mechanism: the coefficients of each group's approximate loss are released once, with Laplace noise of "
        f"{spent.noise_multiplier:.4g} times what one record can move in the L1 norm (functional mechanism). "
        f"{'' if spent.selection else 'The guarantee is pure: it holds with delta zero. '}Group sizes are not used."
    ]


def _histogram_lines(spent: PrivacySpent) -> list[str]:
    if not spent.histogram_epsilon:
        return []
    return [
        f"Decisions about the training records were counted by group and label with Laplace noise, for a pure epsilon "
        f"of {rounded_up(spent.histogram_epsilon)}, included above."
    ]


def _certification_lines(spent: PrivacySpent) -> list[str]:
    if not spent.certify_epsilons:
        return []
    return [
        f"A fraction of {spent.certify_fraction:g} of the records, chosen by a coin for each, was not trained on but "
        f"counted with noise for the fairness certificate, at a pure epsilon of at most "
        f"{rounded_up(max(spent.certify_epsilons.values()))}. A record is in one part only, so the guarantee is the "
        "larger of the two, not their sum."
    ]


def _selection_lines(spent: PrivacySpent) -> list[str]:
    if spent.selection is None:
        return []
    return [
        f"The model is the best of a random number of trials, {spent.selection.expected_trials:g} on average, of which "
        "nothing else may be shown, not even their number. Epsilon is that of the whole choice, by Renyi divergences "
        "(Papernot and Steinke, 2022, with the logarithmic law); the figures of the mechanism are those of one trial."
    ]


def _unbounded(value: Any) -> Any:
    """JSON has no infinity: it is written as null."""
    return math.inf if value is None else value


def _group_sizes_line(spent: PrivacySpent) -> str:
    names = "The group names and the two labels are treated as public"
    if spent.group_sizes == "private":
        cost = f"noisy counts cost {rounded_up(spent.counts_epsilon)} of epsilon, included above"
        return f"{names}. Group sizes are private: {cost}."
    return f"{names}, and so are the group sizes, held fixed for both neighbours."
