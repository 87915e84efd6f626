"""Certificates that hold together: each spends its part of α, and the ledger keeps count."""

import math

import pytest

from fairdp._checks import DataError, ParameterError
from fairdp.certify.origin import share_of_alpha
from fairdp.ledger.book import Ledger
from fairdp.ledger.entries import Series
from fairdp.ledger.series import ENDLESS
from ledger_cases import claim, people, pure


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "ledger.sqlite") as opened:
        yield opened


def certified(ledger: Ledger, month: int, of: int | None, model: str = "1") -> Series | None:
    records = people(*range(100 * month, 100 * month + 10))
    said = {"command": "certify", "model": model, "fresh": True, "of": of}
    return ledger.spend(claim(ledger, pure(0.1), records, **said)).series


def test_twelve_certificates_are_counted_and_there_is_no_thirteenth(ledger):
    numbers = [certified(ledger, month, 12).number for month in range(12)]
    assert numbers == list(range(1, 13))
    with pytest.raises(DataError, match="all 12 certificates of the series are made"):
        certified(ledger, 13, 12)
    # Those of another model are another series.
    assert certified(ledger, 14, 12, model="2") == Series(number=1, of=12)


def test_the_length_of_a_series_cannot_be_changed_on_the_way(ledger):
    certified(ledger, 1, 3)
    for other in (2, 12, ENDLESS):
        with pytest.raises(DataError, match="are a series of 3; repeat that of"):
            certified(ledger, 2, other)
    assert certified(ledger, 2, 3).number == 2


def test_a_certificate_by_itself_is_in_no_series(ledger):
    assert certified(ledger, 1, None) is None
    assert certified(ledger, 2, 3).number == 1
    with pytest.raises(ParameterError, match="of must be the number of certificates"):
        certified(ledger, 3, -1)


@pytest.mark.parametrize("of", [1, 2, 12])
def test_parts_of_alpha_are_one_together(of):
    assert math.fsum(share_of_alpha(k, of) for k in range(1, of + 1)) == pytest.approx(1.0)


def test_parts_of_a_series_without_end_are_less_than_one_together():
    parts = [share_of_alpha(k, ENDLESS) for k in range(1, 20_000)]
    assert 0.999 < math.fsum(parts) < 1.0
