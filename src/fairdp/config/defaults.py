"""What a model and a method are trained with unless the user says otherwise."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from fairdp._checks import DataError, ParameterError
from fairdp.config.parameters import DECLARED, DEFAULT_MAX_GAP, DEFAULT_PRICE, check_parameters
from fairdp.config.training import TrainConfig

# The smallest group should be seen this often in an average step, and a run should have that many steps.
SMALLEST_BATCH = 16
FEWEST_STEPS = 200


@dataclass(frozen=True, kw_only=True)
class Defaults:
    """What a kind of model is trained with unless the user says otherwise.

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
    asks: str = ""
    asks_share: float = 0.0


# `verify` plans a run again from these, and from the numbers below: with any change raise SCHEMA_VERSION in
# saved/folder.py (tests/saved/test_schema_version.py says so).
# The paper gives the learning rates (.007, .005) and the network kinds, but no rate, length or clip norm.
DEFAULTS: dict[str, Defaults] = {
    "mlp": Defaults(sample_rate=0.01, n_epochs=20, clip_norm=1.0, learning_rates=(0.007, 0.005), activation="relu"),
    "cnn": Defaults(sample_rate=0.05, n_epochs=15, clip_norm=1.0, learning_rates=(0.005, 0.002), activation="tanh"),
}

# Norm of the rows of a joint model without hidden layers; the constant beside them is 1.
ROW_NORMS = {"logistic": 6.0, "oriented_gradients": 3.1}
# Plain gradients: Adam scales every coordinate by what it has seen, so that a pull does not have the same effect twice.
_PULLED = Defaults(
    sample_rate=0.1, n_epochs=40, clip_norm=1.0, learning_rates=(1.0,), activation="relu", optimizer="sgd", momentum=0.5
)


def _row_length(kind: str) -> float:
    """Norm of a row with its constant."""
    return math.hypot(ROW_NORMS[kind], 1.0)


# Everybody in every step: noise then depends on the length of the path alone, not on the number of steps.
_JOINT = Defaults(
    sample_rate=1.0,
    n_epochs=100,
    fewest_steps=20,
    most_steps=100,
    all_at_once=(100_000, 32_000),
    clip_norm=1.0,
    learning_rates=(1.0,),
    activation="relu",
    optimizer="sgd",
    momentum=0.9,
)
# Methods that are trained otherwise: what follows measured rates needs large batches.
METHOD_DEFAULTS: dict[tuple[str, str], Defaults] = {
    ("raco_dp", "logistic"): Defaults(
        sample_rate=0.1, n_epochs=30, clip_norm=1.0, learning_rates=(2.0,), activation="relu", optimizer="sgd"
    ),
    ("fairdp_parity", "mlp"): _PULLED,
    ("fairdp_parity", "custom"): _PULLED,
    ("fairdp_parity", "cnn"): replace(_PULLED, sample_rate=0.05, n_epochs=15, activation="tanh"),
    ("fairdp_frontier", "logistic"): replace(
        _JOINT,
        n_epochs=60,
        momentum=0.8,
        clip_norm=_row_length("logistic"),
        learning_rates=(20.0 / _row_length("logistic") ** 2,),
        rate_per_record=0.0006 / _row_length("logistic") ** 2,
        largest_noise_step=0.0168 / _row_length("logistic"),
        asks="frequencies",
        asks_share=0.02,
    ),
    ("fairdp_frontier", "oriented_gradients"): replace(
        _JOINT,
        n_epochs=60,
        clip_norm=_row_length("oriented_gradients"),
        learning_rates=(8.0 / _row_length("oriented_gradients") ** 2,),
        largest_noise_step=0.0105 / _row_length("oriented_gradients"),
        asks="centre",
        asks_share=0.03,
    ),
    # Still larger batches cost no more privacy here and make the measured rates precise.
    ("fairdp_parity", "logistic"): replace(
        _PULLED,
        sample_rate=0.3,
        n_epochs=120,
        clip_norm=8.0,
        learning_rates=(0.8,),
        largest_noise_step=0.02,
    ),
}
METHOD_IMAGES = {"fairdp_frontier": "oriented_gradients"}
SMALLEST_IMAGE = 8
METHOD_MODELS = {
    "fairdp_frontier": "logistic",
    "raco_dp": "logistic",
    "fairdp_parity": "logistic",
    "fairfm": "logistic",
    "fairfm_smooth": "logistic",
}


