"""Contract of every method: a bounded release, whoever is in the batch, and a budget that is kept."""

import functools
import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch import nn

from fairdp.accounting.mechanisms import PrivacyBudget, epsilon_spent, joint_multiplier
from fairdp.accounting.plan import AuxiliaryMechanism, BatchView, Statistics, make_plan
from fairdp.config import TrainConfig
from fairdp.data.grouped import GroupedData
from fairdp.methods import METHODS
from fairdp.networks.model import ScoreModel, mlp
from fairdp.randomness import Generators
from fairdp.training.loop import FlatOptimizer, Trainer, TrainingState
from fairdp.training.noise import MARGIN
from statistical import assert_normal
from step_cases import clipped_sum, statistics_sum

BUDGET = PrivacyBudget(epsilon=2.0, delta=1e-5, accountant="rdp")
CONFIG = TrainConfig(
    sample_rate=0.2, n_steps=25, clip_norm=0.5, learning_rates=(0.3,), optimizer="sgd", n_members=1, max_gap=0.01
)
STEPPING = [name for name, method in METHODS.items() if method.private and not method.closed_form]


def grouped(n_samples: int = 90, n_groups: int = 3) -> GroupedData:
    rng = np.random.default_rng(0)
    X = 3 * rng.standard_normal((n_samples, 4)).astype(np.float32)
    groups = rng.integers(n_groups, size=n_samples)
    return GroupedData(X, (X[:, 0] + groups > 1).astype(np.int64), groups, tuple("abc"[:n_groups]))


class Mixing(nn.Module):
    """A user's own forward: apart on public probes in [0, 1), but a large value moves all the records of a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 5)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.linear(X - X.mean(0) * (X.abs().amax() > 2)))


EXTRACTORS = {
    "stack": lambda: mlp(4, (5,)),
    "hooks": lambda: nn.Sequential(nn.Linear(4, 5), nn.LayerNorm(5), nn.Tanh()),
    "own forward": Mixing,
}


def trainer_of(
    recipe_of, config: TrainConfig = CONFIG, budget: PrivacyBudget = BUDGET, extractor: str = "stack"
) -> Trainer:
    data = grouped()
    recipe = recipe_of(config, tuple(float(size) for size in data.group_sizes))
    torch.manual_seed(0)
    state = TrainingState(
        ScoreModel(EXTRACTORS[extractor](), (4,), n_cells=recipe.n_cells),
        FlatOptimizer("sgd"),
        Generators.of(1).steps,
    )
    return Trainer(state, data, make_plan(recipe, budget, n_steps=config.n_steps), config)


def largest_move(trainer: Trainer, batch: list[int]) -> float:
    """Largest change that removing one record of the batch makes, in units of what is accounted for its group.

    Statistics and gradient together: the norm of both, each divided by its noise, times the accounted multiplier.
    """

    def released(members: list[int]) -> tuple[np.ndarray, np.ndarray]:
        chosen = torch.tensor(members, dtype=torch.long)
        statistics = torch.zeros(0)
        if trainer.plan.statistics_std:
            statistics = statistics_sum(trainer, chosen).total / trainer.plan.statistics_std
        scale = trainer.plan.noise_std * float(trainer.sums.clip_factors(trainer.state.memory).max())
        return statistics.numpy(), clipped_sum(trainer, chosen).total.numpy() / scale

    whole, moves = released(batch), []
    for position, record in enumerate(batch):
        without = released(batch[:position] + batch[position + 1 :])
        joint = np.concatenate([a - b for a, b in zip(whole, without, strict=True)])
        group = int(trainer.records.groups[record])
        moves.append(np.linalg.norm(joint) * trainer.plan.noise_multipliers[group])
    return max(moves)


def moves_along_a_run(recipe_of, config: TrainConfig = CONFIG, extractor: str = "stack") -> list[float]:
    trainer, rng, found = trainer_of(recipe_of, config, extractor=extractor), np.random.default_rng(3), []
    for step in range(12):
        if step % 4 == 3:
            found.append(largest_move(trainer, rng.choice(90, 20, replace=False).tolist()))
        trainer.step()
    return found


@pytest.mark.parametrize("parity", ["demographic_parity", "equal_opportunity", "equalized_odds"])
@pytest.mark.parametrize("name", STEPPING)
def test_removing_a_record_moves_a_step_by_no_more_than_is_accounted(name, parity):
    """Releases beside the gradient included, at states that a run comes to."""
    moves = moves_along_a_run(METHODS[name].recipe, replace(CONFIG, parity=parity))
    assert max(moves) <= 1.0
    # A bound that is never nearly reached would hide a release that was forgotten.
    assert max(moves) >= (0.9 if name != "fairdp" else 0.4)


@pytest.mark.parametrize("extractor", ["hooks", "own forward"])
@pytest.mark.parametrize("name", STEPPING)
def test_that_holds_for_every_route_to_the_gradients(name, extractor):
    assert 0.3 <= max(moves_along_a_run(METHODS[name].recipe, extractor=extractor)) <= 1.0


def test_a_deployed_score_does_not_depend_on_who_else_is_scored():
    """Counts of decisions have a sensitivity of one only if one record has one decision."""
    torch.manual_seed(0)
    model, X = ScoreModel(Mixing(), (4,)), torch.from_numpy(grouped().X)
    assert X.abs().max() > 2
    assert torch.allclose(model.scores(X)[:5], model.scores(X[:5]), atol=1e-6)
    assert not torch.allclose(model.extractor(X)[:5], model.extractor(X[:5]), atol=1e-6)


@dataclass(frozen=True)
class Coupled(AuxiliaryMechanism):
    """A penalty on the mean score of the batch: one record moves everybody's gradient."""

    def score_gradient(self, seen, memory):
        return torch.sigmoid(seen.scores) - seen.labels + 2.0 * seen.scores.mean()


