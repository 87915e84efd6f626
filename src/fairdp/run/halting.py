"""Looks during training, which goes on until one of them misses what is required (the paper's Remark 2)."""

from collections.abc import Iterator
from contextlib import contextmanager

from fairdp.run.certifying import look
from fairdp.run.prepared import PreparedRun
from fairdp.run.resuming import due_steps
from fairdp.training.loop import Trainer


def breached(prepared: PreparedRun, trainer: Trainer) -> bool:
    """Take the look that is due at this step, if one is, and say whether it ends training."""
    if not is_due(prepared, trainer.state.step):
        return False
    with all_heads(trainer):
        return not look(prepared, trainer.state.looked, prepared.predictor).met


def is_due(prepared: PreparedRun, step: int) -> bool:
    """Whether there is a look after this step; the last is at the finished model, and not among these."""
    n_looks, n_steps = prepared.settings.certification.registration.n_looks, prepared.plan.n_steps
    return bool(prepared.parts.fraction) and step in due_steps(n_steps, n_looks)


@contextmanager
def all_heads(trainer: Trainer) -> Iterator[None]:
    """Have the model as it would be deployed now.

    A model with several heads does not exist before the last step: a release of its own makes the one that is looked
    at, and training goes on from the single head.
    """
    model, trained = trainer.state.model, trainer.state.model.params
    if trainer.plan.recipe.n_members > 1:
        model.replace_params(trainer.ensemble())
    try:
        yield
    finally:
        model.replace_params(trained)
