import pytest
import torch
from torch import nn

from fairdp.networks.backprop import backprop_of
from fairdp.networks.layers import BOOKKEEPING, conv_terms, has_bookkeeping, why_refused
from fairdp.networks.terms import EmbeddingTerm, LinearTerm, PositionsTerm, WrittenTerm
from score_models import build, records


def _types(name: str) -> set[type]:
    model = build(name)
    X, _ = records(model)
    return {type(term) for term in backprop_of(model).forward(X).backward(torch.ones(len(X)))[1:]}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("conv2d", WrittenTerm),
        ("conv2d factored", PositionsTerm),
        ("conv1d factored", PositionsTerm),
        ("embedding", EmbeddingTerm),
        ("linear on sequences", PositionsTerm),
        ("mlp relu", LinearTerm),
    ],
)
def test_the_smaller_form_is_chosen(name, expected):
    assert _types(name) == {expected}


@pytest.mark.parametrize("bias", [True, False])
def test_convolution_by_hand(bias):
    layer = nn.Conv1d(1, 1, 2, bias=bias)
    inputs, deltas = torch.tensor([[[1.0, 2.0, 3.0]]]), torch.tensor([[[10.0, 1.0]]])
    terms = conv_terms(layer, inputs, deltas, {"weight": slice(0, 2)} | ({"bias": slice(2, 3)} if bias else {}))
    total = torch.zeros(3)
    for term in terms:
        term.add_weighted_sum(torch.tensor([2.0]), total)
    # Weight: (10·1 + 1·2, 10·2 + 1·3) = (12, 23); bias: 11.
    assert total.tolist() == [24.0, 46.0, 22.0 if bias else 0.0]
    assert sum(term.squared_norms() for term in terms).item() == 12**2 + 23**2 + (11**2 if bias else 0)


def test_only_exactly_known_layers_have_bookkeeping():
    class Own(nn.Linear):
        pass

    assert all(has_bookkeeping(layer) for layer in (nn.Linear(1, 1), nn.Conv2d(1, 1, 1), nn.LayerNorm(2)))
    assert not has_bookkeeping(Own(1, 1))
    assert not has_bookkeeping(nn.Conv2d(1, 1, 3, padding="same"))
    assert not has_bookkeeping(nn.Conv1d(1, 1, 3, padding=1, padding_mode="reflect"))
    assert not has_bookkeeping(nn.Bilinear(1, 1, 1))


@pytest.mark.parametrize("layer", [nn.BatchNorm1d(2), nn.BatchNorm2d(2), nn.BatchNorm3d(2), nn.SyncBatchNorm(2)])
def test_batch_statistics_are_refused_with_a_remedy(layer):
    assert "use nn.GroupNorm" in why_refused(layer)


def test_layers_of_one_record_are_not_refused():
    for layer in (*(kind for kind in BOOKKEEPING), nn.InstanceNorm2d):
        assert why_refused(layer(2, 2) if layer not in (nn.Conv1d, nn.Conv2d) else layer(2, 2, 1)) is None


def test_a_lazy_batch_norm_is_refused_too():
    assert why_refused(nn.LazyBatchNorm1d()) is not None
