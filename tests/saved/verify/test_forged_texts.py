"""Forgeries that a reader sees and a parser does not, and certificates that vouch for nothing."""

import pytest

from fairdp import FairDPClassifier
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


def test_a_certificate_on_fresh_records_vouches_that_they_are(tmp_path):
    """Held-out records that are called fresh, with nothing assumed: the statement would leave the assumption out."""
    folder = saved(KIND, tmp_path / "model")

    def call_fresh(files):
        records = {"group_sizes": files.privacy["group_sizes"], "sizes_epsilon": 0.0, "assumed": [], "kind": "fresh"}
        taus = {name: files.certificate[name]["tau"] for name in files.certificate["metrics"]}
        epsilon = files.certificate["epsilon"]
        earlier = {"confidence": files.certificate["confidence"], "epsilon": epsilon, "tau": taus}
        files.certificate["about"]["records"] = {**records, "earlier": [earlier]}
        reword(files.certificate)

    forge(folder, call_fresh)
    assert "certificate's records" in failed(folder)
