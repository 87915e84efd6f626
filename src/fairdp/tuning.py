"""Settings chosen on private records, with an ε that covers the choice: the best of a random number of trials."""

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn import get_config
from sklearn.base import clone
from sklearn.metrics import make_scorer

from fairdp.accounting.mechanisms import Reading, sizes_std
from fairdp.accounting.plan import SizesNoise, trial_spends
from fairdp.accounting.selection import Selection, draw_trials, largest_within, merged
from fairdp.accounting.spent import NOISY
from fairdp.certify.certificate import Certificate
from fairdp.certify.rates import estimated_metrics
from fairdp.classifier import FairDPClassifier
from fairdp.data.grouped import GroupedData, groups_of
from fairdp.errors import DataError, InputError, ParameterError
from fairdp.ledger.ledger import Spending
from fairdp.methods import METHODS
from fairdp.metrics import decision_counts, fairness_metrics
from fairdp.parameters import DECLARED, Parameters, check_parameters
from fairdp.randomness import Generators, seed_of
from fairdp.run.certifying import Trial, check_certifiable
from fairdp.run.fit import check_weighted, hold_out
from fairdp.run.plan import budget_of, checked, kind_of, known_sizes_of, plan_run, reason_for_no_certificate

Candidate = dict[str, Any]
# Fixed for the whole search, or meaningless for one trial.
_FIXED = (
    "epsilon",
    "delta",
    "noise_multiplier",
    "accountant",
    "random_state",
    "module",
    "confidence",
    "group_sizes",
    "groups",
    "certify_fraction",
    "n_looks",
    "grouping",
    "ledger",
    "table",
)


def tune(
    estimator: FairDPClassifier,
    grid: Mapping[str, Sequence[Any]],
    data: GroupedData,
    *,
    max_gap: float = 1.0,
    expected_trials: float | None = None,
    reading: Reading | None = None,
    observe: Callable[[Candidate], None] = lambda candidate: None,
    spending: Spending | None = None,
    **options: Any,
) -> FairDPClassifier:
    """The best of a random number of trials, each of a random combination of settings; ε covers the whole search.

    Each trial trains a model and counts its decisions about held-out records with noise, as every fit does. These
    counts pick the best: the most accurate model whose gap is at most ``max_gap``, or else the one with the smallest
    gap. The number of trials is random, and only the best may be shown: that is why their epsilons do not add up
    (Papernot and Steinke, 2022). Each trial gets at most half of ε, almost regardless of the number of combinations.

    Parameters
    ----------
    estimator
        What all trials have in common; its ``epsilon`` and ``delta`` are those of the search.
    grid
        Parameters with the values to try, in all combinations.
    data
        Records to train on and to hold out.
    max_gap
        Gap (of the estimator's ``parity``) above which a trial loses to any trial within it.
    expected_trials
        Average number of trials; None: twice the number of combinations, at least four.
    reading
        How the columns of the table were read with noise, once, if they were.
    observe
        Called with each candidate before its trial begins; for the data holder's eyes only.
    spending
        Pays for the search, and is completed by whoever gave it; None: the estimator's ``ledger``.
    options
        For `FairDPClassifier.fit_grouped`.

    Returns
    -------
    The fitted model of the best trial; ``privacy_.epsilon`` is that of the whole search.
    """
    candidates = combinations(estimator, grid)
    if estimator.noise_multiplier is not None:
        raise ParameterError(
            "noise_multiplier",
            estimator.noise_multiplier,
            "is for one fit: a search finds the noise of its trials from `epsilon`",
            "leave it out",
        )
    progress = options.get("progress")
    if progress is not None and progress.checkpoint is not None:
        where = str(progress.checkpoint)
        raise ParameterError("checkpoint", where, "is not supported for a search: trials must be independent")
    expected = float(max(4, 2 * len(candidates)) if expected_trials is None else expected_trials)
    generators = Generators.of(seed_of(estimator.random_state))
    rng = np.random.default_rng(int.from_bytes(generators.key("trials"), "little"))
    epsilon, trial = _planned(estimator, candidates, data, generators, expected, reading)
    # First how many, then which: neither depends on the records or on the outcome of a trial.
    drawn = rng.integers(len(candidates), size=draw_trials(expected, rng))

    def searched(spending: Spending) -> FairDPClassifier:
        best, best_score = None, -np.inf
        for index in drawn:
            observe(candidates[index])
            model = _with(estimator, candidates[index], epsilon)
            model.random_state = int.from_bytes(rng.bytes(16), "little") if generators.seeded else None
            model.fit_grouped(data, trial=trial, spending=spending, **options)
            score = _score(model, max_gap)
            if best is None or score > best_score:
                best, best_score = model, score
        assert best is not None
        return best

    if spending is not None:
        return searched(spending)
    with Spending(estimator.ledger, command="tune") as own:
        best = searched(own)
        return best.amend(privacy=own.completed(best.privacy_))


