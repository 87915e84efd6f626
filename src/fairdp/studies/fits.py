"""Trainings that studies are made of: the records by name, one run and its figures, and rows over seeds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from fairdp.data.catalog import load_dataset
from fairdp.data.grouped import GroupedData
from fairdp.data.schema import TableSchema
from fairdp.data.splits import split_rows
from fairdp.data.synthetic import N_TEST, N_TRAIN, synthetic_population
from fairdp.estimators import FairDPClassifier
from fairdp.metrics import at_positive_rate
from fairdp.tasks.measuring import measure

# Positive rates at which a model without a target is also measured, as a control.
CONTROL_RATES = tuple(np.linspace(0.01, 0.6, 60).round(2).tolist())


@dataclass(frozen=True, kw_only=True)
class Population:
    """Records by name.

    Parameters
    ----------
    dataset
        Named data set.
    split
        None: as it is delivered. Else the seed of another split of all its records.
    by_race
        Whether the groups are told apart by race too, white or not, as an input says.
    bias
        Of a synthetic population, otherwise as the named one.
    """

    dataset: str
    split: int | None = None
    by_race: bool = False
    bias: float | None = None

    def __str__(self) -> str:
        race = " by sex and race" if self.by_race else ""
        bias = "" if self.bias is None else f", bias {self.bias:g}"
        return f"{self.dataset}{race}{bias}"


@dataclass(frozen=True)
class Parts:
    """Training and test records."""

    train: GroupedData
    test: GroupedData
    schema: TableSchema | None

    def described(self) -> dict[str, Any] | None:
        """The schema as a model takes it."""
        return None if self.schema is None else self.schema.to_dict()


@lru_cache(maxsize=4)
def load(population: Population) -> Parts:
    """The records that a name stands for."""
    if population.bias is not None:
        return _synthetic(population.bias, population.split or 0)
    own = load_dataset(population.dataset)
    parts = Parts(own.train, own.test, own.schema)
    if population.split is not None:
        parts = _split_again(parts, population.split)
    return _by_race(parts) if population.by_race else parts


def _synthetic(bias: float, seed: int) -> Parts:
    people = replace(synthetic_population(), bias=bias)
    rng = np.random.default_rng([seed, int(1000 * bias)])
    return Parts(people.sample(N_TRAIN, rng), people.sample(N_TEST, rng), None)


def _split_again(parts: Parts, seed: int) -> Parts:
    """All records, in parts of the same shares."""
    both = replace(
        parts.train,
        X=np.concatenate([parts.train.X, parts.test.X]),
        y=np.concatenate([parts.train.y, parts.test.y]),
        groups=np.concatenate([parts.train.groups, parts.test.groups]),
    )
    share = parts.test.n_samples / both.n_samples
    train, test = split_rows(both.groups * 2 + both.y, seed=1000 + seed, test_share=share)
    return Parts(both.take(train), both.take(test), parts.schema)


def _by_race(parts: Parts) -> Parts:
    """Groups of the attribute and of the input that says who is white."""
    assert parts.schema is not None
    names = [name for column in parts.schema.columns for name in column.feature_names]
    white = next(position for position, name in enumerate(names) if name.startswith("race") and "White" in name)

    def crossed(data: GroupedData) -> GroupedData:
        is_white = (data.X[:, white] > 0.5).astype(np.int64)
        both = tuple(f"{name}, {race}" for name in data.group_names for race in ("other", "white"))
        return replace(data, groups=2 * data.groups + is_white, group_names=both)

    return Parts(crossed(parts.train), crossed(parts.test), parts.schema)


@dataclass(frozen=True, kw_only=True)
class Fit:
    """One training by one method; ``settings`` as pairs, so that equal trainings are equal."""

    population: Population
    method: str
    seed: int
    settings: tuple[tuple[str, Any], ...] = ()
    # Whether the model is also measured at other positive rates than its own.
    is_control: bool = False


def figures_of(fit: Fit, rng: np.random.Generator) -> dict[str, Any]:
    """What a training reaches on the test records, and the gap that it aimed at on its training records."""
    parts = load(fit.population)
    settings = dict(fit.settings)
    model = FairDPClassifier(method=fit.method, random_state=fit.seed, **settings)
    model.fit_grouped(parts.train, feature_schema=parts.described())
    measured = {name: value for name, value in measure(model, parts.test).items() if isinstance(value, float)}
    metric = f"{settings.get('parity', 'demographic_parity')}_difference"
    found: dict[str, Any] = {
        **measured,
        "gap": measured[metric],
        "training_gap": float(measure(model, parts.train)[metric]),
        "epsilon": model.privacy_.epsilon,
    }
    if model.certificate_.certified:
        own = model.certificate_["demographic_parity"]
        found |= {"certified_gap": own["tau"], "certified_ratio": own["ratio"]}
    if fit.is_control:
        found["moved"] = _moved(model, parts.test, metric)
    return found


def _moved(model: FairDPClassifier, test: GroupedData, metric: str) -> list[tuple[float, float, float]]:
    """Positive rate, gap and accuracy with the threshold moved."""
    scores = np.asarray(model.scores(test.X), dtype=np.float64)
    rows = []
    for rate in CONTROL_RATES:
        moved = at_positive_rate(test.y, scores, test.groups, test.group_names, positive_rate=rate)
        rows.append((rate, float(str(moved[metric])), float(str(moved["accuracy"]))))
    return rows


def mean_and_error(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Mean of every number over runs, and the standard error of the mean."""
    numbers = {
        name: np.array([own[name] for own in runs]) for name, value in runs[0].items() if isinstance(value, float)
    }
    return {
        "mean": {name: float(values.mean()) for name, values in numbers.items()},
        "standard_error": {
            name: float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0
            for name, values in numbers.items()
        },
    }


def control_at(runs: Sequence[dict[str, Any]], positive_rate: float) -> dict[str, float]:
    """Gap and accuracy of control models whose threshold is moved to a positive rate; means over runs."""
    curves = np.mean([own["moved"] for own in runs], axis=0)
    rates, gaps, accuracies = curves.T
    return {
        "gap": float(np.interp(positive_rate, rates, gaps)),
        "accuracy": float(np.interp(positive_rate, rates, accuracies)),
    }
