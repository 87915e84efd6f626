"""One fit: who is held out, what is planned from, what is spent, how counts are noised, and how runs resume."""

import functools
import math
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import stats

from classifier_cases import Watching
from fairdp import FairDPClassifier
from fairdp.accounting.mechanisms import PrivacyBudget, sizes_std
from fairdp.certify.certificate import NotCertified
from fairdp.data.grouped import GroupedData, split_by_own_coin
from fairdp.randomness import Generators
from fairdp.run import certifying
from fairdp.run import fit as running
from fairdp.run.certifying import TrainHoldoutSplit, check_certifiable, release_certificate
from fairdp.run.fit import Progress, hold_out
from fairdp.run.plan import budget_of, checked
from statistical import assert_plausible

pytestmark = pytest.mark.usefixtures("rough_bounds")

SHORT = {"method": "fairdp", "epsilon": 2.0, "n_steps": 20, "sample_rate": 0.2, "random_state": 0}
SETTINGS = {**SHORT, "certify_fraction": 0.2, "certify_metrics": ("demographic_parity",)}


@functools.cache
def table(n_samples=600, seed=0, n_kinds=None):
    """Groups of one third and two thirds; with ``n_kinds`` only so many different records."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, 2)).astype(np.float32)
    data = GroupedData(X, (X[:, 0] > 0).astype(np.int64), np.arange(n_samples) % 3 % 2, ("m", "f"))
    return data if n_kinds is None else data.take(rng.integers(n_kinds, size=n_samples))


def split(data, **changes) -> TrainHoldoutSplit:
    chosen = checked(**FairDPClassifier(**{**SETTINGS, **changes}).get_params(deep=False))
    return hold_out(chosen, data, budget_of(chosen, kind="logistic", n_groups=2), Generators.of(0))


def parts_of(data, **changes):
    parts = split(data, **changes)
    return parts.train, parts.held_out


def fit(data=None, progress=None, spending=None, **changes):
    model = FairDPClassifier(**{**SETTINGS, **changes})
    return model.fit_grouped(data or table(), progress=progress, spending=spending)


def multiset(data):
    return Counter((*row.tolist(), int(y), int(g)) for row, y, g in zip(data.X, data.y, data.groups, strict=True))


def without(data, row):
    return data.take(np.delete(np.arange(data.n_samples), row))


class TestHoldOut:
    @staticmethod
    def assert_own_side(data, rows):
        """Each record is in one part; without one of them, the parts are what they were but for that one."""
        train, held_out = map(multiset, parts_of(data))
        assert train + held_out == multiset(data)
        for row in rows:
            kept = without(data, row)
            removed = multiset(data) - multiset(kept)
            kept_train, kept_held_out = map(multiset, parts_of(kept))
            lost = train - kept_train, held_out - kept_held_out
            assert lost[0] + lost[1] == removed
            assert (train - lost[0], held_out - lost[1]) == (kept_train, kept_held_out)

    @pytest.mark.parametrize("n_kinds", [None, 5], ids=["unique", "duplicated"])
    def test_a_removed_record_moves_no_other(self, n_kinds):
        self.assert_own_side(table(150, n_kinds=n_kinds), range(0, 150, 10))

    @pytest.mark.parametrize("n_kinds", [None, 5], ids=["unique", "duplicated"])
    def test_that_check_notices_a_split_by_shuffled_position(self, monkeypatch, n_kinds):
        def shuffled(data, *, seed, share):
            rows = np.random.default_rng(seed).permutation(data.n_samples)
            return data.take(rows[round(share * data.n_samples) :]), data.take(rows[: round(share * data.n_samples)])

        monkeypatch.setattr(running, "split_by_own_coin", shuffled)
        with pytest.raises(AssertionError):
            self.assert_own_side(table(150, n_kinds=n_kinds), range(0, 150, 10))

    @staticmethod
    def assert_published_key_tells_nothing():
        """The key of a predictor's coins is in the model folder: as the key of the split it finds other people."""
        published = bytes.fromhex(fit(predictor="smoothed").predictor_.key)
        guess = split_by_own_coin(table(), seed=int.from_bytes(published, "little"), share=0.2)
        assert [*map(multiset, guess)] != [*map(multiset, parts_of(table()))]

    def test_who_is_held_out_does_not_follow_from_the_published_key(self):
        self.assert_published_key_tells_nothing()

    def test_that_check_notices_one_key_for_both(self, monkeypatch):
        monkeypatch.setattr(Generators, "key", lambda generators, purpose: bytes(16))
        with pytest.raises(AssertionError):
            self.assert_published_key_tells_nothing()

    def test_other_people_s_labels_and_groups_do_not_matter(self):
        data, first = table(), np.arange(600) < 300
        changed = GroupedData(
            data.X, np.where(first, data.y, 1 - data.y), np.where(first, data.groups, 0), data.group_names
        )
        sides = [multiset(part) & multiset(data.take(np.flatnonzero(first))) for part in parts_of(data)]
        assert sides == [multiset(part) & multiset(data.take(np.flatnonzero(first))) for part in parts_of(changed)]

    def test_every_group_and_label_gives_the_same_share(self):
        """Four binomial tests, each with a false-alarm rate of 1e-6; the smallest cell notices .3 instead of .2."""
        data, (_, held_out) = table(6000), parts_of(table(6000))
        for cell in range(4):
            n_all, n_held_out = (int(np.sum(2 * part.groups + part.y == cell)) for part in (data, held_out))
            assert_plausible(stats.binomtest(n_held_out, n_all, 0.2).pvalue, f"share of cell {cell}")

    def test_the_plan_follows_expected_sizes_never_realised_ones(self):
        """Two tables of equal, public group totals whose coins fall differently."""
        public = {"group_sizes": "public"}
        first, second = (split(table(seed=seed), **public) for seed in (0, 1))
        assert first.train.group_sizes.tolist() != second.train.group_sizes.tolist()
        assert first.sizes == second.sizes == (0.8 * 400, 0.8 * 200)
        assert first.expected_held_out == second.expected_held_out == pytest.approx((80, 40))
        models = [fit(table(seed=seed), **public) for seed in (0, 1)]
        assert models[0].privacy_ == models[1].privacy_
        assert models[0].certificate_.expected_sizes == models[1].certificate_.expected_sizes == pytest.approx((80, 40))
        assert models[0].privacy_.sensitivities == pytest.approx({"m": 0.5 / (0.2 * 320), "f": 0.5 / (0.2 * 160)})


