"""Whether the model of a folder can be used: it is loaded as for a prediction, and scores rows made from its schema."""

import itertools

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from fairdp._checks import InputError
from fairdp._files import tensors_in
from fairdp.data.columns import Binned, Categorical, Column, Numeric
from fairdp.data.schema import TableSchema
from fairdp.networks.models import ScoreModel
from fairdp.saved.folder import TENSORS, SavedModel
from fairdp.saved.usable import usable_model
from fairdp.saved.verify.certificate import is_planned
from fairdp.saved.verify.check import Check, Recorded

# As many rows as the longest list of probes below has.
_N_ROWS = 3


def model_check(recorded: Recorded) -> Check:
    """That shapes, schema and rule are those of one model with finite numbers, which decides about rows."""
    record = recorded.model
    if record.model.kind == "custom":
        return Check("model", True, "has a module of its own, which is code: it is not loaded here.")
    saved = SavedModel(
        tensors=tensors_in(recorded.contents[TENSORS], framework="pt")[1],
        model=record,
        privacy=recorded.privacy,
        certificate=recorded.certificate.certificate(),
    )
    try:
        model = usable_model(saved)
        schema = None if record.feature_schema is None else TableSchema.from_dict(record.feature_schema)
        records = _plain_rows(model) if schema is None else schema.encode(probe_rows(schema))
        groups = np.zeros(len(records), np.int64) if schema is None else schema.encode_groups(probe_rows(schema))[0]
    except InputError as error:
        return Check("model", False, str(error))
    if not is_planned(recorded):
        return Check("model", False, "its network is not the one that settings and schema lead to.")
    scores = model.scores(torch.from_numpy(records)).double().numpy()
    chances = record.predictor.chances(model, records, groups=groups, scores=scores)
    decisions = record.predictor.decisions(model, records, groups=groups, scores=scores)
    passed = np.isfinite(scores).all() and ((chances >= 0) & (chances <= 1)).all() and set(decisions) <= {0, 1}
    found = f"{model.params.numel()} finite parameters; decides about rows of its own schema"
    return Check("model", bool(passed), f"{found}." if passed else "its scores or chances are no numbers.")


def probe_rows(schema: TableSchema) -> pd.DataFrame:
    """A few rows that the schema allows: the ends of every column, and what counts as another or a missing value."""
    columns = (*schema.columns, *schema.protected)
    cells = {column.name: itertools.islice(itertools.cycle(_probes(column)), _N_ROWS) for column in columns}
    return pd.DataFrame({name: pd.Series(list(values), dtype=object) for name, values in cells.items()})


def _probes(column: Column) -> list[str]:
    if isinstance(column, Numeric):
        return [repr(column.low), repr(column.high), *([""] if column.missing != "error" else [])]
    if isinstance(column, Binned):
        return [repr(column.edges[0] - 1), repr(column.edges[-1]), repr(column.edges[0])]
    if isinstance(column, Categorical):
        undeclared = "undeclared" if "undeclared" not in column.categories else column.other
        return [column.categories[0], column.categories[-1], *([undeclared] if column.other else [])]
    return [column.value, f"not {column.value}"]


def _plain_rows(model: ScoreModel) -> NDArray[np.float32]:
    """Zeros, ones and minus ones, for a model that reads no table."""
    return np.stack([np.full(model.shape, value, dtype=np.float32) for value in (0.0, 1.0, -1.0)])
