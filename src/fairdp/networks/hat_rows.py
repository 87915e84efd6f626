"""The rows of the default on tables: numbers as hats and bins, rare entries with more weight, one norm for all."""

import math
from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack
from torch import Tensor, nn

from fairdp.networks.sparse_rows import SparseRows

# Hats on each of two scales, and bins, of a number.
_HATS, _BINS = 8, 256
_PER_NUMBER = 2 * _HATS + _BINS
# Beyond four, the numbers of a table together weigh as much as four.
_NUMBERS = 4.0
# Bins pay where there are many records for the noise and few numbers: their weight is that of the hats, times
# min(1.5, (min(7, n / (85 σ)) / p)³) for p numbers and noise of deviation σ on the answers, taken as 24 at least.
_MOST_FINE, _ALL_FINE, _RECORDS, _LEAST_DEVIATION = 1.5, 7.0, 85.0, 24.0
# Weight of an entry: (its frequency + 6 σ / n) to this power.
_FLOOR, _POWER = 6.0, -0.4
# Of inputs that nobody declared: most are standardised, and what is further out is rare.
_LARGEST_INPUT = 3.0
# Rows that are made at once: enough to be fast, few enough for a cache.
_CHUNK = 8192
_TINY = 1e-6
# What rounding may add to a norm.
_MARGIN = 1 - 1e-6


