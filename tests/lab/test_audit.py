"""Records of an audit, compared with the account."""

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dp_accounting import dp_event, rdp

from fairdp.accounting.mechanisms import RDP_ORDERS, SampledGaussian
from fairdp.accounting.selection import TrialSpend, selected_epsilon
from fairdp.releases import OPEN_DOMAIN, Release, release, watching
from fairdp.statements import privacy as words
from fairdp_lab.audit.replay import suspicious_noise
from fairdp_lab.audit.routes import (
    SURVEYS,
    TRAINING,
    Diverged,
    Move,
    PrivacyClaim,
    Recorder,
    Replayer,
    differing_files,
    steps_of,
    trials_of,
)
from priced_cases import priced_model

ALLOWED = PrivacyClaim(
    step=0.25,
    sample_rate=0.4,
    n_steps=3,
    polynomial=0.0,
    histogram=1.0,
    sizes=0.1,
    looks=2.0,
    queries=0.01,
    query={"frequencies": 0.005, "centre": 0.005, "cells": 0.0064, "ranking": 0.0064, "frontier": 0.0064},
    reading=0.01,
    searched=False,
)


def release_of(exact=(0.0, 0.0), scale=2.0, purpose="gradient", law="gaussian", noisy=(1.0, 1.0)):
    return Release(purpose=purpose, law=law, scale=scale, exact=np.array(exact), noisy=np.array(noisy))


def moves(*purposes, distance=0.0, law="gaussian"):
    return [Move(place, purpose, law, distance) for place, purpose in enumerate(purposes)]


def test_what_was_recorded_leaves_again():
    recorder = Recorder()
    with watching(recorder):
        release(np.array([5.0]), purpose="look", law="laplace", scale=2.0, exact=np.array([4.0]))
    replayer = Replayer(recorder.releases)
    with watching(replayer):
        left = release(np.array([9.0]), purpose="look", law="laplace", scale=2.0, exact=np.array([1.0]))
    assert left.tolist() == [5.0]
    assert replayer.moves == [Move(0, "look", "laplace", 1.5)]


def test_distances_are_of_the_norm_that_the_noise_protects():
    before, after = release_of((0.0, 0.0)), release_of((6.0, 8.0))
    gaussian, laplace = Replayer([before]), Replayer([replace(before, law="laplace")])
    gaussian(after)
    laplace(replace(after, law="laplace"))
    assert gaussian.moves[0].distance == pytest.approx(5)
    assert laplace.moves[0].distance == pytest.approx(7)


@pytest.mark.parametrize("exact", [(np.nan, 0.0), (np.inf, 0.0)])
def test_no_noise_hides_a_value_that_is_not_finite(exact):
    replayer = Replayer([release_of()])
    replayer(release_of(exact))
    assert replayer.moves[0].distance == np.inf


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (release_of(purpose="look"), "look with gaussian noise in place of gradient"),
        (release_of(law="laplace"), "laplace noise in place of"),
        (release_of((0.0,), noisy=(0.0,)), "shape"),
        (release_of(scale=2.0 + 1e-12), "scale of the noise depends on the records"),
        (release_of(scale=np.array([2.0, 2.5])), "scale of the noise depends on the records"),
    ],
)
def test_another_form_ends_the_replay(other, words):
    with pytest.raises(Diverged, match=words):
        Replayer([release_of()])(other)


def test_more_or_fewer_releases_end_the_replay():
    replayer = Replayer([release_of()])
    with pytest.raises(Diverged, match="ended before"):
        replayer.check_complete()
    replayer(release_of())
    replayer.check_complete()
    with pytest.raises(Diverged, match="one more than the 1"):
        replayer(release_of())


def test_a_step_is_statistics_and_gradient_together():
    found = steps_of(moves("sizes", "statistics", "gradient", "gradient", "look", "statistics", "gradient"))
    assert [[move.purpose for move in step] for step in found] == [
        ["statistics", "gradient"],
        ["gradient"],
        ["statistics", "gradient"],
    ]
    assert [len(trial) for trial in trials_of(moves("gradient", "look", "gradient", "gradient", "look"))] == [2, 3]


