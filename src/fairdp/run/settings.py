"""The settings of a fit, and its records: who agrees on them, who is held out, and the sizes that are planned with."""

import hashlib
import math
import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairdp.accounting.mechanisms import PrivacyBudget, Reading
from fairdp.accounting.plan import SizesNoise, known_sizes, sizes_noise
from fairdp.accounting.selection import Selection
from fairdp.accounting.spent import FITTED_BEFORE, NAMES_READ, NOISY, READ_FROM_TABLE
from fairdp.config import (
    ROW_NORMS,
    SMALLEST_BATCH,
    CertificationSettings,
    ModelConfig,
    Preregistration,
    TrainConfig,
    check_group_parameters,
    in_order,
    plain,
)
from fairdp.data.columns import EncodedColumns
from fairdp.data.grouped import GroupedData, bytes_of, declared_groups, split_by_own_coin
from fairdp.data.schema import TableSchema
from fairdp.defaults import TRAINING_PARAMETERS, defaults_of, kind_of, train_config
from fairdp.distributed import process_group
from fairdp.errors import ParameterError, one_of
from fairdp.ledger.ledger import Spending
from fairdp.methods import METHODS, ONLY_FOR
from fairdp.networks.model import ExtractorBuilder, ParameterSmoothing
from fairdp.parameters import DECLARED, METRICS, NoCertificate, Parameters, check_parameters
from fairdp.randomness import Generators, RandBelow, discrete_gaussian, discrete_laplace, seed_of
from fairdp.releases import release
from fairdp.run.plan import PlannedRun, PrivacyGoal, budget_of, check_looks, plan_run
from fairdp.run.predictor import Predictor

