"""One forward and one backward pass over a batch, giving every record's gradient as terms.

Three routes to the same terms: stacks of linear layers and activations are differentiated by hand, in place and
without autograd; other modules made of known layers through hooks; the rest record by record with ``torch.func``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from fairdp.training.gradients import HeadTerm, LayerTerm, LinearTerm, WrittenTerm
from fairdp.training.layers import BOOKKEEPING, has_bookkeeping, why_refused
from fairdp.training.models import ScoreModel, UnitNorm

# Maps scores z to ∂loss/∂z, record by record: the loss may not couple records other than through public values.
ScoreGradient = Callable[[Tensor], Tensor]


class Backprop(Protocol):
    """The gradients of a batch; ``members`` sends each record to one of several heads (DP-MC)."""

    def __call__(self, X: Tensor, score_gradient: ScoreGradient, members: Tensor | None) -> list[LayerTerm]: ...


def backprop_of(model: ScoreModel) -> Backprop:
    """The fastest route that is right for this model; refuses layers that mix records, by name."""
    for name, layer in model.extractor.named_modules():
        reason = why_refused(layer)
        if reason:
            raise ValueError(f"layer {name or 'extractor'!r} ({type(layer).__name__}) {reason}.")
        if hasattr(layer, "inplace"):
            layer.inplace = False
    if LinearStack.fits(model.extractor):
        return LinearStack(model)
    check_records_stay_apart(model)
    written = RecordByRecord(model)
    if not _all_bookkept(model.extractor):
        return written
    hooked = Hooked(model)
    return hooked if _agree(hooked, written, model) else written


class LinearStack:
    """Linear layers and activations, differentiated by hand: as fast as a plain step without privacy."""

    forward: ClassVar[dict[type[nn.Module], Callable[[Tensor], Tensor]]] = {
        nn.ReLU: torch.relu_,
        nn.Tanh: torch.tanh_,
        UnitNorm: UnitNorm(),
    }
    # Each from the gradient at the output, the input and the output; an in-place activation has lost its input.
    backward: ClassVar[dict[type[nn.Module], Callable[[Tensor, Tensor, Tensor], Tensor]]] = {
        nn.ReLU: lambda deltas, _, outputs: torch.ops.aten.threshold_backward(deltas, outputs, 0),
        nn.Tanh: lambda deltas, _, outputs: torch.ops.aten.tanh_backward(deltas, outputs),
        UnitNorm: UnitNorm.backward,
    }

    def __init__(self, model: ScoreModel) -> None:
        self.model = model
        children = model.extractor.named_children() if isinstance(model.extractor, nn.Sequential) else []
        self.steps: list[_Affine | type[nn.Module]] = [
            _Affine.of(layer, name, model.slices) if isinstance(layer, nn.Linear) else type(layer)
            for name, layer in children
            if not isinstance(layer, nn.Flatten)
        ]

    @classmethod
    def fits(cls, extractor: nn.Module) -> bool:
        """Whether the extractor is empty or a flat sequence of known layers that starts with a linear one."""
        layers = list(extractor.children()) if isinstance(extractor, nn.Sequential) else [extractor]
        layers = [layer for layer in layers if not isinstance(layer, nn.Flatten)]
        # Activations work in place: they may overwrite the output of a linear layer, never the data.
        starts_linear = not layers or isinstance(layers[0], nn.Linear)
        is_sequence = isinstance(extractor, (nn.Sequential, nn.Flatten))
        return is_sequence and starts_linear and all(type(m) in (nn.Linear, *cls.forward) for m in layers)

    @torch.inference_mode()
    def __call__(self, X: Tensor, score_gradient: ScoreGradient, members: Tensor | None) -> list[LayerTerm]:
        outputs = [X.flatten(1)]
        for step in self.steps:
            apply = step if isinstance(step, _Affine) else self.forward[step]
            outputs.append(apply(outputs[-1]))
        head = self.model.heads[0]
        dz = score_gradient(torch.addmv(head[-1], outputs[-1], head[:-1]))
        where = slice(self.model.n_extractor_params, None)
        terms: list[LayerTerm] = [HeadTerm(outputs[-1], dz, where, members)]
        deltas = torch.outer(dz, head[:-1]) if self.steps else dz
        for index in reversed(range(len(self.steps))):
            step = self.steps[index]
            if isinstance(step, _Affine):
                terms.append(LinearTerm(outputs[index], deltas, step.weight_at, step.bias_at))
                deltas = deltas @ step.weight if index else deltas
            else:
                deltas = self.backward[step](deltas, outputs[index], outputs[index + 1])
        return terms


@dataclass(frozen=True, eq=False)
class _Affine:
    weight: Tensor
    bias: Tensor | None
    weight_at: slice
    bias_at: slice | None

    @classmethod
    def of(cls, layer: nn.Linear, name: str, slices: dict[str, slice]) -> "_Affine":
        return cls(layer.weight, layer.bias, slices[f"{name}.weight"], slices.get(f"{name}.bias"))

    def __call__(self, inputs: Tensor) -> Tensor:
        return functional.linear(inputs, self.weight, self.bias)


class Hooked:
    """Known layers in any arrangement: hooks keep each layer's input and ask autograd for its output's gradient.

    The parameters do not require gradients, so autograd computes none for them.
    """

    def __init__(self, model: ScoreModel) -> None:
        self.model = model
        self.calls: list[tuple[str, nn.Module, Tensor, Tensor]] = []
        self.layers = [(n, m) for n, m in model.extractor.named_modules() if _own_parameters(m)]

    def __call__(self, X: Tensor, score_gradient: ScoreGradient, members: Tensor | None) -> list[LayerTerm]:
        with torch.enable_grad():
            embeddings = self._embed(X)
        head = self.model.heads[0]
        dz = score_gradient(torch.addmv(head[-1], embeddings.detach(), head[:-1]))
        where = slice(self.model.n_extractor_params, None)
        terms: list[LayerTerm] = [HeadTerm(embeddings.detach(), dz, where, members)]
        calls, self.calls = self.calls, []
        if calls:
            outputs = [output for *_, output in calls]
            grads = torch.autograd.grad(
                embeddings, outputs, torch.outer(dz, head[:-1]), allow_unused=True, materialize_grads=True
            )
            for (name, layer, inputs, _), deltas in zip(calls, grads, strict=True):
                terms += BOOKKEEPING[type(layer)](layer, inputs.detach(), deltas, self._slices(name, layer))
        return terms

    def _embed(self, X: Tensor) -> Tensor:
        handles = [layer.register_forward_hook(self._keeper(name)) for name, layer in self.layers]
        try:
            return self.model.embed(X)
        finally:
            for handle in handles:
                handle.remove()

    def _keeper(self, name: str) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
        def keep(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            if not output.requires_grad:
                output.requires_grad_()
            self.calls.append((name, layer, inputs[0], output))

        return keep

    def _slices(self, name: str, layer: nn.Module) -> dict[str, slice]:
        prefix = f"{name}." if name else ""
        return {own: self.model.slices[prefix + own] for own, _ in layer.named_parameters(recurse=False)}


class RecordByRecord:
    """Any module: ``torch.func`` sees one record at a time, so records cannot mix."""

    def __init__(self, model: ScoreModel) -> None:
        self.model = model

    def __call__(self, X: Tensor, score_gradient: ScoreGradient, members: Tensor | None) -> list[LayerTerm]:
        params = {name: value.detach() for name, value in self.model.extractor.named_parameters()}
        buffers = dict(self.model.extractor.named_buffers())

        def embed(own: dict[str, Tensor], record: Tensor) -> Tensor:
            call = torch.func.functional_call(self.model.extractor, (own, buffers), (record[None],))
            return call.flatten()

        def pull(own: dict[str, Tensor], record: Tensor, delta: Tensor) -> Tensor:
            return embed(own, record) @ delta

        embeddings = torch.func.vmap(embed, (None, 0), randomness="different")(params, X)
        head = self.model.heads[0]
        dz = score_gradient(embeddings @ head[:-1] + head[-1])
        where = slice(self.model.n_extractor_params, None)
        terms: list[LayerTerm] = [HeadTerm(embeddings, dz, where, members)]
        if not params:
            return terms
        deltas = torch.outer(dz, head[:-1])
        grads = torch.func.vmap(torch.func.grad(pull), (None, 0, 0), randomness="different")(params, X, deltas)
        return terms + [WrittenTerm(grads[name].flatten(1), self.model.slices[name]) for name in params]


def check_records_stay_apart(model: ScoreModel) -> None:
    """Refuse a module that lets one record's embedding depend on another, or that remembers what it saw.

    The probe is public noise; no private record is needed to find out.
    """
    probe = _probe(model)
    dropouts = [m for m in model.extractor.modules() if isinstance(m, nn.modules.dropout._DropoutNd) and m.training]
    for layer in dropouts:
        layer.eval()
    before = [buffer.clone() for buffer in model.extractor.buffers()]
    with torch.no_grad():
        together = model.embed(probe)
        apart = torch.cat([model.embed(record[None]) for record in probe])
    for layer in dropouts:
        layer.train()
    if any(not torch.equal(a, b) for a, b in zip(before, model.extractor.buffers(), strict=True)):
        raise ValueError("the module changes its buffers in forward, so it would remember private records.")
    if together.shape != apart.shape or not torch.allclose(together, apart, rtol=1e-3, atol=1e-4):
        raise ValueError(
            "the module lets the records of a batch influence each other; every record must be embedded on its own."
        )


def _probe(model: ScoreModel) -> Tensor:
    return torch.rand(4, *model.shape, generator=torch.Generator().manual_seed(0))


def _own_parameters(module: nn.Module) -> bool:
    return next(module.parameters(recurse=False), None) is not None


def _all_bookkept(extractor: nn.Module) -> bool:
    return all(has_bookkeeping(m) for m in extractor.modules() if _own_parameters(m))


def _agree(hooked: Hooked, written: RecordByRecord, model: ScoreModel) -> bool:
    """Whether book-keeping and torch.func agree on public noise; tied or re-used weights make them differ."""
    probe = _probe(model)
    if any(isinstance(m, nn.modules.dropout._DropoutNd) for m in model.extractor.modules()):
        return False
    sums = []
    for route in (hooked, written):
        total = torch.zeros_like(model.params)
        norms = torch.zeros(len(probe))
        for term in route(probe, torch.ones_like, None):
            norms += term.squared_norms()
            term.add_weighted_sum(torch.ones(len(probe)), total)
        sums.append((norms, total))
    return all(torch.allclose(a, b, rtol=1e-3, atol=1e-5) for a, b in zip(*sums, strict=True))
