import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from fairdp.accounting.mechanisms import PrivacyBudget, SampledGaussian
from fairdp.accounting.plan import Plan, make_plan
from fairdp.accounting.recipe import Coordinates
from fairdp.config.training import TrainConfig
from fairdp.data.grouped import GroupedData
from fairdp.methods import METHODS
from fairdp.metrics.scored_records import area_under_roc
from fairdp.networks.extractors import mlp
from fairdp.networks.models import ScoreModel
from fairdp.randomness import Generators
from fairdp.streams import StepKeys
from fairdp.training.clipping import MARGIN, BoundedSum
from fairdp.training.companion import Companion
from fairdp.training.lattice import round_with_gaussian
from fairdp.training.loop import PrivacyBudgetExceeded, Trainer, steps
from fairdp.training.state import FlatOptimizer, TrainingState
from score_models import naive_gradients

PRIVATE = PrivacyBudget(epsilon=2.0, delta=1e-5)
NOISELESS = PrivacyBudget(epsilon=np.inf, delta=1e-5)
CONFIG = TrainConfig(
    sample_rate=0.2, n_steps=12, clip_norm=1.0, learning_rates=(0.05,), n_members=1, weight_bound=np.inf
)


def grouped(n_samples: int = 60, n_groups: int = 2) -> GroupedData:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_samples, 4)).astype(np.float32)
    y = (X[:, 0] + X[:, 1] > 0).astype(np.int64)
    return GroupedData(X, y, np.arange(n_samples) % n_groups, tuple("abc"[:n_groups]))


def start(*, seed: int = 1, optimizer: str = "adam", momentum: float = 0.0, n_cells: int = 0) -> TrainingState:
    torch.manual_seed(0)
    model = ScoreModel(mlp(4, (5,)), (4,), n_cells=n_cells)
    return TrainingState(model, FlatOptimizer(optimizer, momentum), Generators.of(seed).steps)


def empty_plan(config: TrainConfig) -> Plan:
    """A plan by hand at a rate so small that no batch of the fixed seed holds anybody."""
    recipe = METHODS["fairdp"].recipe(replace(config, sample_rate=1e-6), (30.0, 30.0))
    mechanism = SampledGaussian(sample_rate=1e-6, noise_multiplier=1.0, n_steps=config.n_steps)
    noise_std = float(recipe.sensitivities.max())
    return Plan(recipe=recipe, budget=PRIVATE, n_steps=config.n_steps, noise_std=noise_std, mechanisms=(mechanism,) * 2)


def run(method: str, config: TrainConfig, data: GroupedData, budget: PrivacyBudget = PRIVATE, **seeds) -> ScoreModel:
    sizes = tuple(float(size) for size in data.group_sizes)
    plan = make_plan(METHODS[method].recipe(config, sizes), budget, n_steps=config.n_steps)
    state = start(**seeds, n_cells=plan.recipe.n_cells)
    assert len(list(steps(state, data, plan, config))) == config.n_steps
    return state.model


