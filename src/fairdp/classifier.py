"""The scikit-learn estimators: one classifier for every method, and an encoder by a schema."""

import copy
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from fairdp.accounting.mechanisms import Reading
from fairdp.data.grouped import GroupedData, check_declared_groups, grouped_arrays, raw_table
from fairdp.data.schema import TableSchema, frame_of, is_table, known_table
from fairdp.data.tables import Declared, check_names, grouped_table, known_groups, model_records, schema_of, whole_table
from fairdp.defaults import with_parameters
from fairdp.distributed import process_group
from fairdp.errors import DataError
from fairdp.evaluation import MeasuresItself
from fairdp.frontier.verdict import Verdict, judged
from fairdp.ledger.ledger import Spending
from fairdp.networks.model import ExtractorBuilder, ScoreModel
from fairdp.parameters import Parameters
from fairdp.run.certifying import Trial
from fairdp.run.fit import Fitted, Progress, assumed_with, assumptions_from_records, fit
from fairdp.run.plan import checked
from fairdp.run.predictor import reasons_of
from fairdp.saved.folder import paid_counts, place_for_model, read_model, retargeted, usable_model, write_model
from fairdp.statements.certificate import certificate_statement, html_of_fit

_FITS = ("fit", "_fit", "fit_predict", "fit_transform")
# Steps whose own words are "passthrough", "drop" or None do nothing.
_NOTHING = (str, type(None))


class ShownInNotebooks:
    """For an estimator of scikit-learn, which shows its own diagram before it is fitted."""

    fitted_: Fitted

    def _repr_html_(self) -> str:
        """A small table of what is promised, for notebooks; before fitting, scikit-learn's diagram."""
        if not hasattr(self, "fitted_"):
            unfitted: Any = super()
            return unfitted._repr_html_()
        return html_of_fit(self.fitted_.parameters.method, self.fitted_.privacy, self.fitted_.certificate)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """Both forms, which notebooks ask for first; scikit-learn's version would show only parameters."""
        return {"text/plain": repr(self), "text/html": self._repr_html_()}


def _released(name: str) -> Any:
    """An attribute of a fitted estimator that is a part of what its fit released."""
    return property(lambda estimator: getattr(estimator.fitted_, name))


