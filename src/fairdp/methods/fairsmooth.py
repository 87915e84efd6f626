"""FairSmooth: a separate model for every group, trained on smoothed parameters, and their average."""

from dataclasses import replace

from fairdp.accounting.recipe import Recipe
from fairdp.config.training import TrainConfig
from fairdp.methods.clean import clean


def fairsmooth(config: TrainConfig, group_sizes: tuple[float, ...]) -> Recipe:
    """Jin, Zhang, Zhou and Wu (2022), "Input-agnostic certified group fairness via Gaussian parameter smoothing".

    Every step takes its gradient at parameters with fresh Gaussian noise, and puts the parameters back. The deployed
    model averages over draws of the same noise. Not private: the FairDP paper compares with it as it is. The source
    has no public code; where it leaves the number of draws and the deviation open, ours are parameters.
    """
    return replace(clean(config, group_sizes), parameter_noise=config.parameter_noise, group_models=True)
