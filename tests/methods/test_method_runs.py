"""Methods as users run them: smoothing, group models, post-processing, the functional mechanism, refusals."""

import copy
import pickle

import numpy as np
import pytest
import torch

from estimator_cases import CERTIFIED, SHORT, fitted, people
from fairdp import METHODS, FairDPClassifier, fitting, looks
from fairdp.data.grouped import GroupedData
from fairdp.fitting import Progress
from fairdp.methods import METHODS as REGISTERED
from fairdp.metrics import decision_counts, fairness_metrics
from fairdp.predictors import Predictor
from fairdp.privacy import BY_LABEL
from fairdp.tasks.fit import FitTask, run_fit
from fairdp.tasks.records import Source
from fairdp.training.extractors import BoundedInputs, mlp
from fairdp.training.functional import bounded_inputs
from fairdp.training.models import ParameterSmoothing, ScoreModel

SMOOTH = ["fairsmooth", "dpsgd_smooth", "fairfm_smooth"]


def smoothed_model(**smoothing) -> ScoreModel:
    torch.manual_seed(0)
    model = ScoreModel(mlp(3, (4,)), (3,))
    model.smoothing = ParameterSmoothing(**{"deviation": 0.3, "n_draws": 50, "seed": 1, **smoothing})
    return model


class TestSmoothing:
    def test_scores_are_the_logit_of_the_mean_chance_over_draws_of_the_parameters(self):
        model, X = smoothed_model(), torch.from_numpy(people()[0][:5])
        rng, chances = np.random.default_rng(1), []
        for _ in range(50):
            drawn = smoothed_model()
            drawn.smoothing = None
            drawn.params.add_(0.3 * torch.from_numpy(rng.standard_normal(len(drawn.params))).float())
            chances.append(torch.sigmoid(drawn.scores(X)))
        assert torch.allclose(torch.sigmoid(model.scores(X)), torch.stack(chances).mean(0), atol=1e-6)

    def test_parameters_are_put_back_exactly_and_draws_are_the_same_each_time(self):
        model, X = smoothed_model(), torch.from_numpy(people()[0])
        before = model.params.clone()
        first = model.scores(X)
        assert torch.equal(model.params, before)
        assert torch.equal(model.scores(X), first)

    def test_parameters_are_put_back_when_scoring_fails(self):
        model = smoothed_model()
        before = model.params.clone()
        with pytest.raises(RuntimeError):
            model.scores(torch.zeros(2, 7))
        assert torch.equal(model.params, before)

    def test_scores_far_from_zero_stay_finite(self):
        model = smoothed_model(deviation=1e-3)
        model.params.mul_(1000)
        assert model.scores(torch.from_numpy(people()[0])).isfinite().all()

    @pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
    def test_a_copy_decides_as_the_original(self, copied):
        model, X = smoothed_model(), torch.from_numpy(people()[0])
        assert torch.equal(copied(model).scores(X), model.scores(X))

    @pytest.mark.parametrize("method", SMOOTH)
    def test_a_saved_model_decides_as_the_fitted_one(self, method, tmp_path):
        model = fitted(method=method)
        model.save(tmp_path / "model")
        X = people()[0]
        assert np.array_equal(type(model).load(tmp_path / "model").decision_function(X), model.decision_function(X))
        assert model.score_model_.smoothing.n_draws == 100

    def test_smoothing_is_free_and_changes_decisions_little_by_little(self):
        plain, smooth = (fitted(method=name).score_model_.params for name in ("dpsgd", "dpsgd_smooth"))
        assert torch.equal(plain, smooth)
        X, gaps = people()[0], []
        for deviation in (1e-4, 0.3):
            smooth = fitted(method="dpsgd_smooth", parameter_noise=deviation).decision_function(X)
            gaps.append(np.abs(smooth - fitted(method="dpsgd").decision_function(X)).max())
        assert gaps[0] < 1e-3 < gaps[1]


