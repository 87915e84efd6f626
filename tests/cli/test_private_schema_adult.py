"""Cost to the model of inferring the columns privately, on a real table."""

import json
import math

import pandas as pd
import pytest

from fairdp.data.catalog import find
from fairdp.data.datasets import adult_full_schema, read_adult
from fairdp.fitting import fit_source
from fairdp.records import Source


@pytest.mark.more
@pytest.mark.needs_data("adult")
def test_adult_without_a_schema_is_hardly_less_accurate_than_with_one(tmp_path):
    """Two fits of each, at ε = 3; the seeds fix everything."""
    pd.concat(read_adult(find("adult"))).to_csv(tmp_path / "adult.csv", index=False)
    (tmp_path / "schema.json").write_text(json.dumps(adult_full_schema().to_dict()))

    def accuracy(schema, seed):
        source = Source(
            table=tmp_path / "adult.csv",
            dataset=None,
            label="income",
            positive=">50K",
            sensitive=("sex",),
            schema=schema,
            test_fraction=0.2,
        )
        parameters = {"epsilon": 3.0, "random_state": seed}
        return fit_source(source, parameters).metrics["accuracy"]

    read, declared = (
        math.fsum(accuracy(schema, seed) for seed in (1, 2)) / 2 for schema in (None, tmp_path / "schema.json")
    )
    assert read > declared - 0.01
