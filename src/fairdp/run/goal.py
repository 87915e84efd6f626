"""What a user fixes of ε, noise and number of steps, the rest of which follows."""

import math
from dataclasses import dataclass

from fairdp._checks import ParameterError
from fairdp.accounting.mechanisms import PrivacyBudget
from fairdp.config.parameters import DEFAULT_EPSILON, Parameters, check_parameters
from fairdp.methods import METHODS


@dataclass(frozen=True, kw_only=True)
class PrivacyGoal:
    """What was chosen about privacy.

    Without a noise multiplier, the noise follows from ε and the number of steps. With one, ε follows from the steps,
    or the steps from ε: as many as stay within it.
    """

    epsilon: float | None = None
    delta: float = Parameters.delta
    accountant: str = Parameters.accountant
    noise_multiplier: float | None = None
    n_steps: int | None = None

    def __post_init__(self) -> None:
        PrivacyBudget(epsilon=DEFAULT_EPSILON if self.epsilon is None else self.epsilon, delta=self.delta)
        check_parameters(noise_multiplier=self.noise_multiplier, n_steps=self.n_steps, accountant=self.accountant)
        if self.noise_multiplier is None:
            return
        if self.epsilon is None and self.n_steps is None:
            raise ParameterError(
                "noise_multiplier",
                self.noise_multiplier,
                "alone fixes nothing",
                "give `n_steps`, and ε follows, or `epsilon`, and the number of steps follows",
            )
        if self.epsilon is not None and self.n_steps is not None:
            raise ParameterError(
                "noise_multiplier",
                self.noise_multiplier,
                f"leaves no choice of both `epsilon`={self.epsilon:g} and `n_steps`={self.n_steps}",
                "leave out one of the three: it follows from the other two",
            )
        if self.epsilon is not None and math.isinf(self.epsilon):
            raise ParameterError(
                "noise_multiplier", self.noise_multiplier, "is noise, and `epsilon`=inf means none", "leave out one"
            )

    def check_for(self, method: str, *, counted: bool = False) -> None:
        """Refuse a method without noisy steps, or one whose ε would follow from what was counted."""
        if self.noise_multiplier is None:
            return
        if METHODS[method].closed_form or not METHODS[method].private:
            reason = "takes no steps" if METHODS[method].closed_form else "adds no noise"
            raise ParameterError(
                "noise_multiplier",
                self.noise_multiplier,
                f"is the noise of a private step, and `method`={method!r} {reason}",
                "leave it out",
            )
        if self.epsilon_follows and counted and method == "dp_is_sgd":
            raise ParameterError(
                "noise_multiplier",
                self.noise_multiplier,
                "with `n_steps` would make ε follow from the noisy sizes that `method`='dp_is_sgd' samples by",
                "declare `group_sizes`, or give `epsilon` in place of `n_steps`",
            )

    @property
    def epsilon_follows(self) -> bool:
        """Whether ε is what the noise and the number of steps spend."""
        return self.noise_multiplier is not None and self.n_steps is not None

    @property
    def is_private(self) -> bool:
        """Whether any noise is asked for."""
        return self.epsilon is None or math.isfinite(self.epsilon)

    def budget(self, epsilon: float | None = None) -> PrivacyBudget:
        """The budget, with the ε that was chosen, or that follows."""
        if self.epsilon is not None:
            epsilon = self.epsilon
        elif not self.epsilon_follows:
            epsilon = DEFAULT_EPSILON
        assert epsilon is not None
        # An ε that follows is that of the δ it was computed for.
        # The default itself, and not the same number: what somebody chose is kept or refused, never changed.
        adapts = self.delta is Parameters.delta and not self.epsilon_follows
        return PrivacyBudget(epsilon=epsilon, delta=self.delta, accountant=self.accountant, adapts=adapts)
