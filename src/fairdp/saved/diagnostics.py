"""The paper's own certificates of a fitted or loaded model."""

from typing import Any

from fairdp.data.grouped import GroupedData
from fairdp.run.last_step import LastStep, check_for_paper_bounds, last_step_of
from fairdp.run.paper_bounds import PaperBounds, paper_bounds
from fairdp.saved.fitted import Fitted
from fairdp.saved.parameters import restored


def last_step_of_model(model: Fitted) -> LastStep:
    """The step that made the deployed head."""
    parameters, scores = restored(model.fitted_parameters_), model.score_model_
    return last_step_of(
        parameters,
        model.model_config_.kind,
        model.privacy_,
        n_members=len(scores.heads),
        # While it was trained, there was one head.
        n_params=scores.n_extractor_params + scores.head_size,
    )


def paper_bounds_of(model: Fitted, data: GroupedData, **options: Any) -> PaperBounds:
    """The paper's certificates of a model on records that are already encoded, as diagnostics."""
    method = model.fitted_parameters_["method"]
    check_for_paper_bounds(method, noise_std=model.privacy_.noise_std)
    coins = model.predictor_.tosses_coins
    last = last_step_of_model(model)
    return paper_bounds(model.score_model_, data, last, method=method, tosses_coins=coins, **options)
