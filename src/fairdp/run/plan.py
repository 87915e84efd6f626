"""Plan a run from public numbers alone, for `fit`, `plan` and `verify`: what is chosen, what follows, what it costs.

Also the day and the versions that a fit notes beside its model.
"""

import math
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, date, datetime
from importlib.metadata import version
from typing import Any

from fairdp.accounting.mechanisms import (
    LARGEST_EPSILON,
    SMALLEST_EPSILON,
    PrivacyBudget,
    Reading,
    SampledGaussian,
    epsilon_for,
    epsilon_spent,
    steps_within,
)
from fairdp.accounting.plan import Plan, make_plan, privacy_spent, sizes_noise
from fairdp.accounting.selection import Selection
from fairdp.accounting.spent import NOISY, PUBLIC, PrivacySpent
from fairdp.config import TrainConfig, check_group_parameters, check_groups, in_order
from fairdp.defaults import defaults_of, train_config
from fairdp.errors import ParameterError
from fairdp.methods import METHODS
from fairdp.parameters import DEFAULT_EPSILON, Parameters, check_parameters

# A recipe needs sizes, but what it costs at a given rate and noise multiplier does not depend on them.
_ANY_SIZE = 1e6
# The day that everything inside `on_one_day` is made on; of one context each, as the hook of the releases is.
_DAY: ContextVar[str | None] = ContextVar("day", default=None)


@dataclass(frozen=True, kw_only=True)
class PrivacyGoal:
    """The choices about privacy.

    Without a noise multiplier, the noise follows from ε and the number of steps. With one, ε follows from the steps,
    or the steps from ε: as many as stay within it.
    """

    epsilon: float | None = None
    delta: float = Parameters.delta
    accountant: str = Parameters.accountant
    noise_multiplier: float | None = None
    n_steps: int | None = None

    def __post_init__(self) -> None:
        PrivacyBudget(epsilon=DEFAULT_EPSILON if self.epsilon is None else self.epsilon, delta=self.delta)
        check_parameters(noise_multiplier=self.noise_multiplier, n_steps=self.n_steps, accountant=self.accountant)
        if self.noise_multiplier is None:
            return
        if self.epsilon is None and self.n_steps is None:
            raise ParameterError(
                "noise_multiplier",
                self.noise_multiplier,
                "alone fixes nothing",
                "give `n_steps`, and ε follows, or `epsilon`, and the number of steps follows",
            )
        if self.epsilon is not None and self.n_steps is not None:
            raise ParameterError(
                "noise_multiplier",
                self.noise_multiplier,
                f"leaves no choice of both `epsilon`={self.epsilon:g} and `n_steps`={self.n_steps}",
                "leave out one of the three: it follows from the other two",
            )
        if self.epsilon is not None and math.isinf(self.epsilon):
            raise ParameterError(
                "noise_multiplier", self.noise_multiplier, "is noise, and `epsilon`=inf means none", "leave out one"
            )

    def check_for(self, method: str, *, counted: bool = False) -> None:
        """Refuse a method without noisy steps, or one whose ε would follow from what was counted."""
        if self.noise_multiplier is None:
            return
        if METHODS[method].closed_form or not METHODS[method].private:
            reason = "takes no steps" if METHODS[method].closed_form else "adds no noise"
            raise ParameterError(
                "noise_multiplier",
                self.noise_multiplier,
                f"is the noise of a private step, and `method`={method!r} {reason}",
                "leave it out",
            )
        if self.epsilon_follows and counted and method == "dp_is_sgd":
            raise ParameterError(
                "noise_multiplier",
                self.noise_multiplier,
                "with `n_steps` would make ε follow from the noisy sizes that `method`='dp_is_sgd' samples by",
                "declare `group_sizes`, or give `epsilon` in place of `n_steps`",
            )

    @property
    def epsilon_follows(self) -> bool:
        """True if ε is what the noise and the number of steps spend."""
        return self.noise_multiplier is not None and self.n_steps is not None

    @property
    def is_private(self) -> bool:
        """True if any noise is asked for."""
        return self.epsilon is None or math.isfinite(self.epsilon)

    def budget(self, epsilon: float | None = None) -> PrivacyBudget:
        """The budget, with the ε that was chosen, or that follows."""
        if self.epsilon is not None:
            epsilon = self.epsilon
        elif not self.epsilon_follows:
            epsilon = DEFAULT_EPSILON
        assert epsilon is not None
        # An ε that follows is that of the δ it was computed for.
        # The default itself, and not the same number: what somebody chose is kept or refused, never changed.
        adapts = self.delta is Parameters.delta and not self.epsilon_follows
        return PrivacyBudget(epsilon=epsilon, delta=self.delta, accountant=self.accountant, adapts=adapts)


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
        How the sizes are known, as a code of `fairdp.accounting.spent`.
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
        **auxiliary_budget(method, budget, group_sizes if counted else PUBLIC),
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


