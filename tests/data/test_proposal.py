"""Proposed schemas: read by the reader, honest about what they read, and values that count as another."""

import numpy as np
import pandas as pd
import pytest
import yaml

from fairdp.data.columns import Categorical
from fairdp.data.infer import proposed_schema, round_number
from fairdp.data.schema import TableSchema, read_schema


def loans(n_rows: int = 2_000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    age = rng.integers(18, 87, n_rows)
    frame = pd.DataFrame(
        {
            "id": np.arange(n_rows),
            "age": age,
            "income": rng.lognormal(10, 1.5, n_rows).round(2),
            "job": rng.choice(["clerk", "driver, heavy", "nurse"], n_rows),
            "since": (pd.Timestamp("2015-02-03") + pd.to_timedelta(rng.integers(0, 2000, n_rows), unit="D")).date,
            "owner": rng.random(n_rows) < 0.3,
            "children": rng.integers(0, 5, n_rows),
            "country": "here",
            "sex": rng.choice(["f", "m"], n_rows),
            "region": rng.choice(["north", "south", "island"], n_rows, p=[0.6, 0.39, 0.01]),
            "approved": np.where(age > 54, "yes", "no"),
        }
    )
    frame.loc[:3, "job"] = "diver"
    frame.loc[rng.random(n_rows) < 0.1, "income"] = np.nan
    return frame


def proposed(frame: pd.DataFrame, tmp_path) -> tuple[str, TableSchema]:
    text = proposed_schema(frame, table="loans.csv", label="approved", sensitive=("sex", "region"), positive=None)
    (tmp_path / "schema.yaml").write_text(text, encoding="utf-8")
    return text, read_schema(tmp_path / "schema.yaml")


def test_a_proposal_is_a_schema_that_encodes_its_table(tmp_path):
    frame = loans()
    _, schema = proposed(frame, tmp_path)
    assert not schema.declared
    encoded = schema.encode(frame)
    assert np.isfinite(encoded).all()
    assert schema.encode_labels(frame).tolist() == (frame["approved"] == "yes").astype(int).tolist()
    assert [column.name for column in schema.columns] == ["age", "income", "job", "since", "owner", "children"]


def test_bounds_are_nobodys_values(tmp_path):
    frame = loans()
    _, schema = proposed(frame, tmp_path)
    numeric = {column.name: column for column in schema.columns if hasattr(column, "low")}
    for name in ("age", "income"):
        assert numeric[name].low <= frame[name].min()
        assert numeric[name].high >= frame[name].max()
        assert {numeric[name].low, numeric[name].high}.isdisjoint(frame[name])
    content = yaml.safe_load((tmp_path / "schema.yaml").read_text())
    since = next(column for column in content["columns"] if column["name"] == "since")
    assert [(bound.month, bound.day) for bound in (since["low"], since["high"])] == [(1, 1), (1, 1)]
    assert since["low"] <= frame["since"].min() < frame["since"].max() < since["high"]
    # A long tail would press everybody else to zero.
    assert numeric["income"].transform == "signed_log"
    assert {column.missing for column in numeric.values()} == {"indicator"}


def test_it_says_what_it_read_and_what_is_rare(tmp_path):
    text, _ = proposed(loans(), tmp_path)
    assert "has looked at private data" in text
    assert "'id' is left out" in text
    assert "'country' is left out" in text
    assert "diver" not in text
    assert "    # One more value, in 0.2 % of the rows, and any that is new, count as 'other'.\n" in text
    assert "Small groups: 'f & island'" in text


def test_what_a_positive_decision_is_comes_first(tmp_path):
    text, schema = proposed(loans(), tmp_path)
    assert text.splitlines()[0] == "# For the people in this table a positive decision is: approved = yes"
    assert schema.positive == "yes"


def test_words_among_numbers_and_unknown_groups_are_said(tmp_path):
    frame = loans().astype({"age": object})
    frame.loc[10:59, "age"] = "unknown"
    frame.loc[:200, "region"] = None
    text, schema = proposed(frame, tmp_path)
    assert "missing_words: [unknown]" in text
    assert "# Words in place of a number, in 2.5 % of the rows, count as missing." in text
    assert "groups: [island, north, south, unknown], other: unknown}" in text
    assert "# Whoever has no value here, or another one, is in the group 'unknown'." in text
    assert schema.encode_groups(frame)[0].max() < len(schema.group_names)


def test_only_a_human_declares_it(tmp_path):
    text, _ = proposed(loans(), tmp_path)
    (tmp_path / "schema.yaml").write_text(text.replace("declared: false", "declared: true"))
    assert read_schema(tmp_path / "schema.yaml").declared


@pytest.mark.parametrize("value", [1.0, 9.99, 12_345.6, 0.0123, -5.5, -120.0])
def test_rounding_goes_outwards(value):
    assert round_number(value, up=False) <= value <= round_number(value, up=True)


def test_values_that_are_not_declared_count_as_the_declared_other(tmp_path):
    column = Categorical(name="job", categories=("clerk", "rest", "?"), other="rest")
    found = column.encode(pd.Series(["clerk", "diver", None, "rest"], name="job"))
    assert found.argmax(1).tolist() == [0, 1, 2, 1]
    with pytest.raises(ValueError, match=r"'job': other must be one of its values .*got 'others'"):
        Categorical(name="job", categories=("clerk",), other="others")


def test_small_groups_are_merged_by_a_declared_rule(tmp_path):
    frame = loans()
    _, schema = proposed(frame, tmp_path)
    content = schema.to_dict()
    content["sensitive"][1] = {"name": "region", "groups": ["north", "rest"], "other": "rest"}
    merged = TableSchema.from_dict(content)
    codes, names = merged.encode_groups(frame)
    assert names == ("f & north", "f & rest", "m & north", "m & rest")
    assert (codes % 2 == (frame["region"] != "north")).all()
    # The rule stays with a saved model.
    assert TableSchema.from_dict(merged.to_dict()) == merged
    with pytest.raises(ValueError, match="other must be one of its values"):
        TableSchema.from_dict({**content, "sensitive": [{"name": "sex", "groups": ["f"], "other": "m"}]})
