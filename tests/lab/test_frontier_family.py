"""The family of tables with a known law: its sums against other ways to compute them, and what the study counts."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chisquare
from sklearn.metrics import roc_auc_score

from fairdp.frontier.curve import Events
from fairdp_lab.studies.frontier import (
    Law,
    Outcome,
    Rule,
    Setting,
    Trial,
    drawn_settings,
    frontiers_true,
    inputs,
    law_of,
    prices_kept,
    targets_met,
    verdicts_right,
    widest,
    without_signal,
)
from fairdp_lab.studies.protocol import STUDIES, Run
from statistical import FALSE_ALARM

SETTING = Setting(n_rows=20_000, shares=(0.3, 0.7), base_rates=(0.1, 0.4), skill=2.0, proxy=1.5, lean=0.5, seed=3)
PARITY = Events("demographic_parity", 2)


def small_law(n_atoms: int, n_groups: int = 2, seed: int = 0) -> Law:
    joint = np.random.default_rng(seed).dirichlet(np.ones(2 * n_groups * n_atoms))
    return Law(joint.reshape(2 * n_groups, n_atoms))


def test_settings_stay_within_their_ranges_and_follow_from_the_seed():
    settings = drawn_settings(60, 0)
    assert settings == drawn_settings(60, 0) != drawn_settings(60, 1)
    assert {2, 16} <= {setting.n_groups for setting in settings}
    for index, setting in enumerate(settings):
        assert 1_000 <= setting.n_rows <= 100_000
        assert 0.01 - 1e-9 <= min(setting.shares) <= 0.5
        assert sum(setting.shares) == pytest.approx(1.0)
        assert 0.03 - 1e-9 <= min(setting.base_rates) <= max(setting.base_rates) <= 0.5 + 1e-9
        assert np.ptp(setting.base_rates) <= 0.4 + 1e-9
        assert index % 4 or setting.smallest_cell >= 1_000


def test_the_law_has_the_shares_and_rates_of_its_setting():
    law = law_of(SETTING)
    assert law.joint.sum(1) == pytest.approx([0.3 * 0.9, 0.3 * 0.1, 0.7 * 0.6, 0.7 * 0.4])
    assert law.joint.shape[1] == len(inputs()) == len(np.unique(inputs(), axis=0))


def test_without_signal_nothing_is_known_about_the_label():
    joint = law_of(without_signal(SETTING)).joint
    known = joint[1::2].sum(0) / joint.sum(0)
    assert np.ptp(known) < 1e-12
    assert np.ptp(law_of(SETTING).joint[1::2].sum(0) / law_of(SETTING).joint.sum(0)) > 0.5


def fit_of(law: Law, other: Law) -> float:
    """P-value of records of one law under another."""
    data = law.sample(20_000, np.random.default_rng(5))
    atoms = {tuple(x): index for index, x in enumerate(inputs().tolist())}
    drawn = np.array([atoms[tuple(x)] for x in data.X.tolist()])
    # Sums of 96 neighbouring x: none of them is rare.
    cells = np.bincount(24 * (2 * data.groups + data.y) + drawn // 96, minlength=96)
    expected = other.joint.reshape(4, 24, 96).sum(2).ravel()
    often = expected * 20_000 > 5
    return float(chisquare(cells[often], expected[often] / expected[often].sum() * cells[often].sum()).pvalue)


def test_records_follow_the_law():
    assert fit_of(law_of(SETTING), law_of(SETTING)) >= FALSE_ALARM


def test_that_check_notices_another_law():
    assert fit_of(law_of(SETTING), law_of(replace(SETTING, skill=1.8))) < FALSE_ALARM


@pytest.mark.parametrize("gap", [0.0, 0.05, 0.2, 1.0])
def test_the_best_accuracy_is_that_of_its_dual(gap):
    """For two groups the dual has one price: its least value over a fine grid lies above by no more than the grid."""
    law = law_of(SETTING)
    rows = PARITY.members @ law.joint / (PARITY.members @ law.joint.sum(1))[:, None]
    prices = np.linspace(-1, 1, 4001)
    worth = law.worth - prices[:, None] * (rows[1] - rows[0])
    dual = law.joint[::2].sum() + np.maximum(worth, 0.0).sum(1) + gap * np.abs(prices)
    assert law.best_accuracy(gap, PARITY) == pytest.approx(dual.min(), abs=1e-6)


@pytest.mark.parametrize("parity", ["demographic_parity", "equal_opportunity", "equalized_odds"])
def test_no_rule_is_better_than_the_best_and_one_comes_near(parity):
    """All rules that decide for certain on ten values of x."""
    law, events = small_law(10, 3), Events(parity, 3)
    rules = (np.arange(2**10)[:, None] >> np.arange(10) & 1).astype(float)
    gaps = np.array([law.gap(rule, events) for rule in rules])
    accuracies = np.array([law.accuracy(rule) for rule in rules])
    for gap in (0.1, 0.3, 1.0):
        best = law.best_accuracy(gap, events)
        assert accuracies[gaps <= gap].max() <= best + 1e-9
        # A rule that tosses coins is a mixture of certain ones.
        assert best <= accuracies.max() + 1e-9
    assert law.best_accuracy(1.0, events) == pytest.approx(accuracies.max())


def test_gaps_of_some_groups_are_no_larger_and_cost_no_more():
    law, events = small_law(30, 4), Events("demographic_parity", 4)
    decisions, some = (np.arange(30) % 3 == 0).astype(float), np.array([True, True, False, True])
    assert law.gap(decisions, events, among=some) <= law.gap(decisions, events)
    assert law.best_accuracy(0.02, events, among=some) >= law.best_accuracy(0.02, events)
    assert widest(np.array([0.1, 0.4, 0.9, 0.2]), events, among=some) == pytest.approx(0.3)


def test_the_ranking_is_that_of_scikit_learn():
    law, scores = small_law(40), np.random.default_rng(1).integers(0, 9, 40).astype(float)
    labels, weights = np.repeat([0, 1], 40), np.concatenate([law.joint[::2].sum(0), law.joint[1::2].sum(0)])
    assert law.auc(scores) == pytest.approx(roc_auc_score(labels, np.tile(scores, 2), sample_weight=weights))


GOOD = Outcome(
    trial=Trial(setting=SETTING),
    plain=Rule(accuracy=0.80, gap=0.20, gap_acted_on=0.20, auc=0.8),
    chosen=Rule(accuracy=0.79, gap=0.04, gap_acted_on=0.04, auc=0.75),
    price=0.1,
    best=0.80,
    turned_error=0.001,
    majority=0.7,
    verdict="undecided",
    learnt="yes",
    met="undecided",
    n_unmeasured=0,
    looked={"price": 0.1, "stated": 0.1, "error": 0.01, "on_records": 0.11, "under_law": 0.12, "sampling_error": 0.005},
)


def test_a_run_that_keeps_every_promise_is_no_event():
    stated = replace(GOOD, trial=replace(GOOD.trial, max_gap=0.05))
    for told in (prices_kept([GOOD]), targets_met([stated]), verdicts_right([GOOD]), frontiers_true([GOOD])):
        assert sum(tally.events for tally in told) == 0
        assert sum(tally.trials for tally in told) > 0


def test_every_broken_promise_is_counted():
    """.016 is what .1 times the gap closed allows; .019 is beyond two errors, .03 beyond .005."""
    dear = replace(GOOD, chosen=replace(GOOD.chosen, accuracy=0.77, auc=0.55))
    assert dear.excess == pytest.approx(0.03 - 0.016)
    assert [tally.events for tally in prices_kept([dear])] == [1, 1, 1]
    missed = replace(
        GOOD,
        trial=Trial(setting=replace(SETTING, n_rows=90_000), max_gap=0.01),
        best=0.82,
        verdict="good",
        met="yes",
    )
    assert [tally.events for tally in targets_met([missed])] == [1, 1, 0]
    assert [tally.events for tally in targets_met([replace(missed, trial=Trial(setting=SETTING, max_gap=0.01))])] == [
        0,
        0,
        1,
    ]
    nothing = replace(GOOD, plain=replace(GOOD.plain, auc=0.5), chosen=replace(GOOD.chosen, accuracy=0.6), met="no")
    told = verdicts_right(
        [missed, replace(nothing, chosen=replace(nothing.chosen, gap=0.01)), replace(GOOD, learnt="no")]
    )
    assert [tally.events for tally in told] == [1, 1, 1, 1]
    off = replace(GOOD, looked={**GOOD.looked, "on_records": 0.13, "under_law": 0.14})
    assert [tally.events for tally in frontiers_true([off])][:2] == [1, 1]


def test_too_many_wrong_ones_are_noticed():
    wrong = replace(GOOD, looked={**GOOD.looked, "on_records": 0.2})
    assert frontiers_true([GOOD] * 190 + [wrong] * 10)[0].p_value > 0.1
    assert frontiers_true([GOOD] * 160 + [wrong] * 40)[0].p_value < 1e-6


@pytest.mark.more
def test_a_quick_run_tells_all_parts():
    findings = STUDIES["frontier-family"].findings(Run(quick=True, seed=3, workers=1, say=lambda line: None))
    assert findings.figures["n_trainings"] == len(findings.runs) == 12
    assert {"price", "targets", "verdicts", "frontier", "one_training"} <= findings.figures.keys()
    assert len(findings.figures["one_training"]) == 10
    assert "a training for each" in findings.text
