"""Gradients of every record, layer by layer, as terms: norms and weighted sums without a copy for each record.

A term knows the records' gradients with respect to some parameters by their factors. `BOOKKEEPING` makes the terms of
the layers that users build with from their inputs and output gradients; layers that mix records are refused by name.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.grad import conv1d_weight, conv2d_weight

from fairdp.errors import InputError

Slices = dict[str, slice]

# Entries of a row that are squared and added in single precision: at most that many roundings of 2⁻²⁴ each, which
# change the norm by at most .2 %, a fifth of the margin that clipping keeps; .001 % was seen.
_ADDED_SINGLY = 2**16
_INSTANCE_NORMS = (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)


class Backward(Protocol):
    """From the gradients at the scores to those of all parameters."""

    def __call__(self, score_gradients: Tensor, members: Tensor | None = None) -> "list[LayerTerm]": ...


class LayerTerm(Protocol):
    """The gradients of all records of a batch with respect to some of the parameters."""

    def squared_norms(self) -> Tensor:
        """Squared norm of every record's gradient, shape (n_records,)."""

    def add_weighted_sum(self, coefficients: Tensor, total: Tensor) -> None:
        """Add the records' gradients, each times its coefficient, to the flat ``total``; once only."""

    def erase(self, rows: Tensor) -> None:
        """Forget the records at these rows, whose buffers may hold non-finite numbers."""


@dataclass(frozen=True, eq=False)
class Passed:
    """Records that went forward: their scores z, shape (n_records,), and the way back.

    ``backward`` takes ∂loss/∂z of each record, and the head that each goes to where there are several, to the terms of
    all parameters; once only. A record's ∂loss/∂z may depend on other records through public values alone.
    """

    scores: Tensor
    backward: Backward


def row_norms(rows: Tensor) -> Tensor:
    """Norm of every row, shape (n_rows,), however long: parts of it are added up in double precision.

    Over thirty million equal entries, single precision loses 1.6 % of the norm, and the record would go unclipped.
    """
    if rows.shape[1] <= _ADDED_SINGLY:
        return torch.linalg.vector_norm(rows, dim=1)
    squares = torch.zeros(len(rows), dtype=torch.float64)
    for part in rows.split(_ADDED_SINGLY, dim=1):
        squares += torch.linalg.vector_norm(part, dim=1).double().square_()
    return squares.sqrt_().to(rows.dtype)


@dataclass(eq=False)
class LinearTerm:
    """A linear layer on vectors: gradient d aᵀ, so that ‖gradient‖² = ‖d‖² (‖a‖² + 1) with a bias.

    ``inputs`` a has shape (n_records, n_in), ``deltas`` d has shape (n_records, n_out). The sum uses up the deltas, so
    the term must own them.
    """

    inputs: Tensor
    deltas: Tensor
    weight: slice
    bias: slice | None

    def squared_norms(self) -> Tensor:
        deltas = row_norms(self.deltas)
        products = row_norms(self.inputs).mul_(deltas)
        if self.bias is None:
            return products.mul_(products)
        return deltas.mul_(deltas).addcmul_(products, products)

    def add_weighted_sum(self, coefficients: Tensor, total: Tensor) -> None:
        scaled = self.deltas.mul_(coefficients[:, None])
        total[self.weight].view(scaled.shape[1], -1).addmm_(scaled.T, self.inputs)
        if self.bias is not None:
            total[self.bias].add_(scaled.sum(0))

    def erase(self, rows: Tensor) -> None:
        self.inputs, self.deltas = self.inputs.clone(), self.deltas.clone()
        self.inputs[rows], self.deltas[rows] = 0.0, 0.0


