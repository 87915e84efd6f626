"""The sampled Gaussian mechanism: Poisson sampling, clipping, and noise, in the order of a step.

A sum that will be noised is a `BoundedSum`, which knows its sensitivity, and `add_gaussian_noise` accepts nothing else.
Sampling and noise have exactly the stated law: where 64 bits leave doubt about a result, more of them are taken.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairdp.distributed import process_group
from fairdp.networks.layers import LayerTerm
from fairdp.randomness import StepKeys, Stream
from fairdp.releases import release

Positions = NDArray[np.int64]

# Gradients are summed in single precision, in parts: clip below C, so that C is a bound and not an estimate. Removing
# one of three million aligned gradients shifts all parts, and was seen to move the sum by .9989 C.
MARGIN = 1 - 1e-2
# Rows are summed in double precision; only their norms round.
_ROW_MARGIN = 1 - 1e-4
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
# Expected records of a batch that a block contributes: enough for one pass through a model.
_BATCH_OF_A_BLOCK = 2048
_MOST_BLOCKS = 64
# How far, times the mean gap, a computed gap may be from the one that its bits, continued, would give: words of 64 bits
# that are not among the smallest 2⁻²⁴ fix a logarithm to 2⁻⁴⁰.
_GAP_ERROR = 2.0**-39
_SMALLEST_WORD = np.uint64(2**40)


def blocks_of(n_samples: int, planned_size: float, expected_batch_size: float) -> tuple[slice, ...]:
    """Blocks of consecutive records, each with random words of its own; together all records.

    Their number and their length follow from public sizes alone, and one more record at the end changes only the last
    of them. Whoever computes, and with however many workers, takes the same batches and adds the same sums.
    """
    n_blocks = max(1, min(_MOST_BLOCKS, int(expected_batch_size // _BATCH_OF_A_BLOCK)))
    length = math.ceil(planned_size / n_blocks)
    starts = [min(number * length, n_samples) for number in range(n_blocks)]
    return tuple(slice(start, stop) for start, stop in zip(starts, [*starts[1:], n_samples], strict=True))


@dataclass(frozen=True, eq=False)
class PoissonSampler:
    """Independent coins, one per record, without tossing them one by one.

    All records are sampled at the largest rate, by drawing the gaps between the chosen ones; records of groups with a
    smaller rate are then kept with the ratio of the rates. Both steps give exactly the law of independent coins, in
    time proportional to the batch.
    """

    blocks: tuple[slice, ...]
    largest_rate: float
    keep_limits: NDArray[np.uint64] | None
    groups: NDArray[np.int64]

    @classmethod
    def of_groups(
        cls, groups: NDArray[np.int64], sample_rates: tuple[float, ...], *, blocks: tuple[slice, ...] | None = None
    ) -> "PoissonSampler":
        """Sampler of records whose group codes are given, with one rate per code; by default in one block."""
        largest = max(sample_rates)
        keep = None
        if any(rate != largest for rate in sample_rates):
            # Rounded down: nobody is sampled more often than is accounted for.
            ratios = np.asarray(sample_rates) / largest * (1 - 2.0**-50)
            keep = np.floor(ratios * 2.0**53).astype(np.uint64)
            keep[np.asarray(sample_rates) == largest] = 2**53
        return cls(blocks or (slice(0, len(groups)),), largest, keep, groups)

    def draw(self, keys: StepKeys) -> list[Positions]:
        """Positions of the records in one batch, block by block and in order; possibly none."""
        return [self._draw_block(number, keys) for number in range(len(self.blocks))]

    def _draw_block(self, number: int, keys: StepKeys) -> Positions:
        block, stream = self.blocks[number], keys.stream(f"block {number}")
        chosen = block.start + bernoulli_positions(block.stop - block.start, self.largest_rate, stream)
        if self.keep_limits is None:
            return chosen
        coins = keys.stream(f"keep {number}").words(len(chosen)) >> np.uint64(11)
        return chosen[coins < self.keep_limits[self.groups[chosen]]]


def bernoulli_positions(n: int, rate: float, stream: Stream) -> Positions:
    r"""Positions from 0 to n − 1, each with the given chance and independently of the others, in order.

    The gap before the next one is :math:`\lfloor \ln U / \ln(1 - q) \rfloor`. Where 64 bits of U and double precision
    leave doubt about the whole number, more of both are taken, so that the law is exact.
    """
    if rate >= 1 or not rate * n:
        return np.arange(n if rate else 0, dtype=np.int64)
    expected, mean_gap = n * rate, -1 / math.log1p(-rate)
    found, stop = [], 0
    while stop < n:
        # Nearly always enough at once.
        size = int(expected + 5 * math.sqrt(expected)) + 8
        positions = np.cumsum(_gaps(stream.words(size), rate, mean_gap, stream) + 1) + (stop - 1)
        found.append(positions)
        stop, expected = int(positions[-1]) + 1, (n - stop) * rate
    chosen = found[0] if len(found) == 1 else np.concatenate(found)
    return chosen[: np.searchsorted(chosen, n)]


def _gaps(words: NDArray[np.uint64], rate: float, mean_gap: float, stream: Stream) -> Positions:
    gaps = words.astype(np.float64)
    gaps += 0.5
    gaps *= 2.0**-64
    np.log(gaps, out=gaps)
    gaps *= -mean_gap
    wholes = np.floor(gaps)
    gaps -= wholes
    error = _GAP_ERROR * mean_gap
    if gaps.min() < error or gaps.max() > 1 - error or words.min() < _SMALLEST_WORD:
        doubtful = (gaps < error) | (gaps > 1 - error) | (words < _SMALLEST_WORD)
        for i in np.flatnonzero(doubtful).tolist():
            wholes[i] = _exact_gap(int(words[i]), rate, stream.beside(int(words[i])))
    return wholes.astype(np.int64)


def _exact_gap(word: int, rate: float, more: Stream) -> int:
    """A gap, with as many further bits as it takes to be sure of it."""
    import mpmath

    # The library's own context is shared by all threads.
    exact, n_bits = mpmath.MPContext(), 64
    while True:
        word, n_bits = (word << 64) + int(more.words(1)[0]), n_bits + 64
        exact.prec = n_bits + 100
        ends = [exact.log(exact.ldexp(max(u, 1), -n_bits)) / exact.log(1 - exact.mpf(rate)) for u in (word, word + 1)]
        low, high = (int(exact.floor(end)) for end in (min(ends), max(ends)))
        if low == high and word:
            return low


@dataclass(frozen=True, eq=False)
class BoundedSum:
    """A sum over records and, for each group, how far adding or removing one of its records can move it (L2).

    It is also all that the processes of a process group add up: sums of their records add, sensitivities stay. Only
    rank zero has the total.
    """

    total: Tensor
    sensitivities: NDArray[np.float64]


@torch.inference_mode()
def clip_and_add(
    terms: list[LayerTerm],
    weights: Tensor,
    *,
    clip_norm: float | Tensor,
    total: Tensor,
    norms: Tensor | None = None,
) -> None:
    r"""Add :math:`\sum_i c_i g_i` to ``total``, with :math:`c_i = w_i \min(1, .99\,C / \|g_i\|)`.

    Parameters
    ----------
    terms
        The gradients of all records, layer by layer.
    weights
        Public factor of each record, :math:`w_i`, shape (n_records,).
    clip_norm
        Bound on the norm of a record's whole gradient, :math:`C`, or one for each record.
    total
        Flat sum over all parameters, changed in place.
    norms
        The norms of the gradients, where they are known already.
    """
    norms = gradient_norms(terms) if norms is None else norms
    coefficients = (clip_norm * MARGIN / norms).clamp_(max=1.0).mul_(weights)
    if not math.isfinite(norms.sum()):
        finite = norms.isfinite()
        # A record without a finite gradient contributes nothing, whatever its buffers hold.
        coefficients[~finite] = 0.0
        for term in terms:
            term.erase(~finite)
    for term in terms:
        term.add_weighted_sum(coefficients, total)


@torch.inference_mode()
def gradient_norms(terms: list[LayerTerm]) -> Tensor:
    """Norm of every record's whole gradient, shape (n_records,)."""
    squared = terms[0].squared_norms()
    for term in terms[1:]:
        squared = squared.add_(term.squared_norms())
    return squared.sqrt_()


