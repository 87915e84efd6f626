"""One training and its figures: what sweeps and studies are made of, and rows over seeds."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fairdp._format import with_error
from fairdp.certify.certificate import Certificate
from fairdp.classifier import FairDPClassifier
from fairdp.commands.measuring import measure
from fairdp.data.grouped import GroupedData
from fairdp.experiments.sweeps.paying import Payment, paying
from fairdp.experiments.sweeps.populations import Population, load
from fairdp.experiments.sweeps.shifts import gap_under_reversal, gap_under_shift
from fairdp.metrics.rates import Counts, decision_counts
from fairdp.metrics.scored_records import at_positive_rate
from fairdp.saved.diagnostics import paper_bounds_of

# Positive rates at which a model without a target is also measured, as a control; small ones are where gaps bend.
CONTROL_RATES = tuple(np.concatenate([np.arange(0, 0.05, 0.0025), np.arange(0.05, 1.001, 0.01)]).round(4).tolist())
METRICS = ("demographic_parity", "equal_opportunity", "equalized_odds")
GAPS = tuple(f"{metric}_difference" for metric in METRICS)
# What a run has spent; never rounded.
PRIVACY = ("epsilon", "epsilon_rdp", "epsilon_pld", "noise_multiplier")


@dataclass(frozen=True, kw_only=True)
class Fit:
    """One training by one method.

    Parameters
    ----------
    settings
        Parameters of the estimator as pairs, so that equal trainings are equal.
    is_control
        Whether the model is also measured at other positive rates than its own.
    shifts
        Sizes of shifts of Pr(a, y) under which the gap is also measured and certified.
    is_experiment
        A study of public data: trainings with the same seed share batches and noise, and the gap on the training
        records is measured too. Otherwise each has noise of its own, and nothing exact is read off its records.
    """

    population: Population
    method: str
    seed: int
    settings: tuple[tuple[str, Any], ...] = ()
    is_control: bool = False
    shifts: tuple[float, ...] = ()
    is_experiment: bool = True

    @property
    def epsilon(self) -> float:
        """Budget that was asked for."""
        return float(dict(self.settings).get("epsilon", 1.0))


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What a training reached: numbers by name, and how long it took.

    Parameters
    ----------
    moved
        Of a control: numbers by name with the threshold moved, one for each of `CONTROL_RATES`.
    """

    numbers: Mapping[str, float]
    moved: Mapping[str, Sequence[float]] = field(default_factory=dict)
    seconds: float = 0.0

    def __getitem__(self, name: str) -> float:
        return self.numbers[name]

    def at_rate(self, positive_rate: float) -> dict[str, float]:
        """Numbers of a control whose threshold is moved to a positive rate; its AUC does not depend on it."""
        rates = self.moved["positive_rate"]
        at = {name: float(np.interp(positive_rate, rates, curve)) for name, curve in self.moved.items()}
        return {"auc": self["auc"], **at}


@dataclass(frozen=True, kw_only=True)
class Row:
    """Means over runs and their standard errors, which one run alone does not have, and what tells the row apart."""

    named: Mapping[str, object]
    mean: Mapping[str, float]
    standard_error: Mapping[str, float]

    @classmethod
    def of(cls, named: Mapping[str, object], runs: Iterable[Mapping[str, float]]) -> "Row":
        """The row of some runs, with the numbers that all of them have."""
        first, *others = runs
        shared = [name for name in first if all(name in other for other in others)]
        numbers = {name: np.array([first[name], *(other[name] for other in others)]) for name in shared}
        # An infinite budget has no spread.
        with np.errstate(invalid="ignore"):
            return cls(
                named=named,
                mean={name: float(values.mean()) for name, values in numbers.items()},
                standard_error={
                    name: float(values.std(ddof=1) / np.sqrt(len(values))) if others else np.nan
                    for name, values in numbers.items()
                },
            )

    def pair(self, name: str) -> tuple[float, float]:
        """A mean and its standard error."""
        return self.mean[name], self.standard_error[name]

    def text(self, name: str, *, digits: int = 3) -> str:
        """The same in words; a dash where the row has none."""
        return with_error(self.mean.get(name, np.nan), self.standard_error.get(name), digits=digits)

    def texts(self, titles: Mapping[str, str], *, digits: int = 3) -> dict[str, str]:
        """Several of them, by the titles of their names."""
        return {title: self.text(name, digits=digits) for name, title in titles.items()}

    def to_json(self) -> dict[str, object]:
        """Plain values."""
        return {**self.named, "mean": self.mean, "standard_error": self.standard_error}


