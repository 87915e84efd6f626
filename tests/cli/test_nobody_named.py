"""A table fitted without a schema: nothing that few people share stands in anything that is shown to others."""

import re

import pytest

from fairdp.data.inference import infer_schema
from fairdp.run import reading
from reading_cases import CITIES, naming_table, rare_values

FIT = ("--label", "paid", "--sensitive", "sex", "--epsilon", "3", "--method", "dpsgd", "--n-steps", "5", "--seed", "3")


@pytest.fixture(scope="module")
def frame():
    return naming_table()


def shown(run, frame, place) -> dict[str, bytes]:
    """Everything that a fit, its reports and its export write for others, by name; and the same without messages."""
    place.mkdir(exist_ok=True)
    table, model = place / "people.csv", place / "model"
    frame.to_csv(table, index=False)
    outputs = {}
    for name, command in {
        "fit": ("fit", table, *FIT, "--out", model),
        "report": ("report", model, "--out", place / "page.html"),
        "card": ("report", model, "--out", place / "card.md"),
        "export": ("export", model, "--out", place / "model.onnx"),
        "verify": ("verify", model),
    }.items():
        result = run(*command)
        assert result.code == 0, result.err
        outputs[f"printed by {name}"] = result.out.encode()
    files = [*model.iterdir(), place / "page.html", place / "card.md", place / "model.onnx"]
    return outputs | {path.name: path.read_bytes() for path in files}


def named_in(outputs: dict[str, bytes], values: set[str]) -> set[tuple[str, str]]:
    """Which values stand where: texts anywhere, numbers where no digit goes on."""
    words = [value for value in values if not re.fullmatch(r"-?[0-9.]+", value)]
    numbers = values - set(words)
    found = set()
    for name, content in outputs.items():
        text = content.decode("utf-8", errors="replace")
        found |= {(name, word) for word in words if word in text}
        found |= {(name, number) for number in set(re.findall(r"-?[0-9]+(?:\.[0-9]+)?", text)) & numbers}
    return found


@pytest.fixture(scope="module")
def long_numbers():
    """Whole numbers of up to five digits, and dates, stand in any page by chance."""
    return lambda values: {value for value in values if len(value) > 5 and not re.fullmatch(r"\d{4}-\d\d-\d\d", value)}


def test_no_rare_value_stands_in_any_file_or_on_the_screen(run, frame, tmp_path, long_numbers):
    outputs = shown(run, frame, tmp_path / "read")
    values = long_numbers(rare_values(frame))
    assert len(values) > 4 * len(frame)
    assert named_in(outputs, values) == set()
    # What many share is there, so that the search looks in the right place.
    assert {city for _, city in named_in(outputs, set(CITIES))} == set(CITIES)


def test_that_search_finds_names_where_the_rows_are_read_as_they_stand(run, frame, tmp_path, long_numbers, monkeypatch):
    def as_they_stand(reader, rows, label, sensitive, positive):
        reader.schema, notes = infer_schema(rows, label, sensitive, positive)
        reader.reading = reading.reading_for(reader.budget, rows.shape[1])
        return reader.schema, notes

    monkeypatch.setattr(reading.PaidReader, "__call__", as_they_stand)
    outputs = shown(run, frame.drop(columns=["name", "remark", "case"]), tmp_path / "named")
    found = named_in(outputs, long_numbers(rare_values(frame)))
    assert {name for name, _ in found} >= {"model.json", "page.html", "card.md"}


def test_what_cannot_be_used_is_left_out_each_with_a_reason_and_a_remedy(answer, frame, tmp_path):
    frame.to_csv(tmp_path / "people.csv", index=False)
    said = answer("fit", tmp_path / "people.csv", *FIT)["warnings"]
    left_out = {line.split("'")[1]: line for line in said if "is left out" in line}
    assert set(left_out) == {"name", "case", "remark", "person", "version"}
    assert all("declare it in a schema" in line for line in left_out.values())
    assert "identifier" in left_out["person"]
    assert "same value" in left_out["version"]
    assert all("free text" in left_out[name] for name in ("name", "case", "remark"))


@pytest.mark.parametrize(
    ("column", "problem", "remedy"),
    [
        ("name", "has no value that", "declare its values in a schema"),
        ("person", "holds 6000 different numbers", "put them into a few ranges"),
    ],
)
def test_a_protected_column_that_names_people_is_refused_in_one_line(run, frame, tmp_path, column, problem, remedy):
    frame.to_csv(tmp_path / "people.csv", index=False)
    result = run("fit", tmp_path / "people.csv", "--label", "paid", "--sensitive", column, "--seed", "1")
    assert (result.code, result.out) == (2, "")
    assert f"protected column '{column}' {problem}" in result.err
    assert remedy in result.err
    assert len(result.err.strip().splitlines()) == 1


def test_a_label_without_two_frequent_values_is_refused_in_one_line(run, frame, tmp_path):
    frame.to_csv(tmp_path / "people.csv", index=False)
    result = run("fit", tmp_path / "people.csv", "--label", "name", "--sensitive", "sex", "--seed", "1")
    assert (result.code, result.out) == (2, "")
    assert "label 'name' has 0 values" in result.err
    assert len(result.err.strip().splitlines()) == 1
