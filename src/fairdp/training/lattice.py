r"""Gaussian noise rounded to a lattice, with exactly the law that the accountant assumes.

A Gaussian that is computed in floating point has gaps and repeats in its last bits, and these tell of the value it was
added to (Mironov, 2012). Here the sum of value and noise is rounded to a lattice of about a thousandth of the
deviation, which hides those bits, and the rounding is exact. A standard normal is a function of two uniform numbers
with infinitely many bits (Box and Muller, 1958), of which the first 64 are drawn. If these bits and double precision
leave any doubt about the lattice point, which is so once in some hundred thousand draws, more bits and digits are taken
until there is none. So the output has the law of :math:`\mathrm{round}_h(x + \mathcal N(0, s^2))`, a function of
what the ideal Gaussian mechanism releases, and nothing has to be added to δ. What is assumed: the words cannot be told
from chance, and logarithms, roots and sines are right to twelve digits, where they have fifteen.
"""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fairdp.streams import Stream

# The step of the lattice is the power of two in (2⁻¹¹, 2⁻¹⁰] deviations: the rounding has 1e-7 of the noise's variance.
_STEPS_PER_DEVIATION = 2.0**10
# How far a computed normal may be from the one that its bits, continued, would give. The error of r = √(−2 ln u) is
# that of u over u r: at most 2⁻⁴² for the words that are not in doubt, in the tail as near zero. The angle adds at most
# r 2⁻⁵⁰, and the roundings of the functions less.
_ERROR = 2.0**-40
# Radii outside are in doubt: near zero, and those of words that are among the smallest 2⁻²⁴.
_SMALLEST_RADIUS, _LARGEST_RADIUS = 2.0**-10, math.sqrt(48 * math.log(2))
# Values at a time, which a cache holds.
_CHUNK = 2**13
# Pairs from which on torch's functions, which take longer to call, are faster than NumPy's.
_MANY = 500


def round_with_gaussian(values: NDArray[np.float64], std: float, stream: Stream) -> NDArray[np.float64]:
    """The values with independent Gaussian noise of this deviation, rounded to the lattice of :func:`lattice_step`."""
    flat, step = np.ascontiguousarray(values, dtype=np.float64).ravel(), lattice_step(std)
    points = np.empty(flat.size)
    for start in range(0, flat.size, _CHUNK):
        here = slice(start, start + _CHUNK)
        points[here] = _points(flat[here], std, step, stream, start)
    points *= step
    return points.reshape(values.shape)


def lattice_step(std: float) -> float:
    """Distance between the lattice's points: a power of two, so that they are exact in floating point."""
    return math.ldexp(1.0, math.frexp(std)[1] - 1) / _STEPS_PER_DEVIATION


def _points(values: NDArray[np.float64], std: float, step: float, stream: Stream, start: int) -> NDArray[np.float64]:
    """Lattice points of some values, in units of the step; ``start`` is the number of the first."""
    n_pairs = (len(values) + 1) // 2
    words = stream.words(2 * n_pairs)
    noise, radii = _scaled_normals(words, std / step)
    # The step is a power of two: the product is exact. In place: these arrays are most of what noise takes.
    sums = noise[: len(values)]
    sums += values * (1 / step)
    points = np.rint(sums)
    sums -= points
    # The sum is rounded too; the norm of all points exceeds each of them.
    error = _ERROR * std / step + 2.0**-51 * math.sqrt(np.dot(points, points))
    (left, right), (least, most) = _ends(sums), _ends(radii)
    if max(right, -left) > 0.5 - error or least < _SMALLEST_RADIUS * std / step or most > _LARGEST_RADIUS * std / step:
        unsure = (radii < _SMALLEST_RADIUS * std / step) | (radii > _LARGEST_RADIUS * std / step)
        doubtful = (np.abs(sums) > 0.5 - error) | np.tile(unsure, 2)[: len(values)]
        for i in np.flatnonzero(doubtful).tolist():
            pair = i % n_pairs
            first, second = int(words[pair]), int(words[n_pairs + pair])
            more, is_sine = stream.beside(start + pair), i >= n_pairs
            points[i] = _exact_point(float(values[i]), std, step, first, second, more, is_sine=is_sine)
    return points


def _ends(values: NDArray[np.float64]) -> tuple[float, float]:
    """The smallest and the largest value, in one pass."""
    least, most = torch.aminmax(torch.from_numpy(values))
    return float(least), float(most)


def _scaled_normals(words: NDArray[np.uint64], scale: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Normals of this deviation, the cosines of all pairs before their sines, and the radii of the pairs."""
    n_pairs = len(words) // 2
    uniforms = words.astype(np.float64)
    uniforms += 0.5
    radii, angles, normals = uniforms[:n_pairs], uniforms[n_pairs:], np.empty((2, n_pairs))
    radii *= 2.0**-64
    angles *= 2.0**-63 * math.pi
    if n_pairs < _MANY:
        np.log(radii, out=radii)
        np.cos(angles, out=normals[0])
        np.sin(angles, out=normals[1])
    else:
        torch.from_numpy(radii).log_()
        turned, waves = torch.from_numpy(angles), torch.from_numpy(normals)
        torch.cos(turned, out=waves[0])
        torch.sin(turned, out=waves[1])
    radii *= -2.0 * scale**2
    np.sqrt(radii, out=radii)
    normals *= radii
    return normals.ravel(), radii


def _exact_point(
    value: float, std: float, step: float, first: int, second: int, more: Stream, *, is_sine: bool
) -> float:
    """The lattice point, in units of the step, with as many further bits as it takes to be sure of it."""
    import mpmath

    # The library's own context is shared by all threads.
    exact, n_bits = mpmath.MPContext(), 64
    while True:
        extra = more.words(2).tolist()
        first, second, n_bits = (first << 64) + extra[0], (second << 64) + extra[1], n_bits + 64
        exact.prec = 2 * n_bits + 100
        corners = [
            (exact.mpf(value) + exact.mpf(std) * _exact_normal(exact, u, turn, is_sine=is_sine)) / step
            for u in (exact.ldexp(max(first, 1), -n_bits), exact.ldexp(first + 1, -n_bits))
            for turn in (exact.ldexp(second, -n_bits), exact.ldexp(second + 1, -n_bits))
        ]
        # What lies between the corners may be outside them where a sine turns, but by less than this.
        margin = exact.ldexp(1, 64 - n_bits)
        low, high = (int(exact.floor(end + 0.5)) for end in (min(corners) - margin, max(corners) + margin))
        if low == high and first:
            return float(low)


def _exact_normal(exact: Any, u: Any, turn: Any, *, is_sine: bool) -> Any:
    """One normal of a pair, from a uniform number and a part of a turn."""
    wave = exact.sin if is_sine else exact.cos
    return exact.sqrt(-2 * exact.log(u)) * wave(2 * exact.pi * turn)
