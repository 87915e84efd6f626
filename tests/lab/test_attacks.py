"""Attacks on single releases and whole methods: correct ones survive, missing noise, clipping or sampling is found.

Bounds have a failure probability of FALSE_ALARM, so each test fails correct code no more often than that.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fairdp.accounting.mechanisms import epsilon_spent
from fairdp.certify import bounds as release
from fairdp.data.grouped import GroupedData
from fairdp.methods import METHODS, functional
from fairdp.randomness import Generators, discrete_laplace
from fairdp.training import loop
from fairdp.training import noise as clipping
from fairdp.training.noise import PoissonSampler, add_gaussian_noise
from fairdp_lab.audit import attack as canaries
from fairdp_lab.audit import attack as distinguishing_tests
from fairdp_lab.audit.attack import (
    audit_method,
    audit_release,
    canary_run,
    gaussian_sum,
    group_size,
    noisy_count,
    noisy_polynomial,
    population,
    right_guesses,
    watched_run,
)
from statistical import FALSE_ALARM


def found_in(tested, n_draws=100_000, seed=0):
    return audit_release(tested, n_draws=n_draws, failure_probability=FALSE_ALARM, seed=seed)


def test_a_noisy_count_shows_four_fifths_of_its_epsilon():
    found = found_in(noisy_count(1.0), n_draws=30_000)
    assert 0.8 <= found.epsilon_lower <= found.epsilon == 1.0


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_a_gaussian_release_shows_four_fifths_of_its_epsilon_through_mu(epsilon):
    found = found_in(gaussian_sum(epsilon, 1e-5))
    assert 0.8 * epsilon <= found.epsilon_lower <= epsilon


@pytest.mark.more
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_all_of_it_with_another_seed_and_all_draws(epsilon):
    for tested in (noisy_count(epsilon), gaussian_sum(epsilon, 1e-5)):
        found = found_in(tested, seed=1)
        assert 0.8 * epsilon <= found.epsilon_lower <= epsilon


def test_a_polynomial_and_a_group_size_show_part_of_theirs():
    for tested, part in ((noisy_polynomial(2.0), 0.8), (group_size(8.0, 1e-5), 0.4)):
        found = found_in(tested, n_draws=8_000)
        assert part * tested.epsilon <= found.epsilon_lower <= tested.epsilon


def test_without_a_seed_the_draws_differ_and_with_one_they_do_not():
    tested = gaussian_sum(1.0, 1e-5)
    fresh = [audit_release(tested, n_draws=1000, failure_probability=0.5).counts for _ in range(2)]
    assert fresh[0] != fresh[1]
    assert found_in(tested, 1000) == found_in(tested, 1000)


def test_half_the_noise_on_counts_is_found(monkeypatch):
    monkeypatch.setattr(release, "discrete_laplace", lambda epsilon, below: discrete_laplace(2 * epsilon, below))
    assert not found_in(noisy_count(1.0), n_draws=5000).passed


def test_half_the_noise_on_polynomials_is_found(monkeypatch):
    monkeypatch.setattr(functional, "discrete_laplace", lambda epsilon, below: discrete_laplace(2 * epsilon, below))
    assert not found_in(noisy_polynomial(2.0), n_draws=5000).passed


def test_half_the_noise_on_a_sum_is_found(monkeypatch):
    def halved(bounded, noise_std, *, accounted_multipliers, **options):
        return add_gaussian_noise(bounded, noise_std / 2, accounted_multipliers=accounted_multipliers / 2, **options)

    monkeypatch.setattr(distinguishing_tests, "add_gaussian_noise", halved)
    assert not found_in(gaussian_sum(1.0, 1e-5)).passed


def test_a_tenth_too_little_noise_on_a_sum_is_found(monkeypatch):
    def less(bounded, noise_std, *, accounted_multipliers, **options):
        return add_gaussian_noise(
            bounded, 0.9 * noise_std, accounted_multipliers=0.9 * accounted_multipliers, **options
        )

    monkeypatch.setattr(distinguishing_tests, "add_gaussian_noise", less)
    assert not found_in(gaussian_sum(4.0, 1e-5)).passed


def test_a_record_that_is_counted_twice_is_found():
    honest = noisy_count(1.0)

    def twice(with_record, n_draws, generators):
        return honest.draw(with_record, n_draws, generators) + with_record

    assert not found_in(replace(honest, draw=twice), n_draws=5000).passed


def test_a_sum_that_moves_by_more_than_its_sensitivity_is_found():
    honest = gaussian_sum(1.0, 1e-5)

    def further(with_record, n_draws, generators):
        return honest.draw(with_record, n_draws, generators) + with_record * 0.5 * distinguishing_tests._SENSITIVITY

    assert not found_in(replace(honest, draw=further)).passed


def test_many_coordinates_are_many_draws_of_one():
    """Their noise is uncorrelated with its neighbours', and has the same deviation in either world."""
    multiplier = distinguishing_tests.noise_multiplier_for(
        distinguishing_tests.PrivacyBudget(epsilon=1.0, delta=1e-5), sample_rate=1.0, n_steps=1
    )
    for world in (False, True):
        draws = (
            gaussian_sum(1.0, 1e-5).draw(world, 100_000, Generators.of(7)) - world * distinguishing_tests._SENSITIVITY
        )
        assert np.std(draws) == pytest.approx(multiplier * distinguishing_tests._SENSITIVITY, rel=0.02)
        assert abs(np.corrcoef(draws[1:], draws[:-1])[0, 1]) < 0.02


