"""The yardstick without privacy: fairlearn's reduction to a sequence of weighted problems, on the same records."""

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

import numpy as np
from fairlearn.reductions import DemographicParity, EqualizedOdds, ExponentiatedGradient, TruePositiveRateParity
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from fairdp.data.columns import EncodedColumns
from fairdp.data.grouped import GroupedData
from fairdp.experiments.sweeps.populations import Parts, Population, load

CONSTRAINTS = {
    "demographic_parity": DemographicParity,
    "equal_opportunity": TruePositiveRateParity,
    "equalized_odds": EqualizedOdds,
}
# Bounds on the reduction's own measure; its gaps come out somewhat larger.
BOUNDS = (0.001, 0.008, 0.02, 0.04, 0.08, 1.0)
FEATURES = ("raw", "ours")


@dataclass(frozen=True, kw_only=True)
class Reduction:
    """One run of the reduction: on the inputs as they are, or with numbers as hats, as our default has them."""

    population: Population
    parity: str
    bound: float
    features: str

    def named(self) -> dict[str, object]:
        """What tells it apart."""
        return {**asdict(self), "population": str(self.population), "split": self.population.split}


def reduce(task: Reduction, rng: np.random.Generator) -> dict[str, float]:
    """Expected accuracy, gap and positive rate of the randomised classifier on the test records."""
    parts = load(task.population)
    model = ExponentiatedGradient(
        LogisticRegression(solver="liblinear", C=100.0 if task.features == "ours" else 1.0),
        CONSTRAINTS[task.parity](difference_bound=task.bound),
    )
    X, X_test = (_inputs(parts, data, task.features) for data in (parts.train, parts.test))
    with warnings.catch_warnings(action="ignore"):
        model.fit(X, parts.train.y, sensitive_features=parts.train.groups)
    chances = model._pmf_predict(X_test)[:, 1]
    y = parts.test.y
    return {
        "accuracy": float(np.where(y == 1, chances, 1 - chances).mean()),
        "gap": _expected_gap(chances, parts.test, task.parity),
        "positive_rate": float(chances.mean()),
    }


def accuracy_at(frontier: Iterable[Mapping[str, float]], gap: float) -> float:
    """Accuracy of the reduction at a gap, between its runs; outside of them that of the nearest."""
    best = sorted((point["gap"], point["accuracy"]) for point in frontier)
    gaps, accuracies = np.array(best).T
    # A run with a larger gap that is less accurate is no part of the frontier.
    return float(np.interp(gap, gaps, np.maximum.accumulate(accuracies)))


def _inputs(parts: Parts, data: GroupedData, features: str) -> NDArray[np.float32]:
    X = data.X.reshape(data.n_samples, -1)
    numeric = () if parts.schema is None else EncodedColumns.of(parts.schema.columns).numeric
    return X if features == "raw" else _with_hats(X, numeric)


def _with_hats(X: NDArray[np.float32], numeric: tuple[int, ...]) -> NDArray[np.float32]:
    """Rows x / √(‖x‖² + 1) in which every number in [0, 1] has become six hat functions and its fourth root."""
    numbers = X[:, numeric]
    hats = np.maximum(1 - 5 * np.abs(numbers[:, :, None] - np.linspace(0, 1, 6)), 0).reshape(len(X), -1)
    rows = np.hstack([np.delete(X, numeric, axis=1), hats, numbers.clip(min=0.0) ** 0.25])
    return (rows / np.sqrt(np.square(rows).sum(1, keepdims=True) + 1)).astype(np.float32)


def _expected_gap(chances: NDArray[np.float64], data: GroupedData, parity: str) -> float:
    def gap(counted: NDArray[np.bool_]) -> float:
        rates = [chances[counted & (data.groups == group)].mean() for group in range(data.n_groups)]
        return float(np.ptp(rates))

    everybody = np.ones(data.n_samples, dtype=bool)
    gaps = {"demographic_parity": (everybody,), "equal_opportunity": (data.y == 1,)}
    return max(gap(counted) for counted in gaps.get(parity, (data.y == 1, data.y == 0)))