@dataclass(eq=False)
class PositionsTerm:
    """A layer applied at many positions (convolution, linear on sequences): gradient Σ_l d_l a_lᵀ.

    ``inputs`` has shape (n_records, n_in, n_positions), ``deltas`` (n_records, n_out, n_positions). The gradients are
    written out when that is smaller than the Gram matrices of the positions, from which the norm also follows.
    """

    inputs: Tensor
    deltas: Tensor
    weight: slice
    bias: slice | None

    def __post_init__(self) -> None:
        n_in, n_out, n_positions = self.inputs.shape[1], self.deltas.shape[1], self.inputs.shape[2]
        small = n_in * n_out <= 2 * n_positions**2
        self.gradients = torch.bmm(self.deltas, self.inputs.transpose(1, 2)).flatten(1) if small else None

    def squared_norms(self) -> Tensor:
        if self.gradients is not None:
            squares = row_norms(self.gradients).square_()
        else:
            grams = torch.bmm(self.inputs.transpose(1, 2), self.inputs)
            squares = (torch.bmm(self.deltas.transpose(1, 2), self.deltas) * grams).sum((1, 2))
            sizes = torch.linalg.vector_norm(self.inputs, dim=1) * torch.linalg.vector_norm(self.deltas, dim=1)
            squares += rounding_bound(sizes, n_terms=sum(self.inputs.shape[1:]) + self.deltas.shape[1])
        if self.bias is not None:
            squares = squares + row_norms(self.deltas.sum(2)).square_()
        return squares

    def add_weighted_sum(self, coefficients: Tensor, total: Tensor) -> None:
        if self.gradients is not None:
            total[self.weight].addmv_(self.gradients.T, coefficients)
        else:
            scaled = self.deltas * coefficients[:, None, None]
            summed = torch.einsum("nol,nil->oi", scaled, self.inputs)
            total[self.weight].add_(summed.flatten())
        if self.bias is not None:
            total[self.bias].addmv_(self.deltas.sum(2).T, coefficients)

    def erase(self, rows: Tensor) -> None:
        self.inputs, self.deltas = self.inputs.clone(), self.deltas.clone()
        self.inputs[rows], self.deltas[rows] = 0.0, 0.0
        if self.gradients is not None:
            self.gradients[rows] = 0.0


def rounding_bound(sizes: Tensor, *, n_terms: int) -> Tensor:
    r"""Most that rounding can push a squared norm from Gram matrices below its true value.

    The entries are products of dot products; their absolute values add up to at most :math:`(\sum_l s_l)^2`, with
    :math:`s_l` the size of position l, and each is off by at most ``n_terms`` roundings. Where large positions cancel,
    the norm would otherwise be lost and the record go unclipped.
    """
    return n_terms * torch.finfo(sizes.dtype).eps * sizes.sum(1).square()


@dataclass(eq=False)
class WrittenTerm:
    """Gradients written out, shape (n_records, n_parameters): normalisation layers and the ``torch.func`` route."""

    gradients: Tensor
    where: slice

    def squared_norms(self) -> Tensor:
        return row_norms(self.gradients).square_()

    def add_weighted_sum(self, coefficients: Tensor, total: Tensor) -> None:
        total[self.where].addmv_(self.gradients.T, coefficients)

    def erase(self, rows: Tensor) -> None:
        self.gradients = self.gradients.clone()
        self.gradients[rows] = 0.0


@dataclass(eq=False)
class ApartTerm:
    """Coordinates that are clipped with the gradient but belong to no parameter of the model; summed ``into``."""

    gradients: Tensor
    into: Tensor

    def squared_norms(self) -> Tensor:
        return row_norms(self.gradients).square_()

    def add_weighted_sum(self, coefficients: Tensor, total: Tensor) -> None:
        self.into.addmv_(self.gradients.T, coefficients)

    def erase(self, rows: Tensor) -> None:
        self.gradients = self.gradients.clone()
        self.gradients[rows] = 0.0


@dataclass(eq=False)
class EmbeddingTerm:
    """A table of embeddings: rows looked up twice by one record add up before the norm is taken.

    ``indices`` has shape (n_records, n_positions), ``deltas`` (n_records, n_positions, width).
    """

    indices: Tensor
    deltas: Tensor
    weight: slice

    def squared_norms(self) -> Tensor:
        same = self.indices[:, :, None] == self.indices[:, None, :]
        squares = (torch.bmm(self.deltas, self.deltas.transpose(1, 2)) * same).sum((1, 2))
        sizes = torch.linalg.vector_norm(self.deltas, dim=2)
        return squares + rounding_bound(sizes, n_terms=sum(self.deltas.shape[1:]))

    def add_weighted_sum(self, coefficients: Tensor, total: Tensor) -> None:
        width = self.deltas.shape[2]
        scaled = (self.deltas * coefficients[:, None, None]).reshape(-1, width)
        total[self.weight].view(-1, width).index_add_(0, self.indices.flatten(), scaled)

    def erase(self, rows: Tensor) -> None:
        self.deltas = self.deltas.clone()
        self.deltas[rows] = 0.0


