"""The one function that plans a run, for `fit`, `plan` and `verify`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairdp._checks import ParameterError
from fairdp.accounting.account import privacy_spent
from fairdp.accounting.calibration import steps_within
from fairdp.accounting.mechanisms import PrivacyBudget
from fairdp.accounting.plan import Plan, make_plan
from fairdp.accounting.reading import Reading
from fairdp.accounting.selection import Selection
from fairdp.accounting.spent import PrivacySpent
from fairdp.accounting.words import NOISY, PUBLIC
from fairdp.config.defaults import check_group_parameters, check_groups, in_order, train_config
from fairdp.config.training import TrainConfig
from fairdp.methods import METHODS
from fairdp.run.budget import at_fixed_rate, paid_beside

if TYPE_CHECKING:  # `fairdp plan` should not wait for torch.
    from fairdp.run.hold_out import Parts
    from fairdp.run.settings import RunSettings


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """The numbers of a run, its noise, and what it will spend; ``run`` tells it from others that have other keys."""

    config: TrainConfig
    plan: Plan
    privacy: PrivacySpent
    run: str = ""


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
    reading: Reading | None = None,
    selection: Selection | None = None,
    noise_multiplier: float | None = None,
    n_looks: int = 1,
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
    reading
        How the columns of the table were read before; a search has paid for that too, before all trials.
    noise_multiplier
        Noise that was chosen, with a number of steps, whose ε the budget is (`budget_of`), or for as many as the
        budget allows. None finds the noise that budget and number of steps need.
    n_looks
        Looks that are registered; where nothing is held out there is none to pay for.
    """
    check_group_parameters(method, training)
    names, numbers = tuple(sizes), tuple(sizes.values())
    training = {**training, "group_weights": in_order("group_weights", training.get("group_weights"), names)}
    read = reading is not None or (selection is not None and selection.reading is not None)
    budget = budget.for_records(sum(numbers) / (1 - certify_fraction), released=read or group_sizes == NOISY)
    if noise_multiplier is not None and training["n_steps"] is not None:
        training = at_fixed_rate(training, method, kind)
    check_groups(names, numbers, None if METHODS[method].closed_form else training["sample_rate"])
    counted = sizes_counted and selection is None
    given: dict[str, Any] = {
        **paid_beside(method, budget, group_sizes if counted else PUBLIC),
        "reading": reading if counted else None,
        "noisy_sizes": group_sizes == NOISY,
        "noise_multiplier": noise_multiplier,
        "n_looks": n_looks if certify_fraction else 1,
    }

    def with_steps(n_steps: int | None) -> tuple[TrainConfig, Plan]:
        config = train_config(kind, method, numbers, **{**training, "n_steps": n_steps})
        return config, make_plan(METHODS[method].recipe(config, numbers), budget, n_steps=config.n_steps, **given)

    n_steps = training["n_steps"]
    if noise_multiplier is not None and n_steps is None:
        one_step = with_steps(1)[1]
        n_steps = max(1, steps_within(budget, one_step.mechanisms) - one_step.look_steps)
    config, plan = with_steps(n_steps)
    if given["n_looks"] > max(1, config.n_steps):
        raise ParameterError("n_looks", n_looks, f"needs a step for each, and there are {config.n_steps}", "use fewer")
    privacy = privacy_spent(
        plan,
        names,
        certified_names=groups,
        group_sizes=group_sizes,
        noise_seeded=noise_seeded,
        public_assumptions=public_assumptions,
        certify_fraction=certify_fraction,
        histogram_epsilon=METHODS[method].histogram_epsilon(budget.epsilon),
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
    reading: Reading | None = None,
    selection: Selection | None = None,
) -> PlannedRun:
    """Plan a run on these parts of the records, of which only the sizes are used."""
    return plan_run(
        method=settings.method,
        kind=settings.kind(shape),
        budget=settings.budget,
        training=settings.training,
        sizes=dict(zip(parts.train.group_names, parts.sizes, strict=True)),
        groups=parts.held_out.group_names,
        certify_fraction=parts.fraction,
        group_sizes=settings.known_sizes,
        sizes_counted=sizes_counted,
        noise_seeded=seeded,
        public_assumptions=public_assumptions,
        reading=reading,
        selection=selection,
        noise_multiplier=settings.goal.noise_multiplier,
        n_looks=settings.certification.registration.n_looks,
    )
