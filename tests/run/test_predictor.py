"""Decisions from scores: their chances, the coins behind them, and bounds that need no data."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import ndtr

from classifier_cases import fitted, people
from fairdp import FairDPClassifier
from fairdp._io import to_plain
from fairdp.networks.model import ScoreModel, logistic
from fairdp.parameters import DECLARED
from fairdp.run.predictor import Predictor
from fairdp.saved.folder import certificate_record
from statistical import FALSE_ALARM, assert_binomial, assert_plausible

KEY, OTHER_KEY = "00112233445566778899aabbccddeeff", "ffeeddccbbaa99887766554433221100"
SMOOTHED = Predictor(kind="smoothed", smoothing=0.7, key=KEY)


def linear(*heads):
    """A linear model with these heads, each with its bias last."""
    values = torch.from_numpy(np.array(heads, dtype=np.float32))
    model = ScoreModel(logistic(), (values.shape[1] - 1,))
    model.replace_params(values.flatten())
    return model


def on_circle(n_records, seed=0):
    """Different records of norm one."""
    angles = np.random.default_rng(seed).uniform(0, 2 * np.pi, n_records)
    return np.column_stack([np.cos(angles), np.sin(angles)]).astype(np.float32)


# With a head that is only a bias, all records of norm one have the same chance.
EVEN = linear([0.0, 0.0, 0.3])
CHANCE = float(ndtr(0.3 / (0.7 * np.sqrt(2))))
THREE = linear([3.0, 0.0, 0.0], [-1.0, 0.0, 0.0], [-1.0, 0.0, 0.0])


class TestChances:
    def test_deterministic_decisions_follow_the_mean_score(self):
        X = np.array([[2, 0], [0, 5], [-2, 0]], dtype=np.float32)
        assert Predictor().chances(THREE, X).tolist() == [1, 1, 0]
        assert Predictor().decisions(THREE, X).tolist() == [1, 1, 0]

    def test_gibbs_follows_a_head_drawn_at_random(self):
        X = np.array([[2, 0], [0, 5], [-2, 0]], dtype=np.float32)
        assert Predictor(kind="gibbs").chances(THREE, X) == pytest.approx([1 / 3, 1, 2 / 3])

    @pytest.mark.parametrize("record", [(0.0, 0.0), (1.0, 0.0), (-2.0, 1.5), (0.1, 0.2)])
    def test_smoothed_chances_are_those_of_heads_drawn_anew(self, record):
        assert_plausible(monte_carlo_fit(record, spread=(0.7, 0.7, 0.7)), "20 000 heads against the closed form")

    @pytest.mark.parametrize("spread", [(0.7, 0.7, 0.0), (1.0, 1.0, 1.0)])
    def test_that_check_notices_a_fixed_bias_or_another_deviation(self, spread):
        assert monte_carlo_fit((0.1, 0.2), spread=spread) < FALSE_ALARM

    @pytest.mark.parametrize("kind", DECLARED["predictor"].choices)
    def test_scores_that_are_known_are_not_computed_again(self, kind, monkeypatch):
        X = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32)
        predictor, scores = Predictor(kind=kind, key=KEY), THREE.scores(torch.from_numpy(X)).double().numpy()
        chances, decisions = predictor.chances(THREE, X), predictor.decisions(THREE, X)
        monkeypatch.setattr(ScoreModel, "scores", None)
        assert predictor.chances(THREE, X, scores=scores).tolist() == chances.tolist()
        assert predictor.decisions(THREE, X, scores=scores).tolist() == decisions.tolist()

    @pytest.mark.parametrize(("kind", "chance"), [("deterministic", 1.0), ("gibbs", 0.5), ("smoothed", ndtr(0.25))])
    def test_a_dead_embedding_is_decided_by_the_bias(self, kind, chance):
        model = linear([5.0, 0.0, 1.5], [5.0, 0.0, -1.0])
        nothing = np.zeros((3, 2), dtype=np.float32)
        assert Predictor(kind=kind, key=KEY).chances(model, nothing) == pytest.approx([chance] * 3)
        assert Predictor(kind="smoothed").chances(linear([5.0, 0.0, 0.0]), nothing) == pytest.approx([0.5] * 3)

    @pytest.mark.parametrize("kind", DECLARED["predictor"].choices)
    def test_without_a_bias_an_embedding_of_zero_is_positive(self, kind):
        model = ScoreModel(logistic(0), (2,), bias=False)
        model.replace_params(torch.tensor([-3.0, -4.0]))
        rule, X = Predictor(kind=kind, smoothing=2.0, key=KEY), np.array([[0, 0], [6, 8]], dtype=np.float32)
        least = ndtr(-2.5) if kind == "smoothed" else 0.0
        assert rule.chances(model, X) == pytest.approx([1.0, least])
        # The bound over all inputs knows of both.
        assert rule.input_agnostic_tau(model) == (pytest.approx(1 - least) if kind == "smoothed" else None)

    @pytest.mark.parametrize("kind", DECLARED["predictor"].choices)
    def test_nobody_gets_no_decision(self, kind):
        assert Predictor(kind=kind, key=KEY).decisions(THREE, np.empty((0, 2), dtype=np.float32)).shape == (0,)


def monte_carlo_fit(record, *, spread, n_draws=20_000):
    """p-value of the closed form against decisions by heads that are drawn with these deviations."""
    head, X = np.array([0.8, -0.5, 0.4]), np.array([record], dtype=np.float32)
    drawn = head + spread * np.random.default_rng(3).normal(size=(n_draws, 3))
    positives = int(np.sum(drawn[:, :2] @ X[0] + drawn[:, 2] >= 0))
    return stats.binomtest(positives, n_draws, float(SMOOTHED.chances(linear(head), X)[0])).pvalue


class TestCoins:
    def test_the_same_record_or_the_same_id_has_the_same_coin(self):
        X = on_circle(400)
        order = np.random.default_rng(1).permutation(400)
        decided = SMOOTHED.decisions(EVEN, X)
        np.testing.assert_array_equal(SMOOTHED.decisions(EVEN, X[order]), decided[order])
        ids = [f"person {i}" for i in range(400)]
        decided = SMOOTHED.decisions(EVEN, X, ids)
        # Another record of the same chance, the same person: the same decision.
        np.testing.assert_array_equal(SMOOTHED.decisions(EVEN, X[order], ids), decided)
        assert decided.tolist() != SMOOTHED.decisions(EVEN, X).tolist()

    def test_people_with_the_same_record_are_told_apart_by_ids(self):
        X = np.repeat(on_circle(1), 400, axis=0)
        assert len(set(SMOOTHED.decisions(EVEN, X).tolist())) == 1
        assert len(set(SMOOTHED.decisions(EVEN, X, range(400)).tolist())) == 2

    @pytest.mark.parametrize("by_id", [False, True])
    def test_coins_of_different_people_are_independent(self, by_id):
        """200 counts of 100 people, false-alarm rate 2e-6: mean and dispersion of the binomial law."""
        assert_binomial(blocks_of_decisions(by_id=by_id), 100, CHANCE)

    @pytest.mark.parametrize(
        "coins",
        [
            lambda self, X, ids: np.full(len(X), 0.5),
            lambda self, X, ids: np.repeat(np.random.default_rng(0).random(len(X) // 10), 10),
            lambda self, X, ids: np.random.default_rng(0).random(len(X)) ** 1.2,
        ],
        ids=["of nothing", "shared by ten people", "not uniform"],
    )
    def test_that_check_notices_broken_coins(self, monkeypatch, coins):
        monkeypatch.setattr(Predictor, "_coins", coins)
        with pytest.raises(AssertionError):
            assert_binomial(blocks_of_decisions(by_id=False), 100, CHANCE)

    def test_chances_that_differ_are_met_on_average(self):
        """Decisions of different chances spread less than a binomial, so its test errs on the safe side."""
        model, X = linear([2.0, -1.0, 0.2]), on_circle(20_000, seed=2)
        chance = float(SMOOTHED.chances(model, X).mean())
        positives = int(SMOOTHED.decisions(model, X).sum())
        assert_plausible(stats.binomtest(positives, 20_000, chance).pvalue, "positive decisions")

    def test_another_key_is_another_coin(self):
        X = on_circle(20_000)
        first, other = (predictor.decisions(EVEN, X) for predictor in (SMOOTHED, replace(SMOOTHED, key=OTHER_KEY)))
        agreed = stats.binomtest(int(np.sum(first == other)), 20_000, CHANCE**2 + (1 - CHANCE) ** 2)
        assert_plausible(agreed.pvalue, "agreement of independent coins")

    def test_that_check_notices_a_key_without_effect(self):
        assert stats.binomtest(20_000, 20_000, CHANCE**2 + (1 - CHANCE) ** 2).pvalue < FALSE_ALARM


def blocks_of_decisions(*, by_id):
    decisions = SMOOTHED.decisions(EVEN, on_circle(20_000), range(20_000) if by_id else None)
    return decisions.reshape(200, 100).sum(1)


class TestInputAgnosticBound:
    @staticmethod
    def largest_excess(shrunk=1.0):
        """Distance of the true gap above the bound (times a factor), at worst over models and populations."""
        rng, excesses = np.random.default_rng(4), []
        for _ in range(60):
            head = rng.normal(size=4) * rng.choice([0.05, 0.5, 3.0])
            model = linear(head)
            predictor = Predictor(kind="smoothed", smoothing=float(rng.uniform(0.3, 3)), key=KEY)
            # Two groups on either side of the decision, far out where the chances differ most.
            side = np.repeat([1.0, -1.0], 50)[:, None]
            X = (side * 10 ** rng.uniform(-1, 3) * head[:3] + rng.normal(size=(100, 3))).astype(np.float32)
            chances = predictor.chances(model, X)
            tau = predictor.input_agnostic_tau(model) or 1.0
            excesses.append(chances[:50].mean() - chances[50:].mean() - shrunk * tau)
        return max(excesses)

    def test_no_population_has_a_larger_gap(self):
        assert self.largest_excess() <= 1e-6

    def test_that_check_notices_a_bound_two_percent_too_small(self):
        assert self.largest_excess(shrunk=0.98) > 1e-3

    @pytest.mark.parametrize("kind", ["deterministic", "gibbs"])
    def test_fixed_decisions_have_no_such_bound(self, kind):
        assert Predictor(kind=kind, key=KEY).input_agnostic_tau(THREE) is None


class TestRefusals:
    def test_ids_must_be_as_many_as_records(self):
        with pytest.raises(ValueError, match=r"^person_ids has 3 entries, but X has 5 records\.$"):
            SMOOTHED.decisions(EVEN, on_circle(5), range(3))

    @pytest.mark.parametrize("changes", [{"kind": "gibbs"}, {"kind": "smoothed"}], ids=str)
    def test_coins_need_a_key(self, changes):
        with pytest.raises(ValueError, match=r"^a predictor that tosses coins needs a key\.$"):
            Predictor(**changes).decisions(EVEN, on_circle(5))

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"kind": "majority"}, r"^predictor must be one of deterministic, gibbs, smoothed; got 'majority'\.$"),
            ({"smoothing": 0.0}, r"^smoothing must be positive, got 0\.0\.$"),
        ],
    )
    def test_bad_values_are_named(self, changes, message):
        with pytest.raises(ValueError, match=message):
            Predictor(**changes)


class TestSavedPredictors:
    def test_a_description_names_the_key_without_showing_it(self):
        shown = [json.dumps(to_plain(replace(SMOOTHED, key=key).described())) for key in (KEY, KEY, OTHER_KEY, "")]
        assert KEY not in shown[0]
        assert not any(KEY[start : start + 8] in shown[0] for start in range(24))
        assert shown[0] == shown[1] != shown[2]
        assert json.loads(shown[3])["key_id"] is None

    @pytest.mark.parametrize("changes", [{"predictor": "gibbs"}, {"predictor": "smoothed"}], ids=str)
    def test_a_saved_model_makes_the_same_decisions(self, tmp_path, changes):
        model = fitted(**changes, certify_fraction=0.2, certify_metrics=("demographic_parity",))
        model.save(tmp_path / "model")
        loaded = FairDPClassifier.load(tmp_path / "model")
        X, ids = people()[0], range(600)
        assert loaded.predictor_ == model.predictor_
        np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
        np.testing.assert_array_equal(loaded.predict(X, person_ids=ids), model.predict(X, person_ids=ids))
        assert (model.predict(X) != model.predict(X, person_ids=ids)).any()
        # The key is with the model, for whoever deploys it, and not in what is shown to others.
        assert len(model.predictor_.key) == 32
        assert model.predictor_.key not in json.dumps(certificate_record(model.certificate_))