@with_parameters
class FairDPClassifier(ShownInNotebooks, MeasuresItself, Parameters, ClassifierMixin, BaseEstimator):
    r"""Binary classifier trained with differential privacy, group by group.

    {parameters}

    Attributes
    ----------
    privacy_
        What was spent, per group, and how it was accounted.
    certificate_
        Bounds on the fairness gaps, or why there are none.
    frontier_
        What the model offers at every price of fairness, for `fairdp_frontier`; else None.
    verdict_
        Whether it has learnt anything and meets its target, by counts that are paid for; as text, with what to try.
    classes_, group_names_, n_features_in_, feature_names_in_
        The two labels, the group names, the number of features, and their names if X was a DataFrame.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 3))
    >>> y = (X[:, 0] > 0).astype(int)
    >>> sex = rng.choice(["f", "m"], size=2000)
    >>> model = FairDPClassifier(epsilon=2.0, n_steps=100, random_state=0).fit(X, y, sensitive_features=sex)
    >>> bool(model.privacy_.epsilon <= 2.0)
    True
    >>> model.predict(X[:3]).shape
    (3,)
    """

    # Routed on request, though `fit` does not name it.
    __metadata_request__fit: ClassVar[dict[str, None]] = {"sample_weight": None}

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        sensitive_features: ArrayLike | None = None,
        schema: Declared | None = None,
        **weights: ArrayLike | None,
    ) -> Self:
        """Train on records with two labels.

        Parameters
        ----------
        X
            Features, shape (n_samples, n_features), or images, shape (n_samples, channels, height, width); with
            ``schema`` a table of pandas, polars or Arrow with columns of any kind.
        y
            Labels, shape (n_samples,), with two values; the larger one is the positive class, or the schema's. None:
            the label's column of the table, with ``schema``.
        sensitive_features
            Group of each record: array, Series, list, or a DataFrame whose columns are combined. None: the protected
            columns of the table, with ``schema``; otherwise one group.
        schema
            What the columns may hold, declared: the path of a YAML or JSON file such as ``fairdp schema`` proposes, the
            same as a dict, or a ``TableSchema``. It encodes this table, those that are predicted, and is saved.
        sample_weight
            Weight of each record in the loss, from 0 to ``max_sample_weight``, shape (n_samples,). Not named above: to
            scikit-learn a record of weight two is two records; here it counts twice, within the same sensitivity.
        """
        unknown = sorted(set(weights) - {"sample_weight"})
        if unknown:
            raise TypeError(f"fit() got an unexpected keyword argument {unknown[0]!r}.")
        X, sensitive_features = known_table(X), known_table(sensitive_features)
        draft, declared = copy.copy(self), None if schema is None else schema_of(schema)
        given = (X, y, sensitive_features)
        read, raw = grouped_arrays, raw_table
        if declared is not None:
            read, raw = partial(grouped_table, declared), partial(whole_table, declared)
        data, classes = read(draft, *given, weights.get("sample_weight"))
        with Spending(self.ledger, command="fit") as spending:
            data = spending.followed(data, lambda: raw(*given))
            assumed = assumptions_from_records(self, sensitive_features, schema=declared, before=fitted_before())
            plain = None if declared is None else declared.to_dict()
            draft.fit_grouped(
                data, classes=classes, public_assumptions=assumed, feature_schema=plain, spending=spending
            )
            draft.amend(privacy=spending.completed(draft.privacy_))
        # A schema has filled these in for this fit; the estimator's own parameters stay as they were given.
        draft.group_sizes, draft.table = self.group_sizes, self.table
        return self._become(draft)

    def fit_grouped(
        self,
        data: GroupedData,
        *,
        classes: ArrayLike = (0, 1),
        progress: Progress | None = None,
        public_assumptions: tuple[str, ...] = (),
        feature_schema: dict[str, Any] | None = None,
        reading: Reading | None = None,
        trial: Trial | None = None,
        spending: Spending | None = None,
    ) -> Self:
        """Train on records that are already encoded, with optional progress and checkpoints.

        ``feature_schema`` says how raw tables were encoded; it is saved with the model, so that commands can use it.
        ``reading`` says how it was read with noise, if it was. ``trial`` describes a fit that is one of several in
        `fairdp.tune`. ``spending`` pays for it, and is completed by whoever gave it; None: the estimator's ``ledger``
        pays; it cannot tell encoded records apart, so all records of ``table`` count as used.
        """
        check_declared_groups(self, data)
        progress = progress or Progress()
        schema = None if feature_schema is None else TableSchema.from_dict(feature_schema)
        paid = reading is not None or (trial is not None and trial.selection.reading is not None)
        payer = spending or Spending(self.ledger, command="fit", checkpoint=progress.checkpoint)
        with payer if spending is None else nullcontext():
            model, fitted = fit(
                checked(**self.get_params(deep=False)),
                data,
                payer,
                progress,
                table=self.table,
                public_assumptions=assumed_with(public_assumptions, schema, paid=paid),
                columns=None if schema is None else schema.encoded,
                reading=reading,
                trial=trial,
            )
            if spending is None:
                fitted = replace(fitted, privacy=payer.completed(fitted.privacy))
        return self._become(copy.copy(self).take(model, replace(fitted, feature_schema=feature_schema), classes))

    def _become(self, fitted: Self) -> Self:
        """Take over a fit in one step, and only when all of it is done: one that fails leaves the earlier one whole."""
        self.__dict__ = fitted.__dict__
        return self

    def take(self, model: ScoreModel, fitted: Fitted, classes: ArrayLike = (0, 1)) -> Self:
        """Take the results of a finished run with the same parameters."""
        self.score_model_, self.classes_, self.n_features_in_ = model, np.asarray(classes), model.shape[0]
        names = getattr(self, "feature_names_in_", None)
        self.fitted_ = replace(
            fitted,
            classes=tuple(self.classes_.tolist()),
            feature_names=None if names is None else tuple(names.tolist()),
        )
        return self

    def amend(self, **changes: Any) -> Self:
        """Change what is said of the fit: its certificate, say, or what a ledger adds up."""
        self.fitted_ = replace(self.fitted_, **changes)
        return self

    privacy_, certificate_, frontier_ = _released("privacy"), _released("certificate"), _released("frontier")
    target_, predictor_, notes_ = _released("target"), _released("predictor"), _released("notes")
    group_names_, feature_schema_ = _released("groups"), _released("feature_schema")
    n_train_, n_certify_, seconds_ = _released("n_train"), _released("n_certify"), _released("seconds")

    @property
    def verdict_(self) -> Verdict:
        """The verdict by counts that are paid for: whether the model has learnt anything and meets its target."""
        check_is_fitted(self)
        return judged(paid_counts(self.fitted_))

    def __getstate__(self) -> dict[str, Any]:
        """The state with None for the default delta, which is recognised by identity; pickling does not keep that."""
        state: dict[str, Any] = super().__getstate__()
        return {**state, "delta": None} if self.delta is Parameters.delta else state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({**state, "delta": Parameters.delta} if state["delta"] is None else state)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "fitted_")

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Scores; the deterministic predictor is positive where they are at least zero. No group is needed."""
        return self.scores(self._records(X))

    def _records(self, X: ArrayLike) -> NDArray[np.float32]:
        check_is_fitted(self)
        return model_records(self, X)

    def scores(self, X: NDArray[np.float32]) -> NDArray[np.float64]:
        """Scores of records that are already encoded."""
        return self.score_model_.scores(torch.from_numpy(np.require(X, np.float32, ["C", "W"]))).double().numpy()

    def predict(
        self, X: ArrayLike, *, sensitive_features: ArrayLike | None = None, person_ids: Sequence[Any] | None = None
    ) -> NDArray[Any]:
        """The predicted label of each record, by the rule that was certified.

        Only ``dp_postprocess`` needs ``sensitive_features``, or the protected columns of a table that it was fitted on
        with a schema. ``person_ids`` tell apart people with equal records, for predictors that toss coins.
        """
        X = known_table(X)
        records = self._records(X)
        asked = sensitive_features is not None or self.predictor_.flips is not None
        groups = known_groups(self, X, sensitive_features, len(records)) if asked else None
        return self.classes_[self.predictor_.decisions(self.score_model_, records, person_ids, groups=groups)]

    def reasons(self, table: Any, *, k: int = 4) -> pd.DataFrame:
        """Why `predict` refuses people, in words: ``reason_1`` to ``reason_k``, and whether these ``reasons_suffice``.

        The columns whose public reference would raise the score most, for the default on a table with its schema's
        columns; other models have none, nor have people who are accepted.
        """
        check_is_fitted(self)
        return reasons_of(self, table, k=k)

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Probabilities of the two labels by the model, shape (n_samples, 2).

        ``fairdp_frontier`` states what it believes about the label, whatever its fairness target makes of the decision:
        `predict` may differ from the likelier label.
        """
        positive = self.probabilities(self._records(X))
        return np.column_stack([1 - positive, positive])

    def probabilities(self, X: NDArray[np.float32]) -> NDArray[np.float64]:
        """Chance of the positive label of records that are already encoded."""
        return self.score_model_.probabilities(torch.from_numpy(np.require(X, np.float32, ["C", "W"]))).numpy()

    def privacy_statement(self) -> str:
        """The privacy guarantee in words, and which label the model calls positive."""
        check_is_fitted(self)
        return f"{self.privacy_.statement()} A positive decision is {str(self.classes_[1])!r}."

    def certificate_statement(self) -> str:
        """The fairness certificate in words, with what it does not promise."""
        check_is_fitted(self)
        return certificate_statement(self.certificate_)

    def retarget(
        self, *, max_gap: float | None = None, min_ratio: float | None = None, price: float | None = None
    ) -> Self:
        """The same model with its rule moved to another target, without any record; for `fairdp_frontier`.

        It costs no privacy. The new rule has no certificate: ``fairdp certify`` makes one on fresh records.
        """
        check_is_fitted(self)
        return retargeted(self, max_gap=max_gap, min_ratio=min_ratio, price=price)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write the model to a folder, completely or not at all; over another model only if that is said.

        Of several processes that fitted it together, the first one writes.
        """
        check_is_fitted(self)
        if not process_group().is_rank_zero:
            return
        with place_for_model(Path(folder), overwrite=overwrite):
            write_model(Path(folder), replace(self.fitted_, tensors=self.score_model_.tensors()))

    @classmethod
    def load(cls, folder: str | Path, *, module: ExtractorBuilder | None = None) -> Self:
        """Read a saved model; one trained with your own module needs that module's builder again."""
        fitted = read_model(Path(folder))
        model = usable_model(fitted, module)
        loaded = cls(**{**vars(fitted.parameters), "module": module})
        if fitted.feature_names is not None:
            loaded.feature_names_in_ = np.array(fitted.feature_names, dtype=object)
        return loaded.take(model, fitted, np.array(fitted.classes))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True
        return tags


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
    """True if what a step does follows from its parameters and the names of columns, whatever the rows hold."""
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