def figures_of(fit: Fit, *, random_state: int, payment: Payment | None = None) -> Trained:
    """What a training reaches on the test records, and the gap that it aimed at on its training records."""
    parts = load(fit.population)
    settings = {"group_sizes": parts.group_sizes} | dict(fit.settings)
    model = FairDPClassifier(method=fit.method, random_state=random_state, **settings)
    with paying(payment, fit.population, fit.method) as progress:
        model.fit_grouped(parts.train, feature_schema=parts.described(), progress=progress)
    measured = {name: value for name, value in measure(model, parts.test).items() if isinstance(value, float)}
    metric = f"{settings.get('parity', 'demographic_parity')}_difference"
    found = {**measured, "gap": measured[metric], **_spent(model), **_certified(model)}
    # Only studies of targets show it, and a smoothed model would run a hundred times for every training record.
    if fit.is_experiment and model.score_model_.smoothing is None:
        found["training_gap"] = float(measure(model, parts.train)[metric])
    if fit.shifts:
        found |= _shifted(model, parts.test, fit.shifts)
        found |= {f"paper_{name}": tau for name, tau in paper_taus(model, parts.train).items() if name in METRICS}
        found |= {f"heads_error_{name}": error for name, error in heads_error(model, parts.test).items()}
    moved = _moved(model, parts.test) if fit.is_control else {}
    return _rounded(Trained(numbers=found, moved=moved)) if fit.is_experiment else Trained(numbers=found, moved=moved)


def _rounded(found: Trained) -> Trained:
    """So many digits that a file of trainings stays small, and that one which was read is one which was done."""
    numbers = {name: value if name in PRIVACY else float(f"{value:.6g}") for name, value in found.numbers.items()}
    moved = {name: [float(f"{value:.5g}") for value in curve] for name, curve in found.moved.items()}
    return Trained(numbers=numbers, moved=moved)


def _spent(model: FairDPClassifier) -> dict[str, float]:
    """ε by the chosen accountant and by each of both, and the noise."""
    return {name: float(getattr(model.privacy_, name)) for name in PRIVACY}


def paper_taus(model: FairDPClassifier, train: GroupedData) -> dict[str, float]:
    """The paper's τ_emp on the training records, those held out included, with the noise of one head, Nσ₀."""
    return paper_bounds_of(model, train).at["one_head"].tau_emp


def _certified(model: FairDPClassifier) -> dict[str, float]:
    """Bounds of the certificate, if there is one; by the name of the metric, and of demographic parity once more."""
    if not isinstance(model.certificate_, Certificate):
        return {}
    gaps = model.certificate_.gaps
    found = {f"certified_{metric}": gap.tau for metric, gap in gaps.items()}
    parity = gaps.get("demographic_parity")
    if parity is not None:
        found["certified_gap"] = parity.tau
    # A certificate of several claims may make none about the ratio.
    if parity is not None and parity.ratio is not None:
        found["certified_ratio"] = parity.ratio
    return found


def _moved(model: FairDPClassifier, test: GroupedData) -> dict[str, list[float]]:
    """Gaps and accuracy with the threshold moved, for every control rate."""
    scores = np.asarray(model.scores(test.inputs), dtype=np.float64)
    shown = ("accuracy", "demographic_parity_ratio", *GAPS)
    curves: dict[str, list[float]] = {"positive_rate": list(CONTROL_RATES), **{name: [] for name in shown}}
    for rate in CONTROL_RATES:
        moved = at_positive_rate(test.y, scores, test.groups, test.group_names, positive_rate=rate)
        for name in shown:
            curves[name].append(float(str(moved[name])))
    return curves


def heads_error(model: FairDPClassifier, test: GroupedData) -> dict[str, float]:
    """What the paper's formula of the Monte Carlo error stands for, measured over the heads; none of a single head."""
    measured = paper_bounds_of(model, test).monte_carlo.measured
    return {name: measured[name] for name in METRICS} if len(model.score_model_.heads) > 1 else {}


def _shifted(model: FairDPClassifier, test: GroupedData, shifts: Sequence[float]) -> dict[str, float]:
    """The gap under shifts of each size, and its bound where there is one."""
    decisions = model.predictor_.decisions(model.score_model_, test.inputs, groups=test.groups)
    counts: Counts = decision_counts(test.y, decisions, test.groups, test.n_groups)
    found = {f"gap_at_shift_{shift:g}": gap_under_shift(counts, shift) for shift in shifts}
    found |= {f"gap_at_reversal_{shift:g}": gap_under_reversal(counts, shift) for shift in shifts}
    if isinstance(model.certificate_, Certificate):
        found |= {
            f"certified_at_shift_{shift:g}": model.certificate_.under_shift(shift)["demographic_parity"]
            for shift in shifts
        }
    return found
