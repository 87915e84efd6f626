"""A forward pass over some records, and a backward pass that gives every record's gradient as terms.

The two are apart, so that whoever trains can look at the scores, release what is to be released, and only then say what
the gradients at the scores are. Three routes to the same terms: stacks of linear layers and activations are
differentiated by hand, in place and without autograd; other sequences of known layers through hooks; the rest record by
record with ``torch.func``.
"""

import itertools
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from fairdp.errors import InputError
from fairdp.networks.layers import BOOKKEEPING, HeadTerm, LayerTerm, LinearTerm, Passed, WrittenTerm
from fairdp.networks.model import (
    ScoreModel,
    all_bookkept,
    check_records_stay_apart,
    each_trained_once,
    is_trained,
    public_probe,
    seeded_globally,
    sequence_of,
    slices_of,
)
from fairdp.networks.rows import SparseHeadTerm, SparseRows


class Backprop(Protocol):
    """A way through one model: records go forward to their scores, and gradients at the scores come back as terms."""

    def forward(self, X: Any) -> Passed: ...


def backprop_of(model: ScoreModel) -> Backprop:
    """The fastest route that is right for this model."""
    if LinearStack.fits(model):
        return LinearStack(model)
    # Dropout draws in the probe too, and must not disturb a run in another thread.
    with seeded_globally(0):
        return _probed(model)


def _probed(model: ScoreModel) -> Backprop:
    """The faster of the other two routes, if both agree about public noise."""
    check_records_stay_apart(model)
    written = RecordByRecord(model)
    try:
        passed = written.forward(public_probe(model))
        passed.backward(torch.ones_like(passed.scores))
    except (RuntimeError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"the module cannot be differentiated record by record: {reason}") from error
    if not all_bookkept(model):
        return written
    hooked = Hooked(model)
    return hooked if _agree(hooked, written, model) else written


class LinearStack:
    """Linear layers and activations, differentiated by hand: as fast as a plain step without privacy."""

    forwards: ClassVar[dict[type[nn.Module], Callable[[Tensor], Tensor]]] = {
        nn.ReLU: torch.relu_,
        nn.Tanh: torch.tanh_,
    }
    # Each from the gradient at the output, which it overwrites in place, and the output.
    backwards: ClassVar[dict[type[nn.Module], Callable[[Tensor, Tensor], Tensor]]] = {
        nn.ReLU: lambda d, out: torch.ops.aten.threshold_backward.grad_input(d, out, 0, grad_input=d),
        nn.Tanh: lambda d, out: torch.ops.aten.tanh_backward.grad_input(d, out, grad_input=d),
    }

    def __init__(self, model: ScoreModel) -> None:
        self.model = model
        self.steps = [
            (layer, slices_of(model, name, layer))
            for name, layer in sequence_of(model.extractor)
            if not isinstance(layer, nn.Flatten)
        ]

    @classmethod
    def fits(cls, model: ScoreModel) -> bool:
        """True if the extractor is nothing, or a plain sequence of known layers on vectors."""
        if type(model.extractor) not in (nn.Sequential, nn.Flatten):
            return False
        sequence = sequence_of(model.extractor)
        layers = [layer for _, layer in sequence if not isinstance(layer, nn.Flatten)]
        flat = len(model.shape) == 1 or (bool(sequence) and isinstance(sequence[0][1], nn.Flatten))
        known = all(type(layer) in (nn.Linear, nn.Flatten, *cls.forwards) for _, layer in sequence)
        # Activations work in place: they may overwrite the output of a linear layer and nothing else.
        pairs = list(itertools.pairwise([nn.Identity(), *layers]))
        in_order = all(isinstance(before, nn.Linear) for before, layer in pairs if type(layer) in cls.forwards)
        whole = all((m.start_dim, m.end_dim) == (1, -1) for _, m in sequence if isinstance(m, nn.Flatten))
        return known and flat and in_order and whole and model.keeps_records_apart and each_trained_once(model)

    @torch.inference_mode()
    def forward(self, X: Tensor) -> Passed:
        outputs = [X.flatten(1)]
        for layer, _ in self.steps:
            if isinstance(layer, nn.Linear):
                outputs.append(functional.linear(outputs[-1], layer.weight, layer.bias))
            else:
                outputs.append(self.forwards[type(layer)](outputs[-1]))

        @torch.inference_mode()
        def backward(score_gradients: Tensor, members: Tensor | None = None) -> list[LayerTerm]:
            return self._terms(outputs, score_gradients, members)

        return Passed(self.model.outputs(outputs[-1]), backward)

    def _terms(self, outputs: list[Tensor], score_gradients: Tensor, members: Tensor | None) -> list[LayerTerm]:
        """The way back through all layers; ``outputs`` are the records and what each layer made of them."""
        where = slice(self.model.n_extractor_params, None)
        terms: list[LayerTerm] = [HeadTerm(outputs[-1], score_gradients, where, members, self.model.bias)]
        if not self.steps:
            return terms
        deltas = self.model.pulled_back(score_gradients)
        for index in reversed(range(len(self.steps))):
            layer, slices = self.steps[index]
            if isinstance(layer, nn.Linear):
                terms.append(LinearTerm(outputs[index], deltas, slices["weight"], slices.get("bias")))
                deltas = deltas @ layer.weight if index else deltas
            else:
                deltas = self.backwards[type(layer)](deltas, outputs[index + 1])
        return terms


class HeadOnly:
    """Records are embeddings already, which no training changes: only the head is differentiated."""

    def __init__(self, model: ScoreModel) -> None:
        self.model = model

    @torch.inference_mode()
    def forward(self, X: Tensor) -> Passed:
        where = slice(self.model.n_extractor_params, None)

        def backward(score_gradients: Tensor, members: Tensor | None = None) -> list[LayerTerm]:
            return [HeadTerm(X, score_gradients, where, members, self.model.bias)]

        return Passed(self.model.outputs(X), backward)


