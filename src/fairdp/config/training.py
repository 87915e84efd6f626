"""The numbers of a model and of a training run."""

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any

from fairdp import _checks

OPTIMIZERS = ("adam", "sgd", "adam_then_sgd")
SCHEDULES = ("piecewise", "inverse_sqrt")
PARITIES = ("demographic_parity", "equal_opportunity", "equalized_odds")
DEFAULT_METHOD = "fairdp_parity"
DEFAULT_MAX_GAP = 0.03
GROUPINGS = ("attribute", "attribute_and_label")
LARGEST_PHYSICAL_BATCH = 4_096


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    r"""How a run is sampled, clipped and optimised.

    Parameters
    ----------
    sample_rate
        Chance of a record to be in a batch, :math:`q`.
    n_steps
        Number of steps, :math:`T`.
    clip_norm
        Bound on a record's gradient, :math:`C`.
    learning_rates
        Step sizes :math:`\eta`, each used for an equal part of the run; the paper uses (.007, .005).
    schedule
        ``"piecewise"``, or ``"inverse_sqrt"``: :math:`\eta_1 K / \sqrt{t (1 + K \sigma^2 C^2)}`, the decay of
        Theorem 4 with its constants folded into the first learning rate.
    optimizer
        ``"adam"``, ``"sgd"``, or ``"adam_then_sgd"``: Adam until the last tenth of the run, then SGD, so that the last
        steps move the head by a Gaussian.
    sgd_learning_rate
        Step size of SGD after the hand-over and in the last step that makes the ensemble.
    weight_bound
        Bound on the norm of the head, :math:`M`.
    n_members
        Heads of the ensemble, :math:`N`.
    noise_allocation
        ``"per_group"`` (the paper) or ``"average"``; see `Recipe`.
    max_physical_batch_size
        Records per forward pass: memory against speed, no effect on the result but rounding.
    parity, max_gap, min_ratio, positive_rate
        For methods that take a target: which rates should agree between the groups, by how much they may differ,
        what the smallest over the largest must be at least, and the share of positive decisions (None: any).
    largest_noise_step
        Standard deviation of the noise that a step adds to a parameter, at most: the step size is lowered to it. At
        the clip norm above, where a method makes it larger, and before momentum.
    steps_per_look
        Every how many steps ``fairdp_parity`` looks at the decisions of the averaged model.
    fairness_weight
        Weight of the penalty of methods that have one, :math:`\lambda`.
    grouping, max_sample_rate
        What is sampled equally often by ``dp_is_sgd``: groups, or groups and labels; and the largest rate allowed.
    parameter_noise, n_draws
        Deviation of the noise on the parameters and number of draws, for methods that smooth their parameters.
    """

    sample_rate: float
    n_steps: int
    clip_norm: float
    learning_rates: tuple[float, ...]
    schedule: str = "piecewise"
    optimizer: str = "adam"
    momentum: float = 0.0
    sgd_learning_rate: float = 0.005
    weight_bound: float = 1.0
    n_members: int = 10
    noise_allocation: str = "per_group"
    max_physical_batch_size: int = 4096
    parity: str = "demographic_parity"
    max_gap: float = DEFAULT_MAX_GAP
    min_ratio: float = 0.0
    positive_rate: float | None = None
    largest_noise_step: float = math.inf
    steps_per_look: int = 1
    fairness_weight: float = 10.0
    grouping: str = "attribute"
    max_sample_rate: float = 1.0
    parameter_noise: float = 0.1
    n_draws: int = 100

    def __post_init__(self) -> None:
        _checks.sample_rate(sample_rate=self.sample_rate)
        _checks.positive_integer(
            n_steps=self.n_steps,
            n_members=self.n_members,
            max_physical_batch_size=self.max_physical_batch_size,
            steps_per_look=self.steps_per_look,
        )
        if self.max_physical_batch_size > LARGEST_PHYSICAL_BATCH:
            raise ValueError(
                f"max_physical_batch_size must be at most {LARGEST_PHYSICAL_BATCH}, because larger sums would round "
                f"past the bound in single precision; got {self.max_physical_batch_size!r}."
            )
        for name in ("n_steps", "n_members", "max_physical_batch_size"):
            object.__setattr__(self, name, int(getattr(self, name)))
        _checks.finite_positive(clip_norm=self.clip_norm)
        _checks.positive(weight_bound=self.weight_bound, largest_noise_step=self.largest_noise_step)
        for rate in (*self.learning_rates, self.sgd_learning_rate):
            _checks.finite_positive(learning_rate=rate)
        if not self.learning_rates:
            raise ValueError("learning_rate must hold at least one value, got ().")
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum must be in [0, 1), got {self.momentum!r}.")
        _checks.one_of(OPTIMIZERS, optimizer=self.optimizer)
        _checks.one_of(SCHEDULES, schedule=self.schedule)
        _checks.one_of(("per_group", "average"), noise_allocation=self.noise_allocation)
        _checks.one_of(PARITIES, parity=self.parity)
        _checks.one_of(GROUPINGS, grouping=self.grouping)
        _checks.sample_rate(max_sample_rate=self.max_sample_rate)
        _checks.positive_integer(n_draws=self.n_draws)
        _checks.finite_positive(parameter_noise=self.parameter_noise)
        _checks.target(max_gap=self.max_gap, min_ratio=self.min_ratio, positive_rate=self.positive_rate)
        if not (isinstance(self.fairness_weight, Real) and 0 <= self.fairness_weight < math.inf):
            raise ValueError(f"fairness_weight must be at least 0 and finite, got {self.fairness_weight!r}.")

    def learning_rate(self, step: int, *, n_groups: int, noise_multiplier: float) -> float:
        """Step size at a step counted from zero."""
        if self.schedule == "piecewise":
            part = min(step * len(self.learning_rates) // self.n_steps, len(self.learning_rates) - 1)
            return self.learning_rates[part]
        decay = math.sqrt((step + 1) * (1 + n_groups * (noise_multiplier * self.clip_norm) ** 2))
        return self.learning_rates[0] * n_groups / decay


def plain(value: Any) -> Any:
    """A NumPy scalar, as grid searches set them, as the Python number it stands for."""
    return value.item() if hasattr(value, "item") else value
