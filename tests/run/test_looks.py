"""Looks at the held-out records: what dilution makes of them, whose coins they toss, and whom they are about."""

import functools
import math

import numpy as np
import pytest
from scipy import stats

from classifier_cases import fitted, people
from fairdp.certify import certificate as certificates
from fairdp.certify.estimates import estimated_metrics
from fairdp.certify.gaussian import smoothed_probability
from fairdp.certify.record import certificate_record
from fairdp.config.preregistration import Preregistration
from fairdp.data.grouped import GroupedData
from fairdp.metrics.rates import decision_counts
from fairdp.networks.extractors import logistic
from fairdp.networks.models import ScoreModel
from fairdp.run.certifying import count_decisions, release_certificate
from fairdp.run.predictor import Predictor
from statistical import FALSE_ALARM, assert_plausible

PARITY = {"certify_fraction": 0.2, "certify_metrics": ("demographic_parity",)}


@functools.cache
def diluted_model():
    return fitted(**{**PARITY, "certify_metrics": ("demographic_parity", "equal_opportunity")}, target_tau=0.1)


class TestTarget:
    def test_every_bound_meets_the_target_by_just_enough_dilution(self):
        model = diluted_model()
        undiluted = release_of(model)
        largest = max(gap.tau for gap in undiluted.gaps.values())
        assert largest > 0.1
        assert model.predictor_.dilution == pytest.approx(1 - 0.1 / largest)
        taus = [gap.tau for gap in model.certificate_.gaps.values()]
        assert max(taus) == pytest.approx(0.1)
        assert all(tau <= 0.1 * (1 + 1e-12) for tau in taus)
        assert model.certificate_.about.predictor.dilution == model.predictor_.dilution

    def test_a_target_that_is_met_dilutes_nothing(self):
        model = fitted(target_tau=0.999, **PARITY)
        assert model.predictor_.dilution == 0
        np.testing.assert_array_equal(
            model.predict(people()[0]), (model.decision_function(people()[0]) >= 0).astype(int)
        )

    def test_the_estimated_accuracy_is_the_mixture(self):
        model = diluted_model()
        counts = np.array(model.certificate_.counts).clip(min=0)
        share, constant = model.predictor_.dilution, model.predictor_.constant
        own = (counts[:, 0, 0].sum() + counts[:, 1, 1].sum()) / counts.sum()
        of_constant = counts[:, constant].sum() / counts.sum()
        assert of_constant >= 0.5
        assert estimated_metrics(model.certificate_)["accuracy"] == pytest.approx(
            (1 - share) * own + share * of_constant
        )
        assert certificate_record(model.certificate_)["dilution"]["accuracy_undiluted"] == pytest.approx(own)

    def test_the_true_gaps_of_chances_shrink_by_the_share(self):
        """Exactly in chances; decisions by coins meet them, at a false-alarm rate of 1e-6 for each group."""
        model, (X, y, a) = diluted_model(), people(30_000, seed=9)
        chances = model.predictor_.chances(model.score_model_, X)
        hard = Predictor().chances(model.score_model_, X)
        for chosen in (y >= 0, y == 1):
            own, diluted = (abs(p[chosen & (a == "f")].mean() - p[chosen & (a == "m")].mean()) for p in (hard, chances))
            assert diluted == pytest.approx((1 - model.predictor_.dilution) * own, rel=1e-9)
        for group in ("f", "m"):
            n, positives = int(np.sum(a == group)), int(model.predict(X)[a == group].sum())
            assert_plausible(stats.binomtest(positives, n, float(chances[a == group].mean())).pvalue, "decisions")


def release_of(model):
    """The certificate before dilution, from the counts that were released."""
    made = model.certificate_
    return certificates.certify(
        np.array(made.counts),
        epsilon=made.epsilons,
        group_names=made.group_names,
        expected_sizes=made.expected_sizes,
        metrics=made.registration.metrics,
        score_share=made.registration.score_share,
    )


def linear(*head):
    model = ScoreModel(logistic(), (len(head) - 1,))
    model.heads[0] = model.heads.new_tensor(head)
    return model


class TestCoinsOfEqualRecords:
    """A population of one kind of record: what is counted must still be binomial, or the bounds on it are void."""

    EQUAL = GroupedData(
        np.ones((2000, 1), dtype=np.float32), np.zeros(2000, dtype=np.int64), np.zeros(2000, dtype=np.int64), ("u", "v")
    )
    PREDICTOR = Predictor(kind="smoothed", key="ab" * 16)

    def fit_of(self, positives):
        chance = float(self.PREDICTOR.chances(linear(0.4, 0.0), self.EQUAL.X[:1])[0])
        return stats.binomtest(int(positives), 2000, chance).pvalue

    def test_equal_records_are_people_of_their_own(self):
        batches = [self.EQUAL.take(np.arange(start, start + 500)) for start in range(0, 2000, 500)]
        counts = count_decisions(linear(0.4, 0.0), self.PREDICTOR, batches, 2, bytes(16))
        assert_plausible(self.fit_of(counts[0, 0, 1]), "positive decisions on equal records")

    def test_that_check_notices_one_coin_for_all(self):
        shared = self.PREDICTOR.decisions(linear(0.4, 0.0), self.EQUAL.X)
        counts = decision_counts(self.EQUAL.y, shared, self.EQUAL.groups, 2)
        assert self.fit_of(counts[0, 0, 1]) < FALSE_ALARM


def test_no_model_that_accepts_one_group_only_is_certified_whatever_holds_in_expectation():
    """An embedding of +1 for one group and −1 for the other, and a head w ~ N(0, s²).

    Over the draw of w both groups are accepted with chance one half, so the gap of the expected rates is erf(0) = 0;
    every w that is drawn accepts one group and refuses the other.
    """
    side = np.repeat([1.0, -1.0], 1000).astype(np.float32)
    population = GroupedData(side[:, None], np.arange(2000) % 2, (side < 0).astype(np.int64), ("u", "v"))
    in_expectation = smoothed_probability(0.0 * side, np.abs(side), smoothing=0.3)
    assert np.ptp(in_expectation) == math.erf(0) == 0
    rng, pairs = np.random.default_rng(0), []
    for w in 0.3 * rng.normal(size=4):
        certificate = release_certificate(
            count_decisions(linear(w, 0.0), Predictor(), [population], 2, bytes(16)),
            group_names=population.group_names,
            registration=Preregistration(metrics=("demographic_parity",)),
            epsilons=(1.0, 1.0),
            expected_sizes=(1000.0, 1000.0),
            rand_below=lambda below: int(rng.integers(below)),
        )
        assert certificate.gaps["demographic_parity"].tau > 0.99
        pairs.append((w > 0, certificate.gaps["demographic_parity"].pair))
    assert set(pairs) == {(True, ("u", "v")), (False, ("v", "u"))}
