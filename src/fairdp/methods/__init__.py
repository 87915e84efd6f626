"""The methods by name: each maps a configuration and public group sizes to a recipe.

Every method is DP-SGD with something changed: its recipe says what, in one function. What a method does at a step
beyond its recipe is its auxiliary mechanism (`fairdp.methods.auxiliary`), imported on use, because plans do not need
torch. `METHODS` says what each promises, and where it comes from.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from fairdp.accounting.plan import AuxiliaryMechanism, BatchView, Memory, Query, Recipe
from fairdp.accounting.spent import CELLS, DIRECTION, FRONTIER, RANKING
from fairdp.config import ROW_NORMS, Defaults, TrainConfig
from fairdp.errors import ParameterError
from fairdp.parameters import CERTIFIABLE, DECLARED, STATED

if TYPE_CHECKING:
    from torch import Tensor

MakeRecipe = Callable[[TrainConfig, tuple[float, ...]], Recipe]

# Parts of the privacy of fairdp_frontier, in inverse variances; what is left goes to the steps. Rates of one label need
# more: the fewer records they are about, the more their sizes and counts matter.
_RANKING, _FRONTIER_OF_ONE = 0.01, 0.01
_CELLS = {metric: 0.04 if about.labels else 0.01 for metric, about in CERTIFIABLE.items()}
_FRONTIER = {metric: 0.14 if about.labels else 0.10 for metric, about in CERTIFIABLE.items() if len(about.rates) == 1}
# Direction, and the frontier along it: both labels have twice as many rates, some of few records.
_DIRECTION = {metric: (0.12, 0.06) if len(about.rates) == 1 else (0.20, 0.10) for metric, about in CERTIFIABLE.items()}
# Noisy counts of decisions by which fairdp_frontier finds a direction.
N_QUERIES = 100
# Ascent of raco_dp over a whole run on a gap that is exceeded by one.
_ASCENT = 100.0
# Share of epsilon that a post-processing method spends on counting its decisions.
_HISTOGRAM_SHARE = 0.1
_RECORD = "(ε, δ)-DP per record"

# Names for remedies: the method that changes nothing else, the paper's, and the default.
PLAIN, PAPER, DEFAULT = "dpsgd", STATED["method"], DECLARED["method"].default

_TARGET = ("max_gap", "min_ratio", "positive_rate")
_SMOOTHING = ("parameter_noise", "n_draws")


def dpsgd(config: TrainConfig, group_sizes: tuple[float, ...]) -> Recipe:
    """Abadi et al. (2016), Algorithm 1, with the expected batch size as normaliser.

    Line 3 samples every record with the same chance, whatever its group; weighting each group's mean by its share
    makes the sum that of the pooled data, S / (q n). Noise of one draw, scaled to C / (q n).
    """
    n_samples = sum(group_sizes)
    return Recipe(
        group_sizes=group_sizes,
        sample_rates=(config.sample_rate,) * len(group_sizes),
        group_weights=tuple(size / n_samples for size in group_sizes),
        clip_norm=config.clip_norm,
        noise_allocation="average",
    )


def clean(config: TrainConfig, group_sizes: tuple[float, ...]) -> Recipe:
    """DP-SGD without clipping and without noise: no guarantee, the reference for utility."""
    return replace(dpsgd(config, group_sizes), clip_norm=math.inf, noise_allocation="none")


def dpsgd_f(config: TrainConfig, group_sizes: tuple[float, ...]) -> Recipe:
    """DP-SGD with a clip norm for each group: groups whose gradients are clipped more often are clipped less.

    Noise follows the largest clip norm over *all* groups: over those in the batch it would tell who is in it. Counts
    and gradient come from one sample and are accounted as one Gaussian query. Xu, Du and Wu (2021), "Removing disparate
    impact on model accuracy in DP-SGD", Algorithm 2, made private. Compared with in the FairDP paper.
    """
    from fairdp.methods.auxiliary import GroupAdaptiveClip

    clip = GroupAdaptiveClip(clip_norm=config.clip_norm, n_groups=len(group_sizes))
    return replace(dpsgd(config, group_sizes), auxiliary=clip)


def dp_is_sgd(config: TrainConfig, group_sizes: tuple[float, ...]) -> Recipe:
    r"""DP-SGD with a sample rate for each group: importance sampling.

    A record of group k is sampled with probability :math:`q_k = q n / (K n_k)`, at most ``max_sample_rate``, so that
    every group has the same expected number of records in a batch; all records weigh alike, :math:`1 / (q n)`. A record
    of a small group takes part more often, so each group is accounted at its own rate and ε is the largest. In
    expectation a step follows the group-balanced risk, as FairDP does; the FairDP paper's best rival.
    Kulynych et al. (2022), "What you see is what you get".
    """
    batch_size, n_groups = config.sample_rate * sum(group_sizes), len(group_sizes)
    rates = tuple(min(config.max_sample_rate, batch_size / (n_groups * size)) for size in group_sizes)
    if min(rate * size for rate, size in zip(rates, group_sizes, strict=True)) < 1:
        enough = f"use {1 / min(group_sizes):.2g} or more"
        raise ParameterError(
            "max_sample_rate", config.max_sample_rate, "leaves fewer than one record of a group in a batch", enough
        )
    weights = tuple(rate * size / batch_size for rate, size in zip(rates, group_sizes, strict=True))
    return replace(dpsgd(config, group_sizes), sample_rates=rates, group_weights=weights)


def fairsmooth(config: TrainConfig, group_sizes: tuple[float, ...]) -> Recipe:
    """Training without clipping and noise, but with gradients at smoothed parameters and a model for each group.

    Every step takes its gradient at parameters with fresh Gaussian noise, and puts the parameters back. The deployed
    model averages over draws of the same noise. Not private: the FairDP paper compares with it as it is. Jin, Zhang,
    Zhou and Wu (2022), "Input-agnostic certified group fairness via Gaussian parameter smoothing", which has no public
    code; where it leaves the number of draws and the deviation open, ours are parameters.
    """
    return replace(clean(config, group_sizes), parameter_noise=config.parameter_noise, group_models=True)


def fairfm(config: TrainConfig, group_sizes: tuple[float, ...]) -> Recipe:
    """One Laplace release for each group in place of steps: the functional mechanism for logistic regression, averaged.

    Each group releases the coefficients of its quadratic loss, in units of what one record can move in the L1 norm;
    what follows is post-processing. Groups are disjoint, so the guarantee is a pure ε, not a sum. Zhang et al. (2012).
    The FairDP authors' first code has it with a sensitivity that is far too large.
    """
    whole = (1.0,) * len(group_sizes)
    return replace(
        dpsgd(config, group_sizes),
        sample_rates=whole,
        group_weights=group_sizes,
        clip_norm=1.0,
        noise_allocation="laplace",
    )


def dp_fermi(config: TrainConfig, group_sizes: tuple[float, ...]) -> Recipe:
    """DP-SGD against an adversary who guesses the group from the decision; both gradients of a record clipped together.

    The original protects the sensitive attribute only, so its ε cannot be compared with any other here. In this form
    the whole record is protected, and the shares of the groups come from sizes that are public or privately counted.
    Lowy, Gupta and Razaviyayn (2023), "Stochastic differentially private and fair learning". Not run in the FairDP
    paper.
    """
    from fairdp.methods.auxiliary import Adversary

    shares = tuple(size / sum(group_sizes) for size in group_sizes)
    return replace(dpsgd(config, group_sizes), auxiliary=Adversary(weight=config.fairness_weight, group_shares=shares))


def raco_dp(config: TrainConfig, group_sizes: tuple[float, ...]) -> Recipe:
    """DP-SGD with multipliers on gaps beyond the one that the user allows, raised by a noisy histogram at every step.

    Multipliers and gradient see the histogram of the same sample, so both are accounted as one Gaussian query, where
    the published code adds up two separately sampled ones. The record's pull follows public numbers only, so clipping
    bounds it. Yaghini et al. (2026), "Private rate-constrained optimization", with Gaussian noise on the histogram too.
    Not in the FairDP paper; the state of the art that came after. Its sample rate, epochs and optimiser are in
    `fairdp.config`.
    """
    from fairdp.methods.auxiliary import RateConstraints

    auxiliary = RateConstraints(
        parity=config.parity,
        max_gap=config.max_gap,
        min_ratio=config.min_ratio,
        batch_size=config.sample_rate * sum(group_sizes),
        group_sizes=group_sizes,
        dual_rate=_ASCENT / config.n_steps,
    )
    return replace(dpsgd(config, group_sizes), auxiliary=auxiliary)


def fairdp(config: TrainConfig, group_sizes: tuple[float, ...]) -> Recipe:
    """DP-SGD with a mean gradient, and noise, for each group, a bounded head, and an ensemble of heads at the end.

    FairDP, Algorithms 1 and 2, with the corrections that make its privacy claim true.
    Line 4, weight clip: after the step, so that the released head obeys M too, and with the bias in the norm.
    Lines 7–11, per group: Poisson sample, clip, noise; the update divides by the *expected* batch size, because the
    realised one is private and may be zero. Lines 12–13, aggregation: one optimiser takes the average of the groups'
    gradients, with equal weights unless others are given; or, with ``group_optimizers``, every group's own optimiser
    takes its gradient, and where they arrive is averaged. For SGD both are the same.
    Algorithm 2 (DP-MC): each sampled record picks its micro-batch by an independent uniform draw; a contiguous
    partition would let one record shift all the others.
    """
    weights = config.weights or (1.0,) * len(group_sizes)
    return replace(
        dpsgd(config, group_sizes),
        group_weights=tuple(weight / sum(weights) for weight in weights),
        noise_allocation=config.noise_allocation,
        weight_bound=config.weight_bound,
        n_members=config.n_members,
        group_optimizers=config.group_optimizers,
    )


def fairdp_frontier(config: TrainConfig, group_sizes: tuple[float, ...]) -> Recipe:
    """DP-SGD of a joint model of group and label; a fair rule is read off it afterwards. Our own method.

    For a rule that sees the inputs alone, the most accurate one within a gap decides by a weighted sum of the chances
    of the cells (Chen, Klochkov, Liu, ICLR 2024), with a price for each group. Cells are counted with noise, the prices
    of more than two groups, or of both labels, are found by noisy counts of decisions, and one sketch of the decisions
    at all multiples of these prices tells the whole trade-off. The average over the second half of the steps is
    deployed.
    """
    return replace(
        dpsgd(config, group_sizes),
        auxiliary=JointLoss(),
        averaging="second_half",
        joint=True,
        queries=queries_of(config, len(group_sizes)),
    )


def queries_of(config: TrainConfig, n_groups: int) -> tuple[Query, ...]:
    """Releases of `fairdp_frontier` about all records, outside the steps."""
    asked = [Query(what=config.query, share=config.query_share)] if config.query else []
    asked += [Query(what=CELLS, share=_CELLS[config.parity]), Query(what=RANKING, share=_RANKING)]
    if n_groups == 1:
        return (*asked, Query(what=FRONTIER, share=_FRONTIER_OF_ONE))
    if not needs_direction(config, n_groups):
        return (*asked, Query(what=FRONTIER, share=_FRONTIER[config.parity]))
    direction, along = _DIRECTION[config.parity]
    return (*asked, Query(what=DIRECTION, share=direction, n_looks=N_QUERIES), Query(what=FRONTIER, share=along))


def needs_direction(config: TrainConfig, n_groups: int) -> bool:
    """True if prices have more than one direction: two groups whose one rate should agree have but one."""
    return n_groups > 2 or len(CERTIFIABLE[config.parity].rates) > 1 or config.positive_rate is not None


@dataclass(frozen=True, kw_only=True)
class JointLoss(AuxiliaryMechanism):
    r"""Cross-entropy of the cell, group by label: :math:`-\ln P_{c}(x)` with the softmax :math:`P` of the scores.

    Cell :math:`2 a + y` holds the records of group a with label y.
    """

    def score_gradient(self, view: BatchView, memory: Memory) -> "Tensor":
        cells, chances = 2 * view.groups + view.labels.long(), view.scores.softmax(1)
        return chances.scatter_add_(1, cells[:, None], chances.new_full((len(cells), 1), -1.0))


@dataclass(frozen=True, kw_only=True)
class Method:
    """A method's recipe, what it promises, what it takes and how it looks in figures.

    Parameters
    ----------
    recipe
        What one step releases, from the numbers of a run and the sizes of the groups.
    guarantee, paper
        What it promises, and where it is from.
    label, words
        Its name in a legend, and what it is in a few words, where there is room.
    colour, marker
        Every colour is also a label's, so each has a contrast of at least 4.5 on white. Those that stand out are the
        only saturated ones; the others were spread in lightness until they differed for every kind of colour blindness.
    stands_out
        True for the few that figures point at.
    options
        Parameters that mean nothing to methods that do not name them.
    table_model, image_model, defaults
        The kind of model for ``model="auto"``, and settings by kind, where they are not those of the kind.
    private
        False only for the control without noise.
    rates_follow_sizes
        True if records are sampled at rates that follow from the sizes of their groups.
    smooths
        True if the deployed model averages over noise on its parameters.
    takes_target
        True if it aims at a gap that the user states.
    gaps_only
        True if this may be a gap or a ratio only, and not a share of positive decisions.
    post_processes
        True if decisions are changed by group, from a noisy count of decisions about the training records.
    group_models
        True if it trains a model for each group, one after the other.
    closed_form
        True if it is one release and a closed form instead of steps: a linear model of the features, hence of tables.
    joint
        True if it trains a model of group and label, from which a rule for any target is read.
    """

    recipe: MakeRecipe
    guarantee: str
    paper: str
    label: str = ""
    words: str = ""
    colour: str = "#737373"
    marker: str = "o"
    stands_out: bool = False
    options: tuple[str, ...] = ()
    table_model: str = "mlp"
    image_model: str = "cnn"
    defaults: Mapping[str, Defaults] = field(default_factory=dict)
    private: bool = True
    rates_follow_sizes: bool = False
    smooths: bool = False
    post_processes: bool = False
    takes_target: bool = False
    gaps_only: bool = False
    group_models: bool = False
    closed_form: bool = False
    joint: bool = False

    def histogram_epsilon(self, epsilon: float) -> float:
        """Pure ε, out of the budget, for counting the decisions in order to change them."""
        return _HISTOGRAM_SHARE * epsilon if self.post_processes and math.isfinite(epsilon) else 0.0

    @property
    def is_one_run(self) -> bool:
        """True if it is trained by a single run of steps, which can be resumed from a checkpoint."""
        return not (self.group_models or self.closed_form)

    @property
    def has_iterates(self) -> bool:
        """True if an earlier form of the deployed model exists during training."""
        return self.is_one_run and not self.post_processes and not self.joint

    @property
    def unit(self) -> str:
        """The unit of protection."""
        return "record" if self.private else "—"

    @property
    def needs_group_at_prediction(self) -> bool:
        """True if a decision depends on the person's group, which must then be given."""
        return self.post_processes


