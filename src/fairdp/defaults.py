"""Parameters and their defaults in words, for help, reference and docstrings; `train_config` has them as numbers."""

import textwrap
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from fairdp.config import DEFAULTS, SMALLEST_IMAGE, Defaults
from fairdp.methods import METHODS
from fairdp.parameters import (
    DECLARED,
    GROUPS,
    Declaration,
)
from fairdp.run.plan import default_n_steps, defaults_of

T = TypeVar("T")


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
