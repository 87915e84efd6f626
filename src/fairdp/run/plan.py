"""Plan a run from public numbers alone, for `fit`, `plan` and `verify`: what is chosen, what follows, what it costs.

Also the day and the versions that a fit notes beside its model.
"""

import math
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from datetime import UTC, date, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairdp import parameters
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
from fairdp.accounting.plan import Plan, SizesNoise, known_sizes, make_plan, privacy_spent, sizes_noise
from fairdp.accounting.selection import Selection
from fairdp.accounting.spent import NOISY, PUBLIC, PrivacySpent
from fairdp.config import (
    DEFAULTS,
    ROW_NORMS,
    SMALLEST_BATCH,
    SMALLEST_IMAGE,
    Defaults,
    ModelConfig,
    Preregistration,
    TrainConfig,
    check_groups,
    in_order,
    plain,
)
from fairdp.errors import ParameterError, one_of
from fairdp.methods import METHODS, ONLY_FOR, PAPER, PLAIN
from fairdp.parameters import (
    DECLARED,
    DEFAULT_EPSILON,
    DEFAULT_MAX_GAP,
    DEFAULT_PRICE,
    METRICS,
    NoCertificate,
    Parameters,
    check_parameters,
)
from fairdp.randomness import seed_of

if TYPE_CHECKING:
    # Plans need not load pandas.
    from fairdp.data.columns import EncodedColumns

# Linear splines and bins of more inputs than this would be mostly noise.
_MOST_UNDECLARED = 64
# A recipe needs sizes, but what it costs at a given rate and noise multiplier does not depend on them.
_ANY_SIZE = 1e6
# Parameters of single methods that others would silently ignore; studies give the rest of `ONLY_FOR` to all alike.
_REFUSED = ("price", "cost_ratio", "grouping", "max_sample_rate", "parameter_noise", "fairness_weight")
# Parameters that `TrainConfig` takes unchanged.
_TAKEN = tuple(
    {field.name for field in fields(TrainConfig)}
    & set(DECLARED)
    - {"sample_rate", "n_steps", "clip_norm", "schedule", "optimizer", "momentum", "max_gap", "min_ratio", "price"}
)
# The day that everything inside `on_one_day` is made on; of one context each, as the hook of the releases is.
_DAY: ContextVar[str | None] = ContextVar("day", default=None)


def checked(**values: Any) -> Parameters:
    """The parameters of an estimator, with names and numbers as files hold them; those that contradict are refused."""
    chosen = Parameters(**{name: _by_name(plain(value)) for name, value in values.items()})
    chosen.random_state = seed_of(chosen.random_state)
    one_of(METHODS, method=chosen.method)
    check_parameters(group_sizes=chosen.group_sizes, max_sample_weight=chosen.max_sample_weight)
    check_parameters(certify_fraction=chosen.certify_fraction, predictor=chosen.predictor, smoothing=chosen.smoothing)
    registration_of(chosen)
    if chosen.n_looks > 1 and chosen.require_tau is None:
        raise ParameterError("n_looks", chosen.n_looks, "needs `require_tau`: the bound at whose breach training ends")
    check_privacy(chosen)
    _check_method(chosen)
    _check_target(chosen)
    return chosen


def _by_name(chosen: Any) -> Any:
    """Mappings with plain keys and values; anything else stays as it is."""
    return {str(name): plain(value) for name, value in chosen.items()} if isinstance(chosen, Mapping) else chosen


