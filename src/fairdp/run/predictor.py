"""From scores to decisions, and the reasons for negative ones.

A decision is deterministic, or by a coin that always falls the same way for the same person. A reason is a column of
the table whose public reference would raise a person's score.
"""

import hashlib
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairdp.certify.certificate import DecisionRule
from fairdp.certify.outlook import input_agnostic_bound, smoothed_probability
from fairdp.data.cells import MISSING_WORDS, canonical_text, distinct_cells, kind_of, raw_text, readable_numbers
from fairdp.data.columns import MISSING, Binned, Categorical, Column, Numeric, OtherThan
from fairdp.data.schema import TableSchema, frame_of
from fairdp.errors import DataError, InputError, ParameterError, positive_integer
from fairdp.networks.model import ScoreModel
from fairdp.networks.rows import SplineFeatures
from fairdp.parameters import DECLARED, check_parameters

Floats = NDArray[np.float64]
# A value as a cell of the table could hold it, and the noisy share of people who do.
Held = tuple[float | str, float]
# Share of people who hold a value that counts as common.
_COMMON = 0.1
# Digits of a number that is compared with; none after the point where the declared bounds are whole and this far apart.
_DIGITS, _WHOLE = 3, 14.0
# The column that says whether the reasons suffice, what stands in place of the first reason where there is none, and
# the place of no column.
SUFFICE, NO_COLUMN, _NONE = "reasons_suffice", "no column: none at its reference alone would raise the score", -1


@dataclass(frozen=True, kw_only=True)
class Predictor:
    r"""The rule that is deployed and certified.

    Parameters
    ----------
    kind
        ``"deterministic"``: positive if the mean score of the heads is at least zero. ``"gibbs"``: a head drawn at
        random for each person decides. ``"smoothed"``: positive with probability
        :math:`\Phi(z / (s \sqrt{\|\xi\|^2 + 1}))`, as if the head were drawn with deviation s for each person; a head
        without a bias has no 1, and where ξ is zero the decision is positive.
    smoothing
        The deviation s; used by ``"smoothed"``.
    flips
        Chance of a positive decision for each group and for each decision of the kind above, negative first; None:
        decisions stay as they are. With it a decision needs the person's group.
    key
        Secret of the coins, in hexadecimal; drawn without looking at the data.
    """

    kind: str = "deterministic"
    smoothing: float = 1.0
    flips: tuple[tuple[float, float], ...] | None = None
    key: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        check_parameters(predictor=self.kind, smoothing=self.smoothing)
        if self.flips is not None:
            # As JSON returns them.
            object.__setattr__(self, "flips", tuple((float(no), float(yes)) for no, yes in self.flips))

    @property
    def tosses_coins(self) -> bool:
        """True if two people with the same record may get different decisions."""
        return self.described().tosses_coins

    def chances(
        self,
        model: ScoreModel,
        X: NDArray[np.float32],
        *,
        groups: NDArray[np.int64] | None = None,
        scores: NDArray[np.float64] | None = None,
    ) -> NDArray[np.float64]:
        """Probability of a positive decision for each record, over the coins; groups matter to a rule that flips.

        ``scores`` are the model's of these records, where they are known already.
        """
        records = torch.from_numpy(np.require(X, np.float32, ["C", "W"]))
        chances = _CHANCES[self.kind](model, records, self.smoothing, scores)
        if self.flips is not None:
            if groups is None and len(self.flips) == 1:
                groups = np.zeros(len(records), dtype=np.int64)
            if groups is None:
                raise InputError("this model decides by group; give the group of every record in `sensitive_features`.")
            no, yes = np.array(self.flips).T
            chances = (1 - chances) * no[groups] + chances * yes[groups]
        return chances

    def decisions(
        self,
        model: ScoreModel,
        X: NDArray[np.float32],
        person_ids: Sequence[Any] | None = None,
        *,
        groups: NDArray[np.int64] | None = None,
        scores: NDArray[np.float64] | None = None,
    ) -> NDArray[np.int64]:
        """Decision for each record; the coin of a person is a keyed hash of their id, or else of their record."""
        if person_ids is not None and len(person_ids) != len(X):
            raise InputError(f"`person_ids` has {len(person_ids)} entries, but X has {len(X)} records.")
        chances = self.chances(model, X, groups=groups, scores=scores)
        if not self.tosses_coins:
            return chances.astype(np.int64)
        return (self._coins(X, person_ids) < chances).astype(np.int64)

    def input_agnostic_tau(self, model: ScoreModel) -> float | None:
        """Bound on every gap that needs no data; None if there is none below one."""
        if self.kind != "smoothed":
            return None
        head = model.heads.mean(0).double().numpy()
        tau = input_agnostic_bound(head, smoothing=self.smoothing, nonnegative=False, bias=model.bias)
        return tau if tau < 1 else None

    def to_dict(self) -> dict[str, object]:
        """Plain values, with the key: what a copy of the predictor needs."""
        return asdict(self)

    def described(self) -> DecisionRule:
        """The rule with a name for its key instead of the key."""
        return DecisionRule(
            kind=self.kind,
            smoothing=self.smoothing,
            flips=self.flips,
            key_id=hashlib.sha256(self.key.encode()).hexdigest()[:16] if self.key else None,
        )

    def _coins(self, X: NDArray[np.float32], person_ids: Sequence[Any] | None) -> NDArray[np.float64]:
        if not self.key:
            raise ValueError("a predictor that tosses coins needs a key.")
        # Adding zero turns negative zero into zero: equal records have equal coins.
        key, rows = bytes.fromhex(self.key), np.ascontiguousarray(X) + np.float32(0)
        names = (row.tobytes() for row in rows) if person_ids is None else (str(i).encode() for i in person_ids)
        digests = b"".join(hashlib.blake2b(name, key=key, digest_size=8).digest() for name in names)
        # The 53 upper bits make a double below one exactly.
        return np.multiply(np.frombuffer(digests, dtype="<u8") >> np.uint64(11), 2.0**-53, dtype=np.float64)


