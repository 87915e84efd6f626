"""A table of people and its schema, for the tests of commands and of what they do."""

import numpy as np
import pandas as pd

SCHEMA = {
    "label": "y",
    "positive": "yes",
    "negative": "no",
    "sensitive": [{"name": "sex", "groups": ["f", "m"]}],
    "columns": [
        {"name": "age", "type": "numeric", "low": 18, "high": 90},
        {"name": "job", "type": "categorical", "categories": ["clerk", "nurse"]},
    ],
}


def people(n_rows=600, seed=0) -> pd.DataFrame:
    """The label follows the age; the job and the group say nothing."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, n_rows)
    return pd.DataFrame(
        {
            "age": age,
            "job": rng.choice(["clerk", "nurse"], n_rows),
            "sex": rng.choice(["f", "m"], n_rows),
            "y": np.where(age + rng.normal(0, 10, n_rows) > 54, "yes", "no"),
        }
    )
