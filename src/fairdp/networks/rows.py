"""Rows before the heads that no training changes: linear splines and bins of tables, oriented gradients of images.

The only numbers in them that come from records are a released mean or released frequencies.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array, hstack
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, pad

from fairdp.errors import ParameterError

# Norm above which a row of image features is shortened before the mean of all rows is released.
ROW_CAP = 6.0
# Norms are computed in single precision.
_MARGIN = 1 - 1e-5
# Cells along a side of an image, and orientations in each.
_GRID = 8
_N_ORIENTATIONS = 9
# Dalal and Triggs cap at 0.2; at ε = 1, the AUC on faces was larger with 0.3 on each of nine splits.
_LARGEST_ENTRY = 0.3
# Against the pixels' range of one: contrast that is weaker than this is noise, which scaling must not blow up.
_WEAK_CONTRAST = 0.01
# Linear splines on each of two scales, and bins, of a number.
_SPLINES, _BINS = 8, 256
_PER_NUMBER = 2 * _SPLINES + _BINS
# Beyond four, the numbers of a table together weigh as much as four.
_NUMBERS = 4.0
# Bins pay where there are many records for the noise and few numbers: their weight is that of the splines, times
# min(1.5, (min(7, n / (85 σ)) / p)³) for p numbers and noise of deviation σ on the answers, taken as 24 at least.
_MOST_FINE, _ALL_FINE, _RECORDS, _LEAST_DEVIATION = 1.5, 7.0, 85.0, 24.0
# Weight of an entry: (its frequency + 6 σ / n) to this power.
_FLOOR, _POWER = 6.0, -0.4
# Of inputs that nobody declared: most are standardised, and what is further out is rare.
_LARGEST_INPUT = 3.0
# Rows that are made at once: enough to be fast, few enough for a cache.
_CHUNK = 8192
# A row of zeros stays one when it is scaled.
_TINY = 1e-6
# What rounding may add to a norm that is computed in double precision.
_DOUBLE_MARGIN = 1 - 1e-6


@dataclass(eq=False)
class SparseRows:
    """Rows of embeddings as a compressed matrix, in double precision: sums over many records keep their bounds.

    scipy multiplies a row of forty entries by a few heads in a fifth of the time that a dense row of 800 takes.
    ``norms`` are those of the rows, shape (n_rows,).
    """

    matrix: csr_array
    norms: Tensor

    @classmethod
    def of(cls, matrix: csr_array) -> "SparseRows":
        """Rows, with their norms."""
        rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        squares = np.bincount(rows, weights=np.square(matrix.data), minlength=matrix.shape[0])
        return cls(matrix, torch.from_numpy(np.sqrt(squares)))

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    @property
    def width(self) -> int:
        return int(self.matrix.shape[1])

    def between(self, start: int, stop: int) -> "SparseRows":
        """Consecutive rows; they share the memory."""
        matrix = self.matrix
        entries = slice(matrix.indptr[start], matrix.indptr[stop])
        starts = matrix.indptr[start : stop + 1] - matrix.indptr[start]
        shape = (stop - start, matrix.shape[1])
        part = csr_array((matrix.data[entries], matrix.indices[entries], starts), shape=shape)
        return SparseRows(part, self.norms[start:stop])

    def at(self, chosen: Tensor) -> "SparseRows":
        """The rows at these positions."""
        return SparseRows(self.matrix[chosen.numpy()], self.norms[chosen])

    def times(self, weights: Tensor) -> Tensor:
        """Rows times weights of shape (width, n_outputs)."""
        return torch.from_numpy(self.matrix @ np.ascontiguousarray(weights.double().numpy()))

    def transposed_times(self, coefficients: Tensor) -> Tensor:
        """The sum over rows, each times its coefficients of shape (n_outputs,); shape (width, n_outputs)."""
        return torch.from_numpy(self._transposed @ coefficients.double().numpy())

    @cached_property
    def _transposed(self) -> csc_array:
        return self.matrix.T

    def without(self, rows: Tensor) -> "SparseRows":
        """The same with zeros in the rows that are marked, which may hold non-finite numbers."""
        matrix = self.matrix.copy()
        matrix.data[np.repeat(rows.numpy(), np.diff(matrix.indptr))] = 0.0
        return SparseRows(matrix, self.norms.masked_fill(rows, 0.0))


@dataclass(eq=False)
class SparseHeadTerm:
    """Gradients of the heads of a joint model: the outer product of what a row pulls at each head, and the row.

    ``score_gradients`` d has shape (n_records, n_cells), so that ‖gradient‖² = ‖d‖² (‖row‖² + 1).
    """

    rows: SparseRows
    score_gradients: Tensor
    where: slice

    def squared_norms(self) -> Tensor:
        return self.score_gradients.square().sum(1).mul_(self.rows.norms.square() + 1)

    def add_weighted_sum(self, coefficients: Tensor, total: Tensor) -> None:
        scaled = self.score_gradients * coefficients[:, None]
        heads = total[self.where].view(-1, self.rows.width + 1)
        heads[:, :-1] += self.rows.transposed_times(scaled).T
        heads[:, -1] += scaled.sum(0)

    def erase(self, rows: Tensor) -> None:
        self.rows, self.score_gradients = self.rows.without(rows), self.score_gradients.clone()
        self.score_gradients[rows] = 0.0


class SplineFeatures(nn.Module):
    r"""A public map of a record's inputs to a long row of few entries, scaled to one norm.

    A number :math:`u \in [0, 1]` becomes eight linear splines on its own scale, eight on that of its signed fourth
    root, which tells small values of a heavy tail apart, and 256 bins, which see codes and spikes. Every other input is
    an entry as it is. Entries are multiplied by weights that follow from released frequencies: noise is the same in all
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

    query = "frequencies"
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
            nodes, bins = torch.arange(_SPLINES, dtype=numbers.dtype), torch.arange(_BINS, dtype=numbers.dtype)
            for scale in (numbers, self._roots(numbers)):
                parts.append(torch.relu(1 - (scale[:, :, None] * (_SPLINES - 1) - nodes).abs()).flatten(1))
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
        """Frequency of each entry, over what one record may have in all; nothing for a record that is not finite."""
        total = np.zeros(self.width)
        for part in records.split(_CHUNK):
            entries = self._entries(part[part.isfinite().all(1)])
            squares = SparseRows.of(entries).norms.numpy() ** 2
            # Of a record that is not as declared, only so much counts.
            scales = np.repeat(
                _DOUBLE_MARGIN / np.sqrt(np.maximum(squares, self.most_squares)), np.diff(entries.indptr)
            )
            total += np.bincount(entries.indices, weights=np.abs(entries.data) * scales, minlength=self.width)
        return torch.from_numpy(total)

    def learn(self, noisy: Tensor, *, n_records: float, deviation: float) -> None:
        """The weights, from noisy frequencies; ``deviation`` is that of the noise on the answers."""
        frequencies = noisy.double().numpy().clip(min=0.0) * math.sqrt(self.most_squares) / n_records
        floor = _FLOOR * max(deviation, 1.0) / n_records
        weights = self._public_weights(n_records, deviation) * (frequencies + floor) ** _POWER
        self.weights.copy_(torch.from_numpy(weights))

    def released(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Noisy frequencies, each with the floor added: of the other inputs, and of splines, shape (2, n_numbers, 8).

        They stand in the weights, which are public.
        """
        found = self._raised(self._public_weights(1.0, 1.0))[: len(self.others) + 2 * _SPLINES * len(self.numeric)]
        return found[: len(self.others)], found[len(self.others) :].reshape(2, len(self.numeric), _SPLINES)

    def peaks(self) -> NDArray[np.float64]:
        """The most frequent number around the top of each spline, by the bins, shape (2, n_numbers, 8)."""
        zeros = self.zeros.double().numpy()[:, None]
        low, high = -(zeros**0.25), (1 - zeros) ** 0.25
        # Tops of the splines and the limits between them, on both scales.
        places = np.arange(2 * _SPLINES - 1) / (2 * _SPLINES - 2)
        roots = low + places * (high - low)
        tops = np.stack([np.broadcast_to(places, roots.shape), zeros + np.sign(roots) * roots**4])
        frequencies = self._raised(np.ones(self.width))[self.width - _BINS * len(self.numeric) :].reshape(-1, _BINS)
        # A number that is missing is encoded as the middle, and nobody need have that.
        frequencies[:, _BINS // 2] = 0.0
        # A top at zero may come out a little below it.
        bins = np.clip(np.floor(tops * _BINS), 0, _BINS - 1).astype(np.int64)
        found = np.empty((2, len(self.numeric), _SPLINES))
        for scale, number, spline in np.ndindex(found.shape):
            first = bins[scale, number, max(0, 2 * spline - 1)]
            last = bins[scale, number, min(2 * _SPLINES - 2, 2 * spline + 1)]
            found[scale, number, spline] = (first + frequencies[number, first : last + 1].argmax() + 0.5) / _BINS
        return found

    def hats_of(self, number: float) -> NDArray[np.float64]:
        """The splines of one number, in the place of each, shape (2, n_numbers, 8)."""
        numbers = torch.full((1, len(self.numeric)), number)
        scales = np.stack([scale.double().numpy()[0] for scale in (numbers, self._roots(numbers))])
        return np.maximum(1 - np.abs(scales[:, :, None] * (_SPLINES - 1) - np.arange(_SPLINES)), 0.0)

    def _public_weights(self, n_records: float, deviation: float) -> NDArray[np.float64]:
        """Weights by kind of entry: splines of many numbers weigh less, bins as much as there is evidence for."""
        n_numbers = max(1, len(self.numeric))
        evidence = n_records / (_RECORDS * max(deviation, _LEAST_DEVIATION))
        splines = min(1.0, math.sqrt(_NUMBERS / n_numbers))
        bins = splines * min(_MOST_FINE, (min(_ALL_FINE, evidence) / n_numbers) ** 3)
        counts = [len(self.others), 2 * _SPLINES * len(self.numeric), _BINS * len(self.numeric)]
        return np.repeat([1.0, splines, bins], counts)

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
        splines = [_linear_splines(scale.double().numpy()) for scale in (numbers, self._roots(numbers))]
        return hstack([others, *splines, _bins(numbers.numpy())], format="csr")

    def _weighed(self, entries: csr_array) -> csr_array:
        entries.data *= self.weights.double().numpy()[entries.indices]
        norms = SparseRows.of(entries).norms.numpy()
        # The norm of a record that is not finite is neither, and it will count for nothing.
        with np.errstate(invalid="ignore"):
            entries.data *= np.repeat(self.norm / np.maximum(norms, _TINY), np.diff(entries.indptr))
        return entries


def _linear_splines(numbers: NDArray[np.float64]) -> csr_array:
    """Linear splines of numbers in [0, 1], two entries for each, shape (n_records, n_numbers · 8)."""
    n_records, n_numbers = numbers.shape
    places = numbers * (_SPLINES - 1)
    # A number that is not finite stays so in its entries.
    left = np.nan_to_num(np.minimum(np.floor(places), _SPLINES - 2)).astype(np.int32)
    right = places - left
    columns = left + _SPLINES * np.arange(n_numbers, dtype=np.int32)
    data, indices = np.stack([1 - right, right], axis=2).ravel(), np.stack([columns, columns + 1], axis=2).ravel()
    starts = 2 * n_numbers * np.arange(n_records + 1, dtype=np.int32)
    return csr_array((data, indices, starts), shape=(n_records, n_numbers * _SPLINES))


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


class ImageRows(nn.Module):
    """Oriented gradients around their released mean, in rows of one norm: what stands before the heads on images."""

    query = "centre"

    def __init__(self, shape: tuple[int, ...], *, norm: float) -> None:
        super().__init__()
        self.features = OrientedGradients(shape)
        self.width = self.features.n_features
        self.centred = CentredRows(torch.zeros(self.width), norm)

    def forward(self, images: Tensor) -> Tensor:
        rows: Tensor = self.centred(self.features(images))
        return rows

    @torch.no_grad()
    def answers(self, records: Tensor) -> Tensor:
        """The sum of the capped rows of these images."""
        # Few at a time: what stands between pixels and features then stays in the cache.
        return sum(
            (capped_rows(self.features(part)).double().sum(0) for part in records.split(64)), _nothing(self.width)
        )

    def learn(self, noisy: Tensor, *, n_records: float, deviation: float) -> None:
        """Take the mean from the noisy sum."""
        self.centred.mean.copy_(ROW_CAP * noisy / n_records)


class CentredRows(nn.Module):
    """Rows minus a released mean, scaled to one norm: what most records share says nothing, and costs clipping.

    Parameters
    ----------
    mean
        Mean of `capped_rows`, with noise: it was released, so it is saved and exported with the model.
    norm
        Norm of every row behind this layer, B. The head's bias sees a one beside it.
    """

    mean: Tensor

    def __init__(self, mean: Tensor, norm: float) -> None:
        super().__init__()
        if not (norm > 0 and math.isfinite(norm)):
            raise ParameterError("norm", norm, "must be positive and finite")
        self.norm = norm
        self.register_buffer("mean", mean.clone())

    def forward(self, rows: Tensor) -> Tensor:
        centred = rows - self.mean
        norms = torch.linalg.vector_norm(centred, dim=1, keepdim=True)
        return torch.where(norms.isfinite(), centred * (self.norm / norms.clamp(min=1e-12)), 0.0)


def capped_rows(rows: Tensor) -> Tensor:
    """Rows of norm one at most, in units of `ROW_CAP`: one record moves their sum by one at most."""
    norms = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return torch.where(norms.isfinite(), _MARGIN * rows / norms.clamp(min=ROW_CAP), 0.0)


def _nothing(width: int) -> Tensor:
    return torch.zeros(width, dtype=torch.float64)


class OrientedGradients(nn.Module):
    r"""Histograms of oriented gradients at two scales; nothing is trained and no record sees another.

    A pixel's gradient :math:`g` votes for the two nearest of 18 directions :math:`u_k`, 20° apart, with its coordinates
    along them, :math:`\max(0, \langle g, u_k\rangle - \cot 20° \, |\langle g, u_k^\perp\rangle|)`: linear interpolation
    between directions, whose votes add up to :math:`\|g\|` within 1.6 %. Fine cells add the votes of opposite
    directions (9 unsigned orientations), coarse cells of twice the side keep the sign (9 directions, 40° apart). The
    cells of each 2 × 2 block are scaled to norm one together, and no entry is larger than 0.3.

    Cells grow with the image, so that some 8 × 8 of them cover it: there are 2,088 features for square images of 48
    pixels, where cells have 6 and 12, and about as many for any other: noise, not resolution, bounds how many can be
    learnt from. Pixel values are meant to be in [0, 1]; an entry that is not finite becomes zero.

    Parameters
    ----------
    shape
        (channels, height, width) of an image. Of several channels, each pixel takes the one with the largest gradient:
        the mean of channels would lose edges between colours of equal brightness.

    References
    ----------
    Dalal and Triggs (2005), "Histograms of oriented gradients for human detection", Section 6.
    """

    directions: Tensor

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        if len(shape) != 3 or min(shape) < 1 or min(shape[1:]) < _GRID:
            needed = f"needs images of shape (channels, height, width) with at least {_GRID} × {_GRID} pixels"
            raise ParameterError("model", "oriented_gradients", f"{needed}, got {shape}")
        self.shape = shape
        self.cell = math.ceil(math.sqrt(shape[1] * shape[2]) / _GRID)
        # Two coarse cells at least: a block needs them.
        self.n_coarse = tuple(max(2, math.ceil(side / (2 * self.cell))) for side in shape[1:])
        # Of no record, and the same for every model: no state to save.
        self.register_buffer("directions", _directions(), persistent=False)

    @property
    def n_features(self) -> int:
        high, wide = self.n_coarse
        n_blocks = (2 * high - 1) * (2 * wide - 1) + (high - 1) * (wide - 1)
        return 4 * _N_ORIENTATIONS * n_blocks

    def forward(self, images: Tensor) -> Tensor:
        ahead, behind = self._votes(_strongest_gradients(images))
        fine = ahead + behind
        coarse = 4 * avg_pool2d(_every_second(torch.cat([ahead, behind], 1)), 2)
        features = torch.cat([_blocks(fine), _blocks(coarse)], 1)
        return torch.where(features.isfinite(), features, 0.0)

    def _votes(self, gradients: Tensor) -> tuple[Tensor, Tensor]:
        """Mean votes in each fine cell for nine directions and for their opposites, twice (n, 9, rows, columns)."""
        along, across = torch.nn.functional.conv2d(gradients, self.directions).chunk(2, 1)
        across = across.abs()
        margins = self._margins()
        return (
            avg_pool2d(pad(torch.relu(along - across), margins), self.cell),
            avg_pool2d(pad(torch.relu(-along - across), margins), self.cell),
        )

    def _margins(self) -> list[int]:
        """Pixels missing to whole coarse cells: left, right, above, below."""
        missing = [2 * self.cell * n - side for n, side in zip(self.n_coarse, self.shape[1:], strict=True)]
        return [part for size in reversed(missing) for part in (size // 2, size - size // 2)]


def _directions() -> Tensor:
    """Nine unit vectors over half a turn, then those across them times cot 20°, shape (18, 2, 1, 1)."""
    step = math.pi / _N_ORIENTATIONS
    angles = step * torch.arange(_N_ORIENTATIONS, dtype=torch.float64)
    along = torch.stack([angles.cos(), angles.sin()], 1)
    across = torch.stack([-angles.sin(), angles.cos()], 1) / math.tan(step)
    return torch.cat([along, across]).float()[:, :, None, None]


def _strongest_gradients(images: Tensor) -> Tensor:
    """Central differences to the right and downwards, shape (n, 2, height, width)."""
    # Beyond its border an image goes on as it is there.
    padded = pad(images, [1, 1, 1, 1], mode="replicate")
    right = padded[:, :, 1:-1, 2:] - padded[:, :, 1:-1, :-2]
    down = padded[:, :, 2:, 1:-1] - padded[:, :, :-2, 1:-1]
    if images.shape[1] > 1:
        strongest = (right.square() + down.square()).argmax(1, keepdim=True)
        right, down = right.gather(1, strongest), down.gather(1, strongest)
    return torch.cat([right, down], 1)


def _every_second(votes: Tensor) -> Tensor:
    """Votes for 9 directions 40° apart from those for 18: the directions between them go to either side by half."""
    before, after = votes.roll(1, 1), votes.roll(-1, 1)
    return (votes + (before + after) / 2)[:, ::2]


def _blocks(cells: Tensor) -> Tensor:
    """Every 2 × 2 cells that touch, scaled to norm one and capped, shape (n, n_features)."""
    blocks = torch.stack([cells[:, :, :-1, :-1], cells[:, :, :-1, 1:], cells[:, :, 1:, :-1], cells[:, :, 1:, 1:]], 1)
    energy = blocks.square().sum((1, 2), keepdim=True)
    return (blocks / (energy + _WEAK_CONTRAST**2).sqrt()).clamp(max=_LARGEST_ENTRY).flatten(1)
