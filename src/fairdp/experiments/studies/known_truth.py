"""Certificates on populations whose true rates are known: the synthetic one, and records that play a population."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fairdp.certify.certificate import Certificate, certify
from fairdp.certify.gaps import gap_bound
from fairdp.certify.pairs import truth_rejected
from fairdp.certify.release import arms_of, release_counts, small
from fairdp.config.certificate import CERTIFIABLE, METRICS, levels_of
from fairdp.data.synthetic import SyntheticPopulation, synthetic_population
from fairdp.experiments.studies.simulation import random_below
from fairdp.metrics.rates import decision_counts, group_rates

FAILURE_PROBABILITY = 0.05
CONFIDENCE = 1 - FAILURE_PROBABILITY
# Bounds that equal the truth up to rounding are no violations.
_ROUNDING = 1e-12

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Truth:
    """True rates by group, of each kind: ``positive``, ``true_positive`` and ``false_positive``."""

    rates: Mapping[str, Floats]

    def gaps(self) -> dict[str, float]:
        """True gap of every metric."""
        return {
            metric: max(float(np.ptp(self.rates[kind])) for kind in CERTIFIABLE[metric].rates) for metric in METRICS
        }

    def violated(self, certificate: Certificate) -> list[str]:
        """Claims of a certificate that are false."""
        wrong = [name for name, gap in self.gaps().items() if certificate.gaps[name].tau < gap - _ROUNDING]
        ratio = float(self.rates["positive"].min() / self.rates["positive"].max())
        claimed = certificate.gaps["demographic_parity"].ratio
        return [*wrong, "ratio"] if claimed is not None and claimed > ratio + _ROUNDING else wrong


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Certificates of a fixed linear rule on samples of the synthetic population.

    Parameters
    ----------
    offset
        Decisions are 1[x₁ + 0.3 x₂ ≥ offset]: the larger, the rarer is a positive one.
    n_runs
        How many samples are drawn.
    """

    n_groups: int
    n_samples: int
    epsilon: float
    offset: float
    n_runs: int

    @property
    def population(self) -> SyntheticPopulation:
        """Where the samples come from."""
        return synthetic_population(n_groups=self.n_groups)

    @property
    def expected_sizes(self) -> tuple[float, ...]:
        """Expected records of each group, which are public."""
        return tuple(self.n_samples * share for share in self.population.group_shares)

    def truth(self) -> Truth:
        """True rates of the rule."""
        return _truth(self.n_groups, self.offset)

    def counts(self, rng: np.random.Generator) -> Counts:
        """Counts of one sample, without noise."""
        data = self.population.sample(self.n_samples, rng)
        decisions = (data.X @ _weights(data.X.shape[1]) >= self.offset).astype(np.int64)
        return decision_counts(data.y, decisions, data.groups, self.n_groups)


@lru_cache
def _truth(n_groups: int, offset: float) -> Truth:
    population = synthetic_population(n_groups=n_groups)
    rates = population.rates(_weights(population.n_features), -offset)
    return Truth(
        {"positive": rates.selection, "true_positive": rates.true_positive, "false_positive": rates.false_positive}
    )


def _weights(n_features: int) -> Floats:
    weights = np.zeros(n_features)
    weights[:2] = 1.0, 0.3
    return weights


@dataclass(frozen=True, kw_only=True)
class Checked:
    """Certificates, how many of them claim something false, also claim by claim, and how far they lie above it."""

    trials: int
    violations: int
    violations_by_claim: Mapping[str, int]
    true_gaps: Mapping[str, float]
    mean_tau: Mapping[str, float]

    @classmethod
    def of(cls, certificates: Sequence[Certificate], truth: Truth) -> "Checked":
        """Certificates beside the truth."""
        wrong = [truth.violated(certificate) for certificate in certificates]
        return cls(
            trials=len(certificates),
            violations=sum(map(bool, wrong)),
            violations_by_claim={claim: sum(claim in claims for claims in wrong) for claim in (*METRICS, "ratio")},
            true_gaps=truth.gaps(),
            mean_tau={name: float(np.mean([c.gaps[name].tau for c in certificates])) for name in METRICS},
        )


