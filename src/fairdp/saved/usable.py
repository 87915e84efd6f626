"""Whether what a model folder holds is a model at all: sizes before anything is built, and all numbers finite."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import fields

import torch
from torch import Tensor

from fairdp._checks import InputError, SavedModelError
from fairdp.config.parameters import Parameters
from fairdp.data.schema import TableSchema
from fairdp.networks.building import build_model
from fairdp.networks.freshness import note_learnt
from fairdp.networks.models import CELL_VALUES, FIXED, ExtractorBuilder, ScoreModel
from fairdp.run.predictor import Predictor
from fairdp.run.settings import RunSettings
from fairdp.saved.folder import ModelRecord, SavedModel
from fairdp.saved.parameters import NOT_STORED, restored

# Pixels of an image whose network has no number for each of them.
_MOST_PIXELS = 2**22
_MOST_LAYERS = 100
# Of a keyed BLAKE2b.
_LONGEST_KEY = 64


def usable_model(saved: SavedModel, module: ExtractorBuilder | None = None) -> ScoreModel:
    """The model of a saved folder, ready to score; a module is code, so its builder must be given again.

    Raises
    ------
    SavedModelError
        With one line, if the parts of the folder are not those of one model.
    """
    record = saved.model
    if record.model.kind == "custom" and module is None:
        raise SavedModelError("the model was trained with your own module; pass its builder as `module`=.")
    try:
        wrong = next(_contradictions(record, saved.tensors), None)
        if wrong is None and module is None:
            wrong = next(_wrong_sizes(record, saved.tensors["params"].numel()), None)
        if wrong is not None:
            raise _damaged(wrong)
        model = build_model(record.model, record.shape, module, 0, will_be_replaced=True)
    except InputError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        if module is not None:
            raise
        raise _damaged("description") from error
    _fill(model, saved)
    note_learnt(model.extractor)
    return model


def _damaged(wrong: str) -> SavedModelError:
    return SavedModelError(f"the saved model is damaged: its {wrong} cannot be that of such a model.")


def _fill(model: ScoreModel, saved: SavedModel) -> None:
    """Put all numbers of a folder into a model that was built for them."""
    heads, tensors = saved.model.heads, dict(saved.tensors)
    params, values = tensors.pop("params"), tensors.pop(CELL_VALUES, None)
    if heads[1] != model.head_size or params.numel() != model.n_extractor_params + heads[0] * heads[1]:
        raise _damaged("number of parameters")
    n_cells = None if values is None else len(values)
    if n_cells != (model.n_cells or None):
        raise _damaged("number of cells")
    fixed = {name.removeprefix(FIXED): value for name, value in tensors.items()}
    own = model.fixed_state()
    if {name: _form(value) for name, value in fixed.items()} != {name: _form(value) for name, value in own.items()}:
        raise _damaged("fixed layers")
    model.replace_params(params)
    model.cell_values = values
    model.load_fixed_state(fixed)
    model.smoothing = saved.model.smoothing


def _form(value: Tensor) -> tuple[tuple[int, ...], torch.dtype]:
    return tuple(value.shape), value.dtype


def _contradictions(record: ModelRecord, tensors: dict[str, Tensor]) -> Iterator[str]:
    """What no model can have, whatever its network."""
    kinds = {"params": torch.float32, CELL_VALUES: torch.float64}
    for name, kind in kinds.items():
        value = tensors.get(name)
        if (value is None and name == "params") or (value is not None and (value.dtype, value.ndim) != (kind, 1)):
            yield name
    yield from (name for name, value in tensors.items() if not value.isfinite().all())
    names = {field.name for field in fields(Parameters)} - set(NOT_STORED)
    if set(record.parameters) != names:
        yield "list of parameters"
        return
    RunSettings.of(**restored(record.parameters), module=None, random_state=None)
    smoothing = record.smoothing
    if smoothing is not None and (smoothing.n_draws != record.parameters["n_draws"] or smoothing.seed < 0):
        yield "smoothing"
    if not record.groups or len(set(record.groups)) < len(record.groups):
        yield "list of groups"
    if not _is_rule(record.predictor, n_groups=len(record.groups)):
        yield "decision rule"
    yield from _other_table(record)


def _other_table(record: ModelRecord) -> Iterator[str]:
    """What the schema of the table contradicts."""
    if record.feature_schema is None:
        return
    schema = TableSchema.from_dict(record.feature_schema)
    if record.shape != (schema.n_features,):
        yield "number of inputs"
    if record.groups != schema.group_names:
        yield "list of groups"
    # Codes, if records were encoded before the fit.
    if record.classes not in ((schema.negative, schema.positive), (0, 1)):
        yield "list of labels"


def _is_rule(predictor: Predictor, *, n_groups: int) -> bool:
    """Whether a rule can decide: chances for every group, and a key where there are coins."""
    if predictor.flips is not None:
        chances = [chance for pair in predictor.flips for chance in pair]
        if len(predictor.flips) != n_groups or not all(0 <= chance <= 1 for chance in chances):
            return False
    try:
        key = bytes.fromhex(predictor.key)
    except ValueError:
        return False
    return len(key) <= _LONGEST_KEY and (bool(key) or not predictor.tosses_coins)


def _wrong_sizes(record: ModelRecord, n_params: int) -> Iterator[str]:
    """What would need far more memory than the parameters that are there, before it is built."""
    config, n_inputs, (n_heads, head_size) = record.model, math.prod(record.shape), record.heads
    if not (record.shape and all(1 <= side <= _MOST_PIXELS for side in record.shape)):
        yield "shape"
    if not (n_heads >= 1 and head_size >= 1 and n_heads * head_size <= n_params):
        yield "number of heads"
    if n_inputs > (n_params if config.kind in ("logistic", "mlp") else _MOST_PIXELS):
        yield "shape"
    widths = (n_inputs, *config.hidden) if config.kind == "mlp" else (n_inputs,)
    layers = [inner * outer for inner, outer in itertools.pairwise(widths)]
    if len(layers) > _MOST_LAYERS or sum(layers) > n_params:
        yield "hidden layers"
    if not 0 <= config.n_cells <= n_params or config.n_cells % 2 or config.n_active < 0:
        yield "number of cells"
    places = config.numeric
    if len(config.zeros) != len(places) or len(set(places)) < len(places) or not set(places) <= set(range(n_inputs)):
        yield "list of numbers"
    sizes = (*config.zeros, config.most_squares, config.row_norm)
    if not all(map(math.isfinite, sizes)) or config.most_squares <= 0 or config.row_norm <= 0:
        yield "network"
