"""A table of people, with and without a declared schema."""

from dataclasses import replace

import pytest
import yaml

from cli_cases import SCHEMA, people
from fairdp.records import Source


@pytest.fixture
def source(tmp_path):
    people().to_csv(tmp_path / "people.csv", index=False)
    return Source(
        table=tmp_path / "people.csv",
        dataset=None,
        label="y",
        positive=None,
        sensitive=("sex",),
        schema=None,
        test_fraction=0.2,
    )


@pytest.fixture
def declared(source, tmp_path):
    (tmp_path / "schema.yaml").write_text(yaml.safe_dump(SCHEMA))
    return replace(source, schema=tmp_path / "schema.yaml")