def auxiliary_budget(method: str, budget: PrivacyBudget, group_sizes: str) -> dict[str, float]:
    """Counts beside steps and queries, as `make_plan` takes them: of decisions, and of sizes that are not known."""
    sizes = sizes_noise(group_sizes, budget, pure=METHODS[method].closed_form)
    histogram = METHODS[method].histogram_epsilon(budget.epsilon)
    return {"counts_epsilon": sizes.epsilon + histogram, "counts_std": sizes.std}


def budget_of(
    goal: PrivacyGoal,
    *,
    method: str,
    kind: str,
    training: Mapping[str, Any],
    n_groups: int,
    group_sizes: str,
    n_looks: int = 1,
) -> PrivacyBudget:
    """The budget of a run, with the ε that was chosen or the one that follows.

    What follows is found before anybody is counted, and must not depend on sizes: records are sampled at the rate that
    was chosen or at the default, which is then not raised for small groups. Whatever is released beside the steps gets
    the same share of this ε as it gets of one that was chosen.
    """
    goal.check_for(method, counted=group_sizes == NOISY)
    if not goal.epsilon_follows:
        return goal.budget()
    # Nor does it depend on weights, whose names are held against those of the groups later on.
    chosen = {**at_fixed_rate(training, method, kind), "group_weights": None}
    config = train_config(kind, method, (_ANY_SIZE,) * n_groups, **chosen)
    recipe = METHODS[method].recipe(config, (_ANY_SIZE,) * n_groups)
    given: dict[str, Any] = {"noise_multiplier": goal.noise_multiplier, "n_steps": goal.n_steps}

    def spent_within(epsilon: float) -> float:
        budget = goal.budget(_in_range(goal, epsilon))
        given_and_paid = {**given, **auxiliary_budget(method, budget, group_sizes)}
        plan = make_plan(recipe, budget, **given_and_paid, noisy_sizes=True, n_looks=n_looks)
        return max(epsilon_spent(one, goal.delta, accountant=budget.stated_by) for one in set(plan.mechanisms))

    steps = SampledGaussian(sample_rate=max(recipe.sample_rates), **given)
    alone = epsilon_spent(steps, goal.delta, accountant=goal.budget(1.0).stated_by)
    return goal.budget(epsilon_for(spent_within, alone))


def _in_range(goal: PrivacyGoal, epsilon: float) -> float:
    """Refuse noise for which ε would be none that a budget may have."""
    if epsilon < SMALLEST_EPSILON:
        raise ParameterError(
            "noise_multiplier",
            goal.noise_multiplier,
            f"with `n_steps`={goal.n_steps} spends less than {SMALLEST_EPSILON} in ε",
            "use less noise or more steps",
        )
    if epsilon > LARGEST_EPSILON:
        raise ParameterError(
            "noise_multiplier",
            goal.noise_multiplier,
            f"with `n_steps`={goal.n_steps} spends more than {LARGEST_EPSILON} in ε",
            "use more noise or fewer steps",
        )
    return epsilon


def at_fixed_rate(training: Mapping[str, Any], method: str, kind: str) -> dict[str, Any]:
    """The numbers of a run with a sampling rate that does not follow from the sizes of the groups."""
    rate = training["sample_rate"]
    return {**training, "sample_rate": defaults_of(kind, method).sample_rate if rate is None else rate}


def check_looks(method: str, n_looks: int) -> None:
    """Refuse looks during training for a method whose deployed model has no earlier form."""
    if n_looks > 1 and not METHODS[method].has_iterates:
        raise ParameterError(
            "n_looks",
            n_looks,
            f"needs a model to look at during training, which `method`={method!r} does not have",
            "use `method`='fairdp' or 'dpsgd', or `n_looks`=1",
        )


@dataclass(frozen=True, kw_only=True)
class BuildInfo:
    """The day of a fit, as ISO 8601 writes it, and the versions that it ran with; nothing here depends on a record."""

    date: str
    fairdp: str
    torch: str
    python: str

    @property
    def is_a_day(self) -> bool:
        """True if the date is one of the calendar, and no more than that: a time of day is not."""
        try:
            return date.fromisoformat(self.date).isoformat() == self.date
        except ValueError:
            return False

    @property
    def versions(self) -> str:
        """The versions in words."""
        return f"fairdp {self.fairdp}, torch {self.torch}, Python {self.python}"


def build_info() -> BuildInfo:
    """A model that is made at this moment."""
    return BuildInfo(
        date=_DAY.get() or _today(), fairdp=version("fairdp"), torch=version("torch"), python=platform.python_version()
    )


@contextmanager
def on_one_day() -> Iterator[None]:
    """Let everything inside be made on the same day, so that two runs around midnight can be compared byte by byte."""
    token = _DAY.set(_DAY.get() or _today())
    try:
        yield
    finally:
        _DAY.reset(token)


def _today() -> str:
    return datetime.now(UTC).date().isoformat()
