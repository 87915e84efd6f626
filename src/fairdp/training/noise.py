"""The Gaussian mechanism on a sum whose sensitivity is known."""

import numpy as np
import torch
from numpy.typing import NDArray

from fairdp.releases import leave
from fairdp.streams import Stream
from fairdp.team import the_team
from fairdp.training.clipping import BoundedSum
from fairdp.training.lattice import round_with_gaussian


def add_gaussian_noise(
    bounded: BoundedSum,
    noise_std: float,
    *,
    accounted_multipliers: NDArray[np.float64],
    stream: Stream,
    purpose: str = "gradient",
) -> torch.Tensor:
    """Release of a bounded sum, one vector or one for each group; refuses noise below what is accounted for any group.

    Released values are points of a lattice, with exactly the law of rounded Gaussian noise (`fairdp.training.lattice`).
    The first process of a team has the sum, draws the noise, and tells the others what is released.
    """
    team = the_team()
    if noise_std == 0 and not accounted_multipliers.any():
        return team.told(bounded.total.float())
    if not np.all(noise_std >= accounted_multipliers * bounded.sensitivities * (1 - 1e-9)):
        raise ValueError(f"noise_std={noise_std} is below what is accounted for sensitivities {bounded.sensitivities}.")
    if not team.is_first:
        return team.told(bounded.total.float())
    exact = bounded.total.double().numpy()
    noisy = round_with_gaussian(exact, noise_std, stream)
    left = leave(noisy, purpose=purpose, law="gaussian", scale=noise_std, exact=exact)
    return team.told(torch.from_numpy(left).float())
