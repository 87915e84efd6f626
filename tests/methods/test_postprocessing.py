"""Flips of decisions by group: by hand, optimal, and as users run them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import OptimizeResult

from classifier_cases import fitted, people
from fairdp import FairDPClassifier, GroupedData
from fairdp.methods.functional import fair_flips
from fairdp.metrics import decision_counts, fairness_metrics
from fairdp.parameters import METRICS
from fairdp.releases import watching
from fairdp.run import certifying
from fairdp.run.predictor import Predictor

pytestmark = pytest.mark.usefixtures("rough_bounds")

IDENTITY = [0.0, 1.0]
# Records that the preference for the base decision may cost for each chance.
PRICE = 1e-3
# Positive rates 0.5 and 0.22, true-positive rates 0.8 and 0.5, false-positive rates 0.2 and 1/30.
TWO_GROUPS = np.array([[[40, 10], [10, 40]], [[58, 2], [20, 20]]])
# Positive rates 0.5, 0.4 and 0.22.
THREE_GROUPS = np.array([[[40, 10], [10, 40]], [[50, 5], [10, 35]], [[58, 2], [20, 20]]])
PARITIES = pytest.mark.parametrize("parity", METRICS)


def expected_errors(counts, chances):
    """Errors that the chances are expected to make, on the raised counts; chances may be stacked."""
    counts = np.maximum(counts, 1)
    return (counts[:, 0] * chances + counts[:, 1] * (1 - np.asarray(chances))).sum((-2, -1))


def expected_gap(counts, chances, parity: str):
    """Largest gap of the estimated rates after the flips, by the library's own metrics; chances may be stacked."""
    counts = np.maximum(counts, 1)
    positive = (counts * np.asarray(chances)[..., None, :]).sum(-1)
    after = np.stack([counts.sum(-1) - positive, positive], axis=-1)
    return fairness_metrics(after)[f"{parity}_difference"]


def identity_of(counts):
    return np.tile(IDENTITY, (len(counts), 1))


@pytest.mark.parametrize(
    ("parity", "expected"),
    [
        # Per unit of rate, lowering group 0 costs 30/0.5 = 60 errors and raising group 1 only 38/0.78: raise to 0.4.
        ("demographic_parity", [IDENTITY, [3 / 13, 1]]),
        # Here lowering group 0 costs 30/0.8 and raising group 1 costs 38/0.5: lower 0.8 to 0.6.
        ("equal_opportunity", [[0, 3 / 4], IDENTITY]),
        # 0.8 b - 0.5 c = 0.6 and 0.2 b - 29/30 c = 4/30; the multipliers 31.8 and 22.9 prove that both are tight.
        ("equalized_odds", [[0, 77 / 101], [2 / 101, 1]]),
    ],
)
def test_two_groups_by_hand(parity, expected):
    assert fair_flips(TWO_GROUPS, parity=parity, max_gap=0.1) == pytest.approx(np.array(expected), abs=1e-9)


@pytest.mark.parametrize(
    ("max_gap", "expected"),
    [
        # The middle group is left alone, and group 2 is the cheaper end to move: 0.22 to 0.35.
        (0.15, [IDENTITY, IDENTITY, [1 / 6, 1]]),
        # Below 0.4 two groups would be lowered (60 + 75 > 49 a unit), above it two raised (67 + 49 > 60).
        (0.0, [[0, 0.8], IDENTITY, [3 / 13, 1]]),
    ],
)
def test_three_groups_by_hand(max_gap, expected):
    chances = fair_flips(THREE_GROUPS, parity="demographic_parity", max_gap=max_gap)
    assert chances == pytest.approx(np.array(expected), abs=1e-9)


# Group 1 as above, but ten times as large.
UNEQUAL = np.array([[[40, 10], [10, 40]], [[580, 20], [200, 200]]])


def test_errors_of_a_large_group_cost_more_by_hand():
    """Per unit of rate, lowering the small group costs 60 errors, and raising the large one 487: lower .5 to .32."""
    chances = fair_flips(UNEQUAL, parity="demographic_parity", max_gap=0.1)
    assert chances == pytest.approx(np.array([[0, 0.64], IDENTITY]), abs=1e-9)


def test_a_stated_rate_is_that_of_everybody_whatever_the_sizes_of_the_groups():
    chances = fair_flips(UNEQUAL, parity="demographic_parity", max_gap=0.1, positive_rate=0.3)
    counts = UNEQUAL.sum(1)
    assert (counts * chances).sum() / counts.sum() == pytest.approx(0.3, abs=1e-6)