class TestGroupModels:
    def test_the_average_is_no_model_of_one_group_and_the_bound_follows_from_the_distance(self):
        model = fitted(method="fairsmooth")
        bounds = model.notes_["overall_against_group_classifier"]
        assert len(bounds) == 2
        assert all(0 < bound <= 1 for bound in bounds)
        assert "no bound on a gap between groups" in model.notes_["what_it_is"]
        # Two models are equally far from their average.
        assert bounds[0] == pytest.approx(bounds[1], abs=1e-4)

    def test_one_group_alone_is_its_own_average(self):
        model = fitted(method="fairsmooth", sex=("all",) * 600)
        assert model.notes_["overall_against_group_classifier"] == [0.0]


class TestPostProcessing:
    def test_the_estimated_gap_is_what_was_allowed(self):
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

    def test_the_histogram_is_paid_out_of_the_budget(self):
        spent = fitted(method="dp_postprocess").privacy_
        assert spent.histogram_epsilon == pytest.approx(0.2)
        assert 1.9 < spent.epsilon <= 2.0
        assert spent.noise_multiplier > fitted(method="dpsgd").privacy_.noise_multiplier
        assert "counted by group and label" in fitted(method="dp_postprocess").privacy_statement()

    def test_the_programme_sees_counts_with_the_noise_that_is_paid_for(self, monkeypatch):
        released, seen = [], []
        release, solve = looks.release_counts, looks.fair_flips

        def spied(counts, **given):
            released.append((counts.copy(), given["epsilon"]))
            return release(counts, **given)

        monkeypatch.setattr(looks, "release_counts", spied)
        monkeypatch.setattr(looks, "fair_flips", lambda counts, **given: seen.append(counts) or solve(counts, **given))
        spent = fitted(method="dp_postprocess", epsilon=0.5).privacy_
        ((exact, epsilon),) = released
        assert epsilon == spent.histogram_epsilon == pytest.approx(0.05)
        # Eight cells with noise of scale 20: they are all as they were with a chance of 1e-13.
        assert not np.array_equal(seen[0], exact)

    def test_a_decision_needs_the_group(self):
        model, (X, _, sex) = fitted(method="dp_postprocess"), people()
        assert model.predict(X, sensitive_features=sex).shape == (600,)
        with pytest.raises(
            ValueError, match=r"decides by group; give the group of every record \(sensitive_features\)"
        ):
            model.predict(X)
        with pytest.raises(ValueError, match=r"names the group 'x', but the model knows 'f', 'm'"):
            model.predict(X[:1], sensitive_features=["x"])

    def test_accuracy_takes_the_groups_too(self):
        model, (X, y, sex) = fitted(method="dp_postprocess"), people()
        assert model.score(X, y, sensitive_features=sex) == np.mean(model.predict(X, sensitive_features=sex) == y)

    def test_groups_are_known_by_name_not_by_order(self):
        model, (X, _, sex) = fitted(method="dp_postprocess"), people()
        together = model.predict(X, sensitive_features=sex)
        alone = model.predict(X[sex == "m"], sensitive_features=sex[sex == "m"])
        assert np.array_equal(together[sex == "m"], alone)

    def test_flips_mix_the_chances_of_both_decisions(self):
        model = fitted(method="dpsgd").score_model_
        X = people()[0][:50]
        rule = Predictor(flips=((0.1, 0.8), (0.0, 1.0)), key="00")
        plain = Predictor().chances(model, X)
        groups = np.arange(50) % 2
        expected = np.where(groups == 0, 0.1 + 0.7 * plain, plain)
        assert rule.chances(model, X, groups=groups) == pytest.approx(expected)


