"""The recorded mechanism of every private method, accounted again by code that shares nothing with ours."""

import warnings
from functools import cache

import numpy as np
import pytest
from opacus.accountants import PRVAccountant, RDPAccountant

from fairdp.accounting.mechanisms import LaplaceRelease, PrivacyBudget, noise_multiplier_for, sizes_std
from fairdp.accounting.plan import make_plan
from fairdp.methods import METHODS
from fairdp.parameters import Parameters
from fairdp.run.plan import train_config

PRIVATE = [name for name, method in METHODS.items() if method.private]
# The groups of Adult and Default-CCC, without the fifth that is held out.
SIZES = {"adult": (0.8 * 10_771, 0.8 * 21_790), "credit": (0.8 * 9_510, 0.8 * 14_490)}
DELTA = 1e-5
# What the noise search may leave unspent, and what numerical Fourier inversion may add.
UNSPENT, NUMERICAL = 2e-3, 3e-4


def plan_of(name: str, dataset: str, epsilon: float, *, counts_std: float = 0.0):
    sizes = SIZES[dataset]
    config = train_config(Parameters(method=name), METHODS[name].table_model, sizes)
    recipe, histogram = METHODS[name].recipe(config, sizes), METHODS[name].histogram_epsilon(epsilon)
    budget = PrivacyBudget(epsilon=epsilon, delta=DELTA)
    plan = make_plan(recipe, budget, n_steps=config.n_steps, counts_epsilon=histogram, counts_std=counts_std)
    return plan, histogram


def surveys_sigma(plan) -> float:
    """Noise multiplier of the releases outside the steps together, by hand; zero for none."""
    looks = {query.what: query.n_looks for query in plan.recipe.queries}
    inverse = sum(looks[what] / std**2 for what, std in plan.query_stds.items())
    return inverse**-0.5 if inverse else 0.0


@cache
def opacus_epsilon(sigma: float, rate: float, n_steps: int, accountant, surveys: float = 0.0) -> float:
    account = accountant()
    account.history = [(sigma, rate, n_steps), *([(surveys, 1.0, 1)] if surveys else [])]
    if accountant is RDPAccountant:
        return account.get_epsilon(DELTA)
    discrete = account._get_dprv(eps_error=1e-3, delta_error=DELTA / 1000)
    return discrete.compute_epsilon(DELTA, DELTA / 1000, 1e-3)[1]


# Every method on Adult at ε = 1; other sizes and budgets come to other numbers by the same code.
CASES = [("adult", 1.0), *((d, e) for d in SIZES for e in (0.5, 1.0, 2.0) if (d, e) != ("adult", 1.0))]


@pytest.mark.parametrize(
    ("dataset", "epsilon"), [CASES[0], *(pytest.param(*c, marks=pytest.mark.more) for c in CASES[1:])]
)
@pytest.mark.parametrize("name", PRIVATE)
@pytest.mark.filterwarnings("ignore")
def test_another_accountant_stays_within_the_target(name, dataset, epsilon):
    """Most methods come to the same few mechanisms, which the other accountant is asked about once each."""
    plan, histogram = plan_of(name, dataset, epsilon)
    spent = []
    for group, mechanism in enumerate(plan.mechanisms):
        if isinstance(mechanism, LaplaceRelease):
            # By hand: a pure ε is the L1 sensitivity over the scale.
            spent.append(plan.recipe.sensitivities[group] / plan.noise_std)
            continue
        # From what is added, not from what is recorded: gradient and statistics are one query on one sample.
        gradient = plan.noise_std / plan.recipe.sensitivities[group]
        inverse = gradient**-2 + (plan.statistics_std**-2 if plan.statistics_std else 0.0)
        if plan.recipe.noise_allocation == "per_group":
            # Parallel composition over the groups: each sum has its own noise, a part of what is added to the average.
            inverse = mechanism.noise_multiplier**-2
        # Methods that add the same noise differ here by rounding only.
        sigma = float(f"{inverse**-0.5:.9g}")
        surveys = surveys_sigma(plan)
        spent.append(opacus_epsilon(sigma, mechanism.sample_rate, plan.n_steps, PRVAccountant, surveys) + histogram)
    assert max(spent) <= epsilon * (1 + NUMERICAL)
    assert max(spent) >= epsilon * (1 - UNSPENT)


def with_sizes(plan, counts_std: float) -> float:
    """ε of another accountant for the steps of the first group and the sizes, as one continuous Gaussian release."""
    account, mechanism = PRVAccountant(), plan.mechanisms[0]
    account.history = [(mechanism.noise_multiplier, mechanism.sample_rate, plan.n_steps), (counts_std, 1.0, 1)]
    discrete = account._get_dprv(eps_error=1e-3, delta_error=DELTA / 1000)
    return discrete.compute_epsilon(DELTA, DELTA / 1000, 1e-3)[1]


@pytest.mark.parametrize(
    "name", ["dpsgd", *(pytest.param(name, marks=pytest.mark.more) for name in ("fairdp", "raco_dp"))]
)
@pytest.mark.filterwarnings("ignore")
def test_another_accountant_stays_within_the_target_with_noisy_sizes(name):
    counts_std = sizes_std(PrivacyBudget(epsilon=1.0, delta=DELTA))
    plan, _ = plan_of(name, "adult", 1.0, counts_std=counts_std)
    assert 1 - UNSPENT <= with_sizes(plan, counts_std) <= 1 + NUMERICAL


@pytest.mark.filterwarnings("ignore")
def test_that_check_notices_sizes_that_are_not_paid_for():
    free, _ = plan_of("dpsgd", "adult", 1.0)
    assert with_sizes(free, sizes_std(PrivacyBudget(epsilon=1.0, delta=DELTA))) > 1 + 10 * NUMERICAL


@pytest.mark.parametrize("name", ["dpsgd", "dpsgd_f", "raco_dp"])
def test_the_moments_accountant_of_opacus_is_looser_and_close(name):
    with warnings.catch_warnings(action="ignore"):
        plan, _ = plan_of(name, "adult", 1.0)
        own = [opacus_epsilon(m.noise_multiplier, m.sample_rate, m.n_steps, RDPAccountant) for m in plan.mechanisms]
    assert 1.0 <= max(own) <= 1.2


@pytest.mark.filterwarnings("ignore")
def test_that_check_notices_queries_that_are_not_paid_for():
    plan, _ = plan_of("fairdp_frontier", "adult", 1.0)
    paid, free = PrivacyBudget(epsilon=1.0, delta=DELTA), plan.mechanisms[0]
    whole = noise_multiplier_for(paid, sample_rate=free.sample_rate, n_steps=plan.n_steps)
    spent = opacus_epsilon(whole, free.sample_rate, plan.n_steps, PRVAccountant, surveys_sigma(plan))
    assert spent > 1 + 10 * NUMERICAL


def test_that_check_notices_statistics_that_are_not_paid_for():
    """The gradient's noise alone, as if the histogram were free, is not what the budget allows."""
    plan, _ = plan_of("raco_dp", "adult", 1.0)
    with warnings.catch_warnings(action="ignore"):
        alone = [
            opacus_epsilon(plan.noise_std / own, mechanism.sample_rate, plan.n_steps, PRVAccountant)
            for own, mechanism in zip(plan.recipe.sensitivities, plan.mechanisms, strict=True)
        ]
    assert max(alone) < 1.0 - 10 * UNSPENT
    assert np.isfinite(alone).all()
