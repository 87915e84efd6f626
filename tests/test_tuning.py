"""Tuning that is paid for: one epsilon for the whole search, one winner, and a certificate that survives the choice."""

import functools
import math
from dataclasses import replace

import numpy as np
import pytest

from classifier_cases import Watching, people
from fairdp import FairDPClassifier, GroupedData, tune, tuning
from fairdp.accounting.plan import trial_spends
from fairdp.data.datasets import synthetic_population
from fairdp.metrics import decision_counts, fairness_metrics
from fairdp.releases import watching
from fairdp.run.fit import Progress
from fairdp.saved.verify import verify_folder
from forgeries import failed, forge
from pool import remembered_bound
from statistical import assert_rate_at_most

pytestmark = pytest.mark.usefixtures("rough_bounds")

GRID = {"learning_rate": [0.05, 0.5], "n_steps": [20, 40]}


def data() -> GroupedData:
    X, y, sex = people()
    return GroupedData(X, y, (sex == "m").astype(np.int64), ("f", "m"))


def prototype(**changes) -> FairDPClassifier:
    chosen = {"method": "dpsgd", "epsilon": 2.0, "sample_rate": 0.2, "n_steps": 20, "random_state": 0}
    # One metric: its bounds take less time than all of them.
    return FairDPClassifier(**{**chosen, "certify_metrics": ("demographic_parity",), **changes})


@pytest.fixture(autouse=True)
def two_trials(monkeypatch):
    monkeypatch.setattr(tuning, "draw_trials", lambda expected, rng: 2)


@functools.cache
def searched():
    """A search that nobody may change, and the candidates that it tried."""
    seen = []
    return tune(prototype(), GRID, data(), observe=seen.append), seen


def test_the_search_spends_its_budget_and_no_more():
    model, seen = searched()
    assert 1.9 <= model.privacy_.epsilon <= 2.0
    assert all(own in tuning.combinations(prototype(), GRID) for own in seen)
    assert {name: getattr(model, name) for name in GRID} in seen
    # Every candidate is accounted for, whichever won.
    chosen = model.privacy_.selection
    assert {own.mechanism.n_steps for own in chosen.by_group["f"]} == {20, 40}
    assert all(spend in chosen.by_group[group] for group, spend in trial_spends(model.privacy_).items())
    assert model.epsilon <= 1.0


def test_candidates_that_spend_differently_all_count():
    model = tune(prototype(), {"sample_rate": [0.05, 0.5]}, data())
    alone = model.privacy_.selection
    rates = {own.mechanism.sample_rate for own in alone.by_group["f"]}
    assert rates == {0.05, 0.5}
    assert model.privacy_.epsilon == max(alone.epsilon(group, 1e-5) for group in ("f", "m"))


@pytest.mark.parametrize("method", ["raco_dp", "dp_is_sgd", "fairfm", "dp_postprocess", "dpsgd_smooth"])
def test_every_kind_of_method_is_tuned_saved_and_verified(method, tmp_path):
    grid = {"require_tau": [0.5, None]} if method == "fairfm" else {"clip_norm": [0.5, 1.0]}
    model = tune(prototype(method=method, sample_rate=0.5), grid, data())
    assert model.privacy_.epsilon <= 2.0
    model.save(tmp_path / "model")
    checks = verify_folder(tmp_path / "model")
    assert [check.name for check in checks if not check.passed] == []
    again = FairDPClassifier.load(tmp_path / "model")
    assert again.privacy_ == model.privacy_
    assert "best of a random number of trials" in again.privacy_statement()
    assert "(2, 1e-05)" in again.privacy_statement() or "(1.9" in again.privacy_statement()


def test_private_sizes_are_counted_once_for_all_trials():
    """And paid once: a trial pays nothing for them, the choice does, and held-out records are not in them."""
    left, models = [], []

    def watch(release):
        left.append(release)
        return release.noisy

    with watching(watch):
        model = tune(prototype(), GRID, data(), observe=models.append)
    sizes = [release for release in left if release.purpose == "sizes"]
    assert (len(models), len(sizes)) == (2, 1)
    assert (sizes[0].law, sizes[0].scale) == ("discrete_gaussian", pytest.approx(19.9382))
    assert sizes[0].exact.sum() == model.n_train_ < 600
    spent, planned = model.privacy_, dict(zip(("f", "m"), sizes[0].noisy.tolist(), strict=True))
    assert spent.planned_sizes == planned
    assert {mechanism.counts_std for mechanism in spent.mechanisms.values()} == {0.0}
    assert spent.counts_std == spent.selection.counts_std == sizes[0].scale
    assert "counted with noise of deviation 19.94" in spent.statement()
    # Negative control: left out of the bill, they would show.
    trained = {"f": tuple(replace(spend, held_out_epsilon=0.0) for spend in spent.selection.by_group["f"])}
    paid, unpaid = (replace(spent.selection, by_group=trained, counts_std=std) for std in (19.9382, 0.0))
    assert unpaid.epsilon("f", 1e-5) < paid.epsilon("f", 1e-5) <= spent.epsilon


