"""DP-IS-SGD: groups are sampled so that each is seen as often as the others."""

from dataclasses import replace

from fairdp._checks import ParameterError
from fairdp.accounting.recipe import Recipe
from fairdp.config.training import TrainConfig
from fairdp.methods.dpsgd import dpsgd


def dp_is_sgd(config: TrainConfig, group_sizes: tuple[float, ...]) -> Recipe:
    r"""Kulynych et al. (2022), "What you see is what you get", DP-SGD with importance sampling.

    A record of group k is sampled with probability :math:`q_k = q n / (K n_k)`, at most ``max_sample_rate``, so that
    every group has the same expected number of records in a batch; all records weigh alike, :math:`1 / (q n)`. A record
    of a small group takes part more often, so each group is accounted at its own rate and ε is the largest. In
    expectation a step follows the group-balanced risk, as FairDP does; the FairDP paper's best rival.
    """
    batch_size, n_groups = config.sample_rate * sum(group_sizes), len(group_sizes)
    rates = tuple(min(config.max_sample_rate, batch_size / (n_groups * size)) for size in group_sizes)
    if min(rate * size for rate, size in zip(rates, group_sizes, strict=True)) < 1:
        enough = f"use {1 / min(group_sizes):.2g} or more"
        raise ParameterError(
            "max_sample_rate", config.max_sample_rate, "leaves fewer than one record of a group in a batch", enough
        )
    weights = tuple(rate * size / batch_size for rate, size in zip(rates, group_sizes, strict=True))
    return replace(dpsgd(config, group_sizes), sample_rates=rates, group_weights=weights)
