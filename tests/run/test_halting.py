"""Training until a look misses what is required: how often the claim is wrong, what is kept, and what it costs."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.special import ndtri

from classifier_cases import people
from fairdp import FairDPClassifier
from fairdp.certify import certificate as certificates
from fairdp.certify.bounds import GapBound
from fairdp.certify.certificate import _in_sequence
from fairdp.config import Preregistration
from fairdp.data.grouped import GroupedData
from fairdp.run import certifying
from fairdp.run.certifying import breached, certified
from fairdp.run.fit import Progress
from fairdp.run.predictor import Predictor
from fairdp.training.loop import InterimResults
from statistical import assert_rate_at_most

PARITY = ("demographic_parity",)
PAIR = ("demographic_parity", "equal_opportunity")
LEVEL, N_PEOPLE = 0.3, 3000
# A few draws whenever anything is tested: of 300 a rate of .48 is noticed, of 1 000 one of .4,
# each with a chance above 95 %.
DRAWS = [pytest.param(300, id="few"), pytest.param(1000, id="many", marks=pytest.mark.more)]
TARGET, N_LOOKS = 0.1, 4


def quick_bound(arms, *, failure_probability, score_box):
    """A bound for large groups that is missed with just its failure probability: the normal one, in one direction."""
    sizes = np.array([arm.positive + arm.negative for arm in arms])
    low, high = rates = np.array([arm.positive for arm in arms]) / sizes
    spread = np.sqrt(np.sum(rates * (1 - rates) / sizes))
    tau = float(np.clip(high - low - ndtri(failure_probability) * spread, 0, 1))
    return GapBound(tau=tau, pair=(1, 0), ratio=None)


class Simulated:
    """The looks of one run at models whose true gaps are known: two groups, decisions drawn anew at every look.

    Models of different looks may decide about the same people independently of each other, which is the worst case.
    Each has a gap of demographic parity and one of equal opportunity; all labels of its people are both.
    """

    def __init__(self, rng, gaps, metrics=PARITY):
        self.rng, self.gaps, self.taken = rng, np.reshape(gaps, (N_LOOKS, -1)), []
        registration = Preregistration(confidence=1 - LEVEL, metrics=metrics, require_tau=TARGET, n_looks=N_LOOKS)
        held_out = SimpleNamespace(group_names=("u", "v"), n_groups=2, batches=lambda: ())
        self.prepared = SimpleNamespace(
            registration=registration,
            parts=SimpleNamespace(fraction=0.2, held_out=held_out, expected_held_out=(2.0 * N_PEOPLE,) * 2),
            privacy=SimpleNamespace(certify_epsilons={"u": 400.0, "v": 400.0}),
            generators=SimpleNamespace(
                key=lambda purpose: bytes(16), below=lambda purpose: lambda n: int(rng.integers(n)), seeded=True
            ),
            plan=SimpleNamespace(n_steps=N_LOOKS, recipe=SimpleNamespace(n_members=1)),
            model=SimpleNamespace(params=torch.zeros(1), described_smoothing=lambda: None, digest=lambda: ""),
            predictor=Predictor(),
        )
        self.prepared.model.replace_params = lambda params: setattr(self.prepared.model, "params", params)

    def counts(self, model, *_):
        """Decisions of the model of this step: its rates are .3, and that plus the gaps for the second group."""
        parity, opportunity = self.gaps[int(model.params) - 1][[0, -1]]
        # By group and label: those of label 1 differ by one gap, all together by the other.
        rates = np.array([[0.3, 0.3], [0.3 + 2 * parity - opportunity, 0.3 + opportunity]])
        if len(self.gaps[0]) == 1:
            rates[1] = 0.3 + parity
        positive = self.rng.binomial(N_PEOPLE // 2, rates)
        self.taken.append(int(model.params))
        return np.stack([N_PEOPLE // 2 - positive, positive], axis=-1)

    def claim(self, *, stops=True):
        """Number of the model that is kept, and its certificate."""
        interim, model = InterimResults(), self.prepared.model
        for step in range(1, N_LOOKS + 1):
            model.params = torch.full((1,), float(step))
            state = SimpleNamespace(step=step, model=model, interim=interim)
            trainer = SimpleNamespace(state=state, plan=self.prepared.plan)
            if breached(self.prepared, trainer) and stops:
                break
        certificate = certified(self.prepared, Predictor(), interim)
        return int(model.params), certificate

    def is_wrong(self, *, stops=True):
        number, certificate = self.claim(stops=stops)
        claimed = [gap.tau for gap in certificate.gaps.values()]
        return any(gap > tau for gap, tau in zip(self.gaps[number - 1], claimed, strict=True))


# True gaps of the four models: far below the target; rising past it; just below; just above; above from the start.
TRUTHS = {
    "far below": (0.01, 0.02, 0.03, 0.04),
    "past it": (0.02, 0.08, 0.13, 0.2),
    "just below": (0.02, 0.0999, 0.0999, 0.0999),
    "just above": (0.1001, 0.1001, 0.1001, 0.1001),
    "at last just above": (0.01, 0.02, 0.03, 0.1001),
    "far above": (0.2, 0.2, 0.2, 0.2),
}
TWO = {
    "one of two just above": ((0.02, 0.1001), (0.02, 0.1001), (0.02, 0.1001), (0.02, 0.1001)),
    "both in turn": ((0.02, 0.02), (0.02, 0.1001), (0.1001, 0.02), (0.1001, 0.1001)),
}


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(certificates, "gap_bound", quick_bound)


def wrong_claims(monkeypatch, gaps, n_draws, *, metrics=PARITY, **options):
    rng, wrong = np.random.default_rng(3), 0
    for _ in range(n_draws):
        simulated = Simulated(rng, gaps, metrics)
        monkeypatch.setattr(certifying, "count_decisions", simulated.counts)
        wrong += simulated.is_wrong(**options)
    return wrong


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("n_draws", DRAWS)
class TestCoverage:
    """Whole runs at a level of .3, of which each bound makes full use, at a false-alarm rate of 1e-6."""

    @pytest.mark.parametrize("truth", TRUTHS)
    def test_a_wrong_claim_is_no_more_likely_than_stated(self, monkeypatch, truth, n_draws):
        assert_rate_at_most(wrong_claims(monkeypatch, TRUTHS[truth], n_draws), n_draws, LEVEL)

    @pytest.mark.parametrize("truth", TWO)
    def test_nor_is_it_with_two_metrics(self, monkeypatch, truth, n_draws):
        assert_rate_at_most(wrong_claims(monkeypatch, TWO[truth], n_draws, metrics=PAIR), n_draws, LEVEL)

    def test_the_level_is_used(self, monkeypatch, n_draws):
        assert wrong_claims(monkeypatch, TRUTHS["just above"], n_draws) > 0.25 * n_draws

    def test_that_check_notices_looks_that_go_on_after_a_breach(self, monkeypatch, n_draws):
        with pytest.raises(AssertionError):
            assert_rate_at_most(wrong_claims(monkeypatch, TRUTHS["just above"], n_draws, stops=False), n_draws, LEVEL)

    def test_that_check_notices_the_best_of_all_looks_at_the_full_level(self, monkeypatch, n_draws):
        rng, wrong = np.random.default_rng(3), 0
        for _ in range(n_draws):
            simulated = Simulated(rng, TRUTHS["just above"])
            model, taus = simulated.prepared.model, []
            for step in range(1, N_LOOKS + 1):
                model.params = torch.full((1,), float(step))
                positive = simulated.counts(model)[..., 1].sum(1)
                arms = [SimpleNamespace(positive=n, negative=N_PEOPLE - n) for n in positive]
                taus.append(quick_bound(arms, failure_probability=LEVEL, score_box=False).tau)
            best = int(np.argmin(taus))
            wrong += simulated.gaps[best, 0] > taus[best]
        with pytest.raises(AssertionError):
            assert_rate_at_most(wrong, n_draws, LEVEL)


@pytest.mark.usefixtures("quick")
def test_that_check_notices_the_bound_that_the_kept_look_found(monkeypatch):
    """A look is kept because it met the target, so that its own bound is missed more often than stated."""
    monkeypatch.setattr(certificates, "_in_sequence", lambda gaps, threshold, n_looks: _in_sequence(gaps, threshold))
    with pytest.raises(AssertionError):
        assert_rate_at_most(wrong_claims(monkeypatch, TRUTHS["just below"], 1000), 1000, LEVEL)


class Run:
    """A run of 20 steps whose looks find the bounds that are given: what was looked at, and what was trained."""

    def __init__(self, monkeypatch, taus=(), *, progress=None, **changes):
        self.steps, self.arms, self.levels, self.looked, self.heads = [], [], [], [], []
        given = iter(taus)
        counted, bound = certifying.count_decisions, certificates.gap_bound

        def spy_bound(arms, *, failure_probability, score_box):
            self.arms.append(arms)
            self.levels.append(failure_probability)
            if not taus:
                return bound(arms, failure_probability=failure_probability, score_box=score_box)
            # Counts that were bounded before have the bound that they had.
            known = {tuple(arms): tau for arms, tau in self.known}
            tau = known[tuple(arms)] if tuple(arms) in known else next(given)
            self.known.append((arms, tau))
            return GapBound(tau=tau, pair=(0, 1), ratio=0.5)

        def spy_counts(model, predictor, batches, n_groups, key):
            counts = counted(model, predictor, batches, n_groups, key)
            self.looked.append((model.params.clone(), counts))
            return counts

        self.known = []
        monkeypatch.setattr(certificates, "gap_bound", spy_bound)
        monkeypatch.setattr(certifying, "count_decisions", spy_counts)
        X, y, a = people()
        data = GroupedData(X, y, (a == "m").astype(np.int64), ("f", "m"))
        settings = {
            "method": "fairdp",
            "epsilon": 2.0,
            "n_steps": 20,
            "sample_rate": 0.2,
            "random_state": 0,
            "certify_metrics": PARITY,
            "require_tau": 0.5,
            **changes,
        }
        observed = Progress(observe=lambda step, n_steps: self.steps.append(step))
        progress = observed if progress is None else replace(progress, observe=observed.observe)
        self.model = FairDPClassifier(**settings).fit_grouped(data, progress=progress)
        monkeypatch.undo()

    @property
    def records(self):
        return self.model.certificate_.about.records


MISSED = 0.8


class TestLooks:
    @pytest.mark.parametrize("n_members", [1, 3])
    @pytest.mark.parametrize(
        ("taus", "kept", "last_step"),
        [
            ((0.1, 0.2, 0.3, 0.4), 4, 20),
            ((0.1, 0.2, 0.3, MISSED), 3, 20),
            ((0.1, 0.2, MISSED), 2, 15),
            ((0.1, MISSED), 1, 10),
            ((MISSED,), 1, 5),
        ],
    )
    def test_training_ends_at_the_first_breach_and_the_look_before_is_kept(
        self, monkeypatch, taus, kept, last_step, n_members
    ):
        run = Run(monkeypatch, taus, n_looks=4, n_members=n_members)
        assert run.steps == list(range(1, last_step + 1))
        assert (len(run.looked), run.records.look) == (len(taus), kept)
        params, _ = run.looked[kept - 1]
        assert torch.equal(run.model.score_model_.params, params)
        assert len(run.model.score_model_.heads) == n_members
        # What is certified is what is deployed: its parameters, and the noisy counts of its decisions.
        made, met = run.model.certificate_, taus[0] < 0.5
        assert made.about.model_sha256 == run.model.score_model_.digest()
        assert (made.met, made.gaps["demographic_parity"].tau) == (met, 0.5 if met else MISSED)
        assert made.gaps["demographic_parity"].ratio is None
        found = [[[list(row) for row in group] for group in counts] for counts in (*run.records.met, made.counts)]
        assert np.abs(np.array(found)[kept - 1] - run.looked[kept - 1][1]).max() < 60
        assert len(run.records.met) == kept - 1
        assert (run.records.missed is not None) == (met and MISSED in taus)

    def test_every_look_has_the_full_level_and_its_share_of_epsilon(self, monkeypatch):
        run = Run(monkeypatch, (0.1, 0.2, 0.3, 0.4), n_looks=4)
        spent = run.model.privacy_
        assert run.levels == pytest.approx([0.05] * 4)
        # But for the tenth that counts of scores have.
        for arms in run.arms:
            assert [arm.epsilon for arm in arms] == pytest.approx([0.9 * spent.certify_epsilons[g] / 4 for g in "fm"])
        assert run.model.certificate_["epsilon_by_group"] == spent.certify_epsilons

    def test_training_goes_on_from_the_single_head(self, monkeypatch):
        """As if nobody had looked, but for the keys of the steps that looks took."""
        heads = []
        original = certifying.look

        def spy(prepared, interim, predictor):
            heads.append(len(prepared.model.heads))
            return original(prepared, interim, predictor)

        from fairdp.run import certifying as halting

        monkeypatch.setattr(halting, "look", spy)
        steps = []
        from fairdp.training.loop import Trainer

        stepped = Trainer.step

        def noted(trainer):
            steps.append((trainer.state.step, len(trainer.state.model.heads), trainer.state.model.params.clone()))
            stepped(trainer)
            steps.append((trainer.state.step, len(trainer.state.model.heads), trainer.state.model.params.clone()))

        monkeypatch.setattr(Trainer, "step", noted)
        Run(monkeypatch, (0.1, 0.2, 0.3, 0.4), n_looks=4, n_members=3)
        assert heads == [3, 3, 3, 3]
        assert {n_heads for step, n_heads, _ in steps if step < 20} == {1}
        for (step, _, after), (again, _, before) in zip(steps[1:-1:2], steps[2::2], strict=True):
            assert step == again
            assert torch.equal(after, before)

    def test_a_run_that_is_ended_costs_the_same(self, monkeypatch):
        """Nobody can end early to claim less: all planned steps and looks are accounted for, taken or not."""
        ended = Run(monkeypatch, (MISSED,), n_looks=4)
        whole = Run(monkeypatch, (0.1, 0.2, 0.3, 0.4), n_looks=4)
        assert ended.model.privacy_ == whole.model.privacy_
        assert torch.equal(ended.looked[0][0], whole.looked[0][0])
        assert (whole.model.privacy_.n_steps, whole.model.privacy_.look_steps) == (23, 3)

    def test_two_looks_at_equal_counts_have_noise_of_their_own(self, monkeypatch):
        """The same noise twice would tell, exactly, that no decision on a held-out record changed in between."""
        monkeypatch.setattr(certifying, "count_decisions", lambda *_: np.full((2, 2, 2), 30))
        run = Run(monkeypatch, (0.1, 0.2), n_looks=2)
        assert run.arms[0] != run.arms[1]

    def test_first_lines_say_what_became_of_the_requirement(self, monkeypatch):
        missed = Run(monkeypatch, (MISSED,), n_looks=4).model.verdict_.lines
        assert missed[0].split(": ")[0].endswith(", and `require_tau` missed")
        assert "that of look 1 of 4, which missed 0.5, so that training ended there. " in missed[0]
        met = Run(monkeypatch, (0.1, 0.2, MISSED), n_looks=4).model.verdict_.lines
        assert met[1] == (
            "`require_tau` met: the model is that of look 2 of 4, the last that met 0.5: the next look missed it, and "
            "ended training."
        )

    def test_a_kept_model_that_decides_alike_for_everybody_is_called_collapsed_first(self, monkeypatch):
        monkeypatch.setattr(certifying, "count_decisions", lambda *_: np.array([[[800, 0], [400, 0]]] * 2))
        assert Run(monkeypatch, (0.1, 0.2), n_looks=2).model.verdict_.lines[0].startswith("collapsed: nearly everybody")

    @pytest.mark.parametrize("method", ["fairdp_frontier", "dp_postprocess", "fairfm", "fairsmooth"])
    def test_methods_without_an_earlier_form_of_their_model_are_refused(self, monkeypatch, method):
        with pytest.raises(ValueError, match=r"^n_looks=2 needs a model to look at during training, which [^\n]*\.$"):
            Run(monkeypatch, method=method, n_looks=2)

    def test_more_looks_than_steps_are_refused(self, monkeypatch):
        with pytest.raises(ValueError, match=r"^n_looks=21 needs a step for each, and there are 20; use fewer\.$"):
            Run(monkeypatch, n_looks=21, epsilon=8.0)
