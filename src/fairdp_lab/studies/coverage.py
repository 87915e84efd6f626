"""Studies of certificates where the truth is known: coverage, slack, and negative controls that must be caught."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import binomtest

from fairdp.certify.bounds import (
    NoisyBinomial,
    arms_of,
    box_upper,
    clopper_pearson_upper,
    conv_upper,
    gap_bound,
    laplace_sum,
    noise_quantile,
    noise_variance,
    pair_bound,
    release_counts,
    small,
    truth_rejected,
)
from fairdp.certify.certificate import Certificate, certify
from fairdp.data.datasets import SyntheticPopulation, synthetic_population
from fairdp.errors import InputError
from fairdp.metrics import decision_counts, group_rates
from fairdp.parameters import CERTIFIABLE, METRICS, levels_of
from fairdp_lab.studies.protocol import (
    Findings,
    Run,
    drawn_arm,
    drawn_counts,
    laplace_noise,
    random_below,
    table,
    typical_arm,
)

FAILURE_PROBABILITY = 0.05
CONFIDENCE = 1 - FAILURE_PROBABILITY
# Bounds that equal the truth up to rounding are no violations.
_ROUNDING = 1e-12
Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
# True rates by group, of each kind: ``positive``, ``true_positive`` and ``false_positive``.
Truth = Mapping[str, Floats]
# Share of each event's failure probability that is spent on the noise of the counts, and on the unknown size.
_BOX_NOISE = 0.2
_CONV_SIZE = 0.1
# So large that the construction knows of no noise.
_NO_NOISE = 20.0
ALPHA = 0.05
N_METRICS = 3
N_GROUPS = 2
N_DRAWS = 200_000
QUICK_DRAWS = 20_000
# A construction that breaks its promise is called caught when keeping it would make so many events this unlikely.
CAUGHT = 1e-6
EPSILONS = (0.1, 0.5, 1.0, 4.0)
# Positive decisions about as frequent as positive labels, and rare ones.
OFFSETS = (0.6, 1.8)


@dataclass(frozen=True)
class Arms:
    """Two or three arms of known sizes and rates."""

    sizes: tuple[int, ...]
    rates: tuple[float, ...]
    epsilon: float
    n_noise_terms: int


# Empty cells, rates of zero and one, one arm far larger than the other, groups of three.
ARMS = (
    Arms((236, 1332), (0.16, 0.20), 1.0, 1),
    Arms((2154, 4358), (0.08, 0.13), 1.0, 2),
    Arms((0, 50), (0.5, 0.5), 1.0, 1),
    Arms((0, 0), (0.0, 1.0), 1.0, 1),
    Arms((0, 300), (1.0, 0.3), 4.0, 1),
    Arms((3, 800), (1.0, 0.0), 0.5, 1),
    Arms((20, 20), (0.0, 1.0), 1.0, 1),
    Arms((200, 200), (1.0, 1.0), 0.5, 2),
    Arms((118, 666), (0.02, 0.01), 0.1, 1),
    Arms((40, 4000), (0.97, 0.9), 4.0, 1),
    Arms((300, 600, 900), (0.1, 0.15, 0.3), 1.0, 1),
    Arms((0, 50, 500), (0.5, 0.2, 0.6), 0.5, 1),
    Arms((20, 20, 20), (0.0, 0.5, 1.0), 4.0, 1),
    Arms((1000, 1500, 2500), (0.02, 0.05, 0.03), 0.1, 2),
)


def check_implication(task: tuple[Arms, float, int], rng: np.random.Generator) -> dict[str, int]:
    """Draw arms at a level so many times, bound them, and compare with the truth.

    Counted are truths that were rejected, bounds that missed the truth, and those that missed one that was not.
    """
    true, level, n_bounds = task
    low, *_, high = (int(i) for i in np.argsort(true.rates, kind="stable"))
    rates = true.rates[high], true.rates[low]
    sizes = true.sizes[high], true.sizes[low]
    rejected, missed = [], []
    for _ in range(n_bounds):
        arms = [
            drawn_arm(rng, size, rate, epsilon=true.epsilon, n_noise_terms=true.n_noise_terms)
            for size, rate in zip(true.sizes, true.rates, strict=True)
        ]
        rejected.append(truth_rejected(arms[high], arms[low], rates, sizes, failure_probability=level))
        difference, ratio = _bounds(arms, high, low, level)
        too_small = difference < rates[0] - rates[1] - 1e-12
        missed.append(too_small or (rates[1] > 0 and ratio < rates[0] / rates[1] - 1e-9))
    broken = sum(miss and not no for miss, no in zip(missed, rejected, strict=True))
    return {"bounds": n_bounds, "rejected": sum(rejected), "missed": sum(missed), "broken": broken}


def _bounds(arms: list[NoisyBinomial], high: int, low: int, failure_probability: float) -> tuple[float, float]:
    """Bounds on the largest difference and the largest quotient of rates."""
    if len(arms) == 2:
        return pair_bound(arms[high], arms[low], failure_probability=failure_probability)
    gap = gap_bound(arms, failure_probability=failure_probability)
    return gap.tau, 1 / gap.ratio if gap.ratio > 0 else np.inf


def true_gaps(rates: Truth) -> dict[str, float]:
    """True gap of every metric."""
    return {metric: max(float(np.ptp(rates[kind])) for kind in CERTIFIABLE[metric].rates) for metric in METRICS}


def violated(certificate: Certificate, rates: Truth) -> list[str]:
    """Claims of a certificate that are false."""
    wrong = [name for name, gap in true_gaps(rates).items() if certificate.gaps[name].tau < gap - _ROUNDING]
    ratio = float(rates["positive"].min() / rates["positive"].max())
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
    return {"positive": rates.selection, "true_positive": rates.true_positive, "false_positive": rates.false_positive}


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
        wrong = [violated(certificate, truth) for certificate in certificates]
        return cls(
            trials=len(certificates),
            violations=sum(map(bool, wrong)),
            violations_by_claim={claim: sum(claim in claims for claims in wrong) for claim in (*METRICS, "ratio")},
            true_gaps=true_gaps(truth),
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
    """Number of rejected truths: a certificate can be wrong only then, and for many groups this is cheaper."""
    return sum(_truth_is_lost(setting, rng) for _ in range(setting.n_runs))


def _truth_is_lost(setting: Setting, rng: np.random.Generator) -> bool:
    """True if, for any kind of rate, the pair of groups that makes the true gap is bounded wrongly."""
    counts = setting.counts(rng)
    noisy = release_counts(counts, epsilon=setting.epsilon, rand_below=random_below(rng))
    epsilons = (setting.epsilon,) * setting.n_groups
    for kind, level in levels_of(METRICS, FAILURE_PROBABILITY).items():
        rates = setting.truth()[kind]
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
        return group_rates(np.array(self.cells))


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


def box_gap(first: NoisyBinomial, second: NoisyBinomial, *, event_failure: float) -> float:
    """Larger difference of an upper and a lower bound, with counts at the unfavourable end of their noise."""

    def upper(arm: NoisyBinomial) -> float:
        return box_upper(
            arm, noise_failure=_BOX_NOISE / 2 * event_failure, rate_failure=(1 - _BOX_NOISE) * event_failure
        )

    return max(upper(a) - (1 - upper(b.mirrored())) for a, b in ((first, second), (second, first)))


def conv_gap(first: NoisyBinomial, second: NoisyBinomial, *, event_failure: float) -> float:
    """The same from the law of the noisy number of positives, at the least and at the largest possible size."""
    size_failure, rate_failure = _CONV_SIZE * event_failure, (1 - _CONV_SIZE) * event_failure

    def difference(high: NoisyBinomial, low: NoisyBinomial) -> float:
        upper = conv_upper(high, size_failure=size_failure, rate_failure=rate_failure)
        return upper - conv_lower(low, size_failure=size_failure, rate_failure=rate_failure)

    return max(difference(first, second), difference(second, first))


def conv_lower(arm: NoisyBinomial, *, size_failure: float, rate_failure: float) -> float:
    r"""Smallest rate under which so many noisy positives are not too unlikely, at the largest possible size.

    .. math:: \inf\{ r : \Pr(\mathrm{Bin}(n^+, r) + X \ge \tilde A) \ge \beta \}.

    Mirroring the arm would be valid too, but it moves the size where that hurts most when rates are small.
    """
    reach = noise_quantile(arm.epsilon, 2 * arm.n_noise_terms, size_failure)
    # Negatives under n⁺ are n⁺ − A~, with noise of the same law: an upper bound whose least size is n⁺.
    turned = NoisyBinomial(
        positive=arm.negative + reach,
        negative=arm.positive + reach,
        epsilon=arm.epsilon,
        n_noise_terms=arm.n_noise_terms,
    )
    return 1 - conv_upper(turned, size_failure=size_failure, rate_failure=rate_failure)


def wald_slack(
    high: tuple[Floats, Floats],
    low: tuple[Floats, Floats],
    *,
    noise: float,
    failure_probability: float,
) -> Floats:
    r"""Normal quantile times the estimated deviation of a difference of rates: no guarantee.

    .. math:: z_\alpha \sqrt{\sum_i p_i(1 - p_i)/n_i + v\,(p_i^2 + (1 - p_i)^2) / n_i^2}.

    Parameters
    ----------
    high, low
        Noisy counts of positive and negative decisions, each of shape (n_draws,).
    noise
        Variance of the noise in each count, v; 0 ignores it.
    """
    variance = _rate_variance(*high, noise) + _rate_variance(*low, noise)
    return -ndtri(failure_probability) * np.sqrt(variance)


def _rate_variance(positive: Floats, negative: Floats, noise: float) -> Floats:
    size = np.maximum(positive + negative, 1.0)
    rate = np.clip(positive / size, 0.0, 1.0)
    return rate * (1 - rate) / size + noise * (rate**2 + (1 - rate) ** 2) / size**2


def estimated_difference(
    high: tuple[Floats, Floats],
    low: tuple[Floats, Floats],
) -> Floats:
    """Difference of the rates that noisy counts show."""
    rates = [positive / np.maximum(positive + negative, 1.0) for positive, negative in (high, low)]
    return rates[0] - rates[1]


def count_noise(epsilon: float, n_noise_terms: int) -> float:
    """Variance of the noise in one count."""
    return n_noise_terms * noise_variance(epsilon)


def certified_without_noise(setting: Setting, rng: np.random.Generator) -> int:
    """Violations of the very same certificate, told that the noisy counts are exact."""
    violations = 0
    for _ in range(setting.n_runs):
        noisy = release_counts(setting.counts(rng), epsilon=setting.epsilon, rand_below=random_below(rng))
        certificate = certify(
            noisy,
            epsilon=_NO_NOISE,
            confidence=CONFIDENCE,
            group_names=setting.population.group_names,
            expected_sizes=setting.expected_sizes,
        )
        violations += bool(violated(certificate, setting.truth()))
    return violations


def clopper_pearson_without_noise(setting: Setting, rng: np.random.Generator) -> int:
    """Violations of exact binomial bounds that take noisy counts for exact ones."""
    return sum(_clopper_pearson_violated(setting, rng) for _ in range(setting.n_runs))


def _clopper_pearson_violated(setting: Setting, rng: np.random.Generator) -> bool:
    noisy = release_counts(setting.counts(rng), epsilon=setting.epsilon, rand_below=random_below(rng))
    for kind, level in levels_of(METRICS, FAILURE_PROBABILITY).items():
        arms = arms_of(noisy, kind, (setting.epsilon,) * setting.n_groups)
        tau = max(_upper(arm, level / 2) for arm in arms) - min(1 - _upper(arm.mirrored(), level / 2) for arm in arms)
        if tau < np.ptp(setting.truth()[kind]):
            return True
    return False


def _upper(arm: NoisyBinomial, failure_probability: float) -> float:
    return clopper_pearson_upper(arm.positive, arm.negative, failure_probability=failure_probability)


def empty_cell_misses(
    rng: np.random.Generator, *, epsilon: float, n_noise_terms: int, failure_probability: float, n_draws: int
) -> dict[str, int]:
    r"""Counts of how often the convolution bound misses a rate of one in an empty cell, as it is and with a shortcut.

    It looks at the least possible size :math:`n^- = \tilde n - t`. Where that is not positive it must say nothing; the
    shortcut :math:`\max(n^-, 1)` says that there is somebody. A rate of one is missed if
    :math:`\Pr(n^- + X \le \tilde A) < \beta`.
    """
    size_failure, rate_failure = 0.1 * failure_probability, 0.9 * failure_probability
    positive, negative = (
        laplace_noise(rng, epsilon=epsilon, n_noise_terms=n_noise_terms, n_draws=n_draws) for _ in range(2)
    )
    least = positive + negative - noise_quantile(epsilon, 2 * n_noise_terms, size_failure)
    law = laplace_sum(epsilon, n_noise_terms)
    shortcut = law.at_most(positive - np.maximum(least, 1)) < rate_failure
    proper = (law.at_most(positive - least) < rate_failure) & (least > 0)
    return {"shortcut": int(shortcut.sum()), "proper": int(proper.sum())}


@dataclass(frozen=True)
class Row:
    """Two arms of known sizes and rates; groups for ``DP``, cells of one label for ``EOpp`` and ``FPR``."""

    metric: str
    epsilon: float
    sizes: tuple[int, int]
    rates: tuple[float, float]

    @property
    def n_noise_terms(self) -> int:
        """A group adds up two noisy cells."""
        return 2 if self.metric == "DP" else 1

    @property
    def ordered(self) -> tuple[tuple[int, float], tuple[int, float]]:
        """Size and rate of the arm with the higher rate, then of the other."""
        low, high = sorted(zip(self.sizes, self.rates, strict=True), key=lambda arm: arm[1])
        return high, low

    def line(self) -> dict[str, str]:
        """Its own columns of a table."""
        sizes, rates = ("/".join(f"{value:g}" for value in values) for values in (self.sizes, self.rates))
        return {"ε": f"{self.epsilon:g}", "arms (rates)": f"{self.metric} {sizes} ({rates})"}


# Sizes and rates like those of the Adult data when 10 to 30 % of it are held out.
ROWS = (
    Row("DP", 1.0, (1077, 2179), (0.08, 0.13)),
    Row("DP", 1.0, (2154, 4358), (0.08, 0.13)),
    Row("DP", 1.0, (3231, 6537), (0.08, 0.13)),
    Row("DP", 1.0, (2154, 4358), (0.028, 0.076)),
    Row("EOpp", 1.0, (118, 666), (0.16, 0.20)),
    Row("EOpp", 1.0, (236, 1332), (0.16, 0.20)),
    Row("EOpp", 1.0, (354, 1998), (0.16, 0.20)),
    Row("EOpp", 1.0, (236, 1332), (0.5, 0.6)),
    Row("FPR", 1.0, (1918, 3026), (0.012, 0.021)),
    Row("DP", 0.5, (2154, 4358), (0.08, 0.13)),
    Row("EOpp", 0.5, (118, 666), (0.16, 0.20)),
    Row("EOpp", 0.5, (236, 1332), (0.16, 0.20)),
    Row("DP", 0.1, (2154, 4358), (0.08, 0.13)),
    Row("EOpp", 0.1, (236, 1332), (0.16, 0.20)),
    Row("EOpp", 0.1, (118, 666), (0.16, 0.20)),
    Row("EOpp", 4.0, (236, 1332), (0.16, 0.20)),
)
# Rows for the misses only: the smaller cell has the higher rate, and rates are small.
SMALL_ON_TOP = (
    Row("EOpp", 1.0, (236, 1332), (0.20, 0.16)),
    Row("EOpp", 1.0, (236, 1332), (0.05, 0.02)),
    Row("EOpp", 1.0, (118, 666), (0.03, 0.01)),
    Row("EOpp", 1.0, (40, 4000), (0.03, 0.01)),
    Row("EOpp", 0.1, (236, 1332), (0.05, 0.02)),
    Row("EOpp", 0.1, (118, 666), (0.03, 0.01)),
)
QUICK_ROWS = (ROWS[1], ROWS[5], ROWS[13])


def slack_study(run: Run) -> Findings:
    """The table of slacks and the miss rates of the bound that has no guarantee."""
    n_draws, rows = (QUICK_DRAWS, QUICK_ROWS) if run.quick else (N_DRAWS, ROWS)
    extra = SMALL_ON_TOP[2:3] if run.quick else SMALL_ON_TOP
    tasks = [*((row, n_draws, True) for row in rows), *((row, n_draws, False) for row in extra)]
    found = list(zip((*rows, *extra), run.done(_figures, tasks, what="slack"), strict=True))
    figures = [{**asdict(row), **slack, **misses} for row, (slack, misses) in found]
    lines = [{**row.line(), **slack, **_told(misses)} for row, (slack, misses) in found]
    n_rows = len(rows)
    settings = {"alpha": ALPHA, "n_groups": N_GROUPS, "n_metrics": N_METRICS, "n_draws": n_draws}
    text = (
        f"Bound minus observed gap, for {N_GROUPS} groups, {N_METRICS} metrics and a failure probability of {ALPHA} "
        "in all, at typical counts (expected, rounded, no noise drawn).\n\n"
        "box12, conv12: separate bounds on every rate, 12 events. conv6, score6: two events for each metric, for the "
        "gap is the difference of one fixed pair. **pair3: what the certificate does, here with equal shares for the "
        "metrics.** pair1: a single metric named beforehand. wald: the normal approximation at a third of the failure "
        f"probability; it guarantees nothing, and its miss rate over the nominal one ({n_draws:,} draws) shows it.\n\n"
        f"{table(lines[:n_rows])}\nWhere the smaller cell has the higher rate:\n\n{table(lines[n_rows:])}"
    )
    return Findings({**settings, "slack": figures[:n_rows], "small_cell_on_top": figures[n_rows:]}, text)


def _figures(task: tuple[Row, int, bool], rng: np.random.Generator) -> tuple[dict[str, float], dict[str, float]]:
    """Slacks, if they are asked for, and misses."""
    row, n_draws, with_slack = task
    return slacks(row) if with_slack else {}, wald_misses(row, n_draws, rng)


def _told(misses: Mapping[str, float]) -> dict[str, str]:
    titles = ("Wald miss / nominal", "same, noise ignored")
    return {title: f"{ratio:.2f}" for title, ratio in zip(titles, misses.values(), strict=True)}


def slacks(row: Row) -> dict[str, float]:
    """Bound minus observed gap at typical counts, for every construction."""
    (high_size, high_rate), (low_size, low_rate) = row.ordered
    high = typical_arm(high_size, high_rate, epsilon=row.epsilon, n_noise_terms=row.n_noise_terms)
    low = typical_arm(low_size, low_rate, epsilon=row.epsilon, n_noise_terms=row.n_noise_terms)
    one_of_all, one_of_two = ALPHA / (2 * N_METRICS * N_GROUPS), ALPHA / (2 * N_METRICS)
    bounds = {
        "box12": box_gap(high, low, event_failure=one_of_all),
        "conv12": conv_gap(high, low, event_failure=one_of_all),
        "conv6": conv_gap(high, low, event_failure=one_of_two),
        "score6": gap_bound([high, low], failure_probability=ALPHA / N_METRICS, score_box=True).tau,
        "pair3": gap_bound([high, low], failure_probability=ALPHA / N_METRICS).tau,
        "pair1": gap_bound([high, low], failure_probability=ALPHA).tau,
    }
    observed = high.positive / high.total - low.positive / low.total
    slack = wald_slack(
        _floats(high),
        _floats(low),
        noise=count_noise(row.epsilon, row.n_noise_terms),
        failure_probability=ALPHA / N_METRICS,
    )
    return {name: min(bound, 1.0) - observed for name, bound in bounds.items()} | {"wald": float(slack[0])}


def _floats(arm: NoisyBinomial) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return np.array([float(arm.positive)]), np.array([float(arm.negative)])


def wald_misses(row: Row, n_draws: int, rng: np.random.Generator) -> dict[str, float]:
    """Share of Wald's bounds below the true gap over the nominal one, with and without the noise's share."""
    arms = []
    for size, rate in row.ordered:
        positive, negative = drawn_counts(
            rng, size, rate, epsilon=row.epsilon, n_noise_terms=row.n_noise_terms, n_draws=n_draws
        )
        arms.append((positive.astype(np.float64), negative.astype(np.float64)))
    true_gap = row.ordered[0][1] - row.ordered[1][1]
    level, estimate = ALPHA / N_METRICS, estimated_difference(*arms)

    def miss_over_nominal(noise: float) -> float:
        bound = estimate + wald_slack(*arms, noise=noise, failure_probability=level)
        return float(np.mean(bound < true_gap)) / level

    return {
        "wald_miss_over_nominal": miss_over_nominal(count_noise(row.epsilon, row.n_noise_terms)),
        "wald_without_noise_miss_over_nominal": miss_over_nominal(0.0),
    }


@dataclass(frozen=True)
class Tally:
    """Events against a promised rate, and the chance of so many if each had the promised probability at most."""

    events: int
    trials: int
    promised: float = FAILURE_PROBABILITY

    @classmethod
    def of(cls, results: Sequence[Checked]) -> "Tally":
        """Certificates that claim something false."""
        return cls(sum(result.violations for result in results), sum(result.trials for result in results))

    @property
    def p_value(self) -> float:
        """The chance of at least so many events."""
        return float(binomtest(self.events, self.trials, self.promised, alternative="greater").pvalue)

    def to_json(self) -> dict[str, object]:
        """Plain values."""
        return {**asdict(self), "rate": self.events / self.trials, "p_value": self.p_value}

    def line(self, label: str) -> dict[str, object]:
        """Its line of a table."""
        numbers = {"rate": self.events / self.trials, "promised": self.promised, "p-value": self.p_value}
        return {"": label, "wrong": f"{self.events:,}", "of": f"{self.trials:,}", **numbers}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Sizes of all parts of the study.

    Parameters
    ----------
    certificates, many_groups, truths
        Settings on the synthetic population: full certificates for few and for 16 groups, and cheaper checks for 16.
    n_bounds
        Bounds for each of the settings of the implication, at each of two levels.
    adult_tasks, adult_certificates
        Certificates on the Adult records: how many tasks of how many.
    control_tasks, n_certified_controls, n_plain_controls, n_draws
        Broken certificates: the construction itself in tasks of so many, plain binomial bounds, draws of empty cells.
    """

    certificates: tuple[Setting, ...]
    many_groups: tuple[Setting, ...]
    truths: tuple[Setting, ...]
    n_bounds: int
    adult_tasks: int
    adult_certificates: int
    control_tasks: int
    n_certified_controls: int
    n_plain_controls: int
    n_draws: int