class TestEnsemblesOfLooks:
    """Heads that are made for a look, in the middle of training."""

    CONFIG = replace(CONFIG, n_steps=6, n_members=3, weight_bound=0.2)

    def trainer(self, n_looks: int, n_steps: int = 6, **changes) -> Trainer:
        config = replace(self.CONFIG, n_steps=n_steps, **changes)
        recipe, noise = METHODS["fairdp"].recipe(config, (30.0, 30.0)), {"noise_multiplier": 1.0}
        plan = make_plan(recipe, PRIVATE, n_steps=n_steps, n_looks=n_looks, **noise)
        return Trainer(start(), grouped(), plan, config)

    @pytest.mark.parametrize("group_optimizers", [False, True])
    def test_they_are_those_that_a_last_step_would_make(self, group_optimizers):
        own = {"group_optimizers": group_optimizers}
        looking, ending = self.trainer(2, **own), self.trainer(1, n_steps=4, **own)
        for trainer in (looking, ending):
            for _ in range(3):
                trainer.step()
        ensemble = looking.ensemble()
        ending.step()
        assert torch.equal(ensemble, ending.state.model.params)
        assert ending.state.model.heads.norm(dim=1).max() <= 0.2 * (1 + 1e-6)

    def test_training_goes_on_as_if_nobody_had_looked(self):
        """But for its keys: those of the look are never used again."""
        trainer = self.trainer(2)
        trainer.step()
        state = trainer.state
        before = copy.deepcopy((state.model.params, state.optimizer, state.memory, state.step, state.chain.present))
        trainer.ensemble()
        params, optimizer, memory, step, key = before
        assert torch.equal(state.model.params, params)
        assert (state.optimizer.n_updates, state.memory, state.step) == (optimizer.n_updates, memory, step)
        assert all(torch.equal(state.optimizer.state[name], value) for name, value in optimizer.state.items())
        assert state.chain.present != key

    def test_one_more_than_planned_is_refused(self):
        trainer = self.trainer(3)
        for _ in range(2):
            trainer.ensemble()
        with pytest.raises(PrivacyBudgetExceeded, match="all 2 planned looks"):
            trainer.ensemble()
        for _ in range(6):
            trainer.step()
        with pytest.raises(PrivacyBudgetExceeded, match="all 6 planned steps"):
            trainer.step()


@pytest.mark.parametrize("n_members", [1, 4])
def test_an_empty_batch_is_a_step_of_noise(n_members):
    config = replace(CONFIG, n_steps=2, optimizer="sgd", n_members=n_members)
    state = start(optimizer="sgd")
    trainer = Trainer(state, grouped(), empty_plan(config), config)
    for _ in range(2):
        before = state.model.params.clone()
        trainer.step()
        assert state.model.params.isfinite().all()
        assert not torch.equal(state.model.params, before)
    assert state.model.heads.shape == (n_members, 6)


def test_one_group_without_bound_and_members_is_dp_sgd_bit_for_bit():
    data = grouped(n_groups=1)
    assert torch.equal(run("fairdp", CONFIG, data).params, run("dpsgd", CONFIG, data).params)


def test_that_check_notices_a_second_group():
    data = grouped(n_groups=2)
    assert not torch.equal(run("fairdp", CONFIG, data).params, run("dpsgd", CONFIG, data).params)


@pytest.mark.parametrize("n_members", [1, 5])
@pytest.mark.parametrize("bound", [0.25, 1.0])
def test_every_released_head_obeys_the_weight_bound(bound, n_members):
    config = replace(CONFIG, learning_rates=(0.5,), sgd_learning_rate=5.0, n_members=n_members)
    model = run("fairdp", replace(config, weight_bound=bound), grouped())
    norms = model.heads.double().norm(dim=1)
    assert len(norms) == n_members
    assert float(norms.max()) <= bound * (1 + 1e-6)
    free = run("fairdp", config, grouped())
    assert float(free.heads.norm(dim=1).max()) > bound


def test_a_step_beyond_the_plan_is_refused():
    data = grouped()
    config = replace(CONFIG, n_steps=2)
    plan = make_plan(METHODS["fairdp"].recipe(config, (30.0, 30.0)), PRIVATE, n_steps=2)
    trainer = Trainer(start(), data, plan, config)
    trainer.step()
    trainer.step()
    before = trainer.state.model.params.clone()
    with pytest.raises(PrivacyBudgetExceeded, match="all 2 planned steps"):
        trainer.step()
    assert torch.equal(trainer.state.model.params, before)


@pytest.mark.parametrize("method", [name for name, method in METHODS.items() if method.has_iterates])
def test_the_seeds_make_the_run(method):
    config = replace(CONFIG, n_members=3, weight_bound=1.0)
    params = run(method, config, grouped()).params
    assert torch.equal(params, run(method, config, grouped()).params)
    assert not torch.equal(params, run(method, config, grouped(), seed=7).params)