@dataclass(eq=False)
class HeadTerm:
    """The linear head, its bias, if any, as last coordinate; ``members`` sends each record to one of several heads.

    ``embeddings`` ξ has shape (n_records, width) and ``score_gradients`` ∂loss/∂z shape (n_records,), or in a joint
    model, where every record pulls at every head, (n_records, n_cells).
    """

    embeddings: Tensor
    score_gradients: Tensor
    where: slice
    members: Tensor | None = None
    bias: bool = True

    def squared_norms(self) -> Tensor:
        pulls = self.score_gradients if self.score_gradients.ndim == 1 else row_norms(self.score_gradients)
        products = row_norms(self.embeddings).mul_(pulls)
        return torch.addcmul(pulls * pulls, products, products) if self.bias else products.square_()

    def add_weighted_sum(self, coefficients: Tensor, total: Tensor) -> None:
        width = self.embeddings.shape[1]
        heads = total[self.where].view(-1, width + self.bias)
        if self.score_gradients.ndim == 2:
            self._add(self.score_gradients * coefficients[:, None], heads)
            return
        scaled = coefficients * self.score_gradients
        if self.members is None:
            heads[0, :width].addmv_(self.embeddings.T, scaled)
            heads[0, width:].add_(scaled.sum())
            return
        self._add(functional.one_hot(self.members, len(heads)).to(scaled.dtype).mul_(scaled[:, None]), heads)

    def _add(self, pulls: Tensor, heads: Tensor) -> None:
        """Add what the records pull at each head, shape (n_records, n_heads)."""
        width = self.embeddings.shape[1]
        heads[:, :width].add_(pulls.T @ self.embeddings)
        heads[:, width:].add_(pulls.sum(0)[:, None])

    def erase(self, rows: Tensor) -> None:
        self.embeddings, self.score_gradients = self.embeddings.clone(), self.score_gradients.clone()
        self.embeddings[rows], self.score_gradients[rows] = 0.0, 0.0


def linear_terms(layer: nn.Module, inputs: Tensor, deltas: Tensor, slices: Slices) -> list[LayerTerm]:
    weight, bias = slices["weight"], slices.get("bias")
    if inputs.ndim == 2:
        # A copy, because autograd hands the same tensor to all branches that are added up.
        return [LinearTerm(inputs, deltas.clone(), weight, bias)]
    flat_inputs = inputs.flatten(1, -2).transpose(1, 2)
    return [PositionsTerm(flat_inputs, deltas.flatten(1, -2).transpose(1, 2), weight, bias)]


def conv_terms(layer: nn.Module, inputs: Tensor, deltas: Tensor, slices: Slices) -> list[LayerTerm]:
    """Gradients written out where that is smaller than the Gram matrices of the positions, factors elsewhere."""
    assert isinstance(layer, (nn.Conv1d, nn.Conv2d))
    if layer.weight.numel() > 2 * deltas[0, 0].numel() ** 2:
        return _factored_conv_terms(layer, inputs, deltas, slices)
    n_records = len(inputs)
    # Records as groups of one large convolution: its weight gradient is theirs, side by side.
    weight_gradient: Callable[..., Tensor] = conv1d_weight if isinstance(layer, nn.Conv1d) else conv2d_weight
    gradients = weight_gradient(
        inputs.reshape(1, -1, *inputs.shape[2:]),
        (n_records * layer.out_channels, *layer.weight.shape[1:]),
        deltas.reshape(1, -1, *deltas.shape[2:]),
        layer.stride,
        _padding_of(layer),
        layer.dilation,
        n_records * layer.groups,
    )
    terms: list[LayerTerm] = [WrittenTerm(gradients.view(n_records, -1), slices["weight"])]
    if "bias" in slices:
        terms.append(WrittenTerm(deltas.flatten(2).sum(2), slices["bias"]))
    return terms


def _factored_conv_terms(
    layer: nn.Conv1d | nn.Conv2d, inputs: Tensor, deltas: Tensor, slices: Slices
) -> list[LayerTerm]:
    """One term per block of channels (``groups`` of the layer); the 1-d case is an image of height one."""
    one, zero = ((1,), (0,)) if isinstance(layer, nn.Conv1d) else ((), ())
    patches = functional.unfold(
        inputs[:, :, None] if isinstance(layer, nn.Conv1d) else inputs,
        kernel_size=(*one, *layer.kernel_size),
        dilation=(*one, *layer.dilation),
        padding=(*zero, *_padding_of(layer)),
        stride=(*one, *layer.stride),
    )
    columns = zip(patches.chunk(layer.groups, 1), deltas.flatten(2).chunk(layer.groups, 1), strict=True)
    return [
        PositionsTerm(
            patch,
            delta,
            _part(slices["weight"], block, layer.groups),
            _part(slices["bias"], block, layer.groups) if "bias" in slices else None,
        )
        for block, (patch, delta) in enumerate(columns)
    ]


def _padding_of(layer: nn.Conv1d | nn.Conv2d) -> tuple[int, ...]:
    if layer.padding == "valid":
        return (0,) * len(layer.kernel_size)
    assert not isinstance(layer.padding, str)
    return tuple(layer.padding)