@PARITIES
def test_a_good_classifier_within_the_gap_is_left_alone(parity):
    gap = expected_gap(THREE_GROUPS, identity_of(THREE_GROUPS), parity)
    for max_gap in (gap + 1e-6, 1):
        chances = fair_flips(THREE_GROUPS, parity=parity, max_gap=max_gap)
        assert chances == pytest.approx(identity_of(THREE_GROUPS), abs=1e-9)


@PARITIES
def test_without_a_limit_only_decisions_mostly_wrong_are_flipped(parity):
    # Rejected people of group 0 are mostly positives; those of group 1 tie, and a tie keeps the base decision.
    counts = np.array([[[10, 5], [30, 40]], [[20, 5], [20, 5]]])
    chances = fair_flips(counts, parity=parity, max_gap=1)
    assert chances == pytest.approx(np.array([[1, 1], IDENTITY]), abs=1e-9)


@PARITIES
def test_one_group_has_no_gap(parity):
    assert fair_flips(TWO_GROUPS[:1], parity=parity, max_gap=0).tolist() == [IDENTITY]


@PARITIES
def test_empty_and_negative_cells_count_as_one_record(parity):
    noisy = np.array([[[40, -3], [0, 25]], [[-12, 8], [30, 0]], [[0, 0], [0, -1]]])
    chances = fair_flips(noisy, parity=parity, max_gap=0.05)
    assert np.array_equal(chances, fair_flips(np.maximum(noisy, 1), parity=parity, max_gap=0.05))


def test_an_empty_cell_holds_one_record_by_hand():
    """Nine and three times one: the base decision is positive for two of twelve, and so it stays."""
    noisy = [[[9, 0], [-4, 0]]]
    chances = fair_flips(noisy, parity="demographic_parity", max_gap=0, positive_rate=2 / 12)
    assert chances == pytest.approx(np.array([IDENTITY]), abs=1e-9)


def check_promises(noisy, parity: str, max_gap: float) -> None:
    """All that holds for any counts; a constant flips one of the two decisions of each group."""
    chances = fair_flips(noisy, parity=parity, max_gap=max_gap)
    identity, errors = identity_of(noisy), expected_errors(noisy, chances)
    rounding = 1e-9 * np.maximum(noisy, 1).sum()
    assert chances.shape == (len(noisy), 2)
    assert ((chances >= 0) & (chances <= 1)).all()
    assert expected_gap(noisy, chances, parity) <= max_gap + 1e-9
    for constant in (0.0, 1.0):
        assert errors <= expected_errors(noisy, np.full_like(chances, constant)) + PRICE * len(noisy) + rounding
    if expected_gap(noisy, identity, parity) <= max_gap:
        assert errors <= expected_errors(noisy, identity) + rounding


@st.composite
def noisy_tables(draw):
    cells = st.one_of(st.integers(-60, 60), st.integers(-5, 10**9), st.just(0))
    return draw(arrays(np.int64, (draw(st.integers(1, 6)), 2, 2), elements=cells))


@settings(deadline=None, max_examples=150)
@given(noisy_tables(), st.sampled_from(METRICS), st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0, 1)))
def test_any_noisy_counts_have_fair_flips(noisy, parity, max_gap):
    check_promises(noisy, parity, max_gap)


@PARITIES
@pytest.mark.parametrize("epsilon", [0.05, 1.0])
def test_counts_with_laplace_noise_have_fair_flips(parity, epsilon):
    rng = np.random.default_rng(3)
    for _ in range(30):
        exact = rng.multinomial(rng.integers(20, 50_000), rng.dirichlet(np.full(12, 0.3))).reshape(3, 2, 2)
        # The difference of two geometric numbers is discrete Laplace.
        noise = np.subtract(*rng.geometric(1 - np.exp(-epsilon), size=(2, 3, 2, 2)))
        check_promises(exact + noise, parity, rng.choice([0.0, 0.02, 0.1, 0.5]))


@PARITIES
@pytest.mark.parametrize("seed", range(5))
def test_no_chances_on_a_grid_do_better(parity, seed):
    counts = np.random.default_rng(seed).integers(1, 200, size=(2, 2, 2))
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 11)] * 4), axis=-1).reshape(-1, 2, 2)
    fair = grid[expected_gap(counts, grid, parity) <= 0.1]
    best = expected_errors(counts, fair_flips(counts, parity=parity, max_gap=0.1))
    assert best <= expected_errors(counts, fair).min() + PRICE * 4