def check_privacy(chosen: Parameters) -> None:
    """Refuse choices about privacy that fix too little or too much.

    Without a noise multiplier, the noise follows from ε and the number of steps. With one, ε follows from the steps,
    or the steps from ε: as many as stay within it.
    """
    noise, epsilon, n_steps = chosen.noise_multiplier, chosen.epsilon, chosen.n_steps
    PrivacyBudget(epsilon=DEFAULT_EPSILON if epsilon is None else epsilon, delta=chosen.delta)
    check_parameters(noise_multiplier=noise, n_steps=n_steps, accountant=chosen.accountant)
    if noise is None:
        return
    if epsilon is None and n_steps is None:
        raise ParameterError(
            "noise_multiplier",
            noise,
            "alone fixes nothing",
            "give `n_steps`, and ε follows, or `epsilon`, and the number of steps follows",
        )
    if epsilon is not None and n_steps is not None:
        raise ParameterError(
            "noise_multiplier",
            noise,
            f"leaves no choice of both `epsilon`={epsilon:g} and `n_steps`={n_steps}",
            "leave out one of the three: it follows from the other two",
        )
    if not is_private(chosen):
        raise ParameterError("noise_multiplier", noise, "is noise, and `epsilon`=inf means none", "leave out one")
    method = METHODS[chosen.method]
    if method.closed_form or not method.private:
        reason = "takes no steps" if method.closed_form else "adds no noise"
        raise ParameterError(
            "noise_multiplier",
            noise,
            f"is the noise of a private step, and `method`={chosen.method!r} {reason}",
            "leave it out",
        )


def _check_method(chosen: Parameters) -> None:
    """Refuse what the method cannot do, and name methods that can."""
    name, method = chosen.method, METHODS[chosen.method]
    if method.closed_form and (chosen.module is not None or chosen.model not in ("auto", "logistic")):
        raise ParameterError(
            "method", name, "is a logistic model on tables only", f"use `method`={PLAIN!r} or `model`='logistic'"
        )
    check_looks(name, chosen.n_looks)
    if chosen.predictor != "deterministic" and (method.smooths or method.post_processes or method.joint):
        raise ParameterError(
            "method", name, "has its own decision rule", f"use `predictor`='deterministic', or `method`={PAPER!r}"
        )
    check_group_parameters(chosen)
    for option in _REFUSED:
        value, users = getattr(chosen, option), ONLY_FOR[option]
        if value != DECLARED[option].default and name not in users:
            only = " and ".join(f"{user!r}" for user in users)
            raise ParameterError(option, value, f"is for `method`={only} only, not {name!r}", "leave it out")
    if not chosen.bias and (method.joint or method.closed_form):
        raise ParameterError("bias", chosen.bias, f"is not for `method`={name!r}", "leave it out")


def check_looks(method: str, n_looks: int) -> None:
    """Refuse looks during training for a method whose deployed model has no earlier form."""
    if n_looks > 1 and not METHODS[method].has_iterates:
        raise ParameterError(
            "n_looks",
            n_looks,
            f"needs a model to look at during training, which `method`={method!r} does not have",
            f"use `method`={PAPER!r} or {PLAIN!r}, or `n_looks`=1",
        )


def check_group_parameters(chosen: Parameters) -> None:
    """Refuse what only a method takes that averages over the groups, instead of silently ignoring it."""
    check_parameters(group_weights=chosen.group_weights, group_optimizers=chosen.group_optimizers)
    for name in ("group_weights", "group_optimizers"):
        value = getattr(chosen, name)
        if value and chosen.method not in ONLY_FOR[name]:
            reason = f"is for `method`={PAPER!r}, whose steps average over the groups, and not for {chosen.method!r}"
            raise ParameterError(name, value, reason, "leave it out")


def _check_target(chosen: Parameters) -> None:
    """Refuse a target that the method would not aim at."""
    method = METHODS[chosen.method]
    for name in ("max_gap", "min_ratio", "positive_rate"):
        if getattr(chosen, name) is not None and not method.takes_target:
            *others, last = [repr(name) for name in reversed(METHODS) if METHODS[name].takes_target]
            able = f"{', '.join(others)} or {last}"
            raise ParameterError(
                name,
                getattr(chosen, name),
                f"is a target, which `method`={chosen.method!r} does not take",
                f"use `method`={able}",
            )
    if chosen.positive_rate is not None and method.gaps_only:
        able = " and ".join(repr(name) for name in reversed(ONLY_FOR["positive_rate"]) if not METHODS[name].gaps_only)
        raise ParameterError(
            "positive_rate",
            chosen.positive_rate,
            f"is for `method`={able}",
            f"{chosen.method} constrains gaps only",
        )


