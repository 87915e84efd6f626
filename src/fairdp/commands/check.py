"""`fairdp certify`, a new certificate of a saved model on fresh records, each used only once; and `fairdp ledger`."""

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fairdp._io import claimed, content_of, from_plain, parsed_json, restore, to_plain
from fairdp.accounting.mechanisms import PrivacyBudget
from fairdp.accounting.plan import FRESH_SIZES_SHARE, SizesNoise
from fairdp.accounting.spent import NOISY, PUBLIC, PUBLISHED, LedgerNote
from fairdp.certify.certificate import (
    EQUAL_ALLOWED,
    NOT_CHOSEN_BY_TEST,
    UNUSED,
    UNUSED_UNCHECKED,
    Certificate,
    EarlierCertificate,
    FreshRecords,
    NotCertified,
    Origin,
    release_scores,
    share_of_alpha,
)
from fairdp.classifier import FairDPClassifier
from fairdp.cli.terminal import say_cell_issues, say_spent
from fairdp.config import Preregistration
from fairdp.data.columns import CellIssues, OnIssue, counts_by_column
from fairdp.data.grouped import GroupedData
from fairdp.data.schema import PLAIN, TableFormat
from fairdp.data.tables import encoded_batches
from fairdp.errors import DataError, InputError, ParameterError, SavedModelError, finite_positive
from fairdp.ledger.costs import Total, pure_cost
from fairdp.ledger.ledger import Ledger, Receipt, Spending
from fairdp.ledger.store import Entry, Limit, record_total, table_total
from fairdp.parameters import SMALLEST_EPSILON
from fairdp.randomness import Generators
from fairdp.records import load_for_dataset, load_saved
from fairdp.run.certifying import ScoreTally, count_decisions, release_certificate
from fairdp.run.holdout import counted_sizes
from fairdp.saved.folder import certificate_record, check_place, is_signed, write_model
from fairdp.statements.certificate import certificate_statement


@dataclass(frozen=True, kw_only=True)
class CertifyTask:
    """One call of `fairdp certify`."""

    folder: Path
    table: Path | None
    dataset: str | None
    epsilon: float
    registration: Preregistration
    allow_equal: bool
    seed: int | None
    ledger: Path | None = None
    budget: float | None = None
    of: int | None = None
    written: TableFormat = PLAIN


@dataclass(frozen=True, kw_only=True)
class CertificateReport:
    """The claims of a new certificate, and warnings; ``treated`` is about cells of the table, for its holder."""

    method: str
    positive: str
    n_certify: int
    certificate: Certificate
    warnings: tuple[str, ...]
    seconds: dict[str, float]
    out: str
    ledger: dict[str, object] | None
    treated: Mapping[str, Mapping[str, int]]

    @property
    def certificate_statement(self) -> str:
        """The certificate in words."""
        return certificate_statement(self.certificate)

    def to_json(self) -> dict[str, object]:
        """Plain values under the names users see."""
        return {**to_plain(self), "certificate": certificate_record(self.certificate)}


def run_certify(task: CertifyTask) -> CertificateReport:
    """Count, let the ledger check that the records are fresh and note that they are used, and only then release."""
    start = time.perf_counter()
    finite_positive(epsilon=task.epsilon)
    PrivacyBudget(epsilon=task.epsilon, delta=1e-5)
    if task.epsilon < SMALLEST_EPSILON:
        raise ParameterError("epsilon", task.epsilon, f"must be at least {SMALLEST_EPSILON} for a certificate")
    if task.of is not None and (task.ledger is None or task.table is None):
        raise ParameterError("of", task.of, "needs a table of your own and a ledger, which keeps count")
    path = None if task.table is None else task.ledger
    restore(task.folder)
    place = claimed(task.folder) if task.folder.is_dir() else nullcontext()
    with place, Spending(path, command="certify", budget=task.budget) as spending:
        return _run_certify(task, spending, start)