def settings(
    n_groups: Sequence[int], sizes: Sequence[int], epsilons: Sequence[float], offsets: Sequence[float], *, n_runs: int
) -> tuple[Setting, ...]:
    """Every combination."""
    return tuple(
        Setting(n_groups=k, n_samples=n, epsilon=epsilon, offset=offset, n_runs=n_runs)
        for k, n, epsilon, offset in product(n_groups, sizes, epsilons, offsets)
    )


FULL = Plan(
    certificates=settings((2, 4), (40, 200, 1_000, 5_000, 30_000), EPSILONS, OFFSETS, n_runs=25),
    many_groups=settings((16,), (200, 3_000, 30_000), EPSILONS, OFFSETS, n_runs=1),
    truths=settings((16,), (200, 3_000, 30_000), EPSILONS, OFFSETS, n_runs=40),
    n_bounds=72,
    adult_tasks=20,
    adult_certificates=10,
    control_tasks=4,
    n_certified_controls=50,
    n_plain_controls=2_000,
    n_draws=200_000,
)
QUICK = Plan(
    certificates=settings((2, 4), (40, 2_000), (1.0,), (0.6,), n_runs=2),
    many_groups=settings((16,), (3_000,), (4.0,), (0.6,), n_runs=1),
    truths=settings((16,), (30_000,), (1.0, 4.0), (0.6,), n_runs=10),
    n_bounds=1,
    adult_tasks=1,
    adult_certificates=3,
    control_tasks=1,
    n_certified_controls=30,
    n_plain_controls=300,
    n_draws=20_000,
)
# Where noise is large beside the counts and the groups differ enough for a bound that is too small to be seen.
NEGATIVE_CONTROL = Setting(n_groups=2, n_samples=1_000, epsilon=0.1, offset=0.0, n_runs=1)


