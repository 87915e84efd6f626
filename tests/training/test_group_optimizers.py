"""Algorithm 1 with an optimiser for every group: K noisy vectors leave a step, and a record is in one of them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fairdp.accounting.mechanisms import PrivacyBudget, epsilon_spent
from fairdp.accounting.plan import Plan, make_plan, privacy_spent
from fairdp.config import TrainConfig
from fairdp.data.grouped import GroupedData
from fairdp.errors import ParameterError
from fairdp.methods import fairdp
from fairdp.networks.model import ScoreModel, mlp
from fairdp.randomness import Generators
from fairdp.releases import watching
from fairdp.training.loop import FlatOptimizer, Trainer, TrainingState
from fairdp.training.noise import MARGIN
from score_models import naive_gradients
from statistical import assert_normal

BUDGET = PrivacyBudget(epsilon=2.0, delta=1e-5, accountant="rdp")
CONFIG = TrainConfig(
    sample_rate=0.2,
    n_steps=12,
    clip_norm=0.5,
    learning_rates=(0.05,),
    n_members=1,
    weight_bound=np.inf,
    group_optimizers=True,
    weights=(1.0, 2.0, 5.0),
)
SIZES = (15.0, 30.0, 45.0)
ADULT = (10_771.0, 21_790.0)


def grouped() -> GroupedData:
    rng = np.random.default_rng(0)
    X = 3 * rng.standard_normal((90, 4)).astype(np.float32)
    return GroupedData(X, (X[:, 0] + X[:, 1] > 0).astype(np.int64), np.repeat([0, 1, 2], [15, 30, 45]), tuple("abc"))


def planned(config: TrainConfig = CONFIG, **more) -> Plan:
    return make_plan(fairdp(config, SIZES), BUDGET, n_steps=config.n_steps, **more)


def trainer_of(config: TrainConfig = CONFIG, *, plan: Plan | None = None, kind: str = "adam") -> Trainer:
    torch.manual_seed(0)
    model = ScoreModel(mlp(4, (5,)), (4,))
    state = TrainingState(model, FlatOptimizer(kind, config.momentum), Generators.of(1).steps)
    return Trainer(state, grouped(), plan or planned(config), config)


@pytest.mark.parametrize("n_members", [1, 3])
@pytest.mark.parametrize("max_part", [4096, 4])
def test_removing_a_record_moves_the_vector_of_its_own_group_alone(n_members, max_part):
    """By at most C, which is C / m_k of the group's mean; the vectors of the other groups keep every bit."""
    trainer = trainer_of(replace(CONFIG, max_physical_batch_size=max_part))
    rng, recipe, moved = np.random.default_rng(3), trainer.plan.recipe, []
    batch = np.sort(rng.choice(90, 24, replace=False))
    members = torch.from_numpy(rng.integers(n_members, size=24))

    def rows(kept: np.ndarray) -> torch.Tensor:
        heads = None if n_members == 1 else [members[kept]]
        return trainer.sums.clipped_gradients(trainer.records.batch([batch[kept]], heads), {}, n_members).total

    whole = rows(np.arange(24))
    assert whole.shape[0] == 3
    for gone in range(24):
        without, group = rows(np.delete(np.arange(24), gone)), int(trainer.records.groups[batch[gone]])
        others = [other for other in range(3) if other != group]
        assert torch.equal(without[others], whole[others])
        moved.append(float((without[group] - whole[group]).norm()) / recipe.sensitivities[group])
    assert 0.9 <= max(moved) <= 1.0
    np.testing.assert_allclose(recipe.sensitivities, CONFIG.clip_norm)


def noise_of_steps(trainer: Trainer, n_steps: int) -> np.ndarray:
    """Releases of steps on empty batches, shape (n_groups, …)."""
    return np.stack([trainer.release().double().numpy() for _ in range(n_steps)], axis=1).reshape(3, -1)


