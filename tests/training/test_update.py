import math

import numpy as np
import pytest
import torch

from fairdp.accounting.mechanisms import PrivacyBudget, SampledGaussian
from fairdp.accounting.plan import Plan, make_plan
from fairdp.config import TrainConfig, gradient_norm
from fairdp.data.grouped import GroupedData
from fairdp.methods import METHODS
from fairdp.networks.model import ScoreModel, logistic
from fairdp.randomness import Generators
from fairdp.training.loop import FlatOptimizer, Trainer, TrainingState, descend, project_to_ball, split_into_members


def _run_both(flat: FlatOptimizer, theirs: type[torch.optim.Optimizer], **options: float) -> None:
    rng = torch.Generator().manual_seed(0)
    params = torch.randn(7, generator=rng)
    other = torch.nn.Parameter(params.clone())
    reference = theirs([other], lr=0.05, **options)
    for step in range(40):
        # A rate that changes half-way, and gradients of very different sizes.
        rate = 0.05 if step < 20 else 0.01
        gradient = torch.randn(7, generator=rng) * torch.logspace(-6, 3, 7)
        flat.step(params, gradient, rate)
        reference.param_groups[0]["lr"] = rate
        other.grad = gradient
        reference.step()
        torch.testing.assert_close(params, other.detach(), rtol=1e-5, atol=1e-6)


def test_adam_is_torchs_adam_step_by_step():
    _run_both(FlatOptimizer("adam"), torch.optim.Adam)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_sgd_is_torchs_sgd_step_by_step(momentum):
    _run_both(FlatOptimizer("sgd", momentum), torch.optim.SGD, momentum=momentum)


def test_that_check_notices_another_momentum():
    with pytest.raises(AssertionError):
        _run_both(FlatOptimizer("sgd", 0.9), torch.optim.SGD, momentum=0.89)


def test_an_optimizer_continues_from_its_state():
    gradients = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    straight, resumed = torch.zeros(4), torch.zeros(4)
    first = FlatOptimizer("adam")
    for gradient in gradients:
        first.step(straight, gradient, 0.1)
    part = FlatOptimizer("adam")
    for gradient in gradients[:3]:
        part.step(resumed, gradient, 0.1)
    copy = FlatOptimizer("adam", 0.0, part.n_updates, {name: value.clone() for name, value in part.state.items()})
    for gradient in gradients[3:]:
        copy.step(resumed, gradient, 0.1)
    assert torch.equal(straight, resumed)


def test_heads_are_scaled_to_the_ball_and_keep_their_direction():
    heads = torch.tensor([[3.0, 4.0], [0.3, 0.4], [-30.0, 40.0]])
    project_to_ball(heads, 1.0)
    torch.testing.assert_close(heads, torch.tensor([[0.6, 0.8], [0.3, 0.4], [-0.6, 0.8]]), rtol=1e-6, atol=0)
    assert heads[1].tolist() == torch.tensor([0.3, 0.4]).tolist()


def test_an_infinite_bound_leaves_heads_alone():
    heads = torch.full((2, 3), 1e6)
    project_to_ball(heads, math.inf)
    assert heads.eq(1e6).all()


def test_no_head_is_longer_than_the_bound_after_projection():
    heads = torch.randn(2000, 9, generator=torch.Generator().manual_seed(0)) * 100
    project_to_ball(heads, 0.75)
    assert float(heads.double().norm(dim=1).max()) <= 0.75 * (1 + 1e-6)


def test_the_split_into_members_by_hand():
    # Extractor of one parameter, heads of width one and a bias: θ = (φ; w, b) = (1; 2, 3), rate ½, two members.
    params = torch.tensor([1.0, 2.0, 3.0])
    noisy = torch.tensor([0.2, 1.0, 2.0, -1.0, 0.0])
    members = split_into_members(params, noisy, size=2, n_members=2, learning_rate=0.5)
    # φ − ½ · .2; head 1: (2, 3) − ½ · 2 · (1, 2); head 2: (2, 3) − ½ · 2 · (−1, 0).
    torch.testing.assert_close(members, torch.tensor([0.9, 1.0, 1.0, 3.0, 3.0]))
    assert params.tolist() == [1.0, 2.0, 3.0]


def test_the_mean_of_the_members_is_the_ordinary_step():
    rng = torch.Generator().manual_seed(0)
    params, noisy = torch.randn(6, generator=rng), torch.randn(2 + 3 * 4, generator=rng)
    members = split_into_members(params, noisy, size=4, n_members=3, learning_rate=0.1)
    step = params[2:] - 0.1 * noisy[2:].view(3, 4).sum(0)
    torch.testing.assert_close(members[2:].view(3, 4).mean(0), step)


def rules_along_a_run(monkeypatch, *, noise_std: float = 0.0, **changes) -> list[tuple[str, float, float]]:
    """Optimiser, momentum and step size of each of twenty updates, in two groups of multipliers 3 and 1."""
    config = TrainConfig(
        **{
            "sample_rate": 0.2,
            "n_steps": 20,
            "clip_norm": 0.5,
            "learning_rates": (0.4, 0.2),
            "momentum": 0.5,
            **changes,
        }
    )
    recipe = METHODS["fairdp"].recipe(config, (30.0, 30.0))
    mechanisms = tuple(SampledGaussian(sample_rate=0.2, noise_multiplier=m, n_steps=20) for m in (3.0, 1.0))
    budget = PrivacyBudget(epsilon=1.0, delta=1e-5)
    plan = Plan(recipe=recipe, budget=budget, n_steps=20, noise_std=noise_std, mechanisms=mechanisms)
    kind = "sgd" if config.optimizer == "sgd" else "adam"
    state = TrainingState(ScoreModel(logistic(), (2,)), FlatOptimizer(kind, config.momentum), Generators.of(0).steps)
    taken: list[tuple[str, float, float]] = []
    monkeypatch.setattr(FlatOptimizer, "step", lambda own, _, __, rate: taken.append((own.kind, own.momentum, rate)))
    for state.step in range(1, 21):
        descend(state, torch.zeros(3), plan, config)
    return taken


