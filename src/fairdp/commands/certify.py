"""`fairdp certify`: a new certificate of a saved model on fresh records, each used only once."""

import time
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fairdp import _checks
from fairdp._checks import DataError, InputError, ParameterError, SavedModelError
from fairdp._files import to_plain
from fairdp._folders import restore
from fairdp.accounting.account import FRESH_SIZES_SHARE, SizesNoise
from fairdp.accounting.mechanisms import PrivacyBudget
from fairdp.accounting.spent import PrivacySpent
from fairdp.accounting.words import NOISY, PUBLIC, PUBLISHED
from fairdp.certify.certificate import Certificate, NotCertified
from fairdp.certify.origin import (
    EQUAL_ALLOWED,
    NOT_CHOSEN_BY_TEST,
    UNUSED,
    UNUSED_UNCHECKED,
    EarlierCertificate,
    FreshRecords,
    Origin,
    share_of_alpha,
)
from fairdp.certify.record import certificate_record
from fairdp.certify.scores import release_scores
from fairdp.certify.statement import certificate_statement
from fairdp.classifier import FairDPClassifier
from fairdp.commands.progress import say_spent
from fairdp.commands.saved_models import load_for_dataset, load_saved
from fairdp.config.certificate import SMALLEST_EPSILON
from fairdp.config.preregistration import Preregistration
from fairdp.data.formats import PLAIN, TableFormat
from fairdp.data.grouped import GroupedData
from fairdp.data.tables import encoded_batches
from fairdp.ledger.costs import pure_cost
from fairdp.ledger.spending import Spending
from fairdp.randomness import Generators
from fairdp.run.certifying import ScoreTally, count_decisions, release_certificate
from fairdp.run.hold_out import counted_sizes
from fairdp.saved.fitted import saved_form
from fairdp.saved.folder import is_signed, write_model
from fairdp.saved.place import check_place, place_of_model
from fairdp.saved.used_records import (
    TRAINING,
    PassingRecords,
    UsedRecords,
    read_used_records,
    used_records_path,
    write_used_records,
)


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
    """What a new certificate claims, and the warnings."""

    method: str
    n_certify: int
    certificate: Certificate
    warnings: tuple[str, ...]
    seconds: dict[str, float]
    out: str
    ledger: dict[str, object] | None = None

    @property
    def certificate_statement(self) -> str:
        """The certificate in words."""
        return certificate_statement(self.certificate)

    def to_json(self) -> dict[str, object]:
        """Plain values under the names users see."""
        return {**to_plain(self), "certificate": certificate_record(self.certificate)}


def run_certify(task: CertifyTask) -> CertificateReport:
    """Count, check that the records are fresh, note that they are used, and only then release."""
    start = time.perf_counter()
    _checks.finite_positive(epsilon=task.epsilon)
    PrivacyBudget(epsilon=task.epsilon, delta=1e-5)
    if task.epsilon < SMALLEST_EPSILON:
        raise ParameterError("epsilon", task.epsilon, f"must be at least {SMALLEST_EPSILON} for a certificate")
    if task.of is not None and (task.ledger is None or task.table is None):
        raise ParameterError("of", task.of, "needs a table of your own and a ledger, which keeps count")
    path = None if task.table is None else task.ledger
    restore(task.folder)
    place = place_of_model(task.folder) if task.folder.is_dir() else nullcontext()
    with place, Spending(path, command="certify", budget=task.budget) as spending:
        return _run_certify(task, spending, start)


def _run_certify(task: CertifyTask, spending: Spending, start: float) -> CertificateReport:
    estimator, batches = _fresh_records(task, spending)
    # What could not be written afterwards is refused before anything is spent.
    check_place(task.folder, overwrite=True)
    signed = is_signed(task.folder)
    if len(estimator.group_names_) < 2:
        raise SavedModelError(f"the model in {str(task.folder)!r} knows only one group, so there is no gap to certify.")
    digest = estimator.score_model_.digest()
    # A ledger that does not know the model is noticed before any of its records is looked at.
    model = spending.model_of(estimator.privacy_, digest)
    register = _Register(used_records_path(task.folder), digest)
    seen = PassingRecords(batches, register.used.key)
    generators, n_groups = Generators.of(task.seed), len(estimator.group_names_)
    score_model, tally = estimator.score_model_, ScoreTally(estimator.score_model_, n_groups)
    passing, coins = tally.passing(seen), generators.key("coins")
    counts = count_decisions(score_model, estimator.predictor_, passing, n_groups, coins)
    # Recorded before anything is released: an interruption in between can waste a look but never gives a free one.
    series = _pay(task, estimator, spending, register, fresh=seen.fingerprints(), model=model)
    assumed = _assumed(task, register.knows_training)
    estimator.certificate_ = _certificate(task, estimator, counts, tally.counts, generators, assumed, series)
    estimator.privacy_ = replace(estimator.privacy_, ledger=spending.later(estimator.privacy_.ledger))
    write_model(task.folder, saved_form(estimator))
    note = spending.note()
    say_spent(spending)
    return CertificateReport(
        method=estimator.method,
        n_certify=int(counts.sum()),
        certificate=estimator.certificate_,
        warnings=tuple(_warnings(register, task.folder, signed=signed)),
        seconds={"certify": time.perf_counter() - start},
        out=str(task.folder),
        ledger=None if note is None else note.to_json(),
    )


