"""What a model does on records, and what to warn a user about."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairdp._checks import SavedModelError
from fairdp.accounting.words import FRONTIER
from fairdp.certify.certificate import Certificate
from fairdp.certify.estimates import estimated_metrics
from fairdp.classifier import FairDPClassifier
from fairdp.commands.progress import say
from fairdp.data.grouped import GroupedData
from fairdp.frontier.outlook import SurveyNoise, forewarning, outlook_of, outlook_warning
from fairdp.metrics.rates import collapse_warning
from fairdp.metrics.scored_records import evaluate_decisions
from fairdp.run.plan import PlannedRun
from fairdp.saved.used_records import TRAINING, UsedRecords, fingerprints, used_records_of


def measure(estimator: FairDPClassifier, test: GroupedData) -> dict[str, Any]:
    """Exact utility and fairness on held-out records: for the data holder's eyes only."""
    (y, groups), (scores, decisions) = test.codes, decided(estimator, test)
    return evaluate_decisions(y, scores, groups, test.group_names, decisions=decisions)


def decided(estimator: FairDPClassifier, data: GroupedData) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Score and decision of each record."""
    scores, decisions = np.empty(data.n_samples), np.empty(data.n_samples, dtype=np.int64)
    stop = 0
    for part in data.batches():
        here = slice(stop, stop := stop + part.n_samples)
        # Computed once: a model smoothed over its parameters runs a hundred times for each record.
        scores[here] = estimator.scores(part.inputs)
        decisions[here] = estimator.predictor_.decisions(
            estimator.score_model_, part.inputs, groups=part.groups, scores=scores[here]
        )
    return scores, decisions


def measured(estimator: FairDPClassifier, test: GroupedData, *, private: bool) -> tuple[int, Mapping[str, Any] | None]:
    """Certification records and metrics: exact ones for the data holder, or what follows from the released counts.

    Without records to test on there are only the counts; without a certificate there are none of these either.
    """
    certificate = estimator.certificate_
    if private and isinstance(certificate, Certificate):
        counted = sum(max(0, n) for group in certificate.counts for row in group for n in row)
        return counted, estimated_metrics(certificate)
    if not test.n_samples:
        return estimator.n_certify_, estimated_metrics(certificate) if isinstance(certificate, Certificate) else None
    return estimator.n_certify_, measure(estimator, test)


def say_equal(train: GroupedData, test: GroupedData, path: Path | None) -> None:
    """Tell the data holder, and nobody else, of records in a test file that are in the training table too."""
    if path is None:
        return
    used = UsedRecords.new()
    equal = used.with_use(TRAINING, fingerprints(train, used.key)).overlaps(fingerprints(test, used.key))[TRAINING]
    if equal:
        say(
            f"warning: {equal} of the {test.n_samples} records in {str(path)!r} equal some of the training table; if "
            "they are the same people, what is measured on them flatters the model."
        )


def seen_before(folder: Path, estimator: FairDPClassifier, data: GroupedData) -> list[str]:
    """A warning if some of these records equal those that a saved model was trained on; for the data holder's eyes."""
    digest = estimator.score_model_.digest()
    try:
        used = used_records_of(folder, digest)
    except SavedModelError as error:
        return [f"it is not known which records the model was trained on: {error.template}"]
    if used is None:
        return []
    equal = used.of_model(digest).overlaps(fingerprints(data, used.key)).get(TRAINING, 0)
    if not equal:
        return []
    return [
        f"{equal} of the {data.n_samples} records equal some that the model was trained on; if they are the same "
        "people, what is measured on them flatters the model: measure it on others."
    ]


def warnings_of(estimator: FairDPClassifier, metrics: Mapping[str, Any] | None) -> list[str]:
    """What to know before relying on these metrics; None where nothing was measured."""
    collapse = None if metrics is None else collapse_warning(metrics["positive_rate"])
    found = [collapse] if collapse else []
    certificate = estimator.certificate_
    if isinstance(certificate, Certificate):
        empty = {gap.pair for gap in certificate.gaps.values() if gap.claimed and gap.tau >= 1}
        if empty:
            pairs = ", ".join(f"{high} and {low}" for high, low in sorted(empty))
            found.append(
                f"the certificate has too few records to bound some gaps, first of all between {pairs}: merge small "
                "groups (a schema's 'other' does), name fewer protected columns, or certify fewer metrics."
            )
    hidden = _hidden_groups(estimator)
    if hidden is not None:
        found.append(hidden)
    if np.isinf(estimator.privacy_.epsilon):
        found.append("this model is not private: it was trained without noise.")
    return found


def hidden_beforehand(planned: PlannedRun) -> str | None:
    """Groups whose rates a frontier will not see, from the plan alone, while nothing has been trained."""
    plan, names = planned.plan, tuple(planned.privacy.mechanisms)
    if not plan.recipe.joint or len(names) < 2 or not plan.survey_stds[FRONTIER]:
        return None
    sizes = dict(zip(names, plan.recipe.group_sizes, strict=True))
    parity, epsilon = planned.config.parity, plan.budget.epsilon
    return forewarning(outlook_of(sizes, SurveyNoise.of(plan), parity=parity, epsilon=epsilon))


def _hidden_groups(estimator: FairDPClassifier) -> str | None:
    """Groups whose rates a frontier could not see, now that the share of positive labels is known too."""
    frontier, privacy = estimator.frontier_, estimator.privacy_
    if frontier is None or len(estimator.group_names_) < 2 or not frontier.sketch_std:
        return None
    sizes = dict(zip(estimator.group_names_, frontier.sizes.reshape(-1, 2).sum(1).tolist(), strict=True))
    label_rate = float((frontier.sizes[1::2].sum() / frontier.sizes.sum()).clip(0.01, 0.99))
    noise = SurveyNoise.of_frontier(frontier)
    return outlook_warning(
        outlook_of(sizes, noise, parity=frontier.parity, epsilon=privacy.epsilon, label_rate=label_rate)
    )