class TestFunctionalMechanism:
    def test_the_deployed_inputs_are_those_that_were_released(self):
        X = 4 * people()[0]
        module = BoundedInputs(2)
        assert module(torch.from_numpy(X)).numpy() == pytest.approx(bounded_inputs(X, n_active=2), abs=1e-6)

    def test_the_budget_is_pure_and_said_to_be(self):
        model = fitted(method="fairfm", group_sizes="private")
        spent = model.privacy_
        assert spent.epsilon == pytest.approx(2.0)
        assert spent.counts_epsilon == pytest.approx(0.1)
        assert spent.noise_std == pytest.approx(1 / 1.9)
        assert "pure: it holds with delta zero" in model.privacy_statement()

    def test_the_noise_is_that_of_the_budget(self, monkeypatch):
        used, solve = [], fitting.fair_functional_head

        def spied(data, **given):
            used.append(given["epsilon"])
            return solve(data, **given)

        monkeypatch.setattr(fitting, "fair_functional_head", spied)
        fitted(method="fairfm", group_sizes="private")
        assert used == [pytest.approx(1.9)]

    def test_a_seed_that_is_used_again_meets_other_records_with_other_noise(self, monkeypatch):
        drawn, below = [], fitting.Generators.below
        monkeypatch.setattr(
            fitting.Generators, "below", lambda self, purpose: drawn.append(purpose) or below(self, purpose)
        )
        X, y, sex = people()
        for data in ((X, y, sex), (X[:-1], y[:-1], sex[:-1])):
            fitted(method="fairfm", data=data)
        assert len({purpose for purpose in drawn if purpose.startswith("functional")}) == 2

    def test_a_schema_says_how_many_inputs_matter(self):
        X, y, sex = people()
        data = GroupedData(X, y, (sex == "m").astype(np.int64), ("f", "m"))
        columns = [{"type": "numeric", "name": name, "low": 0, "high": 1} for name in "ab"]
        outcome = {"label": "y", "positive": "1", "negative": "0", "declared": True}
        schema = {**outcome, "sensitive": [{"name": "sex", "groups": ["f", "m"]}], "columns": columns}
        model = fitted(method="fairfm").fit_grouped(data, feature_schema=schema)
        assert model.model_config_.n_active == 2
        assert fitted(method="fairfm").model_config_.n_active == 3


def held_out_of(**parameters):
    """A model at so large an epsilon that its released counts are exact, and the records they were counted on."""
    X, _, sex = people()
    X = X + np.where(sex == "m", 1.0, -1.0)[:, None].astype(np.float32)
    data = GroupedData(X, (X[:, 0] > 0).astype(np.int64), (sex == "m").astype(np.int64), ("f", "m"))
    parts = []
    progress = Progress(observe_parts=lambda train, held_out: parts.append(held_out))
    settings = {**SHORT, **CERTIFIED, "epsilon": 100.0, "random_state": 0, "certify_metrics": ("demographic_parity",)}
    model = FairDPClassifier(**{**settings, **parameters}).fit_grouped(data, progress=progress)
    return model, parts[0], np.array(model.certificate_.counts)


class TestCertificates:
    def test_a_smoothed_model_is_certified_as_it_decides(self):
        model, held_out, counts = held_out_of(method="dpsgd_smooth", parameter_noise=3.0, n_draws=3)
        decisions = (model.scores(held_out.X) >= 0).astype(int)
        assert np.array_equal(counts, decision_counts(held_out.y, decisions, held_out.groups, 2))
        model.score_model_.smoothing = None
        plain = (model.scores(held_out.X) >= 0).astype(int)
        assert not np.array_equal(counts, decision_counts(held_out.y, plain, held_out.groups, 2))

    def test_a_post_processed_model_is_certified_as_it_decides(self):
        model, held_out, counts = held_out_of(method="dp_postprocess", max_gap=0.0)
        chances = model.predictor_.chances(model.score_model_, held_out.X, groups=held_out.groups)
        plain = (model.scores(held_out.X) >= 0).astype(float)
        for group in (0, 1):
            own = held_out.groups == group
            positive, spread = chances[own].sum(), np.sqrt((chances * (1 - chances))[own].sum())
            # Coins within five deviations, which the decisions before flipping are not.
            assert abs(counts[group, :, 1].sum() - positive) <= 5 * spread + 1e-9
        moved = [abs(plain[held_out.groups == g].sum() - chances[held_out.groups == g].sum()) for g in (0, 1)]
        assert max(moved) > 20

    def test_one_group_sampled_by_label_is_still_one_group(self):
        """Two cells to sample, but no gap to bound."""
        model = fitted(method="dp_is_sgd", grouping="attribute_and_label", sex=("all",) * 600, **CERTIFIED)
        assert model.certificate_.reason == "there is only one group, hence no gap to bound"
        assert model.n_certify_ == 0

    def test_records_of_a_label_spend_no_more_than_its_rarer_sampled_ones(self):
        spent = fitted(method="dp_is_sgd", grouping="attribute_and_label", **CERTIFIED).privacy_
        for group, epsilon in spent.certify_epsilons.items():
            assert epsilon == min(spent.epsilon_by_group[f"{group}, label {label}"] for label in (0, 1))
        assert BY_LABEL in spent.public_assumptions
        hidden = fitted(method="dp_is_sgd", grouping="attribute_and_label", group_sizes="private").privacy_
        assert BY_LABEL not in hidden.public_assumptions


