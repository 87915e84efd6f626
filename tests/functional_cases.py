"""Records for the functional mechanism, its source of noise, and its polynomial as a matrix."""

import numpy as np

from fairdp.randomness import keyed_below


def source(purpose: str = "noise"):
    return keyed_below(bytes(32), purpose)


def records(n: int, n_features: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features))
    return X, (X[:, 0] + rng.normal(size=n) > 0.5).astype(int)


def matrix_of(coefs: np.ndarray, d: int) -> np.ndarray:
    upper = np.zeros((d, d))
    upper[np.triu_indices(d)] = coefs[d:]
    return upper + np.triu(upper, 1).T
