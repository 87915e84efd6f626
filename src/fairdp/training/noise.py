"""The Gaussian mechanism on a sum whose sensitivity is known."""

import numpy as np
import torch
from numpy.typing import NDArray

from fairdp.training.clipping import BoundedSum


def add_gaussian_noise(
    bounded: BoundedSum,
    noise_std: float,
    *,
    accounted_multipliers: NDArray[np.float64],
    rng: np.random.Generator,
) -> torch.Tensor:
    """Release of a bounded sum, one vector or one for each group; refuses noise below what is accounted for any group.

    The noise is drawn and added in double precision and the result rounded once: a single-precision draw has
    visible gaps between its values (Mironov, 2012). The generator is NumPy's, because torch's takes a seed of only
    32 bits.
    """
    if noise_std == 0 and not accounted_multipliers.any():
        return bounded.total.float()
    if not np.all(noise_std >= accounted_multipliers * bounded.sensitivities * (1 - 1e-9)):
        raise ValueError(f"noise_std={noise_std} is below what is accounted for sensitivities {bounded.sensitivities}.")
    noise = torch.from_numpy(rng.standard_normal(tuple(bounded.total.shape)))
    return noise.mul_(noise_std).add_(bounded.total).float()