def _run_certify(task: CertifyTask, spending: Spending, start: float) -> CertificateReport:
    issues: list[CellIssues] = []
    estimator, batches = _fresh_records(task, spending, issues.append)
    # What could not be written afterwards is refused before anything is spent.
    check_place(task.folder, overwrite=True)
    signed = is_signed(task.folder)
    if len(estimator.group_names_) < 2:
        raise SavedModelError(f"the model in {str(task.folder)!r} knows only one group, so there is no gap to certify.")
    digest = estimator.score_model_.digest()
    # A ledger that does not know the model is noticed before any of its records is looked at.
    must_know = not task.allow_equal or (task.of is not None and estimator.privacy_.ledger is not None)
    model = spending.model_of(estimator.privacy_, digest, must_know=must_know)
    generators, n_groups = Generators.of(task.seed), len(estimator.group_names_)
    score_model, tally = estimator.score_model_, ScoreTally(estimator.score_model_, n_groups)
    passing, coins = tally.passing(batches), generators.key("coins")
    counts = count_decisions(score_model, estimator.predictor_, passing, n_groups, coins)
    say_cell_issues(issues)
    # Recorded before anything is released: an interruption in between can waste a look but never gives a free one.
    spending.charge_all()
    checked, entries = spending.knows_used(model), spending.used_by(model)
    if model in map(str, entries) and len(entries) - 1 < _n_fresh(estimator):
        # Restored from an older copy, or others were made in another ledger: their records would pass as fresh, and
        # their places in a series would be given again.
        if not task.allow_equal or task.of is not None:
            remedy = "" if task.of is not None else ", or add `allow_equal`"
            raise DataError(
                f"the ledger has fewer certificates of the model than {str(task.folder)!r}, so it cannot tell which "
                f"records they used; use the ledger that has them{remedy}."
            )
        checked = False
    # The name that the model's schema declares for its table, or that of the file.
    declared = (estimator.feature_schema_ or {}).get("table", "")
    entry = spending.pay(
        pure_cost(task.epsilon, estimator.group_names_),
        str(declared) or ("" if task.table is None else task.table.name),
        model=model,
        fresh=not task.allow_equal,
        of=task.of,
    )
    series = None if entry is None or entry.series is None else (entry.series.number, entry.series.of)
    # The data holder vouches for what was not or could not be checked; it depends on no record.
    assumed = (
        UNUSED if checked else UNUSED_UNCHECKED,
        *([] if task.dataset is None else [NOT_CHOSEN_BY_TEST]),
        *([EQUAL_ALLOWED] if task.allow_equal else []),
    )
    certificate = _certificate(task, estimator, counts, tally.counts, generators, assumed, series)
    ledger = spending.later(estimator.privacy_.ledger)
    estimator.release(certificate=certificate, privacy=replace(estimator.privacy_, ledger=ledger))
    write_model(task.folder, estimator.fitted_)
    note = spending.note()
    say_spent(spending)
    folder, warnings = str(task.folder), []
    if not checked:
        warnings.append(
            "no ledger could tell whether the model has used any of these records; the certificate says so."
        )
    if signed:
        warnings.append(
            f"the signature of {folder!r} was about the earlier certificate and is gone; run fairdp sign again."
        )
    return CertificateReport(
        method=estimator.method,
        positive=str(estimator.classes_[1]),
        n_certify=int(counts.sum()),
        certificate=estimator.certificate_,
        warnings=tuple(warnings),
        seconds={"certify": time.perf_counter() - start},
        out=folder,
        ledger=None if note is None else note.to_json(),
        treated=counts_by_column(issues),
    )


def _n_fresh(estimator: FairDPClassifier) -> int:
    """Number of certificates on fresh records that the model had: all but that of its fit."""
    made = len(_earlier(estimator.certificate_))
    return made - 1 if made and estimator.privacy_.certify_epsilons else made


def _fresh_records(
    task: CertifyTask, spending: Spending, on_issue: OnIssue
) -> tuple[FairDPClassifier, Iterable[GroupedData]]:
    if (task.table is None) == (task.dataset is None):
        raise InputError("give either TABLE or `dataset` to certify on.")
    if task.dataset is not None:
        estimator, test = load_for_dataset(task.folder, task.dataset)
        return estimator, [test]
    assert task.table is not None
    estimator, schema = load_saved(task.folder, task.written)
    return estimator, encoded_batches(task.table, schema, observe=spending.observe, on_issue=on_issue)


def _certificate(
    task: CertifyTask,
    estimator: FairDPClassifier,
    counts: NDArray[np.int64],
    scores: NDArray[np.int64],
    generators: Generators,
    assumed: tuple[str, ...],
    series: tuple[int, int] | None,
) -> Certificate:
    earlier = _earlier(estimator.certificate_)
    # The difference of two releases with the same noise is exact: a reused seed must not repeat the noise.
    purpose = f"certificate {len(earlier) + 1}"
    names, sizes = estimator.group_names_, counts.sum((1, 2))
    # Anyone may know how many fresh records there are only if all sizes are public; declared ones are of another table.
    privacy = estimator.privacy_
    others = task.dataset is None and PUBLISHED in privacy.public_assumptions
    group_sizes = PUBLIC if privacy.group_sizes == PUBLIC and not others else NOISY
    spent = FRESH_SIZES_SHARE * task.epsilon if group_sizes == NOISY else 0.0
    if spent:
        count_noise = generators.below(f"{purpose}, group sizes {sizes.tolist()} at {task.epsilon}")
        sizes = np.maximum(counted_sizes(sizes, SizesNoise(epsilon=spent), count_noise), 1)
    certificate = release_certificate(
        counts,
        group_names=names,
        registration=_in_series(task.registration, series),
        epsilons=(task.epsilon - spent,) * len(names),
        expected_sizes=tuple(float(size) for size in sizes),
        rand_below=generators.below(f"{purpose}, counts {counts.tolist()} at {task.epsilon}"),
    )
    shares = certificate.registration.for_scores(certificate.epsilons)
    score_noise = generators.below(f"{purpose}, scores {scores.tolist()} at {task.epsilon}")
    about = Origin(
        model_sha256=estimator.score_model_.digest(),
        predictor=estimator.predictor_.described(),
        smoothing=estimator.score_model_.described_smoothing(),
        records=FreshRecords(
            group_sizes=group_sizes, sizes_epsilon=spent, earlier=earlier, assumed=assumed, series=series
        ),
        noise_seeded=generators.seeded,
    )
    capped = certificate.capped(estimator.predictor_.input_agnostic_tau(estimator.score_model_))
    return replace(capped, about=about, scores=release_scores(scores, epsilons=shares, rand_below=score_noise))


