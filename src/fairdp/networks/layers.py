"""How the layers that users build with turn their inputs and output gradients into terms."""

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional
from torch.nn.grad import conv1d_weight, conv2d_weight

from fairdp._checks import InputError
from fairdp.networks.terms import EmbeddingTerm, LayerTerm, LinearTerm, PositionsTerm, WrittenTerm

Slices = dict[str, slice]


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
    """Whether the gradients of this layer's own parameters can be had by book-keeping."""
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


_INSTANCE_NORMS = (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)