def coverage_study(run: Run) -> Findings:
    """All four parts; the Adult model is trained first, so that missing data are noticed at once."""
    return carry_out(QUICK if run.quick else FULL, run)


def carry_out(plan: Plan, run: Run) -> Findings:
    """The study in any size."""
    adult = _adult(plan, run)
    parts = {"synthetic": _synthetic(plan, run), "implication": _implication(plan, run), "adult": adult}
    parts["negative_controls"] = _negative_controls(plan, run)
    figures = {name: part.figures for name, part in parts.items()}
    return Findings({"confidence": CONFIDENCE, **figures}, "\n".join(part.text for part in parts.values()))


def _adult(plan: Plan, run: Run) -> Findings:
    """Certificates on Adult records, or why there are none."""
    title = "## Adult records that the model never saw, as the population\n\n"
    run.say("training a model on Adult")
    try:
        population = adult_population(n_runs=plan.adult_certificates)
    except (OSError, InputError) as error:
        run.say(f"without the Adult part: {error}")
        return Findings({"not_run": str(error)}, f"{title}Not run: {error}\n")
    results = run.done(finite_certificates, [population] * plan.adult_tasks, what="certificates on Adult")
    tally, gaps = Tally.of(results), results[0].true_gaps
    taus = {name: float(np.mean([result.mean_tau[name] for result in results])) for name in gaps}
    sample = f"Samples of {population.n_samples:,} with replacement, ε = {population.epsilon:g}.\n\n"
    bounds = table([{"metric": name, "true gap": gaps[name], "mean certified τ": taus[name]} for name in gaps])
    about = {"n_samples": population.n_samples, "epsilon": population.epsilon, "true_gaps": gaps, "mean_tau": taus}
    return Findings({**about, **tally.to_json()}, f"{title}{sample}{table([tally.line('certificates')])}\n{bounds}")