def _in_series(registration: Preregistration, series: tuple[int, int] | None) -> Preregistration:
    """With the part of the failure probability that a certificate of a series spends."""
    if series is None:
        return registration
    return replace(registration, confidence=1 - (1 - registration.confidence) * share_of_alpha(*series))


def _earlier(certificate: Certificate | NotCertified) -> tuple[EarlierCertificate, ...]:
    """Claims of earlier certificates of the model, oldest first."""
    if isinstance(certificate, NotCertified):
        return ()
    taus = {name: gap.tau for name, gap in certificate.gaps.items()}
    last = EarlierCertificate(confidence=certificate.confidence, epsilon=certificate.epsilon, tau=taus)
    return (*(() if certificate.about is None else certificate.about.earlier), last)


@dataclass(frozen=True, kw_only=True)
class LedgerReport:
    """The entries of a ledger, and what they add up to.

    ``total`` is that of the record that has spent most, found by comparing records, for the data holder's eyes only;
    ``tables`` has what may be published, by the declared names alone.
    """

    path: str
    entries: tuple[Entry, ...]
    total: Total
    tables: dict[str, Total]
    limits: dict[str, Limit]

    def to_json(self) -> dict[str, object]:
        """Plain values under the names users see."""
        return {
            "ledger": self.path,
            "entries": [
                {
                    "entry": entry.number,
                    "command": entry.command,
                    "state": entry.state,
                    "table": entry.table,
                    "when": entry.when,
                    "epsilon": entry.cost.epsilon,
                    "delta": entry.cost.delta,
                    "n_records": max((view.n_records for view in entry.views.values()), default=None),
                    "mechanisms": to_plain(entry.cost.by_group),
                    "shares_records_with": sorted({number for history in entry.histories for number in history}),
                    "series": None if entry.series is None else to_plain(entry.series),
                }
                for entry in self.entries
            ],
            "total": to_plain(self.total),
            "tables": to_plain(self.tables),
            "limits": to_plain(self.limits),
        }


def list_ledger(path: Path, *, table: str | None = None) -> LedgerReport:
    """All entries, or those of one table, with their totals; a ledger that is not there yet holds nothing."""
    entries: Sequence[Entry] = ()
    limits: dict[str, Limit] = {}
    if path.exists():
        with Ledger(path) as ledger:
            entries, limits = ledger.entries(), ledger.limits()
    if table is not None:
        if table not in {entry.table for entry in entries}:
            raise DataError(f"ledger {str(path)!r} has no entry of table {table!r}.")
        entries = [entry for entry in entries if entry.table == table]
    names = dict.fromkeys(entry.table for entry in entries)
    return LedgerReport(
        path=str(path),
        entries=tuple(entries),
        total=record_total(entries),
        tables={name: table_total(entries, name) for name in names},
        limits={name: limit for name, limit in limits.items() if table in (None, name)},
    )


def set_limit(path: Path, limit: Limit) -> bool:
    """Put a limit in force; whether the ledger has an entry of its table, whose name may be mistyped otherwise."""
    with Ledger(path) as ledger:
        ledger.set_limit(limit)
        return any(entry.table == limit.table for entry in ledger.entries())


def check_ledger(path: Path, folders: Iterable[Path]) -> int:
    """Check a ledger, and that it has the entries of these model folders; the number of its entries."""
    if not path.exists():
        raise DataError(f"there is no ledger {str(path)!r}; name another with `ledger`.")
    with Ledger(path) as ledger:
        n_entries = ledger.check()
        for folder in folders:
            # Without the model, which nobody needs here.
            try:
                note = from_plain(LedgerNote, parsed_json(content_of(folder / "privacy.json"))["ledger"])
            except (OSError, ValueError, LookupError, TypeError):
                raise SavedModelError(
                    f"{str(folder)!r} names no entry of a ledger: it is no saved model, or none was kept."
                ) from None
            ledger.entry_of(Receipt(entry=note.entry, token=note.token))
    return n_entries
