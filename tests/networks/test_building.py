"""The weights that a model starts from: torch's laws, but never its global generator."""

import pytest
import torch
from torch import nn

from fairdp.config.model import ModelConfig
from fairdp.networks.building import build_model

SHAPES = {"logistic": (5,), "mlp": (5,), "cnn": (1, 16, 16)}


@pytest.mark.parametrize("kind", SHAPES)
def test_built_in_networks_start_as_torch_starts_them(kind):
    """The same numbers as torch draws for the same layers from the same seed: hence the same laws."""
    model = build_model(ModelConfig(kind=kind), SHAPES[kind], None, 7)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        for layer in model.extractor.modules():
            if isinstance(layer, (nn.Linear, nn.Conv2d)):
                own, bias = layer.weight.clone(), layer.bias.clone()
                layer.reset_parameters()
                torch.testing.assert_close(own, layer.weight)
                torch.testing.assert_close(bias, layer.bias)
        head = nn.init.uniform_(torch.empty(model.width + 1), -(model.width**-0.5), model.width**-0.5)
    torch.testing.assert_close(model.heads[0], head)


@pytest.mark.parametrize("kind", SHAPES)
def test_the_global_generator_is_neither_asked_nor_moved(kind):
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    first = build_model(ModelConfig(kind=kind), SHAPES[kind], None, 7)
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(2)
    assert torch.equal(build_model(ModelConfig(kind=kind), SHAPES[kind], None, 7).params, first.params)
    assert not torch.equal(build_model(ModelConfig(kind=kind), SHAPES[kind], None, 8).params, first.params)


def test_a_users_module_follows_the_seed_and_its_head_is_independent_of_it():
    def build() -> nn.Module:
        return nn.Linear(4, 4)

    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    first, same, other = (build_model(ModelConfig(kind="custom"), (4,), build, seed) for seed in (7, 7, 8))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(first.params, same.params)
    assert not torch.equal(first.params, other.params)
    # Both are uniform within 1/2; from one stream the first five numbers would be the same.
    assert not torch.isclose(first.params[:5], first.heads[0]).any()
