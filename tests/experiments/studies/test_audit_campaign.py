"""The campaign of small audits: what a task finds, how runs are counted, and that too many are noticed."""

import numpy as np
import pytest

from fairdp.experiments.studies import audit_campaign
from fairdp.experiments.studies.audit_campaign import FAILURE_PROBABILITY, TESTS, Audited, audit_once, campaign_study
from fairdp.experiments.studies.results import Run
from statistical import assert_rate_at_most


def audited(lower: float) -> Audited:
    return Audited(
        method="dpsgd", epsilon=1.0, lower=dict.fromkeys(TESTS, lower), limit=dict.fromkeys(TESTS, 1.0) | {"null": 0.0}
    )


def test_an_audit_has_every_test_beside_what_it_must_not_pass():
    found = audit_once(("fairdp", 1.0), np.random.default_rng(0))
    assert set(found.lower) == set(found.limit) == set(TESTS)
    assert found.limit["one_release"] <= 1.0 < found.limit["one_run"]


def test_bounds_that_say_too_much_are_counted_and_noticed():
    few, many = ([audited(2.0)] * n + [audited(0.0)] * (1000 - n) for n in (50, 120))
    assert audit_campaign._total(few, "one_run")["p_value"] > 0.1
    assert audit_campaign._total(many, "null")["p_value"] < 1e-6
    assert audit_campaign._total(many, "one_run")["passed"] == 120


@pytest.mark.more
def test_bounds_pass_epsilon_no_more_often_than_they_say(monkeypatch):
    monkeypatch.setattr(audit_campaign, "EPSILONS", (1.0, 4.0))
    monkeypatch.setattr(audit_campaign, "N_QUICK", 3)
    figures = campaign_study(Run(quick=True, seed=1, workers=1, say=lambda line: None)).figures
    assert figures["n_runs"] == 72
    for total in figures["totals"].values():
        assert_rate_at_most(total["passed"], figures["n_runs"], FAILURE_PROBABILITY)
