"""Methods beside each other: data sets × methods × budgets × seeds × any parameters, and what they reach."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from fairdp import _checks
from fairdp._checks import DataError
from fairdp._format import rounded_up
from fairdp.classifier import FairDPClassifier
from fairdp.experiments.sweeps.fits import Fit, mean_and_error, moved_to
from fairdp.experiments.sweeps.populations import Population, load
from fairdp.experiments.sweeps.training import Record
from fairdp.methods import METHODS
from fairdp.run.settings import RunSettings

TARGETS = ("max_gap", "min_ratio", "positive_rate")
_SMOOTHED = tuple(name for name, method in METHODS.items() if method.smooths)
# Parameters that mean nothing to other methods: these are not trained again for every value.
_ONLY_FOR = {
    **dict.fromkeys(TARGETS, tuple(name for name, method in METHODS.items() if method.takes_target)),
    **dict.fromkeys(("weight_bound", "n_members", "noise_allocation", "sgd_learning_rate"), ("fairdp",)),
    **dict.fromkeys(("grouping", "max_sample_rate"), ("dp_is_sgd",)),
    **dict.fromkeys(("parameter_noise", "n_draws"), _SMOOTHED),
    "fairness_weight": ("dp_fermi",),
}


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What is compared.

    Parameters
    ----------
    seeds
        Each is one training of every method.
    grid
        Parameters of the estimator with their values, in all combinations of those that a method uses.
    """

    populations: tuple[Population, ...]
    methods: tuple[str, ...]
    epsilons: tuple[float, ...]
    seeds: range
    delta: float = 1e-5
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.methods:
            _checks.one_of(METHODS, methods=name)
        free = set(FairDPClassifier().get_params()) - {"method", "epsilon", "delta", "random_state", "module"}
        for name in self.grid:
            _checks.one_of(free, grid=name)

    def fits(self) -> list[Fit]:
        """Every training."""
        return [
            Fit(
                population=population,
                method=method,
                seed=seed,
                settings=tuple(({"delta": self.delta} | budget | dict(variant)).items()),
                is_control=method == "dpsgd",
                is_experiment=False,
            )
            for population in self.populations
            for method in self.methods
            for budget in self._budgets(method)
            for variant in self._variants(method)
            for seed in self.seeds
        ]

    def check(self) -> None:
        """Refuse, before the first training begins, any that could not."""
        for fit in self.fits():
            if fit.seed == self.seeds[0]:
                _check(fit)

    def _budgets(self, method: str) -> list[dict[str, float]]:
        return [{"epsilon": own} for own in self.epsilons] if METHODS[method].private else [{}]

    def _variants(self, method: str) -> list[tuple[tuple[str, Any], ...]]:
        """Combinations of the grid that mean something to a method; the same one only once."""
        grid = sorted(self.grid.items())
        fitting = {name: own for name, own in grid if method in _ONLY_FOR.get(name, METHODS)}
        return [tuple(zip(fitting, values, strict=True)) for values in product(*fitting.values())]


def _check(fit: Fit) -> None:
    """Refuse a training that could not begin."""
    train = load(fit.population).train
    parameters = FairDPClassifier(method=fit.method, random_state=fit.seed, **dict(fit.settings)).get_params(deep=False)
    sizes = tuple(float(size) for size in train.group_sizes)
    try:
        settings = RunSettings.of(**parameters)
        settings.train_config(train.X.shape[1:], sizes)
        settings.model_config(train.X.shape[1:], None)
    except TypeError as error:
        shown = ", ".join(f"{name}={value!r}" for name, value in _variant(fit).items())
        raise DataError(f"`grid` has a value of the wrong kind among {shown} ({error}).") from None


def tidy_rows(found: Mapping[Fit, Record]) -> list[dict[str, Any]]:
    """A flat row for each training."""
    return [
        {
            "dataset": str(fit.population),
            "method": fit.method,
            "epsilon": _epsilon(fit),
            "seed": fit.seed,
            **_variant(fit),
            **{
                ("epsilon_spent" if name == "epsilon" else name): v
                for name, v in record["figures"].items()
                if name != "moved"
            },
            "seconds": record["seconds"],
        }
        for fit, record in found.items()
    ]