@pytest.fixture(scope="module")
def noise() -> tuple[np.ndarray, np.ndarray]:
    config = replace(CONFIG, n_steps=700)
    trainer = trainer_of(config)
    object.__setattr__(trainer.sampler, "draw", lambda keys: [np.empty(0, dtype=np.int64)])
    sigma = trainer.plan.noise_multipliers
    return noise_of_steps(trainer, 700), sigma * config.clip_norm / (0.2 * np.array(SIZES))


def test_the_noise_of_every_group_is_that_of_its_own_mean(noise):
    draws, stds = noise
    for group in range(3):
        assert_normal(draws[group], stds[group])


@pytest.mark.parametrize("wrong", ["a third of it", "of the average", "of the smallest group"])
def test_that_check_notices_another_scale(noise, wrong):
    draws, stds = noise
    weights = np.array(CONFIG.weights) / sum(CONFIG.weights)
    other = {
        "a third of it": stds[1] / 3,
        "of the average": np.linalg.norm(weights * stds),
        "of the smallest group": stds[0],
    }[wrong]
    with pytest.raises(AssertionError):
        assert_normal(draws[1], other)


def test_no_two_groups_share_their_noise(noise):
    """A shared draw would make the sum of two rows √2 times as wide, and their difference nothing."""
    draws, stds = noise
    unit = draws / stds[:, None]
    for first, second in ((0, 1), (0, 2), (1, 2)):
        assert_normal((unit[first] + unit[second]) / np.sqrt(2), 1.0)
        assert_normal((unit[first] - unit[second]) / np.sqrt(2), 1.0)
    with pytest.raises(AssertionError):
        assert_normal((unit[0] + unit[0]) / np.sqrt(2), 1.0)


def test_every_group_of_adult_is_accounted_at_sigma():
    """No noise of others protects a group: .914 for both, where the average alone would give .798 and .355."""
    config = replace(CONFIG, sample_rate=0.01, n_steps=2000, clip_norm=1.0, weights=())
    budget = PrivacyBudget(epsilon=1.0, delta=1e-5)
    plan = make_plan(fairdp(config, ADULT), budget, n_steps=2000, noise_multiplier=1.98)
    for accountant, stated in (("pld", 0.914), ("rdp", 1.001)):
        spent = [epsilon_spent(one, 1e-5, accountant=accountant) for one in plan.mechanisms]
        assert spent == pytest.approx([stated, stated], abs=5e-3)
    assert plan.noise_std == pytest.approx(1.98)
    assert (plan.noise_std / plan.recipe.sensitivities).tolist() == pytest.approx([1.98, 1.98])
    # σ₀ / η of the paper, for what is averaged.
    spread = np.sqrt(107.71**-2 + 217.90**-2)
    assert plan.mean_noise_std == pytest.approx(1.98 / 2 * spread)
    shared = make_plan(
        fairdp(replace(config, group_optimizers=False), ADULT), budget, n_steps=2000, noise_multiplier=1.98
    )
    assert shared.noise_std == shared.mean_noise_std == pytest.approx(plan.mean_noise_std)


def test_the_statement_says_what_is_released():
    known = {"group_sizes": "public", "noise_seeded": False}
    said = [
        privacy_spent(planned(config), tuple("abc"), **known).statement()
        for config in (CONFIG, replace(CONFIG, group_optimizers=False))
    ]
    assert "on every group's own sum, each of which is released" in said[0]
    assert "is released, for the optimiser" not in said[1]


def test_less_noise_than_sigma_on_one_groups_sum_is_refused():
    plan = planned()
    with pytest.raises(ValueError, match="below what is accounted"):
        trainer_of(plan=replace(plan, noise_std=0.99 * plan.noise_std)).step()


