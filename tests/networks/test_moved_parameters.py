"""Parameters that are moved for a moment are the very same ones afterwards."""

import pytest
import torch

from fairdp.networks.extractors import mlp
from fairdp.networks.models import ScoreModel


def model() -> ScoreModel:
    torch.manual_seed(0)
    return ScoreModel(mlp(4, (5,)), (4,))


def test_they_come_back_whatever_happens():
    own = model()
    before = own.params.clone()
    with own.moved_to(before + 1):
        assert torch.equal(own.params, before + 1)
    assert torch.equal(own.params, before)
    with pytest.raises(ZeroDivisionError), own.moved_to(before + 1):
        raise ZeroDivisionError
    assert torch.equal(own.params, before)
