"""FairFM: the loss itself is made private, once for every group."""

from dataclasses import replace

from fairdp.accounting.recipe import Recipe
from fairdp.config.training import TrainConfig
from fairdp.methods.dpsgd import dpsgd


def fairfm(config: TrainConfig, group_sizes: tuple[float, ...]) -> Recipe:
    """Zhang et al. (2012), the functional mechanism for logistic regression, group by group, then averaged.

    No steps are taken on the data: each group releases the coefficients of its quadratic loss, in units of what one
    record can move in the L1 norm, with Laplace noise; what follows is post-processing. Groups are disjoint, so the
    guarantee is a pure ε, not a sum. The FairDP authors' first code has it with a sensitivity that is far too large.
    """
    whole = (1.0,) * len(group_sizes)
    return replace(
        dpsgd(config, group_sizes),
        sample_rates=whole,
        group_weights=group_sizes,
        clip_norm=1.0,
        noise_allocation="laplace",
    )
