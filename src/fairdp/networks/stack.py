"""The common case made fast: stacks of linear layers and activations, differentiated by hand."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from fairdp.networks.extractors import UnitNorm
from fairdp.networks.inspection import each_trained_once, sequence_of
from fairdp.networks.models import ScoreModel
from fairdp.networks.terms import HeadTerm, LayerTerm, LinearTerm, Passed

_IN_PLACE = (nn.ReLU, nn.Tanh)


class LinearStack:
    """Linear layers and activations, differentiated by hand: as fast as a plain step without privacy."""

    forwards: ClassVar[dict[type[nn.Module], Callable[[Tensor], Tensor]]] = {
        nn.ReLU: torch.relu_,
        nn.Tanh: torch.tanh_,
        UnitNorm: UnitNorm(),
    }
    # Each from the gradient at the output, the input and the output; activations overwrite the former in place.
    backwards: ClassVar[dict[type[nn.Module], Callable[[Tensor, Tensor, Tensor], Tensor]]] = {
        nn.ReLU: lambda d, _, out: torch.ops.aten.threshold_backward.grad_input(d, out, 0, grad_input=d),
        nn.Tanh: lambda d, _, out: torch.ops.aten.tanh_backward.grad_input(d, out, grad_input=d),
        UnitNorm: UnitNorm.backward,
    }

    def __init__(self, model: ScoreModel) -> None:
        self.model = model
        self.steps: list[_Affine | type[nn.Module]] = [
            _Affine.of(layer, name, model.slices) if isinstance(layer, nn.Linear) else type(layer)
            for name, layer in sequence_of(model.extractor)
            if not isinstance(layer, nn.Flatten)
        ]

    @classmethod
    def fits(cls, model: ScoreModel) -> bool:
        """Whether the extractor is nothing, or a plain sequence of known layers on vectors."""
        if type(model.extractor) not in (nn.Sequential, nn.Flatten):
            return False
        sequence = sequence_of(model.extractor)
        layers = [layer for _, layer in sequence if not isinstance(layer, nn.Flatten)]
        flat = len(model.shape) == 1 or (bool(sequence) and isinstance(sequence[0][1], nn.Flatten))
        known = all(type(layer) in (nn.Linear, nn.Flatten, *cls.forwards) for _, layer in sequence)
        # Activations work in place: they may overwrite the output of a linear layer and nothing else.
        pairs = list(itertools.pairwise([nn.Identity(), *layers]))
        in_order = all(isinstance(before, nn.Linear) for before, layer in pairs if type(layer) in _IN_PLACE)
        in_order &= not layers or isinstance(layers[0], nn.Linear)
        whole = all((m.start_dim, m.end_dim) == (1, -1) for _, m in sequence if isinstance(m, nn.Flatten))
        return known and flat and in_order and whole and model.keeps_records_apart and each_trained_once(model)

    @torch.inference_mode()
    def forward(self, X: Tensor) -> Passed:
        outputs = [X.flatten(1)]
        for step in self.steps:
            apply = step if isinstance(step, _Affine) else self.forwards[step]
            outputs.append(apply(outputs[-1]))

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
            step = self.steps[index]
            if isinstance(step, _Affine):
                terms.append(LinearTerm(outputs[index], deltas, step.weight_at, step.bias_at))
                deltas = deltas @ step.weight if index else deltas
            else:
                deltas = self.backwards[step](deltas, outputs[index], outputs[index + 1])
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
