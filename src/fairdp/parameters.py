"""Everything that a user may choose, declared once: estimator, command line and reference follow from it.

`Parameters` is the declaration. Defaults that depend on the model are in `fairdp.config`,
on the method in `fairdp.methods`.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING, Any

from fairdp import errors
from fairdp.errors import ParameterError

if TYPE_CHECKING:
    import numpy as np


GROUPS = ("Data and model", "Privacy", "Fairness target", "Certificate", "Expert")
DATA, PRIVACY, TARGET, CERTIFICATE, EXPERT = GROUPS
MODELS = ("logistic", "mlp", "cnn", "oriented_gradients")

# What computes ε: privacy loss distributions, or the moments accountant.
ACCOUNTANTS = ("pld", "rdp")
DEFAULT_EPSILON = 1.0
DEFAULT_MAX_GAP = 0.03

# Points of accuracy that the default target may cost for each point of gap that it closes.
DEFAULT_PRICE = 0.3

# Sums of more records would round past their bound in single precision.
LARGEST_PHYSICAL_BATCH = 4_096

# Below this a certificate says nothing and takes hours: its noise spreads over the square of one over epsilon.
SMALLEST_EPSILON = 0.02

# Inner edges of the bins that scores are counted in, fixed and public: tenths, the outer ones halved, because scores of
# a rare label crowd at one end, where a median has to be found.
SCORE_EDGES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


@dataclass(frozen=True, kw_only=True)
class RateCells:
    """A rate of a group: the cells (label, decision) that count for it and against it; its name and title in tables.

    ``share`` of the failure probability goes to its bound, if metrics compare it: cells of positives are the smallest
    and need most (fixed in advance; equal shares would be valid too).
    """

    name: str
    title: str
    counted: tuple[tuple[int, int], ...]
    against: tuple[tuple[int, int], ...]
    share: float = 0.0

    @property
    def labels(self) -> tuple[int, ...]:
        """Labels of the records that the rate is about."""
        return tuple(sorted({label for label, _ in self.counted + self.against}))


# The one definition of every rate of a groups × labels × decisions table, in the order of the columns of a table.
RATES = {
    "base": RateCells(name="base_rate", title="label positive", counted=((1, 0), (1, 1)), against=((0, 0), (0, 1))),
    "positive": RateCells(
        name="selection_rate", title="decided positive", counted=((0, 1), (1, 1)), against=((0, 0), (1, 0)), share=0.2
    ),
    "true_positive": RateCells(
        name="true_positive_rate",
        title="decided positive, of label positive",
        counted=((1, 1),),
        against=((1, 0),),
        share=0.6,
    ),
    "false_positive": RateCells(
        name="false_positive_rate",
        title="decided positive, of label negative",
        counted=((0, 1),),
        against=((0, 0),),
        share=0.2,
    ),
    "accuracy": RateCells(name="accuracy", title="accuracy", counted=((0, 0), (1, 1)), against=((0, 1), (1, 0))),
}
_SHARES = {kind: about.share for kind, about in RATES.items() if about.share}


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A gap that can be aimed at and certified: its names, the rates that it compares, its definition and its looks.

    Of several rates it is the largest gap: then each is of one label, no two of the same. ``has_ratio``: the ratio of
    the smallest rate to the largest is stated too.
    """

    label: str
    short: str
    rates: tuple[str, ...]
    definition: str
    colour: str = "#737373"
    marker: str = "o"
    has_ratio: bool = False

    @property
    def name(self) -> str:
        """The gap in words."""
        return f"{self.label} gap"

    @cached_property
    def labels(self) -> tuple[int, ...]:
        """Label of the records behind each rate, in rising order; empty if its one rate is about all records."""
        about = sorted(RATES[rate].labels for rate in self.rates)
        return tuple(label for (label,) in about) if len(about[0]) == 1 else ()


