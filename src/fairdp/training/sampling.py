"""Poisson sampling of every group at its own rate."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class PoissonSampler:
    """Independent coins, one per record, without tossing them one by one.

    All records are sampled at the largest rate: first how many (a binomial), then which (distinct, uniform). Records
    of groups with a smaller rate are then kept with the ratio of the rates. Both steps give exactly the law of
    independent coins, in time proportional to the batch.
    """

    n_samples: int
    largest_rate: float
    keep_rates: NDArray[np.float64] | None

    @classmethod
    def of_groups(cls, groups: NDArray[np.int64], sample_rates: tuple[float, ...]) -> "PoissonSampler":
        """Sampler of records whose group codes are given, with one rate per code."""
        largest = max(sample_rates)
        equal = all(rate == largest for rate in sample_rates)
        keep = None if equal else (np.asarray(sample_rates) / largest)[groups]
        return cls(len(groups), largest, keep)

    def draw(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """Positions of the records in one batch; possibly none."""
        size = rng.binomial(self.n_samples, self.largest_rate)
        batch = rng.choice(self.n_samples, size, replace=False, shuffle=False)
        if self.keep_rates is None:
            return batch
        return batch[rng.random(size) < self.keep_rates[batch]]
