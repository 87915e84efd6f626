"""Scored records whose true rates are known."""

import numpy as np

NAMES = {2: ("a", "b"), 3: ("a", "b", "c")}


def sample(n: int, n_groups: int, rng: np.random.Generator, gap: float = 0.6):
    """Labels, scores and groups; the scores of the groups differ in the mean by the gap."""
    groups = rng.integers(n_groups, size=n)
    y = rng.integers(2, size=n)
    return y, rng.standard_normal(n) + 0.8 * y - 0.4 + gap * (groups == 0), groups
