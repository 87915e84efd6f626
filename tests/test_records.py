"""Dataclasses as plain values and back: what does not fit its declared type is refused, and so is what is unknown."""

import json
import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

import pytest

from fairdp._io import from_plain, json_bytes, to_plain


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True, kw_only=True)
class Small:
    size: int
    kind: Literal["small"] = "small"


@dataclass(frozen=True, kw_only=True)
class Large:
    size: int
    weight: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Thing:
    name: str
    rate: float
    good: bool
    colour: Colour
    pair: tuple[int, float]
    many: tuple[Small, ...]
    by_name: dict[str, Small | Large]
    maybe: float | None = None
    whatever: dict[str, object] = field(default_factory=dict)


THING = Thing(
    name="a",
    rate=math.inf,
    good=True,
    colour=Colour.RED,
    pair=(1, 2.0),
    many=(Small(size=1), Small(size=2)),
    by_name={"x": Large(size=3, weight=1.5), "y": Small(size=4)},
    whatever={"seed": 2**63 + 1, "list": [1, None]},
)


def written(thing: object) -> dict:
    return json.loads(json_bytes(thing))


def test_what_is_written_is_read():
    assert from_plain(Thing, written(THING)) == THING


def test_infinity_is_null_and_null_is_infinity_where_a_number_must_be():
    assert written(THING)["rate"] is None
    assert written(THING)["maybe"] is None
    assert from_plain(Thing, written(THING)).maybe is None


def test_plain_values_hold_no_dataclass_and_no_tuple():
    assert to_plain(THING)["many"] == [{"size": 1, "kind": "small"}, {"size": 2, "kind": "small"}]
    assert to_plain(THING)["pair"] == [1, 2.0]


@pytest.mark.parametrize(
    "changes",
    [
        {"name": 1},
        {"name": None},
        {"rate": "1"},
        {"rate": True},
        {"good": 1},
        {"colour": "blue"},
        {"pair": [1.5, 2.0]},
        {"many": {}},
        {"many": [{"size": 1, "kind": "large"}]},
        {"by_name": {"x": {"weight": 1.0}}},
        {"by_name": []},
        {"unknown": 1},
    ],
    ids=str,
)
def test_values_of_another_type_and_unknown_names_are_refused(changes):
    with pytest.raises(TypeError):
        from_plain(Thing, {**written(THING), **changes})


@pytest.mark.parametrize("missing", ["name", "rate", "by_name"])
def test_a_missing_value_is_named_unless_it_has_a_default(missing):
    record = written(THING)
    del record["maybe"], record[missing]
    with pytest.raises(TypeError, match=f"^missing or unknown: {missing}$"):
        from_plain(Thing, record)


@pytest.mark.parametrize("value", [None, 3, "text", [1]])
def test_what_is_no_record_is_refused(value):
    with pytest.raises(TypeError, match=r"^Thing is "):
        from_plain(Thing, value)
