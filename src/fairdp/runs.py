"""One fit from start to end: hold records out, plan, train, certify, account."""

import time
from dataclasses import dataclass, field, replace
from typing import Any

from fairdp import fitting
from fairdp.certify.certificate import Certificate, NotCertified
from fairdp.checkpoint import Checkpoint
from fairdp.config import ModelConfig, TrainConfig
from fairdp.data.columns import EncodedColumns
from fairdp.data.grouped import GroupedData
from fairdp.defaults import check_groups
from fairdp.looks import Looks, check_certifiable
from fairdp.methods import METHODS
from fairdp.parts import Parts, hold_out
from fairdp.predictors import Predictor
from fairdp.privacy import PrivacySpent, privacy_spent
from fairdp.selection import Selection
from fairdp.settings import RunSettings
from fairdp.training.models import ScoreModel
from fairdp.training.recipe import Plan


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedRun:
    """What a fit leaves: the model, the rule that decides, what was spent, and what is promised."""

    model_config: ModelConfig
    model: ScoreModel
    predictor: Predictor
    privacy: PrivacySpent
    certificate: Certificate | NotCertified
    parts: Parts
    notes: dict[str, Any]
    seconds: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Trial:
    """That a run is one of several, of which the best will be kept.

    Parameters
    ----------
    split_key
        Secret of the coins that hold records out, the same for all trials.
    selection
        What the choice spends.
    """

    split_key: bytes = field(repr=False)
    selection: Selection


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedRun:
    """Everything that is decided before the first step: parts, plan, model, and what will be promised."""

    settings: RunSettings
    looks: Looks
    plan: Plan
    config: TrainConfig
    model_config: ModelConfig
    resumed: Checkpoint | None


def fit_run(prepared: PreparedRun, progress: fitting.Progress) -> FittedRun:
    """Train on one part of the records and certify on the other; every record is in one of them."""
    looks, settings, started = prepared.looks, prepared.settings, time.perf_counter()
    notes = fitting.run(
        looks.model,
        looks.parts.train,
        prepared.plan,
        prepared.config,
        looks.generators,
        progress,
        prepared.resumed,
        held_out=looks.parts.held_out,
        fixed=(settings.method, settings.certification, settings.predictor),
        look=looks.enough,
    )
    return finish_run(prepared, notes, started=started)


def prepare_run(
    settings: RunSettings,
    data: GroupedData,
    progress: fitting.Progress,
    *,
    public_assumptions: tuple[str, ...] = (),
    columns: EncodedColumns | None = None,
    trial: Trial | None = None,
) -> PreparedRun:
    """Hold records out, plan for the rest, and build the model."""
    if trial is not None:
        settings = settings.as_trial(trial.selection.expected_trials)
    settings.check_weighted(data.weights is not None)
    generators, resumed = _start(settings, progress)
    parts = hold_out(settings, data, generators, resumed, split_key=trial.split_key if trial else None)
    progress.observe_parts(parts.train, parts.held_out)
    shape = data.X.shape[1:]
    config, plan, privacy = account(
        settings,
        parts,
        shape,
        seeded=generators.seeded,
        public_assumptions=public_assumptions,
        selection=trial.selection if trial else None,
    )
    model_config = settings.model_config(shape, columns)
    check_certifiable(privacy, n_looks=settings.certification.registration.n_looks)
    model = fitting.build_model(model_config, shape, settings.module, generators.start)
    model.smoothing = settings.smoothing(config, generators)
    return PreparedRun(
        settings=settings,
        looks=Looks(model, settings, parts, privacy, generators),
        plan=plan,
        config=config,
        model_config=model_config,
        resumed=resumed,
    )


def account(
    settings: RunSettings,
    parts: Parts,
    shape: tuple[int, ...],
    *,
    seeded: bool,
    public_assumptions: tuple[str, ...] = (),
    selection: Selection | None = None,
) -> tuple[TrainConfig, Plan, PrivacySpent]:
    """The numbers of a run on these parts, its plan and what that will spend; of the records only sizes are used."""
    settings.budget.check_for(parts.expected_total)
    sampled = not METHODS[settings.method].tables_only
    check_groups(parts.train.group_names, parts.sizes, settings.training["sample_rate"] if sampled else None)
    config, histogram = settings.train_config(shape, parts.sizes), settings.histogram_epsilon
    plan = fitting.plan_run(settings.method, config, settings.budget, parts.sizes, parts.counts_epsilon + histogram)
    privacy = privacy_spent(
        plan,
        parts.train.group_names,
        certified_names=parts.held_out.group_names,
        group_sizes=settings.group_sizes,
        noise_seeded=seeded,
        public_assumptions=public_assumptions,
        certify_fraction=parts.fraction,
        histogram_epsilon=histogram,
        selection=selection,
    )
    return config, plan, privacy


def _start(settings: RunSettings, progress: fitting.Progress) -> tuple[fitting.Generators, Checkpoint | None]:
    """Sources of chance, and the checkpoint to continue from, whose secret key goes on."""
    if progress.checkpoint is not None and not METHODS[settings.method].is_one_run:
        raise ValueError(f"method={settings.method!r} writes no checkpoints; leave out --checkpoint.")
    generators, resumed = fitting.Generators.of(settings.seed), fitting.resumed_checkpoint(progress)
    if resumed is not None:
        generators = replace(generators, run_key=resumed.run_key, seeded=generators.seeded or resumed.seeded)
    return generators, resumed


def finish_run(prepared: PreparedRun, notes: dict[str, Any], *, started: float) -> FittedRun:
    """Decide by the trained model, certify it, and gather what there is to say of the run."""
    looks, settings = prepared.looks, prepared.settings
    if METHODS[settings.method].post_processes:
        looks.post_process(settings.histogram_epsilon, prepared.config)
    trained = time.perf_counter()
    predictor, certificate = looks.result()
    return FittedRun(
        model_config=prepared.model_config,
        model=looks.model,
        predictor=predictor,
        privacy=looks.privacy,
        certificate=certificate,
        parts=looks.parts,
        notes=notes,
        seconds={"train": trained - started, "certify": time.perf_counter() - trained},
    )