class HatRows(nn.Module):
    r"""A public map of a record's inputs to a long row of few entries, scaled to one norm.

    A number :math:`u \in [0, 1]` becomes eight hat functions on its own scale, eight on that of its signed fourth root,
    which tells small values of a heavy tail apart, and 256 bins, which see codes and spikes. Every other input is an
    entry as it is. Entries are multiplied by weights that follow from released frequencies: noise is the same in all
    directions, so that rare ones would hardly be learnt otherwise. Then the row is scaled to norm :math:`B`.

    Parameters
    ----------
    n_inputs
        Number of inputs of a record.
    zeros
        For the position of each input that is a number in [0, 1], where zero lies on its scale.
    most_squares
        What the squared norm of a row before weights is at most, for records that are as declared; a public number.
    norm
        Norm of every row, :math:`B`; the constant beside it is 1.
    bounded
        Whether numbers are within [0, 1]. Of inputs that nobody declared, each is an entry as it is, at most three, and
        a number :math:`u = (1 + x / (1 + |x|)) / 2` as well.
    """

    asks = "frequencies"
    weights: Tensor
    zeros: Tensor

    def __init__(
        self, n_inputs: int, zeros: dict[int, float], *, most_squares: float, norm: float, bounded: bool = True
    ) -> None:
        super().__init__()
        self.numeric, self.most_squares, self.norm, self.bounded = list(zeros), most_squares, norm, bounded
        self.others = [position for position in range(n_inputs) if not (bounded and position in zeros)]
        self.width = len(self.others) + _PER_NUMBER * len(self.numeric)
        self.register_buffer("zeros", torch.tensor(list(zeros.values()), dtype=torch.float32), persistent=False)
        self.register_buffer("weights", torch.ones(self.width))

    @property
    def row_bytes(self) -> int:
        """Memory of a sparse row, about and at most."""
        return 16 * (len(self.others) + 5 * len(self.numeric))

    def extra_repr(self) -> str:
        zeros = f"zeros={self.zeros.tolist()}, bounded={self.bounded}"
        return f"{self.width} entries, {zeros}, most_squares={self.most_squares:g}, norm={self.norm:g}"

    def forward(self, records: Tensor) -> Tensor:
        parts = [self._others(records)]
        if self.numeric:
            numbers = self._numbers(records)
            nodes, bins = torch.arange(_HATS, dtype=numbers.dtype), torch.arange(_BINS, dtype=numbers.dtype)
            for scale in (numbers, self._roots(numbers)):
                parts.append(torch.relu(1 - (scale[:, :, None] * (_HATS - 1) - nodes).abs()).flatten(1))
            places = (numbers * _BINS).floor().clamp(max=_BINS - 1)
            parts.append((places[:, :, None] == bins).to(numbers.dtype).flatten(1))
        rows = torch.cat(parts, 1) * self.weights
        return rows * (self.norm / torch.linalg.vector_norm(rows, dim=1, keepdim=True).clamp(min=_TINY))

    def sparse(self, records: Tensor) -> SparseRows:
        """The same rows without their zeros."""
        return self.sparse_of([records])

    def sparse_of(self, batches: Iterable[Tensor]) -> SparseRows:
        """Those of records that come some at a time."""
        parts = [self._weighed(self._entries(part)) for records in batches for part in records.split(_CHUNK)]
        return SparseRows.of(_stacked(parts) if parts else csr_array((0, self.width)))

    def answers(self, records: Tensor) -> Tensor:
        """How often these records have each entry, over what one record may have in all; nothing for one not finite."""
        total = np.zeros(self.width)
        for part in records.split(_CHUNK):
            entries = self._entries(part[part.isfinite().all(1)])
            squares = SparseRows.of(entries).norms.numpy() ** 2
            # Of a record that is not as declared, only so much counts.
            scales = np.repeat(_MARGIN / np.sqrt(np.maximum(squares, self.most_squares)), np.diff(entries.indptr))
            total += np.bincount(entries.indices, weights=np.abs(entries.data) * scales, minlength=self.width)
        return torch.from_numpy(total)

    def learn(self, noisy: Tensor, *, n_records: float, deviation: float) -> None:
        """The weights, from noisy frequencies; ``deviation`` is that of the noise on the answers."""
        frequencies = noisy.double().numpy().clip(min=0.0) * math.sqrt(self.most_squares) / n_records
        floor = _FLOOR * max(deviation, 1.0) / n_records
        weights = self._public_weights(n_records, deviation) * (frequencies + floor) ** _POWER
        self.weights.copy_(torch.from_numpy(weights))

    def released(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Noisy frequencies, each with the floor added: of the other inputs, and of hats, shape (2, n_numbers, 8).

        They stand in the weights, which are public.
        """
        found = self._raised(self._public_weights(1.0, 1.0))[: len(self.others) + 2 * _HATS * len(self.numeric)]
        return found[: len(self.others)], found[len(self.others) :].reshape(2, len(self.numeric), _HATS)

    def peaks(self) -> NDArray[np.float64]:
        """The most frequent number around the top of each hat, by the bins, shape (2, n_numbers, 8)."""
        zeros = self.zeros.double().numpy()[:, None]
        low, high = -(zeros**0.25), (1 - zeros) ** 0.25
        # Tops of the hats and the limits between them, on both scales.
        places = np.arange(2 * _HATS - 1) / (2 * _HATS - 2)
        roots = low + places * (high - low)
        tops = np.stack([np.broadcast_to(places, roots.shape), zeros + np.sign(roots) * roots**4])
        frequencies = self._raised(np.ones(self.width))[self.width - _BINS * len(self.numeric) :].reshape(-1, _BINS)
        # A number that is missing is encoded as the middle, and nobody need have that.
        frequencies[:, _BINS // 2] = 0.0
        bins = np.minimum(np.floor(tops * _BINS), _BINS - 1).astype(np.int64)
        found = np.empty((2, len(self.numeric), _HATS))
        for scale, number, hat in np.ndindex(found.shape):
            first = bins[scale, number, max(0, 2 * hat - 1)]
            last = bins[scale, number, min(2 * _HATS - 2, 2 * hat + 1)]
            found[scale, number, hat] = (first + frequencies[number, first : last + 1].argmax() + 0.5) / _BINS
        return found

    def hats_of(self, number: float) -> NDArray[np.float64]:
        """The hats of one number, in the place of each, shape (2, n_numbers, 8)."""
        numbers = torch.full((1, len(self.numeric)), number)
        scales = np.stack([scale.double().numpy()[0] for scale in (numbers, self._roots(numbers))])
        return np.maximum(1 - np.abs(scales[:, :, None] * (_HATS - 1) - np.arange(_HATS)), 0.0)

    def _public_weights(self, n_records: float, deviation: float) -> NDArray[np.float64]:
        """Weights by kind of entry: hats of many numbers weigh less, and bins as much as there is evidence for them."""
        n_numbers = max(1, len(self.numeric))
        evidence = n_records / (_RECORDS * max(deviation, _LEAST_DEVIATION))
        hats = min(1.0, math.sqrt(_NUMBERS / n_numbers))
        bins = hats * min(_MOST_FINE, (min(_ALL_FINE, evidence) / n_numbers) ** 3)
        counts = [len(self.others), 2 * _HATS * len(self.numeric), _BINS * len(self.numeric)]
        return np.repeat([1.0, hats, bins], counts)

    def _raised(self, public: NDArray[np.float64]) -> NDArray[np.float64]:
        """Frequencies with the floor added, from the weights that they became beside public ones."""
        return np.asarray((self.weights.double().numpy() / public) ** (1 / _POWER))

    def _others(self, records: Tensor) -> Tensor:
        others = records[:, self.others]
        return others if self.bounded else others.clamp(-_LARGEST_INPUT, _LARGEST_INPUT)

    def _numbers(self, records: Tensor) -> Tensor:
        """Numbers in [0, 1]; what is out of bounds is moved to them."""
        numbers = records[:, self.numeric]
        return numbers.clamp(0.0, 1.0) if self.bounded else (1 + numbers / (1 + numbers.abs())) / 2

    def _roots(self, numbers: Tensor) -> Tensor:
        """Signed fourth roots of the distances from zero, scaled to [0, 1]."""
        # Square roots twice: they are rounded exactly. A power is rounded as its place among the others has it, so that
        # one record would change the rows of others, if only by a last digit.
        low, high = -self.zeros.sqrt().sqrt(), (1 - self.zeros).sqrt().sqrt()
        away = numbers - self.zeros
        # Not sign(): the gradient is never asked for, and ONNX keeps the sign of zero.
        roots = torch.where(away < 0, -(-away).clamp(min=0).sqrt().sqrt(), away.clamp(min=0).sqrt().sqrt())
        return ((roots - low) / (high - low)).clamp(0.0, 1.0)

    def _entries(self, records: Tensor) -> csr_array:
        """Rows before weights and scaling, shape (n_records, width)."""
        others = csr_array(self._others(records).double().numpy())
        if not self.numeric:
            return others
        numbers = self._numbers(records)
        hats = [_hats(scale.double().numpy()) for scale in (numbers, self._roots(numbers))]
        return hstack([others, *hats, _bins(numbers.numpy())], format="csr")

    def _weighed(self, entries: csr_array) -> csr_array:
        entries.data *= self.weights.double().numpy()[entries.indices]
        norms = SparseRows.of(entries).norms.numpy()
        # The norm of a record that is not finite is neither, and it will count for nothing.
        with np.errstate(invalid="ignore"):
            entries.data *= np.repeat(self.norm / np.maximum(norms, _TINY), np.diff(entries.indptr))
        return entries


def _hats(numbers: NDArray[np.float64]) -> csr_array:
    """Hat functions of numbers in [0, 1], two entries for each, shape (n_records, n_numbers · 8)."""
    n_records, n_numbers = numbers.shape
    places = numbers * (_HATS - 1)
    # A number that is not finite stays so in its entries.
    left = np.nan_to_num(np.minimum(np.floor(places), _HATS - 2)).astype(np.int32)
    right = places - left
    columns = left + _HATS * np.arange(n_numbers, dtype=np.int32)
    data, indices = np.stack([1 - right, right], axis=2).ravel(), np.stack([columns, columns + 1], axis=2).ravel()
    starts = 2 * n_numbers * np.arange(n_records + 1, dtype=np.int32)
    return csr_array((data, indices, starts), shape=(n_records, n_numbers * _HATS))


def _bins(numbers: NDArray[np.float32]) -> csr_array:
    """One entry for the bin of each number in [0, 1], shape (n_records, n_numbers · 256)."""
    n_records, n_numbers = numbers.shape
    places = np.minimum(np.floor(numbers * np.float32(_BINS)), _BINS - 1)
    indices = np.nan_to_num(places).astype(np.int32) + _BINS * np.arange(n_numbers, dtype=np.int32)
    starts = n_numbers * np.arange(n_records + 1, dtype=np.int32)
    return csr_array((np.ones(indices.size), indices.ravel(), starts), shape=(n_records, n_numbers * _BINS))


def _stacked(parts: list[csr_array]) -> csr_array:
    """The rows of all parts below one another."""
    if len(parts) == 1:
        return parts[0]
    starts = np.cumsum([0, *(len(part.data) for part in parts)])
    indptr = [part.indptr[1:].astype(np.int64) + start for part, start in zip(parts, starts[:-1], strict=True)]
    entries = (
        np.concatenate([part.data for part in parts]),
        np.concatenate([part.indices for part in parts]),
        np.concatenate([[0], *indptr]),
    )
    return csr_array(entries, shape=(sum(part.shape[0] for part in parts), parts[0].shape[1]))
