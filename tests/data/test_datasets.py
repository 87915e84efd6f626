"""The named data sets: their files as published, their schemas, groups and splits."""

import io
import itertools
import math
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from scipy import integrate, stats

from fairdp.data import catalog as sources
from fairdp.data import datasets as credit
from fairdp.data import datasets as utkface
from fairdp.data.catalog import DATASETS, _frames, load_dataset
from fairdp.data.datasets import (
    FILE_COLUMNS,
    Faces,
    adult_full_schema,
    adult_schema,
    both_below,
    grouped_faces,
    read_adult,
    read_credit,
    synthetic_population,
)

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


def made_up(n_rows: int = 6) -> pd.DataFrame:
    frame = pd.DataFrame({name: np.arange(n_rows) for name in credit.FILE_COLUMNS_CREDIT})
    coded = {"SEX": [1, 2] * (n_rows // 2), "EDUCATION": 2, "MARRIAGE": 1, "Default": [0, 0, 1] * (n_rows // 3)}
    return frame.assign(**coded, **dict.fromkeys(credit.CODED_COLUMNS[2:], -1))


def csv_bytes(frame: pd.DataFrame) -> bytes:
    return frame.to_csv(index=False).encode()


@pytest.fixture(scope="module")
def real():
    return credit.read_credit(sources.find("credit") or sources.fetch("credit"))


def test_sizes_and_inputs_credit():
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


def test_spreadsheet_names_stand_in_the_second_row(monkeypatch):
    def read_excel(content: io.BytesIO, *, header: int) -> pd.DataFrame:
        assert header == 1
        return made_up().rename(columns={"Default": "default payment next month"})

    monkeypatch.setattr(pd, "read_excel", read_excel)
    assert credit.canonical_csv(b"", suffix=".xls") == csv_bytes(made_up())


def test_a_spreadsheet_without_its_reader_says_what_to_install(monkeypatch):
    def read_excel(*_, **__):
        raise ImportError("Missing optional dependency 'xlrd'.")

    monkeypatch.setattr(pd, "read_excel", read_excel)
    with pytest.raises(ValueError, match=r"install xlrd, or save it as CSV and give that with --from\.$"):
        credit.canonical_csv(b"", suffix=".xls")


@pytest.mark.needs_data("credit")
def test_counts_of_the_real_file(real):
    assert len(real) == 30_000
    assert real["Default"].sum() == 6_636
    assert real["SEX"].value_counts().to_dict() == {"Female": 18_112, "Male": 11_888}
    cells = real.groupby(["SEX", "Default"]).size().to_dict()
    assert cells == {("Male", 1): 2_873, ("Female", 1): 3_763, ("Male", 0): 9_015, ("Female", 0): 14_349}


@pytest.mark.needs_data("credit")
def test_every_real_row_fits_the_declared_schema_credit(real):
    X = credit.credit_schema().encode(real)
    assert X.shape == (30_000, 89)
    assert X.min() == 0
    assert X.max() == 1
    assert (X[:, :75].sum(axis=1) == 8).all()
    assert (X.max(axis=0) > 0).all()


def save_image(path, shade: int) -> None:
    path.parent.mkdir(exist_ok=True)
    Image.new("RGB", (200, 200), (shade, shade, shade)).save(path)


@pytest.fixture
def faces_folder(tmp_path):
    save_image(tmp_path / "35_0_0_20170116174525125.jpg.chip.jpg", 0)
    save_image(tmp_path / "36_1_0_20170116174525126.jpg", 255)
    save_image(tmp_path / "part2" / "80_1_4_20170116174525127.jpg.chip.jpg", 100)
    save_image(tmp_path / "61_1_20170109150557335.jpg.chip.jpg", 9)
    save_image(tmp_path / "61_1_7_20170109150557335.jpg", 9)
    return tmp_path


@pytest.fixture(scope="module")
def real_faces():
    return utkface.read_utkface(sources.find("utkface") or sources.fetch("utkface"))


def test_packing_reads_names_and_pixels_and_reports_malformed_names(faces_folder):
    faces, malformed = utkface.pack_utkface(faces_folder)
    assert faces.age.tolist() == [35, 36, 80]
    # Those of 35 are negative.
    assert faces.labels.tolist() == [0, 1, 1]
    assert faces.gender.tolist() == [0, 1, 1]
    assert faces.race.tolist() == [0, 0, 4]
    assert faces.pixels.shape == (3, 48, 48)
    assert faces.pixels.dtype == np.uint8
    assert [int(image.max()) for image in faces.pixels] == [0, 255, 100]
    assert sorted(malformed) == ["61_1_20170109150557335.jpg.chip.jpg", "61_1_7_20170109150557335.jpg"]
    assert faces.counts == {"images": 3, "age > 35": 2, "white": 2}
    assert repr(faces) == "Faces(3 images)"


def test_grouped_faces_by_hand(faces_folder):
    faces, _ = utkface.pack_utkface(faces_folder)
    data = utkface.grouped_faces(faces, np.array([1, 2]))
    assert data.X.shape == (2, 1, 48, 48)
    assert data.X.dtype == np.float32
    assert data.X[:, 0, 5, 5].tolist() == [1.0, np.float32(100 / 255)]
    assert data.y.tolist() == [1, 1]
    assert [data.group_names[code] for code in data.groups] == ["white", "non-white"]


def test_folder_without_faces_or_with_a_broken_image_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"holds no file named like \[age\]_\[gender\]_\[race\]_\[date\]\.jpg\.$"):
        utkface.pack_utkface(tmp_path)
    (tmp_path / "1_0_0_1.jpg").write_text("no image")
    with pytest.raises(ValueError, match=r"1_0_0_1\.jpg' is not an image that can be read\.$"):
        utkface.pack_utkface(tmp_path)


def test_without_pillow_packing_says_what_to_install(faces_folder, monkeypatch):
    # What Python does for an import of a module that is not installed.
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ValueError, match=r"needs pillow; run pip install 'fairdp\[images\]'\.$"):
        utkface.pack_utkface(faces_folder)