def test_the_best_is_kept_by_its_released_counts(monkeypatch):
    scores = []

    def noted(model, max_gap):
        scores.append((original(model, max_gap), model))
        return scores[-1][0]

    original = tuning._score
    monkeypatch.setattr(tuning, "_score", noted)
    monkeypatch.setattr(tuning, "draw_trials", lambda expected, rng: 5)
    model = tune(prototype(), GRID, data(), max_gap=0.3)
    assert len(scores) == 5
    assert len({score for score, _ in scores}) > 1
    assert model is max(scores, key=lambda own: own[0])[1]
    # Trials share their split and nothing else.
    assert len({own.n_certify_ for _, own in scores}) == 1
    assert len({own.decision_function(people()[0])[0] for _, own in scores}) == 5


@pytest.mark.parametrize(
    ("accuracy", "gap", "max_gap", "score"),
    [
        (0.9, 0.2, 0.2, 0.9),
        (0.9, 0.2, 0.15, -0.05),
        (0.9, math.nan, 0.5, -0.5),
        (math.nan, 0.0, 1.0, -math.inf),  # counts without anybody are the last of all
    ],
)
def test_a_gap_above_the_limit_loses_against_any_below(monkeypatch, accuracy, gap, max_gap, score):
    found = {"accuracy": accuracy, "demographic_parity_difference": gap}
    monkeypatch.setattr(tuning, "estimated_metrics", lambda certificate: found)
    assert tuning._score(searched()[0], max_gap) == pytest.approx(score)


def test_the_certificate_gives_each_trial_its_share_of_the_failure_probability():
    model = tune(prototype(), GRID, data(), expected_trials=5.0)
    registration = model.certificate_.registration
    assert registration.expected_trials == 5.0
    assert registration.failure_probability == pytest.approx(0.05 / 5)
    plain = prototype(**{name: getattr(model, name) for name in GRID}).fit_grouped(data())
    assert plain.certificate_.registration.failure_probability == pytest.approx(0.05)
    assert "the model that was kept" in model.certificate_statement()


@pytest.mark.more
def test_a_winner_is_certified_wrongly_no_more_often_than_promised(monkeypatch):
    """Ten coin-flipping trials on records without any gap, the smallest estimate kept: 60 runs notice a rate of .25."""
    population, wrong, n_runs = synthetic_population(bias=1.0), 0, 60
    monkeypatch.setattr("fairdp.certify.certificate.gap_bound", remembered_bound)
    big = population.sample(20_000, np.random.default_rng(99))
    monkeypatch.setattr(tuning, "draw_trials", lambda expected, rng: 4)
    monkeypatch.setattr(
        tuning, "_score", lambda model, max_gap: -model.certificate_.to_dict()["demographic_parity"]["tau"]
    )
    for seed in range(n_runs):
        records = population.sample(600, np.random.default_rng(seed))
        model = tune(
            prototype(random_state=seed, n_steps=5, epsilon=8.0),
            {"learning_rate": [0.1, 1.0]},
            records,
            expected_trials=4.0,
        )
        decided = model.predict(big.X)
        gap = fairness_metrics(decision_counts(big.y, decided, big.groups, 2))["demographic_parity_difference"]
        wrong += gap > model.certificate_.to_dict()["demographic_parity"]["tau"] + 0.01
    assert_rate_at_most(wrong, n_runs, 0.05)


@pytest.mark.parametrize(
    ("changes", "grid"),
    [
        *(({}, grid) for grid in ({"epsilon": [1, 2]}, {"learning_rat": [1, 2]}, {"learning_rate": [0.1]}, {})),
        *(({}, {"method": "dpsgd"}), ({"certify_fraction": 0.0}, GRID), ({"epsilon": math.inf}, GRID)),
        *(({"method": "clean"}, GRID), ({"epsilon": None, "noise_multiplier": 2.0}, GRID)),
        *(({}, {"noise_multiplier": [1.0, 2.0]}), ({}, {"max_gap": [0.1, 0.2]})),
    ],
    ids=str,
)
def test_what_cannot_be_tuned_is_refused_in_one_line(refuses, changes, grid):
    refuses(lambda: tune(prototype(**changes), grid, data()))