@dataclass(frozen=True)
class Loud(AuxiliaryMechanism):
    """Statistics that a record moves by more than one."""

    @property
    def auxiliary_release(self) -> Statistics:
        return Statistics(of="scores", size=3, share=0.5, what="loud")

    def contributions(self, seen, memory):
        return 100.0 * torch.nn.functional.one_hot(seen.groups, 3).float()


def dpsgd_with(auxiliary: AuxiliaryMechanism):
    return lambda config, sizes: replace(METHODS["dpsgd"].recipe(config, sizes), auxiliary=auxiliary)


def test_that_check_notices_a_loss_that_couples_records():
    assert max(moves_along_a_run(dpsgd_with(Coupled()))) > 1.2


def test_statistics_are_bounded_whatever_a_method_makes_of_its_records():
    assert max(moves_along_a_run(dpsgd_with(Loud()))) <= 1.0


class Spy:
    """An auxiliary mechanism that remembers what it was told."""

    def __init__(self, auxiliary) -> None:
        self.auxiliary, self.told = auxiliary, []

    def __getattr__(self, name: str):
        return getattr(self.auxiliary, name)

    def learn(self, noisy, memory) -> None:
        self.told.append(noisy)
        self.auxiliary.learn(noisy, memory)


@pytest.mark.parametrize("name", ["dpsgd_f", "raco_dp", "dp_fermi"])
def test_a_method_is_told_noisy_numbers_only(name):
    """From batches without anybody: all that it hears is noise, of the deviation that is accounted.

    700 steps have 4 200 numbers or more: a deviation that is 10 % off is noticed with a chance above 99.9 %.
    """
    config = replace(CONFIG, n_steps=700)
    trainer = trainer_of(METHODS[name].recipe, config)
    trainer.sampler = replace(trainer.sampler, largest_rate=0.0)
    trainer.auxiliary = spy = Spy(trainer.auxiliary)
    scales = []
    for _ in range(700):
        trainer.step()
        further = trainer.plan.noise_std if name == "dp_fermi" else trainer.plan.statistics_std
        scales.append(further)
    told = torch.stack(spy.told).double().numpy() / np.array(scales)[:, None]
    assert_normal(told, 1.0)
    with pytest.raises(AssertionError):
        assert_normal(told, 0.9)


@pytest.mark.parametrize("name", STEPPING)
def test_an_empty_batch_is_a_step_of_noise(name):
    trainer = trainer_of(METHODS[name].recipe)
    trainer.sampler = replace(trainer.sampler, largest_rate=0.0)
    before = trainer.state.model.params.clone()
    trainer.step()
    assert trainer.state.model.params.isfinite().all()
    assert all(value.isfinite().all() for value in trainer.state.memory.values())
    assert not torch.equal(before, trainer.state.model.params)