@pytest.mark.parametrize(("kind", "momentum"), [("sgd", 0.0), ("sgd", 0.5), ("adam", 0.0)])
def test_the_same_noise_moves_a_shared_optimizer_alike_unless_it_is_adam(kind, momentum):
    config = replace(CONFIG, optimizer=kind, momentum=momentum, n_steps=4, weight_bound=0.3)
    shared = replace(config, group_optimizers=False)
    own, one = trainer_of(config, kind=kind), trainer_of(shared, plan=planned(shared), kind=kind)
    weights = torch.tensor(own.plan.recipe.group_weights)
    for _ in range(4):
        rows = own.release()
        one.release()
        own.update(rows, 1)
        one.update(weights @ rows, 1)
        own.settle()
        one.settle()
    distance = float((own.state.model.params - one.state.model.params).abs().max())
    assert distance < 1e-6 if kind == "sgd" else distance > 1e-2


def test_group_models_are_those_of_an_adam_each():
    """The paper's lines 5 to 13, naively: K copies of θ, each with an optimiser that lives on, then their mean."""
    config = replace(CONFIG, n_steps=5, learning_rates=(0.05, 0.02))
    trainer = trainer_of(config)
    theta, released = trainer.state.model.params.clone(), []
    sizes, weights = 0.2 * torch.tensor(SIZES), torch.tensor(CONFIG.weights) / sum(CONFIG.weights)
    copies = [theta.clone().requires_grad_() for _ in range(3)]
    optimizers = [torch.optim.Adam([copy]) for copy in copies]
    with watching(lambda release: released.append(release.noisy) or release.noisy):
        for step in range(5):
            trainer.step()
            for group, (copy, optimizer) in enumerate(zip(copies, optimizers, strict=True)):
                copy.data.copy_(theta)
                copy.grad = torch.from_numpy(released[step][group]).float() / sizes[group]
                optimizer.param_groups[0]["lr"] = 0.05 if step < 3 else 0.02
                optimizer.step()
            theta = sum(weight * copy.data for weight, copy in zip(weights, copies, strict=True))
            torch.testing.assert_close(trainer.state.model.params, theta, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n_members", [1, 3])
def test_a_step_without_noise_is_made_of_the_groups_own_mean_gradients(n_members):
    """And the last step of DP-MC is SGD for all: heads are averages over the groups of what each has sent there."""
    config = replace(CONFIG, n_steps=1, n_members=n_members, sgd_learning_rate=0.3, learning_rates=(0.3,))
    plan = make_plan(fairdp(config, SIZES), replace(BUDGET, epsilon=np.inf), n_steps=1)
    trainer, twin = trainer_of(config, plan=plan, kind="sgd"), trainer_of(config, plan=plan, kind="sgd")
    keys, model, data = twin.state.chain.step(), twin.state.model, grouped()
    (batch,) = twin.sampler.draw(keys)
    members = torch.from_numpy((keys.stream("members 0").words(len(batch)) % np.uint64(n_members)).astype(np.int64))
    trainer.step()
    gradients = naive_gradients(model, torch.from_numpy(data.X)[batch], torch.from_numpy(data.y)[batch].float())
    gradients *= (0.5 * MARGIN / gradients.norm(dim=1, keepdim=True)).clamp(max=1.0)
    gradients *= torch.from_numpy(plan.recipe.shares_in_mean).float()[data.groups[batch]][:, None]
    n_extractor = model.n_extractor_params
    heads = torch.stack(
        [
            model.params[n_extractor:] - 0.3 * n_members * gradients[members == member, n_extractor:].sum(0)
            for member in range(n_members)
        ]
    )
    extractor = model.params[:n_extractor] - 0.3 * gradients[:, :n_extractor].sum(0)
    torch.testing.assert_close(trainer.state.model.heads, heads, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(trainer.state.model.params[:n_extractor], extractor, rtol=1e-4, atol=1e-6)


def test_noise_on_the_average_leaves_no_groups_sum_to_release():
    with pytest.raises(ParameterError, match=r"group_optimizers=True releases every group's sum.*'per_group'"):
        replace(CONFIG, noise_allocation="average")
    with pytest.raises(ValueError, match="group_optimizers need noise_allocation='per_group'"):
        replace(planned().recipe, noise_allocation="average")