@PARITIES
def test_a_wider_gap_never_costs_errors(parity):
    gaps = np.linspace(0, 1, 21)
    errors = [expected_errors(TWO_GROUPS, fair_flips(TWO_GROUPS, parity=parity, max_gap=gap)) for gap in gaps]
    assert (np.diff(errors) <= PRICE * 4).all()
    assert errors[0] > errors[-1]


@PARITIES
def test_the_same_counts_give_the_same_chances(parity):
    # Every group alike: a programme with many solutions.
    counts = np.full((4, 2, 2), 7)
    first, second = (fair_flips(counts, parity=parity, max_gap=0.1) for _ in range(2))
    assert np.array_equal(first, second)
    assert first == pytest.approx(identity_of(counts), abs=1e-9)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"parity": "parity"}, "parity must be one of demographic_parity, equal_opportunity, equalized_odds; got"),
        ({"max_gap": -0.1}, r"max_gap must be in \[0, 1\], such as 0.03, got -0.1\."),
        ({"max_gap": 5}, r"max_gap must be in \[0, 1\], such as 0.03, got 5\."),
        ({"max_gap": float("nan")}, r"max_gap must be in \[0, 1\], such as 0.03, got nan\."),
        ({"max_gap": "0.1"}, r"max_gap must be in \[0, 1\], such as 0.03, got '0.1'\."),
        ({"noisy_counts": TWO_GROUPS[0]}, r"noisy_counts must have shape \(n_groups, 2, 2\), got \(2, 2\)\."),
        ({"noisy_counts": TWO_GROUPS[:0]}, r"noisy_counts must have shape \(n_groups, 2, 2\), got \(0, 2, 2\)\."),
        ({"noisy_counts": np.full((2, 2, 2), np.nan)}, "noisy_counts must be finite"),
    ],
)
def test_bad_input_is_one_clear_line(changes, message):
    arguments = {"noisy_counts": TWO_GROUPS, "parity": "equalized_odds", "max_gap": 0.1} | changes
    with pytest.raises(ValueError, match=message) as caught:
        fair_flips(arguments.pop("noisy_counts"), **arguments)
    assert "\n" not in str(caught.value)


def test_a_solver_that_gives_up_is_not_believed(monkeypatch):
    failed = OptimizeResult(success=False, x=np.zeros(6), message="time limit")
    monkeypatch.setattr("fairdp.methods.functional.linprog", lambda *_, **__: failed)
    with pytest.raises(RuntimeError, match="equalized_odds was not solved: time limit"):
        fair_flips(TWO_GROUPS, parity="equalized_odds", max_gap=0.1)


@pytest.mark.parametrize("parity", ["demographic_parity", "equal_opportunity", "equalized_odds"])
def test_a_ratio_is_kept_without_a_gap(parity):
    free = rates_after(fair_flips(TWO_GROUPS, parity=parity, max_gap=1), parity)
    held = rates_after(fair_flips(TWO_GROUPS, parity=parity, max_gap=1, min_ratio=0.8), parity)
    assert (free.min(1) / free.max(1)).min() < 0.79
    assert (held.min(1) / held.max(1)).min() >= 0.8 - 1e-6


@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
def test_the_share_of_positive_decisions_can_be_stated(rate):
    chances = fair_flips(THREE_GROUPS, parity="demographic_parity", max_gap=0.05, positive_rate=rate)
    counts = np.asarray(THREE_GROUPS).sum(1)
    assert (counts * chances).sum() / counts.sum() == pytest.approx(rate, abs=1e-6)


def rates_after(chances, parity: str) -> np.ndarray:
    """Rates of every kind that the parity compares, one row each, as counted."""
    counts = np.asarray(TWO_GROUPS, dtype=float)
    cells = {"demographic_parity": [counts.sum(1)], "equal_opportunity": [counts[:, 1]]}.get(
        parity, [counts[:, 0], counts[:, 1]]
    )
    return np.array([(own * chances).sum(1) / own.sum(1) for own in cells])


def test_the_estimated_gap_is_what_was_allowed():
    """With exact counts, on the training records themselves."""
    X, _, sex = people()
    X = X + np.where(sex == "m", 1.0, -1.0)[:, None].astype(np.float32)
    tilted = (X[:, 0] > 0).astype(int)
    model = fitted(method="dp_postprocess", epsilon=np.inf, max_gap=0.05, data=(X, tilted, sex))
    codes = (sex == "m").astype(int)
    chances = model.predictor_.chances(model.score_model_, X, groups=codes)
    rates = [chances[codes == group].mean() for group in (0, 1)]
    assert abs(rates[0] - rates[1]) <= 0.05 + 1e-6
    plain = (model.decision_function(X) >= 0).astype(int)
    assert fairness_metrics(decision_counts(tilted, plain, codes, 2))["demographic_parity_difference"] > 0.3


