"""The paper's certificates of one's own model: by hand, against the noise that was added, and by removing records."""

import functools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import ndtr

from classifier_cases import fitted
from fairdp import METHODS, FairDPClassifier
from fairdp.data.grouped import GroupedData
from fairdp.errors import ParameterError
from fairdp.paper import (
    EVERYBODY,
    EmbeddedRecords,
    cells_of,
    last_step_of,
    last_step_of_model,
    paper_bounds_of,
    remark_2_scale_needed,
    tau_emp,
)
from fairdp.planning import plan_report
from fairdp.run.plan import train_config
from statistical import assert_normal

EPSILON = 0.5
ALL_EVENTS = ("everybody", "label 0", "label 1")


def records(n_samples: int = 200, *, seed: int = 0, n_features: int = 3) -> GroupedData:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, n_features)).astype(np.float32)
    return GroupedData(X, (X[:, 0] > 0).astype(np.int64), rng.integers(2, size=n_samples), ("f", "m"))


def trained(**changes) -> FairDPClassifier:
    settings = {"method": "fairdp", "epsilon": 1.0, "n_steps": 4, "sample_rate": 0.2, "model": "logistic"} | changes
    return FairDPClassifier(**settings, certify_fraction=0, random_state=0).fit_grouped(records())


@functools.cache
def released() -> FairDPClassifier:
    """Ten heads that are fixed for the tests below."""
    return trained()


_OF_THE_CERTIFICATE = ("group_sizes", "certify_fraction", "n_looks", "positive_rate")


def planned_as(model: FairDPClassifier, sizes: dict[str, int]) -> dict[str, Any]:
    """The plan of the same run, from its parameters alone."""
    return plan_report(
        group_sizes=sizes,
        certify_fraction=0.0,
        **{name: value for name, value in model.get_params().items() if name not in _OF_THE_CERTIFICATE},
    )


def deviation() -> float:
    return last_step_of_model(released()).deviations["one_head"]


def spent(data: GroupedData, removed: int, *, rates_per_record: int, events: tuple[str, ...] = ALL_EVENTS) -> float:
    """Information of the rates about one record, in ε: how far each moves without it, over the scale of its noise.

    At heads that stay as they were released, and with the sizes of the whole table, which are public.
    """
    without = data.take(np.delete(np.arange(data.n_samples), removed))
    sizes = {event: [int(mask.sum()) for mask in masks] for event, masks in cells_of(data).items()}
    model, total = released().score_model_, 0.0
    for event in events:
        for group, size in enumerate(sizes[event]):
            sums = [
                EmbeddedRecords.of(model, table.X).chances(deviation())[cells_of(table)[event][group]].sum()
                for table in (data, without)
            ]
            scale = remark_2_scale_needed(size, epsilon=EPSILON, rates_per_record=rates_per_record)
            total += abs(sums[0] - sums[1]) / size / scale
    return total


FEW = records(24, seed=1)


class TestRemark2:
    def test_no_record_tells_more_than_epsilon_at_released_heads(self):
        told = [spent(FEW, removed, rates_per_record=2) for removed in range(FEW.n_samples)]
        assert max(told) <= EPSILON * (1 + 1e-6)
        # Somebody who is surely accepted uses all of it: no smaller scale would do.
        assert max(told) > 0.95 * EPSILON

    def test_for_a_single_metric_half_the_scale_does(self):
        told = [spent(FEW, i, rates_per_record=1, events=(EVERYBODY,)) for i in range(FEW.n_samples)]
        assert 0.95 * EPSILON < max(told) <= EPSILON * (1 + 1e-6)

    def test_that_check_notices_that_a_record_is_in_two_rates(self):
        assert max(spent(FEW, removed, rates_per_record=1) for removed in range(FEW.n_samples)) > 1.9 * EPSILON


