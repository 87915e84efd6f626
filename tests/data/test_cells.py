"""The reading of one cell: its texts, its number, its date."""

import datetime
import decimal
import math
import uuid

import numpy as np
import pandas as pd
import pytest

from fairdp.data.cells import MISSING_WORDS, Moment, canonical_text, kind_of, moment_of, normalized, number_of, raw_text

UTC_PLUS_TWO = datetime.timezone(datetime.timedelta(hours=2))


@pytest.mark.parametrize(
    ("value", "spelling", "text"),
    [
        ("01", "01", "01"),
        ("1", "1", "1"),
        ("1.0", "1.0", "1"),
        (" 1.50\t", "1.50", "1.5"),
        ("-0", "-0", "0"),
        ("-0.00", "-0.00", "0"),
        ("+5", "+5", "5"),
        (".5", ".5", "0.5"),
        ("00", "00", "00"),
        ("0.5", "0.5", "0.5"),
        ("00.5", "00.5", "00.5"),
        ("1e5", "1e5", "1e5"),
        ("0e12", "0e12", "0e12"),
        ("9" * 400, "9" * 400, "9" * 400),
        ("9007199254740993", "9007199254740993", "9007199254740993"),
        ("9007199254740993.0", "9007199254740993.0", "9007199254740993"),
        ("0.00001", "0.00001", "1e-05"),
        ("0A", "0A", "0A"),
        ("١٢", "١٢", "١٢"),
        (".", ".", "."),
        ("true", "true", "True"),
        ("FALSE", "FALSE", "False"),
        ("tRUE", "tRUE", "tRUE"),
        ("2020-01-05T00:00:00", "2020-01-05T00:00:00", "2020-01-05"),
        ("0001-02-03", "0001-02-03", "0001-02-03"),
        ("01/02/2020", "01/02/2020", "01/02/2020"),
        (1, "1", "1"),
        (1.0, "1", "1"),
        (-0.0, "0", "0"),
        (2**70, str(2**70), str(2**70)),
        (np.uint64(2**64 - 1), "18446744073709551615", "18446744073709551615"),
        (1e22, "10000000000000000000000", "10000000000000000000000"),
        (np.float64(0.1), "0.1", "0.1"),
        (np.float32(0.1), "0.1", "0.1"),
        (math.inf, "inf", "inf"),
        (True, "True", "True"),
        (np.False_, "False", "False"),
        (decimal.Decimal("1.00"), "1", "1"),
        (decimal.Decimal("0.10"), "0.1", "0.1"),
        (decimal.Decimal("1E+3"), "1000", "1000"),
        (datetime.date(2020, 1, 5), "2020-01-05", "2020-01-05"),
        (datetime.datetime(2020, 1, 5), "2020-01-05", "2020-01-05"),
        (
            datetime.datetime(2020, 1, 5, 1, tzinfo=UTC_PLUS_TWO),
            "2020-01-04 23:00:00+00:00",
            "2020-01-04 23:00:00+00:00",
        ),
        (pd.Timestamp("2020-01-05 10:00:00.5"), "2020-01-05 10:00:00.500000", "2020-01-05 10:00:00.500000"),
        (np.datetime64("2020-01-05T10"), "2020-01-05 10:00:00", "2020-01-05 10:00:00"),
        (uuid.UUID(int=1), str(uuid.UUID(int=1)), str(uuid.UUID(int=1))),
    ],
)
def test_the_text_of_a_cell_by_hand(value, spelling, text):
    assert raw_text(value) == spelling
    assert canonical_text(value) == text


def test_a_code_may_stand_for_its_number_but_not_the_other_way_round():
    assert [normalized(code) for code in ("01", "0001", "01.0", "-01")] == ["1", "1", "1", "-1"]
    assert normalized("1") == "1"


@pytest.mark.parametrize("value", [None, pd.NA, pd.NaT, math.nan, np.float32("nan"), np.datetime64("NaT")])
def test_every_kind_of_missing_value_is_one(value):
    assert raw_text(value) in MISSING_WORDS
    assert kind_of(value) == "missing"
    assert math.isnan(number_of(value))


def test_missing_decimals_and_words_are_missing():
    for value in (decimal.Decimal("nan"), decimal.Decimal("sNaN"), np.timedelta64("NaT"), *MISSING_WORDS):
        assert kind_of(value) == "missing"
        assert math.isnan(number_of(value))
    assert kind_of(" NA ") == "missing"
    assert kind_of("Na") == kind_of("?") == "word"


@pytest.mark.parametrize(
    ("value", "number"),
    [
        ("1e3", 1000.0),
        ("1e400", math.inf),
        ("-Infinity", -math.inf),
        ("9" * 5000, math.inf),
        ("1e-400", 0.0),
        ("01", 1.0),
        ("12345678.90123456789", 12345678.90123456789),
        ("9007199254740993", 9007199254740992.0),
        (9007199254740993, 9007199254740992.0),
        (np.float32(0.1), 0.10000000149011612),
        ("true", 1.0),
        (False, 0.0),
        (np.True_, 1.0),
        (decimal.Decimal("0.1"), 0.1),
        ("1970-01-11", 10.0),
        ("1970-01-11 12:00", 10.5),
        ("1970-01", 0.0),
        ("1970/1/2", 1.0),
        ("1970.01.02", 1.0),
        ("19700102", 19700102.0),
        ("1970-01-01T00:00+02:00", -1 + 22 / 24),
        ("1970-01-01 06:00:00 -06", 0.5),
        ("1969-12-31T23:59:59.999999999Z", -1 + (86_400 * 10**9 - 1) / (86_400 * 10**9)),
        (datetime.date(1969, 12, 31), -1.0),
        (pd.Timestamp("1970-01-01 12:00", tz="UTC"), 0.5),
        *((word, None) for word in ("old", "1_000", "0x1A", "1,000", "NAN", "nan(1)", "now", "today", "10:00", "١٢")),
        *((date, None) for date in ("2020-02-30", "2020-01-05T24:00", "2020-01-05T", "2020-W01-1", "20-01-05")),
        (datetime.timedelta(days=1), None),
        (datetime.time(10), None),
    ],
)
def test_the_number_of_a_cell_by_hand(value, number):
    assert number_of(value) == number


def test_whole_numbers_beyond_the_largest_float_are_infinite():
    assert (number_of(10**400), number_of(-(10**400))) == (math.inf, -math.inf)


def test_zero_has_no_sign():
    for value in ("-0", "-0.0", -0.0, np.float32(-0.0), "-1e-400"):
        assert math.copysign(1, number_of(value)) == 1


def test_a_moment_is_the_same_whatever_unit_it_is_stored_in():
    text = "1999-12-31 23:59:58.123456"
    days = {number_of(pd.Timestamp(text).as_unit(unit)) for unit in ("us", "ns")} | {number_of(text)}
    assert len(days) == 1
    assert moment_of(text) == Moment(10_956, 86_398_123_456_000, False)


@pytest.mark.parametrize(
    ("value", "kind"),
    [("TRUE", "truth"), ("1e5", "number"), ("01", "code"), ("0A", "word"), ("2020-01", "date"), (True, "truth")],
)
def test_kinds_by_hand(value, kind):
    assert kind_of(value) == kind


@pytest.mark.parametrize("value", [["a"], {"a": 1}, np.zeros(2), b"a", ("a",), {"a"}])
def test_lists_and_bytes_are_no_cells(value):
    with pytest.raises(TypeError):
        raw_text(value)
