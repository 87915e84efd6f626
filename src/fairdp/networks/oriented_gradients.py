"""Public features of images for a linear head: histograms of oriented gradients, and rows around a released mean."""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, pad

from fairdp._checks import ParameterError

ROW_CAP = 6.0
# Norms are computed in single precision.
_MARGIN = 1 - 1e-5

_GRID = 8
_N_ORIENTATIONS = 9
# Dalal and Triggs cap at 0.2; at ε = 1, the AUC on faces was larger with 0.3 on each of nine splits.
_LARGEST_ENTRY = 0.3
# Against the pixels' range of one: contrast that is weaker than this is noise, which scaling must not blow up.
_WEAK_CONTRAST = 0.01


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
        """What is missing to whole coarse cells: left, right, above, below."""
        missing = [2 * self.cell * n - side for n, side in zip(self.n_coarse, self.shape[1:], strict=True)]
        return [part for size in reversed(missing) for part in (size // 2, size - size // 2)]


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


class ImageRows(nn.Module):
    """Oriented gradients around their released mean, in rows of one norm: what stands before the heads on images."""

    asks = "centre"

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


def _nothing(width: int) -> Tensor:
    return torch.zeros(width, dtype=torch.float64)


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
