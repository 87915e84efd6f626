"""One training and its figures: what sweeps and studies are made of, and rows over seeds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairdp.certify.certificate import Certificate
from fairdp.classifier import FairDPClassifier
from fairdp.commands.measuring import measure
from fairdp.data.grouped import GroupedData
from fairdp.experiments.sweeps.paper_tau import paper_taus
from fairdp.experiments.sweeps.populations import Population, load
from fairdp.experiments.sweeps.shifts import gap_under_shift
from fairdp.metrics.rates import Counts, at_positive_rate, decision_counts

# Positive rates at which a model without a target is also measured, as a control; small ones are where gaps bend.
CONTROL_RATES = tuple(np.concatenate([np.arange(0, 0.05, 0.0025), np.arange(0.05, 1.001, 0.01)]).round(4).tolist())
METRICS = ("demographic_parity", "equal_opportunity", "equalized_odds")
GAPS = tuple(f"{metric}_difference" for metric in METRICS)


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


def figures_of(fit: Fit, *, random_state: int) -> dict[str, Any]:
    """What a training reaches on the test records, and the gap that it aimed at on its training records."""
    parts = load(fit.population)
    settings = dict(fit.settings)
    model = FairDPClassifier(method=fit.method, random_state=random_state, **settings)
    model.fit_grouped(parts.train, feature_schema=parts.described())
    measured = {name: value for name, value in measure(model, parts.test).items() if isinstance(value, float)}
    metric = f"{settings.get('parity', 'demographic_parity')}_difference"
    found: dict[str, Any] = {
        **measured,
        "gap": measured[metric],
        "epsilon": model.privacy_.epsilon,
        **_certified(model),
    }
    # Only studies of targets show it, and a smoothed model would run a hundred times for every training record.
    if fit.is_experiment and model.score_model_.smoothing is None:
        found["training_gap"] = float(measure(model, parts.train)[metric])
    if fit.is_control:
        found["moved"] = _moved(model, parts.test, metric)
    if fit.shifts:
        found |= _shifted(model, parts.test, fit.shifts)
        found |= {f"paper_{name}": tau for name, tau in paper_taus(model, parts.train).items()}
    return found


def _certified(model: FairDPClassifier) -> dict[str, float]:
    """Bounds of the certificate, if there is one; by the name of the metric, and of demographic parity once more."""
    if not isinstance(model.certificate_, Certificate):
        return {}
    gaps = model.certificate_.gaps
    found: dict[str, Any] = {f"certified_{metric}": gap.tau for metric, gap in gaps.items()}
    if "demographic_parity" in gaps:
        own = gaps["demographic_parity"]
        found |= {"certified_gap": own.tau, "certified_ratio": own.ratio}
    return found


def _moved(model: FairDPClassifier, test: GroupedData, metric: str) -> dict[str, list[float]]:
    """Gaps and accuracy with the threshold moved, for every control rate."""
    scores = np.asarray(model.scores(test.X), dtype=np.float64)
    shown = {name: name for name in ("accuracy", "demographic_parity_ratio", *GAPS)} | {"gap": metric}
    curves: dict[str, list[float]] = {"positive_rate": list(CONTROL_RATES), **{name: [] for name in shown}}
    for rate in CONTROL_RATES:
        moved = at_positive_rate(test.y, scores, test.groups, test.group_names, positive_rate=rate)
        for name, source in shown.items():
            curves[name].append(float(str(moved[source])))
    return curves


def _shifted(model: FairDPClassifier, test: GroupedData, shifts: Sequence[float]) -> dict[str, float]:
    """The gap under shifts of each size, and its bound where there is one."""
    decisions = model.predictor_.decisions(model.score_model_, test.X, groups=test.groups)
    counts: Counts = decision_counts(test.y, decisions, test.groups, test.n_groups)
    found = {f"gap_at_shift_{shift:g}": gap_under_shift(counts, shift) for shift in shifts}
    if isinstance(model.certificate_, Certificate):
        found |= {
            f"certified_at_shift_{shift:g}": model.certificate_.under_shift(shift)["demographic_parity"]
            for shift in shifts
        }
    return found


def mean_and_error(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Mean of every number over runs, and the standard error of the mean, which one run alone does not have."""
    numbers = {
        name: np.array([own[name] for own in runs]) for name, value in runs[0].items() if isinstance(value, float)
    }
    # An infinite budget has no spread.
    with np.errstate(invalid="ignore"):
        return {
            "mean": {name: float(values.mean()) for name, values in numbers.items()},
            "standard_error": {
                name: float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else np.nan
                for name, values in numbers.items()
            },
        }


def moved_to(control: dict[str, Any], positive_rate: float) -> dict[str, float]:
    """Figures of a control model whose threshold is moved to a positive rate; its AUC does not depend on it."""
    curves = control["moved"]
    at = {name: float(np.interp(positive_rate, curves["positive_rate"], curve)) for name, curve in curves.items()}
    return {"auc": control["auc"], **at}


def control_at(runs: Sequence[dict[str, Any]], positive_rate: float) -> dict[str, float]:
    """The same, as means over control models."""
    return mean_and_error([moved_to(own, positive_rate) for own in runs])["mean"]
