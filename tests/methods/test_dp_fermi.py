"""DP-FERMI against its definition: ψ record by record, its gradients by autograd, and who ascends and who descends."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from fairdp.accounting.mechanisms import PrivacyBudget
from fairdp.accounting.plan import make_plan
from fairdp.config.training import TrainConfig
from fairdp.data.grouped import GroupedData
from fairdp.methods import METHODS
from fairdp.networks.extractors import logistic
from fairdp.networks.models import ScoreModel
from fairdp.randomness import Generators
from fairdp.training.companion import Companion, Seen
from fairdp.training.loop import Trainer
from fairdp.training.state import FlatOptimizer, TrainingState

# A quarter and three quarters of the records, so that no group can stand for the other.
SIZES, SHARES = (10.0, 30.0), (0.25, 0.75)
WEIGHT, ASCENT, SCALE = 1.7, 0.05, 0.1
CONFIG = TrainConfig(
    sample_rate=1.0,
    n_steps=3,
    clip_norm=100.0,
    learning_rates=(0.3,),
    optimizer="sgd",
    fairness_weight=WEIGHT,
)


def adversary() -> Companion:
    return METHODS["dp_fermi"].recipe(CONFIG, SIZES).companion


def people() -> Seen:
    """Forty records whose decisions tell of the group."""
    rng = torch.Generator().manual_seed(0)
    groups = (torch.arange(40) >= 10).long()
    return Seen(torch.randn(40, generator=rng) + 1.5 - 2.0 * groups, (torch.arange(40) % 2).float(), groups)


def some_W() -> Tensor:
    return torch.tensor([[0.3, -0.8], [1.1, 0.4]])


def psi(scores: Tensor, groups: Tensor, W: Tensor) -> Tensor:
    """ψ of every record, term by term."""
    rows = []
    for z, s in zip(scores, groups.tolist(), strict=True):
        p = torch.sigmoid(z)
        of_no, of_yes = (-W[j].square().sum() + 2 * W[j, s] / SHARES[s] ** 0.5 for j in (0, 1))
        rows.append((1 - p) * of_no + p * of_yes - 1)
    return torch.stack(rows)


@pytest.mark.parametrize("weight", [0.0, WEIGHT])
def test_the_score_gradient_is_that_of_the_loss_and_the_weighted_penalty(weight):
    seen, W = people(), some_W()
    z = seen.scores.clone().requires_grad_()
    loss = functional.binary_cross_entropy_with_logits(z, seen.labels, reduction="sum")
    (expected,) = torch.autograd.grad(loss + weight * psi(z, seen.groups, W).sum(), z)
    companion = METHODS["dp_fermi"].recipe(replace(CONFIG, fairness_weight=weight), SIZES).companion
    torch.testing.assert_close(companion.score_gradient(seen, {"W": W}), expected)


def test_a_record_contributes_a_tenth_of_its_gradient_by_W():
    seen, W = people(), some_W().requires_grad_()
    rows = [torch.autograd.grad(own, W, retain_graph=True)[0] for own in psi(seen.scores, seen.groups, W)]
    found = adversary().contributions(seen, {"W": W.detach()})
    torch.testing.assert_close(found, SCALE * torch.stack(rows).flatten(1))


def test_the_adversary_ascends_by_the_gradient():
    seen, W = people(), some_W().requires_grad_()
    before = psi(seen.scores, seen.groups, W).mean()
    (gradient,) = torch.autograd.grad(before, W)
    memory = {"W": W.detach()}
    adversary().learn(adversary().contributions(seen, memory).mean(0), memory)
    torch.testing.assert_close(memory["W"], W.detach() + ASCENT * gradient)
    assert psi(seen.scores, seen.groups, memory["W"]).mean() > before


def test_the_model_descends_what_the_adversary_ascends():
    seen, W = people(), some_W()
    pull = adversary().score_gradient(seen, {"W": W}) - (torch.sigmoid(seen.scores) - seen.labels)
    moved = psi(seen.scores - 0.1 * pull, seen.groups, W)
    assert moved.mean() < psi(seen.scores, seen.groups, W).mean() - 0.01


def test_at_its_best_the_adversary_knows_the_information_in_the_decisions():
    """The largest ψ is Σ P(j, s)² / (P(j) P(s)) − 1, here with counts (2, 8) of group a and (24, 6) of b."""
    scores = torch.full((40,), -30.0)
    scores[2:10], scores[34:] = 30.0, 30.0
    seen, memory, companion = replace_scores(people(), scores), adversary().start(), adversary()
    assert not memory["W"].any()
    for _ in range(3000):
        companion.learn(companion.contributions(seen, memory).mean(0), memory)
    table = np.array([[2, 24], [8, 6]]) / 40
    information = (table**2 / np.outer(table.sum(1), table.sum(0))).sum() - 1
    assert float(psi(scores, seen.groups, memory["W"]).mean()) == pytest.approx(information, abs=1e-4)


def replace_scores(seen: Seen, scores: Tensor) -> Seen:
    return Seen(scores, seen.labels, seen.groups)


def test_W_is_scaled_back_to_norm_five_and_left_alone_below():
    memory = {"W": torch.zeros(2, 2)}
    adversary().learn(SCALE / ASCENT * torch.tensor([30.0, 0.0, 0.0, -40.0]), memory)
    torch.testing.assert_close(memory["W"], torch.tensor([[3.0, 0.0], [0.0, -4.0]]))
    adversary().learn(SCALE / ASCENT * torch.tensor([-3.0, 0.0, 4.5, 4.0]), memory)
    torch.testing.assert_close(memory["W"], torch.tensor([[0.0, 0.0], [4.5, 0.0]]), atol=1e-5, rtol=0)


def test_steps_without_noise_are_those_of_the_min_max_problem():
    """Everybody in every batch, nobody clipped: descent of loss + weight ψ on (w, b), ascent of ψ on W, at once."""
    seen, rng = people(), np.random.default_rng(0)
    X = rng.normal(size=(40, 2)).astype(np.float32)
    data = GroupedData(X, seen.labels.long().numpy(), seen.groups.numpy(), ("a", "b"))
    plan = make_plan(METHODS["dp_fermi"].recipe(CONFIG, SIZES), PrivacyBudget(epsilon=np.inf, delta=1e-5), n_steps=3)
    state = TrainingState(ScoreModel(logistic(), (2,)), FlatOptimizer("sgd"), Generators.of(1).steps)
    head, W = state.model.params.clone().requires_grad_(), torch.zeros(2, 2, requires_grad=True)
    trainer = Trainer(state, data, plan, CONFIG)
    for _ in range(3):
        trainer.step()
        scores = torch.from_numpy(X) @ head[:-1] + head[-1]
        penalty = psi(scores, seen.groups, W).mean()
        loss = functional.binary_cross_entropy_with_logits(scores, seen.labels) + WEIGHT * penalty
        (by_head,) = torch.autograd.grad(loss, head, retain_graph=True)
        (by_W,) = torch.autograd.grad(penalty, W)
        head = (head - 0.3 * by_head).detach().requires_grad_()
        W = (W + ASCENT * by_W).detach().requires_grad_()
    torch.testing.assert_close(state.model.params, head.detach())
    torch.testing.assert_close(state.memory["W"], W.detach())
