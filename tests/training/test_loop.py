"""The training loop: its steps, blocks, heads and looks, with and without noise."""

import copy
import json
import platform
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from classifier_cases import fitted
from fairdp.accounting.mechanisms import PrivacyBudget, SampledGaussian
from fairdp.accounting.plan import AuxiliaryMechanism, Coordinates, Plan, make_plan
from fairdp.config import TrainConfig
from fairdp.data.grouped import GroupedData
from fairdp.methods import METHODS
from fairdp.metrics import area_under_roc
from fairdp.networks.model import ScoreModel, mlp
from fairdp.randomness import Generators, StepKeys
from fairdp.training.loop import FlatOptimizer, PrivacyBudgetExceeded, Trainer, TrainingState, members_of, steps
from fairdp.training.noise import MARGIN, BoundedSum, round_with_gaussian
from score_models import naive_gradients

# By moments, which take a fraction of the time: how much noise there is does not matter here.
PRIVATE = PrivacyBudget(epsilon=2.0, delta=1e-5, accountant="rdp")
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


@pytest.mark.parametrize("method", ["fairdp", "raco_dp", "dpsgd_f", "dp_is_sgd"])
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


class Unstated(AuxiliaryMechanism):
    """Clip norms that follow something else than statistics, of which the privacy statement would not tell."""

    def __init__(self, auxiliary_release: Coordinates | None) -> None:
        self.own = auxiliary_release

    @property
    def auxiliary_release(self) -> Coordinates | None:
        return self.own

    def clip_factors(self, memory):
        return torch.ones(1)


@pytest.mark.parametrize("auxiliary_release", [None, Coordinates(size=2)])
def test_clip_norms_follow_statistics_only(auxiliary_release):
    recipe = replace(METHODS["dpsgd"].recipe(CONFIG, (30.0, 30.0)), auxiliary=Unstated(auxiliary_release))
    with pytest.raises(ValueError, match="clip norms may follow released statistics only"):
        Trainer(start(), grouped(), make_plan(recipe, PRIVATE, n_steps=12), CONFIG)


def test_every_group_is_sampled_at_the_rate_of_the_plan():
    trainer = trainer_of("dp_is_sgd", replace(CONFIG, sample_rate=0.1), sizes=(50.0, 10.0))
    rates, sampler = np.array(trainer.plan.recipe.sample_rates), trainer.sampler
    assert rates[0] < rates[1] < 1
    found = sampler.largest_rate * sampler.keep_limits / 2.0**53
    np.testing.assert_allclose(found, rates, rtol=1e-12)
    np.testing.assert_array_equal(sampler.groups, grouped().groups)


def trainer_of_blocks(method: str, n_samples: int, *, sample_rate: float, sizes: tuple[float, ...]) -> Trainer:
    config = TrainConfig(sample_rate=sample_rate, n_steps=12, clip_norm=1.0, learning_rates=(0.05,))
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_samples, 4)).astype(np.float32)
    data = GroupedData(X, (X[:, 0] + X[:, 1] > 0).astype(np.int64), np.arange(n_samples) % 2, ("a", "b"))
    plan = make_plan(METHODS[method].recipe(config, sizes), PRIVATE, n_steps=12)
    state = TrainingState(ScoreModel(mlp(4, (5,)), (4,)), FlatOptimizer("adam"), Generators.of(1).steps)
    return Trainer(state, data, plan, config)


def test_heads_of_other_blocks_are_drawn_apart():
    blocks, keys = [np.arange(500), np.arange(500, 1000)], StepKeys(bytes(32))
    first, second = members_of(blocks, 4, keys)
    assert not torch.equal(first, second)
    assert set(first.tolist()) == {0, 1, 2, 3}
    fewer, _ = members_of([blocks[0][:-1], blocks[1]], 4, keys)
    assert torch.equal(fewer, first[:-1])


def test_blocks_follow_the_planned_sizes():
    """Of 5,000 records where 6,000 were planned: how many there are must not move anybody to another block."""
    trainer = trainer_of_blocks("dpsgd", 5000, sample_rate=0.9, sizes=(3000.0, 3000.0))
    assert [block.start for block in trainer.sampler.blocks] == [0, 3000]


