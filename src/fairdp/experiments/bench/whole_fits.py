"""Whole fits on the same records: ours with its certificate, and models by others."""

from dataclasses import dataclass
from typing import Any

from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from fairdp.classifier import FairDPClassifier
from fairdp.data.catalog import Dataset, load_dataset
from fairdp.experiments.bench.contestants import Step
from fairdp.experiments.bench.meters import median_cpu_seconds
from fairdp.experiments.studies.rivals import EPSILON, fitted_dp_ebm, fitted_reduction

MAX_GAP = 0.05
OURS = "fairdp_frontier"


@dataclass(frozen=True, kw_only=True)
class FitTask:
    """Timed rounds, in each of which everyone is fitted once.

    Parameters
    ----------
    n_records
        None: all training records of the table. Else so many of the synthetic population.
    """

    n_rounds: int
    n_records: int | None = None

    def dataset(self) -> Dataset:
        """All columns of the census table where its files are; else the synthetic population."""
        if self.n_records is None:
            try:
                return load_dataset("adult_full", fetch_missing=False)
            except FileNotFoundError:
                pass
        return load_dataset("synthetic")


def whole_fits(task: FitTask, *, n_threads: int) -> dict[str, Any]:
    """Processor time of each fit, and as a multiple of ours: above one means that ours takes less."""
    dataset = task.dataset()
    with threadpool_limits(n_threads):
        times = median_cpu_seconds(fits_of(dataset, task.n_records), n_rounds=task.n_rounds)
    return {
        "data": dataset.name,
        "over_ours": {name: seconds / times[OURS] for name, seconds in times.items() if name != OURS},
        "cpu_seconds": times,
    }


def fits_of(dataset: Dataset, n_records: int | None = None) -> dict[str, Step]:
    """Everyone with defaults: ours and the reduction at the same gap, ours with records held out and certified."""
    train = dataset.train.take(slice(n_records))
    described = None if dataset.schema is None else dataset.schema.to_dict()

    def ours() -> FairDPClassifier:
        return FairDPClassifier(epsilon=EPSILON, max_gap=MAX_GAP).fit_grouped(train, feature_schema=described)

    return {
        OURS: ours,
        "logistic_regression": lambda: LogisticRegression(max_iter=1000).fit(train.X, train.y),
        "dp_ebm": lambda: fitted_dp_ebm(train, dataset.schema, seed=None),
        "reduction": lambda: fitted_reduction(train, max_gap=MAX_GAP),
    }