# In the order in which a sequence of tests goes through them. One metric more needs a field of `CertificateRecord`, a
# line in what `verify` writes down a second time, and a higher SCHEMA_VERSION.
CERTIFIABLE = {
    "demographic_parity": Metric(
        label="demographic parity",
        short="parity",
        colour="#0057b8",
        rates=("positive",),
        definition="largest difference between two groups' rates of positive decisions",
        has_ratio=True,
    ),
    "equal_opportunity": Metric(
        label="equal opportunity",
        short="EOpp",
        colour="#00745a",
        marker="s",
        rates=("true_positive",),
        definition="the same among records with a positive label",
    ),
    "equalized_odds": Metric(
        label="equalized odds",
        short="EOdds",
        colour="#a3477f",
        marker="^",
        rates=("true_positive", "false_positive"),
        definition="the larger of the two, among records with a positive and with a negative label",
    ),
}
METRICS = tuple(CERTIFIABLE)
# The metric of the four-fifths rule, whose ratio is stated too.
(WITH_RATIO,) = (metric for metric, about in CERTIFIABLE.items() if about.has_ratio)

# What makes it the paper's method: another value is another method.
STATED: Mapping[str, Any] = {
    "method": "fairdp",
    "optimizer": "adam",
    "learning_rate": (0.007, 0.005),
    "schedule": "piecewise",
    "accountant": "rdp",
    "noise_allocation": "per_group",
    "n_members": 10,
    "bias": False,
}

# What the paper varies or leaves open. Of the bounds in its table, M = .75 alone has a gap on Adult at ε = 1 (.019)
# between those that its text gives for ε = .5 (.014) and ε = 2 (.025). Sampling rate and length are those for which the
# moments accountant turns the noise of the authors' earlier code (1.98) into ε = 1. That every group keeps its own Adam
# is the letter of Algorithm 1, which averages group models, and what that code does; clip norm and network are ours.
ASSUMED: Mapping[str, Any] = {
    "weight_bound": 0.75,
    "sample_rate": 0.01,
    "n_steps": 2000,
    "clip_norm": 1.0,
    "hidden": (32,),
    "sgd_learning_rate": 0.005,
    "group_optimizers": True,
}


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """One parameter as it was declared.

    Parameters
    ----------
    help
        What it means, in sentences; methods and other parameters are in backquotes.
    check
        Rejects invalid values; None leaves that to whoever uses them.
    when_none
        What happens if it is left at None.
    flag
        Its name on the command line; None if it cannot be given there.
    """

    name: str
    default: Any
    kind: Any
    group: str
    help: str
    choices: tuple[str, ...] = ()
    check: Callable[..., None] | None = None
    when_none: str = ""
    flag: str | None

    @property
    def flags(self) -> str | None:
        """The flag, with its opposite where the value is yes or no."""
        return f"{self.flag}/--no-{self.flag.removeprefix('--')}" if self.flag and self.kind is bool else self.flag


def parameter(default: Any, group: str, help: str, *, flag: str | None = "", **more: Any) -> Any:
    """Declare a parameter: its default and the other fields of `Declaration`; by default the flag is the name."""
    return field(default=default, metadata={"group": group, "help": help, "flag": flag, **more})


def fraction(**values: float) -> None:
    """Every value is a part of a whole, and not all of it."""
    for name, value in values.items():
        if not (isinstance(value, Real) and 0 <= value < 1):
            raise ParameterError(name, value, "must be in [0, 1)")


def share(example: float) -> Callable[..., None]:
    """Every value is a part of a whole, from none to all."""

    def check(**values: float) -> None:
        for name, value in values.items():
            if not (isinstance(value, Real) and 0 <= value <= 1):
                raise ParameterError(name, value, f"must be in [0, 1], such as {example:g}")

    return check


def up_to_half(**values: float) -> None:
    """Every value is a part of a whole, and at most half of it."""
    for name, value in values.items():
        if not (isinstance(value, Real) and 0 <= value <= 0.5):
            raise ParameterError(name, value, "must be in [0, 0.5]")


def not_negative(**values: float) -> None:
    """Every value is a finite number of at least zero."""
    for name, value in values.items():
        if not (isinstance(value, Real) and 0 <= value < math.inf):
            raise ParameterError(name, value, "must be at least 0 and finite")


def confidence(**values: float) -> None:
    """Every value is a probability of at least one half."""
    errors.in_unit_interval(**values)
    for name, value in values.items():
        # Below one half the pair construction has no proof, and nobody wants such a promise.
        if value < 0.5:
            raise ParameterError(name, value, "must be at least 0.5")


