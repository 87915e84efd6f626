"""The methods by name: each maps a configuration and public group sizes to a recipe."""

from collections.abc import Callable
from dataclasses import dataclass

from fairdp.config import TrainConfig
from fairdp.methods.clean import clean
from fairdp.methods.dpsgd import dpsgd
from fairdp.methods.fairdp import fairdp
from fairdp.training.recipe import Recipe


@dataclass(frozen=True, kw_only=True)
class Method:
    """A method's recipe and what it promises."""

    recipe: Callable[[TrainConfig, tuple[float, ...]], Recipe]
    private: bool
    guarantee: str
    paper: str
    needs_group_at_prediction: bool = False


METHODS: dict[str, Method] = {
    "clean": Method(recipe=clean, private=False, guarantee="none: not private", paper="—"),
    "dpsgd": Method(
        recipe=dpsgd,
        private=True,
        guarantee="(ε, δ)-DP per record",
        paper="Abadi et al., CCS 2016; Algorithm 3 of the FairDP paper",
    ),
    "fairdp": Method(
        recipe=fairdp,
        private=True,
        guarantee="(ε, δ)-DP per record, ε stated for every group",
        paper="FairDP: Achieving Fairness Certification with Differential Privacy, Algorithms 1 and 2",
    ),
}
