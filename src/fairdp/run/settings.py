"""Everything that a user chose about a fit."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fairdp import _checks
from fairdp._checks import ParameterError
from fairdp.accounting.account import known_sizes
from fairdp.accounting.mechanisms import PrivacyBudget
from fairdp.accounting.words import FITTED_BEFORE, NAMES_READ, READ_FROM_TABLE
from fairdp.config.certificate import METRICS, NoCertificate
from fairdp.config.defaults import (
    ROW_NORMS,
    TRAINING_PARAMETERS,
    check_group_parameters,
    defaults_of,
    kind_of,
    train_config,
)
from fairdp.config.model import ModelConfig
from fairdp.config.parameters import DECLARED, Parameters, check_parameters
from fairdp.config.preregistration import CertificationSettings, Preregistration
from fairdp.config.training import TrainConfig, plain
from fairdp.data.arrays import declared_groups
from fairdp.data.encoded_columns import EncodedColumns
from fairdp.data.schema import TableSchema
from fairdp.methods import METHODS, ONLY_FOR
from fairdp.networks.models import ExtractorBuilder, ParameterSmoothing
from fairdp.randomness import Generators, seed_of
from fairdp.run.budget import budget_of, check_looks
from fairdp.run.goal import PrivacyGoal
from fairdp.run.predictor import Predictor

# Hats and bins of more inputs than this would be mostly noise.
_MOST_UNDECLARED = 64
# Parameters of single methods that others would silently ignore; studies give the rest of `ONLY_FOR` to all alike.
_REFUSED = ("price", "cost_ratio", "grouping", "max_sample_rate", "parameter_noise", "fairness_weight")


def assumed_with(assumed: tuple[str, ...], schema: TableSchema | None, *, paid: bool) -> tuple[str, ...]:
    """What is assumed to be public, a schema included that was read from the rows as they stand."""
    free = schema is not None and not schema.declared and not paid
    return (*assumed, READ_FROM_TABLE) if free and READ_FROM_TABLE not in assumed else assumed


def read_from_records(
    estimator: Parameters, sensitive_features: object, *, schema: TableSchema | None, before: tuple[str, ...]
) -> tuple[str, ...]:
    """What counts as public because it was read from the records: the names of the groups, unless they are declared.

    And what steps ``before`` the estimator, in a pipeline, have learnt from them.
    """
    learnt = (FITTED_BEFORE + ", ".join(before),) if before else ()
    undeclared = sensitive_features is not None and schema is None and declared_groups(estimator) is None
    return (*learnt, NAMES_READ) if undeclared else learnt


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """Everything that a user chose about a fit; None means the default of the kind of model."""

    method: str
    goal: PrivacyGoal
    model: str
    hidden: tuple[int, ...]
    activation: str | None
    normalize_embedding: bool
    bias: bool
    module: ExtractorBuilder | None
    training: dict[str, Any]
    group_sizes: str | dict[str, float] | None
    certification: CertificationSettings
    predictor: Predictor
    seed: int | None = field(repr=False)
    max_sample_weight: float = 1.0
    # ε that follows from noise and number of steps, once it is known what kind of model is trained.
    following_epsilon: float | None = None

    def __post_init__(self) -> None:
        _checks.one_of(METHODS, method=self.method)
        check_parameters(group_sizes=self.group_sizes, max_sample_weight=self.max_sample_weight)
        self.goal.check_for(self.method)
        self._check_method()
        self._check_target()

    @property
    def budget(self) -> PrivacyBudget:
        """The (ε, δ) of the run; where ε follows, `with_budget` has to find it first."""
        return self.goal.budget(self.following_epsilon)

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
        return replace(self, following_epsilon=budget.epsilon if self.goal.epsilon_follows else None)

    def kind(self, shape: tuple[int, ...]) -> str:
        """Kind of model for records of this shape."""
        return kind_of(self.model, self.module, shape, self.method)

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
        """How the sizes of the groups are known, as a code."""
        private = METHODS[self.method].private and self.goal.is_private
        return known_sizes(self.group_sizes, private=private)

    def smoothing(self, config: TrainConfig, generators: Generators) -> ParameterSmoothing | None:
        """How the deployed model is smoothed, if the method does so; the draws are as public as the model."""
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
            normalize_embedding=self.normalize_embedding,
            bias=self.bias,
            n_active=n_active if method.closed_form else 0,
        )
        if not method.joint:
            return config
        joint = replace(config, n_cells=2 * n_groups, row_norm=ROW_NORMS.get(kind, 1.0))
        return replace(joint, **_rows_of(n_inputs, columns)) if kind == "logistic" else joint

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
            normalize_embedding=chosen.normalize_embedding,
            bias=chosen.bias,
            module=chosen.module,
            training={name: _by_name(getattr(chosen, name)) for name in TRAINING_PARAMETERS},
            group_sizes=_by_name(chosen.group_sizes),
            certification=CertificationSettings(
                fraction=chosen.certify_fraction, registration=registration, target_tau=chosen.target_tau
            ),
            predictor=Predictor(kind=chosen.predictor, smoothing=chosen.smoothing),
            seed=seed_of(chosen.random_state),
            max_sample_weight=chosen.max_sample_weight,
        )

    def reason_for_no_certificate(self, n_groups: int) -> NoCertificate | None:
        """Why no records need to be held out for a certificate, or None."""
        return self.certification.reason_for_none(n_groups=n_groups, epsilon=self.budget.epsilon)

    def train_config(self, shape: tuple[int, ...], sizes: tuple[float, ...]) -> TrainConfig:
        """The numbers of the run for groups of these sizes."""
        return train_config(self.kind(shape), self.method, sizes, **self.training)


def _rows_of(n_inputs: int, columns: EncodedColumns | None) -> dict[str, Any]:
    """How the inputs of a joint logistic model become rows: as declared, or every one of a few as a number."""
    if columns is not None:
        return {"numeric": columns.numeric, "zeros": columns.zeros, "most_squares": columns.most_squares}
    n_numbers = n_inputs if n_inputs <= _MOST_UNDECLARED else 0
    return {
        "numeric": tuple(range(n_numbers)),
        "zeros": (0.5,) * n_numbers,
        "bounded": False,
        "most_squares": float(n_inputs + 3 * n_numbers),
    }


def _by_name(chosen: Any) -> Any:
    """What was declared of groups, with names and numbers as files hold them; anything else stays as it is."""
    return {str(name): plain(value) for name, value in chosen.items()} if isinstance(chosen, Mapping) else chosen
