import math

import pytest
import torch

from fairdp.training.state import FlatOptimizer
from fairdp.training.update import project_to_ball, split_into_members


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


def test_no_head_is_longer_than_the_bound_after_projection():
    heads = torch.randn(2000, 9, generator=torch.Generator().manual_seed(0)) * 100
    project_to_ball(heads, 0.75)
    assert float(heads.double().norm(dim=1).max()) <= 0.75 * (1 + 1e-6)


def test_an_infinite_bound_leaves_the_heads_alone():
    heads = torch.full((2, 3), 1e6)
    project_to_ball(heads, math.inf)
    assert heads.eq(1e6).all()


def test_the_split_into_members_by_hand():
    # Extractor of one parameter, heads of width one and a bias: θ = (φ; w, b) = (1; 2, 3), rate ½, two members.
    params = torch.tensor([1.0, 2.0, 3.0])
    noisy = torch.tensor([0.2, 1.0, 2.0, -1.0, 0.0])
    members = split_into_members(params, noisy, width=1, n_members=2, learning_rate=0.5)
    # φ − ½ · .2; head 1: (2, 3) − ½ · 2 · (1, 2); head 2: (2, 3) − ½ · 2 · (−1, 0).
    torch.testing.assert_close(members, torch.tensor([0.9, 1.0, 1.0, 3.0, 3.0]))
    assert params.tolist() == [1.0, 2.0, 3.0]


def test_the_mean_of_the_members_is_the_ordinary_step():
    rng = torch.Generator().manual_seed(0)
    params, noisy = torch.randn(6, generator=rng), torch.randn(2 + 3 * 4, generator=rng)
    members = split_into_members(params, noisy, width=3, n_members=3, learning_rate=0.1)
    step = params[2:] - 0.1 * noisy[2:].view(3, 4).sum(0)
    torch.testing.assert_close(members[2:].view(3, 4).mean(0), step)