def test_without_a_seed_trials_take_noise_from_the_operating_system():
    first, second = (tune(prototype(random_state=None), GRID, data()) for _ in range(2))
    assert not first.privacy_.noise_seeded
    assert first.certificate_.counts != second.certificate_.counts
    assert tune(prototype(), GRID, data()).certificate_.counts == searched()[0].certificate_.counts


def test_a_checkpoint_is_refused(tmp_path):
    with pytest.raises(ValueError, match="is not supported for a search: trials must be independent"):
        tune(prototype(), GRID, data(), progress=Progress(checkpoint=tmp_path / "run"))


def test_what_a_trial_would_refuse_is_refused_before_the_first(monkeypatch):
    seen = []
    weighted = replace(data(), weights=np.ones(600))
    with pytest.raises(ValueError, match="method='fairfm' takes no sample_weight"):
        tune(prototype(), {"method": ["dpsgd", "fairfm"]}, weighted, observe=seen.append)
    assert seen == []


def test_trials_are_drawn_with_the_mean_that_is_accounted_for(monkeypatch):
    asked = []
    monkeypatch.setattr(tuning, "draw_trials", lambda expected, rng: asked.append(expected) or 1)
    for trials, expected in ((None, 8.0), (3.0, 3.0)):
        model = tune(prototype(), GRID, data(), expected_trials=trials)
        assert asked[-1] == model.privacy_.selection.expected_trials == expected


def test_groups_by_label_pay_for_being_held_out_too():
    estimator = prototype(method="dp_is_sgd", grouping="attribute_and_label", sample_rate=0.5)
    model = tune(estimator, {"clip_norm": [0.5, 1.0]}, data())
    held_out = max(model.privacy_.certify_epsilons.values())
    for trials in model.privacy_.selection.by_group.values():
        assert all(own.held_out_epsilon > 0 for own in trials)
    assert model.privacy_.epsilon >= 2 * held_out * (1 - 1e-9)


@pytest.mark.parametrize("forgery", ["fewer trials", "candidate left out", "no such trial", "lower epsilon"])
def test_a_forged_search_is_noticed(tmp_path, forgery):
    """By someone who has made all hashes agree with it."""
    searched()[0].save(tmp_path / "model")

    def change(files):
        selection = files.privacy["selection"]
        if forgery == "fewer trials":
            selection["expected_trials"] = 1.5
        if forgery == "candidate left out":
            for trials in selection["by_group"].values():
                del trials[0]
        if forgery == "no such trial":
            for trials in selection["by_group"].values():
                for own in trials:
                    own["mechanism"]["noise_multiplier"] *= 2
        if forgery == "lower epsilon":
            files.privacy["epsilon"] /= 2

    forge(tmp_path / "model", lambda files: None)
    assert not failed(tmp_path / "model")
    forge(tmp_path / "model", change)
    assert failed(tmp_path / "model")


def test_the_statement_says_that_this_choice_is_covered():
    words = searched()[0].privacy_statement()
    assert "hyper-parameters chosen by looking at private data otherwise" in words
    assert "otherwise" not in prototype().fit_grouped(data()).privacy_statement()


def test_all_trials_hold_out_the_same_records(monkeypatch):
    """A record that is trained on in one trial and counted in another would pay for both."""
    watched = Watching()
    monkeypatch.setattr(tuning, "draw_trials", lambda expected, rng: 3)
    tune(prototype(), GRID, data(), spending=watched)
    assert len(watched.parts) == 3
    for both in watched.parts[1:]:
        for part, first in zip(both, watched.parts[0], strict=True):
            np.testing.assert_array_equal(part.X, first.X)


def test_no_two_trials_share_their_noise(monkeypatch):
    """With the same noise the difference of two trials would stand without any."""
    seeds, fit = [], FairDPClassifier.fit_grouped
    monkeypatch.setattr(
        FairDPClassifier,
        "fit_grouped",
        lambda self, *given, **more: seeds.append(self.random_state) or fit(self, *given, **more),
    )
    monkeypatch.setattr(tuning, "draw_trials", lambda expected, rng: 4)
    tune(prototype(), GRID, data())
    assert len(set(seeds)) == 4
    assert max(seeds) > 2**64


@pytest.mark.parametrize("name", ["epsilon", "delta", "random_state", "module", "confidence", "group_sizes"])
def test_what_holds_for_the_whole_search_cannot_be_tuned(name):
    """Also who is held out, how often they are looked at, and how records are sampled: all trials share it."""
    for fixed in (name, "certify_fraction", "n_looks", "grouping"):
        with pytest.raises(ValueError, match=f"grid names '{fixed}', which cannot be tuned"):
            tuning.combinations(prototype(), {fixed: [1, 2]})
