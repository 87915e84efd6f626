"""A model's decisions on labelled records, as fairlearn shows them, with an interval for every gap."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pandas as pd
from fairlearn.metrics import MetricFrame, count
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted

from fairdp.data.grouped import groups_of
from fairdp.data.schema import known_table
from fairdp.data.tables import known_groups, known_labels, labelled_records, schema_for
from fairdp.errors import ParameterError, in_unit_interval
from fairdp.metrics import (
    cells_of,
    confidence_intervals,
    decision_counts,
    drawn_rates,
    evaluate_decisions,
    gap_interval,
    including,
    rate_of_counts,
    ratio_interval,
)
from fairdp.paper import PaperBounds, paper_bounds_of
from fairdp.parameters import RATES

_NO_EVIDENCE = float("nan")
# Columns beside the count; intervals are drawn in this order.
_KINDS = ("accuracy", "positive", "true_positive", "false_positive")


class Evaluation(MetricFrame):
    """fairlearn's ``MetricFrame`` of decisions, 0 or 1, with confidence intervals that are not bootstrapped.

    ``by_group``, ``overall``, ``difference()`` and the rest are fairlearn's own, over count, accuracy, selection rate,
    true and false positive rate. fairlearn leaves a group without evidence out of a difference; ``intervals`` says NaN.
    Exact figures of real records: for the data holder's eyes, outside any privacy guarantee.

    Attributes
    ----------
    intervals
        A row for each metric, by the names that commands print, with its value and the ends of its interval.
    confidence
        Chance that an interval covers the truth of the population, each for itself.
    """

    def __init__(
        self,
        y_true: NDArray[np.int64],
        decisions: NDArray[np.int64],
        *,
        scores: NDArray[np.float64],
        groups: NDArray[np.int64],
        group_names: tuple[str, ...],
        sensitive_features: Any,
        confidence: float = 0.95,
        random_state: int = 0,
    ) -> None:
        in_unit_interval(confidence=confidence)
        super().__init__(metrics=_COLUMNS, y_true=y_true, y_pred=decisions, sensitive_features=sensitive_features)
        self.confidence = confidence
        rng = np.random.default_rng(random_state)
        found = evaluate_decisions(y_true, scores, groups, group_names, decisions=decisions)
        ends = confidence_intervals(
            y_true, scores, groups, len(group_names), confidence=confidence, rng=rng, decisions=decisions
        )
        rows = {name: (found[name], *its) for name, its in ends.items()}
        self.intervals = pd.DataFrame.from_dict(rows, orient="index", columns=["value", "low", "high"])
        counts = decision_counts(y_true, decisions, groups, len(group_names))
        cells = {RATES[kind].name: cells_of(counts, kind) for kind in _KINDS}
        self._drawn = {name: (own, drawn_rates(own, 4000, rng)) for name, own in cells.items()}

    @property
    def ci_quantiles(self) -> list[float]:
        """The two quantiles that ``difference_ci`` and ``ratio_ci`` give."""
        return [(1 - self.confidence) / 2, (1 + self.confidence) / 2]

    def difference_ci(self, method: Literal["between_groups", "to_overall"] = "between_groups") -> list[pd.Series]:
        """Lower and upper ends for ``difference()``, column by column; NaN for counts."""
        return self._ends(gap_interval, self.difference(), method)

    def ratio_ci(self, method: Literal["between_groups", "to_overall"] = "between_groups") -> list[pd.Series]:
        """Lower and upper ends for ``ratio()``, column by column; NaN for counts."""
        return self._ends(ratio_interval, self.ratio(), method)

    def _ends(self, interval: Any, values: pd.Series, method: str) -> list[pd.Series]:
        if method != "between_groups":
            raise ParameterError("method", method, "must be 'between_groups'", "There are no intervals for others.")
        tail = self.ci_quantiles[0]
        ends = {name: including(float(values[name]), *interval(*self._drawn[name], tail)) for name in self._drawn}
        table = pd.DataFrame({name: ends.get(name, (_NO_EVIDENCE, _NO_EVIDENCE)) for name in values.index})
        return [table.iloc[0].rename(None), table.iloc[1].rename(None)]

    def __repr__(self) -> str:
        intervals = f"Intervals at confidence {self.confidence:g}:\n{self.intervals.round(4).to_string()}"
        return f"{self.by_group.round(4).to_string()}\n\n{intervals}"

    def _repr_html_(self) -> str:
        by_group = self.by_group.to_html(float_format="{:.4f}".format)
        intervals = self.intervals.to_html(float_format="{:.4f}".format)
        return f"{by_group}<p>Intervals at confidence {self.confidence:g}:</p>{intervals}"


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
    ) -> Evaluation:
        """Metrics on labelled records by group, as fairlearn's ``MetricFrame``, with an interval for every gap.

        A table that the model's schema reads has its own labels and groups. These are exact figures of real records:
        for the data holder's eyes only, outside the privacy guarantee.
        """
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


def evaluation_of(model: Any, X: Any, y: ArrayLike | None, *, sensitive_features: Any, **options: Any) -> Evaluation:
    """Decisions of a fitted model about labelled records, whose groups need not be those it was trained on."""
    X = known_table(X)
    schema, labels = schema_for(model, X), known_labels(model, X, y)
    scores = model.decision_function(X)
    codes = known_groups(model, X, None, len(scores)) if sensitive_features is None else None
    if codes is not None and schema is not None:
        # What the schema makes of the protected columns: a value that it does not name counts as its other one.
        named = np.array(schema.group_names, dtype=object)[codes]
        sensitive_features = pd.Series(named, name=" & ".join(schema.sensitive))
    groups, names = groups_of(sensitive_features, len(scores))
    decides_by_group = model.predictor_.flips is not None
    decided = model.predict(X, sensitive_features=sensitive_features if decides_by_group else None)
    return Evaluation(
        labels,
        (decided == model.classes_[1]).astype(np.int64),
        scores=scores,
        groups=groups,
        group_names=names,
        sensitive_features=np.full(len(labels), "all") if sensitive_features is None else sensitive_features,
        **options,
    )


def _column(kind: str) -> Callable[[NDArray[np.int64], NDArray[np.int64]], float]:
    """A rate of labels and decisions, as fairlearn wants it; without evidence NaN, and not fairlearn's zero."""

    def rate(y_true: NDArray[np.int64], y_pred: NDArray[np.int64]) -> float:
        return float(rate_of_counts(decision_counts(y_true, y_pred, np.zeros_like(y_true), 1), kind)[0])

    return rate


_COLUMNS = {"count": count, **{RATES[kind].name: _column(kind) for kind in _KINDS}}