class TestDeviations:
    """Without any feature no gradient reaches the weights: after one step they are where they began, plus noise."""

    WIDTH = 20_000

    def heads(self, n_members: int, **changes) -> tuple[np.ndarray, dict[str, float]]:
        data = records(40, n_features=1)
        nothing = replace(data, X=np.zeros((40, self.WIDTH), dtype=np.float32))
        settings = {"method": "fairdp", "model": "logistic", "n_steps": 1, "sample_rate": 0.5, "n_members": n_members}
        settings |= {"weight_bound": np.inf, "certify_fraction": 0, "optimizer": "sgd", **changes}
        model = FairDPClassifier(**settings, epsilon=1.0, random_state=0).fit_grouped(nothing)
        return model.score_model_.heads[:, :-1].double().numpy(), last_step_of_model(model).deviations

    def test_of_one_head_and_of_the_deployed_mean_of_heads(self):
        heads, stds = self.heads(4, sgd_learning_rate=50.0)
        # Heads of one run share their beginning, which the difference of two does not have.
        assert_normal((heads[0] - heads[1]) / np.sqrt(2), stds["one_head"])
        # The first weights are uniform within 1/√width, next to nothing here.
        assert_normal(heads.mean(0), stds["deployed"])
        assert stds["one_head"] == pytest.approx(2 * stds["deployed"]) == pytest.approx(4 * stds["printed"])

    def test_of_an_ordinary_last_step(self):
        heads, stds = self.heads(1, learning_rate=50.0)
        assert_normal(heads[0], stds["printed"])
        assert stds["printed"] == stds["one_head"] == stds["deployed"]

    def test_of_groups_with_optimisers_of_their_own(self):
        heads, stds = self.heads(4, sgd_learning_rate=50.0, group_optimizers=True, group_weights={"f": 3.0, "m": 1.0})
        assert_normal((heads[0] - heads[1]) / np.sqrt(2), stds["one_head"])
        assert_normal(heads.mean(0), stds["deployed"])

    def test_that_check_notices_the_printed_deviation_for_a_head(self):
        heads, stds = self.heads(4, sgd_learning_rate=50.0)
        with pytest.raises(AssertionError):
            assert_normal(heads.mean(0), stds["printed"])


