"""How a fitted estimator measures itself on labelled records: exact figures, for the data holder's eyes only."""

from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from fairdp.data.by_schema import known_labels, labelled_records
from fairdp.data.frames import known_table
from fairdp.run.paper_bounds import PaperBounds
from fairdp.saved.diagnostics import paper_bounds_of

if TYPE_CHECKING:  # fairlearn takes a quarter of a second to load, and a fit does not need it.
    from fairdp.metrics.evaluation import Evaluation


class MeasuresItself:
    """For an estimator of scikit-learn that can be fitted on a table with a schema, which then has its own labels."""

    def score(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        sensitive_features: ArrayLike | None = None,
    ) -> float:
        """Accuracy of `predict`; a table that the schema reads has its own labels."""
        model, X = _fitted(self), known_table(X)
        decisions = model.predict(X, sensitive_features=sensitive_features)
        from sklearn.metrics import accuracy_score

        y = model.classes_[known_labels(model, X, y)] if y is None else y
        return float(accuracy_score(y, decisions, sample_weight=sample_weight))

    def evaluate(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        sensitive_features: Any = None,
        confidence: float = 0.95,
        random_state: int = 0,
    ) -> "Evaluation":
        """Metrics on labelled records by group, as fairlearn's ``MetricFrame``, with an interval for every gap.

        A table that the model's schema reads has its own labels and groups. These are exact figures of real records:
        for the data holder's eyes only, outside the privacy guarantee.
        """
        from fairdp.metrics.evaluation import evaluation_of

        return evaluation_of(
            _fitted(self), X, y, sensitive_features=sensitive_features, confidence=confidence, random_state=random_state
        )

    def paper_bounds(self, X: Any, y: Any = None, *, sensitive_features: Any = None, **options: Any) -> PaperBounds:
        """The paper's own certificates of this model, as diagnostics: none of them is certified.

        Theorem 2, and Proposition 3 (τ_emp) on these records, in the paper the training records: exact figures, for the
        data holder's eyes only. ``options``: ``confidence``, ``release_epsilon`` (ε' of Remark 2), ``random_state``.
        """
        model = _fitted(self)
        return paper_bounds_of(model, labelled_records(model, X, y, sensitive_features), **options)


def _fitted(estimator: Any) -> Any:
    check_is_fitted(estimator)
    return estimator
