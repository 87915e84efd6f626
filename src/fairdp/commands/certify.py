"""`fairdp certify`: a new certificate of a saved model on fresh records, each of which is looked at once."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import fisher_exact

from fairdp import _checks
from fairdp.accounting.mechanisms import PrivacyBudget
from fairdp.certify.certificate import FRESH, SIZES, Certificate, NotCertified
from fairdp.certify.record import certificate_record
from fairdp.classifier import FairDPClassifier
from fairdp.commands.saved_models import load_for_dataset, load_saved
from fairdp.config.certificate import SMALLEST_EPSILON
from fairdp.config.preregistration import Preregistration
from fairdp.data.grouped import GroupedData
from fairdp.data.tables import encoded_batches
from fairdp.randomness import Generators
from fairdp.run.certifying import count_decisions, release_certificate
from fairdp.run.hold_out import noisy_sizes
from fairdp.saved.used_records import TRAINING, Register, fingerprints, read_register, register_path, write_register

# Chance that fresh records are refused although no more of them equal used ones than happens by chance.
_FALSE_REFUSAL = 1e-9
# Share of used records with an equal one, above which equality tells little.
_TELLABLE = 0.2


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


def run_certify(task: CertifyTask) -> dict[str, Any]:
    """Count, check that the records are fresh, note that they are used, and only then release."""
    start = time.perf_counter()
    _checks.finite_positive(epsilon=task.epsilon)
    PrivacyBudget(epsilon=task.epsilon, delta=1e-5)
    if task.epsilon < SMALLEST_EPSILON:
        raise ValueError(f"epsilon must be at least {SMALLEST_EPSILON} for a certificate, got {task.epsilon!r}.")
    estimator, batches = _fresh_records(task)
    if len(estimator.group_names_) < 2:
        raise ValueError(f"the model in {str(task.folder)!r} knows one group only, hence no gap to certify.")
    path = register_path(task.folder)
    digest = estimator.score_model_.digest()
    register = (read_register(path) or Register.new()).of_model(digest)
    seen = _Seen(batches, register.key)
    generators, n_groups = Generators.of(task.seed), len(estimator.group_names_)
    counts = count_decisions(estimator.score_model_, estimator.predictor_, seen, n_groups, generators.key("coins"))
    fresh = seen.fingerprints()
    tellable = task.allow_equal or refuse_used(register, fresh)
    knows_training = TRAINING in register.uses
    about = {"model_sha256": digest, "assumed": _assumed(task, knows_training)}
    certificate = _certificate(task, estimator, counts, generators, about)
    # Noted before anything is released: an interruption in between costs a look, never a look for free.
    number = 1 + sum(name != TRAINING for name in register.uses)
    write_register(path, register.with_use(f"certificate {number}", fresh))
    estimator.certificate_ = certificate
    estimator.save(task.folder)
    return {
        "method": estimator.method,
        "n_certify": int(counts.sum()),
        "certificate": certificate_record(estimator.certificate_),
        "warnings": list(_warnings(path, knows_training, tellable)),
        "seconds": {"certify": time.perf_counter() - start},
        "out": str(task.folder),
    }


def refuse_used(register: Register, fresh: NDArray[np.uint64]) -> bool:
    """Refuse records of which more equal used ones than happens by chance.

    By chance a fresh record equals a used one about as often as a used one equals another. Where that is often, nothing
    can be told but that the very same records come again; returns whether more could be told.
    """
    for name, used in register.uses.items():
        if len(fresh) and np.array_equal(np.sort(fresh), used):
            raise _used_before(len(fresh), len(fresh), name)
    known = np.sort(np.concatenate([np.empty(0, dtype=np.uint64), *register.uses.values()]))
    repeats = known[1:] == known[:-1]
    twins = int((np.append(repeats, False) | np.append(False, repeats)).sum()) if len(known) else 0
    for name, equal in register.used(fresh).items():
        table = np.array([[equal, len(fresh) - equal], [twins, len(known) - twins]])
        if equal and fisher_exact(table, alternative="greater").pvalue < _FALSE_REFUSAL:
            raise _used_before(equal, len(fresh), name)
    return twins <= _TELLABLE * len(known)


def _used_before(equal: int, n_records: int, use: str) -> ValueError:
    return ValueError(
        f"{equal} of {n_records} records were used before ({use}), so they cannot certify the model; give records that "
        "it has not seen, or add --allow-equal if they are other people with equal values."
    )


class _Seen:
    """Batches that leave their fingerprints as they pass."""

    def __init__(self, batches: Iterable[GroupedData], key: bytes) -> None:
        self._batches, self._key = batches, key
        self._found: list[NDArray[np.uint64]] = []

    def __iter__(self) -> Iterator[GroupedData]:
        for batch in self._batches:
            self._found.append(fingerprints(batch, self._key))
            yield batch

    def fingerprints(self) -> NDArray[np.uint64]:
        return np.concatenate(self._found)


def _fresh_records(task: CertifyTask) -> tuple[FairDPClassifier, Iterable[GroupedData]]:
    if (task.table is None) == (task.dataset is None):
        raise ValueError("give either TABLE or --dataset to certify on.")
    if task.dataset is not None:
        estimator, test = load_for_dataset(task.folder, task.dataset)
        return estimator, [test]
    assert task.table is not None
    estimator, schema = load_saved(task.folder)
    return estimator, encoded_batches(task.table, schema)


def _certificate(
    task: CertifyTask,
    estimator: FairDPClassifier,
    counts: NDArray[np.int64],
    generators: Generators,
    about: dict[str, Any],
) -> Certificate:
    earlier = [*_earlier(estimator.certificate_)]
    # The difference of two releases with the same noise is exact: a seed that is used again must not repeat it.
    purpose = f"certificate {len(earlier) + 1}"
    names, private = estimator.group_names_, estimator.privacy_.group_sizes == "private"
    sizes, spent = noisy_sizes(
        counts.sum((1, 2)),
        private=private,
        epsilon=task.epsilon,
        count_noise=generators.below(f"{purpose}, group sizes {counts.sum((1, 2)).tolist()} at {task.epsilon}"),
    )
    certificate = release_certificate(
        counts,
        group_names=names,
        registration=task.registration,
        epsilons=(task.epsilon - spent,) * len(names),
        expected_sizes=sizes,
        rand_below=generators.below(f"{purpose}, counts {counts.tolist()} at {task.epsilon}"),
    )
    about = {
        **about,
        "predictor": estimator.predictor_.described(),
        "smoothing": estimator.score_model_.described_smoothing(),
        "records": FRESH,
        "sizes": SIZES[private],
        "sizes_epsilon": spent,
        "noise_seeded": generators.seeded,
        "earlier": earlier,
    }
    capped = certificate.capped(estimator.predictor_.input_agnostic_tau(estimator.score_model_))
    return replace(capped, about=about)


def _warnings(path: Path, knows_training: bool, tellable: bool) -> Iterator[str]:
    """For the data holder's eyes: how often values are equal is no noisy count, so the certificate does not say it."""
    if not knows_training:
        yield f"no register {str(path)!r} of the training records: whether any are among these is not known."
    if not tellable:
        yield "too many people have equal values to tell whether these records were used before."


def _assumed(task: CertifyTask, knows_training: bool) -> list[str]:
    """What the data holder vouches for, because it was not or could not be checked; nothing that depends on records."""
    assumed = [
        "none of these records was used for the model or an earlier certificate, as far as equal values can tell"
    ]
    if not knows_training:
        assumed = [
            "none of these records was used for the model or an earlier certificate; no register was there to ask"
        ]
    if task.dataset is not None:
        assumed.append("nothing was chosen by its test records; the defaults of fairdp were, with them in view")
    if task.allow_equal:
        assumed.append("records that equal used ones are other people; the check was switched off")
    return assumed


def _earlier(certificate: Certificate | NotCertified) -> Iterator[dict[str, Any]]:
    """What earlier certificates of the model claimed, oldest first: picking the best of several would void them."""
    if isinstance(certificate, Certificate):
        yield from certificate.about.get("earlier", [])
        taus = {name: gap.tau for name, gap in certificate.gaps.items()}
        yield {"confidence": certificate.confidence, "epsilon": certificate.epsilon, "tau": taus}