def is_private(chosen: Parameters) -> bool:
    """True if any noise is asked for."""
    return chosen.epsilon is None or math.isfinite(chosen.epsilon)


def epsilon_follows(chosen: Parameters) -> bool:
    """True if ε is what the noise and the number of steps spend."""
    return chosen.noise_multiplier is not None and chosen.n_steps is not None


def known_sizes_of(chosen: Parameters) -> str:
    """The code of how the sizes of the groups are known."""
    return known_sizes(chosen.group_sizes, private=METHODS[chosen.method].private and is_private(chosen))


def registration_of(chosen: Parameters, *, expected_trials: float = 1.0) -> Preregistration:
    """The claims of the certificate, of one of so many runs of which the best will be kept."""
    return Preregistration(
        confidence=chosen.confidence,
        metrics=METRICS if chosen.certify_metrics is None else chosen.certify_metrics,
        require_tau=chosen.require_tau,
        n_looks=chosen.n_looks,
        score_share=chosen.score_share,
        expected_trials=expected_trials,
    )


def reason_for_no_certificate(chosen: Parameters, *, n_groups: int, epsilon: float) -> NoCertificate | None:
    """The reason for which no certificate can be made, and no record is held out for one; None if it can."""
    if not chosen.certify_fraction:
        return NoCertificate.NO_RECORDS_HELD_OUT
    if n_groups < 2:
        return NoCertificate.ONE_GROUP
    if math.isinf(epsilon):
        return NoCertificate.EPSILON_INFINITE
    return NoCertificate.EPSILON_TOO_SMALL if epsilon < parameters.SMALLEST_EPSILON else None


def held_out_fraction(chosen: Parameters, *, n_groups: int, epsilon: float) -> float:
    """Fraction of the records that is held out: none where no certificate can be made."""
    return 0.0 if reason_for_no_certificate(chosen, n_groups=n_groups, epsilon=epsilon) else chosen.certify_fraction


def kind_of(chosen: Parameters, shape: tuple[int, ...]) -> str:
    """Kind of model that a user's choice means for records of this shape."""
    check_parameters(model=chosen.model)
    if chosen.module is not None:
        return "custom"
    if chosen.model != "auto":
        return chosen.model
    if len(shape) == 3:
        # Smaller images have no cells.
        return METHODS[chosen.method].image_model if min(shape[1:]) >= SMALLEST_IMAGE else "cnn"
    return METHODS[chosen.method].table_model


def defaults_of(kind: str, method: str) -> Defaults:
    """The defaults of a kind of model and a method; kinds without their own get those of the MLP."""
    return METHODS[method].defaults.get(kind) or DEFAULTS.get(kind, DEFAULTS["mlp"])


def default_sample_rate(defaults: Defaults, sizes: tuple[float, ...]) -> float:
    """Sampling rate from public sizes: the default, raised where the smallest group would hardly be sampled."""
    rate, n_records = defaults.sample_rate, sum(sizes)
    if defaults.all_at_once is not None and n_records > defaults.all_at_once[0]:
        rate = defaults.all_at_once[1] / n_records
    return min(1.0, max(rate, SMALLEST_BATCH / max(min(sizes), 1.0)))


def default_n_steps(defaults: Defaults, sample_rate: float) -> int:
    """Number of steps in which every record is seen about ``n_epochs`` times."""
    return min(defaults.most_steps, max(defaults.fewest_steps, round(defaults.n_epochs / sample_rate)))