class TestLastStep:
    def test_takes_its_step_size_from_the_run(self):
        assert last_step_of_model(trained(sgd_learning_rate=0.25)).learning_rate == 0.25
        ordinary = trained(n_members=1, learning_rate=(0.2, 0.1), sgd_learning_rate=0.25)
        assert (last_step_of_model(ordinary).learning_rate, last_step_of_model(ordinary).optimizer) == (0.1, "adam")
        handed_over = trained(n_members=1, optimizer="adam_then_sgd", sgd_learning_rate=0.25)
        assert last_step_of_model(handed_over).optimizer == "adam"
        long = trained(n_members=1, optimizer="adam_then_sgd", sgd_learning_rate=0.25, n_steps=20)
        assert (last_step_of_model(long).learning_rate, last_step_of_model(long).optimizer) == (0.25, "sgd")

    def test_has_the_noise_and_the_bounds_of_the_run(self):
        model = trained(weight_bound=0.7, clip_norm=0.3, n_members=3)
        last = last_step_of_model(model)
        assert last.noise_std == model.privacy_.mean_noise_std > 0
        assert (last.weight_bound, last.clip_norm, last.n_groups, last.n_members) == (0.7, 0.3, 2, 3)

    def test_is_as_planned(self):
        sizes = dict(zip(FEW.group_names, records().group_sizes.tolist(), strict=True))
        model = trained(n_members=1, optimizer="sgd", learning_rate=(0.1, 0.04), group_sizes=sizes)
        plan = planned_as(model, sizes)
        assert (plan["paper"]["optimizer"], plan["privacy"].noise_std) == ("sgd", model.privacy_.noise_std)
        assert plan["paper"]["learning_rate"] == pytest.approx(last_step_of_model(model).learning_rate, rel=1e-12)

    def test_is_not_planned_where_it_follows_the_number_of_parameters(self):
        """A head for three inputs has r = 4, which no plan knows; the step that makes heads does not follow it."""
        sizes = dict(zip(FEW.group_names, records().group_sizes.tolist(), strict=True))
        model = trained(schedule="shamir_zhang", n_members=1, group_sizes=sizes)
        last = last_step_of_model(model)
        assert last.learning_rate == pytest.approx(10 / np.sqrt(4 * (1 + 4 * last.noise_std**2)), rel=1e-9)
        assert planned_as(model, sizes)["paper"] is None
        ensemble = trained(schedule="shamir_zhang", sgd_learning_rate=0.3, group_sizes=sizes)
        assert (
            planned_as(ensemble, sizes)["paper"]["learning_rate"] == last_step_of_model(ensemble).learning_rate == 0.3
        )

    def test_of_clip_norms_that_follow_statistics_has_the_least_noise(self):
        assert last_step_of_model(trained(method="dpsgd_f")).noise_grows
        assert not last_step_of_model(trained(method="dp_fermi")).noise_grows
        assert not last_step_of_model(released()).noise_grows

    def test_counts_the_gradients_noise_without_that_of_statistics(self):
        """The decay of Theorem 4 follows the noise on the gradient, which is more than what both make together."""
        model = trained(method="dpsgd_f", schedule="theorem_4_printed")
        privacy, chosen = model.privacy_, model.fitted_.parameters
        config = train_config(chosen, "logistic", tuple(privacy.planned_sizes.values()))
        joint, statistics = privacy.noise_multiplier, privacy.statistics_multiplier
        gradient = 1 / np.sqrt(1 / joint**2 - 1 / statistics**2)
        rate = config.learning_rate(3, n_groups=2, n_params=4, noise_multiplier=gradient, noise_std=1.0)
        found = last_step_of(chosen, "logistic", privacy, n_members=1, n_params=4)
        assert found.learning_rate == pytest.approx(rate, rel=1e-9)


REFUSED = {
    "fairfm": "closed form",
    "fairfm_smooth": "closed form",
    "fairdp_frontier": "heads of several cells",
    "dpsgd_smooth": "noise on all parameters",
    "fairsmooth": "noise on all parameters",
    "dp_postprocess": "changes decisions by group",
    "clean": "trained without noise",
}


class TestRefusals:
    @pytest.mark.parametrize(("method", "words"), REFUSED.items())
    def test_methods_without_a_noisy_last_step(self, method, words):
        model = trained(method=method, n_draws=2)
        with pytest.raises(
            ParameterError,
            match=f"method='{method}' .*{words}.*; fit a model with fairdp fit --paper, or with method='fairdp'",
        ) as refusal:
            paper_bounds_of(model, records())
        assert "\n" not in str(refusal.value)

    @pytest.mark.parametrize("method", [name for name in METHODS if name not in REFUSED])
    def test_every_other_private_method_has_bounds(self, method):
        found = paper_bounds_of(trained(method=method), records())
        assert found.method == method
        assert all(np.isfinite([*bounds.tau_emp.values()]).all() for bounds in found.at.values())
        assert "not certified" in found.status
        assert any("data holder's eyes only" in note for note in found.notes)

    def test_a_model_without_noise(self):
        with pytest.raises(ParameterError, match="trained without noise"):
            paper_bounds_of(trained(epsilon=np.inf), records())


def test_adam_is_said_not_to_be_gaussian():
    notes = paper_bounds_of(trained(n_members=1), records()).notes
    assert any("Adam" in note and "not Gaussian" in note for note in notes)
    assert any("no spread between heads" in note for note in notes)
    assert not any("Adam" in note for note in paper_bounds_of(released(), records()).notes)


def test_a_group_without_such_records_is_no_evidence():
    data = records()
    one_label = data.take(np.flatnonzero((data.groups == 0) | (data.y == 1)))
    found = paper_bounds_of(released(), one_label)
    taus = found.at["printed"].tau_emp
    assert [name for name, tau in taus.items() if np.isnan(tau)] == ["equalized_odds", "false_positive_rate"]
    assert np.isnan(found.monte_carlo["printed"]["equalized_odds"])
    assert found.remark_2["tau_needed"]["demographic_parity"] > 0


