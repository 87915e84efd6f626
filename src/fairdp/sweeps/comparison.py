"""Methods beside each other: data sets × methods × budgets × seeds × any parameters, and what they reach."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from fairdp.estimators import FairDPClassifier
from fairdp.methods import METHODS
from fairdp.settings import RunSettings
from fairdp.sweeps.fits import Fit, control_at, mean_and_error
from fairdp.sweeps.populations import Population, load
from fairdp.sweeps.training import Record

TARGETS = ("max_gap", "min_ratio", "positive_rate")


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What is compared.

    Parameters
    ----------
    seeds
        Each is one training of every method.
    grid
        Parameters of the estimator with their values, in all combinations; targets go to methods that take one.
    """

    populations: tuple[Population, ...]
    methods: tuple[str, ...]
    epsilons: tuple[float, ...]
    seeds: range
    delta: float = 1e-5
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.methods:
            if name not in METHODS:
                raise ValueError(f"unknown method {name!r}; known are {', '.join(METHODS)}.")
        known = FairDPClassifier().get_params()
        for name in self.grid:
            if name not in known or name in ("method", "epsilon", "delta", "random_state", "module"):
                free = sorted(set(known) - {"method", "epsilon", "delta", "random_state", "module"})
                raise ValueError(f"grid names {name!r}, which is not a parameter to vary; such are {', '.join(free)}.")

    def fits(self) -> list[Fit]:
        """Every training, checked before the first of them begins."""
        own = [
            Fit(
                population=population,
                method=method,
                seed=seed,
                settings=tuple(({"delta": self.delta} | budget | dict(variant)).items()),
                is_control=method == "dpsgd",
            )
            for population in self.populations
            for method in self.methods
            for budget in self._budgets(method)
            for variant in self._variants(method)
            for seed in self.seeds
        ]
        for fit in own:
            if fit.seed == self.seeds[0]:
                _check(fit)
        return own

    def _budgets(self, method: str) -> list[dict[str, float]]:
        return [{"epsilon": own} for own in self.epsilons] if METHODS[method].private else [{}]

    def _variants(self, method: str) -> list[tuple[tuple[str, Any], ...]]:
        """Combinations of the grid that mean something to a method; the same one only once."""
        fitting = {name: own for name, own in self.grid.items() if METHODS[method].takes_target or name not in TARGETS}
        return [tuple(zip(fitting, values, strict=True)) for values in product(*fitting.values())]


def _check(fit: Fit) -> None:
    """Refuse a training that could not begin."""
    train = load(fit.population).train
    parameters = FairDPClassifier(method=fit.method, random_state=fit.seed, **dict(fit.settings)).get_params(deep=False)
    sizes = tuple(float(size) for size in train.group_sizes)
    RunSettings.of(**parameters).train_config(train.X.shape[1:], sizes)


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
            {"auc": own["auc"], **control_at([own], found[fit]["figures"]["positive_rate"])}
            for fit, own in zip(fits, controls, strict=True)
            if own is not None
        ]
        rows.append(
            {**_named(fits[0], found), "method": "dpsgd", "at": at, "n_runs": len(moved), **mean_and_error(moved)}
        )
    return rows


def _beside(fit: Fit) -> tuple[Any, ...]:
    """What a training has in common with its control: everything but the method and its targets."""
    variant = tuple((name, value) for name, value in _variant(fit).items() if name not in TARGETS)
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


def privacy_cost(found: Mapping[Fit, Record], *, delta: float) -> list[dict[str, Any]]:
    """What all trainings on the same records spend together, by basic composition; the sum for every data set."""
    costs = []
    for population in dict.fromkeys(fit.population for fit in found):
        spent = [record["figures"]["epsilon"] for fit, record in found.items() if fit.population == population]
        private = [epsilon for epsilon in spent if math.isfinite(epsilon)]
        total = sum(private)
        costs.append(
            {
                "dataset": str(population),
                "n_private_runs": len(private),
                "n_other_runs": len(spent) - len(private),
                "epsilon": total,
                "delta": len(private) * delta,
                "statement": _cost_statement(str(population), len(private), len(spent) - len(private), total, delta),
            }
        )
    return costs


def _cost_statement(name: str, n_private: int, n_other: int, epsilon: float, delta: float) -> str:
    others = f"; {n_other} further runs are not private at all" if n_other else ""
    return (
        f"{name}: {n_private} private runs on the same training records. Whoever sees them all, or a choice made among "
        f"them, sees ε = {math.ceil(100 * epsilon) / 100:g} and δ = {n_private * delta:.1g} in all (basic composition)"
        f"{others}. Metrics are exact on the test records: for the data holder's eyes."
    )


def _epsilon(fit: Fit) -> float | None:
    return fit.epsilon if METHODS[fit.method].private else None


def _variant(fit: Fit) -> dict[str, Any]:
    return {name: value for name, value in fit.settings if name not in ("epsilon", "delta")}
