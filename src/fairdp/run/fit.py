"""One fit from start to end: train on one part of the records, certify on the other."""

import time
from dataclasses import dataclass
from typing import Any

from fairdp.accounting.spent import PrivacySpent
from fairdp.certify.certificate import Certificate, NotCertified
from fairdp.config.model import ModelConfig
from fairdp.methods import METHODS
from fairdp.methods.functional import solve
from fairdp.networks.models import ScoreModel
from fairdp.run.certifying import certified, met_at, post_processed
from fairdp.run.hold_out import Parts
from fairdp.run.predictor import Predictor
from fairdp.run.prepared import PreparedRun
from fairdp.run.progress import Progress
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


def fit_run(prepared: PreparedRun, progress: Progress) -> FittedRun:
    """Train and certify; every record is used for one of the two."""
    settings, parts, started = prepared.settings, prepared.parts, time.perf_counter()
    early: Certificate | None = None
    if METHODS[settings.method].closed_form:
        solve(prepared.model, parts.train, prepared.plan, prepared.generators)
        return finish_run(prepared, {}, early, started=started)

    def enough(step: int) -> bool:
        nonlocal early
        early = met_at(prepared, step)
        return early is not None

    notes = run(
        prepared.model,
        parts.train,
        prepared.plan,
        prepared.config,
        prepared.generators,
        progress,
        prepared.resumed,
        held_out=parts.held_out,
        fixed=(settings.method, settings.certification, settings.predictor),
        look=enough,
    )
    return finish_run(prepared, notes, early, started=started)


def finish_run(prepared: PreparedRun, notes: dict[str, Any], early: Certificate | None, *, started: float) -> FittedRun:
    """Decide by the trained model, certify it, and gather what there is to say of the run."""
    post_processes = METHODS[prepared.settings.method].post_processes
    predictor = post_processed(prepared) if post_processes else prepared.predictor
    trained = time.perf_counter()
    predictor, certificate = certified(prepared, predictor, early)
    return FittedRun(
        model_config=prepared.model_config,
        model=prepared.model,
        predictor=predictor,
        privacy=prepared.privacy,
        certificate=certificate,
        parts=prepared.parts,
        notes=notes,
        seconds={"train": trained - started, "certify": time.perf_counter() - trained},
    )
