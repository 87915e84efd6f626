"""`fairdp shift`: bounds of a saved model's certificate in another mix of groups and labels."""

from pathlib import Path

import pytest

from fairdp import FairDPClassifier
from pool import SHORT

MADE = {
    "model": ("--certify-metrics", "demographic_parity,equal_opportunity", "--epsilon", 4),
    "bare": ("--certify-fraction", 0),
    "sequence": ("--certify-metrics", "demographic_parity", "--require-tau", 0.9),
}


def test_it_prints_what_the_certificate_bounds_and_writes_nothing(answer, run, taken):
    taken(*SHORT, "--method", "dpsgd", *MADE["model"])
    before = {path: path.read_bytes() for path in Path("model").iterdir()}
    report = answer("shift", "model", "--gamma", "0,.02,.1")
    certificate = FairDPClassifier.load("model").certificate_
    for row, gamma in zip(report["bounds"], (0.0, 0.02, 0.1), strict=True):
        assert row == {"gamma": gamma, **certificate.under_shift(gamma)}
    still, moved = report["bounds"][0], report["bounds"][2]
    # Instead of the plain bound, not beside it; what is conditioned on the label does not move.
    assert certificate.gaps["demographic_parity"].tau <= still["demographic_parity"] <= moved["demographic_parity"]
    assert still["equal_opportunity"] == moved["equal_opportunity"] == certificate.gaps["equal_opportunity"].tau
    printed = float(run("shift", "model", "--gamma", ".1").out.split("at most")[1].split()[0])
    assert moved["demographic_parity"] <= printed <= moved["demographic_parity"] + 1e-4
    assert before == {path: path.read_bytes() for path in Path("model").iterdir()}


@pytest.mark.parametrize(
    ("name", "gamma"), [("model", "1.5"), ("model", "nan"), ("bare", ".1"), ("sequence", ".1"), ("nowhere", ".1")]
)
def test_what_it_cannot_say_is_one_line(refused, taken, name, gamma):
    taken(*SHORT, "--method", "dpsgd", *MADE.get(name, MADE["bare"]))
    refused("shift", name if name == "nowhere" else "model", "--gamma", gamma)