PRIVATE = [name for name, method in METHODS.items() if method.private]
STEPWISE = [name for name in PRIVATE if not METHODS[name].closed_form]
# Every method is attacked in the second tier; these stand for gradients, statistics, joint models and closed forms.
FIRST = ("dpsgd", "raco_dp", "fairdp_frontier", "fairfm")


def in_tiers(methods):
    """The methods, all but a few of which are left to the second tier."""
    return [method if method in FIRST else pytest.param(method, marks=pytest.mark.more) for method in methods]


BUDGET = {"epsilon": 4.0, "delta": 1e-5}


def one_release(method, n_draws=4000, **budget):
    return audit_method(
        method, **(BUDGET | budget), n_draws=n_draws, n_canaries=400, failure_probability=FALSE_ALARM, seed=0
    )


@pytest.mark.parametrize("method", in_tiers(PRIVATE))
def test_a_method_as_one_release_shows_part_of_its_epsilon_and_no_more(method):
    found = one_release(method)
    # A closed form has few draws; FairDP's noise for every group is more than a record of one needs.
    part = {"fairfm": 0.1, "fairfm_smooth": 0.1, "fairdp": 0.4}.get(method, 0.6)
    assert part * found.epsilon <= found.epsilon_lower <= found.epsilon <= 4.0


@pytest.mark.parametrize("method", in_tiers(PRIVATE))
def test_one_run_of_a_method_survives_both_views(method):
    run = canary_run(method, **BUDGET, n_canaries=300, seed=1)
    found = run.findings(failure_probability=FALSE_ALARM)
    assert [finding.test for finding in found if "white box" in finding.test]
    assert len(found) == 2 * len(canaries.GUESSED)
    assert all(finding.passed for finding in found)


@pytest.mark.parametrize("method", in_tiers(STEPWISE))
def test_scores_tell_who_was_there_where_there_is_next_to_no_noise(method):
    """So a bound of zero is for want of evidence, not because the scores look at the wrong thing."""
    run = canary_run(method, epsilon=40.0, delta=1e-5, n_canaries=100, seed=2)
    for seen, scores in run.scores.items():
        # By chance once in three million runs.
        assert right_guesses(scores, run.included, 100) >= 75, seen


def test_few_canaries_of_a_joint_model_are_seen_in_its_releases():
    """With up to 64 inputs rows have splines and bins too, which canaries share: the final model alone tells little."""
    run = canary_run("fairdp_frontier", epsilon=40.0, delta=1e-5, n_canaries=40, seed=2)
    # By chance once in ten thousand runs.
    assert right_guesses(run.scores["white box"], run.included, 40) >= 32
    assert all(finding.passed for finding in run.findings(failure_probability=FALSE_ALARM))


def test_a_joint_models_canary_has_a_coordinate_of_its_own():
    """More than 64 inputs are rows as they are: a canary is alone in one of them, with all of the norm."""
    people = population(100, np.random.default_rng(0))
    nobody = np.zeros(100, dtype=bool)
    run = watched_run(
        people.world(nobody),
        sizes=people.sizes,
        seed=0,
        method="fairdp_frontier",
        **canaries.parameters_of("fairdp_frontier"),
    )
    rows = run.model.embed_fixed(torch.from_numpy(people.everybody.X)).numpy()
    assert np.count_nonzero(rows[-100:], axis=0).tolist() == [0] * 4 + [1] * 100
    assert rows[-100:].max(1) == pytest.approx(6.0)
    assert not rows[:-100, 4:].any()


def test_a_closed_forms_scores_tell_who_was_there_without_noise():
    run = canary_run("fairfm", epsilon=90.0, delta=1e-5, n_canaries=20, seed=2)
    assert right_guesses(run.scores["white box"], run.included, 20) >= 15


