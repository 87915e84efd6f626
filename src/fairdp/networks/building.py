"""A freshly initialised model of each kind."""

import numpy as np
import torch
from torch import nn

from fairdp._checks import InputError
from fairdp.config.model import ModelConfig
from fairdp.networks.extractors import cnn, logistic, mlp
from fairdp.networks.models import ExtractorBuilder, ScoreModel


def build_model(
    config: ModelConfig, shape: tuple[int, ...], module: ExtractorBuilder | None, rng: np.random.Generator
) -> ScoreModel:
    """A freshly initialised model; torch's global generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(rng.integers(2**63)))
        if module is not None:
            return ScoreModel(_built(module), shape)
        if config.kind == "logistic":
            return ScoreModel(logistic(config, shape), shape)
        activation, normalize = config.activation, config.normalize_embedding
        if config.kind == "mlp":
            n_features = int(np.prod(shape))
            return ScoreModel(
                mlp(n_features, config.hidden, activation=activation, normalize_embedding=normalize), shape
            )
        return ScoreModel(cnn(shape, activation=activation, normalize_embedding=normalize), shape)


def _built(module: ExtractorBuilder) -> nn.Module:
    if isinstance(module, nn.Module):
        kind = type(module).__name__
        raise InputError(
            f"`module` must build the extractor when it is called, got a built {kind}; pass the class or a function."
        )
    return module()