def _synthetic(plan: Plan, run: Run) -> Findings:
    few = run.done(synthetic_certificates, plan.certificates, what="certificates")
    many = run.done(synthetic_certificates, plan.many_groups, what="certificates of 16 groups")
    lost = run.done(synthetic_truths, plan.truths, what="truths of 16 groups")
    full = list(zip((*plan.certificates, *plan.many_groups), (*few, *many), strict=True))
    everything = Tally.of([result for _, result in full])
    rejected = Tally(sum(lost), sum(setting.n_runs for setting in plan.truths))
    figures: dict[str, object] = {"all": everything.to_json(), "truth_rejected_16_groups": rejected.to_json()}
    lines = [everything.line("all certificates")]
    for key, label in (("n_groups", "groups"), ("n_samples", "records"), ("epsilon", "= ε")):
        values = sorted({getattr(setting, key) for setting, _ in full})
        tallies = {
            f"{value:g}": Tally.of([result for setting, result in full if getattr(setting, key) == value])
            for value in values
        }
        figures[f"by_{key}"] = {value: tally.to_json() for value, tally in tallies.items()}
        lines += [tally.line(f"{value} {label}") for value, tally in tallies.items()]
    lines.append(rejected.line("16 groups, truth rejected"))
    claims = {
        claim: sum(result.violations_by_claim[claim] for _, result in full) for claim in few[0].violations_by_claim
    }
    figures |= {
        "by_claim": claims,
        "settings": [{**asdict(setting), **asdict(result)} for setting, result in full],
        "settings_truth": [
            {**asdict(setting), "trials": setting.n_runs, "violations": n_lost}
            for setting, n_lost in zip(plan.truths, lost, strict=True)
        ],
    }
    text = (
        "## Certificates of fixed linear rules on the synthetic population\n\n"
        f"A certificate claims all three gaps and a ratio together, with confidence {CONFIDENCE}; it is wrong if any "
        "claim is. The p-value is the chance of so many wrong ones if the promise is just kept. The last line checks "
        "instead that the true rates are not rejected, which is all that a certificate rests on.\n\n"
        f"{table(lines)}\nWrong claims: {', '.join(f'{claim} {count}' for claim, count in claims.items())}.\n"
    )
    return Findings(figures, text)