def metrics(**values: Any) -> None:
    """Every value names one metric or several."""
    for name, value in values.items():
        if isinstance(value, str) or not value:
            raise ParameterError(name, value, f"must name at least one of {', '.join(METRICS)}")
        for metric in value:
            errors.one_of(METRICS, **{name: metric})


def step_sizes(**values: Any) -> None:
    """Every value is a finite step size, or several."""
    for name, value in values.items():
        sizes = tuple(value) if isinstance(value, Iterable) else (value,)
        if not sizes:
            raise ParameterError(name, sizes, "must hold at least one value")
        for size in sizes:
            errors.finite_positive(**{name: size})


def layer_sizes(**values: Any) -> None:
    """Every value is a collection of whole numbers."""
    for name, value in values.items():
        if isinstance(value, str) or not isinstance(value, Iterable):
            raise ParameterError(name, value, "must be a tuple of layer sizes such as (32,)")
        for size in value:
            errors.positive_integer(**{name: size})


def group_sizes(**values: Any) -> None:
    """Every value is the word "public", or a positive size for each of some groups."""
    for name, value in values.items():
        if isinstance(value, str) and value == "public":
            continue
        if not isinstance(value, Mapping) or not value:
            raise ParameterError(
                name,
                value,
                "must be 'public' or a size for each group, such as {'f': 900, 'm': 1100}",
                "Leave it out to count them with noise.",
            )
        for group, size in value.items():
            if isinstance(size, bool) or not (isinstance(size, Real) and 0 < float(size) < math.inf):
                raise ParameterError(name, {group: size}, "must give every group a positive size")


def group_weights(**values: Any) -> None:
    """Every value is a positive weight for each of some groups."""
    for name, value in values.items():
        if not isinstance(value, Mapping) or not value:
            example = "such as {'f': 2, 'm': 1}"
            raise ParameterError(name, value, f"must be a weight for each group, {example}", "Leave it out for equal.")
        for group, weight in value.items():
            if isinstance(weight, bool) or not (isinstance(weight, Real) and 0 < float(weight) < math.inf):
                raise ParameterError(name, {group: weight}, "must give every group a positive weight")


def yes_or_no(**values: Any) -> None:
    """Every value is true or false."""
    for name, value in values.items():
        if not isinstance(value, bool):
            raise ParameterError(name, value, "must be True or False")


def group_names(**values: Any) -> None:
    """Every value is a collection of different names."""
    for name, value in values.items():
        texts = [] if isinstance(value, str) or not isinstance(value, Iterable) else [str(one) for one in value]
        if not texts or len(set(texts)) < len(texts):
            raise ParameterError(name, value, "must be a tuple of different names such as ('f', 'm')")


def physical_batch(**values: int) -> None:
    """Every value is a number of records whose sum is exact enough."""
    errors.positive_integer(**values)
    for name, value in values.items():
        if value > LARGEST_PHYSICAL_BATCH:
            raise ParameterError(
                name,
                value,
                f"must be at most {LARGEST_PHYSICAL_BATCH}",
                "Larger sums would round past their bound in single precision.",
            )


