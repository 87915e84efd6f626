"""Training without privacy, on the same batches as the private methods."""

import math
from dataclasses import replace

from fairdp.accounting.recipe import Recipe
from fairdp.config.training import TrainConfig
from fairdp.methods.dpsgd import dpsgd


def clean(config: TrainConfig, group_sizes: tuple[float, ...]) -> Recipe:
    """DP-SGD without clipping and without noise: no guarantee, the reference for utility."""
    return replace(dpsgd(config, group_sizes), clip_norm=math.inf, noise_allocation="none")