def test_the_mean_score_of_the_heads_is_the_score_of_the_mean_head():
    model = run("fairdp", replace(CONFIG, n_members=4), grouped())
    X = torch.from_numpy(grouped().X)
    each = model.embed(X) @ model.heads[:, :-1].T + model.heads[:, -1]
    torch.testing.assert_close(model.scores(X), each.mean(1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n_members", [1, 3])
def test_a_step_is_the_average_of_group_models_that_each_take_one(n_members):
    """The paper's form, naively: K models from one θ, each with its group's clipped sum over m_k, then the mean.

    The noise of the average is shared out to the group models, which changes nothing in the mean.
    """
    data = grouped(n_groups=3)
    config = replace(
        CONFIG,
        n_steps=1,
        optimizer="sgd",
        learning_rates=(0.3,),
        sgd_learning_rate=0.3,
        n_members=n_members,
        clip_norm=0.5,
    )
    plan = make_plan(METHODS["fairdp"].recipe(config, (20.0, 20.0, 20.0)), PRIVATE, n_steps=1)
    state, twin = start(optimizer="sgd"), start(optimizer="sgd")
    trainer = Trainer(state, data, plan, config)
    keys = twin.chain.step()
    (batch,) = trainer.sampler.draw(keys)
    members = keys.stream("members 0").words(len(batch)) % np.uint64(n_members)
    trainer.step()

    X, y = torch.from_numpy(data.X)[batch], torch.from_numpy(data.y)[batch].float()
    gradients = naive_gradients(twin.model, X, y)
    gradients *= (0.5 * MARGIN / gradients.norm(dim=1, keepdim=True)).clamp(max=1.0)
    n_extractor, head_size = twin.model.n_extractor_params, twin.model.width + 1
    no_sum = np.zeros(n_extractor + n_members * head_size)
    # Rounded to the lattice without the sum, which is a thousandth of the noise off.
    noise = torch.from_numpy(round_with_gaussian(no_sum, plan.noise_std, keys.stream("noise"))).float()
    theta = twin.model.params
    for member in range(n_members):
        models = []
        for group in range(3):
            own = torch.from_numpy(data.groups[batch] == group)
            mine = own & torch.from_numpy(members == member)
            extractor = theta[:n_extractor] - 0.3 * (gradients[own, :n_extractor].sum(0) / 4 + noise[:n_extractor])
            part = noise[n_extractor + member * head_size :][:head_size]
            head = theta[n_extractor:] - 0.3 * n_members * (gradients[mine, n_extractor:].sum(0) / 4 + part)
            models.append(torch.cat([extractor, head]))
        mean = torch.stack(models).mean(0)
        torch.testing.assert_close(
            state.model.params[:n_extractor], mean[:n_extractor], rtol=1e-4, atol=1e-3 * plan.noise_std
        )
        torch.testing.assert_close(state.model.heads[member], mean[n_extractor:], rtol=1e-4, atol=3e-3 * plan.noise_std)


def test_momentum_lives_on_after_the_hand_over_to_sgd():
    """Twenty steps, the last two by SGD with momentum: the second of them still moves by the first's velocity."""
    config = replace(CONFIG, n_steps=20, optimizer="adam_then_sgd", momentum=0.5, sgd_learning_rate=1.0)
    plan = empty_plan(config)
    state = start(momentum=0.5)
    trainer = Trainer(state, grouped(), plan, config)
    trail = []
    for _ in range(20):
        trainer.step()
        trail.append(state.model.params.clone())
    chain, nothing = start().chain, np.zeros(len(trail[0]))
    streams = [chain.step().stream("noise") for _ in range(20)]
    noise = [torch.from_numpy(round_with_gaussian(nothing, plan.noise_std, stream)) for stream in streams]
    expected = trail[18].double() - (0.5 * noise[18] + noise[19])
    torch.testing.assert_close(trail[19].double(), expected, rtol=1e-4, atol=1e-3 * plan.noise_std)


@pytest.mark.parametrize("method", METHODS)
def test_an_easy_task_is_learned_without_noise(method):
    data = grouped(400)
    config = replace(CONFIG, n_steps=80, weight_bound=5.0, n_members=3, sgd_learning_rate=0.01)
    scores = run(method, config, data, NOISELESS).scores(torch.from_numpy(data.X)).numpy()
    assert area_under_roc(data.y, scores)[0] > 0.9


def trainer_of(method: str, config: TrainConfig = CONFIG, *, sizes: tuple[float, ...] = (30.0, 30.0)) -> Trainer:
    plan = make_plan(METHODS[method].recipe(config, sizes), PRIVATE, n_steps=config.n_steps)
    return Trainer(start(n_cells=plan.recipe.n_cells), grouped(), plan, config)


@pytest.mark.parametrize("method", ["fairdp", "fairdp_parity", "raco_dp", "dpsgd_f", "dp_is_sgd"])
def test_no_two_draws_of_a_step_share_a_stream(method, monkeypatch):
    """Coins of the batch, of thinning and of heads, noise of statistics and gradient: each from words of its own."""
    asked, original = [], StepKeys.stream
    monkeypatch.setattr(StepKeys, "stream", lambda self, purpose: asked.append(purpose) or original(self, purpose))
    config = replace(CONFIG, n_steps=2, n_members=3, sample_rate=0.3)
    trainer = trainer_of(method, config, sizes=(40.0, 20.0))
    for _ in range(2):
        asked.clear()
        trainer.step()
        assert len(set(asked)) == len(asked) >= 2
        assert "noise" in asked


def test_noise_follows_the_largest_factor_on_the_clip_norm(monkeypatch):
    trainer, used = trainer_of("dpsgd_f"), []
    monkeypatch.setattr("fairdp.training.loop.add_gaussian_noise", lambda bounded, std, **more: used.append(std))
    grown = trainer.plan.recipe.sensitivities * np.array([1.0, 4.0])
    trainer._with_noise(BoundedSum(torch.zeros(3), grown), StepKeys(bytes(32)))
    assert used == [pytest.approx(4 * trainer.plan.noise_std)]


def test_a_step_counts_before_anything_of_it_is_drawn():
    class Broken:
        def draw(self, keys):
            raise RuntimeError("the table is gone")

    trainer = trainer_of("dpsgd")
    trainer.sampler, before = Broken(), trainer.state.chain.present
    with pytest.raises(RuntimeError, match="the table is gone"):
        trainer.release()
    assert trainer.state.step == 1
    assert trainer.state.chain.present != before


def test_no_two_steps_share_their_noise():
    trainer = trainer_of("dpsgd")
    trainer.sampler = replace(trainer.sampler, largest_rate=0.0)
    first, second = trainer.release(), trainer.release()
    assert not (first == second).any()


def test_a_plan_for_other_steps_is_refused():
    plan = make_plan(METHODS["dpsgd"].recipe(CONFIG, (30.0, 30.0)), PRIVATE, n_steps=2)
    with pytest.raises(ValueError, match="the plan has n_steps=2, the configuration n_steps=12"):
        Trainer(start(), grouped(), plan, CONFIG)


class Unstated(Companion):
    """Clip norms that follow something else than statistics, of which the privacy statement would not tell."""

    def __init__(self, beside: Coordinates | None) -> None:
        self.own = beside

    @property
    def beside(self) -> Coordinates | None:
        return self.own

    def clip_factors(self, memory):
        return torch.ones(1)


@pytest.mark.parametrize("beside", [None, Coordinates(size=2)])
def test_clip_norms_follow_statistics_only(beside):
    recipe = replace(METHODS["dpsgd"].recipe(CONFIG, (30.0, 30.0)), companion=Unstated(beside))
    with pytest.raises(ValueError, match="clip norms may follow released statistics only"):
        Trainer(start(), grouped(), make_plan(recipe, PRIVATE, n_steps=12), CONFIG)


def test_every_group_is_sampled_at_the_rate_of_the_plan():
    trainer = trainer_of("dp_is_sgd", replace(CONFIG, sample_rate=0.1), sizes=(50.0, 10.0))
    rates, sampler = np.array(trainer.plan.recipe.sample_rates), trainer.sampler
    assert rates[0] < rates[1] < 1
    found = sampler.largest_rate * sampler.keep_limits / 2.0**53
    np.testing.assert_allclose(found, rates, rtol=1e-12)
    np.testing.assert_array_equal(sampler.groups, grouped().groups)
