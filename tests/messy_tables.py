"""One table of people, written in every way that people write tables."""

import csv
import datetime
import gzip
import io
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq

Row = dict[str, Any]
Write = Callable[[Path, list[Row]], Path]

SCHEMA = {
    "label": "approved",
    "positive": "yes",
    "negative": "no",
    "sensitive": [{"name": "sex", "groups": ["f", "m"]}],
    "columns": [
        {"name": "income", "type": "numeric", "low": 0, "high": 1_000_000, "missing": "indicator"},
        {"name": "assets", "type": "numeric", "low": 0, "high": 1_000_000_000},
        {"name": "since", "type": "numeric", "low": datetime.date(2015, 1, 1), "high": datetime.date(2025, 1, 1)},
        {
            "name": "town",
            "type": "categorical",
            "categories": ["Köln", "Orléans", "Zürich, West", "rest"],
            "other": "rest",
        },
    ],
}


def people(n_rows: int = 60) -> list[Row]:
    """Incomes with decimals, assets beyond a thousand and a million, dates of all days, letters beyond ASCII."""
    rng = np.random.default_rng(0)
    towns = ["Köln", "Orléans", "Zürich, West"]
    rows = [
        {
            "person": f"p{place:03d}",
            "income": round(float(rng.uniform(0, 99_999)), 2),
            "assets": int(rng.integers(1_000, 90_000_000)),
            "since": datetime.date(2016, 1, 1) + datetime.timedelta(days=int(rng.integers(0, 3000))),
            "town": towns[place % 3],
            "sex": "fm"[int(rng.integers(2))],
            "approved": ["no", "yes"][int(rng.integers(2))],
        }
        for place in range(n_rows)
    ]
    rows[7]["income"], rows[9]["town"] = None, "Bern"
    return rows


@dataclass(frozen=True)
class Text:
    """The format of a text file."""

    name: str = "people.csv"
    sep: str = ","
    decimal: str = "."
    thousands: str = ""
    encoding: str = "utf-8"
    date: str = "%Y-%m-%d"
    csv: dict[str, Any] = field(default_factory=dict)

    def __call__(self, folder: Path, rows: list[Row]) -> Path:
        stream = io.StringIO(newline="")
        writer = csv.writer(stream, delimiter=self.sep, **{"lineterminator": "\n", **self.csv})
        writer.writerow(rows[0])
        writer.writerows([[self.cell(value) for value in row.values()] for row in rows])
        content = stream.getvalue().encode(self.encoding)
        path = folder / self.name
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
        return path

    def cell(self, value: Any) -> str:
        if isinstance(value, datetime.date):
            return value.strftime(self.date)
        if not isinstance(value, int | float):
            return value or ""
        return f"{value:,}".replace(",", "_").replace(".", self.decimal).replace("_", self.thousands)


GERMAN = {"sep": ";", "decimal": ",", "thousands": ".", "date": "%d.%m.%Y"}


def workbook(*, sheets: tuple[str, ...] = ("people",), text: Text | None = None) -> Write:
    """Cells with types, or as a program writes them that knows only text; the people are on the last sheet."""

    def write(folder: Path, rows: list[Row]) -> Path:
        book = openpyxl.Workbook()
        book.active.title = sheets[0]
        for name in sheets[1:]:
            book.active.append(["about", "this"])
            book.create_sheet(name)
        sheet = book[sheets[-1]]
        sheet.append(list(rows[0]))
        for row in rows:
            sheet.append([value if text is None else text.cell(value) for value in row.values()])
        book.save(folder / "people.xlsx")
        return folder / "people.xlsx"

    return write


def arrow_table(rows: list[Row]) -> pa.Table:
    return pa.table({name: pa.array([row[name] for row in rows]) for name in rows[0]})


def feather(folder: Path, rows: list[Row]) -> Path:
    pyarrow.feather.write_feather(arrow_table(rows), folder / "people.feather", chunksize=7)
    return folder / "people.feather"


def arrow_stream(folder: Path, rows: list[Row]) -> Path:
    table, path = arrow_table(rows), folder / "people.arrow"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=7)
    return path


def months(folder: Path, rows: list[Row]) -> Path:
    """Files of which each has other types, as it comes where nobody declared any."""
    path = folder / "months"
    (path / "2020").mkdir(parents=True)
    (path / "2020" / "_SUCCESS").write_text("")
    (path / ".hidden.parquet").write_text("")
    third, table = len(rows) // 3, arrow_table(rows)
    as_text = [Text().cell(row["assets"]) for row in rows[third : 2 * third]]
    second = table.slice(third, third)
    second = second.set_column(second.column_names.index("assets"), "assets", pa.array(as_text))
    # Behind the others by its name, and with its columns in another order.
    pq.write_table(table.slice(2 * third).select(table.column_names[::-1]), path / "2020" / "b.parquet")
    pq.write_table(table.slice(0, third), path / "2020" / "a.parquet")
    pq.write_table(second, path / "2020" / "ab.parquet")
    return path