@pytest.mark.parametrize(("share", "n_adam"), [(0.0, 0), (0.5, 10), (0.51, 11), (0.95, 19), (1.0, 20)])
def test_adam_hands_over_at_any_share_of_the_run(share, n_adam, monkeypatch):
    rules = rules_along_a_run(monkeypatch, optimizer="adam_then_sgd", sgd_learning_rate=0.01, adam_share=share)
    assert [kind for kind, _, _ in rules] == ["adam"] * n_adam + ["sgd"] * (20 - n_adam)
    assert all((rate == 0.01) == (kind == "sgd") for kind, _, rate in rules)


def test_adam_hands_over_to_sgd_for_the_last_tenth(monkeypatch):
    rules = rules_along_a_run(monkeypatch, optimizer="adam_then_sgd", sgd_learning_rate=0.01)
    assert rules == [("adam", 0.5, 0.4)] * 10 + [("adam", 0.5, 0.2)] * 8 + [("sgd", 0.5, 0.01)] * 2


@pytest.mark.parametrize("kind", ["adam", "sgd"])
def test_a_single_rule_keeps_its_rates_to_the_end(kind, monkeypatch):
    rules = rules_along_a_run(monkeypatch, optimizer=kind, sgd_learning_rate=0.01)
    assert rules == [(kind, 0.5, 0.4)] * 10 + [(kind, 0.5, 0.2)] * 10


def test_the_hand_over_happens_once(monkeypatch):
    """The optimiser that takes over keeps its velocity: it is not made anew at every step."""
    made, build = [], FlatOptimizer.__init__
    monkeypatch.setattr(FlatOptimizer, "__init__", lambda own, *given: made.append(given) or build(own, *given))
    rules_along_a_run(monkeypatch, optimizer="adam_then_sgd")
    assert made == [("adam", 0.5), ("sgd", 0.5)]


def test_shamir_and_zhangs_steps_follow_the_noise_on_the_mean_and_all_parameters(monkeypatch):
    """Q / √(t (C² + r s²)) with Q = 10, C = ½, three parameters and s = ½: 10 / √t."""
    rules = rules_along_a_run(monkeypatch, optimizer="sgd", schedule="shamir_zhang", noise_std=0.5)
    assert [rate for _, _, rate in rules] == pytest.approx([10 / math.sqrt(t) for t in range(1, 21)])


def test_the_printed_steps_follow_the_groups_and_the_smallest_multiplier(monkeypatch):
    """K / √(t (C² + K σ² C² r)) with K = 2, σ = 1, C = ½ and three parameters: 2 / √(7t/4), whatever s is."""
    rules = rules_along_a_run(monkeypatch, optimizer="sgd", schedule="theorem_4_printed", noise_std=0.5)
    assert [rate for _, _, rate in rules] == pytest.approx([2 / math.sqrt(1.75 * t) for t in range(1, 21)])


def test_the_longest_gradient_is_that_of_what_a_step_releases():
    """All records at the clip norm and in one direction: the mean square over 600 steps is G² but for some 2 %."""
    rows = np.ones((100, 30), dtype=np.float32)
    data = GroupedData(rows, np.ones(100, dtype=np.int64), (np.arange(100) >= 40).astype(np.int64), ("a", "b"))
    config = TrainConfig(sample_rate=0.2, n_steps=600, clip_norm=0.1, learning_rates=(1.0,), n_members=1)
    recipe = METHODS["fairdp"].recipe(config, (40.0, 60.0))
    budget = PrivacyBudget(epsilon=1.0, delta=1e-5)
    plan = make_plan(recipe, budget, n_steps=600, noise_multiplier=1.5)
    state = TrainingState(ScoreModel(logistic(), (30,)), FlatOptimizer("sgd"), Generators.of(0).steps)
    trainer = Trainer(state, data, plan, config)
    square = np.mean([float(trainer.release().double().square().sum()) for _ in range(600)])
    # v = ¼ · .8 · (1/8 + 1/12).
    longest = gradient_norm(clip_norm=0.1, noise_std=plan.noise_std, n_params=31, sampling=0.2 * (1 / 8 + 1 / 12))
    assert square == pytest.approx(longest**2, rel=0.08)
    assert plan.noise_std == pytest.approx(1.5 * 0.1 / 2 * math.hypot(1 / 8, 1 / 12))


def test_noise_shortens_only_the_steps_that_it_would_carry_too_far(monkeypatch):
    """Noise of deviation two may move a parameter by .6: rates of at most .3."""
    rules = rules_along_a_run(monkeypatch, optimizer="sgd", noise_std=2.0, largest_noise_step=0.6)
    assert [rate for _, _, rate in rules] == pytest.approx([0.3] * 10 + [0.2] * 10)
    late = rules_along_a_run(
        monkeypatch, optimizer="adam_then_sgd", sgd_learning_rate=9.0, noise_std=2.0, largest_noise_step=0.6
    )
    assert late[-1] == ("sgd", 0.5, pytest.approx(0.3))


@pytest.mark.parametrize("largest_noise_step", [0.6, np.inf])
def test_without_noise_no_step_is_shortened(largest_noise_step, monkeypatch):
    rules = rules_along_a_run(monkeypatch, optimizer="sgd", largest_noise_step=largest_noise_step)
    assert [rate for _, _, rate in rules] == [0.4] * 10 + [0.2] * 10
