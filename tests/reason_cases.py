"""A model whose scores can be worked out by hand, and a table of applicants with every kind of column."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import torch

from fairdp.data.columns import Categorical, Numeric
from fairdp.data.schema import TableSchema
from fairdp.networks.model import ScoreModel
from fairdp.networks.rows import SplineFeatures
from fairdp.run.predictor import Predictor

BY_HAND = TableSchema(
    columns=(Categorical(name="job", categories=("a", "b")), Numeric(name="income", low=0, high=100)),
    label="y",
    positive="yes",
    negative="no",
    sensitive=("region",),
    groups=(("north",),),
)
# Entries of a row: two jobs, eight splines of the income, eight of its root, 256 bins.
_B, _RICH, _BINS = 1, 2 + 7, 2 + 8 + 8


def by_hand(threshold: float) -> SimpleNamespace:
    """Score tanh(L / 2) with L = 2 [job is b] + 3 [income is 100] − threshold, for incomes of 0 and 100.

    Half of the people have each job and each income: of such a row every entry that is not zero is one.
    """
    rows = SplineFeatures(3, {2: 0.0}, most_squares=4.0, norm=2.0)
    rows.weights.fill_(10.0)
    held = [0, 1, 2, 2 + 7, 10, 10 + 7, _BINS, _BINS + 255]
    rows.weights[held] = 1.0
    model = ScoreModel(rows, (3,), n_cells=2)
    heads = torch.zeros(2, rows.width + 1)
    heads[1, [_B, _RICH, -1]] = torch.tensor([2.0, 3.0, -threshold])
    model.replace_params(heads.flatten())
    return SimpleNamespace(
        score_model_=model,
        predictor_=Predictor(),
        feature_schema_=BY_HAND.to_dict(),
    )


EVERYBODY = pd.DataFrame({"job": ["a", "a", "b", "b"], "income": [0, 100, 0, 100]})

APPLICANTS = {
    "label": "repaid",
    "positive": "yes",
    "negative": "no",
    "sensitive": [{"name": "ward", "groups": ["zq1", "zq2", "zq3"]}],
    "columns": [
        {
            "name": "income",
            "type": "numeric",
            "low": 0,
            "high": 500_000,
            "transform": "signed_log",
            "missing": "indicator",
        },
        {"name": "years", "type": "numeric", "low": 0, "high": 10},
        {"name": "since", "type": "numeric", "low": 10_957, "high": 20_088},
        {"name": "job", "type": "categorical", "categories": ["clerk", "nurse", "rest", "?"], "other": "rest"},
        {"name": "age", "type": "binned", "edges": [25, 40, 60]},
        {"name": "born", "type": "other_than", "value": "here"},
    ],
}


def applicants(n_rows=3000, seed=0) -> pd.DataFrame:
    """Repayment depends on every column; the ward follows the job."""
    rng = np.random.default_rng(seed)
    income, years = np.round(np.exp(rng.normal(10.5, 0.8, n_rows))), np.round(rng.uniform(0, 10, n_rows), 1)
    job = rng.choice(["clerk", "nurse", "welder", "baker", ""], n_rows, p=[0.4, 0.3, 0.1, 0.1, 0.1])
    age, days = rng.integers(18, 80, n_rows), rng.integers(0, 8000, n_rows)
    born = rng.choice(["here", "there", "elsewhere"], n_rows, p=[0.7, 0.2, 0.1])
    score = np.log(income) - 10.5 + 0.2 * years - 1 + (job == "nurse") + 0.02 * (age - 45) - days / 8000
    score += 0.5 * (born == "here") + rng.normal(0, 0.5, n_rows)
    ward = np.where(job == "clerk", rng.choice(["zq1", "zq2"], n_rows), rng.choice(["zq2", "zq3"], n_rows))
    texts = pd.Series(income.astype(int)).astype(str)
    texts[rng.random(n_rows) < 0.1] = ""
    return pd.DataFrame(
        {
            "income": texts,
            "years": years,
            "since": (np.datetime64("2000-01-01") + days).astype(str),
            "job": job,
            "age": age,
            "born": born,
            "ward": ward,
            "repaid": np.where(score > 0.3, "yes", "no"),
        }
    )
