"""Local Law 144: every number of the profile follows from the counts in certificate.json, by hand."""

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from fairdp._io import json_bytes
from fairdp.certify.certificate import ScoreCounts
from fairdp.certify.rates import NoisySum, rate_of
from fairdp.cli import fairdp
from fairdp.data.schema import TableSchema
from fairdp.parameters import SCORE_EDGES
from fairdp.report.model import ll144
from fairdp.report.page import render_model
from fairdp.saved.folder import certificate_record
from page_reading import parsed

SEXES, RACES = ("female", "male", "Unknown"), ("a", "b", "other")
# By sex and race: label 0 and 1, each decided 0 and 1. "other" is below 2 % of all, "Unknown" is no category.
COUNTS = {
    ("female", "a"): ((300, 60), (40, 200)),
    ("female", "b"): ((250, 30), (60, 160)),
    ("female", "other"): ((4, 1), (-1, 5)),
    ("male", "a"): ((280, 120), (20, 280)),
    ("male", "b"): ((200, 70), (30, 200)),
    ("male", "other"): ((3, 2), (1, 4)),
    ("Unknown", "a"): ((10, 5), (5, 12)),
    ("Unknown", "b"): ((8, 3), (2, 9)),
    ("Unknown", "other"): ((-1, 0), (2, 1)),
}


def schema(*names: str) -> TableSchema:
    column = {"type": "numeric", "name": "age", "low": 0, "high": 1}
    groups = [{"name": name, "groups": list(own)} for name, own in zip(names, (SEXES, RACES), strict=False)]
    content = {"label": "hired", "positive": "1", "negative": "0", "columns": [column], "sensitive": groups}
    return TableSchema.from_dict(content)


