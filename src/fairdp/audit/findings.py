"""What one test of an attack found, beside what is stated."""

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A lower bound on ε, and the ε that it must not pass.

    Parameters
    ----------
    test
        What was tested, and how.
    epsilon, delta
        What is stated.
    epsilon_lower
        What the attack shows; zero: nothing.
    failure_probability
        Chance that the bound is above the true ε.
    counts
        The counts that the bound is made from, by name.
    """

    test: str
    epsilon: float
    delta: float
    epsilon_lower: float
    failure_probability: float
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether the statement survives."""
        return self.epsilon_lower <= self.epsilon
