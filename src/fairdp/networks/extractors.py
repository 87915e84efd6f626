"""What stands before the linear head: known networks, public maps of the inputs, layers that keep records apart."""

import math

import torch
from torch import Tensor, nn

from fairdp._checks import ParameterError
from fairdp.networks.hat_rows import HatRows
from fairdp.networks.oriented_gradients import CentredRows, ImageRows, OrientedGradients

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh}


class Codes(nn.Module):
    """Category codes as the whole numbers that ``nn.Embedding`` looks up; first layer of a model with embeddings."""

    def forward(self, records: Tensor) -> Tensor:
        return records.long()


class UnitNorm(nn.Module):
    """Scale every embedding to norm one; a dead (all-zero) embedding stays zero."""

    floor = 1e-12

    def forward(self, embeddings: Tensor) -> Tensor:
        norms = torch.linalg.vector_norm(embeddings, dim=1, keepdim=True)
        return embeddings / norms.clamp(min=self.floor)

    @classmethod
    def backward(cls, deltas: Tensor, inputs: Tensor, outputs: Tensor) -> Tensor:
        """Gradient at the input: the part along the embedding is lost, the rest is divided by its norm."""
        norms = torch.linalg.vector_norm(inputs, dim=1, keepdim=True)
        along = torch.where(norms > cls.floor, (deltas * outputs).sum(1, keepdim=True), 0.0)
        return (deltas - along * outputs) / norms.clamp(min=cls.floor)


class BoundedInputs(nn.Module):
    """The inputs of the functional mechanism: no record is longer than one, nor than √k in the sum."""

    def __init__(self, n_active: int) -> None:
        super().__init__()
        self.n_active = n_active

    def forward(self, records: Tensor) -> Tensor:
        sums = records.abs().sum(1, keepdim=True) / math.sqrt(self.n_active)
        norms = torch.maximum(torch.linalg.vector_norm(records, dim=1, keepdim=True), sums)
        return torch.where(norms.isfinite(), records / norms.clamp(min=1.0), 0.0)


def logistic(n_active: int = 0) -> nn.Module:
    """No trained extractor, but perhaps bounded inputs: the score is linear in them."""
    return nn.Sequential(nn.Flatten(), BoundedInputs(n_active)) if n_active else nn.Flatten()


def mlp(
    n_features: int, hidden: tuple[int, ...], *, activation: str = "relu", normalize_embedding: bool = False
) -> nn.Module:
    """Fully connected layers, each followed by the activation."""
    layers: list[nn.Module] = [nn.Flatten()]
    for n_in, n_out in zip((n_features, *hidden[:-1]), hidden, strict=True):
        layers += [nn.Linear(n_in, n_out), ACTIVATIONS[activation]()]
    if normalize_embedding:
        layers.append(UnitNorm())
    return nn.Sequential(*layers)


def cnn(shape: tuple[int, ...], *, activation: str = "tanh", normalize_embedding: bool = False) -> nn.Module:
    """Two strided convolutions, a pooling and a layer of 64: small enough for the noise, large enough for faces."""
    if len(shape) != 3 or min(shape[1:]) < 5:
        needed = f"needs images of shape (channels, height, width) with at least 5 × 5 pixels, got {shape}"
        raise ParameterError("model", "cnn", needed)
    channels, height, width = shape
    act = ACTIVATIONS[activation]
    features: list[nn.Module] = [
        # Each image by its own mean and deviation: light and contrast go, and no other record is looked at.
        nn.GroupNorm(1, channels, affine=False),
        nn.Conv2d(channels, 16, 5, stride=2, padding=2),
        act(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        act(),
        nn.MaxPool2d(2),
        nn.Flatten(),
    ]
    flat = 32 * math.prod(_halved(_halved(side)) // 2 for side in (height, width))
    features += [nn.Linear(flat, 64), act()]
    if normalize_embedding:
        features.append(UnitNorm())
    return nn.Sequential(*features)


def _halved(side: int) -> int:
    """Output size of the strided convolutions above."""
    return (side + 1) // 2


def keeps_records_apart(extractor: nn.Module) -> bool:
    """Whether every layer is known to treat each record on its own, whatever the values.

    A user's own forward is code that a probe cannot see through, so it is taken record by record.
    """
    layers = list(extractor.modules())
    # A forward that was put in the place of a layer's own is code that its type does not tell of.
    hooked = any(layer._forward_hooks or layer._forward_pre_hooks or "forward" in vars(layer) for layer in layers)
    return not hooked and all(
        type(layer) in _APART or (type(layer) is nn.Flatten and layer.start_dim >= 1) for layer in layers
    )


_APART = {
    *(
        nn.Sequential,
        nn.Identity,
        Codes,
        UnitNorm,
        BoundedInputs,
        HatRows,
        ImageRows,
        OrientedGradients,
        CentredRows,
        nn.Linear,
        nn.Conv1d,
        nn.Conv2d,
        nn.Embedding,
    ),
    *(nn.LayerNorm, nn.GroupNorm, nn.InstanceNorm1d, nn.InstanceNorm2d),
    *(nn.ReLU, nn.Tanh, nn.Sigmoid, nn.GELU, nn.SiLU, nn.ELU, nn.LeakyReLU, nn.Softplus, nn.Hardtanh),
    *(nn.MaxPool1d, nn.MaxPool2d, nn.AvgPool1d, nn.AvgPool2d, nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d),
}
