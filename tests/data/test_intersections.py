"""Other protected columns of the named data sets: the groups they make, and that none of them stays an input."""

import itertools

import numpy as np
import pandas as pd
import pytest

from fairdp.data import sources
from fairdp.data.catalog import DATASETS, _frames, load_dataset
from fairdp.data.credit import read_credit
from fairdp.data.utkface import Faces, grouped_faces, read_utkface

CASES = [
    pytest.param("adult", ("sex", "race"), marks=pytest.mark.needs_data("adult")),
    pytest.param("adult", ("race",), marks=pytest.mark.needs_data("adult")),
    pytest.param("adult_full", ("race", "marital-status"), marks=pytest.mark.needs_data("adult")),
]


@pytest.mark.parametrize(("name", "columns"), CASES)
def test_groups_are_the_combinations_in_the_file_and_their_columns_are_no_inputs(name, columns):
    plain, data = load_dataset(name), load_dataset(name, sensitive=columns)
    for part, frame, before in zip(
        (data.train, data.test), _frames(name, sources.find("adult"), 0), (plain.train, plain.test), strict=True
    ):
        written = [" & ".join(values) for values in frame[list(columns)].itertuples(index=False)]
        assert [part.group_names[code] for code in part.groups] == written
        np.testing.assert_array_equal(part.y, before.y)
        kept = [
            place
            for place, feature in enumerate(plain.schema.feature_names)
            if not feature.startswith(tuple(f"{column}=" for column in columns))
        ]
        # Not one value of a protected column is left, and nothing else is gone.
        np.testing.assert_array_equal(part.X, before.X[:, kept])
        assert len(kept) < before.X.shape[1]
    assert not any(feature.split("=")[0] in ("sex", *columns) for feature in data.schema.feature_names)
    assert data.schema.sensitive == columns


@pytest.mark.needs_data("credit")
def test_codes_of_the_credit_file_become_names_and_its_split_stays():
    plain, data = load_dataset("credit"), load_dataset("credit", sensitive=("SEX", "EDUCATION"))
    np.testing.assert_array_equal(data.test.y, plain.test.y)
    together = np.concatenate([data.train.groups, data.test.groups])
    found = dict(zip(data.train.group_names, np.bincount(together, minlength=8).tolist(), strict=True))
    # Counted in the published file, independently of how it is read: codes 0, 4, 5 and 6 are others.
    frame = read_credit(sources.find("credit"))
    names = {1: "graduate school", 2: "university", 3: "high school"}
    education = frame["EDUCATION"].map(lambda code: names.get(int(code), "other"))
    expected = pd.crosstab(frame["SEX"], education)
    assert found == {f"{sex} & {level}": expected.loc[sex, level] for sex, level in _pairs(found)}
    assert found["Male & graduate school"] == 4_354
    assert data.schema.n_features == plain.schema.n_features - 7
    married = load_dataset("credit", sensitive=("MARRIAGE",)).train
    assert married.group_names == ("married", "single", "other")


def _pairs(names):
    return [name.split(" & ") for name in names]


@pytest.mark.needs_data("utkface")
def test_faces_by_race_and_gender_in_either_order():
    faces = read_utkface(sources.find("utkface"))
    both, turned = (load_dataset("utkface", sensitive=order) for order in (("race", "gender"), ("gender", "race")))
    assert both.train.group_names == ("white & male", "white & female", "non-white & male", "non-white & female")
    assert turned.train.group_names[1] == "male & non-white"
    counted = both.train.group_sizes + both.test.group_sizes
    white, female = faces.race == 0, faces.gender == 1
    cells = itertools.product((white, ~white), (~female, female))
    assert counted.tolist() == [int((race & gender).sum()) for race, gender in cells]


def test_groups_of_faces_by_hand():
    faces = Faces(
        pixels=np.zeros((3, 48, 48), dtype=np.uint8),
        age=np.array([30, 40, 50], dtype=np.int16),
        gender=np.array([0, 1, 1], dtype=np.int8),
        race=np.array([2, 0, 3], dtype=np.int8),
        img_name=np.array(["a", "b", "c"]),
    )
    data = grouped_faces(faces, np.array([2, 0, 1]), ("gender", "race"))
    named = [data.group_names[code] for code in data.groups]
    assert named == ["female & non-white", "male & non-white", "female & white"]


def test_the_groups_of_a_card_are_those_of_its_first_column():
    for card in DATASETS.values():
        assert card.sensitive
    synthetic = load_dataset("synthetic", sensitive=("group",))
    np.testing.assert_array_equal(synthetic.train.groups, load_dataset("synthetic").train.groups)


@pytest.mark.parametrize(
    ("name", "columns", "message"),
    [
        ("adult", ("sex", "age"), r"^sensitive='age' is no column that adult can protect; it has sex, race, .*\.$"),
        (
            "credit",
            ("sex",),
            r"^sensitive='sex' is no column that credit can protect; it has SEX, EDUCATION, MARR.*\.$",
        ),
        ("synthetic", ("sex",), r"^sensitive='sex' is no column that synthetic can protect; it has group\.$"),
        ("utkface", ("race", "race"), r"^sensitive='race' is named twice; name it once\.$"),
    ],
)
def test_unknown_columns_are_refused_before_anything_is_read(monkeypatch, name, columns, message):
    monkeypatch.setattr(sources, "find", lambda _: pytest.fail("the files were looked for"))
    with pytest.raises(ValueError, match=message):
        load_dataset(name, sensitive=columns)
