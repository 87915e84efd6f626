"""A trained model as plain tensors and JSON, and back."""

import math
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fairdp.accounting.spent import PrivacySpent
from fairdp.certify.certificate import Certificate, NotCertified, certificate_from
from fairdp.certify.record import certificate_record
from fairdp.config.model import ModelConfig
from fairdp.config.training import plain
from fairdp.networks.building import build_model
from fairdp.networks.models import FIXED, ExtractorBuilder, ParameterSmoothing, ScoreModel
from fairdp.run.predictor import Predictor
from fairdp.saved.folder import SavedModel

Plain: TypeAlias = dict[str, Any]


class Fitted(Protocol):
    """What a fitted estimator has, as far as its saved form goes."""

    fitted_parameters_: Plain
    classes_: NDArray[Any]
    group_names_: tuple[str, ...]
    feature_schema_: Plain | None
    notes_: Plain
    model_config_: ModelConfig
    score_model_: ScoreModel
    predictor_: Predictor
    privacy_: PrivacySpent
    certificate_: Certificate | NotCertified


def saved_form(estimator: Fitted) -> SavedModel:
    """Everything about a fitted estimator that a copy of it needs."""
    names = getattr(estimator, "feature_names_in_", None)
    about = {
        "parameters": estimator.fitted_parameters_,
        "classes": estimator.classes_.tolist(),
        "groups": list(estimator.group_names_),
        "feature_schema": estimator.feature_schema_,
        "feature_names": None if names is None else names.tolist(),
        "predictor": estimator.predictor_.to_dict(),
        "notes": estimator.notes_,
    }
    return SavedModel(
        tensors=estimator.score_model_.tensors(),
        model={**about, **describe_model(estimator.model_config_, estimator.score_model_)},
        privacy=estimator.privacy_.to_dict(),
        certificate=certificate_record(estimator.certificate_),
    )


def loaded_form(build: Callable[..., Any], saved: SavedModel, module: ExtractorBuilder | None) -> Any:
    """Inverse of `saved_form`: the estimator, built with the saved parameters, as fitting had left it."""
    estimator = build(**{**restored(saved.model["parameters"]), "module": module})
    for name, value in _fitted_attributes(saved, module).items():
        setattr(estimator, name, value)
    return estimator


def _fitted_attributes(saved: SavedModel, module: ExtractorBuilder | None) -> dict[str, Any]:
    """What fitting set, from the saved form."""
    config, model = rebuild_model(saved, module)
    names = saved.model.get("feature_names")
    return {
        "model_config_": config,
        "score_model_": model,
        "fitted_parameters_": saved.model["parameters"],
        "privacy_": PrivacySpent.from_dict(saved.privacy),
        "certificate_": certificate_from(saved.certificate),
        "predictor_": Predictor(**saved.model["predictor"]),
        "feature_schema_": saved.model["feature_schema"],
        "classes_": np.array(saved.model["classes"]),
        "group_names_": tuple(saved.model["groups"]),
        "notes_": saved.model["notes"],
        "n_features_in_": model.shape[0],
        **({} if names is None else {"feature_names_in_": np.array(names, dtype=object)}),
    }


def describe_model(config: ModelConfig, model: ScoreModel) -> dict[str, Any]:
    """What it takes to build the same model again."""
    return {
        "model": asdict(config),
        "shape": list(model.shape),
        "heads": list(model.heads.shape),
        "smoothing": model.described_smoothing(),
    }


def rebuild_model(saved: SavedModel, module: ExtractorBuilder | None) -> tuple[ModelConfig, ScoreModel]:
    """The model of a saved folder; a module is code, so its builder must be given again."""
    described = saved.model["model"]
    config = ModelConfig(**described)
    if config.kind == "custom" and module is None:
        raise ValueError("the model was trained with an own module; pass its builder as module=.")
    model = build_model(config, tuple(saved.model["shape"]), module, np.random.default_rng(0))
    tensors = dict(saved.tensors)
    model.replace_params(tensors.pop("params"))
    fixed = {name.removeprefix(FIXED): value for name, value in tensors.items()}
    model.load_fixed_state(fixed)
    if saved.model["smoothing"] is not None:
        model.smoothing = ParameterSmoothing(**saved.model["smoothing"])
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