def combinations(estimator: FairDPClassifier, grid: Mapping[str, Sequence[Any]]) -> list[Candidate]:
    """All combinations of a grid's values; refuses names that cannot be tuned and grids without a choice."""
    free = sorted(set(estimator.get_params(deep=False)) - set(_FIXED))
    for name, values in grid.items():
        if name not in free:
            raise InputError(f"`grid` names {name!r}, which cannot be tuned; tunable parameters: {', '.join(free)}.")
        if isinstance(values, str) or not len(values):
            raise InputError(f"`grid` needs a list of values for {name}, got {values!r}.")
    found = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    if len(found) < 2:
        raise InputError("`grid` leaves nothing to choose: give a parameter two values, or fit without tuning.")
    return found


def _planned(
    estimator: FairDPClassifier,
    candidates: list[Candidate],
    data: GroupedData,
    generators: Generators,
    expected: float,
    reading: Reading | None,
) -> tuple[float, Trial]:
    """The ε of one trial with which the whole search stays within its budget, whichever candidates it tries.

    Sizes that are private are counted here, once: the trials are planned with what was released.
    """
    shape, n_groups = data.X.shape[1:], data.n_groups
    all_alike = checked(**estimator.get_params(deep=False))
    budget = budget_of(all_alike, kind=kind_of(all_alike, shape), n_groups=n_groups)
    for candidate in candidates:
        _check(_chosen(estimator, candidate, budget.epsilon), data)
    # All candidates hold out the same records.
    first, split_key = _chosen(estimator, candidates[0], budget.epsilon), generators.key("hold out")
    counts_std = sizes_std(budget) if known_sizes_of(first) == NOISY else 0.0
    parts = hold_out(first, data, budget, generators, split_key=split_key, noise=SizesNoise(std=counts_std))
    released = reading is not None or known_sizes_of(first) == NOISY
    budget = budget.for_records(sum(parts.sizes) / (1 - parts.fraction), released=released)

    def selection(epsilon: float) -> Selection:
        spends = []
        for candidate in candidates:
            chosen = _chosen(estimator, candidate, epsilon)
            kind = kind_of(chosen, shape)
            _, _, privacy = plan_run(
                chosen,
                kind=kind,
                budget=budget_of(chosen, kind=kind, n_groups=n_groups),
                sizes=dict(zip(parts.train.group_names, parts.sizes, strict=True)),
                groups=data.group_names,
                certify_fraction=parts.fraction,
                noise_seeded=generators.seeded,
                sizes_counted=False,
            )
            check_certifiable(privacy, n_looks=chosen.n_looks)
            spends.append(trial_spends(privacy))
        return Selection(expected_trials=expected, by_group=merged(spends), counts_std=counts_std, reading=reading)

    def spent(epsilon: float) -> float:
        chosen = selection(epsilon)
        return max(chosen.epsilon(group, budget.delta) for group in chosen.by_group)

    # A held-out record pays twice the ε with which one trial counts it.
    epsilon = largest_within(spent, budget.epsilon, start=budget.epsilon / 2)
    return epsilon, Trial(split_key=split_key, sizes=parts.sizes, selection=selection(epsilon))


