"""Columns read with noise: how far one record moves the counts, their noise, and what follows from them alone."""

import numpy as np
import pandas as pd
import pytest

from fairdp import DataError
from fairdp import config as noise
from fairdp.accounting.mechanisms import PrivacyBudget, reading_for
from fairdp.data.columns import Categorical, Numeric
from fairdp.data.infer import ALL_SHAPES, Tally, released_tally, schema_from, shape_of, tally_of
from fairdp.randomness import keyed_below
from fairdp.releases import OPEN_DOMAIN, watching
from statistical import assert_normal, assert_plausible

CELLS = ["1", "01", "1.5", "-3e4", "", "NA", "yes", "TRUE", "2020-05-05", "1e400", "ßtraße", "0", "0.0001", None]


def below(key=b"k" * 32):
    return lambda purpose: keyed_below(key, purpose)


def moved(one, other) -> float:
    """Distance of two tallies, in units of the noise on the counts of values."""
    total = 0.0
    for before, after in zip(one.values, other.values, strict=True):
        total += sum((before.get(text, 0) - after.get(text, 0)) ** 2 for text in {*before, *after})
    for before, after, factor in (
        (one.shapes, other.shapes, noise.SHAPES),
        (one.distinct, other.distinct, noise.DISTINCT),
    ):
        total += float(np.sum(((before - after) / factor) ** 2))
    return total**0.5


def strange_table(rng, n_rows=40):
    """Every kind of cell, alone and shared."""
    return pd.DataFrame({f"c{i}": rng.choice(np.array(CELLS, dtype=object), n_rows) for i in range(5)})


def test_no_record_moves_the_counts_further_than_is_accounted():
    rng = np.random.default_rng(0)
    frame = strange_table(rng)
    frame["unique"] = [f"u{i}" for i in range(len(frame))]
    whole = tally_of(frame)
    reading = reading_for(PrivacyBudget(epsilon=1.0, delta=1e-5), frame.shape[1])
    bound = reading.std / reading.multiplier
    found = [moved(whole, tally_of(frame.drop(index=row))) for row in frame.index]
    assert max(found) <= bound * (1 + 1e-12)
    # A record whose cells are all its own moves everything: the bound is not too large either.
    for cell in ("only here", "7654321", "-7654321", "12.25", "007", "2031-01-05"):
        alone = pd.DataFrame({name: [cell] for name in frame.columns})
        assert moved(whole, tally_of(pd.concat([frame, alone], ignore_index=True))) == pytest.approx(bound), cell


def test_the_kind_and_size_of_a_cell_do_not_depend_on_the_table():
    found = {cell: ALL_SHAPES[shape_of(cell)] for cell in CELLS}
    assert (found["1"].low, found["1"].high) == (1.0, 2.0)
    assert (found["-3e4"].low, found["-3e4"].high) == (-40000.0, -30000.0)
    assert found["1e400"].high == 1e9
    assert found["0"] == found["0.0001"]
    kinds = {cell: shape.kind for cell, shape in found.items()}
    assert (kinds["01"], kinds["TRUE"], kinds[""], kinds[None], kinds["ßtraße"]) == (
        "code",
        "truth",
        "missing",
        "missing",
        "word",
    )
    days = (np.datetime64("2020-05-05") - np.datetime64("1970-01-01")).astype(int)
    assert found["2020-05-05"].low <= days < found["2020-05-05"].high
    for number in (0.0033, 0.5, 9.99, 10, 123, 99_999, 8.5e8):
        for signed in (number, -number):
            shape = ALL_SHAPES[shape_of(signed)]
            assert shape.low <= signed <= shape.high


def released(std, key=b"k" * 32, n_columns=60):
    """All noise of one reading by the part it is on; each value of the table is shared by very many."""
    frame = pd.DataFrame({f"c{i}": ["a", "b"] for i in range(n_columns)})
    tally = tally_of(frame)
    many = tally.values[0] | {"a": 10**6, "b": 10**6}
    tally = type(tally)(names=tally.names, values=(many,) * n_columns, shapes=tally.shapes, distinct=tally.distinct)
    noisy = released_tally(tally, std=std, threshold=100, below=below(key))
    values = np.array([count - 10**6 for counts in noisy.values for count in counts.values()])
    return values, np.ravel(noisy.shapes - tally.shapes), np.ravel(noisy.distinct - tally.distinct)


