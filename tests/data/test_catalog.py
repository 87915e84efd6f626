"""The named data sets: cards, splits, and the paper's Monte-Carlo errors from the loaded test rows."""

import subprocess
import sys

import numpy as np
import pytest

from fairdp.data import catalog, sources
from fairdp.data.catalog import DATASETS, _frames, load_dataset


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


def cell_sizes(data) -> np.ndarray:
    """Rows of each group (rows) and label (columns)."""
    return np.bincount(2 * data.groups + data.y, minlength=2 * data.n_groups).reshape(-1, 2)


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


@pytest.mark.parametrize(
    ("name", "n_test", "parity", "opportunity", "odds"),
    [
        pytest.param("adult", 16_281, "4.373e-05", "3.166e-04", "3.701e-04", marks=pytest.mark.needs_data("adult")),
        pytest.param("credit", 6_000, "1.10e-04", "4.85e-04", "6.28e-04", marks=pytest.mark.needs_data("credit")),
        pytest.param("utkface", 4_741, "1.36e-04", "3.74e-04", "6.05e-04", marks=pytest.mark.needs_data("utkface")),
    ],
)
def test_errors_of_the_paper_follow_from_the_test_rows(loaded, name, n_test, parity, opportunity, odds):
    # The paper's table is 1 / (2 sqrt(10) n) summed over the groups, over the positives, over all cells.
    cells = cell_sizes(loaded(name).test)
    assert cells.sum() == n_test
    for sizes, printed in ((cells.sum(axis=1), parity), (cells[:, 1], opportunity), (cells, odds)):
        error = (1 / (2 * np.sqrt(10) * sizes)).sum()
        digits = len(printed.split("e")[0]) - 2
        assert f"{error:.{digits}e}" == printed


@pytest.mark.needs_data("adult")
def test_adult_cells(loaded):
    data = loaded("adult")
    assert data.train.group_sizes.tolist() == [10_771, 21_790]
    assert cell_sizes(data.test).tolist() == [[4_831, 590], [7_604, 3_256]]
    assert data.notes == ()


@pytest.mark.needs_data("credit")
def test_credit_split_depends_on_the_seed_only(loaded):
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
    monkeypatch.setattr(catalog, "_load_table", lambda *given: given)
    assert load_dataset("adult", split_seed=3) == ("adult", tmp_path, ("note",), 3, ("sex",))
    assert asked == ["adult"]


def test_listing_the_data_sets_waits_for_no_heavy_import():
    program = (
        "import sys, fairdp.data.catalog; print(sorted({'pandas', 'torch', 'scipy', 'sklearn'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
