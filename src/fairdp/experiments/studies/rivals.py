"""Models by others on the same records: DP-EBM, boosting, logistic regression, and fairlearn's reduction."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from fairdp.data.columns import Numeric
from fairdp.data.grouped import GroupedData
from fairdp.data.schema import TableSchema
from fairdp.experiments.sweeps.populations import Population, load
from fairdp.metrics.rates import metrics_of_counts
from fairdp.metrics.scored_records import area_under_roc

EPSILON, DELTA = 1.0, 1e-5
DP_EBM, DP_EBM_TUNED = "dp_ebm", "dp_ebm_tuned"
BOOSTING, LOGISTIC, REDUCTION = "boosting", "logistic_regression", "reduction"
# What readers call them.
TITLES = {
    DP_EBM: "DP-EBM",
    DP_EBM_TUNED: "DP-EBM, tuned on the test records",
    BOOSTING: "boosting, not private",
    LOGISTIC: "logistic regression, not private",
    REDUCTION: "fairlearn's reduction, not private",
}
DEFAULT_RATE = 0.01
LEARNING_RATES = (DEFAULT_RATE, 0.02, 0.05, 0.1, 0.2, 0.4)
# Where columns have no declared bounds, ours takes them up to here.
_UNDECLARED = (-3.0, 3.0)


@dataclass(frozen=True, kw_only=True)
class Rival:
    """One training of a model that is not ours.

    Parameters
    ----------
    learning_rate
        Of DP-EBM.
    max_gap
        Demographic parity gap on the training records that the reduction aims at.
    """

    name: str
    population: Population
    seed: int = 0
    learning_rate: float = DEFAULT_RATE
    max_gap: float = 1.0


def has_dp_ebm() -> bool:
    """Whether the package with DP-EBM is installed."""
    return find_spec("interpret") is not None


def reached(rival: Rival, rng: np.random.Generator) -> dict[str, float]:
    """What it reaches on the test records; its seed is its own, so that rivals of one seed are a pair with ours."""
    parts = load(rival.population)
    train, test = parts.train, parts.test
    if rival.name == REDUCTION:
        model = fitted_reduction(train, max_gap=rival.max_gap)
        on_training, chances = (model._pmf_predict(data.X)[:, 1] for data in (train, test))
        return {**figures_of(chances, test), "training_gap": figures_of(on_training, train)["gap"]}
    if rival.name == DP_EBM:
        ebm = fitted_dp_ebm(train, parts.schema, seed=rival.seed, learning_rate=rival.learning_rate)
        chances = ebm.predict_proba(whole_columns(test.inputs, parts.schema))[:, 1]
    else:
        chances = _fitted_exactly(rival.name, train).predict_proba(test.X)[:, 1]
    return {**figures_of((chances >= 0.5).astype(np.float64), test), "auc": area_under_roc(test.y, chances)[0]}


def figures_of(decisions: NDArray[np.float64], data: GroupedData) -> dict[str, float]:
    """Accuracy, rate, ratio and gap of decisions, or of the chances of positive ones."""
    cells = 2 * data.groups + data.y
    sizes, positives = (np.bincount(cells, weights, 2 * data.n_groups) for weights in (None, decisions))
    counts = np.stack([sizes - positives, positives], axis=1).reshape(data.n_groups, 2, 2)
    found = {k: v for k, v in metrics_of_counts(counts, data.group_names).items() if isinstance(v, float)}
    return {**found, "gap": found["demographic_parity_difference"]}


def fitted_dp_ebm(
    train: GroupedData, schema: TableSchema | None, *, seed: int | None, learning_rate: float = DEFAULT_RATE
) -> Any:
    """DP-EBM with what is declared of the columns, so that it spends nothing on finding it and reads nothing exactly.

    Nori, Caruana, Bu, Shen, Kulkarni (2021), *Accuracy, Interpretability, and Differential Privacy via Explainable
    Boosting*, ICML.
    """
    from interpret.privacy import DPExplainableBoostingClassifier

    X = whole_columns(train.inputs, schema)
    numbers = [name for name in X if X[name].dtype == np.float64]
    model = DPExplainableBoostingClassifier(
        feature_types=["continuous" if name in numbers else "nominal" for name in X],
        privacy_bounds=dict.fromkeys(numbers, (0.0, 1.0) if schema else _UNDECLARED),
        learning_rate=learning_rate,
        epsilon=EPSILON,
        delta=DELTA,
        random_state=seed,
        n_jobs=1,
    )
    # Any other warning would say that it looks at the records for what should have been declared.
    with warnings.catch_warnings(action="error"):
        warnings.filterwarnings("ignore", message="Privacy violation: using a fixed random_state")
        return model.fit(X, train.y)


def whole_columns(X: NDArray[np.float32], schema: TableSchema | None) -> pd.DataFrame:
    """Columns as they were before their encoding: a category as one word, a number on its declared scale."""
    if schema is None:
        return pd.DataFrame({f"x{k}": x.clip(*_UNDECLARED).astype(np.float64) for k, x in enumerate(X.T)})
    found, start = {}, 0
    for column in schema.columns:
        names = column.feature_names
        inputs = X[:, start : start + len(names)]
        if isinstance(column, Numeric):
            found[column.name] = inputs[:, 0].astype(np.float64)
        else:
            # A single input is an indicator: yes or no.
            words = np.array(names if len(names) > 1 else ("no", "yes"), dtype=object)
            found[column.name] = words[inputs.argmax(1) if len(names) > 1 else inputs[:, 0].astype(np.int64)]
        start += len(names)
    return pd.DataFrame(found)


def fitted_reduction(train: GroupedData, *, max_gap: float) -> Any:
    """A randomised choice of logistic regressions whose rates of two groups differ by so much at most.

    Agarwal, Beygelzimer, Dudík, Langford, Wallach (2018), *A Reductions Approach to Fair Classification*, ICML. It
    bounds how far a group's rate is from that of all; of two groups the smaller one is farther, by the gap times the
    share of the larger.
    """
    from fairlearn.reductions import DemographicParity, ExponentiatedGradient

    bound = max_gap * float(train.group_sizes.max() / train.n_samples)
    model = ExponentiatedGradient(LogisticRegression(max_iter=1000), DemographicParity(difference_bound=bound))
    with warnings.catch_warnings(action="ignore"):
        model.fit(train.X, train.y, sensitive_features=train.groups)
    return model


def best_rate(found: Mapping[float, Sequence[Mapping[str, float]]]) -> float:
    """The learning rate with the best accuracy on the test records, which nobody may choose by: it favours them.

    >>> best_rate({0.1: [{"accuracy": 0.8}, {"accuracy": 0.7}], 0.2: [{"accuracy": 0.74}, {"accuracy": 0.75}]})
    0.1
    """
    return max(found, key=lambda rate: float(np.mean([run["accuracy"] for run in found[rate]])))


def _fitted_exactly(name: str, train: GroupedData) -> Any:
    model = HistGradientBoostingClassifier(random_state=0) if name == BOOSTING else LogisticRegression(max_iter=1000)
    with warnings.catch_warnings(action="ignore"):
        return model.fit(train.X, train.y)
