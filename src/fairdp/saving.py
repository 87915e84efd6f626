"""A trained model as plain tensors and JSON, and back."""

import math
from dataclasses import asdict
from typing import Any

import numpy as np
from torch import Tensor

from fairdp.artifacts import SavedModel
from fairdp.config import ModelConfig, plain
from fairdp.fitting import build_model
from fairdp.training.models import ExtractorBuilder, ScoreModel

# Frozen parameters and buffers of a module, in the saved tensors.
_FIXED = "extractor."


def tensors_of(model: ScoreModel) -> dict[str, Tensor]:
    """All numbers of a model: the trained vector, and what stayed fixed."""
    return {"params": model.params, **{_FIXED + name: value for name, value in model.fixed_state().items()}}


def describe_model(config: ModelConfig, model: ScoreModel) -> dict[str, Any]:
    """What it takes to build the same model again."""
    return {"model": asdict(config), "shape": list(model.shape), "heads": list(model.heads.shape)}


def rebuild_model(saved: SavedModel, module: ExtractorBuilder | None) -> tuple[ModelConfig, ScoreModel]:
    """The model of a saved folder; a module is code, so its builder must be given again."""
    described = saved.model["model"]
    config = ModelConfig(**{**described, "hidden": tuple(described["hidden"])})
    if config.kind == "custom" and module is None:
        raise ValueError("the model was trained with an own module; pass its builder as module=.")
    model = build_model(config, tuple(saved.model["shape"]), module, np.random.default_rng(0))
    tensors = dict(saved.tensors)
    model.replace_params(tensors.pop("params"))
    fixed = {name.removeprefix(_FIXED): value for name, value in tensors.items()}
    model.load_fixed_state(fixed)
    return config, model


def storable(parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters as JSON can hold them; a module is code, and a seed may be the secret that the guarantee rests on."""
    kept = {name: plain(value) for name, value in parameters.items() if name not in ("module", "random_state")}
    lists = {name: [plain(v) for v in value] for name, value in kept.items() if isinstance(value, (tuple, list))}
    infinite = {name: "inf" for name, v in kept.items() if isinstance(v, float) and math.isinf(v)}
    return {**kept, **lists, **infinite}


def restored(parameters: dict[str, Any]) -> dict[str, Any]:
    """Inverse of `storable`."""
    values = {name: math.inf if value == "inf" else value for name, value in parameters.items()}
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