def _part(where: slice, block: int, n_blocks: int) -> slice:
    size = (where.stop - where.start) // n_blocks
    return slice(where.start + block * size, where.start + (block + 1) * size)


def embedding_terms(layer: nn.Module, inputs: Tensor, deltas: Tensor, slices: Slices) -> list[LayerTerm]:
    assert isinstance(layer, nn.Embedding)
    indices = inputs.reshape(len(inputs), -1)
    deltas = deltas.reshape(*indices.shape, layer.embedding_dim)
    if layer.padding_idx is not None:
        deltas = deltas * (indices != layer.padding_idx)[:, :, None]
    return [EmbeddingTerm(indices, deltas, slices["weight"])]


def layer_norm_terms(layer: nn.Module, inputs: Tensor, deltas: Tensor, slices: Slices) -> list[LayerTerm]:
    assert isinstance(layer, nn.LayerNorm)
    normalised = functional.layer_norm(inputs, layer.normalized_shape, eps=layer.eps)
    middle = (len(inputs), -1, layer.weight.numel())
    return _scale_and_shift_terms(normalised.reshape(middle), deltas.reshape(middle), slices, positions_at=1)


def group_norm_terms(layer: nn.Module, inputs: Tensor, deltas: Tensor, slices: Slices) -> list[LayerTerm]:
    assert isinstance(layer, nn.GroupNorm)
    normalised = functional.group_norm(inputs, layer.num_groups, eps=layer.eps)
    middle = (len(inputs), layer.num_channels, -1)
    return _scale_and_shift_terms(normalised.reshape(middle), deltas.reshape(middle), slices, positions_at=2)


def _scale_and_shift_terms(normalised: Tensor, deltas: Tensor, slices: Slices, *, positions_at: int) -> list[LayerTerm]:
    terms: list[LayerTerm] = [WrittenTerm((deltas * normalised).sum(positions_at), slices["weight"])]
    if "bias" in slices:
        terms.append(WrittenTerm(deltas.sum(positions_at), slices["bias"]))
    return terms


TermsOfLayer = Callable[[nn.Module, Tensor, Tensor, Slices], list[LayerTerm]]

# The layers whose per-record gradients are known in closed form.
BOOKKEEPING: dict[type[nn.Module], TermsOfLayer] = {
    nn.Linear: linear_terms,
    nn.Conv1d: conv_terms,
    nn.Conv2d: conv_terms,
    nn.Embedding: embedding_terms,
    nn.LayerNorm: layer_norm_terms,
    nn.GroupNorm: group_norm_terms,
}


def has_bookkeeping(layer: nn.Module) -> bool:
    """True if the gradients of this layer's own parameters can be had by book-keeping."""
    if isinstance(layer, (nn.Conv1d, nn.Conv2d)) and (layer.padding_mode != "zeros" or layer.padding == "same"):
        return False
    return type(layer) in BOOKKEEPING


def refuse_mixing_layers(extractor: nn.Module) -> None:
    """Refuse, by name, layers with which a record's contribution would not be its own."""
    for name, layer in extractor.named_modules():
        reason = why_refused(layer)
        if reason:
            raise InputError(f"layer {name or 'extractor'!r} ({type(layer).__name__}) {reason}.")


def refuse_tied_parameters(extractor: nn.Module) -> None:
    """Refuse a trained parameter that stands at two places: a saved model holds each place as one of its own."""
    first: dict[int, str] = {}
    for name, parameter in extractor.named_parameters(remove_duplicate=False):
        other = first.setdefault(id(parameter), name)
        if other != name and parameter.requires_grad:
            raise InputError(
                f"the module uses one parameter at two places, {other!r} and {name!r}; give each layer its own, or "
                "freeze it (requires_grad=False)."
            )


def why_refused(layer: nn.Module) -> str | None:
    """Why a layer breaks the per-record bound, and what to use instead; None if it does not."""
    if isinstance(layer, nn.modules.batchnorm._NormBase) and not isinstance(layer, _INSTANCE_NORMS):
        return "mixes the records of a batch; use nn.GroupNorm or nn.LayerNorm"
    if isinstance(layer, _INSTANCE_NORMS) and layer.track_running_stats:
        return "keeps running statistics of private records; set track_running_stats=False"
    if isinstance(layer, (nn.Embedding, nn.EmbeddingBag)) and (layer.max_norm is not None or layer.scale_grad_by_freq):
        return "changes with the batch; leave max_norm and scale_grad_by_freq unset"
    return None