@pytest.mark.parametrize("method", ["dpsgd", "raco_dp"])
def test_blocks_change_a_step_by_rounding_only(method):
    trainer = trainer_of_blocks(method, 60, sample_rate=0.2, sizes=(30.0, 30.0))
    chosen = np.arange(0, 60, 2)
    cut = [chosen[:7], chosen[7:7], chosen[7:20], chosen[20:]]
    memory = trainer.state.memory
    sums = [trainer.sums.clipped_gradients(trainer.records.batch(blocks), memory).total for blocks in ([chosen], cut)]
    torch.testing.assert_close(*sums, rtol=1e-5, atol=1e-7)
    if method == "raco_dp":
        found = [trainer.sums.statistics(trainer.records.batch(b), memory).total for b in ([chosen], cut)]
        torch.testing.assert_close(*found, rtol=1e-6, atol=1e-7)


SIZES = (10, 30)
PLAIN = TrainConfig(
    sample_rate=1.0,
    n_steps=2,
    clip_norm=100.0,
    learning_rates=(0.3,),
    sgd_learning_rate=0.07,
    optimizer="sgd",
    weight_bound=np.inf,
    n_members=1,
)


def plain_trainer(method: str, config: TrainConfig = PLAIN) -> Trainer:
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
    trainer = plain_trainer(method)
    for _ in range(2):
        before, gradient = trainer.state.model.params.clone(), risk_gradient(trainer, balanced=method == "fairdp")
        trainer.step()
        torch.testing.assert_close(trainer.state.model.params, before - 0.3 * gradient, rtol=1e-4, atol=1e-6)


def test_that_check_tells_the_two_risks_apart():
    trainer = plain_trainer("fairdp")
    assert not torch.allclose(*(risk_gradient(trainer, balanced=b) for b in (True, False)), atol=1e-3)


def test_the_last_step_takes_the_rate_of_sgd_for_every_head():
    """Two heads, each from the sum of its own half: .07 · 2 for a head, .07 for the extractor."""
    trainer = plain_trainer("fairdp", replace(PLAIN, n_members=2))
    model = trainer.state.model
    before, n = model.params.clone(), model.n_extractor_params
    trainer.update(torch.arange(n + 10.0), 2)
    torch.testing.assert_close(model.params[:n], before[:n] - 0.07 * torch.arange(n))
    for member in (0, 1):
        sums = n + 5.0 * member + torch.arange(5)
        torch.testing.assert_close(model.heads[member], before[n:] - 0.14 * sums)


def test_the_head_is_in_the_ball_before_the_first_step():
    """The first gradients are those of a head that obeys M, as all others are."""
    free, bounded = (plain_trainer("fairdp", replace(PLAIN, weight_bound=bound)) for bound in (np.inf, 0.05))
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


MEASURE = """
import json
import resource
from pathlib import Path

import torch

from fairdp.training.loop import kept_memory


def pages_cleared():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(4):
        torch.ones(BLOCK, dtype=torch.uint8)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def fewest():
    # Where the heap begins decides how many aligned blocks fit no gap at first, and that differs from run to run.
    return min(pages_cleared() for _ in range(6))


BLOCK = 40 * 2**20
usual, before = fewest(), resident()
with kept_memory():
    kept, inside = fewest(), resident()
blocks = [(resident_bytes - before) / BLOCK for resident_bytes in (inside, resident())]
print(json.dumps({"usual": usual, "kept": kept, "blocks_inside": blocks[0], "blocks_after": blocks[1]}))
"""


@pytest.mark.more
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc's allocator is told anything")
def test_blocks_are_used_again_and_given_back_at_the_end():
    done = subprocess.run([sys.executable, "-c", MEASURE], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    # Outside, every block is cleared anew each time; inside, once in a while at most.
    assert found["kept"] < found["usual"] / 3
    assert found["blocks_after"] < 0.5 < found["blocks_inside"]
