"""One forward and one backward pass over a batch, giving every record's gradient as terms.

Three routes to the same terms: stacks of linear layers and activations are differentiated by hand, in place and
without autograd; other modules made of known layers through hooks; the rest record by record with ``torch.func``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from fairdp.training.gradients import HeadTerm, LayerTerm, ScoreGradient, WrittenTerm
from fairdp.training.inspection import (
    all_bookkept,
    check_records_stay_apart,
    draws_at_random,
    is_trained,
    public_probe,
    slices_of,
)
from fairdp.training.layers import BOOKKEEPING
from fairdp.training.models import ScoreModel
from fairdp.training.stack import LinearStack


class Backprop(Protocol):
    """The gradients of a batch; ``members`` sends each record to one of several heads (DP-MC)."""

    def __call__(self, X: Tensor, score_gradient: ScoreGradient, members: Tensor | None) -> list[LayerTerm]: ...


def backprop_of(model: ScoreModel) -> Backprop:
    """The fastest route that is right for this model."""
    if LinearStack.fits(model):
        return LinearStack(model)
    check_records_stay_apart(model)
    written = RecordByRecord(model)
    if not all_bookkept(model):
        return written
    hooked = Hooked(model, otherwise=written)
    return hooked if _agree(hooked, written, model) else written


class Hooked:
    """Known layers in any arrangement: hooks keep each layer's input and ask autograd for its output's gradient.

    The parameters do not require gradients, so autograd computes none for them. A pass in which a layer ran twice, or
    its output was overwritten, is taken by the other route: book-keeping would miss part of the gradient.
    """

    def __init__(self, model: ScoreModel, *, otherwise: "RecordByRecord") -> None:
        self.model, self.otherwise = model, otherwise
        self.calls: list[_Call] = []
        self.layers = [(name, m) for name, m in model.extractor.named_modules() if is_trained(model, name, m)]

    def __call__(self, X: Tensor, score_gradient: ScoreGradient, members: Tensor | None) -> list[LayerTerm]:
        with torch.enable_grad():
            embeddings = self._embed(X)
        calls, self.calls = self.calls, []
        if len({call.name for call in calls}) < len(calls) or any(call.overwritten for call in calls):
            return self.otherwise(X, score_gradient, members)
        head = self.model.heads[0]
        dz = score_gradient(torch.addmv(head[-1], embeddings.detach(), head[:-1]))
        where = slice(self.model.n_extractor_params, None)
        terms: list[LayerTerm] = [HeadTerm(embeddings.detach(), dz, where, members)]
        if calls:
            outputs = [call.output for call in calls]
            grads = torch.autograd.grad(
                embeddings, outputs, torch.outer(dz, head[:-1]), allow_unused=True, materialize_grads=True
            )
            for call, deltas in zip(calls, grads, strict=True):
                slices = slices_of(self.model, call.name, call.layer)
                terms += BOOKKEEPING[type(call.layer)](call.layer, call.inputs.detach(), deltas, slices)
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
            self.calls.append(_Call(name, layer, inputs[0], output, output._version))

        return keep


@dataclass(frozen=True, eq=False)
class _Call:
    """One use of a layer in a forward pass."""

    name: str
    layer: nn.Module
    inputs: Tensor
    output: Tensor
    version: int

    @property
    def overwritten(self) -> bool:
        """Whether a later operation changed the output in place."""
        return self.output._version != self.version


class RecordByRecord:
    """Any module: ``torch.func`` sees one record at a time, so records cannot mix."""

    def __init__(self, model: ScoreModel) -> None:
        self.model = model

    def __call__(self, X: Tensor, score_gradient: ScoreGradient, members: Tensor | None) -> list[LayerTerm]:
        everything: dict[str, Tensor] = dict(self.model.extractor.named_parameters())
        params = {name: everything[name].detach() for name in self.model.slices}
        fixed = {name: value for name, value in everything.items() if name not in params}
        fixed |= dict(self.model.extractor.named_buffers())

        def embed(own: dict[str, Tensor], record: Tensor) -> Tensor:
            call = torch.func.functional_call(self.model.extractor, (own, fixed), (record[None],))
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


def _agree(hooked: Hooked, written: RecordByRecord, model: ScoreModel) -> bool:
    """Whether book-keeping and torch.func agree on public noise, for weights that are functions of more than layers."""
    probe = public_probe(model)
    if draws_at_random(model):
        return False
    coefficients = torch.linspace(0.5, 2.0, len(probe))
    found = []
    for route in (hooked, written):
        total, norms = torch.zeros_like(model.params), torch.zeros(len(probe))
        try:
            for term in route(probe, torch.ones_like, None):
                norms += term.squared_norms()
                term.add_weighted_sum(coefficients, total)
        except (RuntimeError, IndexError):
            # The batch is folded into positions, or a layer's output is overwritten: only torch.func can follow.
            return False
        found.append((norms, total))
    return all(torch.allclose(a, b, rtol=1e-3, atol=1e-5) for a, b in zip(*found, strict=True))
