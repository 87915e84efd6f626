"""Of ε, noise and steps one follows from the other two, by either accountant, with all that is paid beside steps."""

import math
from dataclasses import replace

import pytest
from opacus.accountants import PRVAccountant, RDPAccountant

from fairdp.accounting.mechanisms import PrivacyBudget, SampledGaussian, epsilon_spent, steps_within
from fairdp.planning import plan_report

ADULT = {"women": 10771, "men": 21790}
GUESSED = tuple(ADULT.values())
PAPER = {"sample_rate": 0.01, "n_steps": 2000}
# ε, and the σ that it needs by moments and by PLD, at q = .01, T = 2000, δ = 1e-5.
BY_HAND = [(0.5, 3.54, 3.26), (1.0, 1.98, 1.84), (1.5, 1.47, 1.38), (2.0, 1.22, 1.15)]
STEPPED = ("dpsgd", "dpsgd_f", "dp_fermi", "dp_postprocess", "raco_dp", "fairdp", "fairdp_frontier")


def plan_of(**changes):
    numbers = dict.fromkeys(("epsilon", "sample_rate", "n_steps", "clip_norm"))
    return plan_report(**{"method": "fairdp", "group_sizes": ADULT, "delta": 1e-5, **numbers, **changes})


def privacy_of(**changes):
    return plan_of(**changes)["privacy"]


@pytest.mark.parametrize("allocation", ["per_group", "average"])
def test_the_papers_noise_by_both_accountants(allocation):
    """Sizes are declared, so nothing is paid beside the steps; in both allocations σ is that of the worst group."""
    stated = {"noise_multiplier": 1.98, "noise_allocation": allocation, "certify_fraction": 0.0, **PAPER}
    by_moments, by_pld = privacy_of(accountant="rdp", **stated), privacy_of(accountant="pld", **stated)
    assert (by_moments.accountant, by_pld.accountant) == ("rdp", "pld")
    assert by_moments.epsilon == by_moments.epsilon_rdp == by_pld.epsilon_rdp == pytest.approx(1.001, abs=1e-3)
    assert by_pld.epsilon == by_pld.epsilon_pld == by_moments.epsilon_pld == pytest.approx(0.9116, abs=1e-3)
    assert by_moments.epsilon == max(by_moments.epsilon_by_group.values())
    assert by_moments.noise_multiplier == 1.98
    men = by_moments.epsilon_by_group["men"]
    assert men == by_moments.epsilon if allocation == "per_group" else men < 0.7


def test_sizes_that_are_counted_cost_a_little_beside_the_same_noise():
    stated = {"noise_multiplier": 1.98, "accountant": "rdp", "certify_fraction": 0.0, **PAPER}
    declared, counted = privacy_of(**stated), privacy_of(group_sizes=GUESSED, **stated)
    assert declared.counts_std == 0 < counted.counts_std
    assert 1.001 * declared.epsilon < counted.epsilon < 1.01 * declared.epsilon


@pytest.mark.parametrize(("epsilon", "by_moments", "by_pld"), BY_HAND)
def test_the_noise_that_the_paper_needs(epsilon, by_moments, by_pld):
    found = [privacy_of(epsilon=epsilon, accountant=name, **PAPER) for name in ("rdp", "pld")]
    assert [spent.noise_multiplier for spent in found] == pytest.approx([by_moments, by_pld], abs=0.006)
    assert all(0.999 * epsilon <= spent.epsilon <= epsilon for spent in found)


def opacus_epsilon(sigma: float, accountant: str) -> float:
    account = {"rdp": RDPAccountant, "pld": PRVAccountant}[accountant]()
    account.history = [(sigma, PAPER["sample_rate"], PAPER["n_steps"])]
    if accountant == "rdp":
        return account.get_epsilon(1e-5)
    return account._get_dprv(eps_error=1e-3, delta_error=1e-8).compute_epsilon(1e-5, 1e-8, 1e-3)[1]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("accountant", ["rdp", "pld"])
def test_accountants_of_others_agree_about_given_noise(accountant):
    """Negative control: noise that is two percent less is noticed."""
    spent = privacy_of(noise_multiplier=1.98, accountant=accountant, **PAPER).epsilon
    assert spent == pytest.approx(opacus_epsilon(1.98, accountant), rel=5e-3)
    assert spent != pytest.approx(opacus_epsilon(1.94, accountant), rel=5e-3)


def tiers(first):
    """Methods of which some are enough for the first tier: the others differ in what is paid beside steps alone."""
    return [name if name in first else pytest.param(name, marks=pytest.mark.more) for name in STEPPED]


@pytest.mark.parametrize("accountant", ["pld", "rdp"])
@pytest.mark.parametrize("sizes", [ADULT, GUESSED], ids=["declared", "counted"])
@pytest.mark.parametrize("method", tiers(("fairdp", "dpsgd_f", "fairdp_frontier")))
def test_epsilon_that_follows_is_the_one_that_needs_this_noise(method, sizes, accountant):
    """There and back: sizes, queries and decisions have the same share of an ε that follows as of one that is given."""
    at = {"method": method, "group_sizes": sizes, "accountant": accountant, "n_steps": 40, "sample_rate": 0.1}
    followed = privacy_of(noise_multiplier=6.0, **at)
    again = privacy_of(epsilon=followed.epsilon, **at)
    assert followed.noise_multiplier == pytest.approx(6.0, rel=1e-12)
    assert again.noise_multiplier == pytest.approx(6.0, rel=3e-3)
    for name in ("surveys", "counts_std", "histogram_epsilon", "noise_std", "certify_epsilons"):
        assert getattr(again, name) == pytest.approx(getattr(followed, name), rel=4e-3), name


