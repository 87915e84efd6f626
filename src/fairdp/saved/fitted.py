"""A fitted estimator as the contents of a model folder, and back."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fairdp.accounting.spent import PrivacySpent
from fairdp.certify.certificate import Certificate, NotCertified
from fairdp.config.model import ModelConfig
from fairdp.frontier.choice import Target
from fairdp.frontier.curve import Frontier
from fairdp.frontier.verdict import Fit
from fairdp.methods import METHODS
from fairdp.networks.models import ExtractorBuilder, ScoreModel
from fairdp.run.made import Made
from fairdp.run.predictor import Predictor
from fairdp.saved.folder import ModelRecord, SavedModel
from fairdp.saved.parameters import restored
from fairdp.saved.usable import usable_model


class Fitted(Protocol):
    """What a fitted estimator has, as far as its folder goes."""

    fitted_parameters_: dict[str, Any]
    classes_: NDArray[Any]
    group_names_: tuple[str, ...]
    feature_schema_: dict[str, Any] | None
    notes_: dict[str, Any]
    made_: Made
    model_config_: ModelConfig
    score_model_: ScoreModel
    predictor_: Predictor
    privacy_: PrivacySpent
    certificate_: Certificate | NotCertified
    frontier_: Frontier | None
    target_: Target | None


def saved_form(estimator: Fitted) -> SavedModel:
    """Everything about a fitted estimator that a copy of it needs."""
    names, model = getattr(estimator, "feature_names_in_", None), estimator.score_model_
    record = ModelRecord(
        parameters=estimator.fitted_parameters_,
        classes=tuple(estimator.classes_.tolist()),
        groups=estimator.group_names_,
        feature_schema=estimator.feature_schema_,
        feature_names=None if names is None else tuple(names.tolist()),
        predictor=estimator.predictor_,
        notes=estimator.notes_,
        made=estimator.made_,
        model=estimator.model_config_,
        shape=tuple(model.shape),
        heads=(model.heads.shape[0], model.heads.shape[1]),
        smoothing=model.smoothing,
        frontier=estimator.frontier_,
        target=estimator.target_,
    )
    return SavedModel(
        tensors=model.tensors(), model=record, privacy=estimator.privacy_, certificate=estimator.certificate_
    )


def paid_counts(saved: SavedModel) -> Fit:
    """What was released that a verdict can be based on."""
    about = saved.model
    return Fit(
        parameters=about.parameters,
        takes_target=METHODS[str(about.parameters["method"])].takes_target,
        group_names=about.groups,
        certificate=saved.certificate,
        frontier=about.frontier,
        target=about.target,
        n_inputs=about.heads[1] - about.model.bias,
    )


def loaded_form(build: Callable[..., Any], saved: SavedModel, module: ExtractorBuilder | None) -> Any:
    """Inverse of `saved_form`: the estimator, built with the saved parameters, as fitting had left it."""
    record = saved.model
    model = usable_model(saved, module)
    estimator = build(**{**restored(record.parameters), "module": module})
    estimator.model_config_, estimator.score_model_, estimator.predictor_ = record.model, model, record.predictor
    estimator.fitted_parameters_, estimator.feature_schema_ = record.parameters, record.feature_schema
    estimator.privacy_, estimator.certificate_, estimator.notes_ = saved.privacy, saved.certificate, record.notes
    estimator.classes_, estimator.group_names_ = np.array(record.classes), record.groups
    estimator.frontier_, estimator.target_, estimator.made_ = record.frontier, record.target, record.made
    estimator.n_features_in_ = model.shape[0]
    if record.feature_names is not None:
        estimator.feature_names_in_ = np.array(record.feature_names, dtype=object)
    return estimator
