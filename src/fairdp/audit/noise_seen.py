"""Whether the noise of a recorded run is what its releases say: of that law and scale, and never the same twice."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fairdp.audit.accounted import Found
from fairdp.audit.recording import named
from fairdp.releases import OPEN_DOMAIN, Release

# Chance that noise as stated is reported, for each of the few tests of a run.
_FALSE_ALARM = 1e-9
_FEWEST_TO_COMPARE, _SAME_DIRECTION = 12, 0.9999
# Releases of a run whose noise is compared with itself, place by place.
_COMPARED_WITHIN = 3


def suspicious_noise(releases: Sequence[Release]) -> Iterator[Found]:
    """Releases whose noise is too small or too large, or that repeat noise: of another release, or their own."""
    rng = np.random.default_rng(0)
    # Of counts of whatever occurs only large ones leave, whose noise is large for that reason.
    releases = [release for release in releases if release.exact.dtype != OPEN_DOMAIN]
    for purpose in dict.fromkeys(release.purpose for release in releases):
        chosen = [(place, release) for place, release in enumerate(releases) if release.purpose == purpose]
        draws = [_normal_draws(release, rng) for _, release in chosen]
        pooled = np.concatenate(draws)
        total = float(np.square(pooled).sum())
        tail = min(stats.chi2.cdf(total, pooled.size), stats.chi2.sf(total, pooled.size))
        if not tail >= _FALSE_ALARM / 2:
            yield purpose, f"the noise of its {len(chosen)} releases is not of the stated law and scale"
    noises = [np.ravel(_noise(release)) for release in releases]
    # A few whole numbers are the same by chance.
    real = [place for place, release in enumerate(releases) if not _is_whole(release)]
    again = next(((j, i) for j in real for i in real if i < j and _same(noises[i], noises[j])), None)
    if again is not None:
        yield named(again[0], releases[again[0]].purpose), "repeats the noise of an earlier release"
    inside = next((place for place in real[:_COMPARED_WITHIN] if _repeats_itself(noises[place])), None)
    if inside is not None:
        yield named(inside, releases[inside].purpose), "repeats its own noise in other places"


def _normal_draws(release: Release, rng: np.random.Generator) -> NDArray[np.float64]:
    """The noise as standard normal numbers, if it is of the stated law: each through its distribution function.

    A whole number stands for an interval of probability, from which one point is drawn.
    """
    noise = np.ravel(_noise(release))
    scale = np.ravel(np.broadcast_to(release.scale, np.shape(release.exact)))
    whole = np.issubdtype(np.asarray(release.exact).dtype, np.integer)
    with np.errstate(divide="ignore", invalid="ignore"):
        if release.law == "laplace" and whole:
            below, at = _discrete_laplace_below(noise, scale), _discrete_laplace_below(noise + 1, scale)
            return stats.norm.ppf(below + (at - below) * rng.random(len(noise)))
        if release.law == "laplace":
            return stats.norm.ppf(stats.laplace.cdf(noise / scale))
        # The mass of a discrete Gaussian of more than a few units is that of its interval.
        jitter = rng.random(len(noise)) - 0.5 if release.law == "discrete_gaussian" else 0.0
        return (noise + jitter) / scale


def _discrete_laplace_below(noise: NDArray[np.float64], scale: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""Chance of :math:`X < x` where :math:`\Pr(X = x) \propto r^{|x|}` with :math:`r = e^{-1 / b}`."""
    ratio = np.exp(-1 / scale)
    return np.where(noise <= 0, ratio ** np.maximum(1 - noise, 0), 1 + ratio - ratio ** np.maximum(noise, 0)) / (
        1 + ratio
    )


def _noise(release: Release) -> NDArray[np.float64]:
    return np.asarray(release.noisy, dtype=np.float64) - np.asarray(release.exact, dtype=np.float64)


def _is_whole(release: Release) -> bool:
    return np.issubdtype(np.asarray(release.exact).dtype, np.integer)


def _same(first: NDArray[np.float64], second: NDArray[np.float64]) -> bool:
    """Whether two noises have one direction, or opposite ones, as a dozen independent draws never have."""
    size = min(len(first), len(second))
    lengths = np.linalg.norm(first[:size]) * np.linalg.norm(second[:size])
    return size >= _FEWEST_TO_COMPARE and abs(float(first[:size] @ second[:size])) > _SAME_DIRECTION * float(lengths)


def _repeats_itself(noise: NDArray[np.float64]) -> bool:
    """Whether some stretch of the noise comes again later on."""
    return any(_same(noise[:-lag], noise[lag:]) for lag in range(1, len(noise) - _FEWEST_TO_COMPARE + 1))
