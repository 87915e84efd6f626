"""Private gradients for people with their own training loop and optimiser."""

import copy
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import nn

from fairdp.accounting.mechanisms import PrivacyBudget, SampledGaussian, epsilon_spent, joint_multiplier, sizes_loss
from fairdp.classifier import FairDPClassifier
from fairdp.data.grouped import GroupedData, grouped_arrays, raw_table
from fairdp.errors import InputError, ParameterError
from fairdp.ledger.ledger import Spending
from fairdp.methods import DEFAULT, METHODS, PAPER, PLAIN
from fairdp.networks.model import Given, ScoreModel
from fairdp.parameters import Parameters
from fairdp.run.certifying import Run
from fairdp.run.fit import Progress, assumptions_from_records, begin, check_unchanged, finish
from fairdp.run.plan import checked
from fairdp.training.loop import FlatOptimizer, Trainer, TrainingState, project_to_ball

Records = GroupedData | tuple[ArrayLike, ArrayLike, Any]
# The paper's last step, which makes the ensemble, is a special update that a caller's optimiser does not make.
_ONE_HEAD = {"n_members": 1}


def make_private_fair(module: nn.Module, data: Records, **parameters: Any) -> "PrivateLoop":
    """Prepare a module for your own training loop, with the privacy and the certificate of the estimator.

    `PrivateLoop.backward` does the sampling, clipping, noise and accounting; what you do with the noisy gradient is up
    to you and costs no more privacy.

    Parameters
    ----------
    module
        Maps records (n_records, *shape) to embeddings and keeps records apart, as ``module`` of `FairDPClassifier`; a
        linear head is added. It is trained in place, once, and its initial weights must not come from private records.
    data
        Records: `GroupedData`, or a tuple (X, y, sensitive_features).
    parameters
        Of `FairDPClassifier`: ``epsilon``, ``delta``, ``method``, ``n_steps``, ``sample_rate``, ``clip_norm``, ….

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, sex = rng.normal(size=(2000, 3)), rng.choice(["f", "m"], size=2000)
    >>> private = make_private_fair(nn.Linear(3, 8), (X, X[:, 0] > 0, sex), epsilon=2.0, n_steps=50, random_state=0)
    >>> optimizer = torch.optim.AdamW(private.parameters(), lr=0.01)
    >>> for _ in range(private.n_steps):
    ...     private.backward()
    ...     optimizer.step()
    >>> model = private.finish()
    >>> bool(model.privacy_.epsilon <= 2.0)
    True
    """
    estimator = FairDPClassifier(**{**_ONE_HEAD, **parameters}, module=Given(module))
    chosen = checked(**estimator.get_params(deep=False))
    _check(chosen)
    records, classes, assumed = _records(estimator, data)
    spending = Spending(estimator.ledger, command="own loop")
    if isinstance(data, tuple):
        records = spending.followed(records, lambda: raw_table(*data))
    run = begin(chosen, records, spending, Progress(), table=estimator.table, public_assumptions=assumed)
    return PrivateLoop(estimator, run, classes, spending)