def test_every_count_has_noise_of_its_scale():
    """False-alarm rate 1e-6 each; 15 120 counts of kinds and sizes notice 5 %, see the negative control."""
    values, shapes, distinct = released(30.0)
    assert_normal(values + np.random.default_rng(1).uniform(-0.5, 0.5, values.size), 30.0)
    assert_normal(shapes + np.random.default_rng(2).uniform(-0.5, 0.5, shapes.size), 60.0)
    assert_normal(distinct + np.random.default_rng(3).uniform(-0.5, 0.5, distinct.size), 120.0)


def test_that_check_notices_noise_that_is_too_small():
    _, shapes, _ = released(30.0)
    with pytest.raises(AssertionError):
        assert_normal(0.95 * shapes, 60.0)


def test_a_value_passes_as_often_as_the_threshold_says_and_fewer_than_ten_people_never():
    std, threshold, n_values = 5.0, 15, 4000
    counts = {f"v{i}": noise.FEWEST for i in range(n_values)} | {f"w{i}": noise.FEWEST - 1 for i in range(n_values)}
    tally = tally_of(pd.DataFrame({"c": ["v0"]}))
    tally = type(tally)(names=("c",), values=(counts,), shapes=tally.shapes, distinct=tally.distinct)
    passed = released_tally(tally, std=std, threshold=threshold, below=below()).values[0]
    assert not [text for text in passed if text.startswith("w")]
    grid = np.arange(-200, 201)
    law = np.exp(-(grid**2) / (2 * std**2))
    chance = law[grid >= threshold - noise.FEWEST].sum() / law.sum()
    from scipy.stats import binomtest

    assert_plausible(binomtest(len(passed), n_values, chance).pvalue, "values that pass")
    assert min(passed.values()) >= threshold


def test_other_counts_meet_other_noise_and_the_same_counts_the_same():
    frame = pd.DataFrame({"c": ["a"] * 50 + ["b"] * 50})
    first, again = (released_tally(tally_of(frame), std=9.0, threshold=1, below=below()) for _ in range(2))
    assert (first.shapes == again.shapes).all()
    assert first.values == again.values
    turned = released_tally(tally_of(frame[::-1]), std=9.0, threshold=1, below=below())
    assert list(turned.values[0].items()) == list(first.values[0].items())
    # A row less; another value of the same kind and size; one row more in which it is missing.
    changed, missing = pd.DataFrame({"c": ["a"] * 51 + ["b"] * 49}), pd.DataFrame({"c": [*frame["c"], None]})
    for neighbour in (frame.iloc[1:], changed, missing):
        tally = tally_of(neighbour)
        other = released_tally(tally, std=9.0, threshold=1, below=below())
        noises = (first.shapes - tally_of(frame).shapes, other.shapes - tally.shapes)
        assert (noises[0] != noises[1]).sum() > 100


def test_everything_passes_the_release_point_and_no_rare_value_leaves():
    seen = []
    frame = pd.DataFrame({"c": ["a"] * 400 + ["rare"] * 5})
    with watching(lambda release: seen.append(release) or release.noisy):
        released_tally(tally_of(frame), std=9.0, threshold=60, below=below())
    assert [(release.purpose, release.law) for release in seen] == [("reading", "discrete_gaussian")] * 3
    assert [release.scale for release in seen] == [9.0, 18.0, 36.0]
    (values,) = [release for release in seen if release.exact.dtype == OPEN_DOMAIN]
    assert values.noisy["value"].tolist() == ["a"]
    assert dict(zip(values.exact["value"], values.exact["count"], strict=True)) == {"a": 400, "rare": 5}


def read(frame, std=5.0, **options):
    """The schema of a table at little noise."""
    noisy = released_tally(tally_of(frame), std=std, threshold=round(5.5 * std) + 10, below=below())
    return schema_from(noisy, "y", ("sex",), **options)


def table(n_rows=3000, **columns):
    rng = np.random.default_rng(5)
    plain = {"sex": rng.choice(["f", "m"], n_rows), "y": rng.choice(["no", "yes"], n_rows), "job": ["a", "b"] * 1500}
    return pd.DataFrame(plain | columns)


def column_of(values):
    schema, notes = read(table(c=values))
    (found,) = [column for column in schema.columns if column.name == "c"] or [None]
    (note,) = [line for line in notes if line.startswith("column 'c' is left out")] or [""]
    return found, note


def test_frequent_values_are_categories_and_all_others_count_as_unknown():
    found, _ = column_of(["red"] * 1500 + ["blue"] * 1400 + [f"rare {i}" for i in range(95)] + [""] * 5)
    assert found == Categorical(name="c", categories=("blue", "red", "?"), other="?")
    assert found.encode(pd.Series(["red", "rare 7", None, "?"])).tolist() == [
        [0, 1, 0],
        [0, 0, 1],
        [0, 0, 1],
        [0, 0, 1],
    ]