@pytest.mark.parametrize("name", STEPPING)
def test_a_record_that_is_not_finite_contributes_nothing(name):
    trainer = trainer_of(METHODS[name].recipe)
    trainer.step()
    trainer.records.X[7] = float("nan")
    clean, damaged = ([0, 1, 2], [0, 1, 2, 7])
    with_it, without = (clipped_sum(trainer, torch.tensor(batch)).total for batch in (damaged, clean))
    assert torch.allclose(with_it, without, atol=1e-6)
    if trainer.plan.statistics_std:
        sums = (statistics_sum(trainer, torch.tensor(batch)).total for batch in (damaged, clean))
        assert torch.equal(*sums)


@pytest.mark.parametrize("name", STEPPING)
def test_physical_batches_change_a_step_by_rounding_only(name):
    models = []
    for size in (7, 4096):
        trainer = trainer_of(METHODS[name].recipe, replace(CONFIG, max_physical_batch_size=size))
        for _ in range(3):
            trainer.step()
        models.append(trainer.state.model.params)
    assert torch.allclose(*models, atol=1e-4)


@functools.cache
def spent_together(sigma: float, sigma_counts: float) -> float:
    from fairdp.accounting.mechanisms import SampledGaussian

    joint = joint_multiplier(sigma, sigma_counts)
    return epsilon_spent(SampledGaussian(sample_rate=0.01, noise_multiplier=joint, n_steps=1000), 1e-5)


def test_two_queries_on_one_sample_cost_more_than_two_that_are_sampled_apart():
    """σ = 1, σ_counts = 2, q = .01, T = 1000, δ = 1e-5: 2.35; composed as separately sampled, 1.95."""
    import dp_accounting
    from dp_accounting import pld

    assert spent_together(1.0, 2.0) == pytest.approx(2.35, abs=0.005)
    apart = pld.PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE, 1e-3)
    for sigma in (1.0, 2.0):
        event = dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(sigma))
        apart.compose(dp_accounting.SelfComposedDpEvent(event, 1000))
    assert apart.get_epsilon(1e-5) == pytest.approx(1.95, abs=0.01)


@pytest.mark.parametrize("name", STEPPING)
def test_the_noise_of_statistics_and_gradient_is_together_what_is_accounted(name):
    plan = trainer_of(METHODS[name].recipe).plan
    for group, mechanism in enumerate(plan.mechanisms):
        gradient = plan.noise_std / plan.recipe.sensitivities[group]
        both = joint_multiplier(gradient, plan.statistics_std) if plan.statistics_std else gradient
        assert mechanism.noise_multiplier <= both * (1 + 1e-9)
        assert both <= mechanism.noise_multiplier * (1 + 1e-9) or plan.recipe.noise_allocation == "per_group"
    assert max(epsilon_spent(m, BUDGET.delta) for m in plan.mechanisms) <= BUDGET.epsilon


def test_noise_follows_the_largest_clip_norm_over_all_groups():
    """Whoever is in the batch: over those in it, the noise itself would tell who is there."""
    trainer = trainer_of(METHODS["dpsgd_f"].recipe)
    trainer.state.memory["factors"] = torch.tensor([1.0, 4.0, 2.0])
    only_first = torch.from_numpy(np.flatnonzero(trainer.records.groups.numpy() == 0))[:5]
    assert clipped_sum(trainer, only_first).sensitivities.max() == pytest.approx(
        4.0 * trainer.plan.recipe.sensitivities[1]
    )


@pytest.mark.parametrize("name", ["dpsgd_f", "raco_dp", "dp_fermi"])
def test_what_a_method_is_shown_of_records_leaves_no_trace_in_its_memory(name):
    """Memory holds released numbers: a method learns from noisy sums, not from the records that it is shown."""
    trainer = trainer_of(METHODS[name].recipe)
    trainer.step()
    memory = {key: value.clone() for key, value in trainer.state.memory.items()}
    data = grouped()
    groups, labels = torch.from_numpy(data.groups), torch.from_numpy(data.y).float()
    seen = BatchView(torch.from_numpy(data.X[:, 0]), labels, groups, norms=torch.from_numpy(data.X[:, 1]).abs())
    trainer.auxiliary.contributions(seen, trainer.state.memory)
    trainer.auxiliary.score_gradient(seen, trainer.state.memory)
    trainer.auxiliary.clip_factors(trainer.state.memory)
    assert memory.keys() == trainer.state.memory.keys()
    assert all(torch.equal(memory[key], value) for key, value in trainer.state.memory.items())


