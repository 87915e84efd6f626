"""What a run has spent, as numbers that can be recomputed and as words that can be read."""

import math
from dataclasses import asdict, dataclass
from typing import Any

from fairdp.accounting import RELATION, SampledGaussian, epsilon_spent
from fairdp.training.recipe import Plan


@dataclass(frozen=True, kw_only=True)
class PrivacySpent:
    """The privacy record of a model.

    ``epsilon`` and ``epsilon_by_group`` come from PLD, ``epsilon_rdp`` from the moments accountant beside it; all are
    infinite for a run without noise. ``mechanisms`` holds what was accounted for a record of each group, enough to
    recompute them.
    """

    epsilon: float
    delta: float
    epsilon_by_group: dict[str, float]
    accountant: str
    epsilon_rdp: float
    noise_multiplier: float
    noise_allocation: str
    noise_std: float
    sample_rate: float
    n_steps: int
    clip_norm: float
    relation: str
    group_sizes: str
    counts_epsilon: float
    noise_seeded: bool
    public_assumptions: tuple[str, ...]
    mechanisms: dict[str, SampledGaussian]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> "PrivacySpent":
        """Inverse of `to_dict`."""
        mechanisms = {name: SampledGaussian(**values) for name, values in record["mechanisms"].items()}
        by_group = {name: _unbounded(value) for name, value in record["epsilon_by_group"].items()}
        known = {**record, "mechanisms": mechanisms, "epsilon_by_group": by_group}
        known["public_assumptions"] = tuple(record["public_assumptions"])
        return cls(**{name: _unbounded(value) for name, value in known.items()})

    def statement(self) -> str:
        """The guarantee in words: unit, relation, sampling, noise, accounting, and what is not covered."""
        return "\n".join(_statement_lines(self))


def privacy_spent(
    plan: Plan,
    group_names: tuple[str, ...],
    *,
    group_sizes: str,
    noise_seeded: bool,
    public_assumptions: tuple[str, ...] = (),
) -> PrivacySpent:
    """Account for all the steps of a plan, group by group."""
    mechanisms = dict(zip(group_names, plan.mechanisms, strict=True))
    delta = plan.budget.delta
    by_group = {name: epsilon_spent(m, delta) for name, m in mechanisms.items()}
    return PrivacySpent(
        epsilon=max(by_group.values()),
        delta=delta,
        epsilon_by_group=by_group,
        accountant="pld",
        epsilon_rdp=max(epsilon_spent(m, delta, accountant="rdp") for m in mechanisms.values()),
        noise_multiplier=float(plan.noise_multipliers.min()),
        noise_allocation=plan.recipe.noise_allocation,
        noise_std=plan.noise_std,
        sample_rate=max(plan.recipe.sample_rates),
        n_steps=plan.n_steps,
        clip_norm=plan.recipe.clip_norm,
        relation=RELATION,
        group_sizes=group_sizes,
        counts_epsilon=max(m.counts_epsilon for m in plan.mechanisms),
        noise_seeded=noise_seeded,
        public_assumptions=public_assumptions,
        mechanisms=mechanisms,
    )


def _statement_lines(spent: PrivacySpent) -> list[str]:
    if math.isinf(spent.epsilon):
        return ["This model is NOT private: it was trained without noise, and epsilon is infinite."]
    noise = {
        "per_group": "independent Gaussian noise for every group, accounted by parallel composition over the groups",
        "average": "one draw of Gaussian noise on the average over the groups, accounted at each group's own exposure",
    }[spent.noise_allocation]
    lines = [
        f"The model is ({spent.epsilon:.4g}, {spent.delta:.2g})-differentially private for adding or removing "
        "one record.",
        "Epsilon by group: " + ", ".join(f"{name} {value:.4g}" for name, value in spent.epsilon_by_group.items()) + ".",
        f"Mechanism: {spent.n_steps} steps; each samples every record independently with probability at most "
        f"{spent.sample_rate:.4g} (Poisson), clips its gradient to norm {spent.clip_norm:g} and adds noise of "
        f"{spent.noise_multiplier:.4g} times the sensitivity: {noise}.",
        f"Accountant: PLD (privacy loss distribution); the moments accountant (RDP) gives {spent.epsilon_rdp:.4g}.",
        _group_sizes_line(spent),
        "Not covered: metrics computed exactly on held-out records (for the data holder's eyes only), the choice of "
        "hyper-parameters if private data guided it, and other models trained on the same records (epsilons add up).",
    ]
    lines += [f"Assumed public: {assumption}." for assumption in spent.public_assumptions]
    if spent.noise_seeded:
        lines.append("The noise came from a fixed seed: the guarantee holds only while that seed is secret.")
    return lines


def _unbounded(value: Any) -> Any:
    """JSON has no infinity: it is written as null."""
    return math.inf if value is None else value


def _group_sizes_line(spent: PrivacySpent) -> str:
    if spent.group_sizes == "private":
        return f"Group sizes are private: noisy counts cost {spent.counts_epsilon:.3g} of epsilon, included above."
    return "Group sizes (and the group names) are treated as public."
