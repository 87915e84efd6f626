"""Everything that a user chose about a fit."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fairdp import _validate, fitting
from fairdp.accounting import PrivacyBudget
from fairdp.certification import CertificationSettings
from fairdp.certify.registration import METRICS, Registration
from fairdp.config import (
    TRAINING_PARAMETERS,
    ModelConfig,
    TrainConfig,
    defaults_of,
    kind_of,
    plain,
    train_config,
)
from fairdp.methods import METHODS
from fairdp.predictors import Predictor
from fairdp.training.models import ExtractorBuilder


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """Everything that a user chose about a fit; None means the default of the kind of model."""

    method: str
    budget: PrivacyBudget
    model: str
    hidden: tuple[int, ...]
    activation: str | None
    normalize_embedding: bool
    module: ExtractorBuilder | None
    training: dict[str, Any]
    group_sizes: str
    certification: CertificationSettings
    predictor: Predictor
    seed: int | None

    def __post_init__(self) -> None:
        _validate.one_of(METHODS, method=self.method)
        _validate.one_of(("public", "private"), group_sizes=self.group_sizes)

    def model_config(self, shape: tuple[int, ...]) -> ModelConfig:
        """The network for records of this shape."""
        kind = kind_of(self.model, self.module, shape)
        return ModelConfig(
            kind=kind,
            hidden=self.hidden,
            activation=self.activation or defaults_of(kind).activation,
            normalize_embedding=self.normalize_embedding,
        )

    @classmethod
    def of(
        cls,
        *,
        certify_fraction: float,
        confidence: float,
        certify_metrics: Sequence[str] | None,
        require_tau: float | None,
        n_looks: int,
        target_tau: float | None,
        epsilon: float,
        delta: float,
        predictor: str,
        smoothing: float,
        random_state: Any,
        **others: Any,
    ) -> "RunSettings":
        """Settings from the parameters of an estimator, all of them."""
        registration = Registration(
            confidence=plain(confidence),
            metrics=METRICS if certify_metrics is None else certify_metrics,
            require_tau=plain(require_tau),
            n_looks=plain(n_looks),
        )
        fraction, target = plain(certify_fraction), plain(target_tau)
        return cls(
            budget=PrivacyBudget(epsilon=plain(epsilon), delta=plain(delta)),
            certification=CertificationSettings(fraction=fraction, registration=registration, target_tau=target),
            predictor=Predictor(kind=predictor, smoothing=plain(smoothing)),
            seed=fitting.seed_of(random_state),
            training={name: plain(others.pop(name)) for name in TRAINING_PARAMETERS},
            **others,
        )

    def reason_for_no_certificate(self, n_groups: int) -> str | None:
        """Why no records need to be held out for a certificate, or None."""
        return self.certification.reason_for_none(n_groups=n_groups, epsilon=self.budget.epsilon)

    def train_config(self, shape: tuple[int, ...], sizes: tuple[float, ...]) -> TrainConfig:
        """The numbers of the run for groups of these sizes."""
        return train_config(kind_of(self.model, self.module, shape), min(sizes), **self.training)