def _check(chosen: Parameters, data: GroupedData) -> None:
    """Before the first trial, refuse trials that spend nothing or leave no counts to compare them by."""
    check_weighted(chosen, data.weights is not None)
    if not METHODS[chosen.method].private:
        raise ParameterError(
            "method", chosen.method, "is not private, so there is nothing to account for", "use another search"
        )
    assert chosen.epsilon is not None
    reason = reason_for_no_certificate(chosen, n_groups=data.n_groups, epsilon=chosen.epsilon)
    if reason:
        raise InputError(
            f"trials are compared by the counts of their certificates, but there is none, because {reason.explanation}."
        )


def _chosen(estimator: FairDPClassifier, candidate: Candidate, epsilon: float) -> Parameters:
    return checked(**_with(estimator, candidate, epsilon).get_params(deep=False))


def _with(estimator: FairDPClassifier, candidate: Candidate, epsilon: float) -> FairDPClassifier:
    changed: FairDPClassifier = clone(estimator).set_params(**candidate, epsilon=epsilon)
    return changed


def _score(model: FairDPClassifier, max_gap: float) -> float:
    """Accuracy within the gap, else below any accuracy; from released counts alone."""
    assert isinstance(model.certificate_, Certificate)
    found = estimated_metrics(model.certificate_)
    return within_gap(float(found["accuracy"]), float(found[f"{model.parity}_difference"]), max_gap=max_gap)


def gap_scorer(max_gap: float, *, parity: str = DECLARED["parity"].default) -> Any:
    """Scorer for ``GridSearchCV`` and ``cross_validate``: see `accuracy_within_gap`.

    Needs scikit-learn's metadata routing, by which it asks for ``sensitive_features``. The choice that a search makes
    with it reads private records and is in no ε; `fairdp.tune` pays for it.

    Parameters
    ----------
    max_gap
        Largest gap that counts as met.
    parity
        Rates that should agree, as in `FairDPClassifier`.
    """
    if not get_config()["enable_metadata_routing"]:
        raise DataError(
            "gap_scorer needs the groups of the records: call sklearn.set_config(enable_metadata_routing=True) first."
        )
    check_parameters(max_gap=max_gap, parity=parity)
    scorer = make_scorer(accuracy_within_gap, max_gap=max_gap, parity=parity)
    return scorer.set_score_request(sensitive_features=True)


def accuracy_within_gap(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    sensitive_features: Any,
    max_gap: float,
    parity: str = DECLARED["parity"].default,
) -> float:
    """Accuracy where the gap is at most ``max_gap``; else minus what the gap has too much, below any accuracy.

    A gap without evidence, because a group has no record of a label, counts as one.

    >>> accuracy_within_gap([0, 1, 0, 1], [0, 1, 0, 1], sensitive_features=["a", "a", "b", "b"], max_gap=0.1)
    1.0
    >>> accuracy_within_gap([0, 1, 0, 1], [1, 1, 0, 0], sensitive_features=["a", "a", "b", "b"], max_gap=0.1)
    -0.9
    """
    check_parameters(max_gap=max_gap, parity=parity)
    truth, decided = np.asarray(y_true), np.asarray(y_pred)
    values = np.unique(np.concatenate([truth, decided]))
    if len(values) > 2:
        raise DataError(f"labels must be of two kinds, got {len(values)}: {', '.join(map(str, values[:3]))}, …")
    # As in training, the larger one is positive.
    positive = values[-1]
    labels, decisions = (truth == positive).astype(np.int64), (decided == positive).astype(np.int64)
    groups, names = groups_of(sensitive_features, len(labels))
    gap = float(fairness_metrics(decision_counts(labels, decisions, groups, len(names)))[f"{parity}_difference"])
    return within_gap(float(np.mean(labels == decisions)), gap, max_gap=max_gap)


def within_gap(accuracy: float, gap: float, *, max_gap: float) -> float:
    """The order in which models are preferred: the accuracy of those within the gap, then the smallest gap."""
    excess = (1.0 if np.isnan(gap) else gap) - max_gap
    score = accuracy if excess <= 0 else -excess
    # Everything must have its place in the order: no evidence is the last.
    return -np.inf if np.isnan(score) else score