@dataclass(kw_only=True, eq=False, repr=False)
class Parameters:
    """The parameters of an estimator with their defaults; None stands for a default that depends on other choices."""

    method: str = parameter(
        "fairdp_frontier",
        DATA,
        "Training method; `fairdp methods` lists them. The default aims at a fairness target; `fairdp` is the paper's.",
    )
    model: str = parameter(
        "auto",
        DATA,
        "Network before the linear head; `oriented_gradients` are public features of images.",
        choices=("auto", *MODELS),
    )
    hidden: tuple[int, ...] = parameter((32,), DATA, "Sizes of the hidden layers of the MLP.", check=layer_sizes)
    module: Callable[..., Any] | None = parameter(
        None, DATA, "Class or function that builds your own feature extractor, used instead of `model`.", flag=None
    )

    epsilon: float | None = parameter(
        None,
        PRIVACY,
        "Privacy budget ε for adding or removing one record; inf trains without noise, for debugging.",
        when_none=f"{DEFAULT_EPSILON:g}, or what `noise_multiplier` and `n_steps` spend",
    )
    delta: float = parameter(1e-5, PRIVACY, "Privacy budget δ, below 1/n for n records; the default adapts to known n.")
    noise_multiplier: float | None = parameter(
        None,
        PRIVACY,
        "Noise of a whole step over its sensitivity, σ. With `n_steps` ε follows, with `epsilon` the number of steps: "
        "as many as stay within ε.",
        check=errors.finite_positive,
        when_none="what `epsilon` and `n_steps` need",
    )
    accountant: str = parameter(
        "pld",
        PRIVACY,
        "What computes ε, and the noise for it: privacy loss distributions, or the paper's moments accountant (RDP), "
        "which is looser. The other's ε is stated beside it.",
        choices=ACCOUNTANTS,
    )
    group_sizes: str | Mapping[str, float] | None = parameter(
        None,
        PRIVACY,
        "Number of records in each group, by name, if known beforehand; roughly is enough. Or public, if anyone may "
        "know the exact numbers.",
        check=group_sizes,
        when_none="counted with noise, for 1 % of the privacy",
    )
    groups: tuple[str, ...] | None = parameter(
        None,
        PRIVACY,
        "Names of the groups, declared beforehand, for `fit`; other names are refused.",
        flag=None,
        check=group_names,
        when_none="those of `group_sizes`, or read from the records, which the privacy statement then says",
    )
    max_sample_weight: float = parameter(
        1.0,
        PRIVACY,
        "Largest value allowed in `sample_weight`; noise is scaled to it.",
        flag=None,
        check=errors.finite_positive,
    )
    ledger: str | None = parameter(
        None,
        PRIVACY,
        "File that adds up what is spent on the records of `table`, one fit after another.",
        flag=None,
        when_none="nothing is added up, and the statement says so",
    )
    table: str = parameter(
        "records",
        PRIVACY,
        "Name of what the records are, under which `ledger` adds up what is spent on them.",
        flag=None,
    )
    random_state: "int | np.random.RandomState | np.random.Generator | None" = parameter(
        None,
        PRIVACY,
        "Seed for repeatable experiments; the guarantee then holds only while the seed is secret.",
        flag="--seed",
        when_none="the operating system's randomness",
    )

    parity: str = parameter(
        "demographic_parity",
        TARGET,
        "Rates that should agree between the groups; for methods with a target: `fairdp_frontier`, "
        "`raco_dp`, `dp_postprocess`.",
        choices=METRICS,
    )
    max_gap: float | None = parameter(
        None,
        TARGET,
        "Largest difference between these rates to aim at. Not a guarantee: that is the certificate.",
        check=share(0.03),
        when_none=f"{DEFAULT_MAX_GAP:g}; any if `min_ratio` is given",
    )
    min_ratio: float | None = parameter(
        None,
        TARGET,
        "Smallest ratio of two of these rates to aim at, such as 0.8.",
        check=share(0.8),
        when_none="any",
    )
    positive_rate: float | None = parameter(
        None,
        TARGET,
        "Share of positive decisions to aim at; not for `raco_dp`.",
        check=share(0.2),
        when_none="any",
    )
    price: float | None = parameter(
        None,
        TARGET,
        "Most accuracy to pay for a unit of gap, for `fairdp_frontier`; what a target costs beyond it is not paid.",
        check=errors.positive,
        when_none=f"{DEFAULT_PRICE:g} for the default target; for one that you state what it takes, with two groups at "
        "most 0.6",
    )
    cost_ratio: float = parameter(
        1.0,
        TARGET,
        "What a wrong refusal costs, in wrong acceptances, for `fairdp_frontier`; above 1 more people are accepted.",
        check=errors.finite_positive,
    )

    certify_fraction: float = parameter(
        0.2, CERTIFICATE, "Fraction of the records held out for the certificate; 0 for none.", check=fraction
    )
    confidence: float = parameter(
        0.95, CERTIFICATE, "Probability with which all bounds hold together.", check=confidence
    )
    certify_metrics: tuple[str, ...] | None = parameter(
        None,
        CERTIFICATE,
        f"Gaps to bound, from {', '.join(f'`{metric}`' for metric in METRICS)}; fewer get tighter bounds.",
        check=metrics,
        when_none="all three",
    )
    require_tau: float | None = parameter(
        None,
        CERTIFICATE,
        "Bound that every certified gap must meet; the gaps are tested one after the other.",
        check=errors.in_unit_interval,
    )
    n_looks: int = parameter(
        1,
        CERTIFICATE,
        "How often to test the required bound in training, which ends at the first miss and keeps the model before; "
        "looks share epsilon, each with one more noisy step for heads; for `fairdp` or `dpsgd`, not for the default.",
        flag="--looks",
        check=errors.positive_integer,
    )
    score_share: float = parameter(
        0.1,
        CERTIFICATE,
        "Share of the certificate's epsilon for counts of scores, from which calibration follows; 0 for none.",
        check=up_to_half,
    )

    sample_rate: float | None = parameter(None, EXPERT, "Chance to be in a batch, q.", check=errors.sample_rate)
    n_steps: int | None = parameter(None, EXPERT, "Number of steps, T.", check=errors.positive_integer)
    clip_norm: float | None = parameter(None, EXPERT, "Bound on a record's gradient, C.", check=errors.finite_positive)
    learning_rate: float | tuple[float, ...] | None = parameter(
        None, EXPERT, "Step size η, or several, each used for an equal part of the run.", check=step_sizes
    )
    schedule: str = parameter(
        "piecewise",
        EXPERT,
        "Use the step sizes part by part, or SGD with the decay that the paper's Theorem 4 needs, or as it prints it.",
        choices=("piecewise", "shamir_zhang", "theorem_4_printed"),
    )
    diameter: float = parameter(10.0, EXPERT, "Scale Q of shamir_zhang, a diameter.", check=errors.finite_positive)
    optimizer: str | None = parameter(
        None,
        EXPERT,
        "Optimiser; `adam_then_sgd` switches to SGD after `adam_share` of the run.",
        choices=("adam", "sgd", "adam_then_sgd"),
    )
    adam_share: float = parameter(0.9, EXPERT, "Share of `adam_then_sgd` that is Adam.", check=share(0.9))
    momentum: float | None = parameter(None, EXPERT, "Momentum of SGD.", check=fraction)
    sgd_learning_rate: float = parameter(
        0.005,
        EXPERT,
        "Step size of SGD after `adam_then_sgd` switches, and in the last step, which makes the ensemble.",
        check=errors.finite_positive,
    )
    activation: str | None = parameter(None, EXPERT, "Activation of the hidden layers.", choices=("relu", "tanh"))
    bias: bool = parameter(
        True,
        EXPERT,
        "Give the head a bias. Without, as in the paper, a record whose embedding is zero has score zero and is always "
        "decided positive; not for `fairdp_frontier`, `fairfm`, `fairfm_smooth`.",
    )
    weight_bound: float = parameter(
        1.0, EXPERT, "Bound on the norm of the head with its bias, M; for `fairdp`.", check=errors.positive
    )
    n_members: int = parameter(10, EXPERT, "Number of heads, N; for `fairdp`.", check=errors.positive_integer)
    noise_allocation: str = parameter(
        "per_group",
        EXPERT,
        "Noise for every group (the paper), or one draw on their average (less noise, same ε); for `fairdp`.",
        choices=("per_group", "average"),
    )
    group_optimizers: bool = parameter(
        False,
        EXPERT,
        "Give every group its own optimiser and average where they arrive, one reading of the paper; for `fairdp`.",
    )
    group_weights: Mapping[str, float] | None = parameter(
        None,
        EXPERT,
        "Weight of each group in the average, by name; only ratios matter; for `fairdp`.",
        check=group_weights,
        when_none="all alike",
    )
    fairness_weight: float = parameter(10.0, EXPERT, "Weight of the penalty of `dp_fermi`.", check=not_negative)
    grouping: str = parameter(
        "attribute", EXPERT, "What `dp_is_sgd` samples equally often.", choices=("attribute", "attribute_and_label")
    )
    max_sample_rate: float = parameter(1.0, EXPERT, "Largest sampling rate of `dp_is_sgd`.", check=errors.sample_rate)
    parameter_noise: float = parameter(
        0.1,
        EXPERT,
        "Standard deviation of the noise on the parameters; for `fairsmooth`, `dpsgd_smooth`, `fairfm_smooth`.",
        check=errors.finite_positive,
    )
    n_draws: int = parameter(100, EXPERT, "Number of draws of that noise.", check=errors.positive_integer)
    predictor: str = parameter(
        "deterministic",
        EXPERT,
        "Decision rule: deterministic, a random head for each person (gibbs), or noise on the head for each person "
        "(smoothed). The same person always gets the same decision.",
        choices=("deterministic", "gibbs", "smoothed"),
    )
    smoothing: float = parameter(
        1.0, EXPERT, "Standard deviation of the noise of the smoothed predictor.", check=errors.finite_positive
    )
    max_physical_batch_size: int | None = parameter(
        None,
        EXPERT,
        "Records per forward pass: 256 images, 4096 rows of tables. Trades memory for speed, is what workers share; "
        "changes the result only by rounding.",
        check=physical_batch,
    )


