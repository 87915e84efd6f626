"""Why people were refused: the columns whose references would have raised the score most."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from fairdp import _checks
from fairdp._checks import DataError, ParameterError
from fairdp.data.frames import frame_of
from fairdp.data.schema import TableSchema
from fairdp.networks.hat_rows import HatRows
from fairdp.networks.models import ScoreModel
from fairdp.run.predictor import Predictor
from fairdp.run.reason_words import NO_COLUMN, REFUSES_ALL, coin_in_words, lines_of
from fairdp.run.references import Reference, references_of

SUFFICE = "reasons_suffice"
# In the place of a column.
_NONE = -1


class Decider(Protocol):
    """What a fitted estimator has, as far as its decisions go."""

    score_model_: ScoreModel
    predictor_: Predictor
    feature_schema_: dict[str, Any] | None


def declared_for_reasons(decider: Decider, k: int) -> TableSchema:
    """The schema of a model that has reasons; any other model is refused."""
    _checks.positive_integer(k=k)
    if not isinstance(decider.score_model_.extractor, HatRows):
        raise ParameterError(
            "k",
            k,
            "needs the default on tables; networks, and models of other methods, have no reasons",
            "leave it out, or train by 'fairdp_frontier' without a network",
        )
    if decider.feature_schema_ is None:
        raise ParameterError(
            "k",
            k,
            "needs columns that a schema declares, and this model was trained without one",
            "leave it out, or train on a table with fairdp fit",
        )
    return TableSchema.from_dict(decider.feature_schema_)


def reasons_of(decider: Decider, table: Any, *, k: int, person_ids: Sequence[Any] | None = None) -> pd.DataFrame:
    """Columns ``reason_1`` to ``reason_k``, most important first, and ``reasons_suffice``; empty for the accepted."""
    schema, model, rule = declared_for_reasons(decider, k), decider.score_model_, decider.predictor_
    frame = _as_frame(table)
    records = schema.encode(frame)
    refused = rule.decisions(model, records, person_ids) == 0
    low = _scores(model, records) < 0
    lines = np.full((len(frame), k), "", dtype=object)
    suffice = np.full(len(frame), None, dtype=object)
    if rule.dilution == 1:
        lines[refused, 0] = REFUSES_ALL
    else:
        tossed = refused & ~low
        lines[tossed, 0] = [coin_in_words(chance) for chance in rule.chances(model, records[tossed])]
        rows = np.flatnonzero(refused & low)
        references = references_of(schema.columns, model) if len(rows) else ()
        named = _named(model, records[rows], references, k)
        suffice[rows] = _suffices(model, records[rows], references, named)
        for place, reference in enumerate(references):
            people, ranks = np.nonzero(named == place)
            lines[rows[people], ranks] = lines_of(reference, frame, rows[people], records)
        lines[rows[named[:, 0] == _NONE], 0] = NO_COLUMN
    found = pd.DataFrame(lines, columns=[f"reason_{rank}" for rank in range(1, k + 1)], dtype=object)
    return found.assign(**{SUFFICE: pd.array(suffice, dtype="boolean")})


def _as_frame(table: Any) -> pd.DataFrame:
    try:
        return frame_of(table).reset_index(drop=True)
    except DataError:
        kind = type(table).__name__
        raise DataError(f"reasons are of a table with the columns of the schema, as a DataFrame; got {kind}.") from None


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
    """Whether the score would be high enough with all named columns at their references together."""
    moved = records.copy()
    for place, reference in enumerate(references):
        moved[(named == place).any(1), reference.where] = reference.inputs
    return _scores(model, moved) >= 0


def _scores(model: ScoreModel, records: NDArray[np.float32]) -> NDArray[np.float32]:
    return model.scores(torch.from_numpy(np.require(records, np.float32, ["C", "W"]))).numpy()
