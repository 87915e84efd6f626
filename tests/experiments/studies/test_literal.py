"""The algorithm to the letter: its gradients, its noise over realised batch sizes, and its heads."""

import numpy as np
import pytest
import torch

from fairdp.data.grouped import GroupedData
from fairdp.experiments.studies.literal import Adam, Literal, Network, _last_step, train_literally

RNG = np.random.default_rng(0)
X = np.hstack([RNG.normal(size=(40, 3)), np.ones((40, 1))])
Y = (RNG.random(40) < 0.4).astype(np.float64)


def by_autograd(network: Network, x: np.ndarray, y: float) -> np.ndarray:
    params = torch.tensor(network.params, requires_grad=True)
    layer, head = params[: -(network.hidden + 1)].reshape(network.hidden, -1), params[-(network.hidden + 1) :]
    score = torch.relu(layer @ torch.tensor(x)) @ head[:-1] + head[-1]
    torch.nn.functional.binary_cross_entropy_with_logits(score, torch.tensor(y)).backward()
    return params.grad.numpy()


@pytest.mark.parametrize("clip_norm", [0.1, 100.0])
def test_clipped_gradients_are_those_of_autograd_record_by_record(clip_norm):
    network = Network(n_inputs=3, hidden=5, rng=np.random.default_rng(1))
    rows = [by_autograd(network, x, y) for x, y in zip(X, Y, strict=True)]
    clipped = np.array([row * min(1.0, clip_norm / np.linalg.norm(row)) for row in rows])
    layer, heads = network.clipped_gradients(X, Y, clip_norm)
    assert layer == pytest.approx(clipped[:, : -(network.hidden + 1)].sum(0))
    assert heads == pytest.approx(clipped[:, -(network.hidden + 1) :])


def test_adam_is_that_of_torch():
    params = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    optimizer, ours, at = torch.optim.Adam([params], lr=0.01), Adam(), np.zeros(3)
    for gradient in np.random.default_rng(2).normal(size=(5, 3)):
        params.grad = torch.tensor(gradient)
        optimizer.step()
        at = at - ours.step(gradient, 0.01)
    assert at == pytest.approx(params.detach().numpy())


def test_a_head_sees_an_equal_part_of_each_batch_over_its_realised_size():
    """Without noise: 40 and 10 records in five parts of 8 and 2; the noise is over those sizes too."""
    network = Network(n_inputs=3, hidden=5, rng=np.random.default_rng(1))
    found = [network.clipped_gradients(X[:n], Y[:n], 1.0) for n in (40, 10)]
    before, layer = network.head.copy(), network.params[: -len(network.head)].copy()
    heads = _last_step(network, found, 0.0, 0.5, 5, np.random.default_rng(3))
    first = np.mean([found[0][1][8:16].sum(0) / 8, found[1][1][2:4].sum(0) / 2], axis=0)
    assert heads[1] == pytest.approx(before - 0.5 * first)
    moved = np.mean([found[0][0] / 40, found[1][0] / 10], axis=0)
    assert network.params[: -len(before)] == pytest.approx(layer - 0.5 * moved)
    noisy = _last_step(network, found, 1e6, 1.0, 5, np.random.default_rng(3))
    expected = 1e6 * np.sqrt(1 / 8**2 + 1 / 2**2) / 2
    # Thirty draws: a deviation of 13 % of the standard deviation, and the sizes of whole batches would give a fifth.
    assert (noisy - before).std() == pytest.approx(expected, rel=0.5)


def test_the_head_obeys_its_bound_before_the_last_step_and_the_run_learns():
    rng = np.random.default_rng(4)
    inputs = rng.normal(size=(400, 3)).astype(np.float32)
    groups = np.arange(400) % 2
    data = GroupedData(X=inputs, y=(inputs[:, 0] > 0).astype(np.int64), groups=groups, group_names=("a", "b"))
    task = Literal(dataset="", noise_multiplier=0.0, per_group=True, sample_rate=0.2, n_steps=200, weight_bound=0.5)
    network, heads = train_literally(task, data, rng)
    assert np.linalg.norm(network.head) == pytest.approx(0.5)
    assert heads.shape == (10, 33)
    rows = network.embedded(np.hstack([inputs, np.ones((400, 1))]))
    assert (((rows @ heads.T).mean(1) >= 0) == data.y).mean() > 0.9
