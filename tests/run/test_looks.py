"""Looks at the held-out records: whose coins they toss, and whom they are about."""

import math

import numpy as np
from scipy import stats

from fairdp.certify.outlook import smoothed_probability
from fairdp.config import Preregistration
from fairdp.data.grouped import GroupedData
from fairdp.metrics import decision_counts
from fairdp.networks.model import ScoreModel, logistic
from fairdp.run.certifying import count_decisions, release_certificate
from fairdp.run.predictor import Predictor
from statistical import FALSE_ALARM, assert_plausible


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
