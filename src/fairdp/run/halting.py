"""Looks during training, which goes on until one of them misses what is required (the paper's Remark 2)."""

from fairdp.run.certifying import look
from fairdp.run.prepared import PreparedRun
from fairdp.training.loop import Trainer


def breached(prepared: PreparedRun, trainer: Trainer) -> bool:
    """Take the look that is due at this step, if one is, and say whether it ends training.

    A model with several heads does not exist before the last step: a release of its own makes the one that is looked
    at, and training goes on from the single head. The last look is at the finished model.
    """
    n_looks, n_steps, model = (
        prepared.settings.certification.registration.n_looks,
        prepared.plan.n_steps,
        trainer.state.model,
    )
    due = {n_steps * number // n_looks for number in range(1, n_looks)}
    if trainer.state.step not in due or not prepared.parts.fraction:
        return False
    trained = model.params
    if prepared.plan.recipe.n_members > 1:
        model.replace_params(trainer.ensemble())
    try:
        return not look(prepared, trainer.state.looked, prepared.predictor).met
    finally:
        model.replace_params(trained)
