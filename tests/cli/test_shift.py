"""`fairdp shift`: bounds of a saved model's certificate in another mix of groups and labels."""

import pytest

from fairdp import FairDPClassifier
from fairdp.cli import main

FIT = ("fit", "--dataset", "synthetic", "--method", "dpsgd", "--n-steps", 12, "--sample-rate", 0.1, "--seed", 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    above = tmp_path_factory.mktemp("shift")
    for name, more in (("model", ()), ("bare", ("--certify-fraction", 0)), ("sequence", ("--require-tau", 0.9))):
        with pytest.raises(SystemExit) as stop:
            main([str(word) for word in (*FIT, *more, "--out", above / name)])
        assert stop.value.code == 0
    return above


def test_it_prints_what_the_certificate_bounds_and_writes_nothing(answer, run, folder):
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    report = answer("shift", folder / "model", "--gamma", "0,.02,.1")
    certificate = FairDPClassifier.load(folder / "model").certificate_
    for row, gamma in zip(report["bounds"], (0.0, 0.02, 0.1), strict=True):
        assert row == {"gamma": gamma, **certificate.under_shift(gamma)}
    still, moved = report["bounds"][0], report["bounds"][2]
    # Instead of the plain bound, not beside it; what is conditioned on the label does not move.
    assert certificate.gaps["demographic_parity"].tau <= still["demographic_parity"] < moved["demographic_parity"]
    assert still["equal_opportunity"] == moved["equal_opportunity"] == certificate.gaps["equal_opportunity"].tau
    shown = run("shift", folder / "model", "--gamma", ".1").out
    printed = float(shown.split("at most")[1].split()[0])
    assert moved["demographic_parity"] <= printed <= moved["demographic_parity"] + 1e-4
    assert before == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("name", "gamma", "words"),
    [
        ("model", "1.5", ["--gamma must be in [0, 1], got 1.5."]),
        ("model", "nan", ["--gamma must be in [0, 1]"]),
        ("bare", ".1", ["has no certificate, because", "run fairdp certify on fresh records"]),
        ("sequence", ".1", ["leaves a sequence of tests no level for bounds under a shift"]),
        ("nowhere", ".1", ["nowhere"]),
    ],
)
def test_what_it_cannot_say_is_one_line(run, folder, name, gamma, words):
    refused = run("shift", folder / name, "--gamma", gamma)
    assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)
    assert [word for word in words if word not in refused.err] == []