def _deterministic(
    model: ScoreModel, records: Tensor, smoothing: float, scores: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    return (_scores(model, records, scores) >= 0).astype(np.float64)


def _gibbs(
    model: ScoreModel, records: Tensor, smoothing: float, scores: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    weights, biases = model.split(model.heads)
    parts = [(xi @ weights.T + biases >= 0).double().mean(1) for xi in model.embeddings(records)]
    return torch.cat(parts).numpy() if parts else np.empty(0)


def _smoothed(
    model: ScoreModel, records: Tensor, smoothing: float, scores: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    norms = [torch.linalg.vector_norm(xi, dim=1).double().numpy() for xi in model.embeddings(records)]
    lengths = np.concatenate(norms) if norms else np.empty(0)
    return smoothed_probability(_scores(model, records, scores), lengths, smoothing=smoothing, bias=model.bias)


def _scores(model: ScoreModel, records: Tensor, known: NDArray[np.float64] | None) -> NDArray[np.float64]:
    return model.scores(records).double().numpy() if known is None else known


_CHANCES: dict[str, Callable[[ScoreModel, Tensor, float, NDArray[np.float64] | None], NDArray[np.float64]]] = {
    "deterministic": _deterministic,
    "gibbs": _gibbs,
    "smoothed": _smoothed,
}


class Decider(Protocol):
    """A fitted estimator, as far as its decisions go."""

    score_model_: ScoreModel
    predictor_: Predictor
    feature_schema_: dict[str, Any] | None


@dataclass(frozen=True, eq=False)
class Reference:
    """The value of a column that people are compared with: as a cell, and as the inputs that it becomes."""

    column: Column
    where: slice
    cell: float | str
    inputs: NDArray[np.float32]


def reasons_of(decider: Decider, table: Any, *, k: int) -> pd.DataFrame:
    """Columns ``reason_1`` to ``reason_k``, most important first, and ``reasons_suffice``; empty for the accepted."""
    schema, model = declared_for_reasons(decider, k), decider.score_model_
    try:
        frame = frame_of(table).reset_index(drop=True)
    except DataError:
        kind = type(table).__name__
        raise DataError(f"reasons are of a table with the columns of the schema, as a DataFrame; got {kind}.") from None
    records = schema.encode(frame)
    lines = np.full((len(frame), k), "", dtype=object)
    suffice = np.full(len(frame), None, dtype=object)
    rows = np.flatnonzero(decider.predictor_.decisions(model, records) == 0)
    references = references_of(schema.columns, model) if len(rows) else ()
    named = _named(model, records[rows], references, k)
    suffice[rows] = _suffices(model, records[rows], references, named)
    for place, reference in enumerate(references):
        people, ranks = np.nonzero(named == place)
        lines[rows[people], ranks] = lines_of(reference, frame, rows[people], records)
    lines[rows[named[:, 0] == _NONE], 0] = NO_COLUMN
    found = pd.DataFrame(lines, columns=[f"reason_{rank}" for rank in range(1, k + 1)], dtype=object)
    return found.assign(**{SUFFICE: pd.array(suffice, dtype="boolean")})


def declared_for_reasons(decider: Decider, k: int) -> TableSchema:
    """The schema of a model that has reasons; any other model is refused."""
    positive_integer(k=k)
    if not isinstance(decider.score_model_.extractor, SplineFeatures):
        raise ParameterError(
            "k",
            k,
            "needs the default on tables; networks, and models of other methods, have no reasons",
            f"leave it out, or train by {DECLARED['method'].default!r} without a network",
        )
    if decider.feature_schema_ is None:
        raise ParameterError(
            "k",
            k,
            "needs columns that a schema declares, and this model was trained without one",
            "leave it out, or train on a table with fairdp fit",
        )
    return TableSchema.from_dict(decider.feature_schema_)


def _named(
    model: ScoreModel, records: NDArray[np.float32], references: Sequence[Reference], k: int
) -> NDArray[np.int64]:
    r"""The k columns of each person that gain most, shape (n_people, k); −1 where fewer gain anything.

    Column j gains :math:`z(x^{j \to r_j}) - z(x)`: by how much the score z, whose threshold is zero for everybody, were
    higher if that column alone had the value of its reference. In double precision, as z is flat far below zero.
    """
    gains = np.zeros((len(records), max(k, len(references))))
    before = model.worths(torch.from_numpy(records)).numpy()
    for place, reference in enumerate(references):
        others = np.flatnonzero((records[:, reference.where] != reference.inputs).any(1))
        moved = records[others]
        moved[:, reference.where] = reference.inputs
        gains[others, place] = model.worths(torch.from_numpy(moved)).numpy() - before[others]
    order = np.argsort(-gains, axis=1, kind="stable")[:, :k]
    return np.where(np.take_along_axis(gains, order, axis=1) > 0, order, _NONE)


def _suffices(
    model: ScoreModel, records: NDArray[np.float32], references: Sequence[Reference], named: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """True where the score would be high enough with all named columns at their references together."""
    moved = records.copy()
    for place, reference in enumerate(references):
        moved[(named == place).any(1), reference.where] = reference.inputs
    return model.scores(torch.from_numpy(np.require(moved, np.float32, ["C", "W"]))).numpy() >= 0


def references_of(columns: Sequence[Column], model: ScoreModel) -> tuple[Reference, ...]:
    """For each column its best value among those that at least one in ten people hold, or the most common one.

    Shares are those that the model has released, with noise, in the weights of its rows; best is what makes its score
    largest for somebody who has the most common value in every other column. So a reference is a function of schema and
    model, and costs no privacy.
    """
    assert isinstance(model.extractor, SplineFeatures)
    held = _held_values(columns, model.extractor)
    # One value at a time: cells of one column may be text and numbers.
    codes = [
        np.concatenate([column.encode(pd.Series([cell], name=column.name)) for cell, _ in values])
        for column, values in zip(columns, held, strict=True)
    ]
    typical = np.concatenate([code[0] for code in codes])
    stops = list(itertools.accumulate(code.shape[1] for code in codes))
    found = []
    for column, values, code, stop in zip(columns, held, codes, stops, strict=True):
        where = slice(stop - code.shape[1], stop)
        people = np.repeat(typical[None], len(code), axis=0)
        people[:, where] = code
        best = int(model.worths(torch.from_numpy(people)).argmax())
        found.append(Reference(column, where, values[best][0], code[best]))
    return tuple(found)


def _held_values(columns: Sequence[Column], rows: SplineFeatures) -> list[list[Held]]:
    """The common values of each column, the most common one first."""
    inputs, splines = rows.released()
    places = {position: place for place, position in enumerate(rows.others)}
    stops = list(itertools.accumulate(len(column.feature_names) for column in columns))
    parts = [[*range(stop - len(column.feature_names), stop)] for column, stop in zip(columns, stops, strict=True)]
    raised = [inputs[[places[position] for position in part if position in places]] for part in parts]
    floor = _floor(columns, raised, splines)
    peaks, middle = rows.peaks(), rows.hats_of(0.5)
    found = []
    for column, part, own in zip(columns, parts, raised, strict=True):
        if isinstance(column, Numeric):
            index = rows.numeric.index(part[0])
            # A missing number is encoded as the middle, which nobody needs to hold.
            shares = splines[:, index] - floor - sum(own - floor) * middle[:, index]
            values: list[Held] = [
                (_number(column, peak), float(share))
                for peak, share in zip(peaks[:, index].ravel(), shares.ravel(), strict=True)
            ]
        else:
            values = _held_words(column, own - floor)
        ordered = sorted(values, key=lambda value: -value[1])
        found.append([value for value in ordered if value[1] >= _COMMON] or ordered[:1])
    return found


def _floor(columns: Sequence[Column], raised: Sequence[Floats], splines: Floats) -> float:
    """The amount added to every frequency: those of a category, of a bin, and of a number's splines add up to 1."""
    whole = [own for column, own in zip(columns, raised, strict=True) if isinstance(column, Categorical | Binned)]
    whole += [*splines.reshape(-1, splines.shape[-1])]
    surplus = sum(float(own.sum()) - 1 for own in whole)
    return max(0.0, surplus / sum(map(len, whole))) if whole else 0.0


def _held_words(column: Column, shares: Floats) -> list[Held]:
    if isinstance(column, Categorical):
        return [pair for pair in zip(column.categories, shares, strict=True) if pair[0] != MISSING] or [(MISSING, 1.0)]
    if isinstance(column, Binned):
        # A value in each bin; the first has no lower edge.
        return [*zip((column.edges[0] - 1, *column.edges), shares, strict=True)]
    assert not isinstance(column, Numeric)
    return [(column.value, 1 - float(shares[0])), (f"other than {column.value}", float(shares[0]))]


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


def lines_of(
    reference: Reference, frame: pd.DataFrame, rows: NDArray[np.intp], records: NDArray[np.float32]
) -> NDArray[np.object_]:
    """A sentence on a column for each of the people in these rows."""
    codes, cells = distinct_cells(frame[reference.column.name].iloc[rows])
    lines = np.full(len(cells), "", dtype=object)
    for code, first in zip(*np.unique(codes, return_index=True), strict=True):
        inputs = records[rows[first], reference.where]
        lines[code] = f"{reference.column.name} {_compared(reference, cells[code], inputs)}"
    return np.asarray(lines[codes])


def _compared(reference: Reference, cell: object, inputs: NDArray[np.float32]) -> str:
    column, spelling = reference.column, raw_text(cell)
    if isinstance(column, Numeric | Binned):
        return _compared_number(reference, cell)
    if isinstance(column, OtherThan):
        wanted = repr(column.value)
        return (
            f"{spelling!r}: the reference is {wanted if reference.cell == column.value else f'anything but {wanted}'}"
        )
    counted = column.categories[int(inputs.argmax())] if inputs.any() else "none of the declared"
    # Of columns that were read with noise, rare values count as missing ones too: whoever has given theirs is told so.
    if spelling in (MISSING, *column.missing_words) or (spelling in MISSING_WORDS and spelling != counted):
        return f"missing: the reference is {reference.cell!r}"
    also = "" if canonical_text(spelling) == canonical_text(counted) else f", counted as {counted!r}"
    return f"{spelling!r}{also}: the reference is {reference.cell!r}"


def _compared_number(reference: Reference, cell: object) -> str:
    """A number beside another one, or beside a bin; a date beside a date."""
    (number,), _ = readable_numbers(pd.Series([cell], dtype=object), reference.column.missing_words)
    is_date = kind_of(cell) == "date"
    wanted = _number_in_words(reference, is_date=is_date)
    if math.isnan(number):
        return f"missing: the reference is {wanted}"
    below = number < float(reference.cell)
    words = ("earlier" if below else "later") if is_date else ("lower" if below else "higher")
    return f"{raw_text(cell)}: {words} than the reference {wanted}"


def _number_in_words(reference: Reference, *, is_date: bool) -> str:
    column, number = reference.column, float(reference.cell)
    if isinstance(column, Binned):
        limits = [-math.inf, *column.edges, math.inf]
        place = int(np.searchsorted(column.edges, number, side="right"))
        low, high = (_said(limit, is_date=is_date) for limit in limits[place : place + 2])
        return f"(below {high})" if place == 0 else f"({low} or more{f', below {high}' if high else ''})"
    return _said(number, is_date=is_date)


def _said(number: float, *, is_date: bool) -> str:
    """A number without an exponent, or the date that it counts the days to; nothing for no limit."""
    if math.isinf(number):
        return ""
    if is_date:
        return str(np.datetime64(math.floor(number), "D"))
    return raw_text(number)
