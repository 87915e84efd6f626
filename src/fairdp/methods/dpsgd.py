"""DP-SGD: the recipe that all other methods modify."""

from fairdp.accounting.recipe import Recipe
from fairdp.config.training import TrainConfig


def dpsgd(config: TrainConfig, group_sizes: tuple[float, ...]) -> Recipe:
    """Abadi et al. (2016), Algorithm 1, with the expected batch size as normaliser.

    Line 3 samples every record with the same chance, whatever its group; weighting each group's mean by its share
    makes the sum that of the pooled data, S / (q n). Noise of one draw, scaled to C / (q n).
    """
    n_samples = sum(group_sizes)
    return Recipe(
        group_sizes=group_sizes,
        sample_rates=(config.sample_rate,) * len(group_sizes),
        group_weights=tuple(size / n_samples for size in group_sizes),
        clip_norm=config.clip_norm,
        noise_allocation="average",
    )
