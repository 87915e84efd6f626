"""Models of every route, and per-record gradients computed one record at a time with autograd."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from fairdp.networks.gradients import Backprop
from fairdp.networks.model import Codes, ScoreModel, cnn, logistic, mlp


class Lookup(nn.Module):
    """A table of embeddings for records of float-coded categories."""

    def __init__(self, n_rows: int = 6, **options: object) -> None:
        super().__init__()
        self.table = nn.Embedding(n_rows, 3, **options)

    def forward(self, X: Tensor) -> Tensor:
        return self.table(X.long()).sum(1)


class Scale(nn.Module):
    """A module with a parameter of its own, which no book-keeping knows."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([0.5, -1.0, 2.0]))

    def forward(self, X: Tensor) -> Tensor:
        return torch.tanh(X * self.scale)


def _image(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(*layers, nn.Tanh(), nn.Flatten())


# Name → (extractor, shape of a record, expected route).
MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], str]] = {
    "no hidden layer": (logistic, (5,), "LinearStack"),
    "linear": (lambda: nn.Sequential(nn.Linear(5, 4)), (5,), "LinearStack"),
    "mlp relu": (lambda: mlp(5, (4, 3)), (5,), "LinearStack"),
    "mlp tanh": (lambda: mlp(5, (4, 3), activation="tanh"), (5,), "LinearStack"),
    "linear no bias": (lambda: nn.Sequential(nn.Linear(5, 4, bias=False), nn.Sigmoid()), (5,), "Hooked"),
    "in-place relu": (
        lambda: nn.Sequential(nn.Linear(5, 4), nn.ReLU(inplace=True), nn.ELU(inplace=True)),
        (5,),
        "Hooked",
    ),
    "linear on sequences": (lambda: nn.Sequential(nn.Linear(3, 4), nn.Sigmoid(), nn.Flatten()), (5, 3), "Hooked"),
    "wide linear on sequences": (lambda: nn.Sequential(nn.Linear(9, 8), nn.Sigmoid(), nn.Flatten()), (2, 9), "Hooked"),
    "conv1d": (lambda: _image(nn.Conv1d(2, 3, 3, stride=2, padding=1, dilation=2)), (2, 11), "Hooked"),
    "conv1d factored": (lambda: _image(nn.Conv1d(8, 8, 3, groups=2)), (8, 4), "Hooked"),
    "conv2d": (lambda: _image(nn.Conv2d(2, 4, 3, stride=2, padding=(1, 2), groups=2)), (2, 9, 8), "Hooked"),
    "conv2d no bias": (lambda: _image(nn.Conv2d(1, 2, 3, dilation=2, bias=False)), (1, 8, 8), "Hooked"),
    "conv2d factored": (lambda: _image(nn.Conv2d(8, 8, 3, padding=1, stride=2, groups=2)), (8, 4, 4), "Hooked"),
    "conv2d valid": (lambda: _image(nn.Conv2d(1, 2, 3, padding="valid")), (1, 6, 6), "Hooked"),
    "conv2d same": (lambda: _image(nn.Conv2d(1, 2, 3, padding="same")), (1, 5, 5), "RecordByRecord"),
    "conv2d circular": (
        lambda: _image(nn.Conv2d(1, 2, 3, padding=1, padding_mode="circular")),
        (1, 5, 5),
        "RecordByRecord",
    ),
    "embedding": (lambda: nn.Sequential(Codes(), nn.Embedding(6, 3), nn.Flatten()), (4,), "Hooked"),
    "embedding padding": (
        lambda: nn.Sequential(Codes(), nn.Embedding(6, 3, padding_idx=2), nn.Flatten()),
        (4,),
        "Hooked",
    ),
    "embedding in an own forward": (Lookup, (4,), "RecordByRecord"),
    "layer norm": (lambda: nn.Sequential(nn.Linear(5, 4), nn.LayerNorm(4)), (5,), "Hooked"),
    "layer norm on sequences": (lambda: nn.Sequential(nn.LayerNorm(3, bias=False), nn.Flatten()), (5, 3), "Hooked"),
    "group norm": (lambda: _image(nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4)), (1, 6, 6), "Hooked"),
    "instance norm": (lambda: _image(nn.Conv2d(1, 4, 3), nn.InstanceNorm2d(4)), (1, 6, 6), "Hooked"),
    "cnn": (lambda: cnn((1, 16, 16)), (1, 16, 16), "Hooked"),
    "own parameter": (lambda: nn.Sequential(nn.Linear(5, 3), Scale()), (5,), "RecordByRecord"),
    "activation first": (lambda: nn.Sequential(nn.Tanh(), nn.Linear(5, 3)), (5,), "Hooked"),
}


def build(name: str, *, bias: bool = True) -> ScoreModel:
    extractor, shape, _ = MODELS[name]
    torch.manual_seed(1)
    return ScoreModel(extractor(), shape, bias=bias)


def records(model: ScoreModel, n_records: int = 6) -> tuple[Tensor, Tensor]:
    """Features and labels; category codes for a table of embeddings."""
    rng = torch.Generator().manual_seed(2)
    labels = torch.randint(2, (n_records,), generator=rng).float()
    if any(isinstance(layer, nn.Embedding) for layer in model.extractor.modules()):
        return torch.randint(4, (n_records, *model.shape), generator=rng).float(), labels
    return torch.randn(n_records, *model.shape, generator=rng), labels


def naive_gradients(model: ScoreModel, X: Tensor, y: Tensor) -> Tensor:
    """Gradient of every record's logistic loss, one at a time, shape (n_records, n_parameters)."""
    rows = []
    for features, label in zip(X, y, strict=True):
        params = {name: p.detach().clone().requires_grad_() for name, p in model.extractor.named_parameters()}
        head = model.heads[0].clone().requires_grad_()
        embedding = torch.func.functional_call(model.extractor, params, (features[None],)).flatten()
        # Without a bias the head is as long as the embedding, and there is nothing to add.
        score = embedding @ head[: len(embedding)] + head[len(embedding) :].sum()
        loss = functional.binary_cross_entropy_with_logits(score, label)
        grads = torch.autograd.grad(loss, [*params.values(), head], allow_unused=True, materialize_grads=True)
        rows.append(torch.cat([grad.flatten() for grad in grads]))
    return torch.stack(rows)


def norms_and_sum(route: Backprop, model: ScoreModel, X: Tensor, y: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Results of the terms of a route: every record's squared norm, and the weighted sum."""
    passed = route.forward(X)
    terms = passed.backward(torch.sigmoid(passed.scores) - y)
    norms = torch.stack([term.squared_norms() for term in terms]).sum(0)
    total = torch.zeros_like(model.params)
    with torch.inference_mode():
        for term in terms:
            term.add_weighted_sum(weights, total)
    return norms, total


def assert_right(route: Backprop, model: ScoreModel, X: Tensor, y: Tensor) -> None:
    """Fail unless norms and weighted sum equal those of the naive gradients."""
    weights = torch.linspace(0.2, 1.7, len(X))
    naive = naive_gradients(model, X, y)
    norms, total = norms_and_sum(route, model, X, y, weights)
    # Norms from Gram matrices are raised by what their rounding may have taken.
    torch.testing.assert_close(norms, naive.square().sum(1), rtol=3e-4, atol=1e-6)
    torch.testing.assert_close(total, weights @ naive, rtol=1e-4, atol=1e-5)


@pytest.fixture(params=MODELS)
def model_name(request: pytest.FixtureRequest) -> str:
    return request.param
