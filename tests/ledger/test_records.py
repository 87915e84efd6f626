"""Records: the same whatever a schema or a file format makes of them, and matched where columns allow it."""

import datetime
import tracemalloc
import zlib

import numpy as np
import pandas as pd
import pytest

from fairdp.errors import DataError
from fairdp.ledger.ledger import Claim, Ledger
from fairdp.ledger.records import HashedRecords, RecordHasher, histories, maximal, members
from ledger_cases import claim, hashed, people, pure

KEY = bytes(range(32))


def hashes(frame: pd.DataFrame, *, key: bytes = KEY) -> list[bytes]:
    hasher = RecordHasher(key)
    hasher.add(frame)
    records = hasher.hashed()
    return [bytes(value) for value in records.views[records.columns].view("V16")]


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "ledger.sqlite") as opened:
        yield opened


AGES = {
    "whole numbers": [31, 40],
    "floats": [31.0, 40.0],
    "text": ["31", "40"],
    "text of floats": ["31.0", "4e1"],
    "codes": ["031", "+40"],
    "blanks": [" 31 ", "40\t"],
    "objects": np.array([31, "40"], dtype=object),
    "single precision": np.array([31, 40], dtype=np.float32),
}


@pytest.mark.parametrize("ages", AGES.values(), ids=AGES)
@pytest.mark.parametrize("arrow", [False, True])
def test_the_same_people_have_the_same_hashes_in_every_format(ages, arrow):
    frame = pd.DataFrame({"age": ages, "sex": ["f", "m"]})
    if arrow and frame["age"].dtype != object:
        frame = frame.convert_dtypes(dtype_backend="pyarrow")
    assert hashes(frame) == hashes(pd.DataFrame({"sex": ["f ", "m"], "age": ["31", "40"]}))


FRACTIONS = [0.1, -2 / 3, 1e-7, 0.1 + 0.2]


@pytest.mark.parametrize(
    "incomes",
    [
        np.array(FRACTIONS, dtype=np.float32),
        np.array(FRACTIONS, dtype=np.float32).astype(float),
        [str(number) for number in np.array(FRACTIONS, dtype=np.float32)],
        [f"{number:.15g}" for number in FRACTIONS],
    ],
    ids=["single precision", "once of single precision", "text of single precision", "text of fifteen digits"],
)
def test_fractions_are_the_same_in_every_format(incomes):
    assert hashes(pd.DataFrame({"income": incomes})) == hashes(pd.DataFrame({"income": FRACTIONS}))


def test_whole_numbers_are_told_apart_to_the_last_digit():
    assert hashes(pd.DataFrame({"number": [2**40, 2**40 + 1]})) != hashes(pd.DataFrame({"number": [2**40] * 2}))


def test_dates_truth_values_and_missing_values_are_the_same_in_every_format():
    text = pd.DataFrame({"day": ["2020-01-05", "NA"], "paid": ["true", "False"]})
    typed = pd.DataFrame({"day": pd.to_datetime(["2020/1/5", None]), "paid": [True, False]})
    objects = pd.DataFrame({"day": [datetime.date(2020, 1, 5), None], "paid": [1, 0]})
    assert hashes(text) == hashes(typed) == hashes(objects)


@pytest.mark.parametrize("other", [["31", "41"], ["m", "31"], ["31", "40 years"]])
def test_other_values_have_other_hashes(other):
    assert hashes(pd.DataFrame({"age": other})) != hashes(pd.DataFrame({"age": ["31", "40"]}))


def test_values_of_one_column_are_not_those_of_another():
    one = hashes(pd.DataFrame({"a": [1, 2], "b": [2, 1]}))
    assert len(set(one)) == 2
    assert hashes(pd.DataFrame({"a": [1], "c": [2]}))[0] != one[0]


def test_without_the_key_hashes_say_nothing():
    assert not set(hashes(people(*range(100)))) & set(hashes(people(*range(100)), key=bytes(32)))


def test_lists_in_a_column_that_no_schema_uses_are_hashed_too():
    one = hashes(pd.DataFrame({"a": [1, 1], "tags": [["x"], ["y"]]}))
    assert len(set(one)) == 2


