"""One fit from start to end: hold records out, plan, train, certify, account."""

import time
from dataclasses import dataclass, replace

from fairdp import fitting
from fairdp.certify.certificate import Certificate, NotCertified
from fairdp.config import ModelConfig, check_groups
from fairdp.data.grouped import GroupedData
from fairdp.looks import Looks, check_certifiable
from fairdp.parts import Parts, hold_out
from fairdp.predictors import Predictor
from fairdp.privacy import PrivacySpent, privacy_spent
from fairdp.settings import RunSettings
from fairdp.training.models import ScoreModel


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedRun:
    """What a fit leaves: the model, the rule that decides, what was spent, and what is promised."""

    model_config: ModelConfig
    model: ScoreModel
    predictor: Predictor
    privacy: PrivacySpent
    certificate: Certificate | NotCertified
    parts: Parts
    seconds: dict[str, float]


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
    check_certifiable(privacy)
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