def test_the_rates_are_those_of_every_record_by_itself():
    data, model = records(), released().score_model_
    head = model.heads.mean(0).double().numpy()
    rows = np.column_stack([data.X, np.ones(len(data.X))]).astype(np.float64)
    chances = ndtr(rows @ head / (np.linalg.norm(rows, axis=1) * deviation()))
    sizes, rates = data.group_sizes, [chances[data.groups == k].mean() for k in range(2)]
    radii = np.sqrt(np.log(40) / (2 * sizes))
    error = (1 / (2 * sizes * np.sqrt(len(model.heads)))).sum()
    by_hand = max(rates + radii) - min(rates - radii) + error
    assert tau_emp(model, data, deviation=deviation())["demographic_parity"] == pytest.approx(by_hand, rel=1e-5)


def test_heads_without_bias_have_no_constant_in_their_norm():
    data, plain = records(), trained(bias=False, sgd_learning_rate=2.0)
    std = last_step_of_model(plain).deviations["printed"]
    head = plain.score_model_.heads.mean(0).double().numpy()
    chances = ndtr(data.X @ head / (np.linalg.norm(data.X, axis=1) * std))
    found = paper_bounds_of(plain, data)
    assert [rate.rate for rate in found.rates[:2]] == [
        pytest.approx(chances[data.groups == group].mean(), rel=1e-5) for group in range(2)
    ]
    assert any("embedded to zero" in note for note in found.notes)


def test_a_loaded_model_has_the_same_bounds(tmp_path):
    model = fitted(method="fairdp", n_steps=5)
    X, y = np.random.default_rng(0).random((60, model.n_features_in_)), np.arange(60) // 2 % 2
    groups = np.array(model.group_names_)[np.arange(60) % len(model.group_names_)]
    labels = model.classes_[y]
    model.save(tmp_path / "model")
    found = [
        one.paper_bounds(X, labels, sensitive_features=groups, random_state=0).to_json()
        for one in (model, FairDPClassifier.load(tmp_path / "model"))
    ]
    assert found[0] == found[1]
    assert found[0]["n_records"] == 60
    with pytest.raises(ValueError, match="y has 59 entries"):
        model.paper_bounds(X, labels[1:], sensitive_features=groups)


def test_the_measured_error_is_none_for_equal_heads_and_never_above_the_worst_case():
    data, model = records(), released().score_model_
    before = model.params.clone()
    try:
        model.heads[:] = model.heads[0].clone()
        assert max(paper_bounds_of(released(), data).monte_carlo["measured"].values()) == 0
        # Half of the heads accept everybody, half nobody: the worst that ten heads can do.
        model.heads[:] = torch.tensor([0.0, 0.0, 0.0, 1.0]) * torch.tensor([1.0, -1.0] * 5)[:, None]
        errors = paper_bounds_of(released(), data).monte_carlo
        per_rate = errors["measured"]["demographic_parity"] / 2
        assert per_rate == pytest.approx(errors["at_most_per_rate"] * np.sqrt(10 / 9))
        assert errors["measured"]["equalized_odds"] == pytest.approx(4 * per_rate)
    finally:
        model.replace_params(before)


def test_remark_2_as_printed_buries_what_the_needed_noise_keeps():
    found = [paper_bounds_of(released(), records(2000), random_state=seed) for seed in range(40)]
    exact = found[0].at["printed"].tau_emp["demographic_parity"]
    errors = {
        name: np.median([abs(one.remark_2[name]["demographic_parity"] - exact) for one in found])
        for name in ("tau_printed", "tau_needed")
    }
    assert errors["tau_printed"] > 3
    assert errors["tau_needed"] < 0.05
    assert found[0].remark_2["scale_printed"] == 10
