"""A freshly initialised model of each kind."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from fairdp._checks import InputError
from fairdp.config.model import ModelConfig
from fairdp.networks.extractors import cnn, logistic, mlp
from fairdp.networks.freshness import check_built_anew, check_untrained, note_start
from fairdp.networks.global_generator import seeded_globally
from fairdp.networks.hat_rows import HatRows
from fairdp.networks.layers import refuse_tied_parameters
from fairdp.networks.models import ExtractorBuilder, ScoreModel
from fairdp.networks.oriented_gradients import ImageRows

_LARGEST_SEED = 2**63 - 1


@dataclass(frozen=True, eq=False)
class Given:
    """A builder for a module that is there already: an own loop trains it in place, once."""

    module: nn.Module

    def __call__(self) -> nn.Module:
        return self.module


def build_model(
    config: ModelConfig,
    shape: tuple[int, ...],
    module: ExtractorBuilder | None,
    seed: int,
    *,
    will_be_replaced: bool = False,
) -> ScoreModel:
    """A freshly initialised model, the same for the same seed, whatever other threads draw.

    Parameters
    ----------
    seed
        Of all weights that it starts from. Torch's global generator is left as it was.
    will_be_replaced
        Whether all its numbers will be read from elsewhere, so that what it starts from does not matter.
    """
    generator = torch.Generator().manual_seed(seed)
    heads: dict[str, Any] = {"n_cells": config.n_cells, "bias": config.bias}
    if module is None:
        model = ScoreModel(_known_extractor(config, shape, generator), shape, generator, **heads)
    else:
        # Another stream than the head's, which would otherwise repeat the numbers of the first layer.
        own_seed = int(torch.randint(_LARGEST_SEED, (1,), generator=generator))
        extractor = _built(module, own_seed)
        if not will_be_replaced:
            check_untrained(extractor)
        # Its first forward pass may draw as well.
        with seeded_globally(own_seed):
            model = ScoreModel(extractor, shape, generator, **heads)
    note_start(model.extractor)
    return model


def _known_extractor(config: ModelConfig, shape: tuple[int, ...], generator: torch.Generator) -> nn.Module:
    if config.kind == "logistic" and config.n_cells:
        zeros = dict(zip(config.numeric, config.zeros, strict=True))
        bounds = {"most_squares": config.most_squares, "norm": config.row_norm}
        return HatRows(math.prod(shape), zeros, **bounds, bounded=config.bounded)
    if config.kind == "oriented_gradients":
        return ImageRows(shape, norm=config.row_norm)
    # Layers draw their first weights from the global generator as they are made; on this device they draw none.
    with torch.device("meta"):
        extractor = _layers(config, shape)
    extractor.to_empty(device="cpu")
    for layer in extractor.modules():
        if isinstance(layer, (nn.Linear, nn.Conv2d)):
            _start(layer, generator)
    return extractor


def _layers(config: ModelConfig, shape: tuple[int, ...]) -> nn.Module:
    if config.kind == "logistic":
        return logistic(config.n_active)
    activation, normalize = config.activation, config.normalize_embedding
    if config.kind == "mlp":
        return mlp(math.prod(shape), config.hidden, activation=activation, normalize_embedding=normalize)
    return cnn(shape, activation=activation, normalize_embedding=normalize)


def _start(layer: nn.Linear | nn.Conv2d, generator: torch.Generator) -> None:
    """Weights and biases as torch draws them, uniform within one over the root of the number of inputs."""
    bound = 1 / math.sqrt(layer.weight[0].numel())
    nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
    if layer.bias is not None:
        nn.init.uniform_(layer.bias, -bound, bound, generator=generator)


def _built(module: ExtractorBuilder, seed: int) -> nn.Module:
    """A user's module that has nothing in common with the next one its builder would return."""
    if isinstance(module, nn.Module):
        kind = type(module).__name__
        raise InputError(
            f"`module` must build the extractor when it is called, got a built {kind}; pass the class or a function."
        )
    with seeded_globally(seed):
        extractor = module()
        if not isinstance(extractor, nn.Module):
            raise InputError(f"`module` must return a torch.nn.Module, got {type(extractor).__name__}.")
        if not isinstance(module, Given):
            check_built_anew(extractor, module())
    refuse_tied_parameters(extractor)
    return extractor