def test_batches_give_the_hashes_of_the_whole():
    hasher = RecordHasher(KEY)
    for start in range(0, 90, 30):
        hasher.add(people(*range(start, start + 30)))
    records = hasher.hashed()
    assert [bytes(value) for value in records.views[records.columns].view("V16")] == hashes(people(*range(90)))
    with pytest.raises(DataError, match="other columns"):
        hasher.add(pd.DataFrame({"other": [1]}))


def test_a_table_with_one_column_more_is_matched_by_the_columns_it_had(ledger):
    ledger.spend(claim(ledger, pure(1.0), people(*range(20))))
    more = people(*range(10, 30)).assign(exported="2026-11-01")
    ledger.spend(claim(ledger, pure(1.0), more, table="with a column more"))
    ledger.spend(claim(ledger, pure(1.0), more.iloc[10:], table="again"))
    ledger.spend(claim(ledger, pure(1.0), more.iloc[10:].assign(exported="2026-12-01"), table="and again"))
    assert [entry.histories for entry in ledger.entries()] == [((),), ((1,),), ((2,),), ((2, 3),)]


def test_a_view_of_few_columns_takes_no_two_people_for_one(ledger):
    ledger.spend(claim(ledger, pure(1.0), people(*range(20))[["sex"]], table="few columns"))
    ledger.spend(claim(ledger, pure(1.0), people(*range(20)), table="a"))
    ledger.spend(claim(ledger, pure(1.0), people(*range(20, 40)), table="b"))
    assert ledger.entries()[2].histories == ((1,),)


def test_a_table_with_one_column_less_cannot_be_matched_so_that_all_may_be_shared(ledger):
    ledger.spend(claim(ledger, pure(1.0), people(*range(20))))
    ledger.spend(claim(ledger, pure(1.0), people(*range(50, 60)).drop(columns="paid"), table="without a column"))
    assert ledger.entries()[1].histories == ((1,),)


def test_a_table_of_something_else_is_not_summed(ledger):
    ledger.spend(claim(ledger, pure(1.0), people(*range(20))))
    ledger.spend(claim(ledger, pure(1.0), pd.DataFrame({"house": [1], "sex": ["f"], "b": [1]}), table="houses"))
    assert ledger.entries()[1].histories == ((),)


def test_records_that_are_unknown_may_be_any_of_the_table(ledger):
    ledger.spend(claim(ledger, pure(1.0), people(*range(20))))
    ledger.spend(claim(ledger, pure(1.0), None))
    ledger.spend(claim(ledger, pure(1.0), None, table="other"))
    ledger.spend(claim(ledger, pure(1.0), people(*range(50, 60))))
    assert [entry.histories for entry in ledger.entries()] == [((),), ((1,),), ((),), ((2,),)]


def test_equal_rows_are_charged_as_the_same_person_whoever_they_are(ledger):
    # One of two equal people in January, both in February: any of them may be the one.
    ledger.spend(claim(ledger, pure(1.0), people(1, 2)))
    ledger.spend(claim(ledger, pure(1.0), people(1, 1, 3)))
    ledger.spend(claim(ledger, pure(1.0), people(1, 1, 1)))
    assert [entry.histories for entry in ledger.entries()] == [((),), ((1,),), ((1, 2),)]


def test_histories_are_told_apart_in_many_rows_of_the_file(ledger, monkeypatch):
    monkeypatch.setattr("fairdp.ledger.store.CHUNK", 7)
    rng = np.random.default_rng(0)
    tables = [set(rng.choice(200, size=80, replace=False).tolist()) for _ in range(5)]
    for table in tables:
        ledger.spend(claim(ledger, pure(0.1), people(*table)))
    for entry in ledger.entries():
        before = range(entry.number - 1)
        expected = [
            tuple(number + 1 for number in before if person in tables[number]) for person in tables[entry.number - 1]
        ]
        assert entry.histories == maximal(expected)
    assert ledger.check() == 5