def test_a_few_whole_numbers_are_codes_and_many_are_a_quantity():
    assert column_of([1, 5, 9] * 1000)[0] == Categorical(name="c", categories=("1", "5", "9", "?"), other="?")
    assert column_of([0, 1, 2] * 1000)[0] == Numeric(name="c", low=0.0, high=3.0, missing="indicator")
    few_words = column_of(["unknown"] * 100 + [str(i % 60) for i in range(2900)])[0]
    assert isinstance(few_words, Numeric)
    found, _ = column_of(np.random.default_rng(0).integers(17, 75, 3000))
    assert found == Numeric(name="c", low=10.0, high=80.0, missing="indicator")


def test_one_extreme_number_moves_no_bound():
    values = np.random.default_rng(0).uniform(0.1, 4, 3000)
    bounds = [column_of(values)[0], column_of(np.append(values[:-1], 8e8))[0]]
    assert bounds[0] == bounds[1] == Numeric(name="c", low=0.1, high=4.0, missing="indicator")


def test_a_long_tail_is_read_on_a_logarithmic_scale():
    found, _ = column_of(np.concatenate([np.zeros(2500), np.random.default_rng(0).uniform(2000, 9000, 500)]))
    assert (found.low, found.high, found.transform) == (0.0, 9000.0, "signed_log")


def test_dates_have_bounds_of_five_years():
    days = np.datetime64("2001-03-04") + np.random.default_rng(0).integers(0, 3000, 3000)
    found, _ = column_of(days.astype(str))
    assert (found.low, found.high) == tuple(
        (np.datetime64(day) - np.datetime64("1970-01-01")).astype(int) for day in ("2000-01-01", "2010-01-01")
    )


def test_identifiers_with_gaps_too_names_and_constants_are_left_out():
    rng = np.random.default_rng(0)
    assert "identifier" in column_of(rng.choice(10**6, 3000, replace=False))[1]
    assert "identifier" in column_of(np.arange(3000))[1]
    assert "free text" in column_of([f"name {i}" for i in range(3000)])[1]
    assert "same value" in column_of(["x"] * 2995 + ["y"] * 5)[1]
    # Numbers that are measured are distinct and no identifiers.
    assert isinstance(column_of(rng.normal(size=3000))[0], Numeric)


def test_numbers_among_many_words_are_no_quantity():
    found, _ = column_of(["unknown"] * 1000 + list(range(2000)))
    assert found == Categorical(name="c", categories=("unknown", "?"), other="?")


def test_rare_groups_count_as_other_or_as_the_largest():
    few = table()
    few.loc[:20, "sex"] = "x"
    schema, notes = read(few)
    largest = few["sex"].value_counts().index[0]
    assert (schema.groups, schema.others) == ((("f", "m"),), (largest,))
    assert f"other values of 'sex' are assigned to group {largest!r}." in notes
    many = table()
    many.loc[:600, "sex"] = [f"own word {i}" for i in range(601)]
    assert read(many)[0].group_names == ("f", "m", "other")
    assert set(read(many)[0].encode_groups(many)[0]) == {0, 1, 2}


def test_what_cannot_be_read_is_refused_with_what_to_do():
    with pytest.raises(DataError, match=r"label 'y' has 0 values that at least some .*\(fairdp schema\)"):
        read(table(y=[f"{i}" for i in range(3000)]))
    with pytest.raises(DataError, match=r"label 'y' has 3 values .*\(a, b, c\)"):
        read(table(y=["a", "b", "c"] * 1000))
    with pytest.raises(DataError, match=r"protected column 'sex' has no value .* declare its values"):
        read(table(sex=[f"{i}" for i in range(3000)]))
    with pytest.raises(DataError, match=r"no column that can be an input: column 'job' is left out"):
        read(table(job=[f"{i} words" for i in range(3000)]))
    with pytest.raises(DataError, match=r"positive must be a value of label 'y' \(no, yes\), got 'maybe'"):
        read(table(), positive="maybe")


def test_the_schema_follows_from_the_noisy_counts_alone():
    frame = table(c=np.random.default_rng(0).integers(17, 75, 3000))
    noisy = released_tally(tally_of(frame), std=5.0, threshold=40, below=below())
    copied = Tally(
        names=noisy.names,
        values=tuple(dict(reversed(counts.items())) for counts in noisy.values),
        shapes=noisy.shapes.copy(),
        distinct=noisy.distinct.copy(),
        std=noisy.std,
        threshold=noisy.threshold,
    )
    assert schema_from(noisy, "y", ("sex",)) == schema_from(copied, "y", ("sex",))