class PrivateLoop:
    """One run: `backward` as often as planned, each followed by your own update, then `finish`.

    Attributes
    ----------
    n_steps
        Number of releases planned and accounted for; one more is refused.
    """

    def __init__(self, estimator: FairDPClassifier, run: Run, classes: Any, spending: Spending) -> None:
        self._estimator, self._run, self._classes, self._spending = estimator, run, classes, spending
        self._model: ScoreModel = run.model
        self._started, self._pending, self._finished = time.perf_counter(), False, False
        state = TrainingState(run.model, FlatOptimizer("sgd", 0.0), run.generators.steps)
        self._trainer = Trainer(state, run.parts.train, run.plan, run.config)
        self.n_steps = run.plan.n_steps
        # One head, or one for each cell of a joint model.
        self._head = nn.Parameter(run.model.heads.squeeze(0), requires_grad=False)

    def parameters(self) -> Iterator[nn.Parameter]:
        """Everything that is trained: the module's parameters and the head; for an optimiser."""
        return (parameter for _, parameter in self._named())

    def backward(self) -> None:
        """One private step: sample every group, clip, add noise, and set ``.grad`` of all parameters."""
        self._check_open()
        self._check_parameters()
        self._settle()
        # Before the release: one that fails half way is a step all the same.
        self._pending = self._trainer.state.step < self.n_steps
        noisy = self._trainer.release()
        for (_, parameter), place in zip(self._named(), self._places(), strict=True):
            parameter.grad = noisy[place].view_as(parameter).clone()

    @property
    def epsilon_spent(self) -> float:
        """ε so far for a training record, noisy counts included; held-out records are counted in `finish`."""
        taken, budget = self._trainer.state.step, self._run.plan.budget
        mechanisms = {mechanism for mechanism in self._run.plan.mechanisms if isinstance(mechanism, SampledGaussian)}
        if not taken:
            return max(_counted(mechanism, budget) for mechanism in mechanisms)
        so_far = [replace(mechanism, n_steps=taken) for mechanism in mechanisms]
        return max(epsilon_spent(mechanism, budget.delta, accountant=budget.stated_by) for mechanism in so_far)

    def finish(self) -> FairDPClassifier:
        """Certify the model as it is now, after all steps or fewer; the record states what was planned.

        Returns
        -------
        A fitted estimator, which predicts, evaluates, and can be saved, verified and reported.
        """
        self._check_open()
        self._check_parameters()
        self._settle()
        # Also after an update that no release went before: what is certified obeys the bound, and is the average.
        project_to_ball(self._model.heads, self._run.plan.recipe.weight_bound)
        self._trainer.state.deploy_average()
        check_unchanged(self._model)
        self._finished = True
        fitted = finish(self._run, {}, self._trainer.state.interim, started=self._started)
        with self._spending as spending:
            fitted = replace(fitted, privacy=spending.completed(fitted.privacy))
        # The caller's optimiser still holds the parameters: what was certified must not change with them.
        model = copy.deepcopy(self._model)
        return self._estimator.take(model, replace(fitted, tensors=model.tensors()), self._classes)

    def _named(self) -> Iterator[tuple[str, nn.Parameter]]:
        yield from (
            (name, parameter)
            for name, parameter in self._model.extractor.named_parameters()
            if name in self._model.slices
        )
        yield "head", self._head

    def _places(self) -> Iterator[slice]:
        """Where each parameter's gradient is in the flat one."""
        yield from self._model.slices.values()
        yield slice(self._model.n_extractor_params, None)

    def _check_parameters(self) -> None:
        """Refuse parameters that are not finite, or no longer those that are certified and saved."""
        for (name, given), place in zip(self._named(), self._places(), strict=True):
            ours = self._model.params[place]
            if (given.data_ptr(), given.dtype, given.numel()) != (ours.data_ptr(), ours.dtype, ours.numel()):
                raise InputError(
                    f"parameter {name!r} was replaced; change it in place, as torch's optimisers do, or with copy_()."
                )
            if not torch.isfinite(given).all():
                raise InputError(f"parameter {name!r} is no longer finite; use a smaller learning rate.")

    def _settle(self) -> None:
        """Bound the head and average, after the update that the caller has made since the last release."""
        if self._pending:
            self._trainer.settle()
            self._pending = False

    def _check_open(self) -> None:
        if self._finished:
            raise InputError("this run is finished; call make_private_fair for another, which spends more.")


def _check(chosen: Parameters) -> None:
    method = METHODS[chosen.method]
    if not method.is_one_run or method.closed_form or chosen.n_looks > 1:
        raise ParameterError(
            "method",
            chosen.method,
            "is not trained by single steps, or `n_looks` is above 1",
            f"use `method`={PLAIN!r}, {PAPER!r} or {DEFAULT!r} with `n_looks`=1",
        )
    if chosen.group_optimizers:
        raise ParameterError(
            "group_optimizers", True, "is not for your own loop, whose optimiser takes one gradient", "leave it out"
        )
    if chosen.n_members != 1:
        raise ParameterError(
            "n_members", chosen.n_members, "must be 1 in your own loop", "The built-in last step makes the ensemble."
        )


def _counted(mechanism: SampledGaussian, budget: PrivacyBudget) -> float:
    """ε of what is released outside the steps; queries are counted from the start, though most come at the end."""
    stds = [std for std in (mechanism.counts_std, mechanism.surveys_multiplier) if std]
    if not stds:
        return mechanism.counts_epsilon
    if budget.stated_by == "rdp":
        release = SampledGaussian(sample_rate=1.0, noise_multiplier=joint_multiplier(*stds), n_steps=1)
        return mechanism.counts_epsilon + epsilon_spent(release, budget.delta, accountant="rdp")
    # As one discrete Gaussian release: sizes and queries are independent of each other.
    return mechanism.counts_epsilon + float(sizes_loss(joint_multiplier(*stds)).get_epsilon_for_delta(budget.delta))


def _records(estimator: FairDPClassifier, data: Records) -> tuple[GroupedData, Any, tuple[str, ...]]:
    """Records, labels, and what counts as public because it was read from them."""
    if isinstance(data, GroupedData):
        return data, np.array([0, 1]), ()
    if not (isinstance(data, tuple) and len(data) == 3):
        kind = type(data).__name__
        raise InputError(f"data must be GroupedData or a tuple (X, y, sensitive_features), got {kind}.")
    return *grouped_arrays(estimator, *data), assumptions_from_records(estimator, data[2], schema=None, before=())
