"""What a user may choose, declared once: estimator, command line and reference follow from it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from fairdp import _checks
from fairdp.config import limits
from fairdp.config.certificate import METRICS
from fairdp.config.declaration import declaration

if TYPE_CHECKING:
    import numpy as np

GROUPS = ("Data and model", "Privacy", "Fairness target", "Certificate", "Expert")
DATA, PRIVACY, TARGET, CERTIFICATE, EXPERT = GROUPS
MODELS = ("logistic", "mlp", "cnn", "oriented_gradients")
# What a fairness target may be about: every method that takes one knows each of them.
PARITIES = ("demographic_parity", "equal_opportunity", "equalized_odds")
# What computes ε: privacy loss distributions, or the moments accountant.
ACCOUNTANTS = ("pld", "rdp")
DEFAULT_EPSILON = 1.0
DEFAULT_MAX_GAP = 0.03
# Points of accuracy that the default target may cost for each point of gap that it closes.
DEFAULT_PRICE = 0.3


def parameter(default: Any, group: str, help: str, *, flag: str | None = "", **more: Any) -> Any:
    """Declare a parameter: its default and the other fields of `Declaration`; by default the flag is the name."""
    return field(default=default, metadata={"group": group, "help": help, "flag": flag, **more})


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
    hidden: tuple[int, ...] = parameter((32,), DATA, "Sizes of the hidden layers of the MLP.", check=limits.layer_sizes)
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
        check=_checks.finite_positive,
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
        check=limits.group_sizes,
        when_none="counted with noise, for 1 % of the privacy",
    )
    groups: tuple[str, ...] | None = parameter(
        None,
        PRIVACY,
        "Names of the groups, declared beforehand, for `fit`; other names are refused.",
        flag=None,
        check=limits.group_names,
        when_none="those of `group_sizes`, or read from the records, which the privacy statement then says",
    )
    max_sample_weight: float = parameter(
        1.0,
        PRIVACY,
        "Largest value allowed in `sample_weight`; noise is scaled to it.",
        flag=None,
        check=_checks.finite_positive,
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
        "`fairdp_parity`, `raco_dp`, `dp_postprocess`.",
        choices=PARITIES,
    )
    max_gap: float | None = parameter(
        None,
        TARGET,
        "Largest difference between these rates to aim at. Not a guarantee: that is the certificate.",
        check=limits.share(0.03),
        when_none=f"{DEFAULT_MAX_GAP:g}; any if `min_ratio` is given",
    )
    min_ratio: float | None = parameter(
        None,
        TARGET,
        "Smallest ratio of two of these rates to aim at, such as 0.8.",
        check=limits.share(0.8),
        when_none="any",
    )
    positive_rate: float | None = parameter(
        None,
        TARGET,
        "Share of positive decisions to aim at; not for `raco_dp`.",
        check=limits.share(0.2),
        when_none="any",
    )
    price: float | None = parameter(
        None,
        TARGET,
        "Most accuracy to pay for a unit of gap, for `fairdp_frontier`; what a target costs beyond it is not paid.",
        check=_checks.positive,
        when_none=f"{DEFAULT_PRICE:g} for the default target; for one that you state what it takes, with two groups at "
        "most 0.6",
    )
    cost_ratio: float = parameter(
        1.0,
        TARGET,
        "What a wrong refusal costs, in wrong acceptances, for `fairdp_frontier`; above 1 more people are accepted.",
        check=_checks.finite_positive,
    )

    certify_fraction: float = parameter(
        0.2, CERTIFICATE, "Fraction of the records held out for the certificate; 0 for none.", check=limits.fraction
    )
    confidence: float = parameter(
        0.95, CERTIFICATE, "Probability with which all bounds hold together.", check=limits.confidence
    )
    certify_metrics: tuple[str, ...] | None = parameter(
        None,
        CERTIFICATE,
        f"Gaps to bound, from {', '.join(f'`{metric}`' for metric in METRICS)}; fewer get tighter bounds.",
        check=limits.metrics,
        when_none="all three",
    )
    require_tau: float | None = parameter(
        None,
        CERTIFICATE,
        "Bound that every certified gap must meet; the gaps are tested one after the other.",
        check=_checks.in_unit_interval,
    )
    n_looks: int = parameter(
        1,
        CERTIFICATE,
        "How often to test the required bound in training, which ends at the first miss and keeps the model before; "
        "looks share epsilon, each with one more noisy step for heads; for `fairdp` or `dpsgd`, not for the default.",
        flag="--looks",
        check=_checks.positive_integer,
    )
    target_tau: float | None = parameter(
        None,
        CERTIFICATE,
        "Gap to reach by diluting decisions if the certificate alone does not reach it.",
        check=_checks.in_unit_interval,
    )
    score_share: float = parameter(
        0.1,
        CERTIFICATE,
        "Share of the certificate's epsilon for counts of scores, from which calibration follows; 0 for none.",
        check=limits.up_to_half,
    )

    sample_rate: float | None = parameter(None, EXPERT, "Chance to be in a batch, q.", check=_checks.sample_rate)
    n_steps: int | None = parameter(None, EXPERT, "Number of steps, T.", check=_checks.positive_integer)
    clip_norm: float | None = parameter(None, EXPERT, "Bound on a record's gradient, C.", check=_checks.finite_positive)
    learning_rate: float | tuple[float, ...] | None = parameter(
        None, EXPERT, "Step size η, or several, each used for an equal part of the run.", check=limits.step_sizes
    )
    schedule: str = parameter(
        "piecewise",
        EXPERT,
        "Use the step sizes part by part, or SGD with the decay that the paper's Theorem 4 needs, or as it prints it.",
        choices=("piecewise", "shamir_zhang", "theorem_4_printed"),
    )
    diameter: float = parameter(10.0, EXPERT, "Scale Q of shamir_zhang, a diameter.", check=_checks.finite_positive)
    optimizer: str | None = parameter(
        None,
        EXPERT,
        "Optimiser; `adam_then_sgd` switches to SGD after `adam_share` of the run.",
        choices=("adam", "sgd", "adam_then_sgd"),
    )
    adam_share: float = parameter(0.9, EXPERT, "Share of `adam_then_sgd` that is Adam.", check=limits.share(0.9))
    momentum: float | None = parameter(None, EXPERT, "Momentum of SGD.", check=limits.fraction)
    sgd_learning_rate: float = parameter(
        0.005,
        EXPERT,
        "Step size of SGD after `adam_then_sgd` switches, and in the last step, which makes the ensemble.",
        check=_checks.finite_positive,
    )
    activation: str | None = parameter(None, EXPERT, "Activation of the hidden layers.", choices=("relu", "tanh"))
    normalize_embedding: bool = parameter(False, EXPERT, "Scale embeddings to norm one.")
    bias: bool = parameter(
        True,
        EXPERT,
        "Give the head a bias. Without, as in the paper, a record whose embedding is zero has score zero and is always "
        "decided positive; not for `fairdp_frontier`, `fairfm`, `fairfm_smooth`.",
    )
    weight_bound: float = parameter(
        1.0, EXPERT, "Bound on the norm of the head with its bias, M; for `fairdp`.", check=_checks.positive
    )
    n_members: int = parameter(10, EXPERT, "Number of heads, N; for `fairdp`.", check=_checks.positive_integer)
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
        check=limits.group_weights,
        when_none="all alike",
    )
    fairness_weight: float = parameter(10.0, EXPERT, "Weight of the penalty of `dp_fermi`.", check=limits.not_negative)
    grouping: str = parameter(
        "attribute", EXPERT, "What `dp_is_sgd` samples equally often.", choices=("attribute", "attribute_and_label")
    )
    max_sample_rate: float = parameter(1.0, EXPERT, "Largest sampling rate of `dp_is_sgd`.", check=_checks.sample_rate)
    parameter_noise: float = parameter(
        0.1,
        EXPERT,
        "Standard deviation of the noise on the parameters; for `fairsmooth`, `dpsgd_smooth`, `fairfm_smooth`.",
        check=_checks.finite_positive,
    )
    n_draws: int = parameter(100, EXPERT, "Number of draws of that noise.", check=_checks.positive_integer)
    predictor: str = parameter(
        "deterministic",
        EXPERT,
        "Decision rule: deterministic, a random head for each person (gibbs), or noise on the head for each person "
        "(smoothed). The same person always gets the same decision.",
        choices=("deterministic", "gibbs", "smoothed"),
    )
    smoothing: float = parameter(
        1.0, EXPERT, "Standard deviation of the noise of the smoothed predictor.", check=_checks.finite_positive
    )
    max_physical_batch_size: int | None = parameter(
        None,
        EXPERT,
        "Records per forward pass: 256 images, 4096 rows of tables. Trades memory for speed, is what workers share; "
        "changes the result only by rounding.",
        check=limits.physical_batch,
    )


DECLARED = {
    declared.name: declaration(declared.name, declared.default, declared.type, declared.metadata)
    for declared in fields(Parameters)
}


def check_parameters(**values: Any) -> None:
    """Refuse values that their declarations do not allow; None is allowed where it is the default."""
    for name, value in values.items():
        declared = DECLARED[name]
        if value is None and declared.default is None:
            continue
        if declared.kind is bool:
            limits.yes_or_no(**{name: value})
        if declared.choices:
            _checks.one_of(declared.choices, **{name: value})
        if declared.check is not None:
            declared.check(**{name: value})