def test_the_scores_that_follow_a_look_belong_to_its_trial():
    made = moves("gradient", "look", "scores", "gradient", "look", "scores", "gradient", "look")
    assert [len(trial) for trial in trials_of(made)] == [3, 3, 2]


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (moves("gradient", distance=0.51), "0.51 deviations of the noise, accounted are 0.5"),
        (moves("statistics", "gradient", distance=0.4), "0.5657 deviations of the noise, accounted are 0.5"),
        (moves("look", "look", distance=1.1, law="laplace"), "2.2 scales of the noise, accounted are 2"),
        (moves("look", "look", "scores", distance=0.7, law="laplace"), "2.1 scales of the noise, accounted are 2"),
        (moves("scores", distance=2.1, law="laplace"), "2.1 scales of the noise, accounted are 2"),
        (moves("gradient", "scores", distance=0.1), "held out and trained on"),
        (moves("histogram", distance=1.01, law="laplace"), "accounted are 1"),
        (moves("sizes", distance=0.11, law="laplace"), "accounted are 0.1"),
        (moves("sizes", distance=0.32, law="discrete_gaussian"), "accounted are 0.3162"),
        (moves("polynomial", distance=0.01, law="laplace"), "accounted are 0"),
        (moves("frequencies", distance=0.08), "accounted are 0.07071"),
        (moves("cells", "frontier", distance=0.08), "0.1131 deviations of the noise, accounted are 0.1"),
        (moves("direction", distance=0.01), "accounted are 0"),
        (moves("gradient", "look", distance=0.1), "held out and trained on"),
        (moves("ranking", "look", distance=0.01), "held out and trained on"),
        (moves(*4 * ["gradient"]), "one step more than the 3"),
        (moves("gradient", distance=np.inf), "inf"),
    ],
)
def test_what_is_beyond_the_account_is_found(seen, words):
    assert any(words in text for _, text in ALLOWED.overspent(seen))


def test_what_is_accounted_may_be_spent_to_the_last():
    spent = [*moves("gradient", "gradient", distance=0.5), *moves("histogram", distance=1.0, law="laplace")]
    spent += [*moves("centre", distance=0.06), *moves("ranking", distance=0.08)]
    assert list(ALLOWED.overspent(spent)) == []
    assert list(ALLOWED.overspent(moves("look", distance=2.0, law="laplace"))) == []
    assert list(ALLOWED.overspent(moves("look", "scores", distance=1.0, law="laplace"))) == []


def test_a_search_is_accounted_trial_by_trial():
    twice = 2 * moves("look", distance=2.0, law="laplace")
    assert list(replace(ALLOWED, searched=True).overspent(twice)) == []
    assert list(ALLOWED.overspent(twice))


def test_a_record_in_every_batch_is_noticed():
    often = moves(*50 * ["gradient"], distance=0.5)
    rarely = [*moves(*20 * ["gradient"], distance=0.5), *moves(*30 * ["gradient"])]
    allowed = replace(ALLOWED, n_steps=50)
    assert [name for name, _ in allowed.sampled_too_often(often)] == ["sampling"]
    assert list(allowed.sampled_too_often(rarely)) == []
    assert allowed.in_batches(rarely) == 20
    assert list(replace(allowed, sample_rate=1.0).sampled_too_often(often)) == []


def test_noise_that_is_as_stated_is_let_pass_and_other_noise_is_not():
    rng = np.random.default_rng(0)

    def gaussian(scale):
        return [release_of(np.zeros(50), noisy=scale * rng.normal(size=50)) for _ in range(20)]

    def counts(epsilon):
        drawn = rng.geometric(1 - np.exp(-epsilon), size=(2, 200))
        zeros = np.zeros(200, dtype=np.int64)
        return [release_of(zeros, scale=1 / 2.0, law="laplace", purpose="look", noisy=drawn[0] - drawn[1])]

    def sizes(scale):
        noisy = np.rint(scale * rng.normal(size=200)).astype(np.int64)
        return [release_of(np.zeros(200, dtype=np.int64), scale=20.0, law="discrete_gaussian", noisy=noisy)]

    for right in (gaussian(2.0), counts(2.0), sizes(20.0)):
        assert list(suspicious_noise(right)) == []
    for wrong in (gaussian(1.5), gaussian(3.0), counts(4.0), counts(0.5), sizes(8.0)):
        assert "stated law and scale" in next(suspicious_noise(wrong))[1]
    repeated = 2 * gaussian(2.0)[:1]
    assert any("repeats" in text for _, text in suspicious_noise(repeated))