def archive_of_other_arrays() -> bytes:
    content = io.BytesIO()
    np.savez(content, pixels=np.zeros((2, 48, 48), dtype=np.uint8))
    return content.getvalue()


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 broken", archive_of_other_arrays()])
def test_damaged_file_is_refused(tmp_path, content):
    (tmp_path / "utkface48.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"^utkface48\.npz is damaged or another file; get the data set again\.$"):
        utkface.read_utkface(tmp_path)


def test_duplicates_share_a_code():
    pixels = np.zeros((4, 48, 48), dtype=np.uint8)
    pixels[1, 0, 0] = 1
    assert utkface.duplicate_clusters(pixels).tolist() == [0, 1, 0, 0]


@pytest.mark.needs_data("utkface")
def test_counts_of_the_real_file_utkface(real_faces):
    assert real_faces.counts == {"images": 23_705, "age > 35": 8_598, "white": 10_078}
    cells = np.bincount(2 * real_faces.groups + real_faces.labels)
    assert cells.tolist() == [5_239, 4_839, 9_868, 3_759]


@pytest.mark.needs_data("utkface")
def test_real_names_follow_the_pattern_and_agree_with_the_arrays(real_faces):
    matches = [utkface.FILE_NAME.fullmatch(str(name)) for name in real_faces.img_name]
    assert len(matches) == 23_705
    assert all(matches)
    assert [int(match["age"]) for match in matches] == real_faces.age.tolist()
    assert [int(match["race"]) for match in matches] == real_faces.race.tolist()


@pytest.mark.needs_data("utkface")
def test_duplicates_of_the_real_file(real_faces):
    sizes = np.bincount(utkface.duplicate_clusters(real_faces.pixels))
    assert len(sizes) == 23_315
    assert sizes[sizes > 1].sum() == 765


@pytest.fixture(scope="module")
def loaded():
    """Loads each data set once for all tests of this module."""
    kept = {}

    def load(name: str):
        if name not in kept:
            kept[name] = load_dataset(name)
        return kept[name]

    yield load
    kept.clear()


NAMES = [
    pytest.param("adult", marks=pytest.mark.needs_data("adult")),
    pytest.param("adult_full", marks=pytest.mark.needs_data("adult")),
    pytest.param("credit", marks=pytest.mark.needs_data("credit")),
    pytest.param("utkface", marks=pytest.mark.needs_data("utkface")),
    "synthetic",
]


@pytest.mark.parametrize("name", NAMES)
def test_card_tells_the_truth(loaded, name):
    card, data = DATASETS[name], loaded(name)
    assert data.name == card.name == name
    assert data.train.n_samples + data.test.n_samples == card.rows
    assert data.train.group_names == data.test.group_names == card.groups
    assert np.prod(data.train.X.shape[1:]) == np.prod(data.test.X.shape[1:]) == card.features
    assert data.train.X.dtype == np.float32
    assert data.schema is None or data.schema.n_features == card.features
    assert all((card.title, card.label, card.licence, card.source, card.citation))


def cell_sizes(data) -> np.ndarray:
    """Rows of each group (rows) and label (columns)."""
    return np.bincount(2 * data.groups + data.y, minlength=2 * data.n_groups).reshape(-1, 2)


@pytest.mark.needs_data("adult")
def test_adult_keeps_its_published_split(loaded):
    data = loaded("adult")
    assert data.train.group_sizes.tolist() == [10_771, 21_790]
    assert cell_sizes(data.test).tolist() == [[4_831, 590], [7_604, 3_256]]
    assert data.notes == ()


@pytest.mark.parametrize(
    ("name", "n_test", "parity", "opportunity", "odds"),
    [
        pytest.param("adult", 16_281, "4.373e-05", "3.166e-04", "3.701e-04", marks=pytest.mark.needs_data("adult")),
        pytest.param("credit", 6_000, "1.10e-04", "4.85e-04", "6.28e-04", marks=pytest.mark.needs_data("credit")),
        pytest.param("utkface", 4_741, "1.36e-04", "3.74e-04", "6.05e-04", marks=pytest.mark.needs_data("utkface")),
    ],
)
def test_errors_of_the_paper_follow_from_the_test_rows(loaded, name, n_test, parity, opportunity, odds):
    """The paper's table is 1 / (2 √10 n) summed over the groups, over the positives, over all cells."""
    sizes = cell_sizes(loaded(name).test)
    assert sizes.sum() == n_test
    for summed, printed in ((sizes.sum(axis=1), parity), (sizes[:, 1], opportunity), (sizes, odds)):
        error = (1 / (2 * np.sqrt(10) * summed)).sum()
        digits = len(printed.split("e")[0]) - 2
        assert f"{error:.{digits}e}" == printed


@pytest.mark.needs_data("credit")
def test_the_credit_split_depends_on_its_seed_alone_and_keeps_the_cells(loaded):
    data, again, other = loaded("credit"), load_dataset("credit"), load_dataset("credit", split_seed=1)
    np.testing.assert_array_equal(data.test.X, again.test.X)
    assert not np.array_equal(data.test.X, other.test.X)
    assert cell_sizes(data.test).tolist() == cell_sizes(other.test).tolist()


@pytest.mark.needs_data("credit")
def test_nobody_is_on_both_sides_of_the_credit_split():
    train, test = _frames("credit", sources.find("credit"), 0)
    assert not set(train["ID"]) & set(test["ID"])
    assert len(train) + len(test) == 30_000


@pytest.mark.needs_data("utkface")
def test_no_image_is_on_both_sides(loaded):
    data = loaded("utkface")
    train, test = ({image.tobytes() for image in part.X} for part in (data.train, data.test))
    assert not train & test
    assert len(train) + len(test) == 23_315
    assert any("non-commercial" in note for note in data.notes)


def test_synthetic_data_need_no_files_and_follow_the_seed(loaded):
    data, again, other = loaded("synthetic"), load_dataset("synthetic"), load_dataset("synthetic", split_seed=1)
    assert data.train.X.shape == (20_000, 10)
    assert data.test.X.shape == (10_000, 10)
    np.testing.assert_array_equal(data.train.X, again.train.X)
    assert not np.array_equal(data.train.X, other.train.X)


def test_unknown_names_are_refused_with_the_known_ones():
    message = r"^unknown data set 'iris'; known are adult, adult_full, credit, utkface, synthetic\.$"
    with pytest.raises(ValueError, match=message):
        load_dataset("iris")


def test_missing_files_say_what_to_run(monkeypatch):
    monkeypatch.setattr(sources, "find", lambda _: None)
    with pytest.raises(FileNotFoundError, match=r"^the files of credit are not here; run fairdp data get credit\.$"):
        load_dataset("credit", fetch_missing=False)


def test_missing_files_are_fetched(monkeypatch, tmp_path):
    asked = []

    def fetch(name: str):
        asked.append(name)
        return tmp_path

    monkeypatch.setattr(sources, "find", lambda _: None)
    monkeypatch.setattr(sources, "fetch", fetch)
    monkeypatch.setattr(sources, "verify", lambda *_: ("note",))
    monkeypatch.setattr(sources, "_load_table", lambda *given: given)
    assert load_dataset("adult", split_seed=3) == ("adult", tmp_path, ("note",), 3, ("sex",))
    assert asked == ["adult"]


def test_listing_the_data_sets_waits_for_no_heavy_import():
    program = (
        "import sys, fairdp.data.catalog; print(sorted({'pandas', 'torch', 'scipy', 'sklearn'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_groups_of_a_card_are_those_of_its_first_column(loaded):
    """The columns that are protected where nothing is said; the file of every card can be protected by something."""
    for card in DATASETS.values():
        assert card.sensitive
    named = load_dataset("synthetic", sensitive=("group",))
    np.testing.assert_array_equal(named.train.groups, loaded("synthetic").train.groups)


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
def test_faces_by_race_and_gender(real_faces):
    both = load_dataset("utkface", sensitive=("race", "gender"))
    assert both.train.group_names == ("white & male", "white & female", "non-white & male", "non-white & female")
    counted = both.train.group_sizes + both.test.group_sizes
    white, female = real_faces.race == 0, real_faces.gender == 1
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


FALSE_ALARM = 1e-6  # chance that correct code fails one test below
N_DRAWS = 400_000


def assert_rate_is(events: int, trials: int, rate: float) -> None:
    """Fail only if the count is that unlikely at this rate."""
    test = stats.binomtest(events, trials, rate)
    assert test.pvalue >= FALSE_ALARM, f"{events}/{trials} events, expected rate {rate}"


@pytest.fixture(scope="module")
def population():
    return synthetic_population(n_groups=3, n_features=4, bias=1.5, group_shares=(0.5, 0.3, 0.2))


@pytest.fixture(scope="module")
def records(population):
    return population.sample(N_DRAWS, np.random.default_rng(7))


RULE = np.array([1.0, -0.5, 0.3, 0.0]), -0.2


def cells(data, w, b):
    """Decisions, and the masks of the nine conditions that the exact rates speak of."""
    decisions = data.X @ w.astype(np.float32) + b >= 0
    for group in range(data.n_groups):
        inside = data.groups == group
        yield "selection", group, decisions[inside]
        yield "true_positive", group, decisions[inside & (data.y == 1)]
        yield "false_positive", group, decisions[inside & (data.y == 0)]


def assert_rates_hold(data, rates_of_kind) -> None:
    """Compare every cell of the simulation with the rates that a function of kind and group promises."""
    for kind, group, decided in cells(data, *RULE):
        assert_rate_is(int(decided.sum()), len(decided), rates_of_kind(kind)[group])


def test_rates_of_a_rule_agree_with_simulation(population, records):
    # Nine tests at 1e-6 each. The smallest cell has 14,000 records: an error of 0.026 is noticed in 9 runs of 10.
    rates = population.rates(*RULE)
    assert_rates_hold(records, lambda kind: getattr(rates, kind))


def test_that_check_notices_rates_without_the_label_correlation(population, records):
    rates = population.rates(*RULE)
    with pytest.raises(AssertionError):
        assert_rates_hold(records, lambda _: rates.selection)


def test_label_rates_and_group_shares_agree_with_simulation(population, records):
    for group, share in enumerate(population.group_shares):
        inside = records.groups == group
        assert_rate_is(int(inside.sum()), N_DRAWS, share)
        assert_rate_is(int(records.y[inside].sum()), int(inside.sum()), population.positive_rate(group))


def test_that_check_notices_another_bias(records):
    other = synthetic_population(n_groups=3, n_features=4, bias=1.4, group_shares=(0.5, 0.3, 0.2))
    inside = records.groups == 0
    with pytest.raises(AssertionError):
        assert_rate_is(int(records.y[inside].sum()), int(inside.sum()), other.positive_rate(0))


def test_given_the_inputs_the_label_does_not_depend_on_the_group(population, records):
    # Probability integral: y has rate Phi((x1 - c) / s) whatever the group, here in slices of x1.
    probability = stats.norm.cdf((records.X[:, 0] - population.threshold) / population.label_noise)
    for group in range(3):
        chosen = (records.groups == group) & (probability > 0.3) & (probability < 0.7)
        excess = records.y[chosen].sum() - probability[chosen].sum()
        deviation = math.sqrt((probability[chosen] * (1 - probability[chosen])).sum())
        assert abs(excess / deviation) < stats.norm.isf(FALSE_ALARM / 2)


def test_without_bias_every_group_has_the_same_rates():
    rates = synthetic_population(n_groups=5, bias=0).rates(np.arange(10.0), 0.3)
    for values in (rates.selection, rates.true_positive, rates.false_positive):
        assert np.ptp(values) == 0


@pytest.mark.parametrize(("b", "rate"), [(0.0, 1.0), (-1.0, 0.0)])
def test_a_rule_that_is_constant_has_rates_of_nought_or_one(b, rate):
    rates = synthetic_population().rates(np.zeros(10), b)
    assert rates.selection.tolist() == rates.true_positive.tolist() == rates.false_positive.tolist() == [rate] * 2


def test_rates_of_both_labels_mix_to_the_selection_rate(population):
    rates = population.rates(*RULE)
    positive = np.array([population.positive_rate(group) for group in range(3)])
    mixed = positive * rates.true_positive + (1 - positive) * rates.false_positive
    np.testing.assert_allclose(mixed, rates.selection, atol=1e-12)


def test_default_shares_fall_from_the_first_group_to_the_last():
    assert synthetic_population().group_shares == pytest.approx((2 / 3, 1 / 3))
    assert synthetic_population(n_groups=4).group_shares == pytest.approx((0.4, 0.3, 0.2, 0.1))


def test_the_same_seed_draws_the_same_records(population):
    first, again = (population.sample(50, np.random.default_rng(3)) for _ in range(2))
    for name in ("X", "y", "groups"):
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
    assert first.group_names == ("group 0", "group 1", "group 2")
    assert first.X.dtype == np.float32


def test_positive_rate_by_hand():
    # mu = (bias / 2) / sqrt 2 = 1 in the first group; s^2 + 1 = 4; (1 - c) / 2 = 0.25.
    population = synthetic_population(bias=2 * math.sqrt(2), threshold=0.5, label_noise=math.sqrt(3))
    assert population.positive_rate(0) == pytest.approx(stats.norm.cdf(0.25), abs=1e-15)
    assert population.positive_rate(1) == pytest.approx(stats.norm.cdf(-0.75), abs=1e-15)


def test_quadrant_probability_in_closed_form():
    # Sheppard (1899): Pr(U <= 0, V <= 0) = 1/4 + arcsin(rho) / (2 pi).
    for rho in (-0.99, -0.5, 0, 0.3, 0.99):
        assert both_below(0, 0, rho) == pytest.approx(0.25 + math.asin(rho) / (2 * math.pi), abs=1e-14)


@pytest.mark.parametrize("h", [-2.5, 0.4, 3])
@pytest.mark.parametrize("k", [-1, 0.4])
@pytest.mark.parametrize("rho", [-0.95, -0.2, 0.6, 0.95])
def test_bivariate_normal_against_integrating_out_one_variable(h, k, rho):
    def inner(u: float) -> float:
        return stats.norm.pdf(u) * stats.norm.cdf((k - rho * u) / math.sqrt(1 - rho**2))

    expected, _ = integrate.quad(inner, -12, h, points=[-2, 0, k / rho] if h > 0 else None, epsabs=1e-12, limit=200)
    assert both_below(h, k, rho) == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_groups": 1}, "n_groups must be at least 2, got 1"),
        ({"n_features": 1}, "must be at least 2"),
        ({"n_groups": 0}, "n_groups must be a whole number of at least 1"),
        ({"label_noise": 0}, "label_noise must be positive"),
        ({"bias": math.nan}, "bias must be finite"),
        ({"group_shares": (0.5, 0.6)}, "group_shares must be 2 positive numbers with sum 1"),
        ({"group_shares": (1.0,)}, "group_shares must be 2 positive numbers"),
    ],
)
def test_impossible_populations_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        synthetic_population(**arguments)


def test_impossible_questions_are_refused(population):
    with pytest.raises(ValueError, match=r"^group must be from 0 to 2, got 3\.$"):
        population.positive_rate(3)
    with pytest.raises(ValueError, match=r"^w must have shape \(4,\), got \(2,\)\.$"):
        population.rates(np.ones(2), 0)