def kind_of(model: str, module: object, shape: tuple[int, ...], method: str) -> str:
    """Kind of model that a user's choice means for records of this shape and a method."""
    check_parameters(model=model)
    if module is not None:
        return "custom"
    if model != "auto":
        return model
    if len(shape) == 3:
        # Smaller images have no cells.
        return METHOD_IMAGES.get(method, "cnn") if min(shape[1:]) >= SMALLEST_IMAGE else "cnn"
    return METHOD_MODELS.get(method, "mlp")


def defaults_of(kind: str, method: str) -> Defaults:
    """The defaults of a kind of model and a method; kinds without their own get those of the MLP."""
    return METHOD_DEFAULTS.get((method, kind)) or DEFAULTS.get(kind, DEFAULTS["mlp"])


def default_sample_rate(defaults: Defaults, sizes: tuple[float, ...]) -> float:
    """Sampling rate from public sizes: the default, raised where the smallest group would hardly be sampled."""
    rate, n_records = defaults.sample_rate, sum(sizes)
    if defaults.all_at_once is not None and n_records > defaults.all_at_once[0]:
        rate = defaults.all_at_once[1] / n_records
    return min(1.0, max(rate, SMALLEST_BATCH / max(min(sizes), 1.0)))


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


def check_group_parameters(method: str, training: Mapping[str, Any]) -> None:
    """Refuse what only a method takes that averages over the groups, instead of silently ignoring it."""
    chosen = {name: training.get(name) for name in ("group_weights", "group_optimizers")}
    check_parameters(group_weights=chosen["group_weights"], group_optimizers=chosen["group_optimizers"] or False)
    for name, value in chosen.items():
        if value and method != "fairdp":
            reason = f"is for `method`='fairdp', whose steps average over the groups, and not for {method!r}"
            raise ParameterError(name, value, reason, "leave it out")


def in_order(
    parameter: str, declared: Mapping[str, float] | None, group_names: tuple[str, ...]
) -> dict[str, float] | None:
    """What a parameter declares of the groups, in their order; it must name all of them and no other."""
    if declared is None:
        return None
    if set(declared) != set(group_names):
        names = ", ".join(map(repr, group_names))
        raise ParameterError(parameter, dict(declared), f"must name the groups {names}, all of them and no other")
    return {name: declared[name] for name in group_names}


def default_n_steps(defaults: Defaults, sample_rate: float) -> int:
    """Number of steps in which every record is seen about ``n_epochs`` times."""
    return min(defaults.most_steps, max(defaults.fewest_steps, round(defaults.n_epochs / sample_rate)))


_NUMBERS = {field.name for field in fields(TrainConfig)}
# What `train_config` takes: the parameters of an estimator that become numbers of a run.
TRAINING_PARAMETERS = tuple(name for name in DECLARED if name in _NUMBERS or name in ("learning_rate", "group_weights"))


def train_config(
    kind: str,
    method: str,
    sizes: tuple[float, ...],
    *,
    sample_rate: float | None,
    n_steps: int | None,
    clip_norm: float | None,
    learning_rate: float | tuple[float, ...] | None,
    optimizer: str | None = None,
    momentum: float | None = None,
    max_gap: float | None = None,
    min_ratio: float | None = None,
    price: float | None = None,
    group_weights: Mapping[str, float] | None = None,
    **others: Any,
) -> TrainConfig:
    """The configuration of a run: what the user chose, and the defaults of model and method for what is None.

    Weights of groups are taken in the order of their mapping, which is to be that of the sizes.
    """
    defaults = defaults_of(kind, method)
    rate = default_sample_rate(defaults, sizes) if sample_rate is None else sample_rate
    check_parameters(sample_rate=rate)
    most = defaults.rate_per_record * sum(sizes)
    rates = tuple(min(eta, most) for eta in defaults.learning_rates) if learning_rate is None else learning_rate
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
        price=(DEFAULT_PRICE if max_gap is None and min_ratio is None else math.inf) if price is None else price,
        weights=() if group_weights is None else tuple(map(float, group_weights.values())),
        asks=defaults.asks,
        asks_share=defaults.asks_share,
        # A step size that was asked for is taken.
        largest_noise_step=defaults.largest_noise_step if learning_rate is None else math.inf,
        **others,
    )
