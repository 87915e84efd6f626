"""The numbers of a training run, with defaults for each kind of model."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Real
from typing import Any

from fairdp import _validate

MODELS = ("logistic", "mlp", "cnn")
OPTIMIZERS = ("adam", "sgd", "adam_then_sgd")
SCHEDULES = ("piecewise", "inverse_sqrt")
PARITIES = ("demographic_parity", "equal_opportunity", "equalized_odds")
DEFAULT_MAX_GAP = 0.03
GROUPINGS = ("attribute", "attribute_and_label")


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Which extractor stands before the linear head.

    A logistic model with ``n_active`` has bounded inputs, as if so many of them were not zero in a record; with
    ``normalize_inputs`` all records have about the same norm, so that clipping treats them alike, and inputs that are
    numbers (``numeric``, by position) are bent, so that a score need not rise or fall with them.
    """

    kind: str
    hidden: tuple[int, ...] = (32,)
    activation: str = "relu"
    normalize_embedding: bool = False
    n_active: int = 0
    normalize_inputs: bool = False
    numeric: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.hidden, str) or not isinstance(self.hidden, Iterable):
            raise ValueError(f"hidden must be a tuple of layer sizes such as (32,), got {self.hidden!r}.")
        _validate.one_of((*MODELS, "custom"), model=self.kind)
        _validate.one_of(("relu", "tanh"), activation=self.activation)
        for size in self.hidden:
            _validate.positive_integer(hidden=size)
        for name in ("hidden", "numeric"):
            object.__setattr__(self, name, tuple(int(value) for value in getattr(self, name)))
        if self.kind == "mlp" and not self.hidden:
            raise ValueError("hidden must name at least one layer size, got (). For none use model='logistic'.")


@dataclass(frozen=True, kw_only=True)
class Defaults:
    """What a kind of model is trained with unless the user says otherwise.

    Found on the named data sets with their test splits in view; no private tuning cost is counted in them.
    """

    sample_rate: float
    n_epochs: int
    clip_norm: float
    learning_rates: tuple[float, ...]
    activation: str
    optimizer: str = "adam"
    momentum: float = 0.0
    # Another forward pass through a network is dear, another product with a vector is not.
    steps_per_look: int = 4


# `verify` plans a run again from these: raise SCHEMA_VERSION with any change.
# The paper gives the learning rates (.007, .005) and the network kinds, but no rate, length or clip norm.
DEFAULTS: dict[str, Defaults] = {
    "mlp": Defaults(sample_rate=0.01, n_epochs=20, clip_norm=1.0, learning_rates=(0.007, 0.005), activation="relu"),
    "cnn": Defaults(sample_rate=0.05, n_epochs=15, clip_norm=1.0, learning_rates=(0.005, 0.002), activation="tanh"),
}

# Methods whose tables are trained otherwise: multipliers that follow rates need large batches, and plain gradients.
METHOD_DEFAULTS: dict[tuple[str, str], Defaults] = {
    ("raco_dp", "logistic"): Defaults(
        sample_rate=0.1, n_epochs=30, clip_norm=1.0, learning_rates=(2.0,), activation="relu", optimizer="sgd"
    ),
    # Large batches cost no more privacy here and make the measured rates precise.
    ("fairdp_parity", "logistic"): Defaults(
        sample_rate=0.3,
        n_epochs=120,
        clip_norm=1.0,
        learning_rates=(7.0,),
        activation="relu",
        optimizer="sgd",
        momentum=0.5,
        steps_per_look=1,
    ),
}
METHOD_MODELS = {"raco_dp": "logistic", "fairdp_parity": "logistic", "fairfm": "logistic", "fairfm_smooth": "logistic"}

# The smallest group should be seen this often in an average step, and a run should have that many steps.
SMALLEST_BATCH = 16
FEWEST_STEPS = 200
LARGEST_PHYSICAL_BATCH = 16_384


def kind_of(model: str, module: object, shape: tuple[int, ...], method: str) -> str:
    """Kind of model that a user's choice means for records of this shape and a method."""
    _validate.one_of((*MODELS, "auto"), model=model)
    if module is not None:
        return "custom"
    if model != "auto":
        return model
    return "cnn" if len(shape) == 3 else METHOD_MODELS.get(method, "mlp")


def defaults_of(kind: str, method: str) -> Defaults:
    """The defaults of a kind of model and a method; kinds without their own get those of the MLP."""
    return METHOD_DEFAULTS.get((method, kind)) or DEFAULTS.get(kind, DEFAULTS["mlp"])


