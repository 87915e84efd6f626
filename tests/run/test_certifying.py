"""Counts on held-out records: what one of them can move, and the noise on top."""

import numpy as np
import pytest
from scipy import stats

from fairdp import FairDPClassifier
from fairdp.certify.certificate import release_scores
from fairdp.config import Preregistration
from fairdp.data.grouped import GroupedData
from fairdp.networks.model import ScoreModel, logistic
from fairdp.releases import watching
from fairdp.run import certifying
from fairdp.run.certifying import ScoreTally, count_decisions, release_certificate
from fairdp.run.predictor import Predictor
from statistical import FALSE_ALARM, assert_plausible

PARITY = ("demographic_parity",)


def table(n_samples=600):
    """Groups of one third and two thirds."""
    X = np.random.default_rng(0).normal(size=(n_samples, 2)).astype(np.float32)
    return GroupedData(X, (X[:, 0] > 0).astype(np.int64), np.arange(n_samples) % 3 % 2, ("m", "f"))


def without(data, row):
    return data.take(np.delete(np.arange(data.n_samples), row))


class TestCounts:
    @staticmethod
    def assert_sensitivity_one(counts_of):
        """Removing any record changes one cell by one."""
        data = table(90)
        whole = counts_of(data)
        for row in range(90):
            changes = np.abs(whole - counts_of(without(data, row)))
            assert changes.sum() == 1
            assert changes[data.groups[row], data.y[row]].sum() == 1

    def test_a_record_is_in_one_cell_whoever_else_is_counted(self):
        model = ScoreModel(logistic(), (2,))
        self.assert_sensitivity_one(lambda data: count_decisions(model, Predictor(), [data], 2, bytes(16)))

    @pytest.mark.parametrize("kind", ["gibbs", "smoothed"])
    def test_coins_are_drawn_one_by_one_from_a_key_that_is_thrown_away(self, kind, monkeypatch, tmp_path):
        """A record's coin is any of them, so long as nobody knows them: then one record moves one count by one."""
        keys = []
        monkeypatch.setattr(
            certifying, "count_decisions", lambda *given: keys.append(given[-1]) or count_decisions(*given)
        )
        model = FairDPClassifier(
            method="fairdp", predictor=kind, n_steps=20, sample_rate=0.2, random_state=0, certify_metrics=PARITY
        ).fit_grouped(table())
        model.save(tmp_path / "model")
        published = b"".join(path.read_bytes() for path in (tmp_path / "model").iterdir())
        (key,) = keys
        assert key.hex().encode() not in published
        assert model.predictor_.key.encode() in published
        parts = table(), without(table(), 599)
        counts = [count_decisions(model.score_model_, model.predictor_, [part], 2, key) for part in parts]
        assert np.abs(counts[0] - counts[1]).sum() == 1

    def test_batches_are_counted_as_the_whole(self):
        """Coins go on from batch to batch: if each began with the same ones, counts would not be binomial."""
        model, data, rule = ScoreModel(logistic(), (2,)), table(400), Predictor(kind="smoothed", key="00" * 16)
        parts = [data.take(np.arange(start, start + 100)) for start in range(0, 400, 100)]
        whole, in_parts = (count_decisions(model, rule, batches, 2, bytes(16)) for batches in ([data], parts))
        assert np.array_equal(whole, in_parts)

    def test_that_check_notices_decisions_relative_to_the_others(self):
        def upper_half(data):
            decisions = data.X[:, 0] > np.median(data.X[:, 0])
            return np.bincount((data.groups * 2 + data.y) * 2 + decisions, minlength=8).reshape(2, 2, 2)

        with pytest.raises(AssertionError):
            self.assert_sensitivity_one(upper_half)

    def test_released_counts_have_the_noise_that_is_accounted(self, monkeypatch):
        """Chi-square of 6 000 draws for each group, false-alarm rate 1e-6, at its epsilon over the two looks."""
        monkeypatch.setattr(certifying, "certify", lambda counts, **_: counts)
        rng, exact = np.random.default_rng(0), np.arange(8).reshape(2, 2, 2) * 10
        released = [
            release_certificate(
                exact,
                group_names=("m", "f"),
                registration=Preregistration(require_tau=0.1, n_looks=2),
                epsilons=(0.6, 2.0),
                expected_sizes=(80.0, 40.0),
                rand_below=lambda below: int(rng.integers(below)),
            )
            for _ in range(1500)
        ]
        noise = np.array(released) - exact
        for group, epsilon in enumerate((0.3, 1.0)):
            draws = noise[:, group].ravel()
            assert_plausible(laplace_fit(draws, epsilon), f"noise at epsilon {epsilon}")
            assert laplace_fit(draws, epsilon / 2) < FALSE_ALARM
            assert laplace_fit(draws, epsilon * 2) < FALSE_ALARM