def test_the_histogram_is_paid_out_of_the_budget():
    spent = fitted(method="dp_postprocess").privacy_
    assert spent.histogram_epsilon == pytest.approx(0.2)
    assert 1.9 < spent.epsilon <= 2.0
    assert spent.noise_multiplier > fitted(method="dpsgd").privacy_.noise_multiplier
    assert "counted by group and label" in fitted(method="dp_postprocess").privacy_statement()


def test_the_programme_sees_counts_with_the_noise_that_is_paid_for(monkeypatch):
    released, seen = [], []
    release, solve = certifying.release_counts, certifying.fair_flips

    def spied(counts, **given):
        released.append((counts.copy(), given["epsilon"]))
        return release(counts, **given)

    monkeypatch.setattr(certifying, "release_counts", spied)
    monkeypatch.setattr(certifying, "fair_flips", lambda counts, **given: seen.append(counts) or solve(counts, **given))
    spent = fitted(method="dp_postprocess", epsilon=0.5).privacy_
    ((exact, epsilon),) = released
    assert epsilon == spent.histogram_epsilon == pytest.approx(0.05)
    # Eight cells with noise of scale 20: they are all as they were with a chance of 1e-13.
    assert not np.array_equal(seen[0], exact)


def test_the_targets_of_the_user_reach_the_programme(monkeypatch):
    seen, solve = [], certifying.fair_flips
    monkeypatch.setattr(certifying, "fair_flips", lambda counts, **given: seen.append(given) or solve(counts, **given))
    targets = {"parity": "equal_opportunity", "max_gap": 0.07, "min_ratio": 0.6, "positive_rate": 0.4}
    fitted(method="dp_postprocess", **targets)
    assert seen == [targets]


def test_a_decision_needs_the_group():
    model, (X, _, sex) = fitted(method="dp_postprocess"), people()
    assert model.predict(X, sensitive_features=sex).shape == (600,)
    with pytest.raises(ValueError, match=r"decides by group; give the group of every record in sensitive_features"):
        model.predict(X)
    with pytest.raises(ValueError, match=r"names the group 'x', but the model knows 'f', 'm'"):
        model.predict(X[:1], sensitive_features=["x"])


def test_accuracy_takes_the_groups_too():
    model, (X, y, sex) = fitted(method="dp_postprocess"), people()
    assert model.score(X, y, sensitive_features=sex) == np.mean(model.predict(X, sensitive_features=sex) == y)


def test_groups_are_known_by_name_not_by_order():
    model, (X, _, sex) = fitted(method="dp_postprocess"), people()
    together = model.predict(X, sensitive_features=sex)
    alone = model.predict(X[sex == "m"], sensitive_features=sex[sex == "m"])
    assert np.array_equal(together[sex == "m"], alone)


def test_flips_mix_the_chances_of_both_decisions():
    model = fitted(method="dpsgd").score_model_
    X = people()[0][:50]
    rule = Predictor(flips=((0.1, 0.8), (0.0, 1.0)), key="00")
    plain = Predictor().chances(model, X)
    groups = np.arange(50) % 2
    expected = np.where(groups == 0, 0.1 + 0.7 * plain, plain)
    assert rule.chances(model, X, groups=groups) == pytest.approx(expected)


def histograms(data) -> tuple[list, object]:
    """The releases from which a run makes its rule, and the fitted model."""
    seen = []
    with watching(lambda release: seen.append(release) or release.noisy):
        model = FairDPClassifier(
            method="dp_postprocess", epsilon=1.0, n_steps=5, sample_rate=0.3, random_state=0
        ).fit_grouped(data)
    return [release for release in seen if release.purpose == "histogram"], model


def grouped():
    X, y, sex = people()
    return GroupedData(X, y, (sex == "m").astype(np.int64), ("f", "m"))


def test_the_rule_is_made_from_training_records():
    (release,), model = histograms(grouped())
    assert release.exact.sum() == model.n_train_


def test_a_seed_that_is_used_again_does_not_repeat_the_noise_on_other_histograms():
    """With the same noise on both, their difference would be exact."""
    (first,), _ = histograms(grouped())
    (other,), _ = histograms(grouped().take(np.arange(300)))
    assert not np.array_equal(first.exact, other.exact)
    assert not np.array_equal(first.noisy - first.exact, other.noisy - other.exact)
