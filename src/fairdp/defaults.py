"""Defaults of method and model for parameters that were left open, as numbers and in words.

`train_config` makes the numbers of a run of what the user chose; `default_text` and `with_parameters` say the same in
help, reference and docstring.
"""

import math
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any, TypeVar

from fairdp.config import DEFAULTS, SMALLEST_BATCH, SMALLEST_IMAGE, Defaults, TrainConfig
from fairdp.errors import ParameterError
from fairdp.methods import METHODS
from fairdp.parameters import (
    DECLARED,
    DEFAULT_MAX_GAP,
    DEFAULT_PRICE,
    GROUPS,
    Declaration,
    Parameters,
    check_parameters,
)

T = TypeVar("T")


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


# Parameters that are numbers of a run as they stand.
_TAKEN = tuple(
    {field.name for field in fields(TrainConfig)}
    & set(DECLARED)
    - {"sample_rate", "n_steps", "clip_norm", "schedule", "optimizer", "momentum", "max_gap", "min_ratio", "price"}
)


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


_OTHERS = "others"

# Parameters whose default depends on the method and the kind of model.
BY_METHOD: dict[str, Callable[[Defaults], Any]] = {
    "sample_rate": lambda defaults: defaults.sample_rate,
    "n_steps": lambda defaults: default_n_steps(defaults, defaults.sample_rate),
    "clip_norm": lambda defaults: defaults.clip_norm,
    "learning_rate": lambda defaults: defaults.learning_rates,
    "optimizer": lambda defaults: defaults.optimizer,
    "momentum": lambda defaults: defaults.momentum,
    "activation": lambda defaults: defaults.activation,
}


def default_text(name: str) -> str:
    """The default of a parameter; methods and other parameters are in backquotes.

    >>> default_text("confidence"), default_text("hidden"), default_text("certify_metrics")
    ('0.95', '32', 'all three')
    """
    declared = DECLARED[name]
    if name in BY_METHOD:
        tables, images = default_by_method(name)
        return _listed(tables) if tables == images else f"{_listed(tables)}; images: {_listed(images)}"
    if name == "model":
        logistic = ", ".join(f"`{name}`" for name in sorted(METHODS) if METHODS[name].table_model == "logistic")
        features = ", ".join(f"`{name}`" for name in METHODS if METHODS[name].image_model == "oriented_gradients")
        pictures = f"cnn for images, but oriented_gradients for {features} from {SMALLEST_IMAGE} pixels a side on"
        return f"auto: {pictures}; tables: logistic for {logistic}; else mlp"
    return declared.when_none if declared.default is None else shown(declared.default)


def default_by_method(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The default for each method that has its own, and for the others: on tables, and on images."""
    value_of = BY_METHOD[name]
    tables = {name: value_of(defaults_of(METHODS[name].table_model, name)) for name in sorted(METHODS)}
    images = {name: value_of(defaults_of(METHODS[name].image_model, name)) for name in sorted(METHODS)}
    found = []
    for kind, by_method in (("mlp", tables), ("cnn", images)):
        other = value_of(DEFAULTS[kind])
        found.append({**{method: value for method, value in by_method.items() if value != other}, _OTHERS: other})
    return found[0], found[1]


def _listed(values: dict[str, Any]) -> str:
    if len(values) == 1:
        return shown(values[_OTHERS])
    return ", ".join(
        f"{method if method == _OTHERS else f'`{method}`'} {shown(value)}" for method, value in values.items()
    )


def shown(value: Any) -> str:
    """A value as people write it."""
    if isinstance(value, tuple):
        return " then ".join(shown(part) for part in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def of_group(group: str) -> list[Declaration]:
    """The parameters of a group, the most needed first."""
    return [declared for declared in DECLARED.values() if declared.group == group]


def with_parameters(cls: type[T]) -> type[T]:
    """Fill the parameters, by groups, into the docstring of a class where it says ``{parameters}``.

    The constructor, which the class has from their declaration, is named as its own in messages of Python.
    """
    cls.__init__.__qualname__ = f"{cls.__name__}.__init__"
    cls.__doc__ = (cls.__doc__ or "").replace("    {parameters}\n", textwrap.indent("\n".join(_section()), "    "))
    return cls


def _section() -> Iterator[str]:
    for group in GROUPS:
        names = ", ".join(f"``{declared.name}``" for declared in of_group(group))
        yield from textwrap.wrap(f"*{group}:* {names}.", 110)
        yield ""
    yield from ("Parameters", "----------")
    for declared in DECLARED.values():
        yield declared.name
        text = f"{meaning(declared)}{_default_sentence(declared)}"
        yield from textwrap.wrap(text, 110, initial_indent="    ", subsequent_indent="    ")
    yield from ("", "")


def meaning(declared: Declaration) -> str:
    """The meaning of a parameter, and the values it may take."""
    choices = ", ".join(f'``"{choice}"``' for choice in declared.choices)
    return f"{declared.help} One of {choices}." if choices else declared.help


def _default_sentence(declared: Declaration) -> str:
    """The meaning of None, or a default that says more than the signature does."""
    text = default_text(declared.name)
    if declared.default is None:
        return f" None: {text}." if text else ""
    return "" if text == shown(declared.default) else f" Default: {text}."