class TestScores:
    @staticmethod
    def counted(data, parts=1):
        tally = ScoreTally(ScoreModel(logistic(), (2,)), 2)
        rows = np.array_split(np.arange(data.n_samples), parts)
        assert sum(batch.n_samples for batch in tally.passing(data.take(part) for part in rows)) == data.n_samples
        return tally.counts

    def test_a_record_is_in_one_cell_whoever_else_is_counted(self):
        TestCounts.assert_sensitivity_one(self.counted)

    def test_that_check_notices_bins_that_follow_from_the_scores(self):
        def by_rank(data):
            ranks = np.argsort(np.argsort(data.X[:, 0])) * 4 // data.n_samples
            return np.bincount((data.groups * 2 + data.y) * 4 + ranks, minlength=16).reshape(2, 2, 4)

        with pytest.raises(AssertionError):
            TestCounts.assert_sensitivity_one(by_rank)

    def test_batches_are_counted_as_the_whole(self):
        assert np.array_equal(self.counted(table(400)), self.counted(table(400), parts=7))

    def test_released_scores_have_the_noise_that_is_accounted(self):
        """Chi-square of 6 000 draws for each group, false-alarm rate 1e-6, at its share of its epsilon."""
        rng, exact = np.random.default_rng(0), np.arange(48).reshape(2, 2, 12)
        epsilons = Preregistration(score_share=0.25).for_scores((1.2, 4.0))

        def drawn():
            released = release_scores(exact, epsilons=epsilons, rand_below=lambda limit: int(rng.integers(limit)))
            return np.array(released.counts) - exact

        noise = np.array([drawn() for _ in range(250)])
        for group, epsilon in enumerate((0.3, 1.0)):
            draws = noise[:, group].ravel()
            assert_plausible(laplace_fit(draws, epsilon), f"noise at epsilon {epsilon}")
            assert laplace_fit(draws, epsilon / 2) < FALSE_ALARM
            assert laplace_fit(draws, epsilon * 2) < FALSE_ALARM

    @pytest.mark.parametrize(
        "chosen", [{}, {"require_tau": 0.9, "n_looks": 2}, {"score_share": 0.0}], ids=["once", "looks", "none"]
    )
    def test_looks_and_scores_spend_what_is_accounted_in_all(self, chosen):
        """They leave last and once; what all releases about held-out records cost adds up to the stated epsilon."""
        seen = []
        options = {"certify_metrics": PARITY, "n_steps": 4, "sample_rate": 0.2, **chosen}
        with watching(lambda release: seen.append(release) or release.noisy):
            model = FairDPClassifier(method="dpsgd", random_state=0, **options).fit_grouped(table())
        made = model.certificate_
        held_out = [release for release in seen if release.purpose in ("look", "scores")]
        n_looks = chosen.get("n_looks", 1)
        scored = chosen.get("score_share") != 0.0
        assert [release.purpose for release in held_out] == ["look"] * n_looks + ["scores"] * scored
        spent = sum(1 / release.scale.reshape(2, -1)[:, 0] for release in held_out)
        assert spent == pytest.approx(list(model.privacy_.certify_epsilons.values()), rel=1e-12)
        assert spent == pytest.approx(list(made.epsilons), rel=1e-12)
        assert made["epsilon"] == max(made.epsilons)
        assert (made.scores is None) == (not scored)
        if scored:
            assert np.array_equal(made.scores.counts, held_out[-1].noisy)
            assert "share of 0.1 of the certificate's epsilon" in model.certificate_statement()
        else:
            assert "were not counted, because no share" in model.certificate_statement()


def laplace_fit(draws, epsilon):
    """p-value of Pearson's chi-square against Pr(x) ∝ exp(−ε|x|), tails pooled where ten draws are expected."""
    a = np.exp(-epsilon)
    reach = int(np.log(10 * (1 + a) / (1 - a) / len(draws)) / -epsilon)
    values = np.arange(-reach, reach + 1)
    inner = (1 - a) / (1 + a) * a ** np.abs(values)
    tail = (1 - inner.sum()) / 2
    observed = [np.sum(draws < -reach), *(np.sum(draws == x) for x in values), np.sum(draws > reach)]
    return float(stats.chisquare(observed, len(draws) * np.array([tail, *inner, tail])).pvalue)