@pytest.fixture(scope="module")
def report(report_of):
    """A report whose certificate counted sexes and races."""
    certified = report_of("certified")
    scores = ScoreCounts(
        epsilons=(1.0,) * 9,
        edges=SCORE_EDGES,
        # All of a label and decision in one bin each: .3 to .4 is below the median, .6 to .7 above it.
        counts=tuple(tuple(_bins(sum(row) // 2, sum(row) - sum(row) // 2) for row in own) for own in COUNTS.values()),
    )
    names = schema("sex", "race").group_names
    certificate = replace(
        certified.certificate,
        group_names=names,
        epsilons=(1.0,) * 9,
        expected_sizes=(100.0,) * 9,
        counts=tuple(COUNTS.values()),
        scores=scores,
    )
    return replace(certified, certificate=certificate, schema=schema("sex", "race"))


def _bins(low: int, high: int) -> tuple[int, ...]:
    return tuple({4: low, 7: high}.get(place, 0) for place in range(len(SCORE_EDGES) + 1))


@pytest.fixture(scope="module")
def profile(report):
    return ll144(report, "ll144")


@pytest.fixture(scope="module")
def recorded(report):
    """Noisy counts by sex and race, as certificate.json holds them."""
    record = json.loads(json_bytes(certificate_record(report.certificate)))
    return {
        tuple(name.split(" & ")): counts for name, counts in zip(record["group_names"], record["counts"], strict=True)
    }


def by_hand(recorded, *values: str) -> tuple[int, int]:
    """People of a category, and those of them who were selected."""
    own = [counts for name, counts in recorded.items() if set(values) <= set(name)]
    return sum(n for counts in own for row in counts for n in row), sum(row[1] for counts in own for row in counts)


CATEGORIES = [
    [("female",), ("male",)],
    [("a",), ("b",), ("other",)],
    list(itertools.product(("female", "male"), RACES)),
]


def test_rates_and_ratios_are_those_of_the_noisy_counts(profile, recorded):
    total = sum(n for counts in recorded.values() for row in counts for n in row)
    assert profile.n == total
    for table, categories in zip(profile.tables, CATEGORIES, strict=True):
        numbers = [by_hand(recorded, *values) for values in categories]
        large = [n >= 0.02 * total for n, _ in numbers]
        assert [own["name"] for own in table["categories"]] == [" & ".join(values) for values in categories]
        best = max(selected / n for (n, selected), kept in zip(numbers, large, strict=True) if kept)
        for own, (n, selected), kept in zip(table["categories"], numbers, large, strict=True):
            assert own["n"] == n
            assert own["share"] == pytest.approx(n / total)
            # A noisy count below zero counts as zero where a rate is estimated.
            assert own["rate"].estimate == pytest.approx(selected / n, abs=0.09 if n < 30 else 1e-12)
            assert (own["ratio"] is not None) == kept
            if own["ratio"] is not None:
                assert own["ratio"].estimate == pytest.approx(selected / n / best)


def test_small_categories_are_listed_and_compared_with_nobody(profile):
    left_out = [own["name"] for table in profile.tables for own in table["categories"] if own["ratio"] is None]
    assert left_out == ["other", "female & other", "male & other"]
    for table in profile.tables:
        assert max(own["ratio"].estimate for own in table["categories"] if own["ratio"]) == 1.0


def test_people_of_unknown_category_are_counted_and_in_no_rate(profile, recorded):
    unknown = by_hand(recorded, "Unknown")[0]
    assert [table["unknown"] for table in profile.tables] == [unknown, None, unknown]
    assert profile.unknown_values == ("Unknown",)
    assert not any("Unknown" in own["name"] for table in profile.tables for own in table["categories"])


def test_intervals_contain_what_they_are_about(profile):
    for own in (own for table in profile.tables for own in table["categories"]):
        for rate in (own["rate"], own["ratio"], own["score_rate"], own["score_ratio"]):
            assert rate is None or 0 <= rate.low <= rate.estimate <= rate.high <= 1
    wide, narrow = profile.tables[2]["categories"][2]["rate"], profile.tables[0]["categories"][0]["rate"]
    assert wide.high - wide.low > 3 * (narrow.high - narrow.low)


def test_all_categories_share_the_failure_probability(profile, report):
    """Eleven rates: two sexes, three races, six of both; the counts of two sexes add up six draws of noise."""
    counts, failure = np.array(report.certificate.counts), report.certificate.registration.failure_probability
    share = report.certificate.epsilons_of_a_look[0]
    negative, positive = counts[:3].sum((0, 1))
    sums = [NoisySum(int(n), (share,) * 6) for n in (positive, negative)]
    expected = rate_of(*sums, failure_probability=failure / 11, estimate=0.0)
    found = profile.tables[0]["categories"][0]["rate"]
    assert (found.low, found.high) == (expected.low, expected.high)


def test_bounds_of_a_ratio_follow_from_bounds_of_the_rates(profile):
    women, men = profile.tables[0]["categories"]
    assert women["ratio"].low == pytest.approx(women["rate"].low / max(women["rate"].high, men["rate"].high))
    assert women["ratio"].high == pytest.approx(min(1.0, women["rate"].high / max(women["rate"].low, men["rate"].low)))


def test_scoring_rates_are_shares_above_the_median(profile, report):
    """The median lies in a bin that holds half of the people, so nearly half of each sex is above it."""
    counts = np.array(report.certificate.scores.counts).sum(1)
    every = counts.sum(0).clip(0)
    place = int(np.flatnonzero(every.cumsum() >= every.sum() / 2)[0])
    part = (every.sum() / 2 - every[:place].sum()) / every[place]
    women = counts[:3].sum(0)
    assert profile.tables[0]["categories"][0]["score_rate"].estimate == pytest.approx(
        (women[place + 1 :].sum() + (1 - part) * women[place]) / women.sum()
    )
    edges = (0.0, *SCORE_EDGES, 1.0)
    assert edges[place] <= profile.median <= edges[place + 1]


def test_the_page_shows_them_with_source_and_date_and_no_threshold(report, profile, recorded):
    section = next(
        e
        for e in parsed(render_model(report, profile=profile, format="html").decode()).all("section")
        if e.attributes["aria-labelledby"] == "profile"
    )
    text = section.text
    for own in (own for table in profile.tables for own in table["categories"]):
        assert f"{own['rate'].estimate:.3f}" in text
        assert own["ratio"] is None or f"{own['ratio'].estimate:.3f}" in text
    unknown = f"Of unknown category: {by_hand(recorded, 'Unknown')[0]} people (noisy)"
    for words in ("No legal advice", "6 RCNY § 5-300", "April 2023", unknown, "left out"):
        assert words in text
    assert "four fifths" not in text.lower()
    assert "0.8 " not in text
    markdown = render_model(report, profile=profile, format="markdown").decode()
    assert "## Local Law 144" in markdown


@pytest.mark.parametrize(
    ("names", "asked", "columns"),
    [
        (("Gender", "Race/Ethnicity"), "ll144", {"Sex": "Gender", "Race or ethnicity": "Race/Ethnicity"}),
        (("g1", "g2"), "ll144:race=g2,sex=g1", {"Sex": "g1", "Race or ethnicity": "g2"}),
        (("sex", "region"), "ll144", {"Sex": "sex"}),
    ],
)
def test_columns_are_taken_by_their_names_or_as_they_were_named(report, names, asked, columns):
    found = ll144(replace(report, schema=schema(*names)), asked)
    assert found.columns == columns
    assert found.lacking == (() if len(columns) == 2 else ("Race or ethnicity",))
    assert len(found.tables) == (3 if len(columns) == 2 else 1)


@pytest.mark.parametrize(
    ("names", "asked"),
    [
        *((("g1", "g2"), "ll144"), (("race", "ethnicity"), "ll144"), (("sex", "race"), "ll144:sex=gender")),
        *((("sex", "race"), "ll144:age=sex"), (("sex", "race"), "gdpr")),
    ],
    ids=str,
)
def test_nothing_is_guessed(refuses, report, names, asked):
    refuses(lambda: ll144(replace(report, schema=schema(*names)), asked))


def test_without_counts_or_names_there_is_no_profile(refuses, report, report_of):
    refuses(lambda: ll144(report_of("not certified"), "ll144"))
    refuses(lambda: ll144(replace(report, schema=None), "ll144"))


@pytest.mark.more
def test_from_a_table_to_the_page_of_the_profile(tmp_path):
    """By the commands; the numbers on the page are again those of certificate.json."""
    rng = np.random.default_rng(0)
    n = 4000
    table = pd.DataFrame({"age": rng.random(n), "gender": rng.choice(SEXES[:2], n), "race": rng.choice(RACES[:2], n)})
    table["hired"] = (table["age"] + rng.normal(0, 0.2, n) > 0.5).astype(int)
    table.to_csv(tmp_path / "people.csv", index=False)
    plain = schema("gender", "race").to_dict()
    plain["sensitive"] = [{"name": "gender", "groups": list(SEXES[:2])}, {"name": "race", "groups": list(RACES[:2])}]
    (tmp_path / "people.yaml").write_text(json.dumps(plain))
    model, page = str(tmp_path / "model"), tmp_path / "page.html"
    options = ["--schema", str(tmp_path / "people.yaml"), "--epsilon", "4", "--seed", "0", "--no-ledger"]
    options += ["--certify-metrics", "demographic_parity", "--out", model]
    fitted = CliRunner().invoke(fairdp, ["fit", str(tmp_path / "people.csv"), *options])
    assert fitted.exit_code == 0, fitted.output
    done = CliRunner().invoke(fairdp, ["report", model, "--profile", "ll144", "--out", str(page)])
    assert done.exit_code == 0, done.output
    record = json.loads((tmp_path / "model" / "certificate.json").read_bytes())
    counts = np.array(record["counts"])
    rates = counts.reshape(2, 2, 2, 2).sum((1, 2))
    rates = rates[:, 1] / rates.sum(1)
    text = parsed(page.read_text()).text
    for rate in (*rates, rates.min() / rates.max()):
        assert f" {math.floor(1e3 * rate + 0.5) / 1e3:.3f} " in text
