"""One fit from start to end: hold records out, plan, train, certify, account."""

import time
from dataclasses import dataclass, field, replace
from typing import Any

from fairdp.accounting.plan import Plan
from fairdp.accounting.selection import Selection
from fairdp.accounting.spent import PrivacySpent
from fairdp.certify.certificate import Certificate, NotCertified
from fairdp.config.model import ModelConfig
from fairdp.config.training import TrainConfig
from fairdp.data.columns import EncodedColumns
from fairdp.data.grouped import GroupedData
from fairdp.methods import METHODS
from fairdp.networks.building import build_model
from fairdp.networks.models import ScoreModel
from fairdp.randomness import Generators
from fairdp.run.certifying import Looks, check_certifiable
from fairdp.run.checkpoint import Checkpoint, resumed_checkpoint
from fairdp.run.hold_out import Parts, hold_out
from fairdp.run.plan import account
from fairdp.run.predictor import Predictor
from fairdp.run.progress import Progress
from fairdp.run.settings import RunSettings
from fairdp.run.training import run


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


def fit_run(prepared: PreparedRun, progress: Progress) -> FittedRun:
    """Train on one part of the records and certify on the other; every record is in one of them."""
    looks, settings, started = prepared.looks, prepared.settings, time.perf_counter()
    notes = run(
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
    progress: Progress,
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
    planned = account(
        settings,
        parts,
        shape,
        seeded=generators.seeded,
        public_assumptions=public_assumptions,
        selection=trial.selection if trial else None,
    )
    model_config = settings.model_config(shape, columns)
    check_certifiable(planned.privacy, n_looks=settings.certification.registration.n_looks)
    model = build_model(model_config, shape, settings.module, generators.start)
    model.smoothing = settings.smoothing(planned.config, generators)
    return PreparedRun(
        settings=settings,
        looks=Looks(model, settings, parts, planned.privacy, generators),
        plan=planned.plan,
        config=planned.config,
        model_config=model_config,
        resumed=resumed,
    )


def _start(settings: RunSettings, progress: Progress) -> tuple[Generators, Checkpoint | None]:
    """Sources of chance, and the checkpoint to continue from, whose secret key goes on."""
    if progress.checkpoint is not None and not METHODS[settings.method].is_one_run:
        raise ValueError(f"method={settings.method!r} writes no checkpoints; leave out --checkpoint.")
    generators, resumed = Generators.of(settings.seed), resumed_checkpoint(progress)
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
