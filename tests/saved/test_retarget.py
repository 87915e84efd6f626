"""Another target without any record: the rule that the frontier has for it, and no certificate."""

import numpy as np
import pytest
import torch

from classifier_cases import fitted
from fairdp import FairDPClassifier
from fairdp.certify.certificate import Certificate
from fairdp.frontier.curve import Target, choose
from fairdp.parameters import NoCertificate
from fairdp.saved.verify import verify_folder
from priced_cases import gap_of, priced_model, unequal_people


def values_of(model: FairDPClassifier) -> np.ndarray:
    assert model.score_model_.cell_values is not None
    return model.score_model_.cell_values.numpy()


class TestRule:
    def test_it_is_the_one_that_a_fit_for_this_target_has(self):
        """The same seed, the same releases: only the choice differs."""
        moved, other = priced_model().retarget(max_gap=0.3), priced_model(max_gap=0.3)
        np.testing.assert_array_equal(values_of(moved), values_of(other))
        assert moved.target_ == other.target_ == Target(max_gap=0.3, min_ratio=0.0, price=np.inf)

    def test_a_ratio_is_reached_on_the_line_of_the_fit(self):
        """A fit for a ratio finds prices of its own, which refuse fewer people; a rule that is moved keeps its line."""
        gap, moved, made = priced_model(max_gap=0.5), priced_model(max_gap=0.5).retarget(min_ratio=0.8), _ratio_fit()
        assert moved.target_ == made.target_ == Target(max_gap=1.0, min_ratio=0.8, price=np.inf)
        assert ratio_of(gap) < 0.6 < 0.72 < min(ratio_of(moved), ratio_of(made))
        assert positive_rate_of(moved) < positive_rate_of(made)

    def test_gaps_follow_the_target(self):
        model = priced_model()
        gaps = [gap_of(moved) for moved in (model, model.retarget(max_gap=0.2), model.retarget(max_gap=0.4))]
        assert 0.02 < gaps[0] + 0.04 < gaps[1] < gaps[2] - 0.04

    def test_a_price_alone_keeps_the_target(self):
        moved = priced_model().retarget(price=0.01)
        assert moved.target_ == Target(max_gap=0.1, min_ratio=0.0, price=0.01)
        assert choose(moved.frontier_, moved.target_).price <= 0.01 + 1e-9
        assert gap_of(moved) > gap_of(priced_model()) + 0.1

    def test_probabilities_and_everything_else_stay(self):
        model, moved = priced_model(), priced_model().retarget(max_gap=0.3)
        X = unequal_people()[0][:50]
        np.testing.assert_array_equal(moved.predict_proba(X), model.predict_proba(X))
        assert moved.privacy_ is model.privacy_
        assert moved.get_params() == model.get_params()

    def test_the_model_itself_is_left_alone(self):
        model = priced_model()
        before, digest = values_of(model).copy(), model.score_model_.digest()
        moved = model.retarget(max_gap=0.3)
        moved.score_model_.params.zero_()
        np.testing.assert_array_equal(values_of(model), before)
        assert model.score_model_.digest() == digest
        assert isinstance(model.certificate_, Certificate)

    def test_moving_twice_is_moving_once(self):
        once = priced_model().retarget(max_gap=0.3)
        twice = priced_model().retarget(max_gap=0.5).retarget(max_gap=0.3)
        np.testing.assert_array_equal(values_of(once), values_of(twice))


def ratio_of(model: FairDPClassifier) -> float:
    X, _, groups = unequal_people(20_000, seed=1)
    rates = sorted(model.predict(X)[groups == name].mean() for name in ("f", "m"))
    return float(rates[0] / rates[1])


def positive_rate_of(model: FairDPClassifier) -> float:
    return float(model.predict(unequal_people(20_000, seed=1)[0]).mean())


def _ratio_fit() -> FairDPClassifier:
    return priced_model(max_gap=None, min_ratio=0.8)


class TestCertificate:
    def test_it_is_void_and_says_why(self):
        moved = priced_model().retarget(max_gap=0.3)
        assert moved.certificate_.reason == NoCertificate.RULE_MOVED

    def test_where_there_was_none_the_reason_stays_and_the_way_back_is_open(self):
        model = priced_model(certify_fraction=0.0)
        moved = model.retarget(max_gap=0.3)
        assert moved.certificate_.reason == NoCertificate.NO_RECORDS_HELD_OUT
        np.testing.assert_array_equal(values_of(moved.retarget(max_gap=0.1)), values_of(model))

    def test_it_cannot_be_lost_by_moving_there_and_back(self):
        moved = priced_model().retarget(max_gap=0.3)
        with pytest.raises(ValueError, match=r"^the model was fitted for this target; use it as the fit left it"):
            moved.retarget(max_gap=0.1)


class TestFolder:
    @pytest.mark.parametrize("settings", [{}, {"certify_fraction": 0.0}], ids=["certified", "not certified"])
    def test_a_moved_model_is_saved_loaded_and_verified(self, tmp_path, settings):
        moved = priced_model(**settings).retarget(max_gap=0.3)
        moved.save(tmp_path / "model")
        assert [check for check in verify_folder(tmp_path / "model") if not check.passed] == []
        loaded = FairDPClassifier.load(tmp_path / "model")
        assert torch.equal(loaded.score_model_.cell_values, moved.score_model_.cell_values)
        assert loaded.target_ == moved.target_
        np.testing.assert_array_equal(values_of(loaded.retarget(max_gap=0.5)), values_of(moved.retarget(max_gap=0.5)))


class TestRefusals:
    def test_a_model_without_a_frontier_or_of_one_group(self, refuses):
        refuses(lambda: fitted().retarget(max_gap=0.1))
        refuses(lambda: fitted(method="fairdp_frontier", sex=("all",) * 600).retarget(max_gap=0.1))

    @pytest.mark.parametrize(
        "asked", [{}, {"max_gap": 0.1}, {"max_gap": 1.5}, {"min_ratio": -1.0}, {"price": 0.0}], ids=str
    )
    def test_a_target_that_is_none(self, refuses, asked):
        refuses(lambda: priced_model().retarget(**asked))