def train_config(chosen: Parameters, kind: str, sizes: tuple[float, ...]) -> TrainConfig:
    """The numbers of a run: what the user chose, and the defaults of model and method for what is None.

    Weights of groups are taken in the order of their mapping, which is to be that of the sizes.
    """
    defaults = defaults_of(kind, chosen.method)
    check_parameters(schedule=chosen.schedule)
    if chosen.schedule != "piecewise":
        _check_decay(chosen)
        defaults = replace(defaults, optimizer="sgd", momentum=0.0, largest_noise_step=math.inf)
    rate = default_sample_rate(defaults, sizes) if chosen.sample_rate is None else chosen.sample_rate
    check_parameters(sample_rate=rate)
    most, rates = defaults.rate_per_record * sum(sizes), chosen.learning_rate
    if rates is None:
        rates = tuple(min(eta, most) for eta in defaults.learning_rates)
    max_gap, min_ratio, price = chosen.max_gap, chosen.min_ratio, chosen.price
    return TrainConfig(
        sample_rate=rate,
        n_steps=default_n_steps(defaults, rate) if chosen.n_steps is None else chosen.n_steps,
        clip_norm=defaults.clip_norm if chosen.clip_norm is None else chosen.clip_norm,
        learning_rates=(rates,) if isinstance(rates, (int, float)) else tuple(rates),
        schedule=chosen.schedule,
        optimizer=chosen.optimizer or defaults.optimizer,
        momentum=defaults.momentum if chosen.momentum is None else chosen.momentum,
        # Who asks for a ratio has said what is wanted; a gap on top of it has to be asked for.
        max_gap=(DEFAULT_MAX_GAP if min_ratio is None else 1.0) if max_gap is None else max_gap,
        min_ratio=0.0 if min_ratio is None else min_ratio,
        price=(DEFAULT_PRICE if max_gap is None and min_ratio is None else math.inf) if price is None else price,
        weights=() if chosen.group_weights is None else tuple(map(float, chosen.group_weights.values())),
        query=defaults.query,
        query_share=defaults.query_share,
        # A step size that was asked for is taken.
        largest_noise_step=defaults.largest_noise_step if chosen.learning_rate is None else math.inf,
        **{name: getattr(chosen, name) for name in _TAKEN},
    )


def _check_decay(chosen: Parameters) -> None:
    """Refuse what a decay that says its own steps, of SGD, would pass over."""
    if chosen.optimizer not in (None, "sgd"):
        raise ParameterError(
            "optimizer", chosen.optimizer, f"has no `schedule`={chosen.schedule!r}", "use `optimizer`='sgd'"
        )
    if chosen.learning_rate is not None:
        raise ParameterError(
            "learning_rate",
            chosen.learning_rate,
            f"is for `schedule`='piecewise', not {chosen.schedule!r}",
            "leave it out, or scale the steps of 'shamir_zhang' by `diameter`",
        )


def plan_run(
    chosen: Parameters,
    *,
    kind: str,
    budget: PrivacyBudget,
    sizes: Mapping[str, float],
    groups: tuple[str, ...],
    certify_fraction: float,
    sizes_counted: bool = True,
    noise_seeded: bool = False,
    public_assumptions: tuple[str, ...] = (),
    reading: Reading | None = None,
    selection: Selection | None = None,
) -> tuple[TrainConfig, Plan, PrivacySpent]:
    """Plan a run from public numbers, and account for it: its numbers, its noise, and what it will spend.

    Parameters
    ----------
    kind
        Kind of model, which some defaults depend on.
    budget
        With the ε that was chosen, or that follows (`budget_of`).
    sizes
        Public or noisy number of training records of everything that is sampled at a rate of its own: the groups, or
        the groups by label.
    groups
        The groups that a certificate is about.
    certify_fraction
        Share of the records that is held out for a certificate; zero for none.
    sizes_counted
        Whether noisy sizes are counted in this run; those of a trial are counted, and paid for, before all trials.
    reading
        How the columns of the table were read before; a search has paid for that too, before all trials.
    """
    check_group_parameters(chosen)
    names, numbers, method = tuple(sizes), tuple(sizes.values()), METHODS[chosen.method]
    chosen = replace(chosen, group_weights=in_order("group_weights", chosen.group_weights, names))
    group_sizes = known_sizes_of(chosen)
    read = reading is not None or (selection is not None and selection.reading is not None)
    budget = budget.for_records(sum(numbers) / (1 - certify_fraction), released=read or group_sizes == NOISY)
    if epsilon_follows(chosen):
        chosen = at_fixed_rate(chosen, kind)
    check_groups(names, numbers, None if method.closed_form else chosen.sample_rate)
    counted = sizes_counted and selection is None
    given: dict[str, Any] = {
        **auxiliary_budget(chosen.method, budget, group_sizes if counted else PUBLIC),
        "reading": reading if counted else None,
        "noisy_sizes": group_sizes == NOISY,
        "noise_multiplier": chosen.noise_multiplier,
        # Where nothing is held out there is no look to pay for.
        "n_looks": chosen.n_looks if certify_fraction else 1,
    }

    def with_steps(n_steps: int | None) -> tuple[TrainConfig, Plan]:
        config = train_config(replace(chosen, n_steps=n_steps), kind, numbers)
        return config, make_plan(method.recipe(config, numbers), budget, n_steps=config.n_steps, **given)

    n_steps = chosen.n_steps
    if chosen.noise_multiplier is not None and n_steps is None:
        one_step = with_steps(1)[1]
        n_steps = max(1, steps_within(budget, one_step.mechanisms) - one_step.look_steps)
    config, plan = with_steps(n_steps)
    if given["n_looks"] > max(1, config.n_steps):
        raise ParameterError(
            "n_looks", chosen.n_looks, f"needs a step for each, and there are {config.n_steps}", "use fewer"
        )
    privacy = privacy_spent(
        plan,
        names,
        certified_names=groups,
        group_sizes=group_sizes,
        noise_seeded=noise_seeded,
        public_assumptions=public_assumptions,
        certify_fraction=certify_fraction,
        histogram_epsilon=method.histogram_epsilon(budget.epsilon),
        selection=selection,
    )
    return config, plan, privacy


