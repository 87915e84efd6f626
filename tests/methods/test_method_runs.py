"""Methods as users run them: the functional mechanism, certificates of every rule, refusals."""

import numpy as np
import pytest
import torch

from classifier_cases import CERTIFIED, SHORT, Watching, fitted, people
from fairdp import METHODS, FairDPClassifier
from fairdp.accounting.spent import BY_LABEL
from fairdp.data.grouped import GroupedData
from fairdp.fitting import fit_source
from fairdp.methods.functional import bounded_inputs
from fairdp.metrics import decision_counts
from fairdp.networks.model import BoundedInputs
from fairdp.records import Source
from fairdp.run.fit import Progress

pytestmark = pytest.mark.usefixtures("rough_bounds")


class TestFunctionalMechanism:
    def test_the_deployed_inputs_are_those_that_were_released(self):
        X = 4 * people()[0]
        module = BoundedInputs(2)
        assert module(torch.from_numpy(X)).numpy() == pytest.approx(bounded_inputs(X, n_active=2), abs=1e-6)

    def test_the_budget_is_pure_and_said_to_be(self):
        model = fitted(method="fairfm")
        spent = model.privacy_
        assert spent.epsilon == pytest.approx(2.0)
        assert spent.counts_epsilon == pytest.approx(0.02)
        assert spent.noise_std == pytest.approx(1 / 1.98)
        assert "pure: it holds with delta zero" in model.privacy_statement()

    def test_a_schema_says_how_many_inputs_matter(self):
        X, y, sex = people()
        data = GroupedData(X, y, (sex == "m").astype(np.int64), ("f", "m"))
        columns = [{"type": "numeric", "name": name, "low": 0, "high": 1} for name in "ab"]
        outcome = {"label": "y", "positive": "1", "negative": "0", "declared": True}
        schema = {**outcome, "sensitive": [{"name": "sex", "groups": ["f", "m"]}], "columns": columns}
        model = fitted(method="fairfm").fit_grouped(data, feature_schema=schema)
        assert model.fitted_.model.n_active == 2
        assert fitted(method="fairfm").fitted_.model.n_active == 3


def held_out_of(**parameters):
    """A model at so large an epsilon that its released counts are exact, and the records they were counted on."""
    X, _, sex = people()
    X = X + np.where(sex == "m", 1.0, -1.0)[:, None].astype(np.float32)
    data = GroupedData(X, (X[:, 0] > 0).astype(np.int64), (sex == "m").astype(np.int64), ("f", "m"))
    watched = Watching()
    settings = {**SHORT, **CERTIFIED, "epsilon": 100.0, "random_state": 0, "certify_metrics": ("demographic_parity",)}
    settings["accountant"] = "rdp"
    model = FairDPClassifier(**{**settings, **parameters}).fit_grouped(data, spending=watched)
    return model, watched.parts[0][1], np.array(model.certificate_.counts)


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
        assert model.certificate_.reason == "one_group"
        assert model.n_certify_ == 0

    def test_records_of_a_label_spend_no_more_than_its_rarer_sampled_ones(self):
        by_label = {"method": "dp_is_sgd", "grouping": "attribute_and_label", **CERTIFIED}
        by_label["certify_metrics"] = ("demographic_parity",)
        spent = fitted(**by_label, group_sizes="public").privacy_
        for group, epsilon in spent.certify_epsilons.items():
            rarer = min(spent.epsilon_by_group[f"{group}, label {label}"] for label in (0, 1))
            # Rounded down at most as `noise_of_any_processor` does.
            assert epsilon == pytest.approx(rarer, abs=1e-8, rel=0)
        assert BY_LABEL in spent.public_assumptions
        counted = fitted(**by_label).privacy_
        assert BY_LABEL not in counted.public_assumptions
        assert counted.counts_std > 0
        assert set(counted.planned_sizes) == {f"{group}, label {label}" for group in ("f", "m") for label in (0, 1)}


class TestRefusals:
    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"method": "fairfm", "model": "mlp"}, r"method='fairfm' is a logistic model .*use method='dpsgd'"),
            ({"method": "fairfm", "n_looks": 2, "require_tau": 0.5}, r"n_looks=2 .*use method='fairdp' or 'dpsgd'"),
            ({"method": "dpsgd_smooth", "predictor": "gibbs"}, r"use predictor='deterministic'"),
            ({"method": "dp_postprocess", "predictor": "smoothed"}, r"use predictor='deterministic'"),
            ({"method": "fairdp_frontier", "predictor": "gibbs"}, r"use predictor='deterministic'"),
            ({"method": "dpsgd", "grouping": "attribute_and_label"}, r"is for method='dp_is_sgd' only"),
            (
                {"method": "dpsgd", "price": 0.1},
                r"price=0.1 is for method='fairdp_frontier' only, not 'dpsgd'",
            ),
            ({"method": "raco_dp", "cost_ratio": 2.0}, r"cost_ratio=2.0 is for method='fairdp_frontier' only"),
            ({"method": "dpsgd", "max_sample_rate": 0.5}, r"max_sample_rate=0.5 is for method='dp_is_sgd' only"),
            ({"method": "dpsgd", "fairness_weight": 1.0}, r"fairness_weight=1.0 is for method='dp_fermi' only"),
            ({"method": "fairdp", "parameter_noise": 0.2}, r"method='fairsmooth' and 'dpsgd_smooth' and"),
            ({"method": "raco_dp", "max_gap": 1.5}, r"max_gap must be in \[0, 1\], such as 0.03, got 1.5"),
            ({"method": "raco_dp", "max_gap": "x"}, r"max_gap must be in \[0, 1\], such as 0.03, got 'x'"),
            ({"method": "fairdp", "max_gap": 0.01}, r"max_gap=0.01 is a target, .*use method='fairdp_frontier'"),
            (
                {"method": "dp_is_sgd", "max_sample_rate": 0.001},
                r"fewer than one record of a group in a batch; use 0.0",
            ),
            (
                {"method": "fairfm", "sex": ("f",) * 6 + ("m",) * 594, "sample_rate": 0.5, "group_sizes": "public"},
                r"group 'f' .*merge it",
            ),
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

    @pytest.mark.parametrize("method", [name for name, method in METHODS.items() if method.closed_form])
    def test_images_are_refused_before_they_are_read(self, method, monkeypatch):
        monkeypatch.setattr("fairdp.fitting.load_records", lambda source: pytest.fail("the data was read"))
        source = Source(
            table=None, dataset="utkface", label=None, positive=None, sensitive=(), schema=None, test_fraction=0.2
        )
        with pytest.raises(ValueError, match="takes tables only, and utkface has images; use method='dpsgd'"):
            fit_source(source, {"method": method})

    @pytest.mark.parametrize("method", ["fairsmooth", "fairfm"])
    def test_methods_that_are_no_single_run_take_no_checkpoint(self, method, tmp_path):
        X, y, sex = people()
        data = GroupedData(X, y, (sex == "m").astype(np.int64), ("f", "m"))
        with pytest.raises(ValueError, match="writes no checkpoints"):
            fitted(method=method).fit_grouped(data, progress=Progress(checkpoint=tmp_path / "c"))


def test_every_method_says_what_it_protects_and_needs():
    assert {name for name, method in METHODS.items() if method.needs_group_at_prediction} == {"dp_postprocess"}
    assert {name for name, method in METHODS.items() if not method.private} == {"clean", "fairsmooth"}
    assert all((method.unit == "record") == method.private for method in METHODS.values())