def _pay(
    task: CertifyTask,
    estimator: FairDPClassifier,
    spending: Spending,
    register: "_Register",
    *,
    fresh: NDArray[np.uint64],
    model: str,
) -> tuple[int, int] | None:
    """Refuse used records, and write down that these are used and what they spend; the place in a series, if any."""
    if not task.allow_equal:
        refuse_used(register.used, fresh)
    spending.charge_all()
    entry = spending.pay(
        pure_cost(task.epsilon, estimator.group_names_),
        _table_name(task, estimator),
        model=model,
        fresh=not task.allow_equal,
        of=task.of,
        alongside=lambda: register.add(fresh, allow_equal=task.allow_equal),
    )
    return None if entry is None or entry.series is None else (entry.series.number, entry.series.of)


def _table_name(task: CertifyTask, estimator: FairDPClassifier) -> str:
    """The name that the model's schema declares for its table, or that of the file."""
    declared = (estimator.feature_schema_ or {}).get("table", "")
    return str(declared) or ("" if task.table is None else task.table.name)


class _Register:
    """The records that a model has used, beside its folder."""

    def __init__(self, path: Path, digest: str) -> None:
        self.path, self._digest = path, digest
        self.used = self._read()

    @property
    def knows_training(self) -> bool:
        return TRAINING in self.used.uses

    def add(self, fresh: NDArray[np.uint64], *, allow_equal: bool) -> None:
        """Refuse used records, and note these; read again, because another command may have come first."""
        self.used = self._read(key=self.used.key)
        if not allow_equal:
            refuse_used(self.used, fresh)
        number = 1 + sum(name != TRAINING for name in self.used.uses)
        write_used_records(self.path, self.used.with_use(f"certificate {number}", fresh))

    def _read(self, key: bytes | None = None) -> UsedRecords:
        used = (read_used_records(self.path) or UsedRecords.new()).of_model(self._digest)
        if key is None or used.key == key:
            return used
        if used.uses:
            raise SavedModelError(f"used records {str(self.path)!r} have changed meanwhile; start again.")
        return replace(used, key=key)


def refuse_used(used: UsedRecords, fresh: NDArray[np.uint64]) -> None:
    """Refuse records if a single one equals a used one: whether it is the same person is not for us to guess."""
    found = {name: equal for name, equal in used.overlaps(fresh).items() if equal}
    if found:
        uses = ", ".join(f"{equal} for {name}" for name, equal in found.items())
        raise DataError(
            f"of {len(fresh)} records some equal records that were used before ({uses}), so they cannot certify the "
            "model; give records that it has not seen, or add `allow_equal` if they are other people with equal values."
        )


def _fresh_records(task: CertifyTask, spending: Spending) -> tuple[FairDPClassifier, Iterable[GroupedData]]:
    if (task.table is None) == (task.dataset is None):
        raise InputError("give either TABLE or `dataset` to certify on.")
    if task.dataset is not None:
        estimator, test = load_for_dataset(task.folder, task.dataset)
        return estimator, [test]
    assert task.table is not None
    estimator, schema = load_saved(task.folder, task.written)
    return estimator, encoded_batches(task.table, schema, observe=spending.observe or (lambda rows: None))


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
    group_sizes = PUBLIC if _sizes_are_public(task, estimator.privacy_) else NOISY
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


def _sizes_are_public(task: CertifyTask, privacy: PrivacySpent) -> bool:
    """Whether anyone may know how many fresh records there are; declared sizes are not those of this table."""
    others = task.dataset is None and PUBLISHED in privacy.public_assumptions
    return privacy.group_sizes == PUBLIC and not others


def _warnings(register: _Register, folder: Path, *, signed: bool) -> Iterator[str]:
    if not register.knows_training:
        yield f"the training records are not listed in {str(register.path)!r}: whether any are among these is unknown."
    if signed:
        yield f"the signature of {str(folder)!r} was about the earlier certificate and is gone; run fairdp sign again."


def _assumed(task: CertifyTask, knows_training: bool) -> tuple[str, ...]:
    """What the data holder vouches for because it was not or could not be checked; it depends on no record."""
    return (
        UNUSED if knows_training else UNUSED_UNCHECKED,
        *([] if task.dataset is None else [NOT_CHOSEN_BY_TEST]),
        *([EQUAL_ALLOWED] if task.allow_equal else []),
    )


def _earlier(certificate: Certificate | NotCertified) -> tuple[EarlierCertificate, ...]:
    """What earlier certificates of the model claimed, oldest first."""
    if isinstance(certificate, NotCertified):
        return ()
    taus = {name: gap.tau for name, gap in certificate.gaps.items()}
    last = EarlierCertificate(confidence=certificate.confidence, epsilon=certificate.epsilon, tau=taus)
    return (*(() if certificate.about is None else certificate.about.earlier), last)