# Linear splines and bins of more inputs than this would be mostly noise.
_MOST_UNDECLARED = 64
# Parameters of single methods that others would silently ignore; studies give the rest of `ONLY_FOR` to all alike.
_REFUSED = ("price", "cost_ratio", "grouping", "max_sample_rate", "parameter_noise", "fairness_weight")
# Libraries whose versions all processes of a group must share.
_LIBRARIES = ("fairdp", "torch", "numpy", "scipy")


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """Everything that a user chose about a fit; None means the default of the kind of model."""

    method: str
    goal: PrivacyGoal
    model: str
    hidden: tuple[int, ...]
    activation: str | None
    bias: bool
    module: ExtractorBuilder | None
    training: dict[str, Any]
    group_sizes: str | dict[str, float] | None
    certification: CertificationSettings
    predictor: Predictor
    seed: int | None = field(repr=False)
    max_sample_weight: float = 1.0
    # ε that follows from noise and number of steps, once it is known what kind of model is trained.
    derived_epsilon: float | None = None

    @classmethod
    def of(cls, **values: Any) -> "RunSettings":
        """Settings from the parameters of an estimator."""
        chosen = Parameters(**{name: plain(value) for name, value in values.items()})
        registration = Preregistration(
            confidence=chosen.confidence,
            metrics=METRICS if chosen.certify_metrics is None else chosen.certify_metrics,
            require_tau=chosen.require_tau,
            n_looks=chosen.n_looks,
            score_share=chosen.score_share,
        )
        return cls(
            method=chosen.method,
            goal=PrivacyGoal(
                epsilon=chosen.epsilon,
                delta=chosen.delta,
                accountant=chosen.accountant,
                noise_multiplier=chosen.noise_multiplier,
                n_steps=chosen.n_steps,
            ),
            model=chosen.model,
            hidden=chosen.hidden,
            activation=chosen.activation,
            bias=chosen.bias,
            module=chosen.module,
            training={name: _by_name(getattr(chosen, name)) for name in TRAINING_PARAMETERS},
            group_sizes=_by_name(chosen.group_sizes),
            certification=CertificationSettings(fraction=chosen.certify_fraction, registration=registration),
            predictor=Predictor(kind=chosen.predictor, smoothing=chosen.smoothing),
            seed=seed_of(chosen.random_state),
            max_sample_weight=chosen.max_sample_weight,
        )

    def __post_init__(self) -> None:
        one_of(METHODS, method=self.method)
        check_parameters(group_sizes=self.group_sizes, max_sample_weight=self.max_sample_weight)
        self.goal.check_for(self.method)
        self._check_method()
        self._check_target()

    def _check_method(self) -> None:
        """Refuse what the method cannot do, and name methods that can."""
        method, n_looks = METHODS[self.method], self.certification.registration.n_looks
        if method.closed_form and (self.module is not None or self.model not in ("auto", "logistic")):
            raise ParameterError(
                "method",
                self.method,
                "is a logistic model on tables only",
                "use `method`='dpsgd' or `model`='logistic'",
            )
        check_looks(self.method, n_looks)
        if self.predictor.kind != "deterministic" and (method.smooths or method.post_processes or method.joint):
            raise ParameterError(
                "method",
                self.method,
                "has its own decision rule",
                "use `predictor`='deterministic', or `method`='fairdp'",
            )
        check_group_parameters(self.method, self.training)
        for name in _REFUSED:
            value, users = self.training[name], ONLY_FOR[name]
            if value != DECLARED[name].default and self.method not in users:
                only = " and ".join(f"{user!r}" for user in users)
                raise ParameterError(name, value, f"is for `method`={only} only, not {self.method!r}", "leave it out")
        if not self.bias and (method.joint or method.closed_form):
            raise ParameterError("bias", self.bias, f"is not for `method`={self.method!r}", "leave it out")

    def _check_target(self) -> None:
        """Refuse a target that the method would not aim at."""
        for name in ("max_gap", "min_ratio", "positive_rate"):
            if self.training[name] is not None and not METHODS[self.method].takes_target:
                raise ParameterError(
                    name,
                    self.training[name],
                    f"is a target, which `method`={self.method!r} does not take",
                    "use `method`='fairdp_frontier', 'raco_dp' or 'dp_postprocess'",
                )
        rate = self.training["positive_rate"]
        if rate is not None and self.method == "raco_dp":
            raise ParameterError(
                "positive_rate",
                rate,
                "is for `method`='fairdp_frontier' and 'dp_postprocess'",
                "raco_dp constrains gaps only",
            )

    @property
    def budget(self) -> PrivacyBudget:
        """The (ε, δ) of the run; where ε follows, `with_budget` has to find it first."""
        return self.goal.budget(self.derived_epsilon)

    def with_budget(self, kind: str, n_groups: int) -> "RunSettings":
        """The same settings for this kind of model and number of groups, with ε where it follows from them."""
        budget = budget_of(
            self.goal,
            method=self.method,
            kind=kind,
            training=self.training,
            n_groups=n_groups,
            group_sizes=self.known_sizes,
            n_looks=self.certification.n_looks_at(n_groups),
        )
        return replace(self, derived_epsilon=budget.epsilon if self.goal.epsilon_follows else None)

    def kind(self, shape: tuple[int, ...]) -> str:
        """Kind of model for records of this shape."""
        return kind_of(self.model, self.module, shape, self.method)

    def as_trial(self, expected_trials: float) -> "RunSettings":
        """The same settings for one of several runs, of which the best will be kept."""
        registration = replace(self.certification.registration, expected_trials=expected_trials)
        return replace(self, certification=replace(self.certification, registration=registration))

    def check_weighted(self, weighted: bool) -> None:
        """Refuse weights if the method does not use them, instead of silently ignoring them."""
        if weighted and METHODS[self.method].closed_form:
            raise ParameterError(
                "method", self.method, "takes no `sample_weight`", "leave it out or use `method`='dpsgd'"
            )

    @property
    def known_sizes(self) -> str:
        """The code of how the sizes of the groups are known."""
        private = METHODS[self.method].private and self.goal.is_private
        return known_sizes(self.group_sizes, private=private)

    def smoothing(self, config: TrainConfig, generators: Generators) -> ParameterSmoothing | None:
        """Smoothing of the deployed model, if the method has any; the draws are as public as the model."""
        if not METHODS[self.method].smooths:
            return None
        seed = int.from_bytes(generators.key("smoothing")[:8], "little")
        return ParameterSmoothing(deviation=config.parameter_noise, n_draws=config.n_draws, seed=seed)

    def model_config(self, shape: tuple[int, ...], columns: EncodedColumns | None, n_groups: int) -> ModelConfig:
        """The network for records of this shape; ``columns`` is what is public about a table's columns."""
        kind, method = self.kind(shape), METHODS[self.method]
        n_inputs = math.prod(shape)
        n_active = n_inputs if columns is None else min(columns.n_columns, n_inputs)
        config = ModelConfig(
            kind=kind,
            hidden=self.hidden,
            activation=self.activation or defaults_of(kind, self.method).activation,
            bias=self.bias,
            n_active=n_active if method.closed_form else 0,
        )
        if not method.joint:
            return config
        joint = replace(config, n_cells=2 * n_groups, row_norm=ROW_NORMS.get(kind, 1.0))
        if kind != "logistic":
            return joint
        if columns is not None:
            return replace(joint, numeric=columns.numeric, zeros=columns.zeros, most_squares=columns.most_squares)
        # Of undeclared inputs, every one of a few is a number.
        n_numbers = n_inputs if n_inputs <= _MOST_UNDECLARED else 0
        return replace(
            joint,
            numeric=tuple(range(n_numbers)),
            zeros=(0.5,) * n_numbers,
            bounded=False,
            most_squares=float(n_inputs + 3 * n_numbers),
        )

    def reason_for_no_certificate(self, n_groups: int) -> NoCertificate | None:
        """The reason for which no records need to be held out for a certificate, or None."""
        return self.certification.reason_for_none(n_groups=n_groups, epsilon=self.budget.epsilon)

    def train_config(self, shape: tuple[int, ...], sizes: tuple[float, ...]) -> TrainConfig:
        """The numbers of the run for groups of these sizes."""
        return train_config(self.kind(shape), self.method, sizes, **self.training)