def summary_rows(found: Mapping[Fit, Record]) -> list[dict[str, Any]]:
    """Mean and standard error over seeds."""
    return [
        {**_named(fits[0], found), "n_runs": len(fits), **mean_and_error([found[fit]["figures"] for fit in fits])}
        for fits in _together(found)
    ]


def control_rows(found: Mapping[Fit, Record], *, at: str) -> list[dict[str, Any]]:
    """DP-SGD with its threshold moved to the positive rate of another method, run by run; none without both."""
    plain = {_beside(fit): record["figures"] for fit, record in found.items() if fit.is_control}
    rows = []
    for fits in _together(found):
        controls = [plain.get(_beside(fit)) for fit in fits]
        if fits[0].method != at or None in controls:
            continue
        moved = [
            moved_to(own, found[fit]["figures"]["positive_rate"])
            for fit, own in zip(fits, controls, strict=True)
            if own is not None
        ]
        rows.append(
            {**_named(fits[0], found), "method": "dpsgd", "at": at, "n_runs": len(moved), **mean_and_error(moved)}
        )
    return rows


def _beside(fit: Fit) -> tuple[Any, ...]:
    """What a training has in common with its control: everything but the method and what is its own."""
    variant = tuple((name, value) for name, value in _variant(fit).items() if name not in _ONLY_FOR)
    return fit.population, fit.epsilon, fit.seed, variant


def _together(found: Mapping[Fit, Record]) -> list[list[Fit]]:
    """Trainings that differ in their seed only."""
    together: dict[tuple[Any, ...], list[Fit]] = {}
    for fit in found:
        together.setdefault((fit.population, fit.method, fit.settings), []).append(fit)
    return list(together.values())


def _named(fit: Fit, found: Mapping[Fit, Record]) -> dict[str, Any]:
    """What tells a row apart; of the parameters those that differ between trainings of the method."""
    values: dict[str, set[Any]] = {}
    for other in found:
        if other.method == fit.method:
            for name, value in _variant(other).items():
                values.setdefault(name, set()).add(str(value))
    variant = ", ".join(f"{name}={value}" for name, value in _variant(fit).items() if len(values[name]) > 1)
    named = {"dataset": str(fit.population), "method": fit.method, "epsilon": _epsilon(fit)}
    return named | ({"variant": variant} if variant else {})


def privacy_cost(spent: Mapping[str, Sequence[float]], *, delta: float) -> list[dict[str, Any]]:
    """What all trainings on the same records spend together, by basic composition; ``spent`` by data set."""
    costs = []
    for dataset, epsilons in spent.items():
        private = [epsilon for epsilon in epsilons if math.isfinite(epsilon)]
        own: dict[str, Any] = {"n_private_runs": len(private), "n_other_runs": len(epsilons) - len(private)}
        own |= {"epsilon": sum(private), "delta": len(private) * delta}
        costs.append({"dataset": dataset, **own, "statement": _cost_statement(dataset, own)})
    return costs


def _cost_statement(dataset: str, own: Mapping[str, Any]) -> str:
    others = f"; {own['n_other_runs']} further runs are not private at all" if own["n_other_runs"] else ""
    return (
        f"{dataset}: {own['n_private_runs']} private runs on the same training records are kept here. Whoever sees "
        f"them all, or a choice made among them, sees ε = {rounded_up(own['epsilon'])} and δ = "
        f"{rounded_up(own['delta'])} in all (basic composition){others}. Their seeds are written beside them, so that "
        "the comparison can be continued: this is what the runs would cost with seeds that are secret. Metrics are "
        "exact on the test records: for the data holder's eyes."
    )


def _epsilon(fit: Fit) -> float | None:
    return fit.epsilon if METHODS[fit.method].private else None


def _variant(fit: Fit) -> dict[str, Any]:
    return {name: value for name, value in fit.settings if name not in ("epsilon", "delta")}
