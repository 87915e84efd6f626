"""Poisson sampling of every group at its own rate, from streams that belong to blocks of records."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairdp.streams import StepKeys, Stream

Positions = NDArray[np.int64]

# Expected records of a batch that a block contributes: enough for one pass through a model.
_BATCH_OF_A_BLOCK = 2048
_MOST_BLOCKS = 64
# How far, times the mean gap, a computed gap may be from the one that its bits, continued, would give: words of 64 bits
# that are not among the smallest 2⁻²⁴ fix a logarithm to 2⁻⁴⁰.
_ERROR = 2.0**-39
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
    error = _ERROR * mean_gap
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
