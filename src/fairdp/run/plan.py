"""The one function that plans a run, for `fit`, `plan` and `verify`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairdp.accounting.account import SizesNoise, privacy_spent, sizes_noise
from fairdp.accounting.mechanisms import PrivacyBudget
from fairdp.accounting.plan import Plan, make_plan
from fairdp.accounting.selection import Selection
from fairdp.accounting.spent import PrivacySpent
from fairdp.accounting.words import NOISY
from fairdp.config.defaults import check_groups, kind_of, train_config
from fairdp.config.training import TrainConfig
from fairdp.methods import METHODS

if TYPE_CHECKING:  # `fairdp plan` should not wait for torch.
    from fairdp.run.hold_out import Parts
    from fairdp.run.settings import RunSettings


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """The numbers of a run, its noise, and what it will spend."""

    config: TrainConfig
    plan: Plan
    privacy: PrivacySpent


def plan_run(
    *,
    method: str,
    kind: str,
    budget: PrivacyBudget,
    training: Mapping[str, Any],
    sizes: Mapping[str, float],
    groups: tuple[str, ...],
    certify_fraction: float,
    group_sizes: str,
    sizes_counted: bool = True,
    noise_seeded: bool = False,
    public_assumptions: tuple[str, ...] = (),
    selection: Selection | None = None,
) -> PlannedRun:
    """Plan a run from public numbers, and account for it.

    Parameters
    ----------
    kind
        Kind of model, which some defaults depend on.
    training
        What `train_config` takes; None picks the default of method and kind.
    sizes
        Public or noisy number of training records of everything that is sampled at a rate of its own: the groups, or
        the groups by label.
    groups
        The groups that a certificate is about.
    certify_fraction
        Share of the records that is held out for a certificate; zero for none.
    group_sizes
        How the sizes are known, as a code of `fairdp.accounting.words`.
    sizes_counted
        Whether noisy sizes are counted in this run; those of a trial are counted, and paid for, before all trials.
    """
    names, numbers = tuple(sizes), tuple(sizes.values())
    budget.check_for(sum(numbers) / (1 - certify_fraction))
    check_groups(names, numbers, None if METHODS[method].closed_form else training["sample_rate"])
    config = train_config(kind, method, numbers, **training)
    histogram = METHODS[method].histogram_epsilon(budget.epsilon)
    counted = sizes_counted and selection is None
    noise = sizes_noise(group_sizes, budget, pure=METHODS[method].closed_form) if counted else SizesNoise()
    recipe = METHODS[method].recipe(config, numbers)
    paid = {"counts_epsilon": noise.epsilon + histogram, "counts_std": noise.std}
    plan = make_plan(recipe, budget, n_steps=config.n_steps, noisy_sizes=group_sizes == NOISY, **paid)
    privacy = privacy_spent(
        plan,
        names,
        certified_names=groups,
        group_sizes=group_sizes,
        noise_seeded=noise_seeded,
        public_assumptions=public_assumptions,
        certify_fraction=certify_fraction,
        histogram_epsilon=histogram,
        selection=selection,
    )
    return PlannedRun(config=config, plan=plan, privacy=privacy)


def plan_of_parts(
    settings: "RunSettings",
    parts: "Parts",
    shape: tuple[int, ...],
    *,
    seeded: bool,
    sizes_counted: bool = True,
    public_assumptions: tuple[str, ...] = (),
    selection: Selection | None = None,
) -> PlannedRun:
    """Plan a run on these parts of the records, of which only the sizes are used."""
    return plan_run(
        method=settings.method,
        kind=kind_of(settings.model, settings.module, shape, settings.method),
        budget=settings.budget,
        training=settings.training,
        sizes=dict(zip(parts.train.group_names, parts.sizes, strict=True)),
        groups=parts.held_out.group_names,
        certify_fraction=parts.fraction,
        group_sizes=settings.known_sizes,
        sizes_counted=sizes_counted,
        noise_seeded=seeded,
        public_assumptions=public_assumptions,
        selection=selection,
    )