def test_the_epsilon_beside_one_run_is_the_one_at_its_own_delta():
    run = canary_run("dpsgd", **BUDGET, n_canaries=50, seed=0)
    assert run.delta == 1e-8
    assert run.epsilon > 4.0
    assert canary_run("fairfm", **BUDGET, n_canaries=50, seed=0).delta == 0.0


@pytest.mark.parametrize("method", ["dpsgd", "raco_dp", "fairdp_frontier"])
def test_half_the_noise_is_found(method, monkeypatch):
    def halved(bounded, noise_std, *, accounted_multipliers, **options):
        return add_gaussian_noise(bounded, noise_std / 2, accounted_multipliers=accounted_multipliers / 2, **options)

    monkeypatch.setattr(loop, "add_gaussian_noise", halved)
    assert not one_release(method).passed


def test_gradients_that_are_clipped_too_late_are_found(monkeypatch):
    monkeypatch.setattr(clipping, "MARGIN", 1.5)
    assert not one_release("dpsgd").passed


def test_a_sensitivity_that_forgets_a_groups_weight_is_found(monkeypatch):
    """The noise of a sum whose groups weigh alike, as if each record counted by its share."""
    honest = loop.add_gaussian_noise

    def smaller(bounded, noise_std, *, accounted_multipliers, **options):
        return honest(bounded, noise_std / 3, accounted_multipliers=accounted_multipliers / 3, **options)

    monkeypatch.setattr(loop, "add_gaussian_noise", smaller)
    assert not one_release("fairdp").passed


def test_a_quarter_of_the_noise_of_a_closed_form_is_found(monkeypatch):
    monkeypatch.setattr(functional, "discrete_laplace", lambda epsilon, below: discrete_laplace(4 * epsilon, below))
    assert not one_release("fairfm", epsilon=1.0, n_draws=8000).passed


def test_sampling_left_out_is_found_in_one_run(monkeypatch):
    rare = {"sample_rate": 0.05, "n_steps": 100, "epsilon": 1.0, "delta": 1e-5, "n_canaries": 400, "seed": 0}
    honest = canary_run("dpsgd", **rare).findings(failure_probability=FALSE_ALARM)
    assert all(finding.passed for finding in honest)
    monkeypatch.setattr(PoissonSampler, "draw", lambda self, keys: [np.arange(b.start, b.stop) for b in self.blocks])
    everybody = canary_run("dpsgd", **rare).findings(failure_probability=FALSE_ALARM)
    # In the releases, and in the final model alone.
    assert {finding.test.split(", ")[1] for finding in everybody if not finding.passed} == {"white box", "final model"}


def test_the_interface_plans_with_declared_sizes_and_keeps_every_release():
    people = population(10, np.random.default_rng(0))
    nobody, everybody = (
        watched_run(
            people.world(np.full(10, there)),
            sizes=(40, 40),
            seed=0,
            start=np.full(15, 0.25),
            method="fairdp",
            **canaries.TRAINING,
        )
        for there in (False, True)
    )
    assert nobody.plan == everybody.plan
    assert nobody.plan.recipe.group_sizes == (40.0, 40.0)
    assert nobody.privacy == everybody.privacy
    assert [release.noisy.shape for release in nobody.releases] == [(15,)] * 19 + [(30,)]
    assert len(everybody.noisy("gradient")) == 20
    assert nobody.privacy.epsilon == epsilon_spent(nobody.plan.mechanisms[0], 1e-5)


def test_the_interface_starts_where_it_is_told_and_repeats_a_seed():
    data = GroupedData(np.zeros((0, 3), dtype=np.float32), np.zeros(0, int), np.zeros(0, int), ("a", "b"))
    options = {"sizes": (30, 30), "method": "dpsgd", "model": "logistic", "epsilon": 1.0, "n_steps": 1}
    runs = [watched_run(data, seed=seed, start=np.ones(4), learning_rate=1e-9, **options) for seed in (0, 0, 1)]
    assert runs[0].model.params.tolist() == pytest.approx([1, 1, 1, 1], abs=1e-6)
    assert np.array_equal(runs[0].releases[0].noisy, runs[1].releases[0].noisy)
    assert not np.array_equal(runs[0].releases[0].noisy, runs[2].releases[0].noisy)


def test_the_interface_takes_groups_by_label():
    people = population(10, np.random.default_rng(0))
    found = watched_run(
        people.everybody,
        sizes=(40, 40),
        seed=0,
        method="dp_is_sgd",
        grouping="attribute_and_label",
        **canaries.TRAINING,
    )
    assert len(found.plan.mechanisms) == 4