def auxiliary_budget(method: str, budget: PrivacyBudget, group_sizes: str) -> dict[str, float]:
    """Counts beside steps and queries, as `make_plan` takes them: of decisions, and of sizes that are not known."""
    sizes = sizes_noise(group_sizes, budget, pure=METHODS[method].closed_form)
    histogram = METHODS[method].histogram_epsilon(budget.epsilon)
    return {"counts_epsilon": sizes.epsilon + histogram, "counts_std": sizes.std}


def budget_of(chosen: Parameters, *, kind: str, n_groups: int) -> PrivacyBudget:
    """The budget of a run, with the ε that was chosen or the one that follows.

    What follows is found before anybody is counted, and must not depend on sizes: records are sampled at the rate that
    was chosen or at the default, which is then not raised for small groups. Whatever is released beside the steps gets
    the same share of this ε as it gets of one that was chosen.
    """
    group_sizes = known_sizes_of(chosen)
    if not epsilon_follows(chosen):
        return _budget(chosen, DEFAULT_EPSILON if chosen.epsilon is None else chosen.epsilon)
    if group_sizes == NOISY and METHODS[chosen.method].rates_follow_sizes:
        raise ParameterError(
            "noise_multiplier",
            chosen.noise_multiplier,
            f"with `n_steps` would make ε follow from the noisy sizes that `method`={chosen.method!r} samples by",
            "declare `group_sizes`, or give `epsilon` in place of `n_steps`",
        )
    # Nor does it depend on weights, whose names are held against those of the groups later on.
    config = train_config(replace(at_fixed_rate(chosen, kind), group_weights=None), kind, (_ANY_SIZE,) * n_groups)
    recipe = METHODS[chosen.method].recipe(config, (_ANY_SIZE,) * n_groups)
    given: dict[str, Any] = {"noise_multiplier": chosen.noise_multiplier, "n_steps": chosen.n_steps}
    n_looks = chosen.n_looks if chosen.certify_fraction and n_groups > 1 else 1

    def spent_within(epsilon: float) -> float:
        budget = _budget(chosen, _in_range(chosen, epsilon))
        given_and_paid = {**given, **auxiliary_budget(chosen.method, budget, group_sizes)}
        plan = make_plan(recipe, budget, **given_and_paid, noisy_sizes=True, n_looks=n_looks)
        return max(epsilon_spent(one, chosen.delta, accountant=budget.stated_by) for one in set(plan.mechanisms))

    steps = SampledGaussian(sample_rate=max(recipe.sample_rates), **given)
    alone = epsilon_spent(steps, chosen.delta, accountant=_budget(chosen, 1.0).stated_by)
    return _budget(chosen, epsilon_for(spent_within, alone))


