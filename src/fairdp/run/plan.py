"""The one function that plans a run, for `fit`, `plan` and `verify`."""

from fairdp.accounting.account import privacy_spent
from fairdp.accounting.mechanisms import PrivacyBudget
from fairdp.accounting.plan import Plan, make_plan
from fairdp.accounting.selection import Selection
from fairdp.accounting.spent import PrivacySpent
from fairdp.config.defaults import check_groups
from fairdp.config.training import TrainConfig
from fairdp.methods import METHODS
from fairdp.run.hold_out import Parts
from fairdp.run.settings import RunSettings


def plan_run(
    method: str, config: TrainConfig, budget: PrivacyBudget, sizes: tuple[float, ...], counts_epsilon: float
) -> Plan:
    """The plan of a method for groups of these sizes."""
    recipe = METHODS[method].recipe(config, sizes)
    return make_plan(recipe, budget, n_steps=config.n_steps, counts_epsilon=counts_epsilon)


def account(
    settings: RunSettings,
    parts: Parts,
    shape: tuple[int, ...],
    *,
    seeded: bool,
    public_assumptions: tuple[str, ...] = (),
    selection: Selection | None = None,
) -> tuple[TrainConfig, Plan, PrivacySpent]:
    """The numbers of a run on these parts, its plan and what that will spend; of the records only sizes are used."""
    settings.budget.check_for(parts.expected_total)
    sampled = not METHODS[settings.method].closed_form
    check_groups(parts.train.group_names, parts.sizes, settings.training["sample_rate"] if sampled else None)
    config, histogram = settings.train_config(shape, parts.sizes), settings.histogram_epsilon
    plan = plan_run(settings.method, config, settings.budget, parts.sizes, parts.counts_epsilon + histogram)
    privacy = privacy_spent(
        plan,
        parts.train.group_names,
        certified_names=parts.held_out.group_names,
        group_sizes=settings.group_sizes,
        noise_seeded=seeded,
        public_assumptions=public_assumptions,
        certify_fraction=parts.fraction,
        histogram_epsilon=histogram,
        selection=selection,
    )
    return config, plan, privacy
