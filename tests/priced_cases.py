"""People whose groups differ, and a joint model of them whose rule pays a price."""

import functools

import numpy as np

from fairdp import FairDPClassifier

SETTINGS = {"method": "fairdp_frontier", "epsilon": 8.0, "n_steps": 20, "max_gap": 0.1, "random_state": 0}
SETTINGS["certify_metrics"] = ("demographic_parity",)


@functools.cache
def unequal_people(n_samples=3000, seed=0):
    """The label follows the first column, which is higher in one group."""
    rng = np.random.default_rng(seed)
    groups = rng.choice(["f", "m"], n_samples)
    X = rng.normal(size=(n_samples, 3)).astype(np.float32)
    X[:, 0] += np.where(groups == "m", 0.6, -0.6)
    return X, (X[:, 0] + 0.5 * rng.normal(size=n_samples) > 0).astype(int), groups


@functools.cache
def priced_model(**settings) -> FairDPClassifier:
    X, y, groups = unequal_people()
    return FairDPClassifier(**{**SETTINGS, **settings}).fit(X, y, sensitive_features=groups)


def gap_of(model: FairDPClassifier) -> float:
    """Difference of the groups' rates of positive decisions on people that the model has not seen."""
    X, _, groups = unequal_people(20_000, seed=1)
    decisions = model.predict(X)
    return float(abs(decisions[groups == "f"].mean() - decisions[groups == "m"].mean()))