def _implication(plan: Plan, run: Run) -> Findings:
    """Counts at the usual level, and at one where truths are rejected often."""
    levels = (FAILURE_PROBABILITY, 0.4)
    tasks = [(arms, level, plan.n_bounds) for level in levels for arms in ARMS]
    results = list(zip(tasks, run.done(check_implication, tasks, what="implication"), strict=True))
    bounds, broken = (sum(result[name] for _, result in results) for name in ("bounds", "broken"))
    figures: dict[str, object] = {"bounds": bounds, "broken": broken}
    lines = []
    for level in levels:
        its = [result for (_, at, _), result in results if at == level]
        total = {name: sum(result[name] for result in its) for name in its[0]}
        rejected = Tally(total["rejected"], total["bounds"], level)
        figures[f"level_{level:g}"] = {
            "rejected": rejected.to_json(),
            "missed": total["missed"],
            "broken": total["broken"],
        }
        shown = {"bounds below the truth": total["missed"], "broken": total["broken"]}
        lines.append({**rejected.line(f"truth rejected, level {level:g}"), **shown})
    figures["settings"] = [
        {**asdict(arms), "failure_probability": level, **result} for (arms, level, _), result in results
    ]
    text = (
        "## A truth that is not rejected lies within the bound\n\n"
        f"{bounds:,} bounds on difference and ratio, with empty cells, rates of zero and one, and groups of "
        f"three: {broken} broken implications (there may be none).\n\n{table(lines)}"
    )
    return Findings(figures, text)


