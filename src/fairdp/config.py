"""The numbers of a run as types, and the defaults of each kind of model; `fairdp.run.plan.train_config` fills them in.

Also what reading a table privately uses, and the step sizes and bounds of the paper's Theorem 4.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from fairdp.errors import DataError, ParameterError, one_of, positive
from fairdp.parameters import (
    DECLARED,
    DEFAULT_MAX_GAP,
    METRICS,
    MODELS,
    Parameters,
    check_parameters,
    kinds_of,
    levels_of,
)

T = TypeVar("T")

# The smallest group should be seen this often in an average step, and a run should have that many steps.
SMALLEST_BATCH = 16
FEWEST_STEPS = 200

# Norm of the rows of a joint model without hidden layers; the constant beside them is 1.
ROW_NORMS = {"logistic": 6.0, "oriented_gradients": 3.1}
SMALLEST_IMAGE = 8

# Deviation of the noise on the counts of values, on those of kinds and sizes, and on the numbers of distinct values, in
# units of the first: categories need most, and whether a column is an identifier can be told by far less.
VALUES, SHAPES, DISTINCT = 1, 2, 4

# A value that fewer people have is never named, whatever the noise.
FEWEST = 10

# Part of the privacy, in inverse variances, and of δ that reading gets.
SHARE, DELTA_SHARE = 0.1, 0.1


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Which extractor stands before the linear head.

    A logistic model with ``n_active`` has bounded inputs, as if so many of them were not zero in a record. A joint
    model has ``n_cells`` outputs; before it stand rows of norm ``row_norm``, in which numbers (``numeric``, by
    position) become linear splines and bins (``zeros``: where zero lies on the scale of each; ``bounded``: whether they
    are within [0, 1], as declared columns are; ``most_squares``: the squared norm of such a row before weights, at
    most).
    """

    kind: str
    hidden: tuple[int, ...] = Parameters.hidden
    activation: str = "relu"
    bias: bool = Parameters.bias
    n_active: int = 0
    numeric: tuple[int, ...] = ()
    n_cells: int = 0
    zeros: tuple[float, ...] = ()
    bounded: bool = True
    most_squares: float = 1.0
    row_norm: float = 1.0

    def __post_init__(self) -> None:
        one_of((*MODELS, "custom"), model=self.kind)
        check_parameters(hidden=self.hidden, activation=self.activation, bias=self.bias)
        for name in ("hidden", "numeric"):
            object.__setattr__(self, name, tuple(int(value) for value in getattr(self, name)))
        object.__setattr__(self, "zeros", tuple(float(value) for value in self.zeros))
        if self.kind == "mlp" and not self.hidden:
            raise ParameterError(
                "hidden", self.hidden, "must name at least one layer size", "For none use `model`='logistic'."
            )


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    r"""Sampling, clipping and optimisation of a run: the parameters of these names, with every default filled in.

    Parameters
    ----------
    learning_rates
        Step sizes :math:`\eta`, each used for an equal part of the run; the paper uses (.007, .005). The other
        schedules need none.
    weights
        Weights of the groups in their order, of which only the ratios matter; none: all alike.
    largest_noise_step
        Standard deviation of the noise that a step adds to a parameter, at most: the step size is lowered to it. At
        the clip norm above, where a method makes it larger, and before momentum.
    price
        Most accuracy to pay for a unit of gap; infinite to pay what it takes.
    query, query_share
        What the input layer of a model asks about all records before training, as a code, and its share of the privacy.
    """

    sample_rate: float
    n_steps: int
    clip_norm: float
    learning_rates: tuple[float, ...]
    schedule: str = Parameters.schedule
    diameter: float = Parameters.diameter
    optimizer: str = "adam"
    adam_share: float = Parameters.adam_share
    momentum: float = 0.0
    sgd_learning_rate: float = Parameters.sgd_learning_rate
    weight_bound: float = Parameters.weight_bound
    n_members: int = Parameters.n_members
    noise_allocation: str = Parameters.noise_allocation
    group_optimizers: bool = Parameters.group_optimizers
    weights: tuple[float, ...] = ()
    max_physical_batch_size: int | None = Parameters.max_physical_batch_size
    parity: str = Parameters.parity
    max_gap: float = DEFAULT_MAX_GAP
    min_ratio: float = 0.0
    positive_rate: float | None = None
    largest_noise_step: float = math.inf
    price: float = math.inf
    cost_ratio: float = Parameters.cost_ratio
    query: str = ""
    query_share: float = 0.0
    fairness_weight: float = Parameters.fairness_weight
    grouping: str = Parameters.grouping
    max_sample_rate: float = Parameters.max_sample_rate
    parameter_noise: float = Parameters.parameter_noise
    n_draws: int = Parameters.n_draws

    def __post_init__(self) -> None:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        check_parameters(
            learning_rate=self.learning_rates,
            **{name: value for name, value in values.items() if name in DECLARED},
        )
        positive(largest_noise_step=self.largest_noise_step)
        if self.group_optimizers and self.noise_allocation != "per_group":
            raise ParameterError(
                "group_optimizers",
                self.group_optimizers,
                f"releases every group's sum, but `noise_allocation`={self.noise_allocation!r} is for their average",
                "use `noise_allocation`='per_group'",
            )
        for name in ("n_steps", "n_members", "max_physical_batch_size"):
            object.__setattr__(self, name, values[name] and int(values[name]))

    def learning_rate(
        self, step: int, *, n_groups: int, n_params: int, noise_multiplier: float, noise_std: float
    ) -> float:
        """Step size at a step counted from zero; ``noise_std`` is that of the noise on the released mean gradient."""
        if self.schedule == "piecewise":
            part = min(step * len(self.learning_rates) // self.n_steps, len(self.learning_rates) - 1)
            return self.learning_rates[part]
        if self.schedule == "shamir_zhang":
            longest = gradient_norm(clip_norm=self.clip_norm, noise_std=noise_std, n_params=n_params)
            return shamir_zhang_rate(step + 1, diameter=self.diameter, gradient_norm=longest)
        return printed_rate(
            step + 1,
            n_groups=n_groups,
            noise_multiplier=noise_multiplier,
            clip_norm=self.clip_norm,
            n_params=n_params,
        )

    def is_after_adam(self, step: int) -> bool:
        """True if Adam has handed over to SGD at a step counted from zero."""
        return self.optimizer == "adam_then_sgd" and step >= self.adam_share * self.n_steps

    def step_size(self, step: int, *, n_groups: int, n_params: int, noise_multiplier: float, noise_std: float) -> float:
        """Step size of an update: the schedule's, or that of SGD after Adam, lowered where the noise is large."""
        rate = self.learning_rate(
            step, n_groups=n_groups, n_params=n_params, noise_multiplier=noise_multiplier, noise_std=noise_std
        )
        if self.is_after_adam(step):
            rate = self.sgd_learning_rate
        return min(rate, self.largest_noise_step / noise_std) if noise_std else rate


@dataclass(frozen=True, kw_only=True)
class Preregistration:
    """The claims of a certificate, said beforehand: choosing after a look would void its confidence.

    Parameters
    ----------
    confidence, metrics, require_tau, n_looks
        As the parameters of the estimator; the metrics are put in the order of ``METRICS``. With ``require_tau`` they
        are tested in that order, each at the full level, until one fails, and so are looks: a look that meets it is
        followed by the next. Every look gets an equal share of epsilon.
    expected_trials
        How many models are certified on average until one is kept for what its certificate says: a certificate is
        wrong that much more often if it was picked, so each gets that much less of the failure probability.
    score_share
        Share of epsilon that is kept for counts of scores, released once beside those of decisions; zero: none are.
    """

    confidence: float = Parameters.confidence
    metrics: Sequence[str] = METRICS
    require_tau: float | None = None
    n_looks: int = Parameters.n_looks
    expected_trials: float = 1.0
    score_share: float = 0.0

    def __post_init__(self) -> None:
        check_parameters(confidence=self.confidence, require_tau=self.require_tau, n_looks=self.n_looks)
        check_parameters(certify_metrics=self.metrics, score_share=self.score_share)
        object.__setattr__(self, "metrics", tuple(metric for metric in METRICS if metric in self.metrics))
        if not self.expected_trials >= 1:
            raise ParameterError("expected_trials", self.expected_trials, "must be at least 1")

    @property
    def failure_probability(self) -> float:
        """Failure probability of what is said of one look in one trial, but for whether it meets the requirement."""
        return (1 - self.confidence) / self.n_looks / self.expected_trials

    def per_look(self, epsilons: Sequence[float]) -> tuple[float, ...]:
        """Pure ε of the counts of decisions at one look, of what a record of each group may spend in all."""
        return tuple((epsilon - self.score_share * epsilon) / self.n_looks for epsilon in epsilons)

    def for_scores(self, epsilons: Sequence[float]) -> tuple[float, ...]:
        """Pure ε of the counts of scores, of what a record of each group may spend in all."""
        return tuple(self.score_share * epsilon for epsilon in epsilons)

    def levels(self) -> dict[str, float]:
        """Failure probability of each kind of rate at one look.

        Tests in a fixed order, metric by metric and look by look, which end at the first that fails, have the whole
        level each: only one of them can make a claim wrong.
        """
        if self.require_tau is None:
            return levels_of(self.metrics, self.failure_probability)
        return dict.fromkeys(kinds_of(self.metrics), (1 - self.confidence) / self.expected_trials)


@dataclass(frozen=True, kw_only=True)
class Defaults:
    """Settings of a kind of model unless the user says otherwise.

    Found on the named data sets with their test splits in view; no private tuning cost is counted in them.
    """

    sample_rate: float
    # How often a record is seen on average; a run has ``fewest_steps`` at least.
    n_epochs: int
    clip_norm: float
    learning_rates: tuple[float, ...]
    activation: str
    optimizer: str = "adam"
    momentum: float = 0.0
    # Noise that a step may move a parameter by: with few records the step is made smaller.
    largest_noise_step: float = math.inf
    fewest_steps: int = FEWEST_STEPS
    most_steps: int = 10**9
    # The step size is at most so much for each record.
    rate_per_record: float = math.inf
    # Beyond so many records a step samples a batch of the second number, instead of taking everybody.
    all_at_once: tuple[float, float] | None = None
    # What the input layer asks about all records before training, and its share of the privacy.
    query: str = ""
    query_share: float = 0.0


# `verify` plans a run again from these, from those of methods (`fairdp.methods`) and from the numbers of this module:
# with any change raise SCHEMA_VERSION in saved/folder.py (tests/saved/test_schema_version.py says so).
# The paper gives the learning rates (.007, .005) and the network kinds, but no rate, length or clip norm.
DEFAULTS: dict[str, Defaults] = {
    "mlp": Defaults(sample_rate=0.01, n_epochs=20, clip_norm=1.0, learning_rates=(0.007, 0.005), activation="relu"),
    "cnn": Defaults(sample_rate=0.05, n_epochs=15, clip_norm=1.0, learning_rates=(0.005, 0.002), activation="tanh"),
}


def check_groups(group_names: tuple[str, ...], sizes: tuple[float, ...], sample_rate: float | None) -> None:
    """Refuse a group that has no record, or that would hardly ever be sampled.

    Parameters
    ----------
    sizes
        Training records that are planned with: an expectation, where others are held out.
    """
    for code, (name, size) in enumerate(zip(group_names, sizes, strict=True)):
        known = f"{size:.0f} records" if size == int(size) else f"about {size:.1f} training records"
        if not size:
            raise DataError(
                f"`sensitive_features` names {len(sizes)} groups, but group {code} ({name!r}) has no training record; "
                "leave it out or merge it with another group."
            )
        if sample_rate is not None and sample_rate * size < 1:
            raise DataError(
                f"group {name!r} has {known}, fewer than one per batch at `sample_rate`={sample_rate:g}; "
                f"use `sample_rate` of at least {1 / size:.2g} or merge the group with another."
                if size >= 1
                else f"group {name!r} has {known}; merge it with another group."
            )
        if sample_rate is None and len(sizes) > 1 and size < SMALLEST_BATCH:
            raise DataError(
                f"group {name!r} has {known}, fewer than one batch ({SMALLEST_BATCH}); "
                "merge it with another group (a schema's 'other' does) or set `sample_rate`."
            )


def in_order(
    parameter: str, declared: Mapping[str, float] | None, group_names: tuple[str, ...]
) -> dict[str, float] | None:
    """Declared values of the groups, in their order; they must name all groups and no other."""
    if declared is None:
        return None
    if set(declared) != set(group_names):
        names = ", ".join(map(repr, group_names))
        raise ParameterError(parameter, dict(declared), f"must name the groups {names}, all of them and no other")
    return {name: declared[name] for name in group_names}


def plain(value: Any) -> Any:
    """A NumPy scalar, as grid searches set them, as the Python number it stands for."""
    return value.item() if getattr(value, "ndim", None) == 0 else value


def gradient_norm(*, clip_norm: float, noise_std: float, n_params: int, sampling: float = 0.0) -> float:
    r"""Root of the largest mean square of a noisy gradient, :math:`G = \sqrt{C^2 (1 + v) + r s^2}`.

    Parameters
    ----------
    noise_std
        Deviation of the noise on one coordinate of the released mean gradient, s.
    n_params
        Number of coordinates, r.
    sampling
        What Poisson samples with expected sizes add, :math:`v = \sum_k \alpha_k^2 (1 - q_k) / m_k`: a larger batch than
        expected has a longer mean.
    """
    return math.sqrt(clip_norm**2 * (1 + sampling) + n_params * noise_std**2)


def shamir_zhang_rate(step: int, *, diameter: float, gradient_norm: float) -> float:
    r"""Step size :math:`\eta_t = Q / (G \sqrt t)`, the first step being t = 1."""
    return diameter / (gradient_norm * math.sqrt(step))


def printed_rate(step: int, *, n_groups: int, noise_multiplier: float, clip_norm: float, n_params: int) -> float:
    r"""Step size as printed, :math:`\eta(t) = K / \sqrt{t (\beta^2 + K \sigma^2 C^2 r)}`, with β = C as advised.

    By its own proof it would be :math:`K Q / \sqrt{t (m^2 \beta^2 + K \sigma^2 C^2 r)}`: the diameter Q and
    :math:`m^2`, m being the number of records in a step, are lost in the O(·). And the proof has the noise of a sum of
    gradients, :math:`\sigma C`, where the update takes that of a mean, :math:`\sigma C / |B_k|`.
    """
    return n_groups / math.sqrt(step * clip_norm**2 * (1 + n_groups * noise_multiplier**2 * n_params))


def shamir_zhang_bound(
    n_steps: int, *, diameter: float, gradient_norm: float, first_rate: float | None = None
) -> float:
    r"""Bound on the expected excess risk of the last iterate, :math:`(Q^2 / c + c G^2) (2 + \ln T) / \sqrt T`.

    Shamir and Zhang (2013), Theorem 2: SGD with steps :math:`c / \sqrt t`, projected to a convex set of diameter Q, on
    a convex risk, along gradients that are right on average and of mean square :math:`G^2` at most; T is at least 2.

    Parameters
    ----------
    first_rate
        Step size of the first step, c; None: :math:`Q / G`, with which :math:`2 Q G (2 + \ln T) / \sqrt T` is least.
    """
    rate = shamir_zhang_rate(1, diameter=diameter, gradient_norm=gradient_norm) if first_rate is None else first_rate
    return (diameter**2 / rate + rate * gradient_norm**2) * (2 + math.log(n_steps)) / math.sqrt(n_steps)


def printed_bound(n_steps: int, *, n_groups: int, noise_multiplier: float, clip_norm: float, n_params: int) -> float:
    r"""The bound as printed, :math:`\sigma C \sqrt r \ln T / \sqrt{T K}`, with one for the constant of its O(·).

    Not a bound: Q and β are gone from it, and without noise it would be zero after any number of steps.
    """
    return noise_multiplier * clip_norm * math.sqrt(n_params / n_groups / n_steps) * math.log(n_steps)


def lipschitz_constant(row_norm: float) -> float:
    r"""Longest gradient of a record's logistic loss, :math:`\beta = \sqrt{R^2 + 1}`, for a linear head with a bias.

    It is :math:`(\hat p - y) (x, 1)`, and :math:`\|x\| \le R`. At the clip norm :math:`C = \beta` no gradient is cut.
    """
    return math.hypot(row_norm, 1.0)
