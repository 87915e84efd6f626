"""Schema files that would take long, say things twice, or hold what looks like a value and is none."""

import pytest
import yaml

from cli_cases import SCHEMA
from fairdp._checks import DataError
from fairdp.data.plain_yaml import plain_yaml
from fairdp.data.schema import read_schema

LAUGHS = "a: &a [x, x]\n" + "".join(f"{b}: &{b} [*{a}, *{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True))
REFUSED = {
    "nested aliases": (LAUGHS, r"^has an alias in line 2; write out what it stands for$"),
    "an alias of itself": ("a: &a [*a]", "alias"),
    "merged keys": ("a: &a {x: 1}\nb: {<<: *a}", "alias"),
    "deep lists": ("[" * 100_000, r"^is nested too deeply in line 1$"),
    "deep entries": ("- " * 100_000, "nested too deeply"),
    "deep mappings": ("{a: " * 50 + "1" + "}" * 50, "nested too deeply"),
    "many values": ("[" + "x," * 140_000 + "]", r"^has more than 131072 values$"),
    "a large file": ("#" * (2**21 + 1), r"^has 2097153 bytes"),
    "a long number": ("a: " + "9" * 5000, r"^has a value of 5000 characters in line 1; put it in quotes$"),
    "a key twice": ("a: 1\n'a': 2", r"^says 'a' twice in line 2; leave one out$"),
    "a key twice, further in": ("x: [{a: 1, b: {a: 1}, a: 2}]", "says 'a' twice"),
    "no date": ("a: 2020-13-45", "neither YAML nor JSON"),
    "tagged as a date": ("!!timestamp x", "neither YAML nor JSON"),
    "tagged as a number": ("!!int ''", "neither YAML nor JSON"),
    "an object": ("!!python/object:os.system x", r"^is neither YAML nor JSON: line 1 cannot be read$"),
    "a zero byte": ("a: \x00", "cannot be read"),
    "a list as a key": ("? [a]\n: b", "cannot be read"),
    "two documents": ("a: 1\n---\nb: 2", "cannot be read"),
}


@pytest.mark.parametrize(("text", "why"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(text, why):
    with pytest.raises(DataError, match=why):
        plain_yaml(text.encode())


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "latin-1"])
def test_other_encodings_are_refused(encoding):
    with pytest.raises(DataError, match="its text cannot be read"):
        plain_yaml("name: é".encode(encoding))


@pytest.mark.parametrize(
    "text", ["a: 1\nb: [a, a, {a: a}]", "", "\ufeffa: 1", "[{a: 1}, {a: 1}]", "a: a", "? a\n: [b]\n? b\n: a"]
)
def test_the_rest_is_what_yaml_says(text):
    """The twin: it is what is said twice that is refused, not what is there twice."""
    assert plain_yaml(text.encode()) == yaml.safe_load(text)


def schema_with(**changes):
    return {**SCHEMA, **changes}


def column(**entry):
    return schema_with(columns=[{"name": "age", "type": "numeric", "low": 0, "high": 1, **entry}])


FORGED = {
    "a type that is a list": column(type=["numeric"]),
    "a huge bound": column(high=16**700),
    "a range beyond all floats": column(low=-1e308, high=1e308),
    "an edge that is none": schema_with(columns=[{"name": "age", "type": "binned", "edges": [0, float("nan"), 1]}]),
    "an infinite edge": schema_with(columns=[{"name": "age", "type": "binned", "edges": [0, float("inf")]}]),
    "groups without number": schema_with(
        sensitive=[{"name": f"s{i}", "groups": [f"g{j}" for j in range(100)]} for i in range(20)]
    ),
    "a long list in the place of a word": schema_with(label=["x"] * 10_000),
}


@pytest.mark.parametrize("content", FORGED.values(), ids=FORGED)
def test_a_forged_schema_is_refused_in_one_line(tmp_path, content):
    (tmp_path / "schema.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(DataError, match=r"^schema '.*schema.yaml': [^\n]{1,1000}\.$"):
        read_schema(tmp_path / "schema.yaml")


def test_names_of_columns_are_kept_to_the_last_blank(tmp_path):
    content = column(name=" age ") | {"label": " y", "sensitive": [{"name": "sex ", "groups": ["f", "m"]}]}
    (tmp_path / "schema.yaml").write_text(yaml.safe_dump(content))
    schema = read_schema(tmp_path / "schema.yaml")
    assert (schema.columns[0].name, schema.label, schema.sensitive) == (" age ", " y", ("sex ",))
    assert type(schema).from_dict(schema.to_dict()) == schema
