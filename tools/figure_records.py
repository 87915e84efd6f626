"""The records and networks that the cases of `run_figures.py` are fitted on and with."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, wraps
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import fairdp

SEED = 0
N_TEST = 300
# Enough to train on, and little enough for a minute or two in all.
SMALL: dict[str, Any] = {"epsilon": 2.0, "n_steps": 30, "sample_rate": 0.1, "n_draws": 10, "random_state": SEED}
REGIONS = ("east", "north", "west")
JOBS = ("clerk", "nurse", "smith", "teacher")
SCHEMA = {
    "label": "approved",
    "positive": "yes",
    "negative": "no",
    "sensitive": [{"name": "region", "groups": list(REGIONS)}],
    "columns": [
        {"name": "age", "type": "numeric", "low": 18, "high": 90},
        {"name": "income", "type": "numeric", "low": 0, "high": 200},
        {"name": "debt", "type": "numeric", "low": 0, "high": 100},
        {"name": "job", "type": "categorical", "categories": list(JOBS)},
    ],
}
N_COLUMNS = 3 + len(JOBS)


@dataclass(frozen=True, eq=False)
class Records:
    """Records with the names of their groups; the last ones are for testing."""

    X: NDArray[np.float32]
    y: NDArray[np.int64]
    groups: NDArray[np.str_]

    @property
    def train(self) -> "Records":
        """All but the last records."""
        return Records(self.X[:-N_TEST], self.y[:-N_TEST], self.groups[:-N_TEST])

    @property
    def test(self) -> "Records":
        """The last records."""
        return Records(self.X[-N_TEST:], self.y[-N_TEST:], self.groups[-N_TEST:])


def population() -> Records:
    """The built-in population with two groups."""
    data = fairdp.synthetic_population(n_groups=2, n_features=6).sample(1500 + N_TEST, np.random.default_rng(SEED))
    return Records(data.X, data.y, np.array(data.group_names)[data.groups])


def people() -> pd.DataFrame:
    """A table of people from three regions, half of them from the first; income and region decide."""
    rng = np.random.default_rng(SEED)
    n_rows = 1500 + N_TEST
    region = rng.choice(3, n_rows, p=(0.5, 0.3, 0.2))
    income = rng.gamma(4.0, 12.0, n_rows).clip(0, 200).round(1)
    score = income - 6 * region + rng.normal(0, 8, n_rows)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 90, n_rows),
            "income": income,
            "debt": rng.exponential(20.0, n_rows).clip(0, 100).round(2),
            "job": rng.choice(JOBS, n_rows),
            "region": np.array(REGIONS)[region],
            "approved": np.where(score > 40, "yes", "no"),
        }
    )


def table() -> Records:
    """The table of people as numbers: three scaled columns, and one for each job."""
    frame = people()
    numbers = (frame[["age", "income", "debt"]].to_numpy() - (54, 48, 20)) / (36, 24, 20)
    jobs = frame["job"].to_numpy()[:, None] == np.array(JOBS)
    y = (frame["approved"] == "yes").to_numpy().astype(np.int64)
    return Records(np.hstack([numbers, jobs]).astype(np.float32), y, frame["region"].to_numpy(dtype=str))


def images() -> Records:
    """Grey noise, the upper half brighter or darker by the label; two groups of unequal contrast."""
    rng = np.random.default_rng(SEED)
    n_images = 600 + N_TEST
    groups, y = rng.choice(2, n_images, p=(0.6, 0.4)), rng.integers(0, 2, n_images)
    X = rng.normal(size=(n_images, 1, 8, 8))
    X[:, :, :4] += ((2 * y - 1) * (1.0 - 0.4 * groups))[:, None, None, None]
    return Records(X.astype(np.float32), y, np.array(["dark", "light"])[groups])


@cache
def records_of(name: str) -> Records:
    """The records of one of the functions above, made once."""
    return {"population": population, "table": table, "images": images}[name]()


def with_dropout() -> nn.Module:
    """Layers that toss coins in training."""
    return nn.Sequential(nn.Linear(N_COLUMNS, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 8), nn.Tanh())


class Residual(nn.Module):
    """A forward of its own, which nothing is known of."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(N_COLUMNS, N_COLUMNS), nn.Linear(N_COLUMNS, 8)

    def forward(self, records: Tensor) -> Tensor:
        """Embeddings of records."""
        return torch.tanh(self.outer(records + torch.sin(self.inner(records))))


def normalised() -> nn.Module:
    """Known layers that are not a plain stack."""
    return nn.Sequential(nn.Linear(N_COLUMNS, 12), nn.LayerNorm(12), nn.GELU(), nn.Linear(12, 6))


def convolutions() -> nn.Module:
    """Convolutions over images, one of them in blocks of channels."""
    first = (nn.Conv2d(1, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.ReLU(), nn.MaxPool2d(2))
    return nn.Sequential(*first, nn.Conv2d(4, 8, 3, groups=2), nn.Tanh(), nn.Flatten(), nn.Linear(32, 8))


def frozen() -> nn.Module:
    """Random features that are not trained: only the head is."""
    return nn.Sequential(nn.Linear(N_COLUMNS, 24), nn.Tanh()).requires_grad_(False)


@contextmanager
def noise_of_any_processor() -> Iterator[None]:
    """Round what certificates spend down to eight digits after the point: further ones differ between processors.

    The noise on counts is keyed by this ε, so that the last bit of a Fourier transform decides about all of it.
    """
    import fairdp.accounting.plan as plan

    exact = plan.certify_epsilons

    @wraps(exact)
    def rounded(*given: Any) -> list[float]:
        return [epsilon if math.isinf(epsilon) else math.floor(epsilon * 1e8) / 1e8 for epsilon in exact(*given)]

    plan.certify_epsilons = rounded
    try:
        yield
    finally:
        plan.certify_epsilons = exact