class TestPrivacy:
    def test_certifying_costs_a_record_no_more_than_training(self):
        spent = fit(noise_allocation="average", group_sizes="public").privacy_
        for name, trained in spent.epsilon_by_group.items():
            assert spent.certify_epsilons[name] <= trained <= 2.0
        assert spent.certify_epsilons["m"] < 0.8 * spent.certify_epsilons["f"]

    def test_noisy_group_sizes_are_paid_by_training_records_alone(self):
        """Those held out are in no count: they spend what a training record does, all of it on the certificate."""
        model = fit()
        spent = model.privacy_
        assert spent.counts_std == sizes_std(PrivacyBudget(epsilon=2.0, delta=1e-5))
        # Rounded down at most as `noise_of_any_processor` does.
        assert spent.certify_epsilons == pytest.approx(spent.epsilon_by_group, abs=1e-8, rel=0)
        assert model.certificate_["epsilon_by_group"] == spent.certify_epsilons

    def test_beside_training_without_noise_the_budget_is_the_limit(self):
        spent = fit(method="clean").privacy_
        assert math.isinf(spent.epsilon)
        assert spent.certify_epsilons == {"m": 2.0, "f": 2.0}

    def test_removing_a_held_out_record_changes_one_count_by_one_and_no_parameter(self, monkeypatch):
        """Sizes neither: they are counted over the training records alone."""
        counted = []

        def spy(counts, **others):
            counted.append(counts)
            return release_certificate(counts, **others)

        monkeypatch.setattr(certifying, "release_certificate", spy)
        data, (_, held_out) = table(), parts_of(table())
        row = int(np.flatnonzero((held_out.X[7] == data.X).all(1))[0])
        whole, neighbour = fit(data), fit(without(data, row))
        assert torch.equal(whole.score_model_.params, neighbour.score_model_.params)
        assert np.abs(counted[0] - counted[1]).sum() == 1


