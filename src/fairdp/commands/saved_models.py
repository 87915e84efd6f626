"""Saved models on new rows: predictions and measurements."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fairdp import _checks
from fairdp._checks import InputError, ParameterError, SavedModelError
from fairdp._files import json_bytes
from fairdp.certify.certificate import NotCertified
from fairdp.classifier import FairDPClassifier
from fairdp.commands.measuring import decided, seen_before, warnings_of
from fairdp.commands.progress import say_treated
from fairdp.data.catalog import DATASETS, load_dataset
from fairdp.data.formats import PLAIN, TableFormat
from fairdp.data.grouped import GroupedData
from fairdp.data.schema import TableSchema
from fairdp.data.tables import encode_file
from fairdp.data.treatments import Tell, Treated, counts_by_column, refuse_unreadable, untold
from fairdp.data.utkface import group_names
from fairdp.metrics.intervals import confidence_intervals
from fairdp.metrics.scored_records import evaluate_decisions
from fairdp.run.paper_bounds import PaperBounds
from fairdp.saved.diagnostics import paper_bounds_of


@dataclass(frozen=True, kw_only=True)
class EvaluationReport:
    """Metrics of a saved model on labelled rows, with confidence intervals."""

    method: str
    positive: str
    n_test: int
    metrics: Mapping[str, Any]
    confidence: float
    intervals: Mapping[str, tuple[float, float]]
    warnings: tuple[str, ...]
    treated: Mapping[str, Mapping[str, int]]
    note: str = "Exact figures on real records: for the data holder's eyes only, outside the privacy guarantee."


@dataclass(frozen=True, kw_only=True)
class ShiftReport:
    """What a certificate still bounds when the shares of groups and labels move, by the size of the shift."""

    method: str
    positive: str
    confidence: float
    bounds: tuple[Mapping[str, float], ...]
    note: str = (
        "After Pr(group, label) has moved by a total variation of at most gamma, while the people of each group and "
        "label stay as they were. For all gammas at once, instead of the plain certificate and not beside it."
    )


def run_shift(folder: Path, gammas: Sequence[float]) -> ShiftReport:
    """Bounds of the certificate of a saved model under shifts of these sizes; no record is needed."""
    estimator = FairDPClassifier.load(folder)
    certificate = estimator.certificate_
    if isinstance(certificate, NotCertified):
        raise SavedModelError(
            f"the model in {str(folder)!r} has no certificate, because {certificate.reason.explanation}; "
            "run fairdp certify on fresh records."
        )
    for gamma in gammas:
        if not 0 <= gamma <= 1:
            raise ParameterError("gamma", gamma, "must be in [0, 1]")
    bounds = tuple({"gamma": gamma, **certificate.under_shift(gamma)} for gamma in gammas)
    positive = str(estimator.classes_[1])
    return ShiftReport(method=estimator.method, positive=positive, confidence=certificate.confidence, bounds=bounds)


def run_evaluate(
    folder: Path,
    table: Path | None,
    dataset: str | None,
    *,
    confidence: float,
    seed: int | None,
    written: TableFormat = PLAIN,
) -> EvaluationReport:
    """Metrics of a saved model on labelled rows, with confidence intervals."""
    _checks.in_unit_interval(confidence=confidence)
    told: list[Treated] = []
    estimator, test = load_with_records(folder, table, dataset, written=written, tell=told.append)
    refuse_unreadable(told)
    say_treated(told)
    (y, groups), (scores, decisions) = test.codes, decided(estimator, test)
    intervals = confidence_intervals(
        y,
        scores,
        groups,
        test.n_groups,
        confidence=confidence,
        rng=np.random.default_rng(seed),
        decisions=decisions,
    )
    metrics = evaluate_decisions(y, scores, groups, test.group_names, decisions=decisions)
    # The test records of a named data set are none that a model was trained on.
    seen = [] if table is None else seen_before(folder, estimator, test)
    return EvaluationReport(
        method=estimator.method,
        positive=str(estimator.classes_[1]),
        n_test=test.n_samples,
        metrics=metrics,
        confidence=confidence,
        intervals=intervals,
        warnings=(*seen, *warnings_of(estimator, metrics)),
        treated=counts_by_column(told),
    )


def run_paper_bounds(
    folder: Path, table: Path | None, dataset: str | None, *, written: TableFormat = PLAIN, **options: Any
) -> PaperBounds:
    """The paper's certificates of a saved model on labelled rows, in the paper those it was trained on."""
    estimator, data = load_with_records(folder, table, dataset, part="train", written=written)
    return paper_bounds_of(estimator, data, **options)


def load_with_records(
    folder: Path,
    table: Path | None,
    dataset: str | None,
    *,
    part: Literal["train", "test"] = "test",
    written: TableFormat = PLAIN,
    tell: Tell = untold,
) -> tuple[FairDPClassifier, GroupedData]:
    """A saved model and labelled records: those of a table, or a part of a named data set."""
    if (table is None) == (dataset is None):
        raise InputError("give either TABLE or `dataset`: the records to look at.")
    if dataset is not None:
        return load_for_dataset(folder, dataset, part=part)
    assert table is not None
    estimator, schema = load_saved(folder, written)
    return estimator, encode_file(table, schema, tell=tell)


def load_saved(folder: Path, written: TableFormat = PLAIN) -> tuple[FairDPClassifier, TableSchema]:
    """A saved model and the schema of its tables; what is said of the file at hand goes before what the model says."""
    estimator = FairDPClassifier.load(folder)
    if estimator.feature_schema_ is None:
        raise SavedModelError(
            f"the model in {str(folder)!r} does not read tables; use FairDPClassifier.load in Python."
        )
    schema = TableSchema.from_dict(estimator.feature_schema_)
    return estimator, replace(schema, format=written.over(schema.format))


def load_for_dataset(
    folder: Path, dataset: str, *, part: Literal["train", "test"] = "test"
) -> tuple[FairDPClassifier, GroupedData]:
    """A saved model and the test or training records of a data set of the kind it was trained on."""
    estimator = FairDPClassifier.load(folder)
    loaded = load_dataset(dataset, sensitive=_protected(estimator, dataset))
    other = json.loads(json_bytes(loaded.schema.to_dict())) if loaded.schema is not None else None
    shapes = (loaded.test.X.shape[1:], estimator.score_model_.shape)
    if (
        estimator.feature_schema_ != other
        or shapes[0] != shapes[1]
        or loaded.test.group_names != estimator.group_names_
    ):
        raise SavedModelError(f"the model in {str(folder)!r} was not trained on data like {dataset}; name a TABLE.")
    return estimator, loaded.test if part == "test" else loaded.train


def _protected(estimator: FairDPClassifier, dataset: str) -> tuple[str, ...]:
    """The columns of a data set whose values make the groups of a model; those by default if no others do."""
    card = DATASETS.get(dataset)
    if card is None:
        return ()
    if estimator.feature_schema_ is not None:
        named = TableSchema.from_dict(estimator.feature_schema_).sensitive
        return named if set(named) <= set(card.sensitive) else ()
    orders = [order for n in range(1, 1 + len(card.sensitive)) for order in permutations(card.sensitive, n)]
    return next((order for order in orders if card.images and group_names(order) == estimator.group_names_), ())