class SchemaEncoder(TransformerMixin, BaseEstimator):
    """Encode the columns of a table by what a schema declares of them: no row has a say in how others are encoded.

    Numbers are scaled into [0, 1] by their declared bounds, categories become columns of zeros and ones, as in every
    command. A scaler, imputer or encoder that is fitted on private rows would tell of them what no ε covers; this one
    is fitted from declarations alone. `fit` looks at no value: it checks that the columns are there.

    Parameters
    ----------
    schema
        Path of a YAML or JSON file, the same as a dict, or a ``TableSchema``. The label and the protected columns that
        it declares are no inputs and need not be in the table.

    Attributes
    ----------
    schema_
        The schema, read once.
    n_features_in_, feature_names_in_
        The columns of the table that it was fitted on.

    Examples
    --------
    >>> import pandas as pd
    >>> schema = {
    ...     "label": "paid", "positive": "1", "negative": "0",
    ...     "sensitive": [{"name": "sex", "groups": ["f", "m"]}],
    ...     "columns": [{"name": "age", "type": "numeric", "low": 0, "high": 100}],
    ... }
    >>> SchemaEncoder(schema).fit_transform(pd.DataFrame({"age": [20, 50]})).tolist()
    [[0.20000000298023224], [0.5]]
    """

    def __init__(self, schema: Declared) -> None:
        self.schema = schema

    def fit(self, X: Any, y: Any = None) -> Self:
        """Read the schema and check that its columns are in the table; values are not looked at."""
        schema = schema_of(self.schema)
        names = [str(name) for name in _frame(X).columns]
        check_names(schema, names)
        self.schema_, self.n_features_in_ = schema, len(names)
        self.feature_names_in_ = np.array(names, dtype=object)
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Features in [0, 1], shape (n_samples, n_features); columns that are not declared are left out."""
        frame = _frame(X)
        check_names(self._schema(), [str(name) for name in frame.columns])
        return self._schema().encode(frame)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Name of each encoded feature."""
        if hasattr(self, "schema_"):
            _check_feature_names_in(self, input_features)
        return np.array(self._schema().feature_names, dtype=object)

    def _schema(self) -> TableSchema:
        """The schema that `fit` has read; without it, nothing else would be there to learn."""
        return self.schema_ if hasattr(self, "schema_") else schema_of(self.schema)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.two_d_array, tags.input_tags.string, tags.input_tags.categorical = False, True, True
        tags.input_tags.allow_nan = True
        return tags


def _frame(X: Any) -> Any:
    if not is_table(X):
        raise DataError(
            f"SchemaEncoder encodes named columns of a table of pandas, polars or Arrow, got {type(X).__name__}."
        )
    return frame_of(X)