class TestRefusals:
    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"method": "fairfm", "model": "mlp"}, r"method='fairfm' is a logistic model .*use method='dpsgd'"),
            ({"method": "fairfm", "n_looks": 2, "require_tau": 0.5}, r"n_looks=2 .*use method='dpsgd'"),
            ({"method": "dpsgd_smooth", "predictor": "gibbs"}, r"use predictor='deterministic'"),
            ({"method": "dp_postprocess", "predictor": "smoothed"}, r"use predictor='deterministic'"),
            ({"method": "dpsgd", "grouping": "attribute_and_label"}, r"is for method='dp_is_sgd' only"),
            ({"method": "raco_dp", "max_gap": 1.5}, r"max_gap must be in \[0, 1\], such as 0.03, got 1.5"),
            ({"method": "raco_dp", "max_gap": "x"}, r"max_gap must be in \[0, 1\], such as 0.03, got 'x'"),
            ({"method": "fairdp", "max_gap": 0.01}, r"max_gap=0.01 is a target, .*use method='fairdp_parity'"),
            (
                {"method": "dp_is_sgd", "max_sample_rate": 0.001},
                r"fewer than one record of a group in a batch; use 0.0",
            ),
            ({"method": "fairfm", "sex": ("f",) * 6 + ("m",) * 594, "sample_rate": 0.5}, r"group 'f' .*merge it"),
            ({"method": "raco_dp", "parity": "equality"}, r"parity must be one of"),
            ({"method": "dp_is_sgd", "max_sample_rate": 0.0}, r"max_sample_rate"),
            ({"method": "fairsmooth", "n_draws": 0}, r"n_draws must be a whole number"),
            ({"method": "fairsmooth", "parameter_noise": 0.0}, r"parameter_noise must be positive"),
            ({"method": "dp_fermi", "fairness_weight": -1.0}, r"fairness_weight must be at least 0"),
        ],
    )
    def test_what_a_method_cannot_do_is_said_in_one_line(self, changes, words):
        with pytest.raises(ValueError, match=words):
            fitted(**changes)

    @pytest.mark.parametrize("method", [name for name, method in METHODS.items() if method.tables_only])
    def test_images_are_refused_before_they_are_read(self, method, monkeypatch):
        monkeypatch.setattr("fairdp.tasks.fit.load_records", lambda source: pytest.fail("the data was read"))
        source = Source(
            table=None, dataset="utkface", label=None, positive=None, sensitive=(), schema=None, test_fraction=0.2
        )
        task = FitTask(source=source, parameters={"method": method}, checkpoint=None, resume=False, out=None)
        with pytest.raises(ValueError, match="takes tables only, and utkface has images; use method='dpsgd'"):
            run_fit(task)

    @pytest.mark.parametrize("method", ["fairsmooth", "fairfm"])
    def test_methods_that_are_no_single_run_take_no_checkpoint(self, method, tmp_path):
        X, y, sex = people()
        data = GroupedData(X, y, (sex == "m").astype(np.int64), ("f", "m"))
        with pytest.raises(ValueError, match="writes no checkpoints"):
            fitted(method=method).fit_grouped(data, progress=Progress(checkpoint=tmp_path / "c"))


def test_every_method_says_what_it_protects_and_needs():
    assert {name for name, method in REGISTERED.items() if method.needs_group_at_prediction} == {"dp_postprocess"}
    assert {name for name, method in REGISTERED.items() if not method.private} == {"clean", "fairsmooth"}
    assert all((method.unit == "record") == method.private for method in REGISTERED.values())
