"""Adult: schemas on made-up rows, and counts of the real files."""

import pandas as pd
import pytest

from fairdp.data import sources
from fairdp.data.adult import FILE_COLUMNS, adult_full_schema, adult_schema, read_adult

ROW = "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, "


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "adult.data").write_text(f"{ROW}United-States, <=50K\n{ROW}?, >50K\n\n")
    (tmp_path / "adult.test").write_text(f"|1x3 Cross validator\n{ROW}Cuba, <=50K.\n{ROW}Peru, >50K.\n\n")
    return tmp_path


@pytest.fixture(scope="module")
def frames():
    return read_adult(sources.find("adult") or sources.fetch("adult"))


def active(schema, frame):
    """Names of the features that are not zero in the first row."""
    return {name for name, value in zip(schema.feature_names, schema.encode(frame)[0], strict=True) if value}


def test_files_are_read_as_they_stand(folder):
    train, test = read_adult(folder)
    assert train.columns.tolist() == FILE_COLUMNS.split()
    assert train["native-country"].tolist() == ["United-States", "?"]
    assert test["income"].tolist() == ["<=50K", ">50K"]


def test_features_of_a_row_by_hand(folder):
    train, test = read_adult(folder)
    expected = {"age in [35, 45)", "workclass=State-gov", "education=Bachelors", "race=White"}
    expected |= {"hours-per-week in [40, inf)"}
    assert active(adult_schema(), train) == expected
    assert active(adult_schema(), test) == expected | {"native-country!=United-States"}


@pytest.mark.parametrize(
    ("age", "hours", "bins"),
    [
        (24, 19, {"age in [-inf, 25)", "hours-per-week in [-inf, 20)"}),
        (25, 20, {"age in [25, 35)", "hours-per-week in [20, 30)"}),
        (64, 39, {"age in [55, 65)", "hours-per-week in [30, 40)"}),
        (65, 40, {"age in [65, inf)", "hours-per-week in [40, inf)"}),
    ],
)
def test_bins_of_the_paper(folder, age, hours, bins):
    frame = read_adult(folder)[0].assign(age=age).assign(**{"hours-per-week": hours})
    assert {name for name in active(adult_schema(), frame) if " in " in name} == bins


def test_sizes_and_inputs():
    assert adult_schema().n_features == 41
    assert adult_full_schema().n_features == 105
    assert sum("=" in name for name in adult_full_schema().feature_names) == 100
    for schema in (adult_schema(), adult_full_schema()):
        assert schema.declared
        assert schema.sensitive == ("sex",)
        assert not any(name.startswith(("sex", "income", "fnlwgt")) for name in schema.feature_names)


@pytest.mark.needs_data("adult")
def test_counts_of_the_real_files(frames):
    train, test = frames
    both = pd.concat(frames)
    assert (len(train), len(test), len(both)) == (32_561, 16_281, 48_842)
    assert (both["income"] == ">50K").sum() == 11_687
    assert both["sex"].value_counts().to_dict() == {"Male": 32_650, "Female": 16_192}
    assert train["sex"].value_counts().to_dict() == {"Male": 21_790, "Female": 10_771}
    cells = test.groupby(["sex", "income"]).size().to_dict()
    assert cells == {
        ("Female", ">50K"): 590,
        ("Female", "<=50K"): 4_831,
        ("Male", ">50K"): 3_256,
        ("Male", "<=50K"): 7_604,
    }


@pytest.mark.needs_data("adult")
@pytest.mark.parametrize(("schema", "one_hot"), [(adult_schema(), 5), (adult_full_schema(), 7)])
def test_every_real_row_fits_the_declared_schema(frames, schema, one_hot):
    for frame in frames:
        X = schema.encode(frame)
        assert X.min() == 0
        assert X.max() == 1
        hot = [i for i, name in enumerate(schema.feature_names) if "!=" not in name and ("=" in name or " in " in name)]
        assert (X[:, hot].sum(axis=1) == one_hot).all()


@pytest.mark.needs_data("adult")
def test_no_real_number_lies_outside_the_declared_bounds(frames):
    both = pd.concat(frames)
    for column in adult_full_schema().columns[-5:]:
        assert both[column.name].astype(float).between(column.low, column.high).all()
