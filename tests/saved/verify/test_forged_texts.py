"""Forgeries that a reader sees and a parser does not, and certificates that vouch for nothing."""

import pytest

from fairdp import FairDPClassifier
from fairdp.saved.verify_checks import FRESH_SIZES_SHARE
from forgeries import KINDS, failed, forge, reword, saved, sum_up, tie

KIND = next(iter(KINDS))


@pytest.mark.parametrize(
    ("file", "before", "seen"),
    [
        ("privacy.json", '"epsilon":', '"epsilon": 0.01,\n  "epsilon":'),
        ("model.json", '"schema_version":', '"schema_version": 6,\n  "schema_version":'),
    ],
)
def test_a_name_that_stands_twice_is_noticed(tmp_path, file, before, seen):
    """Somebody who reads the file, and parsers that take the first value, would see another promise."""
    folder = saved(KIND, tmp_path / "model")
    path = folder / file
    path.write_text(path.read_text().replace(before, seen, 1))
    tie(folder)
    sum_up(folder)
    assert failed(folder) == {"records"}
    with pytest.raises(ValueError, match="a name stands twice"):
        FairDPClassifier.load(folder)


@pytest.mark.parametrize(
    ("changes", "is_wrong"),
    [
        ({}, False),
        ({"series": [2, 3]}, False),
        ({"assumed": []}, True),
        ({"assumed": ["unused_as_far_as_equal_values_tell", "unused_unchecked"]}, True),
        ({"earlier": []}, True),
        ({"series": [3, 2]}, True),
        ({"series": [0, 2]}, True),
        ({"sizes_epsilon": 0.0}, True),
    ],
    ids=str,
)
def test_a_certificate_on_fresh_records_says_all_that_it_is_worth(tmp_path, changes, is_wrong):
    """Without an assumption, an earlier certificate or its place in a series, it would seem to be worth more."""
    folder = saved(KIND, tmp_path / "model")

    def call_fresh(files):
        taus = {name: files.certificate[name]["tau"] for name in files.certificate["metrics"]}
        epsilon = files.certificate["epsilon"]
        records = {
            "kind": "fresh",
            "group_sizes": "noisy",
            "sizes_epsilon": epsilon * FRESH_SIZES_SHARE / (1 - FRESH_SIZES_SHARE),
            "earlier": [{"confidence": files.certificate["confidence"], "epsilon": epsilon, "tau": taus}],
            "assumed": ["unused_as_far_as_equal_values_tell"],
            "series": None,
        }
        files.certificate["about"]["records"] = records | changes
        reword(files.certificate)

    forge(folder, call_fresh)
    assert ("certificate's records" in failed(folder)) == is_wrong
