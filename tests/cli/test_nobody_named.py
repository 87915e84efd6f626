"""A table fitted without a schema: nothing that few people share stands in anything that is shown to others."""

import re

import pytest

from fairdp.data.infer import infer_schema
from fairdp.run import fit as reading
from private_schema_cases import CITIES, naming_table, rare_values

FIT = ("--label", "paid", "--sensitive", "sex", "--epsilon", "3", "--method", "dpsgd", "--n-steps", "5", "--seed", "3")
FIT += ("--certify-metrics", "demographic_parity")


@pytest.fixture(scope="module")
def frame():
    return naming_table()


def shown(run, frame, place, *left_out) -> dict[str, bytes]:
    """Everything that a fit, its reports and its export write for others, by name."""
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
        if name in left_out:
            continue
        result = run(*command)
        assert result.code == 0, result.err
        outputs[f"printed by {name}"] = result.out.encode()
    files = [*model.iterdir(), *(path for path in place.iterdir() if path.is_file() and path != table)]
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

    monkeypatch.setattr(reading.PrivateSchemaReader, "__call__", as_they_stand)
    outputs = shown(run, frame.drop(columns=["name", "remark", "case"]), tmp_path / "named", "card", "export", "verify")
    found = named_in(outputs, long_numbers(rare_values(frame)))
    assert {name for name, _ in found} >= {"model.json", "page.html"}


def test_what_cannot_be_used_is_left_out_each_with_a_reason_and_a_remedy(answer, golden, frame, tmp_path):
    frame.to_csv(tmp_path / "people.csv", index=False)
    said = answer("fit", tmp_path / "people.csv", *FIT, "--certify-fraction", 0)["warnings"]
    left_out = {line.split("'")[1]: line for line in said if "is left out" in line}
    assert set(left_out) == {"name", "case", "remark", "person", "version"}
    golden("models", "columns that are left out", "\n".join(left_out.values()))


@pytest.mark.parametrize(
    ("label", "protected"), [("paid", "name"), ("paid", "person"), ("name", "sex")], ids=["names", "numbers", "label"]
)
def test_a_column_that_names_people_is_refused_in_one_line(refused, frame, tmp_path, label, protected):
    frame.to_csv(tmp_path / "people.csv", index=False)
    refused("fit", tmp_path / "people.csv", "--label", label, "--sensitive", protected, "--seed", "1")