def test_more_histories_than_can_be_kept_become_one_that_covers_all():
    rng = np.random.default_rng(0)
    used = {number: rng.random(20_000) < 0.5 for number in range(1, 15)}
    assert histories(20_000, used) == (tuple(range(1, 15)),)


def test_a_certificate_refuses_a_record_that_its_model_has_used(ledger):
    ledger.spend(claim(ledger, pure(1.0), people(*range(20))))
    said = {"command": "certify", "model": "1", "fresh": True}
    with pytest.raises(DataError, match=r"of 3 records some equal .* \(1 in entry 1 of the ledger\)"):
        ledger.spend(claim(ledger, pure(0.1), people(19, 20, 21), **said))
    ledger.spend(claim(ledger, pure(0.1), people(20, 21), **said))
    with pytest.raises(DataError, match="entry 2"):
        ledger.spend(claim(ledger, pure(0.1), people(21, 22), **said))
    # Another model has not seen them.
    ledger.spend(claim(ledger, pure(1.0), people(*range(40, 50))))
    ledger.spend(claim(ledger, pure(0.1), people(19, 20, 21), **{**said, "model": "3"}))
    assert [entry.model for entry in ledger.entries()] == ["", "1", "", "3"]


def test_overlaps_are_counted_exactly_and_by_entry(ledger):
    ledger.spend(claim(ledger, pure(1.0), people(*range(1000))))
    ledger.spend(claim(ledger, pure(0.1), people(*range(1000, 1500)), command="certify", model="1", fresh=True))
    ledger.spend(claim(ledger, pure(1.0), people(*range(2000, 2100))))
    mixed = hashed(ledger, people(*range(30, 100), *range(1400, 1500), *range(2000, 2300), 7, 7, 7))
    assert ledger.used_by("1", mixed) == {1: 73, 2: 100}
    assert ledger.used_by("3", mixed) == {3: 100}
    assert ledger.used_by("none", mixed) == {}
    # The first and the last of the sorted hashes too.
    assert all(ledger.used_by("3", hashed(ledger, people(number))) == {3: 1} for number in range(2000, 2100))


@pytest.mark.parametrize("used", [None, people(*range(20)).assign(more=1)], ids=["unknown", "by other columns"])
def test_records_that_cannot_be_compared_are_not_taken_for_fresh(ledger, used):
    ledger.spend(claim(ledger, pure(1.0), used))
    said = {"command": "certify", "model": "1"}
    with pytest.raises(DataError, match=r"^entry 1 of the ledger does not know its records by columns of this table"):
        ledger.spend(claim(ledger, pure(0.1), people(40), fresh=True, **said))
    with pytest.raises(DataError, match=r"^no ledger saw the training"):
        ledger.spend(claim(ledger, pure(0.1), people(40), **{**said, "model": "a digest"}, fresh=True))
    assert len(ledger.entries()) == 1
    ledger.spend(claim(ledger, pure(0.1), people(40), **said))


def of_model(ledger: Ledger, frame: pd.DataFrame, **said) -> Claim:
    hasher = ledger.hasher()
    hasher.add(frame, ("age", "sex", "paid"))
    return Claim(**{"command": "fit", **said}, table="loans", cost=pure(0.1), records=hasher.hashed())


def test_a_model_knows_its_records_by_its_own_columns_and_nothing_is_added_up_by_them(ledger):
    same = people(*range(20)).drop_duplicates(["age", "sex", "paid"])
    ledger.spend(of_model(ledger, same))
    assert len(ledger.entries()[0].views.keys() - {"model"}) == 1
    others = same.assign(id=range(100, 100 + len(same)))
    said = {"command": "certify", "model": "1", "fresh": True}
    for table in (others, same.assign(exported="2026-11-01"), same.drop(columns="id")):
        with pytest.raises(DataError, match=rf"\({len(same)} in entry 1 of the ledger\)"):
            ledger.spend(of_model(ledger, table, **said))
    # By all columns these are other people, as far as what they have spent is concerned.
    entry = ledger.spend(of_model(ledger, others, model="1", command="certify"))
    assert entry.histories == ((),)
    assert ledger.check() == 2


