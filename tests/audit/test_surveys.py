"""Releases outside the steps in the audit's books, and in those of a search."""

from dataclasses import replace

import pytest
from dp_accounting import dp_event, rdp

from fairdp.accounting import words
from fairdp.accounting.mechanisms import RDP_ORDERS, SampledGaussian
from fairdp.accounting.selection import TrialSpend, selected_epsilon
from fairdp.audit.accounted import SURVEYS, TRAINING, Accounted
from priced_cases import priced_model

MECHANISM = SampledGaussian(sample_rate=0.3, noise_multiplier=40.0, n_steps=400, surveys_multiplier=12.0)


def test_every_survey_is_in_the_books():
    assert set(SURVEYS) == set(words._SURVEYS)
    assert set(SURVEYS) < set(TRAINING)


def test_surveys_are_held_against_what_is_recorded_of_them():
    """Of a fitted model: one over the squared multiplier, the sum over all releases of one over their variances."""
    privacy = priced_model().privacy_
    accounted = Accounted.of(privacy, "f", 1)
    # Two groups and one rate: each survey is one look.
    assert accounted.surveys == pytest.approx(sum(std**-2 for std in privacy.surveys.values()))
    assert 0 < accounted.surveys < accounted.step * accounted.n_steps
    free = {name: replace(mechanism, surveys_multiplier=0.0) for name, mechanism in privacy.mechanisms.items()}
    assert Accounted.of(replace(privacy, mechanisms=free), "f", 1).surveys == 0.0


@pytest.mark.parametrize("expected_trials", [1.5, 6.0])
def test_a_choice_among_trials_pays_for_their_surveys(expected_trials):
    account = rdp.RdpAccountant(RDP_ORDERS)
    account.compose(dp_event.RepeatAndSelectDpEvent(MECHANISM.event, expected_trials, 0.0))
    trials = [TrialSpend(mechanism=MECHANISM)]
    spent = selected_epsilon(trials, 1e-5, expected_trials=expected_trials)
    assert spent == pytest.approx(account.get_epsilon(1e-5), rel=1e-6)
    free = [TrialSpend(mechanism=replace(MECHANISM, surveys_multiplier=0.0))]
    assert spent > 1.01 * selected_epsilon(free, 1e-5, expected_trials=expected_trials)