@pytest.mark.parametrize("name", ["dpsgd_f", "raco_dp"])
def test_a_sum_states_how_far_a_record_moves_it(name):
    trainer = trainer_of(METHODS[name].recipe)
    assert statistics_sum(trainer, torch.arange(5)).sensitivities.tolist() == [1.0] * 3


def test_every_group_is_clipped_at_its_own_factor():
    """A clip norm so small that everybody is clipped: what is left of a record is the bound of its group."""
    trainer = trainer_of(METHODS["dpsgd_f"].recipe, replace(CONFIG, clip_norm=1e-3))
    factors = torch.tensor([1.0, 4.0, 2.0])
    trainer.state.memory["factors"] = factors
    for record in range(6):
        group = int(trainer.records.groups[record])
        bound = 1e-3 * float(factors[group]) * trainer.plan.recipe.record_weights[group]
        moved = clipped_sum(trainer, torch.tensor([record])).total.norm()
        assert float(moved) == pytest.approx(MARGIN * bound, rel=1e-4)


def test_every_record_has_the_weight_of_its_group():
    trainer = trainer_of(METHODS["fairdp"].recipe, replace(CONFIG, clip_norm=1e-3))
    assert len(set(trainer.plan.recipe.sensitivities.tolist())) == 3
    for record in range(6):
        bound = trainer.plan.recipe.sensitivities[int(trainer.records.groups[record])]
        moved = clipped_sum(trainer, torch.tensor([record])).total.norm()
        assert float(moved) == pytest.approx(MARGIN * bound, rel=1e-4)


SHORT = TrainConfig(sample_rate=0.05, n_steps=40, clip_norm=2.0, learning_rates=(0.1,), weight_bound=0.5, n_members=4)
SIZES = (100.0, 300.0)
SMALL_BUDGET = PrivacyBudget(epsilon=1.5, delta=1e-5)


@pytest.mark.parametrize("name", METHODS)
def test_a_private_method_has_finite_sensitivity_and_stays_within_the_budget(name):
    plan = make_plan(METHODS[name].recipe(SHORT, SIZES), SMALL_BUDGET, n_steps=40)
    spent = max(epsilon_spent(mechanism, SMALL_BUDGET.delta) for mechanism in plan.mechanisms)
    if METHODS[name].private:
        assert np.isfinite(plan.recipe.sensitivities).all()
        assert (plan.noise_std >= plan.noise_multipliers * plan.recipe.sensitivities * (1 - 1e-9)).all()
        assert 0.99 * SMALL_BUDGET.epsilon <= spent <= SMALL_BUDGET.epsilon
    else:
        assert plan.noise_std == 0
        assert spent == math.inf


def test_dp_sgd_weights_every_record_alike():
    recipe = METHODS["dpsgd"].recipe(SHORT, SIZES)
    # S / (q n) with q n = 20, whatever the group.
    assert recipe.record_weights == pytest.approx([1 / 20, 1 / 20])
    assert recipe.sensitivities == pytest.approx([0.1, 0.1])
    assert (recipe.weight_bound, recipe.n_members) == (math.inf, 1)


def test_fairdp_weights_every_group_alike():
    recipe = METHODS["fairdp"].recipe(SHORT, SIZES)
    # ½ / m_k with m = (5, 15).
    assert recipe.record_weights == pytest.approx([1 / 10, 1 / 30])
    assert (recipe.weight_bound, recipe.n_members, recipe.noise_allocation) == (0.5, 4, "per_group")
    average = METHODS["fairdp"].recipe(replace(SHORT, noise_allocation="average"), SIZES)
    assert average.noise_allocation == "average"


def test_clean_neither_clips_nor_adds_noise():
    recipe = METHODS["clean"].recipe(SHORT, SIZES)
    assert (recipe.clip_norm, recipe.noise_allocation) == (math.inf, "none")
    # Otherwise it is DP-SGD, on the same batches.
    assert recipe == replace(METHODS["dpsgd"].recipe(SHORT, SIZES), clip_norm=math.inf, noise_allocation="none")
    assert recipe.sample_rates == (0.05, 0.05)