def partitioned(folder: Path, rows: list[Row]) -> Path:
    """As Spark and others write: a folder for each group, which the files themselves do not name."""
    path = folder / "by sex"
    for place, row in enumerate(rows):
        inner = path / f"run={place // 20}" / f"sex={row['sex']}"
        inner.mkdir(parents=True, exist_ok=True)
        table = arrow_table([row]).drop_columns(["sex"])
        pq.write_table(table, inner / f"{place:04d}.parquet")
    return path


@dataclass(frozen=True)
class Variant:
    """A way to write the table, and what is found of it."""

    write: Write
    found: dict[str, Any] = field(default_factory=dict)


VARIANTS = {
    "semicolons": Variant(Text(sep=";"), {"sep": ";"}),
    "bars and quotes": Variant(Text(sep="|", csv={"quoting": csv.QUOTE_ALL}), {"sep": "|"}),
    "tabs in a .tsv file": Variant(Text(name="people.tsv", sep="\t")),
    "tabs in a .csv file": Variant(Text(sep="\t"), {"sep": "\t"}),
    "packed": Variant(Text(name="people.csv.gz")),
    "a mark of the byte order": Variant(Text(encoding="utf-8-sig", csv={"lineterminator": "\r\n"})),
    "UTF-16": Variant(Text(name="people.txt", sep="\t", encoding="utf-16"), {"sep": "\t", "encoding": "utf-16"}),
    "cp1252": Variant(Text(encoding="cp1252"), {"encoding": "cp1252"}),
    "decimal commas": Variant(Text(decimal=","), {"decimal": ",", "thousands": "."}),
    "as in Germany": Variant(
        Text(**GERMAN, encoding="cp1252"),
        {"sep": ";", "decimal": ",", "thousands": ".", "encoding": "cp1252", "day_first": True},
    ),
    "as in France": Variant(
        Text(name="people.csv.gz", sep=";", decimal=",", thousands="\u202f", date="%d/%m/%Y"),
        {"sep": ";", "decimal": ",", "thousands": " ", "day_first": True},
    ),
    "as in Switzerland": Variant(Text(sep=";", thousands="’"), {"sep": ";", "thousands": "'"}),
    "as in America": Variant(Text(thousands=","), {"thousands": ","}),
    "a workbook": Variant(workbook()),
    "text in a second sheet": Variant(
        workbook(sheets=("people", "more", "people 2"), text=Text(**GERMAN)),
        {"sheet": "people 2", "decimal": ",", "thousands": ".", "day_first": True},
    ),
    "Feather": Variant(feather),
    "a stream of Arrow": Variant(arrow_stream),
    "Parquet by month": Variant(months),
    "Parquet by group": Variant(partitioned),
}


def _numbered(rows: list[Row]) -> list[tuple[int, Row]]:
    """Rows with their own numbers: a row more among them changes no other one's."""
    return [(int(row["person"][1:]) if row["person"][1:].isdigit() else len(rows), row) for row in rows]


def with_column(**cells: Callable[[int], Any]) -> Write:
    """With more columns, whose cells follow from the number of a row."""

    def write(folder: Path, rows: list[Row]) -> Path:
        made = [{**row, **{name: make(place) for name, make in cells.items()}} for place, row in _numbered(rows)]
        return Text()(folder, made)

    return write


def without_some_groups(folder: Path, rows: list[Row]) -> Path:
    return Text()(folder, [{**row, "sex": None if place % 9 == 0 else row["sex"]} for place, row in _numbered(rows)])


# Twelve messy files: how each is written, and the options that its schema needs.
FILES = {
    "separator": (VARIANTS["semicolons"].write, ()),
    "decimals": (VARIANTS["decimal commas"].write, ()),
    "dates": (VARIANTS["as in France"].write, ()),
    "encoding": (VARIANTS["cp1252"].write, ()),
    "UTF-16": (VARIANTS["UTF-16"].write, ()),
    "packed": (VARIANTS["packed"].write, ()),
    "workbook": (VARIANTS["a workbook"].write, ()),
    "sheet": (workbook(sheets=("a", "people"), text=Text(**GERMAN)), ("--sheet", "people")),
    "folder of Parquet": (months, ()),
}
CHANGED = {
    "missing groups": (without_some_groups, ()),
    "ids and free text": (with_column(case=lambda i: 7 * i + 100, remark=lambda i: f"spoke to {i}, twice"), ()),
    "high cardinality": (with_column(zip=lambda i: f"{i * i % 101:05d}", code=lambda i: i * 7 % 300), ()),
}

# New values, none, and numbers that nobody expected, as a file can hold them whose types are those of its columns.
ODD = {"income": 1e12, "assets": -1, "since": None, "town": 'Timbuktu; "far", 1.234,5', "sex": "f", "approved": "no"}