class Killed(Exception):
    """Stands for whatever ends a process in mid-course."""


class TestResume:
    @staticmethod
    def run(path, *, kill_at=None, resume=False, **changes):
        """A run that writes checkpoints; returns the model, or None if killed, and the parts it was told of."""
        watched = Watching()

        def observe(step, n_steps):
            if step == kill_at:
                raise Killed

        progress = Progress(observe=observe, checkpoint=path, resume=resume, seconds_between_checkpoints=0.0)
        try:
            model = fit(progress=progress, spending=watched, **changes)
        except Killed:
            model = None
        return model, [multiset(part) for both in watched.parts for part in both]

    @pytest.mark.parametrize(
        "changes",
        [{"predictor": "smoothed"}, {"group_sizes": "public"}],
        ids=str,
    )
    def test_a_seeded_run_continues_to_the_same_parameters_and_certificate(self, tmp_path, changes):
        self.run(tmp_path / "c", kill_at=15, **changes)
        resumed, _ = self.run(tmp_path / "c", resume=True, **changes)
        whole = fit(**changes)
        assert torch.equal(resumed.score_model_.params, whole.score_model_.params)
        assert (resumed.privacy_, resumed.predictor_) == (whole.privacy_, whole.predictor_)
        assert resumed.certificate_ == whole.certificate_

    def test_held_out_records_are_counted_with_noise_once(self, tmp_path):
        """A second release of the same counts, with fresh noise, would be one that nobody paid for."""
        self.run(tmp_path / "c", kill_at=15, random_state=None)
        (tmp_path / "copy").write_bytes((tmp_path / "c").read_bytes())
        first, again = (self.run(tmp_path / name, resume=True, random_state=None)[0] for name in ("c", "copy"))
        assert torch.equal(first.score_model_.params, again.score_model_.params)
        assert first.certificate_.counts == again.certificate_.counts


class TestReasons:
    @pytest.mark.parametrize(
        ("changes", "groups", "code"),
        [
            ({"certify_fraction": 0}, 2, "no_records_held_out"),
            ({}, 1, "one_group"),
            ({"epsilon": math.inf}, 2, "epsilon_infinite"),
        ],
    )
    def test_no_certificate_says_why_and_holds_nobody_out(self, golden, changes, groups, code):
        data = table()
        data = data if groups == 2 else GroupedData(data.X, data.y, 0 * data.groups, ("all",))
        model = fit(data, **changes)
        assert isinstance(model.certificate_, NotCertified)
        assert model.certificate_.reason == code
        golden("errors", f"no certificate: {code}", model.certificate_.explanation)
        assert (model.n_train_, model.n_certify_) == (600, 0)
        assert model.privacy_.certify_epsilons == {}

    @pytest.mark.parametrize(
        "changes",
        [
            *({"confidence": 1.5}, {"certify_fraction": 1}, {"require_tau": 0}, {"n_looks": 3}, {"n_looks": 0}),
            *({"certify_metrics": "parity"}, {"certify_metrics": ("parity",)}),
        ],
        ids=str,
    )
    def test_bad_values_are_refused_in_one_line(self, refuses, changes):
        refuses(lambda: fit(**changes))


@pytest.mark.parametrize(("epsilon", "n_looks"), [(0.019, 1), (0.03, 2)])
def test_a_group_with_next_to_no_epsilon_for_a_look_is_refused(epsilon, n_looks):
    privacy = SimpleNamespace(certify_epsilons={"f": 1.0, "m": epsilon})
    with pytest.raises(ValueError, match="all that group 'm' has, too small to certify"):
        check_certifiable(privacy, n_looks=n_looks)
    check_certifiable(SimpleNamespace(certify_epsilons={"f": 1.0, "m": 0.02 * n_looks}), n_looks=n_looks)