def _by_name(chosen: Any) -> Any:
    """Declarations about groups, with names and numbers as files hold them; anything else stays as it is."""
    return {str(name): plain(value) for name, value in chosen.items()} if isinstance(chosen, Mapping) else chosen


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Whom to tell about each step, the training and held-out records and the plan, and where checkpoints go.

    ``before_training`` is called before the first checkpoint of a run is written.
    """

    observe: Callable[[int, int], None] = lambda step, n_steps: None
    observe_parts: Callable[[GroupedData, GroupedData], None] = lambda train, held_out: None
    observe_plan: Callable[[PlannedRun], None] = lambda planned: None
    before_training: Callable[[], None] = lambda: None
    checkpoint: Path | None = None
    resume: bool = False
    seconds_between_checkpoints: float = 1.0


def paid_by(spending: Spending, table: str, known: Progress | None = None) -> Progress:
    """As known, and writes down what a run spends on the records of a table before it releases anything."""
    known = known or Progress()

    def parts(train: GroupedData, held_out: GroupedData) -> None:
        spending.charge(train, held_out)
        known.observe_parts(train, held_out)

    def plan(planned: PlannedRun) -> None:
        spending.spend(planned.privacy, table, resume=known.resume, run=planned.run)
        known.observe_plan(planned)

    return replace(known, observe_parts=parts, observe_plan=plan)


def assumed_with(assumed: tuple[str, ...], schema: TableSchema | None, *, paid: bool) -> tuple[str, ...]:
    """Assumptions of what is public, a schema included that was read from the rows as they stand."""
    free = schema is not None and not schema.declared and not paid
    return (*assumed, READ_FROM_TABLE) if free and READ_FROM_TABLE not in assumed else assumed


def read_from_records(
    estimator: Parameters, sensitive_features: object, *, schema: TableSchema | None, before: tuple[str, ...]
) -> tuple[str, ...]:
    """Public because it was read from the records: the names of the groups, unless they are declared.

    And what steps ``before`` the estimator, in a pipeline, have learnt from them.
    """
    learnt = (FITTED_BEFORE + ", ".join(before),) if before else ()
    undeclared = sensitive_features is not None and schema is None and declared_groups(estimator) is None
    return (*learnt, NAMES_READ) if undeclared else learnt


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainHoldoutSplit:
    """The records of a run, those to train on and those to certify on, and the sizes that the former are planned with.

    Records to train on may be in finer groups, by label too, if that is how they are sampled.
    """

    train: GroupedData
    held_out: GroupedData
    fraction: float
    sizes: tuple[float, ...]

    @property
    def expected_held_out(self) -> tuple[float, ...]:
        """Expected number of held-out records of each group."""
        by_group = np.reshape(self.sizes, (self.held_out.n_groups, -1)).sum(1)
        return tuple((by_group * self.fraction / (1 - self.fraction)).tolist())


def hold_out(
    settings: RunSettings,
    data: GroupedData,
    generators: Generators,
    *,
    split_key: bytes | None = None,
    sizes: tuple[float, ...] | None = None,
    noise: SizesNoise | None = None,
) -> TrainHoldoutSplit:
    """Send every record to training or to the certificate by its own coin, and find the sizes to plan with.

    The key of the coins is drawn without looking at the data, and adding or removing a record moves no other. Trials of
    one selection share their key, so that a record is held out in all of them or in none.

    Parameters
    ----------
    sizes
        Sizes that were released before; None finds them now.
    noise
        How to count, where sizes are counted with noise; None does it as one run with these settings pays for it.
    """
    finer = settings.training["grouping"] == "attribute_and_label"
    # Before the split, which may put the records in another order.
    totals = (data.by_label() if finer else data).group_sizes
    key = int.from_bytes(split_key or generators.key("hold out"), "little")
    nobody = data.take(np.arange(0))
    fraction = 0.0 if settings.reason_for_no_certificate(data.n_groups) else settings.certification.fraction
    train, held_out = split_by_own_coin(data, seed=key, share=fraction) if fraction else (data, nobody)
    train = train.by_label() if finer else train
    if sizes is None and settings.known_sizes == NOISY:
        # A record's coin is its own, so those that are held out are in no count and pay for none.
        noise = noise or sizes_noise(NOISY, settings.budget, pure=METHODS[settings.method].closed_form)
        purpose = f"group sizes {train.group_sizes.tolist()} at {settings.budget.epsilon}"
        sizes = floored(counted_sizes(train.group_sizes, noise, generators.below(purpose)), noise)
    elif sizes is None:
        known = declared_sizes(settings.group_sizes, train.group_names) or totals.tolist()
        sizes = tuple((1 - fraction) * size for size in known)
    return TrainHoldoutSplit(train=train, held_out=held_out, fraction=fraction, sizes=sizes)


def declared_sizes(declared: object, group_names: tuple[str, ...]) -> tuple[float, ...]:
    """Sizes that were declared, in the order of the groups, which they must name; none if none were."""
    known = in_order("group_sizes", declared if isinstance(declared, Mapping) else None, group_names)
    return () if known is None else tuple(map(float, known.values()))


def counted_sizes(exact: NDArray[np.int64], noise: SizesNoise, rand_below: RandBelow) -> NDArray[np.int64]:
    """Numbers of records with exact discrete noise; a record is in one of them and moves it by one."""
    if noise.std:
        drawn = np.array([discrete_gaussian(noise.std, rand_below) for _ in exact], dtype=np.int64)
        return release(exact + drawn, purpose="sizes", law="discrete_gaussian", scale=noise.std, exact=exact)
    drawn = np.array([discrete_laplace(noise.epsilon, rand_below) for _ in exact], dtype=np.int64)
    return release(exact + drawn, purpose="sizes", law="laplace", scale=1 / noise.epsilon, exact=exact)


def floored(sizes: NDArray[np.int64], noise: SizesNoise) -> tuple[float, ...]:
    """Noisy sizes that a run can be planned with.

    Two deviations at least: a smaller count cannot be told from none, and records weigh as the inverse of the size that
    is planned with. So a group that is there weighs at most some two and a half times too much (five deviations counted
    as two), and one that hardly is weighs little. A batch at least, so that no run ends for the lack of records that
    the noise took away.
    """
    deviation = noise.std or math.sqrt(2) / noise.epsilon
    return tuple(max(float(size), 2 * deviation, float(SMALLEST_BATCH)) for size in sizes)


def plan_of_parts(
    settings: RunSettings,
    parts: TrainHoldoutSplit,
    shape: tuple[int, ...],
    *,
    seeded: bool,
    sizes_counted: bool = True,
    public_assumptions: tuple[str, ...] = (),
    reading: Reading | None = None,
    selection: Selection | None = None,
) -> PlannedRun:
    """Plan a run on these parts of the records, of which only the sizes are used."""
    return plan_run(
        method=settings.method,
        kind=settings.kind(shape),
        budget=settings.budget,
        training=settings.training,
        sizes=dict(zip(parts.train.group_names, parts.sizes, strict=True)),
        groups=parts.held_out.group_names,
        certify_fraction=parts.fraction,
        group_sizes=settings.known_sizes,
        sizes_counted=sizes_counted,
        noise_seeded=seeded,
        public_assumptions=public_assumptions,
        reading=reading,
        selection=selection,
        noise_multiplier=settings.goal.noise_multiplier,
        n_looks=settings.certification.registration.n_looks,
    )


def agree_on_program(options: object = None) -> None:
    """The same versions, on processors that round alike, and the same options, by their ``repr``."""
    processes = process_group()
    if processes.size == 1:
        return
    import torch

    # Other instructions add in another order, and models would drift apart.
    processor = (platform.machine(), torch.backends.cpu.get_cpu_capability())
    versions = (platform.python_version_tuple()[:2], [version(name) for name in _LIBRARIES])
    for value, what in (
        (versions, "other versions of Python, fairdp or its libraries"),
        (processor, "a processor with other instructions (see ATEN_CPU_CAPABILITY)"),
        (options, "other options"),
    ):
        processes.agree(hashlib.sha256(repr(value).encode()).digest(), what)


def agree_on_run(settings: RunSettings, data: GroupedData) -> None:
    """The same settings, the same records in the same order."""
    processes = process_group()
    if processes.size == 1:
        return
    # The module itself is compared by what it does, once it is built.
    chosen = replace(settings, module=None), settings.seed, settings.module is None
    agree_on_program(chosen)
    processes.agree(records_digest([data]), "other records, or the same in another order,")


def agree_on_files(path: Path) -> None:
    """The same file, or the same files of a folder; before anything is read, or paid for, one that is not there too."""
    processes = process_group()
    if processes.size > 1:
        # In a folder, names are values and the order of the rows.
        found = sorted(path.rglob("*")) if path.is_dir() else [path]
        digest = hashlib.sha256()
        for file in found:
            if file.is_file():
                digest.update(file.relative_to(path).as_posix().encode())
                with file.open("rb") as stream:
                    digest.update(hashlib.file_digest(stream, "sha256").digest())
        processes.agree(digest.digest(), f"another {path.name!r}, or none,")


def records_digest(parts: Iterable[GroupedData]) -> bytes:
    """A digest of records: all that is trained on, in its order."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(repr((part.X.shape, part.group_names)).encode())
        for array in (part.X, part.y, part.groups, part.weights):
            for content in bytes_of(array) if array is not None else ():
                digest.update(content)
    return digest.digest()