def _budget(chosen: Parameters, epsilon: float) -> PrivacyBudget:
    # An ε that follows holds for the δ it was computed with. δ adapts only if it is the default object itself: the same
    # number, chosen by somebody, is kept or refused, never changed.
    adapts = chosen.delta is Parameters.delta and not epsilon_follows(chosen)
    return PrivacyBudget(epsilon=epsilon, delta=chosen.delta, accountant=chosen.accountant, adapts=adapts)


def _in_range(chosen: Parameters, epsilon: float) -> float:
    """Refuse noise whose ε is outside the range of a budget."""
    if epsilon < SMALLEST_EPSILON:
        raise ParameterError(
            "noise_multiplier",
            chosen.noise_multiplier,
            f"with `n_steps`={chosen.n_steps} spends less than {SMALLEST_EPSILON} in ε",
            "use less noise or more steps",
        )
    if epsilon > LARGEST_EPSILON:
        raise ParameterError(
            "noise_multiplier",
            chosen.noise_multiplier,
            f"with `n_steps`={chosen.n_steps} spends more than {LARGEST_EPSILON} in ε",
            "use more noise or fewer steps",
        )
    return epsilon


def at_fixed_rate(chosen: Parameters, kind: str) -> Parameters:
    """The same with a sampling rate that does not follow from the sizes of the groups."""
    return (
        chosen
        if chosen.sample_rate is not None
        else replace(chosen, sample_rate=defaults_of(kind, chosen.method).sample_rate)
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


def declared_sizes(declared: object, group_names: tuple[str, ...]) -> tuple[float, ...]:
    """Sizes that were declared, in the order of the groups, which they must name; none if none were."""
    known = in_order("group_sizes", declared if isinstance(declared, Mapping) else None, group_names)
    return () if known is None else tuple(map(float, known.values()))


def floored(sizes: NDArray[np.int64], noise: SizesNoise) -> tuple[float, ...]:
    """Noisy sizes that a run can be planned with.

    Two deviations at least: a smaller count cannot be told from none, and records weigh as the inverse of the size that
    is planned with. So a group that is there weighs at most some two and a half times too much (five deviations counted
    as two), and one that hardly is weighs little. A batch at least, so that no run ends for the lack of records that
    the noise took away.
    """
    deviation = noise.std or math.sqrt(2) / noise.epsilon
    return tuple(max(float(size), 2 * deviation, float(SMALLEST_BATCH)) for size in sizes)


def network_for(
    chosen: Parameters, shape: tuple[int, ...], columns: "EncodedColumns | None", n_groups: int
) -> ModelConfig:
    """The network for records of this shape; ``columns`` is what is public about a table's columns."""
    kind, method = kind_of(chosen, shape), METHODS[chosen.method]
    n_inputs = math.prod(shape)
    n_active = n_inputs if columns is None else min(columns.n_columns, n_inputs)
    config = ModelConfig(
        kind=kind,
        hidden=chosen.hidden,
        activation=chosen.activation or defaults_of(kind, chosen.method).activation,
        bias=chosen.bias,
        n_active=n_active if method.closed_form else 0,
    )
    if not method.joint:
        return config
    joint = replace(config, n_cells=2 * n_groups, row_norm=ROW_NORMS.get(kind, 1.0))
    if kind != "logistic":
        return joint
    if columns is not None:
        return replace(joint, numeric=columns.numeric, zeros=columns.zeros, most_squares=columns.most_squares)
    # Of undeclared inputs, every one of a few is a number.
    n_numbers = n_inputs if n_inputs <= _MOST_UNDECLARED else 0
    return replace(
        joint,
        numeric=tuple(range(n_numbers)),
        zeros=(0.5,) * n_numbers,
        bounded=False,
        most_squares=float(n_inputs + 3 * n_numbers),
    )