def bounded_rows(rows: Tensor, counts: Tensor) -> Tensor:
    """The sum of rows, each scaled to norm at most one, whatever the method returned for its records.

    Rows of records that do not count, and rows that are not finite, add nothing.
    """
    norms = torch.linalg.vector_norm(rows, dim=1)
    scales = (_ROW_MARGIN / norms.clamp(min=_ROW_MARGIN)).mul_(counts)
    if not math.isfinite(norms.sum()):
        finite = norms.isfinite()
        rows, scales = rows.masked_fill(~finite[:, None], 0.0), scales.masked_fill(~finite, 0.0)
    return scales.double() @ rows.double()


def add_gaussian_noise(
    bounded: BoundedSum,
    noise_std: float,
    *,
    accounted_multipliers: NDArray[np.float64],
    stream: Stream,
    purpose: str = "gradient",
) -> torch.Tensor:
    """Release of a bounded sum, one vector or one for each group; refuses noise below what is accounted for any group.

    Released values are points of a lattice, with exactly the law of rounded Gaussian noise (`round_with_gaussian`).
    The rank-zero process has the sum, draws the noise, and tells the others what is released.
    """
    # The local part of the sum is only read on rank zero.
    processes = process_group()
    if noise_std == 0 and not accounted_multipliers.any():
        return processes.broadcast(bounded.total.float())
    if not np.all(noise_std >= accounted_multipliers * bounded.sensitivities * (1 - 1e-9)):
        raise ValueError(f"noise_std={noise_std} is below what is accounted for sensitivities {bounded.sensitivities}.")
    if not processes.is_rank_zero:
        return processes.broadcast(bounded.total.float())
    exact = bounded.total.double().numpy()
    noisy = round_with_gaussian(exact, noise_std, stream)
    left = release(noisy, purpose=purpose, law="gaussian", scale=noise_std, exact=exact)
    return processes.broadcast(torch.from_numpy(left).float())


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