def test_files_differ_where_they_say():
    before = {"a.json": b'{"x": [1, {"y": 2}]}', "b.txt": b"abc"}
    assert list(differing_files(before, dict(before))) == []
    after = {"a.json": b'{"x": [1, {"y": 3}]}', "b.txt": b"abd"}
    assert dict(differing_files(before, after)) == {
        "file a.json": "$.x[1].y is 3 in place of 2",
        "file b.txt": "byte 2 differs",
    }
    assert dict(differing_files(before, {"b.txt": b"abc"})) == {
        "file a.json": "is written for one of the two tables only"
    }
    assert dict(differing_files({"SHA256SUMS": b"1"}, {"SHA256SUMS": b"2"})) == {"file SHA256SUMS": "byte 0 differs"}


def counted(*cells):
    """Counts of whatever occurs, of which those of at least three leave."""
    exact = np.array(list(cells), dtype=OPEN_DOMAIN)
    return Release(purpose="reading", law="discrete_gaussian", scale=2.0, exact=exact, noisy=exact[exact["count"] >= 3])


def test_counts_of_whatever_occurs_are_held_against_each_other_by_what_they_count():
    recorder = Recorder()
    recorder(counted((0, "a", 5), (0, "b", 1), (1, "a", 7)))
    replayer = Replayer(recorder.releases)
    handed_out = replayer(counted((1, "a", 6), (0, "a", 5), (2, "new", 1)))
    # What left before leaves again, whatever occurs now.
    assert handed_out.tolist() == [(0, "a", 5), (1, "a", 7)]
    assert replayer.moves[0].distance == pytest.approx(math.sqrt(3) / 2)
    with pytest.raises(Diverged, match="counts of whatever occurs in place of other counts"):
        Replayer(recorder.releases)(release_of(purpose="reading", law="discrete_gaussian"))


def test_a_reading_that_moves_further_than_is_accounted_is_reported():
    moved = [Move(0, "reading", "discrete_gaussian", 0.08), Move(1, "reading", "discrete_gaussian", 0.08)]
    assert not list(ALLOWED.overspent(moved[:1]))
    assert [name for name, _ in ALLOWED.overspent(moved)] == ["release 2 (reading)"]


MECHANISM = SampledGaussian(sample_rate=0.3, noise_multiplier=40.0, n_steps=400, surveys_multiplier=12.0)


def test_every_query_is_in_the_books():
    assert set(SURVEYS) == set(words.QUERIES)
    assert set(SURVEYS) < set(TRAINING)


def test_queries_are_held_against_what_is_recorded_of_them():
    """Of a fitted model: one over the squared multiplier, the sum over all releases of one over their variances."""
    privacy = priced_model().privacy_
    accounted = PrivacyClaim.of(privacy, "f", 1)
    # Two groups and one rate: each query is one look.
    assert accounted.queries == pytest.approx(sum(std**-2 for std in privacy.surveys.values()))
    assert 0 < accounted.queries < accounted.step * accounted.n_steps
    free = {name: replace(mechanism, surveys_multiplier=0.0) for name, mechanism in privacy.mechanisms.items()}
    assert PrivacyClaim.of(replace(privacy, mechanisms=free), "f", 1).queries == 0.0


@pytest.mark.parametrize("expected_trials", [1.5, 6.0])
def test_a_choice_among_trials_pays_for_their_queries(expected_trials):
    account = rdp.RdpAccountant(RDP_ORDERS)
    account.compose(dp_event.RepeatAndSelectDpEvent(MECHANISM.event, expected_trials, 0.0))
    trials = [TrialSpend(mechanism=MECHANISM)]
    spent = selected_epsilon(trials, 1e-5, expected_trials=expected_trials)
    assert spent == pytest.approx(account.get_epsilon(1e-5), rel=1e-6)
    free = [TrialSpend(mechanism=replace(MECHANISM, surveys_multiplier=0.0))]
    assert spent > 1.01 * selected_epsilon(free, 1e-5, expected_trials=expected_trials)


PAGE = Path(__file__).parents[2] / "docs" / "lab" / "self-test.md"


def test_the_testing_interface_works_as_the_page_shows(capsys):
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    exec(compile(block, "self-test.md", "exec"), {})
    assert capsys.readouterr().out.splitlines() == [
        "10 True",
        "['gradient', 'gradient'] (4,)",
        "torch.Size([4]) True",
    ]