def _row_length(kind: str) -> float:
    """Norm of a row with its constant."""
    return math.hypot(ROW_NORMS[kind], 1.0)


# Everybody in every step: noise then depends on the length of the path alone, not on the number of steps.
_JOINT = Defaults(
    sample_rate=1.0,
    n_epochs=100,
    fewest_steps=20,
    most_steps=100,
    all_at_once=(100_000, 32_000),
    clip_norm=1.0,
    learning_rates=(1.0,),
    activation="relu",
    optimizer="sgd",
    momentum=0.9,
)


METHODS: dict[str, Method] = {
    "clean": Method(
        label="clean",
        words="No privacy, no fairness",
        colour="#6b6b6b",
        marker="P",
        recipe=clean,
        private=False,
        guarantee="none: not private",
        paper="—",
    ),
    "dpsgd": Method(
        label="DP-SGD",
        words="DP-SGD: private only",
        colour="#1f1f1f",
        marker="o",
        recipe=dpsgd,
        guarantee=_RECORD,
        paper="Abadi et al., CCS 2016; Algorithm 3 of the FairDP paper",
    ),
    "dpsgd_f": Method(
        label="DPSGD-F",
        words="DPSGD-F: clips groups differently",
        colour="#827643",
        marker="^",
        recipe=dpsgd_f,
        guarantee=_RECORD,
        paper="Xu, Du, Wu, KDD 2021",
    ),
    "dp_is_sgd": Method(
        label="DP-IS-SGD",
        words="DP-IS-SGD: samples groups differently",
        colour="#2a5248",
        marker="v",
        options=("grouping", "max_sample_rate"),
        rates_follow_sizes=True,
        recipe=dp_is_sgd,
        guarantee=f"{_RECORD}, ε stated for every group",
        paper="Kulynych et al., NeurIPS 2022",
    ),
    "fairsmooth": Method(
        label="FairSmooth",
        words="FairSmooth: averaged group models, not private",
        colour="#6f446e",
        marker="h",
        options=_SMOOTHING,
        recipe=fairsmooth,
        private=False,
        group_models=True,
        smooths=True,
        guarantee="none: not private",
        paper="Jin, Zhang, Zhou, Wu, ICML 2022",
    ),
    "dpsgd_smooth": Method(
        label="DPSGD-Smooth",
        words="DP-SGD, smoothed",
        colour="#607892",
        marker="p",
        options=_SMOOTHING,
        recipe=dpsgd,
        smooths=True,
        guarantee=_RECORD,
        paper="Abadi et al., smoothed as by Jin et al., ICML 2022",
    ),
    "fairfm": Method(
        label="FairFM",
        words="FairFM: one noisy polynomial",
        colour="#3b481b",
        marker="<",
        table_model="logistic",
        recipe=fairfm,
        closed_form=True,
        guarantee="pure ε-DP per record",
        paper="Zhang et al., VLDB 2012; Ding et al., AAAI 2020",
    ),
    "fairfm_smooth": Method(
        label="FairFM-Smooth",
        words="FairFM, smoothed",
        colour="#936d5d",
        marker=">",
        options=_SMOOTHING,
        table_model="logistic",
        recipe=fairfm,
        smooths=True,
        closed_form=True,
        guarantee="pure ε-DP per record",
        paper="fairfm, smoothed as by Jin et al., ICML 2022",
    ),
    "dp_fermi": Method(
        label="DP-FERMI",
        words="DP-FERMI: penalty on dependence",
        colour="#0a3b4c",
        marker="X",
        options=("fairness_weight",),
        recipe=dp_fermi,
        guarantee=f"{_RECORD} (the original protects the sensitive attribute only)",
        paper="Lowy, Gupta, Razaviyayn, ICLR 2023",
    ),
    "dp_postprocess": Method(
        label="DP post-processing",
        words="DP-SGD, decisions changed by group",
        colour="#8a4438",
        marker="d",
        options=_TARGET,
        recipe=dpsgd,
        post_processes=True,
        takes_target=True,
        guarantee=_RECORD,
        paper="Jagielski et al., ICML 2019; Hardt et al., 2016",
    ),
    "raco_dp": Method(
        label="RaCO-DP",
        words="RaCO-DP: constraints on rates",
        colour="#7170a3",
        marker="*",
        options=_TARGET,
        gaps_only=True,
        table_model="logistic",
        # What follows measured rates needs large batches.
        defaults={
            "logistic": Defaults(
                sample_rate=0.1, n_epochs=30, clip_norm=1.0, learning_rates=(2.0,), activation="relu", optimizer="sgd"
            )
        },
        recipe=raco_dp,
        takes_target=True,
        guarantee=_RECORD,
        paper="Yaghini et al., ICLR 2026",
    ),
    "fairdp_frontier": Method(
        label="ours (frontier)",
        words="FairDP frontier: our default",
        colour="#3200ff",
        marker="8",
        stands_out=True,
        options=(*_TARGET, "price", "cost_ratio"),
        table_model="logistic",
        image_model="oriented_gradients",
        defaults={
            "logistic": replace(
                _JOINT,
                n_epochs=60,
                momentum=0.8,
                clip_norm=_row_length("logistic"),
                learning_rates=(20.0 / _row_length("logistic") ** 2,),
                rate_per_record=0.0006 / _row_length("logistic") ** 2,
                largest_noise_step=0.0168 / _row_length("logistic"),
                query="frequencies",
                query_share=0.02,
            ),
            "oriented_gradients": replace(
                _JOINT,
                n_epochs=60,
                clip_norm=_row_length("oriented_gradients"),
                learning_rates=(8.0 / _row_length("oriented_gradients") ** 2,),
                largest_noise_step=0.0105 / _row_length("oriented_gradients"),
                query="centre",
                query_share=0.03,
            ),
        },
        recipe=fairdp_frontier,
        takes_target=True,
        joint=True,
        guarantee=_RECORD,
        paper="fairdp's own; the form of the rule is that of Chen, Klochkov, Liu, ICLR 2024",
    ),
    "fairdp": Method(
        label="FairDP",
        words="FairDP: the paper's",
        colour="#c94a00",
        marker="D",
        stands_out=True,
        options=(
            "weight_bound",
            "n_members",
            "noise_allocation",
            "sgd_learning_rate",
            "group_optimizers",
            "group_weights",
        ),
        recipe=fairdp,
        guarantee=f"{_RECORD}, ε stated for every group",
        paper="FairDP: Achieving Fairness Certification with Differential Privacy, Algorithms 1 and 2",
    ),
}

# Parameters that mean nothing to other methods, with those that take them.
ONLY_FOR: dict[str, tuple[str, ...]] = {
    option: tuple(name for name, method in METHODS.items() if option in method.options)
    for option in dict.fromkeys(option for method in METHODS.values() for option in method.options)
}
