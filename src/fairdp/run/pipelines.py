"""What a scikit-learn pipeline has learnt from the rows before they reach the estimator in it.

An estimator is not told that it is in a pipeline. But while it is fitted, so is the pipeline, and stands among the
callers, in cross-validation and in searches too. Where nothing is found, nothing is said: a search that stands inside a
pipeline and fits in other processes hides what is before it.
"""

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils import get_tags

_FITS = ("fit", "_fit", "fit_predict", "fit_transform")
# Steps whose own words are "passthrough", "drop" or None do nothing.
_NOTHING = (str, type(None))


def fitted_before() -> tuple[str, ...]:
    """Classes of the steps that were fitted on the same rows before the estimator whose ``fit`` calls this."""
    found: list[str] = []
    seen: set[int] = set()
    for pipeline, place in _pipelines(sys._getframe(1)):
        # Of the frames of one pipeline, the innermost knows which of its steps is being fitted.
        if id(pipeline) not in seen:
            seen.add(id(pipeline))
            steps = [step for _, step in pipeline.steps[:place]]
            found = [*(type(part).__name__ for step in steps for part in _learning(step)), *found]
    return tuple(dict.fromkeys(found))


def _pipelines(frame: FrameType | None) -> Iterator[tuple[Pipeline, int]]:
    """Pipelines that are being fitted, innermost first, with the place of the step that is next."""
    while frame is not None:
        if frame.f_code.co_name in _FITS:
            pipeline = frame.f_locals.get("self")
            if isinstance(pipeline, Pipeline):
                # Steps before the last are fitted one by one in `_fit`, which counts them.
                place = frame.f_locals.get("step_idx", -1) if frame.f_code.co_name == "_fit" else -1
                yield pipeline, place
        frame = frame.f_back


def _learning(step: Any) -> Iterator[Any]:
    """The parts of a step that learn from rows."""
    if isinstance(step, _NOTHING):
        return
    if isinstance(step, Pipeline):
        parts = [part for _, part in step.steps]
    elif isinstance(step, FeatureUnion):
        parts = [part for _, part in step.transformer_list]
    elif isinstance(step, ColumnTransformer):
        parts = [*(transformer for _, transformer, _ in step.transformers), step.remainder]
    else:
        if not _is_declared(step):
            yield step
        return
    for part in parts:
        yield from _learning(part)


def _is_declared(step: Any) -> bool:
    """Whether what a step does follows from its parameters and the names of columns, whatever the rows hold."""
    kind = type(step).__name__
    # What is frozen was fitted elsewhere: of that nothing can be known here.
    if kind in ("FrozenEstimator", "PolynomialFeatures"):
        return True
    if kind in ("OneHotEncoder", "OrdinalEncoder"):
        grouped = step.min_frequency is not None or step.max_categories is not None
        return not isinstance(step.categories, str) and not grouped
    if kind == "SimpleImputer":
        return bool(step.strategy == "constant" and not step.add_indicator)
    try:
        return not get_tags(step).requires_fit
    except (AttributeError, NotImplementedError):
        return False