class SparseHead:
    """Records are sparse rows, which no training changes: only the heads of a joint model are differentiated."""

    def __init__(self, model: ScoreModel) -> None:
        self.model = model

    @torch.inference_mode()
    def forward(self, rows: SparseRows) -> Passed:
        heads, where = self.model.heads, slice(self.model.n_extractor_params, None)

        def backward(score_gradients: Tensor, members: Tensor | None = None) -> list[LayerTerm]:
            return [SparseHeadTerm(rows, score_gradients, where)]

        return Passed(rows.times(heads[:, :-1].T) + heads[:, -1], backward)


class Hooked:
    """A sequence of known layers: each enters its term in the books when the gradient at its output arrives.

    The parameters do not require gradients, so autograd computes none for them, and nothing is kept longer than an
    ordinary backward pass keeps it.
    """

    def __init__(self, model: ScoreModel) -> None:
        self.model = model
        self.layers = [(name, m) for name, m in model.extractor.named_modules() if is_trained(model, name, m)]

    def forward(self, X: Tensor) -> Passed:
        terms: list[LayerTerm] = []
        anchor = torch.zeros(0, requires_grad=True)
        with torch.enable_grad():
            embeddings = self._embed(X, anchor, terms)
        fixed, where = embeddings.detach(), slice(self.model.n_extractor_params, None)

        def backward(score_gradients: Tensor, members: Tensor | None = None) -> list[LayerTerm]:
            if embeddings.requires_grad:
                deltas = self.model.pulled_back(score_gradients)
                torch.autograd.grad(embeddings, anchor, deltas, allow_unused=True)
            return [HeadTerm(fixed, score_gradients, where, members, self.model.bias), *terms]

        return Passed(self.model.outputs(fixed), backward)

    def _embed(self, X: Tensor, anchor: Tensor, terms: list[LayerTerm]) -> Tensor:
        def keeper(name: str) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], Tensor]:
            def keep(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
                given, slices = inputs[0].detach(), slices_of(self.model, name, layer)

                def enter(deltas: Tensor) -> None:
                    terms.extend(BOOKKEEPING[type(layer)](layer, given, deltas, slices))

                return book(output, anchor, enter)

            return keep

        handles = [layer.register_forward_hook(keeper(name)) for name, layer in self.layers]
        try:
            return self.model.embed(X)
        finally:
            for handle in handles:
                handle.remove()


def book(output: Tensor, anchor: Tensor, enter: Callable[[Tensor], None]) -> Tensor:
    """The same output, with the gradient at it entered in the books on the way back."""
    apply: Callable[..., Tensor] = _Book.apply
    return apply(output, anchor, enter)


class _Book(torch.autograd.Function):
    """The identity, whose backward pass enters the gradient in the books.

    The anchor has no elements; asking autograd for its gradient makes it walk through every booked output.
    """

    @staticmethod
    def forward(ctx: Any, output: Tensor, anchor: Tensor, enter: Callable[[Tensor], None]) -> Tensor:
        ctx.enter = enter
        return output.view_as(output)

    @staticmethod
    def backward(ctx: Any, deltas: Tensor) -> tuple[Tensor, None, None]:
        ctx.enter(deltas)
        return deltas, None, None


class RecordByRecord:
    """Any module: ``torch.func`` sees one record at a time, so records cannot mix."""

    def __init__(self, model: ScoreModel) -> None:
        self.model = model

    def forward(self, X: Tensor) -> Passed:
        everything: dict[str, Tensor] = dict(self.model.extractor.named_parameters())
        params = {name: everything[name].detach() for name in self.model.slices}
        fixed = {name: value for name, value in everything.items() if name not in params}
        fixed |= dict(self.model.extractor.named_buffers())

        def embed(trained: dict[str, Tensor], record: Tensor) -> Tensor:
            call = torch.func.functional_call(self.model.extractor, (trained, fixed), (record[None],))
            return call.flatten()

        def pull(trained: dict[str, Tensor], record: Tensor, delta: Tensor) -> Tensor:
            return embed(trained, record) @ delta

        embeddings = torch.func.vmap(embed, (None, 0), randomness="different")(params, X)
        where = slice(self.model.n_extractor_params, None)

        def backward(score_gradients: Tensor, members: Tensor | None = None) -> list[LayerTerm]:
            terms: list[LayerTerm] = [HeadTerm(embeddings, score_gradients, where, members, self.model.bias)]
            if not params:
                return terms
            deltas = self.model.pulled_back(score_gradients)
            grads = torch.func.vmap(torch.func.grad(pull), (None, 0, 0), randomness="different")(params, X, deltas)
            return terms + [WrittenTerm(grads[name].flatten(1), self.model.slices[name]) for name in params]

        return Passed(self.model.outputs(embeddings), backward)


def _agree(hooked: Hooked, written: RecordByRecord, model: ScoreModel) -> bool:
    """True if book-keeping and torch.func agree on public noise: a last check before the fast route is trusted."""
    probe = public_probe(model)
    coefficients = torch.linspace(0.5, 2.0, len(probe))
    found = []
    for route in (hooked, written):
        total, norms = torch.zeros_like(model.params), torch.zeros(len(probe))
        passed = route.forward(probe)
        for term in passed.backward(torch.ones_like(passed.scores)):
            norms += term.squared_norms()
            term.add_weighted_sum(coefficients, total)
        found.append((norms, total))
    return all(torch.allclose(a, b, rtol=1e-3, atol=1e-5) for a, b in zip(*found, strict=True))
