"""Default of credit card clients: its schema, its several formats, and counts of the real file."""

import io

import numpy as np
import pandas as pd
import pytest

from fairdp.data import credit, sources


def made_up(n_rows: int = 6) -> pd.DataFrame:
    frame = pd.DataFrame({name: np.arange(n_rows) for name in credit.FILE_COLUMNS})
    coded = {"SEX": [1, 2] * (n_rows // 2), "EDUCATION": 2, "MARRIAGE": 1, "Default": [0, 0, 1] * (n_rows // 3)}
    return frame.assign(**coded, **dict.fromkeys(credit.CODED_COLUMNS[2:], -1))


def csv_bytes(frame: pd.DataFrame) -> bytes:
    return frame.to_csv(index=False).encode()


@pytest.fixture(scope="module")
def real():
    return credit.read_credit(sources.find("credit") or sources.fetch("credit"))


def test_sizes_and_inputs():
    schema = credit.credit_schema()
    assert schema.n_features == 89
    assert sum("=" in name for name in schema.feature_names) == 75
    assert schema.group_names == ("Male", "Female")
    assert not {"ID", "SEX", "Default"} & {column.name for column in schema.columns}


def test_reading_names_the_groups(tmp_path):
    (tmp_path / "UCI_Credit_Card.csv").write_bytes(csv_bytes(made_up()))
    frame = credit.read_credit(tmp_path)
    assert frame["SEX"].tolist() == ["Male", "Female"] * 3
    assert credit.credit_schema().encode_labels(frame).tolist() == [0, 0, 1, 0, 0, 1]
    assert credit.credit_schema().encode(frame).shape == (6, 89)


@pytest.mark.parametrize("alias", credit.LABEL_ALIASES)
def test_other_names_order_and_number_formats_have_the_same_content(alias):
    plain = made_up()
    backwards = list(plain.columns)[::-1]
    variant = plain[backwards].astype(float).rename(columns={"Default": alias})
    assert credit.content_sha256(csv_bytes(variant)) == credit.content_sha256(csv_bytes(plain))
    assert credit.canonical_csv(csv_bytes(variant), suffix=".csv") == csv_bytes(plain)


def test_one_changed_number_changes_the_content():
    changed = made_up()
    changed.loc[3, "AGE"] += 1
    assert credit.content_sha256(csv_bytes(changed)) != credit.content_sha256(csv_bytes(made_up()))


@pytest.mark.parametrize(
    ("content", "suffix", "message"),
    [
        (csv_bytes(made_up().drop(columns="AGE")), ".csv", r"^the credit table has no column 'AGE'"),
        (csv_bytes(made_up().assign(AGE=0.5)), ".csv", r"^the credit table must hold whole numbers only"),
        (csv_bytes(made_up().assign(AGE="x")), ".csv", r"^column 'AGE' holds 'x' in row 1, which is not a number"),
        (b"\xff\xfe\x00", ".csv", r"^the credit table is not a CSV file"),
        (b"no spreadsheet", ".xls", r"^the credit spreadsheet cannot be read"),
    ],
)
def test_other_tables_are_refused(content, suffix, message):
    with pytest.raises(ValueError, match=message):
        credit.canonical_csv(content, suffix=suffix)


def test_spreadsheet_without_its_reader_says_what_to_install(monkeypatch):
    def read_excel(*_, **__):
        raise ImportError("Missing optional dependency 'xlrd'.")

    monkeypatch.setattr(pd, "read_excel", read_excel)
    with pytest.raises(ValueError, match=r"install xlrd, or save it as CSV and give that with --from\.$"):
        credit.canonical_csv(b"", suffix=".xls")


def test_spreadsheet_names_stand_in_the_second_row(monkeypatch):
    def read_excel(content: io.BytesIO, *, header: int) -> pd.DataFrame:
        assert header == 1
        return made_up().rename(columns={"Default": "default payment next month"})

    monkeypatch.setattr(pd, "read_excel", read_excel)
    assert credit.canonical_csv(b"", suffix=".xls") == csv_bytes(made_up())


@pytest.mark.needs_data("credit")
def test_counts_of_the_real_file(real):
    assert len(real) == 30_000
    assert real["Default"].sum() == 6_636
    assert real["SEX"].value_counts().to_dict() == {"Female": 18_112, "Male": 11_888}
    cells = real.groupby(["SEX", "Default"]).size().to_dict()
    assert cells == {("Male", 1): 2_873, ("Female", 1): 3_763, ("Male", 0): 9_015, ("Female", 0): 14_349}


@pytest.mark.needs_data("credit")
def test_every_real_row_fits_the_declared_schema(real):
    X = credit.credit_schema().encode(real)
    assert X.shape == (30_000, 89)
    assert X.min() == 0
    assert X.max() == 1
    assert (X[:, :75].sum(axis=1) == 8).all()
    assert (X.max(axis=0) > 0).all()
