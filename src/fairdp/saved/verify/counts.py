r"""Whether the counts of a certificate can come from groups of the recorded sizes.

A record is held out by its own coin, and what is counted gets the noise that is recorded. So the counts of a true
folder lie in intervals that all hold with probability at least :math:`1 - 10^{-9}`; counts outside were not made by
such a run.
"""

import math
from dataclasses import dataclass

from fairdp.accounting.spent import PrivacySpent
from fairdp.certify.origin import FreshRecords, NoisyCounts
from fairdp.certify.record import CertificateRecord
from fairdp.config.defaults import SMALLEST_BATCH
from fairdp.saved.verify.check import Check, Recorded

# Chance that a true folder is refused.
FALSE_REFUSAL = 1e-9
# Of each group: the split, the noise on up to two sizes, on the sum of its four counts, and on each of them; and on the
# sums of both labels, of their decisions and of their scores.
_EVENTS = 1 + 2 + 1 + 4 + 2 * 2


@dataclass(frozen=True)
class Interval:
    """Where a number lies."""

    low: float
    high: float

    def widened(self, by: float) -> "Interval":
        return Interval(self.low - by, self.high + by)

    def holds(self, number: float) -> bool:
        return self.low <= number <= self.high


def counts_check(recorded: Recorded, certificate: CertificateRecord) -> Check:
    """That the counts of every group, at every look, are such as its size, its share and the noise explain."""
    log, wrong = log_of_refusal(certificate), []
    for index, name in enumerate(certificate.group_names):
        epsilon = epsilon_of_a_look(certificate, name)
        size = _counted(recorded, certificate, index, log)
        every = Interval(0.0, size.high).widened(laplace_reach(epsilon, 1, log))
        for look in looks_of(certificate):
            counts = [count for row in look[index] for count in row]
            together = size.widened(laplace_reach(epsilon, len(counts), log))
            if not (together.holds(sum(counts)) and all(map(every.holds, counts))):
                wrong.append(f"{name}: {counts}, which add up to {sum(counts)}")
    found = "; ".join(wrong) + " cannot come from the recorded sizes" if wrong else "such as the recorded sizes explain"
    return Check("certificate's counts", not wrong, f"{found}.")


def log_of_refusal(certificate: CertificateRecord) -> float:
    """Logarithm of one over the chance that each interval has to be missed by a true folder."""
    # The best of several trials, or a look that ended training, is one of several draws that might have been kept.
    draws = certificate.n_looks * certificate.expected_trials
    return math.log(2 * _EVENTS * len(certificate.group_names) * draws / FALSE_REFUSAL)


def epsilon_of_a_look(certificate: CertificateRecord, group: str) -> float:
    """What a record of a group spends on each look: its epsilon without the share that is kept for scores."""
    epsilon = certificate.epsilon_by_group[group]
    return (epsilon - certificate.score_share * epsilon) / certificate.n_looks


def looks_of(certificate: CertificateRecord) -> list[NoisyCounts]:
    """The counts of all looks that a certificate tells of."""
    records = certificate.about.records
    if isinstance(records, FreshRecords):
        return [certificate.counts]
    return [*records.met, certificate.counts, *([] if records.missed is None else [records.missed])]


def _counted(recorded: Recorded, certificate: CertificateRecord, index: int, log: float) -> Interval:
    """How many records of a group can have been counted."""
    records, privacy = certificate.about.records, recorded.privacy
    if isinstance(records, FreshRecords):
        return _around([certificate.expected_sizes[index]], epsilon=records.sizes_epsilon, std=0.0, log=log)
    if privacy.group_sizes == "declared":
        # Declared by the user, who may be wrong.
        return Interval(0.0, math.inf)
    sizes = [privacy.planned_sizes[cell] for cell in recorded.cells_of(certificate.group_names[index])]
    epsilon, std = privacy.counts_epsilon, _deviation(privacy)
    fraction = privacy.certify_fraction
    if not epsilon and not std:
        total = math.fsum(sizes) / (1 - fraction)
        return held_out_of(Interval(total, total), fraction, log)
    trained = _around(sizes, epsilon=epsilon, std=std, log=log)
    return held_out_of(split_from(trained, fraction, log), fraction, log)


def _deviation(privacy: PrivacySpent) -> float:
    """Deviation of Gaussian noise on group sizes, where there is such noise."""
    recorded = (getattr(mechanism, "counts_std", 0.0) for mechanism in privacy.mechanisms.values())
    return max(getattr(privacy, "counts_std", 0.0), *recorded)


def _around(sizes: list[float], *, epsilon: float, std: float, log: float) -> Interval:
    """The true number behind noisy sizes; those that were raised to be large enough for a plan say less."""
    reach = laplace_reach(epsilon, 1, log) if epsilon else std * math.sqrt(2 * log)
    deviation = math.sqrt(2) / epsilon if epsilon else std
    if not reach:
        return Interval(math.fsum(sizes), math.fsum(sizes))
    least = max(2 * deviation, float(SMALLEST_BATCH))
    return Interval(
        math.fsum(max(0.0, size - reach) for size in sizes if size > least), math.fsum(size + reach for size in sizes)
    )


def laplace_reach(epsilon: float, n_terms: int, log: float) -> float:
    r"""How far the sum of independent discrete Laplace draws is from zero, but for a chance of :math:`2 e^{-\ell}`.

    A draw has :math:`E e^{\lambda X} = (\cosh\varepsilon - 1) / (\cosh\varepsilon - \cosh\lambda) \le
    1 / (1 - \lambda^2/\varepsilon^2)`, because :math:`(\cosh x - 1) / x^2` grows. With
    :math:`\lambda = .8\,\varepsilon` and Markov's inequality the sum of m draws exceeds
    :math:`(\ell - m \ln .36) / (.8\,\varepsilon)` with probability at most :math:`e^{-\ell}`, on either side.
    """
    return (log - n_terms * math.log(0.36)) / (0.8 * epsilon)


def split_reach(n_records: float, fraction: float, log: float) -> float:
    r"""How far a binomial number is from its mean, but for a chance of :math:`2 e^{-\ell}`.

    Bernstein (1946): :math:`t = \ell/3 + \sqrt{\ell^2/9 + 2 n \rho (1 - \rho) \ell}`.
    """
    return log / 3 + math.sqrt(log**2 / 9 + 2 * n_records * fraction * (1 - fraction) * log)


def split_from(trained: Interval, fraction: float, log: float) -> Interval:
    r"""All records of a group, from how many of them were not held out.

    With :math:`c = 1 - \rho` and :math:`t(n)` of `split_reach`, :math:`c\,n - t(n) \le T \le c\,n + t(n)`; both sides
    are solved for n, where the square root is one root of a quadratic.
    """
    rest, drift = 1 - fraction, fraction * log
    high = drift + math.sqrt(drift**2 + log**2 / 9 + 2 * drift * (log / 3 + trained.high))
    inner = drift**2 + log**2 / 9 + 2 * drift * (trained.low - log / 3)
    low = -drift + math.sqrt(inner) if inner > 0 else math.inf
    return Interval(max(0.0, (trained.low - log / 3 - low) / rest), (high + log / 3 + trained.high) / rest)


def held_out_of(total: Interval, fraction: float, log: float) -> Interval:
    """How many of a group are held out: the mean, as far as the same coins can be from it."""
    low = fraction * total.low - split_reach(total.low, fraction, log)
    return Interval(max(0.0, low), fraction * total.high + split_reach(total.high, fraction, log))