def synthetic_certificates(setting: Setting, rng: np.random.Generator) -> Checked:
    """Certificates for all metrics together."""
    counts = (setting.counts(rng) for _ in range(setting.n_runs))
    certificates = [
        _certificate(c, rng, setting.epsilon, setting.population.group_names, setting.expected_sizes) for c in counts
    ]
    return Checked.of(certificates, setting.truth())


def synthetic_truths(setting: Setting, rng: np.random.Generator) -> int:
    """How often the truth is rejected: a certificate can be wrong only then, and for many groups this is cheaper."""
    return sum(_truth_is_lost(setting, rng) for _ in range(setting.n_runs))


def _truth_is_lost(setting: Setting, rng: np.random.Generator) -> bool:
    """Whether, for any kind of rate, the pair of groups that makes the true gap is bounded wrongly."""
    counts = setting.counts(rng)
    noisy = release_counts(counts, epsilon=setting.epsilon, rand_below=random_below(rng))
    epsilons = (setting.epsilon,) * setting.n_groups
    for kind, level in levels_of(METRICS, FAILURE_PROBABILITY).items():
        rates = setting.truth().rates[kind]
        u, v = int(rates.argmax()), int(rates.argmin())
        arms, exact = arms_of(noisy, kind, epsilons), arms_of(counts, kind, epsilons)
        if small(epsilons, setting.expected_sizes, kind):
            bound = gap_bound([arms[u], arms[v]], failure_probability=level, score_box=True)
            lost = bound.tau < rates[u] - rates[v] - _ROUNDING or bound.ratio > rates[v] / rates[u] + _ROUNDING
        else:
            pair, sizes = (float(rates[u]), float(rates[v])), (exact[u].total, exact[v].total)
            lost = truth_rejected(arms[u], arms[v], pair, sizes, failure_probability=level)
        if lost:
            return True
    return False


@dataclass(frozen=True, kw_only=True)
class FinitePopulation:
    """Records that play a population, as counts per group, label and decision; samples are drawn with replacement."""

    cells: tuple[tuple[tuple[int, ...], ...], ...]
    group_names: tuple[str, ...]
    n_samples: int
    epsilon: float
    n_runs: int

    def truth(self) -> Truth:
        """Rates over all records."""
        return Truth(vars(group_rates(np.array(self.cells))))


def adult_population(*, n_runs: int) -> FinitePopulation:
    """Adult records that a model never saw, with its decisions."""
    # On use: other studies train nothing.
    from fairdp.classifier import FairDPClassifier
    from fairdp.data.catalog import load_dataset

    data = load_dataset("adult")
    model = FairDPClassifier(method="fairdp", epsilon=1.0, group_sizes="public", random_state=0)
    model.fit(data.train.X, data.train.y, sensitive_features=data.train.groups)
    decisions = np.asarray(model.predict(data.test.X)).astype(np.int64)
    counts = decision_counts(data.test.y, decisions, data.test.groups, data.test.n_groups)
    return FinitePopulation(
        cells=tuple(tuple(tuple(row) for row in group) for group in counts.tolist()),
        group_names=data.test.group_names,
        n_samples=3_000,
        epsilon=1.0,
        n_runs=n_runs,
    )


def finite_certificates(population: FinitePopulation, rng: np.random.Generator) -> Checked:
    """Certificates from samples of these records."""
    cells = np.array(population.cells)
    shares = cells / cells.sum()
    expected = tuple(float(share) for share in population.n_samples * shares.sum((1, 2)))
    draws = rng.multinomial(population.n_samples, shares.ravel(), size=population.n_runs).reshape(-1, *cells.shape)
    certificates = [_certificate(c, rng, population.epsilon, population.group_names, expected) for c in draws]
    return Checked.of(certificates, population.truth())


def _certificate(
    counts: Counts, rng: np.random.Generator, epsilon: float, names: tuple[str, ...], expected: tuple[float, ...]
) -> Certificate:
    noisy = release_counts(counts, epsilon=epsilon, rand_below=random_below(rng))
    return certify(noisy, epsilon=epsilon, confidence=CONFIDENCE, group_names=names, expected_sizes=expected)
