"""Certificates with one deliberate mistake each: a check of coverage is worth something if it notices them."""

import numpy as np

from fairdp.certify.arms import NoisyArm
from fairdp.certify.certificate import certify
from fairdp.certify.concentration import clopper_pearson_upper
from fairdp.certify.noise import laplace_sum, noise_quantile
from fairdp.certify.release import arms_of, release_counts
from fairdp.config.certificate import METRICS, levels_of
from fairdp.experiments.studies.known_truth import CONFIDENCE, FAILURE_PROBABILITY, Setting
from fairdp.experiments.studies.simulation import laplace_noise, random_below

# So large that the construction knows of no noise.
_NO_NOISE = 20.0


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
        violations += bool(setting.truth().violated(certificate))
    return violations


def clopper_pearson_without_noise(setting: Setting, rng: np.random.Generator) -> int:
    """Violations of exact binomial bounds that take noisy counts for exact ones."""
    return sum(_clopper_pearson_violated(setting, rng) for _ in range(setting.n_runs))


def _clopper_pearson_violated(setting: Setting, rng: np.random.Generator) -> bool:
    noisy = release_counts(setting.counts(rng), epsilon=setting.epsilon, rand_below=random_below(rng))
    for kind, level in levels_of(METRICS, FAILURE_PROBABILITY).items():
        arms = arms_of(noisy, kind, (setting.epsilon,) * setting.n_groups)
        tau = max(_upper(arm, level / 2) for arm in arms) - min(1 - _upper(arm.mirrored(), level / 2) for arm in arms)
        if tau < np.ptp(setting.truth().rates[kind]):
            return True
    return False


def _upper(arm: NoisyArm, failure_probability: float) -> float:
    return clopper_pearson_upper(arm.positive, arm.negative, failure_probability=failure_probability)


def empty_cell_misses(
    rng: np.random.Generator, *, epsilon: float, folds: int, failure_probability: float, n_draws: int
) -> dict[str, int]:
    r"""How often the convolution bound misses a rate of one in an empty cell, as it is and with a shortcut.

    It looks at the least possible size :math:`n^- = \tilde n - t`. Where that is not positive it must say nothing; the
    shortcut :math:`\max(n^-, 1)` says that there is somebody. A rate of one is missed if
    :math:`\Pr(n^- + X \le \tilde A) < \beta`.
    """
    size_failure, rate_failure = 0.1 * failure_probability, 0.9 * failure_probability
    positive, negative = (laplace_noise(rng, epsilon=epsilon, folds=folds, n_draws=n_draws) for _ in range(2))
    least = positive + negative - noise_quantile(epsilon, 2 * folds, size_failure)
    law = laplace_sum(epsilon, folds)
    shortcut = law.at_most(positive - np.maximum(least, 1)) < rate_failure
    proper = (law.at_most(positive - least) < rate_failure) & (least > 0)
    return {"shortcut": int(shortcut.sum()), "proper": int(proper.sum())}
