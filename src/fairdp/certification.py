"""The certificate of a trained model on records that it has not seen."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field

import numpy as np
from numpy.typing import NDArray

from fairdp import _validate
from fairdp.certify.certificate import Certificate, certify
from fairdp.certify.registration import SMALLEST_EPSILON, Registration
from fairdp.certify.release import release_counts
from fairdp.data.grouped import GroupedData
from fairdp.keys import RandBelow
from fairdp.metrics import decision_counts
from fairdp.predictors import Predictor
from fairdp.training.models import ScoreModel


@dataclass(frozen=True, kw_only=True)
class CertificationSettings:
    """What is fixed about the certificate before training.

    Parameters
    ----------
    fraction
        Share of the records that is held out for the certificate; zero for none.
    target_tau
        A gap that the deployed predictor is diluted to, where the certificate alone does not reach it.
    """

    fraction: float = 0.2
    registration: Registration = field(default_factory=Registration)
    target_tau: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.fraction < 1:
            raise ValueError(f"certify_fraction must be in [0, 1), got {self.fraction!r}.")
        if self.target_tau is not None:
            _validate.in_unit_interval(target_tau=self.target_tau)
        if self.target_tau is not None and self.registration.require_tau is not None:
            raise ValueError(
                f"target_tau={self.target_tau:g} dilutes the model until any bound is met; leave out require_tau."
            )
        if self.registration.n_looks > 1 and self.registration.require_tau is None:
            raise ValueError(f"n_looks={self.registration.n_looks} needs require_tau: the bound that ends training.")

    def reason_for_none(self, *, n_groups: int, epsilon: float) -> str | None:
        """Why no certificate can be made, or None."""
        if not self.fraction:
            return "no records were held out for it (certify_fraction=0)"
        if n_groups < 2:
            return "there is only one group, hence no gap to bound"
        if np.isinf(epsilon):
            return "it is made from noisy counts, and epsilon=inf asks for no noise"
        if epsilon < SMALLEST_EPSILON:
            return f"at an epsilon below {SMALLEST_EPSILON} only noise would be counted"
        return None


def count_decisions(
    model: ScoreModel, predictor: Predictor, batches: Iterable[GroupedData], n_groups: int, coin_key: bytes
) -> NDArray[np.int64]:
    """Records per group, label and decision, exactly: still private.

    Each record has a coin of its own, even where two are equal: that is what makes the counts binomial. Unlike the
    predictor's, the key of these coins stays secret: with a known key, the removal of one record would be seen in the
    coins of all that come after it.
    """
    coins = np.random.default_rng(int.from_bytes(coin_key, "little"))
    counts = np.zeros((n_groups, 2, 2), dtype=np.int64)
    for batch in batches:
        decisions = (coins.random(batch.n_samples) < predictor.chances(model, batch.X, groups=batch.groups)).astype(
            np.int64
        )
        counts += decision_counts(batch.y, decisions, batch.groups, n_groups)
    return counts


def release_certificate(
    counts: NDArray[np.int64],
    *,
    group_names: tuple[str, ...],
    registration: Registration,
    epsilons: tuple[float, ...],
    expected_sizes: tuple[float, ...],
    rand_below: RandBelow,
) -> Certificate:
    """Add noise to the counts of one look and bound the gaps.

    Parameters
    ----------
    counts
        Decisions on records that neither training nor an earlier certificate has seen.
    epsilons
        Pure ε that a record of each group may spend over all the looks that were registered.
    """
    own = tuple(epsilon / registration.n_looks for epsilon in epsilons)
    return certify(
        release_counts(counts, epsilon=own, rand_below=rand_below),
        epsilon=epsilons,
        group_names=group_names,
        expected_sizes=expected_sizes,
        **asdict(registration),
    )