DECLARED = {
    one.name: Declaration(
        name=one.name,
        default=one.default,
        kind=one.type,
        **{**one.metadata, "flag": f"--{one.name.replace('_', '-')}" if (flag := one.metadata["flag"]) == "" else flag},
    )
    for one in fields(Parameters)
}


def check_parameters(**values: Any) -> None:
    """Refuse values that their declarations do not allow; None is allowed where it is the default."""
    for name, value in values.items():
        declared = DECLARED[name]
        if value is None and declared.default is None:
            continue
        if declared.kind is bool:
            yes_or_no(**{name: value})
        if declared.choices:
            errors.one_of(declared.choices, **{name: value})
        if declared.check is not None:
            declared.check(**{name: value})


def paper_settings(**changes: Any) -> dict[str, Any]:
    """Parameters of the paper's FairDP, for `FairDPClassifier` or ``fairdp fit --paper``.

    The paper holds no records out: a certificate still does, unless ``certify_fraction=0`` is among the changes.

    >>> settings = paper_settings(epsilon=2.0, weight_bound=0.5)
    >>> settings["method"], settings["accountant"], settings["weight_bound"], settings["n_steps"]
    ('fairdp', 'rdp', 0.5, 2000)

    Parameters
    ----------
    changes
        Other parameters, and other values of those that the paper varies or leaves open, such as ``weight_bound``.

    Raises
    ------
    ParameterError
        If a value contradicts what the paper states.
    """
    for name, value in changes.items():
        if name in STATED and value != STATED[name]:
            raise ParameterError(name, value, f"contradicts the paper, which has {STATED[name]!r}", "leave it out")
    return {**STATED, **ASSUMED, **changes}


