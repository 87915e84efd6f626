"""Methods beside each other: data sets × methods × budgets × seeds × any parameters, and what they reach."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from typing import Any

from fairdp import _checks
from fairdp._checks import DataError
from fairdp._format import rounded_up
from fairdp.classifier import FairDPClassifier
from fairdp.experiments.sweeps.fits import Fit, Row, Trained
from fairdp.experiments.sweeps.populations import Population, load
from fairdp.methods import METHODS, ONLY_FOR
from fairdp.run.settings import RunSettings

TARGETS = ("max_gap", "min_ratio", "positive_rate")


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
        return [{"epsilon": epsilon} for epsilon in self.epsilons] if METHODS[method].private else [{}]

    def _variants(self, method: str) -> list[tuple[tuple[str, Any], ...]]:
        """Combinations of the grid that mean something to a method; the same one only once."""
        grid = sorted(self.grid.items())
        # Not trained again for every value of a parameter that means nothing to it.
        fitting = {name: values for name, values in grid if method in ONLY_FOR.get(name, METHODS)}
        return [tuple(zip(fitting, values, strict=True)) for values in product(*fitting.values())]


def _check(fit: Fit) -> None:
    """Refuse a training that could not begin."""
    train = load(fit.population).train
    parameters = FairDPClassifier(method=fit.method, random_state=fit.seed, **dict(fit.settings)).get_params(deep=False)
    sizes = tuple(float(size) for size in train.group_sizes)
    try:
        settings = RunSettings.of(**parameters)
        settings.train_config(train.X.shape[1:], sizes)
        settings.model_config(train.X.shape[1:], None, train.n_groups)
    except TypeError as error:
        shown = ", ".join(f"{name}={value!r}" for name, value in _variant(fit).items())
        raise DataError(f"`grid` has a value of the wrong kind among {shown} ({error}).") from None


def tidy_rows(found: Mapping[Fit, Trained]) -> list[dict[str, object]]:
    """A flat row for each training."""
    return [
        {
            "dataset": str(fit.population),
            "method": fit.method,
            "epsilon": _epsilon(fit),
            "seed": fit.seed,
            **_variant(fit),
            **{("epsilon_spent" if name == "epsilon" else name): value for name, value in result.numbers.items()},
            "seconds": result.seconds,
        }
        for fit, result in found.items()
    ]


def summary_rows(found: Mapping[Fit, Trained]) -> list[Row]:
    """Mean and standard error over seeds."""
    return [
        Row.of({**_named(fits[0], found), "n_runs": len(fits)}, [found[fit].numbers for fit in fits])
        for fits in _together(found)
    ]


def control_rows(found: Mapping[Fit, Trained], *, at: str) -> list[Row]:
    """DP-SGD with its threshold moved to the positive rate of another method, run by run; none without both."""
    plain = {_beside(fit): result for fit, result in found.items() if fit.is_control}
    rows = []
    for fits in _together(found):
        if fits[0].method == at and all(_beside(fit) in plain for fit in fits):
            moved = [plain[_beside(fit)].at_rate(found[fit]["positive_rate"]) for fit in fits]
            rows.append(Row.of({**_named(fits[0], found), "method": "dpsgd", "at": at, "n_runs": len(fits)}, moved))
    return rows


def _beside(fit: Fit) -> tuple[object, ...]:
    """What a training has in common with its control: everything but the method and what is its own."""
    variant = tuple((name, value) for name, value in _variant(fit).items() if name not in ONLY_FOR)
    return fit.population, fit.epsilon, fit.seed, variant


def _together(found: Iterable[Fit]) -> list[list[Fit]]:
    """Trainings that differ in their seed only."""
    together: dict[tuple[object, ...], list[Fit]] = {}
    for fit in found:
        together.setdefault((fit.population, fit.method, fit.settings), []).append(fit)
    return list(together.values())


def _named(fit: Fit, found: Iterable[Fit]) -> dict[str, object]:
    """What tells a row apart; of the parameters those that differ between trainings of the method."""
    alike = [_variant(other) for other in found if other.method == fit.method]
    differs = {name for setting in alike for name in setting if len({str(other[name]) for other in alike}) > 1}
    variant = ", ".join(f"{name}={value}" for name, value in _variant(fit).items() if name in differs)
    named: dict[str, object] = {"dataset": str(fit.population), "method": fit.method, "epsilon": _epsilon(fit)}
    return named | ({"variant": variant} if variant else {})


@dataclass(frozen=True, kw_only=True)
class PrivacyCost:
    """What all trainings on the same records spend together, by basic composition."""

    dataset: str
    n_private_runs: int
    n_other_runs: int
    epsilon: float
    delta: float

    @classmethod
    def of(
        cls, dataset: str, spent: Sequence[float], *, delta: float, read: tuple[float, float] = (0.0, 0.0)
    ) -> "PrivacyCost":
        """The cost of runs with these budgets, infinite where they are not private, and the same δ.

        ``read`` are ε and δ of reading the columns once before them.
        """
        private = [epsilon for epsilon in spent if math.isfinite(epsilon)]
        return cls(
            dataset=dataset,
            n_private_runs=len(private),
            n_other_runs=len(spent) - len(private),
            epsilon=sum(private) + read[0],
            delta=len(private) * delta + read[1],
        )

    @property
    def statement(self) -> str:
        """The cost in words."""
        others = f"; {self.n_other_runs} further runs are not private at all" if self.n_other_runs else ""
        return (
            f"{self.dataset}: {self.n_private_runs} private runs on the same training records are kept here. Whoever "
            f"sees them all, or a choice made among them, sees ε = {rounded_up(self.epsilon)} and δ = "
            f"{rounded_up(self.delta)} in all (basic composition){others}. Their seeds are kept with them, so that "
            "the comparison can be continued: this is what the runs would cost with seeds that are secret. "
            "Metrics are exact on the test records: for the data holder's eyes."
        )

    def to_json(self) -> dict[str, object]:
        """Plain values."""
        return {**asdict(self), "statement": self.statement}


def _epsilon(fit: Fit) -> float | None:
    return fit.epsilon if METHODS[fit.method].private else None


def _variant(fit: Fit) -> dict[str, object]:
    return {name: value for name, value in fit.settings if name not in ("epsilon", "delta")}
