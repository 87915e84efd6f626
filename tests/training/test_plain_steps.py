"""Steps without noise and clipping, on everybody: gradient descent on the risk that the method is about."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from classifier_cases import fitted
from fairdp.accounting.mechanisms import PrivacyBudget
from fairdp.accounting.plan import make_plan
from fairdp.config.training import TrainConfig
from fairdp.data.grouped import GroupedData
from fairdp.methods import METHODS
from fairdp.networks.extractors import mlp
from fairdp.networks.models import ScoreModel
from fairdp.randomness import Generators
from fairdp.training.loop import Trainer
from fairdp.training.state import FlatOptimizer, TrainingState
from score_models import naive_gradients

SIZES = (10, 30)
CONFIG = TrainConfig(
    sample_rate=1.0,
    n_steps=2,
    clip_norm=100.0,
    learning_rates=(0.3,),
    sgd_learning_rate=0.07,
    optimizer="sgd",
    weight_bound=np.inf,
    n_members=1,
)


def trainer_of(method: str, config: TrainConfig = CONFIG) -> Trainer:
    rng = np.random.default_rng(0)
    X, groups = rng.normal(size=(40, 3)).astype(np.float32), np.repeat([0, 1], SIZES)
    data = GroupedData(X, (X[:, 0] > groups - 0.5).astype(np.int64), groups, ("a", "b"))
    recipe = METHODS[method].recipe(config, tuple(float(size) for size in SIZES))
    plan = make_plan(recipe, PrivacyBudget(epsilon=np.inf, delta=1e-5), n_steps=config.n_steps)
    torch.manual_seed(0)
    state = TrainingState(ScoreModel(mlp(3, (4,)), (3,)), FlatOptimizer("sgd"), Generators.of(1).steps)
    return Trainer(state, data, plan, config)


def risk_gradient(trainer: Trainer, *, balanced: bool) -> torch.Tensor:
    """Of the mean loss over all records, or of the mean over groups of their mean losses, by autograd."""
    gradients = naive_gradients(trainer.state.model, trainer.records.X, trainer.records.y.float())
    if not balanced:
        return gradients.mean(0)
    return (gradients[:10].mean(0) + gradients[10:].mean(0)) / 2


@pytest.mark.parametrize("method", ["clean", "dpsgd", "dpsgd_smooth", "dp_postprocess", "dpsgd_f", "fairdp"])
def test_a_step_without_noise_and_clipping_is_one_of_gradient_descent(method):
    trainer = trainer_of(method)
    for _ in range(2):
        before, gradient = trainer.state.model.params.clone(), risk_gradient(trainer, balanced=method == "fairdp")
        trainer.step()
        torch.testing.assert_close(trainer.state.model.params, before - 0.3 * gradient, rtol=1e-4, atol=1e-6)


def test_that_check_tells_the_two_risks_apart():
    trainer = trainer_of("fairdp")
    assert not torch.allclose(*(risk_gradient(trainer, balanced=b) for b in (True, False)), atol=1e-3)


def test_the_last_step_takes_the_rate_of_sgd_for_every_head():
    """Two heads, each from the sum of its own half: .07 · 2 for a head, .07 for the extractor."""
    trainer = trainer_of("fairdp", replace(CONFIG, n_members=2))
    model = trainer.state.model
    before, n = model.params.clone(), model.n_extractor_params
    trainer.update(torch.arange(n + 10.0), 2)
    torch.testing.assert_close(model.params[:n], before[:n] - 0.07 * torch.arange(n))
    for member in (0, 1):
        sums = n + 5.0 * member + torch.arange(5)
        torch.testing.assert_close(model.heads[member], before[n:] - 0.14 * sums)


def test_the_head_is_in_the_ball_before_the_first_step():
    """The first gradients are those of a head that obeys M, as all others are."""
    free, bounded = (trainer_of("fairdp", replace(CONFIG, weight_bound=bound)) for bound in (np.inf, 0.05))
    start = free.state.model.heads[0]
    assert float(start.norm()) > 0.05
    torch.testing.assert_close(bounded.state.model.heads[0], 0.05 * start / start.norm())


@pytest.mark.parametrize(("optimizer", "first"), [("sgd", "sgd"), ("adam", "adam"), ("adam_then_sgd", "adam")])
def test_a_run_has_the_users_momentum_and_optimiser(optimizer, first, monkeypatch):
    seen, step = [], FlatOptimizer.step
    monkeypatch.setattr(FlatOptimizer, "step", lambda own, *given: seen.append(replace(own)) or step(own, *given))
    fitted(method="dpsgd", optimizer=optimizer, momentum=0.35)
    assert len(seen) == 20
    assert (seen[0].kind, seen[0].momentum) == (first, 0.35)