def default_sample_rate(defaults: Defaults, smallest_group: float) -> float:
    """Sampling rate from public sizes: the default, raised where the smallest group would hardly be sampled."""
    rate = defaults.sample_rate
    return min(1.0, max(rate, SMALLEST_BATCH / max(smallest_group, 1.0)))


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
            raise ValueError(
                f"sensitive_features names {len(sizes)} groups, but group {code} ({name!r}) has no training record; "
                "leave it out or merge it with another group."
            )
        if sample_rate is not None and sample_rate * size < 1:
            raise ValueError(
                f"group {name!r} has {known}, fewer than one per batch at sample_rate={sample_rate:g}; "
                f"use sample_rate of at least {1 / size:.2g} or merge the group with another."
                if size >= 1
                else f"group {name!r} has {known}; merge it with another group."
            )
        if sample_rate is None and len(sizes) > 1 and size < SMALLEST_BATCH:
            raise ValueError(
                f"group {name!r} has {known}, fewer than one batch ({SMALLEST_BATCH}); "
                "merge it with another group or set sample_rate."
            )


def default_n_steps(defaults: Defaults, sample_rate: float) -> int:
    """Number of steps in which every record is seen about ``n_epochs`` times."""
    return max(FEWEST_STEPS, round(defaults.n_epochs / sample_rate))


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    r"""How a run is sampled, clipped and optimised.

    Parameters
    ----------
    sample_rate
        Chance of a record to be in a batch, :math:`q`.
    n_steps
        Number of steps, :math:`T`.
    clip_norm
        Bound on a record's gradient, :math:`C`.
    learning_rates
        Step sizes :math:`\eta`, each used for an equal part of the run; the paper uses (.007, .005).
    schedule
        ``"piecewise"``, or ``"inverse_sqrt"``: :math:`\eta_1 K / \sqrt{t (1 + K \sigma^2 C^2)}`, the decay of
        Theorem 4 with its constants folded into the first learning rate.
    optimizer
        ``"adam"``, ``"sgd"``, or ``"adam_then_sgd"``: Adam until the last tenth of the run, then SGD, so that the last
        steps move the head by a Gaussian.
    sgd_learning_rate
        Step size of SGD after the hand-over and in the last step that makes the ensemble.
    weight_bound
        Bound on the norm of the head, :math:`M`.
    n_members
        Heads of the ensemble, :math:`N`.
    noise_allocation
        ``"per_group"`` (the paper) or ``"average"``; see `Recipe`.
    max_physical_batch_size
        Records per forward pass: memory against speed, no effect on the result but rounding.
    parity, max_gap, min_ratio, positive_rate
        For methods that take a target: which rates should agree between the groups, by how much they may differ,
        what the smallest over the largest must be at least, and the share of positive decisions (None: any).
    steps_per_look
        Every how many steps ``fairdp_parity`` looks at the decisions of the averaged model.
    fairness_weight
        Weight of the penalty of methods that have one, :math:`\lambda`.
    grouping, max_sample_rate
        What is sampled equally often by ``dp_is_sgd``: groups, or groups and labels; and the largest rate allowed.
    parameter_noise, n_draws
        Deviation of the noise on the parameters and number of draws, for methods that smooth their parameters.
    """

    sample_rate: float
    n_steps: int
    clip_norm: float
    learning_rates: tuple[float, ...]
    schedule: str = "piecewise"
    optimizer: str = "adam"
    momentum: float = 0.0
    sgd_learning_rate: float = 0.005
    weight_bound: float = 1.0
    n_members: int = 10
    noise_allocation: str = "per_group"
    max_physical_batch_size: int = 4096
    parity: str = "demographic_parity"
    max_gap: float = DEFAULT_MAX_GAP
    min_ratio: float = 0.0
    positive_rate: float | None = None
    steps_per_look: int = 1
    fairness_weight: float = 10.0
    grouping: str = "attribute"
    max_sample_rate: float = 1.0
    parameter_noise: float = 0.1
    n_draws: int = 100

    def __post_init__(self) -> None:
        _validate.sample_rate(sample_rate=self.sample_rate)
        _validate.positive_integer(
            n_steps=self.n_steps,
            n_members=self.n_members,
            max_physical_batch_size=self.max_physical_batch_size,
            steps_per_look=self.steps_per_look,
        )
        if self.max_physical_batch_size > LARGEST_PHYSICAL_BATCH:
            raise ValueError(
                f"max_physical_batch_size must be at most {LARGEST_PHYSICAL_BATCH}, because larger sums would round "
                f"past the bound in single precision; got {self.max_physical_batch_size!r}."
            )
        for name in ("n_steps", "n_members", "max_physical_batch_size"):
            object.__setattr__(self, name, int(getattr(self, name)))
        _validate.finite_positive(clip_norm=self.clip_norm)
        _validate.positive(weight_bound=self.weight_bound)
        for rate in (*self.learning_rates, self.sgd_learning_rate):
            _validate.finite_positive(learning_rate=rate)
        if not self.learning_rates:
            raise ValueError("learning_rate must hold at least one value, got ().")
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum must be in [0, 1), got {self.momentum!r}.")
        _validate.one_of(OPTIMIZERS, optimizer=self.optimizer)
        _validate.one_of(SCHEDULES, schedule=self.schedule)
        _validate.one_of(("per_group", "average"), noise_allocation=self.noise_allocation)
        _validate.one_of(PARITIES, parity=self.parity)
        _validate.one_of(GROUPINGS, grouping=self.grouping)
        _validate.sample_rate(max_sample_rate=self.max_sample_rate)
        _validate.positive_integer(n_draws=self.n_draws)
        _validate.finite_positive(parameter_noise=self.parameter_noise)
        _validate.part(example=0.03, max_gap=self.max_gap)
        _validate.part(example=0.8, min_ratio=self.min_ratio)
        if self.positive_rate is not None:
            _validate.part(example=0.2, positive_rate=self.positive_rate)
        if not (isinstance(self.fairness_weight, Real) and 0 <= self.fairness_weight < math.inf):
            raise ValueError(f"fairness_weight must be at least 0 and finite, got {self.fairness_weight!r}.")

    def learning_rate(self, step: int, *, n_groups: int, noise_multiplier: float) -> float:
        """Step size at a step counted from zero."""
        if self.schedule == "piecewise":
            part = min(step * len(self.learning_rates) // self.n_steps, len(self.learning_rates) - 1)
            return self.learning_rates[part]
        decay = math.sqrt((step + 1) * (1 + n_groups * (noise_multiplier * self.clip_norm) ** 2))
        return self.learning_rates[0] * n_groups / decay


# What `train_config` takes: the constructor parameters of an estimator that are numbers of a run.
TRAINING_PARAMETERS = (
    *("sample_rate", "n_steps", "clip_norm", "learning_rate", "schedule", "optimizer", "momentum"),
    *("sgd_learning_rate", "weight_bound", "n_members", "noise_allocation", "max_physical_batch_size"),
    *("parity", "max_gap", "min_ratio", "positive_rate"),
    *("fairness_weight", "grouping", "max_sample_rate", "parameter_noise", "n_draws"),
)


def plain(value: Any) -> Any:
    """A NumPy scalar, as grid searches set them, as the Python number it stands for."""
    return value.item() if hasattr(value, "item") else value


def train_config(
    kind: str,
    method: str,
    smallest_group: float,
    *,
    sample_rate: float | None,
    n_steps: int | None,
    clip_norm: float | None,
    learning_rate: float | tuple[float, ...] | None,
    optimizer: str | None = None,
    momentum: float | None = None,
    max_gap: float | None = None,
    min_ratio: float | None = None,
    **others: Any,
) -> TrainConfig:
    """The configuration of a run: what the user chose, and the defaults of model and method for what is None."""
    defaults = defaults_of(kind, method)
    rate = default_sample_rate(defaults, smallest_group) if sample_rate is None else sample_rate
    _validate.sample_rate(sample_rate=rate)
    rates = defaults.learning_rates if learning_rate is None else learning_rate
    return TrainConfig(
        sample_rate=rate,
        n_steps=default_n_steps(defaults, rate) if n_steps is None else n_steps,
        clip_norm=defaults.clip_norm if clip_norm is None else clip_norm,
        learning_rates=(rates,) if isinstance(rates, (int, float)) else tuple(rates),
        optimizer=optimizer or defaults.optimizer,
        momentum=defaults.momentum if momentum is None else momentum,
        # Who asks for a ratio has said what is wanted; a gap on top of it has to be asked for.
        max_gap=(DEFAULT_MAX_GAP if min_ratio is None else 1.0) if max_gap is None else max_gap,
        min_ratio=0.0 if min_ratio is None else min_ratio,
        steps_per_look=defaults.steps_per_look,
        **others,
    )