def test_looks_are_paid_for_whatever_follows():
    """19 steps for the heads of 20 looks: there and back, and never a step beyond ε."""
    at = {"group_sizes": GUESSED, "sample_rate": 0.1}
    followed = privacy_of(noise_multiplier=6.0, n_steps=40, n_looks=20, **at)
    assert (followed.n_steps, followed.look_steps) == (59, 19)
    again = privacy_of(epsilon=followed.epsilon, n_steps=40, n_looks=20, **at)
    assert again.noise_multiplier == pytest.approx(6.0, rel=3e-3)
    assert again.counts_std == pytest.approx(followed.counts_std, rel=4e-3)
    steps = privacy_of(noise_multiplier=6.0, epsilon=0.8, n_looks=20, **at)
    without = privacy_of(noise_multiplier=6.0, epsilon=0.8, **at)
    assert (steps.n_steps, steps.look_steps) == (without.n_steps, 19)
    assert steps.epsilon <= 0.8


def largest_epsilon(spent, n_steps: int) -> float:
    each = [replace(mechanism, n_steps=n_steps) for mechanism in spent.mechanisms.values()]
    return max(epsilon_spent(one, spent.delta, accountant=spent.accountant) for one in each)


@pytest.mark.parametrize("accountant", ["pld", "rdp"])
@pytest.mark.parametrize("method", [*tiers(("fairdp", "fairdp_frontier")), "dp_is_sgd"])
def test_as_many_steps_as_stay_within_epsilon(method, accountant):
    sizes = ADULT if method == "dp_is_sgd" else GUESSED
    at = {"method": method, "group_sizes": sizes, "accountant": accountant, "sample_rate": 0.1}
    spent = privacy_of(noise_multiplier=12.0, epsilon=1.0, **at)
    assert spent.n_steps > 5
    assert spent.epsilon == largest_epsilon(spent, spent.n_steps) <= 1.0 < largest_epsilon(spent, spent.n_steps + 1)


@pytest.mark.parametrize(
    ("rate", "sigma"), [(0.003, 0.7), (0.003, 2.0), (0.2, 1.2), (0.2, 40.0), (1.0, 2.0), (1.0, 40.0)]
)
def test_the_search_for_the_last_step_ends_at_it(rate, sigma):
    def after(n_steps):
        return SampledGaussian(sample_rate=rate, noise_multiplier=sigma, n_steps=n_steps)

    last = steps_within(PrivacyBudget(epsilon=4.0, delta=1e-5, accountant="rdp"), [after(1)])
    spent, over = (epsilon_spent(after(n_steps), 1e-5, accountant="rdp") for n_steps in (last, last + 1))
    assert spent <= 4.0 < over


@pytest.mark.parametrize("accountant", ["pld", "rdp"])
def test_what_is_held_out_spends_no_more_than_either_accountant_states(accountant):
    spent = privacy_of(noise_multiplier=1.98, accountant=accountant, **PAPER)
    (held_out,) = set(spent.certify_epsilons.values())
    # Rounded down at most as `noise_of_any_processor` does.
    assert held_out == pytest.approx(min(spent.epsilon_rdp, spent.epsilon_pld), abs=1e-8, rel=0)


def test_an_epsilon_that_follows_does_not_depend_on_what_was_counted():
    """A small group would raise the default rate, and ε with it: the count must not."""
    given = {"noise_multiplier": 3.0, "n_steps": 30}
    small, large = (privacy_of(group_sizes=(size, 5000), **given) for size in (700, 5000))
    assert small.epsilon == large.epsilon
    assert small.sample_rate == large.sample_rate == 0.01
    assert privacy_of(group_sizes=(700, 5000), epsilon=1.0, n_steps=30).sample_rate > 0.01


def test_pld_gives_no_bound_at_a_tiny_delta():
    spent = privacy_of(noise_multiplier=2.0, n_steps=100, delta=1e-11)
    assert (spent.accountant, spent.epsilon, spent.epsilon_pld) == ("rdp", spent.epsilon_rdp, math.inf)


NOISE = {"noise_multiplier": 1.0}


@pytest.mark.parametrize(
    "changes",
    [
        NOISE,
        {**NOISE, "epsilon": 2.0, "n_steps": 9},
        {**NOISE, "epsilon": math.inf},
        *({"noise_multiplier": value, "n_steps": 9} for value in (0.0, math.inf, "1", 0.05, 1e3)),
        {"noise_multiplier": 0.3, "n_steps": 9000, "sample_rate": 0.5, "accountant": "rdp"},
        {"noise_multiplier": 0.7, "epsilon": 4.0, "sample_rate": 1.0},
        {"noise_multiplier": 1e3, "epsilon": 8.0},
        {"noise_multiplier": 3.0, "n_steps": 9, "method": "dp_is_sgd", "group_sizes": GUESSED},
        {"accountant": "prv"},
        {"epsilon": 0.002, "accountant": "rdp"},
        *({**NOISE, "n_steps": 9, "method": name} for name in ("clean", "fairsmooth", "fairfm", "fairfm_smooth")),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused_in_one_line(refuses, changes):
    refuses(lambda: plan_of(**changes), *changes)
