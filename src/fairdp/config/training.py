"""The numbers of a training run."""

import math
from dataclasses import dataclass, fields
from typing import Any

from fairdp import _checks
from fairdp._checks import ParameterError
from fairdp.config import theorem_4
from fairdp.config.parameters import DECLARED, DEFAULT_MAX_GAP, Parameters, check_parameters


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    r"""How a run is sampled, clipped and optimised: the parameters of these names, with every default filled in.

    Parameters
    ----------
    learning_rates
        Step sizes :math:`\eta`, each used for an equal part of the run; the paper uses (.007, .005). The other
        schedules, of `fairdp.config.theorem_4`, need none.
    weights
        Weights of the groups in their order, of which only the ratios matter; none: all alike.
    largest_noise_step
        Standard deviation of the noise that a step adds to a parameter, at most: the step size is lowered to it. At
        the clip norm above, where a method makes it larger, and before momentum.
    price
        Most accuracy to pay for a unit of gap; infinite to pay what it takes.
    asks, asks_share
        What the input layer of a model asks about all records before training, as a code, and its share of the privacy.
    """

    sample_rate: float
    n_steps: int
    clip_norm: float
    learning_rates: tuple[float, ...]
    schedule: str = Parameters.schedule
    diameter: float = Parameters.diameter
    optimizer: str = "adam"
    adam_share: float = Parameters.adam_share
    momentum: float = 0.0
    sgd_learning_rate: float = Parameters.sgd_learning_rate
    weight_bound: float = Parameters.weight_bound
    n_members: int = Parameters.n_members
    noise_allocation: str = Parameters.noise_allocation
    group_optimizers: bool = Parameters.group_optimizers
    weights: tuple[float, ...] = ()
    max_physical_batch_size: int | None = Parameters.max_physical_batch_size
    parity: str = Parameters.parity
    max_gap: float = DEFAULT_MAX_GAP
    min_ratio: float = 0.0
    positive_rate: float | None = None
    largest_noise_step: float = math.inf
    price: float = math.inf
    cost_ratio: float = Parameters.cost_ratio
    asks: str = ""
    asks_share: float = 0.0
    fairness_weight: float = Parameters.fairness_weight
    grouping: str = Parameters.grouping
    max_sample_rate: float = Parameters.max_sample_rate
    parameter_noise: float = Parameters.parameter_noise
    n_draws: int = Parameters.n_draws

    def __post_init__(self) -> None:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        check_parameters(
            learning_rate=self.learning_rates,
            **{name: value for name, value in values.items() if name in DECLARED},
        )
        _checks.positive(largest_noise_step=self.largest_noise_step)
        if self.group_optimizers and self.noise_allocation != "per_group":
            raise ParameterError(
                "group_optimizers",
                self.group_optimizers,
                f"releases every group's sum, but `noise_allocation`={self.noise_allocation!r} is for their average",
                "use `noise_allocation`='per_group'",
            )
        for name in ("n_steps", "n_members", "max_physical_batch_size"):
            object.__setattr__(self, name, values[name] and int(values[name]))

    def learning_rate(
        self, step: int, *, n_groups: int, n_params: int, noise_multiplier: float, noise_std: float
    ) -> float:
        """Step size at a step counted from zero; ``noise_std`` is that of the noise on the released mean gradient."""
        if self.schedule == "piecewise":
            part = min(step * len(self.learning_rates) // self.n_steps, len(self.learning_rates) - 1)
            return self.learning_rates[part]
        if self.schedule == "shamir_zhang":
            longest = theorem_4.gradient_norm(clip_norm=self.clip_norm, noise_std=noise_std, n_params=n_params)
            return theorem_4.shamir_zhang_rate(step + 1, diameter=self.diameter, gradient_norm=longest)
        return theorem_4.printed_rate(
            step + 1,
            n_groups=n_groups,
            noise_multiplier=noise_multiplier,
            clip_norm=self.clip_norm,
            n_params=n_params,
        )

    def is_after_adam(self, step: int) -> bool:
        """Whether Adam has handed over to SGD at a step counted from zero."""
        return self.optimizer == "adam_then_sgd" and step >= self.adam_share * self.n_steps

    def step_size(self, step: int, *, n_groups: int, n_params: int, noise_multiplier: float, noise_std: float) -> float:
        """Step size of an update: the schedule's, or that of SGD after Adam, lowered where the noise is large."""
        rate = self.learning_rate(
            step, n_groups=n_groups, n_params=n_params, noise_multiplier=noise_multiplier, noise_std=noise_std
        )
        if self.is_after_adam(step):
            rate = self.sgd_learning_rate
        return min(rate, self.largest_noise_step / noise_std) if noise_std else rate


def plain(value: Any) -> Any:
    """A NumPy scalar, as grid searches set them, as the Python number it stands for."""
    return value.item() if getattr(value, "ndim", None) == 0 else value