def test_the_negative_control_by_all_columns_takes_them_for_fresh(ledger):
    ledger.spend(claim(ledger, pure(0.1), people(*range(20))))
    said = {"command": "certify", "model": "1", "fresh": True}
    ledger.spend(claim(ledger, pure(0.1), people(*range(20)).assign(id=range(100, 120)), **said))


def test_hashes_are_pinned():
    """Another hash would make every ledger on disk blind."""
    frame = pd.DataFrame({"age": [31, 40.5], "sex": ["f", None]})
    assert [value.hex() for value in hashes(frame)] == [
        "3136d6f9f882090306ded6c6bb033896",
        "74a67b01fe65bcf9b1d97759e6aad47e",
    ]


def one_bit_apart() -> np.ndarray:
    """A row and the rows that differ from it in one bit, for 50 rows."""
    words = np.random.default_rng(0).random((50, 8), dtype=np.float32).view(np.uint32)
    flips = np.vstack([np.zeros((1, 8)), np.kron(np.eye(8), 2 ** np.arange(23)[:, None])]).astype(np.uint32)
    return (words[:, None] ^ flips).reshape(-1, 8).view(np.float32)


ROWS = {
    "random": lambda: np.random.default_rng(0).random((50_000, 4), dtype=np.float32),
    "one bit apart": one_bit_apart,
    "one small integer apart": lambda: np.pad(np.arange(1000)[:, None], ((0, 0), (3, 6))),
    "one-hot pairs": lambda: np.hstack([np.kron(np.eye(60), np.ones((60, 1))), np.tile(np.eye(60), (60, 1))]),
}
WEAK = {
    "random": lambda row: zlib.crc32(row.tobytes()) & 0xFFFFFF,
    "one bit apart": lambda row: int(row.view(np.uint32).sum(dtype=np.uint32)) >> 8,
    "one small integer apart": lambda row: zlib.crc32(row.tobytes()) & 0xFF,
    "one-hot pairs": lambda row: float(row.sum()),
}


@pytest.mark.parametrize("kind", ROWS)
def test_unequal_records_do_not_collide(kind):
    # Probability of a false alarm: below n² / 2¹²⁹.
    rows = ROWS[kind]()
    assert len(set(hashes(pd.DataFrame(rows)))) == len(np.unique(rows, axis=0)) == len(rows)


@pytest.mark.parametrize("kind", ROWS)
def test_that_check_notices_a_weak_hash(kind):
    rows = ROWS[kind]()
    assert len({WEAK[kind](row) for row in rows.astype(np.float32)}) < len(rows)


def test_printing_shows_neither_key_nor_hashes(ledger):
    assert repr(hashed(ledger, people(1, 2, 3))) == "HashedRecords(3 by 4 columns)"


def test_registering_many_records_takes_little_more_memory_than_their_hashes(ledger):
    n_records, hasher = 400_000, ledger.hasher()
    tracemalloc.start()
    for start in range(0, n_records, 50_000):
        hasher.add(people(*range(start, start + 50_000)))
    claimed = claim(ledger, pure(1.0), None)
    records = hasher.hashed()
    before, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    ledger.spend(type(claimed)(**{**vars(claimed), "records": records}))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak - before < 16 * n_records
    assert ledger.check() == 1


def test_hashes_that_begin_alike_are_told_apart():
    """Against sets, where many hashes share their first half, and some are there twice."""
    rng = np.random.default_rng(5)
    pool = [bytes([first]) * 8 + bytes([1 + second]) * 8 for first in range(6) for second in range(9)]
    for _ in range(50):
        mine, theirs = (np.array(rng.choice(pool, size), dtype="S16") for size in rng.integers(1, 40, 2))
        chunks = np.array_split(np.sort(theirs), min(3, len(theirs)))
        found = members(HashedRecords({("a",): mine}), ("a",), lambda _, chunks=chunks: iter(chunks))
        assert found.tolist() == [hash_ in set(theirs.tolist()) for hash_ in mine.tolist()]
