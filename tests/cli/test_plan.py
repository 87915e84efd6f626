"""Plans: the cost of a run from public numbers alone."""

import math

import pytest

from fairdp._io import to_plain
from fairdp.planning import plan_report

DEFAULTS = {
    "group_sizes": (10771, 21790),
    "method": "fairdp",
    "epsilon": 1.0,
    "delta": 1e-5,
    "sample_rate": None,
    "n_steps": None,
    "clip_norm": None,
    "weight_bound": 1.0,
    "n_members": 10,
    "noise_allocation": "per_group",
}


def plan_of(**changes):
    return to_plain(plan_report(**{**DEFAULTS, **changes}))


@pytest.mark.parametrize("fraction", [0.0, 0.2])
def test_the_plan_of_adult(fraction):
    report = plan_of(certify_fraction=fraction)
    privacy = report["privacy"]
    batches = [(1 - fraction) * 107.71, (1 - fraction) * 217.90]
    assert report["group_sizes"] == [10771, 21790]
    assert report["expected_batch_sizes"] == pytest.approx(batches)
    # α_k C / m_k with α = 1/2, C = 1.
    assert report["sensitivities"] == pytest.approx([0.5 / batches[0], 0.5 / batches[1]])
    assert 0.95 <= privacy["epsilon"] <= 1
    assert privacy["epsilon_by_group"].keys() == {"group 0", "group 1"}
    # Independent noise on both groups: σ C √(Σ (α/m)²).
    expected = privacy["noise_multiplier"] * math.hypot(0.5 / batches[0], 0.5 / batches[1])
    assert privacy["noise_std"] == pytest.approx(expected)


def test_group_optimizers_are_planned_at_sigma_for_every_groups_own_sum():
    shared, own = (plan_of(certify_fraction=0.0, group_optimizers=own) for own in (False, True))
    assert own["sensitivities"] == [1.0, 1.0]
    assert own["privacy"]["noise_std"] == pytest.approx(own["privacy"]["noise_multiplier"])
    assert own["privacy"]["mean_noise_std"] == pytest.approx(shared["privacy"]["noise_std"])
    # What becomes of the averaged head is the same, and so is the paper's bound on it.
    assert own["paper"]["theorem_2"] == pytest.approx(shared["paper"]["theorem_2"])
    assert own["paper"]["theorem_2_at_zero"] == pytest.approx(shared["paper"]["theorem_2_at_zero"])


def test_weights_of_groups_are_planned_by_name():
    """Three to one in favour of the second group: α_k / m_k of ¼ / 107.71 and ¾ / 217.90."""
    sizes = {"f": 10771, "m": 21790}
    plans = [
        plan_of(certify_fraction=0.0, group_sizes=sizes, group_weights=weights)
        for weights in ({"f": 1, "m": 3}, {"m": 0.75, "f": 0.25})
    ]
    assert plans[0] == plans[1]
    assert plans[0]["sensitivities"] == pytest.approx([0.25 / 107.71, 0.75 / 217.90])
    expected = plans[0]["privacy"]["noise_multiplier"] * math.hypot(0.25 / 107.71, 0.75 / 217.90)
    assert plans[0]["privacy"]["noise_std"] == pytest.approx(expected)
    with pytest.raises(ValueError, match="group_weights must name the groups 'f', 'm', all of them and no other"):
        plan_of(group_sizes=sizes, group_weights={"f": 1, "x": 3})
    with pytest.raises(ValueError, match="is for method='fairdp'"):
        plan_of(method="dpsgd", group_sizes=sizes, group_weights={"f": 1, "m": 3})


def test_a_small_group_raises_the_sample_rate():
    """Of 200 records a fifth is held out, and 16 of the other 160 make a batch."""
    report = plan_of(group_sizes=(200, 5000), n_steps=10)
    assert report["privacy"]["sample_rate"] == pytest.approx(0.1)
    assert min(report["expected_batch_sizes"]) == pytest.approx(16)


@pytest.mark.parametrize("fraction", [0.0, 0.2])
def test_a_plan_agrees_with_the_run_it_plans(fraction):
    import numpy as np

    from fairdp import FairDPClassifier

    rng = np.random.default_rng(0)
    X, y, a = rng.random((600, 2)), rng.integers(2, size=600), np.repeat(["f", "m"], [200, 400])
    settings = {"method": "fairdp", "n_steps": 12, "sample_rate": 0.2}
    sizes = {"f": 200, "m": 400}
    model = FairDPClassifier(**settings, group_sizes=sizes, certify_fraction=fraction).fit(X, y, sensitive_features=a)
    planned = plan_of(group_sizes=sizes, certify_fraction=fraction, **settings)["privacy"]
    for name in ("epsilon", "epsilon_rdp", "noise_multiplier", "noise_std", "sample_rate", "n_steps", "clip_norm"):
        assert planned[name] == getattr(model.privacy_, name), name
    assert planned["certify_fraction"] == model.privacy_.certify_fraction
    assert [*planned["certify_epsilons"].values()] == [*model.privacy_.certify_epsilons.values()]


@pytest.mark.parametrize(
    "changes",
    [{"certify_fraction": 0.0}, {"group_sizes": (600,)}, {"epsilon": math.inf}],
    ids=["no records", "one group", "no noise"],
)
def test_nothing_is_held_out_where_nothing_can_be_certified(changes):
    report = plan_of(**{"group_sizes": (200, 400), "sample_rate": 0.2, "n_steps": 12, **changes})
    assert report["certificate"] is None
    assert report["expected_batch_sizes"] == pytest.approx([0.2 * size for size in report["group_sizes"]])


def test_sizes_without_names_are_a_guess_of_what_will_be_counted():
    guessed, declared = (
        plan_of(group_sizes=sizes, n_steps=50)["privacy"] for sizes in ((900, 999), {"a": 900, "b": 999})
    )
    assert (guessed["group_sizes"], declared["group_sizes"]) == ("noisy", "declared")
    assert guessed["counts_std"] == pytest.approx(37.3, abs=0.01)
    assert guessed["noise_multiplier"] > declared["noise_multiplier"]
    assert list(declared["planned_sizes"]) == ["a", "b"]


def test_less_budget_needs_more_noise():
    noise = [plan_of(epsilon=epsilon, n_steps=50)["privacy"]["noise_std"] for epsilon in (0.5, 2.0, math.inf)]
    assert noise[0] > noise[1] > noise[2] == 0


@pytest.mark.parametrize(
    "changes",
    [
        *({"method": "sgd"}, {"group_sizes": (0, 10)}, {"epsilon": 0.0}, {"delta": 1.5}, {"delta": 0.01}),
        *({"sample_rate": 12.8}, {"n_steps": 0}, {"clip_norm": -1.0}, {"noise_allocation": "none"}),
    ],
    ids=str,
)
def test_what_cannot_be_planned_is_refused(refuses, changes):
    refuses(lambda: plan_of(**changes), *changes)


@pytest.mark.parametrize("changes", [{"epsilon": 1e-4}, {"delta": 1e-300}])
def test_extreme_budgets_are_planned_or_refused_in_words(changes):
    """A budget that no noise can meet is the user's number to change, not an internal error."""
    try:
        privacy = plan_of(**changes, n_steps=50)["privacy"]
    except ValueError as error:
        refusal = str(error)
    else:
        refusal = ""
        assert privacy["epsilon"] <= {**DEFAULTS, **changes}["epsilon"]
    assert not refusal or next(iter(changes)) in refusal
