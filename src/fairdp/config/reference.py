"""The parameters in words, as `help` shows them: what they mean and what their defaults are."""

import textwrap
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from fairdp.config.declaration import Declaration
from fairdp.config.defaults import (
    DEFAULTS,
    METHOD_DEFAULTS,
    METHOD_IMAGES,
    METHOD_MODELS,
    SMALLEST_IMAGE,
    Defaults,
    default_n_steps,
    defaults_of,
)
from fairdp.config.parameters import DECLARED, GROUPS

T = TypeVar("T")

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
_OTHERS = "others"


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
        logistic = ", ".join(f"`{method}`" for method in sorted(METHOD_MODELS) if METHOD_MODELS[method] == "logistic")
        features = ", ".join(f"`{method}`" for method in METHOD_IMAGES)
        pictures = f"cnn for images, but oriented_gradients for {features} from {SMALLEST_IMAGE} pixels a side on"
        return f"auto: {pictures}; tables: logistic for {logistic}; else mlp"
    return declared.when_none if declared.default is None else shown(declared.default)


def default_by_method(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The default for each method that has its own, and for the others: on tables, and on images."""
    value_of = BY_METHOD[name]
    methods = sorted({*METHOD_MODELS, *(method for method, _ in METHOD_DEFAULTS)})
    tables = {method: value_of(defaults_of(METHOD_MODELS.get(method, "mlp"), method)) for method in methods}
    images = {method: value_of(defaults_of(METHOD_IMAGES.get(method, "cnn"), method)) for method in methods}
    return _with_others(tables, value_of(DEFAULTS["mlp"])), _with_others(images, value_of(DEFAULTS["cnn"]))


def _with_others(by_method: dict[str, Any], common: Any) -> dict[str, Any]:
    return {**{method: value for method, value in by_method.items() if value != common}, _OTHERS: common}


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
        yield from textwrap.wrap(f"{meaning(declared)}{_default_sentence(declared)}", 110, **_INDENTED)
    yield from ("", "")


_INDENTED: dict[str, Any] = {"initial_indent": "    ", "subsequent_indent": "    "}


def meaning(declared: Declaration) -> str:
    """What a parameter means, and the values it may take."""
    choices = ", ".join(f'``"{choice}"``' for choice in declared.choices)
    return f"{declared.help} One of {choices}." if choices else declared.help


def _default_sentence(declared: Declaration) -> str:
    """What None means, or a default that says more than the signature does."""
    text = default_text(declared.name)
    if declared.default is None:
        return f" None: {text}." if text else ""
    return "" if text == shown(declared.default) else f" Default: {text}."
