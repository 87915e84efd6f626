"""The methods by name: each maps a configuration and public group sizes to a recipe."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from fairdp.accounting.recipe import Recipe
from fairdp.config.training import TrainConfig
from fairdp.methods.clean import clean
from fairdp.methods.dp_is_sgd import dp_is_sgd
from fairdp.methods.dpsgd import dpsgd
from fairdp.methods.fairdp import fairdp
from fairdp.methods.fairfm import fairfm
from fairdp.methods.fairsmooth import fairsmooth

_RECORD = "(ε, δ)-DP per record"

# Share of epsilon that a post-processing method spends on counting its decisions.
_HISTOGRAM_SHARE = 0.1

MakeRecipe = Callable[[TrainConfig, tuple[float, ...]], Recipe]


def _with_companion(name: str) -> MakeRecipe:
    """The recipe of a method that needs torch; imported on use, because plans do not need torch."""

    def recipe(config: TrainConfig, group_sizes: tuple[float, ...]) -> Recipe:
        made: Recipe = getattr(import_module(f"fairdp.methods.{name}"), name)(config, group_sizes)
        return made

    return recipe


@dataclass(frozen=True, kw_only=True)
class Method:
    """A method's recipe and what it promises.

    Parameters
    ----------
    smooths
        Whether the deployed model averages over noise on its parameters.
    takes_target
        Whether it aims at a gap that the user states.
    averages
        Whether the average of the iterates is deployed.
    post_processes
        Whether decisions are changed by group, from a noisy count of decisions about the training records.
    group_models
        Whether it trains a model for each group, one after the other.
    closed_form
        Whether it is one release and a closed form instead of steps: a linear model of the features, hence of tables.
    joint
        Whether it trains a model of group and label, from which a rule for any target is read.
    """

    recipe: MakeRecipe
    guarantee: str
    paper: str
    private: bool = True
    smooths: bool = False
    post_processes: bool = False
    takes_target: bool = False
    averages: bool = False
    group_models: bool = False
    closed_form: bool = False
    joint: bool = False

    def histogram_epsilon(self, epsilon: float) -> float:
        """Pure ε, out of the budget, for counting the decisions in order to change them."""
        return _HISTOGRAM_SHARE * epsilon if self.post_processes and math.isfinite(epsilon) else 0.0

    @property
    def is_one_run(self) -> bool:
        """Whether it is trained by a single run of steps, which can be resumed from a checkpoint."""
        return not (self.group_models or self.closed_form)

    @property
    def has_iterates(self) -> bool:
        """Whether an earlier form of the deployed model exists during training."""
        return self.is_one_run and not self.post_processes and not self.averages

    @property
    def unit(self) -> str:
        """What is protected."""
        return "record" if self.private else "—"

    @property
    def needs_group_at_prediction(self) -> bool:
        """Whether a decision depends on the person's group, which must then be given."""
        return self.post_processes


METHODS: dict[str, Method] = {
    "clean": Method(recipe=clean, private=False, guarantee="none: not private", paper="—"),
    "dpsgd": Method(recipe=dpsgd, guarantee=_RECORD, paper="Abadi et al., CCS 2016; Algorithm 3 of the FairDP paper"),
    "dpsgd_f": Method(recipe=_with_companion("dpsgd_f"), guarantee=_RECORD, paper="Xu, Du, Wu, KDD 2021"),
    "dp_is_sgd": Method(
        recipe=dp_is_sgd, guarantee=f"{_RECORD}, ε stated for every group", paper="Kulynych et al., NeurIPS 2022"
    ),
    "fairsmooth": Method(
        recipe=fairsmooth,
        private=False,
        group_models=True,
        smooths=True,
        guarantee="none: not private",
        paper="Jin, Zhang, Zhou, Wu, ICML 2022",
    ),
    "dpsgd_smooth": Method(
        recipe=dpsgd, smooths=True, guarantee=_RECORD, paper="Abadi et al., smoothed as by Jin et al., ICML 2022"
    ),
    "fairfm": Method(
        recipe=fairfm,
        closed_form=True,
        guarantee="pure ε-DP per record",
        paper="Zhang et al., VLDB 2012; Ding et al., AAAI 2020",
    ),
    "fairfm_smooth": Method(
        recipe=fairfm,
        smooths=True,
        closed_form=True,
        guarantee="pure ε-DP per record",
        paper="fairfm, smoothed as by Jin et al., ICML 2022",
    ),
    "dp_fermi": Method(
        recipe=_with_companion("dp_fermi"),
        guarantee=f"{_RECORD} (the original protects the sensitive attribute only)",
        paper="Lowy, Gupta, Razaviyayn, ICLR 2023",
    ),
    "dp_postprocess": Method(
        recipe=dpsgd,
        post_processes=True,
        takes_target=True,
        guarantee=_RECORD,
        paper="Jagielski et al., ICML 2019; Hardt et al., 2016",
    ),
    "raco_dp": Method(
        recipe=_with_companion("raco_dp"), takes_target=True, guarantee=_RECORD, paper="Yaghini et al., ICLR 2026"
    ),
    "fairdp_parity": Method(
        recipe=_with_companion("fairdp_parity"),
        takes_target=True,
        averages=True,
        guarantee=_RECORD,
        paper="fairdp's own",
    ),
    "fairdp_frontier": Method(
        recipe=_with_companion("fairdp_frontier"),
        takes_target=True,
        averages=True,
        joint=True,
        guarantee=_RECORD,
        paper="fairdp's own; the form of the rule is that of Chen, Klochkov, Liu, ICLR 2024",
    ),
    "fairdp": Method(
        recipe=fairdp,
        guarantee=f"{_RECORD}, ε stated for every group",
        paper="FairDP: Achieving Fairness Certification with Differential Privacy, Algorithms 1 and 2",
    ),
}


def _those(fitting: Callable[[Method], bool]) -> tuple[str, ...]:
    return tuple(name for name, method in METHODS.items() if fitting(method))


# Parameters that mean nothing to other methods.
ONLY_FOR: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("max_gap", "min_ratio", "positive_rate"), _those(lambda method: method.takes_target)),
    **dict.fromkeys(("price", "cost_ratio"), _those(lambda method: method.joint)),
    **dict.fromkeys(("weight_bound", "n_members", "noise_allocation", "sgd_learning_rate"), ("fairdp",)),
    **dict.fromkeys(("group_optimizers", "group_weights"), ("fairdp",)),
    **dict.fromkeys(("grouping", "max_sample_rate"), ("dp_is_sgd",)),
    **dict.fromkeys(("parameter_noise", "n_draws"), _those(lambda method: method.smooths)),
    "fairness_weight": ("dp_fermi",),
}
