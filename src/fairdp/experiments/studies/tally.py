"""Events against a promised rate."""

from typing import Any

from scipy.stats import binomtest

# A construction that breaks its promise is called caught when keeping it would make so many events this unlikely.
CAUGHT = 1e-6


def tally(events: int, trials: int, promised: float) -> dict[str, Any]:
    """Counts, rate, and the chance of at least so many events if each had the promised probability at most."""
    chance = float(binomtest(events, trials, promised, alternative="greater").pvalue)
    return {"events": events, "trials": trials, "rate": events / trials, "promised": promised, "p_value": chance}