def levels_of(metrics: Sequence[str], failure_probability: float) -> dict[str, float]:
    """Failure probability of each kind of rate, when all the metrics are claimed together.

    One metric of several rates, alone, is one event: its true value is the gap of one fixed rate, and only that gap can
    be missed.
    """
    kinds = kinds_of(metrics)
    if len(metrics) == 1 and len(kinds) > 1:
        return dict.fromkeys(kinds, failure_probability)
    total = sum(_SHARES[kind] for kind in kinds)
    return {kind: failure_probability * _SHARES[kind] / total for kind in kinds}


def kinds_of(metrics: Sequence[str]) -> list[str]:
    """Kinds of rate that the metrics need."""
    return [kind for kind in _SHARES if any(kind in CERTIFIABLE[metric].rates for metric in metrics)]


class NoCertificate(StrEnum):
    """Why there is no certificate: a code for files, and an explanation for people."""

    NO_RECORDS_HELD_OUT = "no_records_held_out"
    ONE_GROUP = "one_group"
    EPSILON_INFINITE = "epsilon_infinite"
    EPSILON_TOO_SMALL = "epsilon_too_small"
    RULE_MOVED = "rule_moved"

    @property
    def explanation(self) -> str:
        """The text after "because", with parameters in backquotes, as messages have them."""
        return {
            NoCertificate.NO_RECORDS_HELD_OUT: "no records were held out for it (`certify_fraction`=0)",
            NoCertificate.ONE_GROUP: "there is only one group, hence no gap to bound",
            NoCertificate.EPSILON_INFINITE: "it is made from noisy counts, and `epsilon`=inf asks for no noise",
            NoCertificate.EPSILON_TOO_SMALL: f"at an epsilon below {SMALLEST_EPSILON} only noise would be counted",
            NoCertificate.RULE_MOVED: "the rule was moved after it was certified; fairdp certify makes a new one on "
            "fresh records",
        }[self]
