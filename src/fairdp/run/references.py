"""What a person is compared with: in each column the best of the common values, by what the model has released."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from fairdp.data.columns import MISSING, Binned, Categorical, Column, Numeric
from fairdp.networks.hat_rows import HatRows
from fairdp.networks.models import ScoreModel

Floats = NDArray[np.float64]

# Share of people who hold a value that counts as common.
_COMMON = 0.1
# Digits of a number that is compared with; none after the point where the declared bounds are whole and this far apart.
_DIGITS, _WHOLE = 3, 14.0


class Held(NamedTuple):
    """A value as a cell of the table could hold it, and the noisy share of people who do."""

    cell: float | str
    share: float


@dataclass(frozen=True, eq=False)
class Reference:
    """The value of a column that people are compared with: as a cell, and as the inputs that it becomes."""

    column: Column
    where: slice
    cell: float | str
    inputs: NDArray[np.float32]


def references_of(columns: Sequence[Column], model: ScoreModel) -> tuple[Reference, ...]:
    """For each column its best value among those that at least one in ten people hold, or the most common one.

    Shares are those that the model has released, with noise, in the weights of its rows; best is what makes its score
    largest for somebody who has the most common value in every other column. So a reference is a function of schema and
    model, and costs no privacy.
    """
    assert isinstance(model.extractor, HatRows)
    held = _held_values(columns, model.extractor)
    codes = [_inputs(column, values) for column, values in zip(columns, held, strict=True)]
    typical = np.concatenate([code[0] for code in codes])
    stops = list(itertools.accumulate(code.shape[1] for code in codes))
    found = []
    for column, values, code, stop in zip(columns, held, codes, stops, strict=True):
        where = slice(stop - code.shape[1], stop)
        people = np.repeat(typical[None], len(code), axis=0)
        people[:, where] = code
        best = int(model.worths(torch.from_numpy(people)).argmax())
        found.append(Reference(column, where, values[best].cell, code[best]))
    return tuple(found)


def _inputs(column: Column, values: Sequence[Held]) -> NDArray[np.float32]:
    # As one value at a time: cells of one column may be text and numbers.
    return np.concatenate([column.encode(pd.Series([value.cell], name=column.name)) for value in values])


def _held_values(columns: Sequence[Column], rows: HatRows) -> list[list[Held]]:
    """The common values of each column, the most common one first."""
    inputs, hats = rows.released()
    places = {position: place for place, position in enumerate(rows.others)}
    stops = list(itertools.accumulate(len(column.feature_names) for column in columns))
    parts = [[*range(stop - len(column.feature_names), stop)] for column, stop in zip(columns, stops, strict=True)]
    raised = [inputs[[places[position] for position in part if position in places]] for part in parts]
    floor = _floor(columns, raised, hats)
    peaks, middle = rows.peaks(), rows.hats_of(0.5)
    found = []
    for column, part, own in zip(columns, parts, raised, strict=True):
        if isinstance(column, Numeric):
            index = rows.numeric.index(part[0])
            # A missing number is encoded as the middle, which nobody needs to hold.
            shares = hats[:, index] - floor - sum(own - floor) * middle[:, index]
            values = [
                Held(_number(column, peak), float(share))
                for peak, share in zip(peaks[:, index].ravel(), shares.ravel(), strict=True)
            ]
        else:
            values = _held_words(column, own - floor)
        found.append(_common(values))
    return found


def _common(values: list[Held]) -> list[Held]:
    ordered = sorted(values, key=lambda value: -value.share)
    return [value for value in ordered if value.share >= _COMMON] or ordered[:1]


def _floor(columns: Sequence[Column], raised: Sequence[Floats], hats: Floats) -> float:
    """What was added to every frequency: those of a category, of a bin, and of the hats of a number, add up to one."""
    whole = [own for column, own in zip(columns, raised, strict=True) if isinstance(column, Categorical | Binned)]
    whole += [*hats.reshape(-1, hats.shape[-1])]
    surplus = sum(float(own.sum()) - 1 for own in whole)
    return max(0.0, surplus / sum(map(len, whole))) if whole else 0.0


def _held_words(column: Column, shares: Floats) -> list[Held]:
    if isinstance(column, Categorical):
        values = [Held(name, share) for name, share in zip(column.categories, shares, strict=True) if name != MISSING]
        return values or [Held(MISSING, 1.0)]
    if isinstance(column, Binned):
        # A value in each bin; the first has no lower edge.
        return [Held(cell, share) for cell, share in zip((column.edges[0] - 1, *column.edges), shares, strict=True)]
    assert not isinstance(column, Numeric)
    return [Held(column.value, 1 - float(shares[0])), Held(f"other than {column.value}", float(shares[0]))]


def _number(column: Numeric, place: float) -> float:
    """The number at a place on the scale from 0 to 1, rounded so that it can be said, within the declared bounds."""
    low, high = column.low, column.high
    if column.transform == "signed_log":
        low, high = (math.copysign(math.log1p(abs(bound)), bound) for bound in (low, high))
    number = low + place * (high - low)
    if column.transform == "signed_log":
        number = math.copysign(math.expm1(abs(number)), number)
    number = float(f"{number:.{_DIGITS}g}")
    bounds = (column.low, column.high)
    if all(float(bound).is_integer() for bound in bounds) and column.high - column.low >= _WHOLE:
        number = float(round(number))
    return min(max(number, column.low), column.high)