def _negative_controls(plan: Plan, run: Run) -> Findings:
    def missed(function: Callable[[Setting, np.random.Generator], int], n_tasks: int, n_runs: int, what: str) -> Tally:
        tasks = [replace(NEGATIVE_CONTROL, n_runs=n_runs)] * n_tasks
        return Tally(sum(run.done(function, tasks, what=what)), n_tasks * n_runs)

    tallies = {
        "certified_without_noise": missed(
            certified_without_noise, plan.control_tasks, plan.n_certified_controls, "certified as if counts were exact"
        ),
        "clopper_pearson_without_noise": missed(
            clopper_pearson_without_noise, 1, plan.n_plain_controls, "Clopper–Pearson on noisy counts"
        ),
    }
    # The shortcut for a group without anybody, at a usual and at a large level, beside the proper bound.
    rng = np.random.default_rng([run.seed, *b"empty cells"])
    for level in (FAILURE_PROBABILITY / 12, 0.1):
        misses = empty_cell_misses(rng, epsilon=4.0, n_noise_terms=2, failure_probability=level, n_draws=plan.n_draws)
        for name, count in misses.items():
            tallies[f"empty_cell_{name}_{level:.2g}"] = Tally(count, plan.n_draws, level)
    caught = {name: tally.p_value < CAUGHT for name, tally in tallies.items() if "proper" not in name}
    figures = {
        name: {**tally.to_json(), **({"caught": caught[name]} if name in caught else {})}
        for name, tally in tallies.items()
    }
    words = {True: "yes", False: "no", None: "–"}
    lines = [
        {**tally.line(name.replace("_", " ")), "caught": words[caught.get(name)]} for name, tally in tallies.items()
    ]
    text = (
        "## Certificates with a mistake, which must be caught\n\n"
        "The first two take noisy counts for exact ones (ε = 0.1). The others bound the rate of a group without "
        "anybody (ε = 4): the shortcut raises its least possible size to one, the proper bound does not.\n\n"
        f"{table(lines)}"
    )
    return Findings(figures, text)
