"""One fit from start to end: hold records out, plan, train, certify, account."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairdp import _validate, fitting
from fairdp.accounting import PrivacyBudget
from fairdp.artifacts import digest_of
from fairdp.certification import CertificationSettings, count_decisions, release_certificate
from fairdp.certify.certificate import Certificate, NotCertified
from fairdp.certify.registration import METRICS, Registration
from fairdp.checkpoint import Checkpoint
from fairdp.config import (
    TRAINING_PARAMETERS,
    ModelConfig,
    TrainConfig,
    check_groups,
    defaults_of,
    kind_of,
    plain,
    train_config,
)
from fairdp.data.grouped import GroupedData
from fairdp.data.splits import split_by_own_coin
from fairdp.methods import METHODS
from fairdp.predictors import Predictor
from fairdp.privacy import PrivacySpent, privacy_spent
from fairdp.saving import tensors_of
from fairdp.training.models import ExtractorBuilder, ScoreModel

POLICY = "held out by a keyed coin for each record"


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


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedRun:
    """What a fit leaves: the model, the rule that decides, what was spent, and what is promised."""

    model_config: ModelConfig
    model: ScoreModel
    predictor: Predictor
    privacy: PrivacySpent
    certificate: Certificate | NotCertified
    parts: "Parts"
    seconds: dict[str, float]


@dataclass(frozen=True, kw_only=True, eq=False)
class Parts:
    """The records of a run, those to train on and those to certify on, and the public sizes of the former."""

    train: GroupedData
    held_out: GroupedData
    fraction: float
    sizes: tuple[float, ...]
    counts_epsilon: float

    @property
    def expected_held_out(self) -> tuple[float, ...]:
        """Expected number of held-out records of each group."""
        return tuple(size * self.fraction / (1 - self.fraction) for size in self.sizes)

    @property
    def expected_total(self) -> float:
        """Public number of records of both parts."""
        return sum(self.sizes) / (1 - self.fraction)


def fit_run(
    settings: RunSettings,
    data: GroupedData,
    progress: fitting.Progress,
    *,
    public_assumptions: tuple[str, ...] = (),
) -> FittedRun:
    """Train on one part of the records and certify on the other; every record is in one of them."""
    generators = fitting.Generators.of(settings.seed)
    resumed = fitting.resumed_checkpoint(progress)
    if resumed is not None:
        generators = replace(generators, run_key=resumed.run_key, seeded=generators.seeded or resumed.seeded)
    parts = hold_out(settings, data, generators, resumed)
    progress.observe_parts(parts.train, parts.held_out)
    settings.budget.check_for(parts.expected_total)
    check_groups(data.group_names, parts.sizes, settings.training["sample_rate"])
    shape = data.X.shape[1:]
    config, model_config = settings.train_config(shape, parts.sizes), settings.model_config(shape)
    plan = fitting.plan_run(settings.method, config, settings.budget, parts.sizes, parts.counts_epsilon)
    privacy = privacy_spent(
        plan,
        data.group_names,
        group_sizes=settings.group_sizes,
        noise_seeded=generators.seeded,
        public_assumptions=public_assumptions,
        certify_fraction=parts.fraction,
    )
    model = fitting.build_model(model_config, shape, settings.module, generators.start)
    looks = Looks(model, settings, parts, privacy, generators)
    started = time.perf_counter()
    fitting.run(
        model,
        parts.train,
        plan,
        config,
        generators,
        progress,
        resumed,
        held_out=parts.held_out,
        fixed=(settings.certification, settings.predictor),
        look=looks.enough,
    )
    trained = time.perf_counter()
    predictor, certificate = looks.result()
    return FittedRun(
        model_config=model_config,
        model=model,
        predictor=predictor,
        privacy=privacy,
        certificate=certificate,
        parts=parts,
        seconds={"train": trained - started, "certify": time.perf_counter() - trained},
    )


def hold_out(
    settings: RunSettings, data: GroupedData, generators: fitting.Generators, resumed: Checkpoint | None
) -> Parts:
    """Send every record to training or to the certificate by a coin of its own; plan with expected sizes.

    The key of the coins is drawn without looking at the data, and adding or removing a record moves no other.
    """
    totals, counts_epsilon = fitting.noisy_sizes(
        data.group_sizes,
        private=settings.group_sizes == "private",
        epsilon=settings.budget.epsilon,
        count_noise=generators.below("group sizes"),
    )
    key = int.from_bytes(generators.key("hold out"), "little")
    nobody = data.take(np.arange(0))
    fraction = 0.0 if settings.reason_for_no_certificate(data.n_groups) else settings.certification.fraction
    train, held_out = split_by_own_coin(data, seed=key, share=fraction) if fraction else (data, nobody)
    sizes = tuple((1 - fraction) * size for size in totals) if resumed is None else resumed.group_sizes
    return Parts(
        train=train,
        held_out=held_out,
        fraction=fraction,
        sizes=sizes,
        counts_epsilon=counts_epsilon,
    )


class Looks:
    """The looks at the held-out records: one at the end, or several while training goes on, all paid for."""

    def __init__(
        self,
        model: ScoreModel,
        settings: RunSettings,
        parts: Parts,
        privacy: PrivacySpent,
        generators: fitting.Generators,
    ) -> None:
        self.model, self.settings, self.parts, self.privacy = model, settings, parts, privacy
        self.generators = generators
        self.certificate: Certificate | None = None
        self.predictor = settings.predictor
        if self.predictor.kind != "deterministic" or settings.certification.target_tau is not None:
            self.predictor = replace(self.predictor, key=generators.key("people").hex())

    def enough(self, step: int) -> bool:
        """Look at the model in mid-training, where a look was registered; true if the required bound is met.

        Training records do not depend on the held-out ones, so every look but the one that ends training finds the
        model that it would have found anyway, and the failure probabilities of the looks add up.
        """
        n_looks, n_steps = self.settings.certification.registration.n_looks, self.privacy.n_steps
        steps = {n_steps * look // n_looks: look for look in range(1, n_looks)}
        if step not in steps or not self.parts.fraction:
            return False
        certificate = self._look(steps[step])
        if certificate.met:
            self.certificate = certificate
        return certificate.met

    def result(self) -> tuple[Predictor, Certificate | NotCertified]:
        """The rule to deploy and its certificate, diluted to the target if one was set."""
        reason = self.settings.reason_for_no_certificate(self.parts.train.n_groups)
        if reason:
            return self.predictor, NotCertified(reason)
        registration, target = self.settings.certification.registration, self.settings.certification.target_tau
        certificate = self.certificate or self._look(registration.n_looks)
        predictor = self.predictor
        if target is not None:
            certificate = certificate.diluted(target)
            assert certificate.dilution is not None
            predictor = replace(predictor, dilution=certificate.dilution.share, constant=certificate.dilution.constant)
        about = {
            "model_sha256": digest_of(tensors_of(self.model)),
            "predictor": predictor.described(),
            "records": POLICY,
            "fraction": self.parts.fraction,
        }
        return predictor, replace(certificate, about={**certificate.about, **about})

    def _look(self, look: int) -> Certificate:
        names = self.parts.held_out.group_names
        coins = self.generators.key("coins")
        counts = count_decisions(self.model, self.predictor, [self.parts.held_out], len(names), coins)
        certificate = release_certificate(
            counts,
            group_names=names,
            registration=self.settings.certification.registration,
            epsilons=tuple(self.privacy.certify_epsilons[name] for name in names),
            expected_sizes=self.parts.expected_held_out,
            # Noise that follows from the counts too: a seed that is used again meets other counts with other noise.
            rand_below=self.generators.below(f"look {look} at {counts.tolist()}"),
        )
        capped = certificate.capped(self.predictor.input_agnostic_tau(self.model))
        return replace(capped, about={"look": look})
