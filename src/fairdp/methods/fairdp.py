"""FairDP as the paper describes it, corrected where that is not private."""

from dataclasses import replace

from fairdp.accounting.recipe import Recipe
from fairdp.config.training import TrainConfig
from fairdp.methods.dpsgd import dpsgd


def fairdp(config: TrainConfig, group_sizes: tuple[float, ...]) -> Recipe:
    """FairDP, Algorithms 1 and 2, with the corrections that make its privacy claim true.

    Line 4, weight clip: after the step, so that the released head obeys M too, and with the bias in the norm.
    Lines 7–11, per group: Poisson sample, clip, noise; the update divides by the *expected* batch size, because the
    realised one is private and may be zero. Lines 12–13, aggregation: one optimiser takes the average of the groups'
    gradients, with equal weights unless others are given; or, with ``group_optimizers``, every group's own optimiser
    takes its gradient, and where they arrive is averaged. For SGD both are the same.
    Algorithm 2 (DP-MC): each sampled record picks its micro-batch by an independent uniform draw; a contiguous
    partition would let one record shift all the others.
    """
    weights = config.weights or (1.0,) * len(group_sizes)
    return replace(
        dpsgd(config, group_sizes),
        group_weights=tuple(weight / sum(weights) for weight in weights),
        noise_allocation=config.noise_allocation,
        weight_bound=config.weight_bound,
        n_members=config.n_members,
        group_optimizers=config.group_optimizers,
    )
