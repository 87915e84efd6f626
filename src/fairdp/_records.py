"""Frozen dataclasses as plain values that JSON can hold, and back."""

import math
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


class RecordError(TypeError):
    """Plain values that are not the record they should be."""


def to_plain(value: Any) -> Any:
    """Dataclasses and mappings as dicts, tuples as lists, all the way down; everything else as it is.

    >>> from fairdp.config.model import ModelConfig
    >>> to_plain(ModelConfig(kind="mlp"))["hidden"]
    [32]
    """
    if is_dataclass(value):
        return {field.name: to_plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    return value


def from_plain(kind: type[T], value: object) -> T:
    """Inverse of `to_plain`, for a dataclass; a `RecordError` names what is missing, unknown or of another type.

    JSON has no infinity: it is written as null, and read as such where a number must be.
    """
    read: T = _read(kind, value, kind.__name__)
    return read


def _read(kind: Any, value: Any, name: str) -> Any:
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _read_union(parts, value, name)
    if origin is Literal and value in parts:
        return value
    if isinstance(kind, type) and issubclass(kind, Enum) and value in tuple(kind):
        return kind(value)
    if is_dataclass(kind) and isinstance(value, dict):
        return _read_dataclass(kind, value)
    if origin is dict and isinstance(value, dict):
        return {key: _read(parts[1], item, f"{name}.{key}") for key, item in value.items()}
    if origin is tuple and isinstance(value, list):
        each = parts[:1] * len(value) if parts[-1] is ... else parts
        return tuple(_read(own, item, name) for own, item in zip(each, value, strict=True))
    if kind is float and (value is None or type(value) is int):
        return math.inf if value is None else float(value)
    if kind in (Any, object) or type(value) is kind:
        return value
    raise RecordError(f"{name} is {value!r}")


def _read_union(kinds: tuple[Any, ...], value: Any, name: str) -> Any:
    """As the first kind that fits."""
    if value is None and NoneType in kinds:
        return None
    *others, last = (kind for kind in kinds if kind is not NoneType)
    for kind in others:
        try:
            return _read(kind, value, name)
        except RecordError:
            continue
    return _read(last, value, name)


def _read_dataclass(kind: Any, record: dict[str, Any]) -> Any:
    types = _field_types(kind)
    needed = {field.name for field in fields(kind) if field.default is field.default_factory is MISSING}
    if wrong := sorted((needed - record.keys()) | (record.keys() - types.keys())):
        raise RecordError(f"missing or unknown: {', '.join(wrong[:3])}{', …' if len(wrong) > 3 else ''}")
    return kind(**{name: _read(types[name], value, name) for name, value in record.items()})


@cache
def _field_types(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)
