"""The study of when training would halt: which model each rule keeps."""

import pytest

from fairdp.experiments.studies.halting import Seen, kept_by


def looks(*taus):
    numbers = {"dataset": "x", "seed": 0, "accuracy": 0.8, "positive_rate": 0.1, "test_gap": 0.0}
    return [
        Seen(look=n, certified=certified, tau_emp=tau_emp, **numbers) for n, (certified, tau_emp) in enumerate(taus, 1)
    ]


@pytest.mark.parametrize(
    ("taus", "certified", "tau_emp"),
    [
        (((0.01, 0.02), (0.03, 0.02), (0.05, 0.06), (0.04, 0.01)), 4, 2),
        (((0.01, 0.06), (0.06, 0.01), (0.01, 0.01), (0.01, 0.01)), 1, 1),
        (((0.06, 0.01), (0.01, 0.01), (0.01, 0.01), (0.01, 0.051)), 1, 3),
    ],
)
def test_the_last_look_before_the_first_above_the_target_is_kept(taus, certified, tau_emp):
    """By hand, at a target of .05: equal is not above, a first look that is above is kept, and none after it counts."""
    seen = looks(*taus)
    assert [kept_by(rule, seen, 0.05).look for rule in ("certified", "tau_emp")] == [certified, tau_emp]
