"""Joint models: scores from the chances of cells, and the same gradients by every route."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from fairdp.methods.fairdp_frontier import JointLoss
from fairdp.networks.backprop import Backprop, HeadOnly, RecordByRecord, SparseHead, backprop_of
from fairdp.networks.extractors import cnn, mlp
from fairdp.networks.hat_rows import HatRows
from fairdp.networks.models import ScoreModel, plain_values
from fairdp.networks.terms import Passed
from fairdp.training.companion import Seen
from score_models import Scale

N_CELLS = 6
EXTRACTORS = {
    "mlp": (lambda: mlp(5, (4, 3)), (5,), "LinearStack"),
    "layers": (lambda: nn.Sequential(nn.Linear(5, 4), nn.LayerNorm(4), nn.Tanh()), (5,), "Hooked"),
    "cnn": (lambda: cnn((1, 16, 16)), (1, 16, 16), "Hooked"),
    "own module": (lambda: nn.Sequential(nn.Linear(5, 3), Scale()), (5,), "RecordByRecord"),
    "hats": (lambda: HatRows(5, {3: 0.0, 4: 0.3}, most_squares=9.0, norm=2.0), (5,), "SparseHead"),
}


def build(name: str) -> ScoreModel:
    extractor, shape, _ = EXTRACTORS[name]
    torch.manual_seed(1)
    model = ScoreModel(extractor(), shape, n_cells=N_CELLS)
    # Heads start at zero, where nothing comes back through them.
    model.heads.copy_(0.7 * torch.randn(model.heads.shape))
    return model


def people(model: ScoreModel, n_records: int = 6) -> tuple[Tensor, Tensor, Tensor]:
    rng = torch.Generator().manual_seed(2)
    X = torch.rand(n_records, *model.shape, generator=rng)
    labels = torch.randint(2, (n_records,), generator=rng).float()
    return X, labels, torch.randint(N_CELLS // 2, (n_records,), generator=rng)


def naive_gradients(model: ScoreModel, X: Tensor, y: Tensor, groups: Tensor) -> Tensor:
    """Gradient of every record's cross-entropy of its cell, one at a time with autograd."""
    rows = []
    for features, label, group in zip(X, y, groups, strict=True):
        params = {name: p.detach().clone().requires_grad_() for name, p in model.extractor.named_parameters()}
        heads = model.heads.clone().requires_grad_()
        embedding = torch.func.functional_call(model.extractor, params, (features[None],)).flatten()
        scores = heads[:, :-1] @ embedding + heads[:, -1]
        loss = functional.cross_entropy(scores[None], (2 * group + label.long())[None])
        grads = torch.autograd.grad(loss, [*params.values(), heads])
        rows.append(torch.cat([grad.flatten() for grad in grads]))
    return torch.stack(rows)


def assert_right(route: Backprop, model: ScoreModel, X: Tensor, y: Tensor, groups: Tensor) -> None:
    rows = model.extractor.sparse(X) if isinstance(route, SparseHead) else X
    passed = route.forward(rows)
    assert passed.scores.shape == (len(X), N_CELLS)
    terms = passed.backward(JointLoss().score_gradient(Seen(passed.scores, y, groups), {}))
    norms = torch.stack([term.squared_norms() for term in terms]).sum(0)
    weights, total = torch.linspace(0.2, 1.7, len(X)), torch.zeros_like(model.params)
    with torch.inference_mode():
        for term in terms:
            term.add_weighted_sum(weights, total)
    naive = naive_gradients(model, X, y, groups)
    torch.testing.assert_close(norms.float(), naive.square().sum(1), rtol=3e-4, atol=1e-6)
    torch.testing.assert_close(total, weights @ naive, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", EXTRACTORS)
def test_every_route_equals_one_record_at_a_time(name):
    model = build(name)
    route = SparseHead(model) if name == "hats" else backprop_of(model)
    assert type(route).__name__ == EXTRACTORS[name][2]
    assert_right(route, model, *people(model))
    assert_right(RecordByRecord(model), model, *people(model))


def test_heads_alone_are_right_too():
    model = build("hats")
    X, y, groups = people(model)
    embedded = model.embed_fixed(X)
    naive = naive_gradients(model, X, y, groups)
    passed = HeadOnly(model).forward(embedded)
    (term,) = passed.backward(JointLoss().score_gradient(Seen(passed.scores, y, groups), {}))
    torch.testing.assert_close(term.squared_norms(), naive.square().sum(1), rtol=3e-4, atol=1e-6)


class Inexact:
    """A route that sees the records a little larger than they are."""

    def __init__(self, model: ScoreModel) -> None:
        self.route = backprop_of(model)

    def forward(self, X: Tensor) -> Passed:
        return self.route.forward(1.001 * X)


def test_that_check_notices_a_wrong_gradient():
    model = build("mlp")
    with pytest.raises(AssertionError):
        assert_right(Inexact(model), model, *people(model))


def test_the_loss_is_the_cross_entropy_of_the_cell_by_finite_differences():
    """Central differences of −ln P_c in double precision; cell 2 a + y."""
    rng = torch.Generator().manual_seed(0)
    scores = torch.randn(5, N_CELLS, generator=rng, dtype=torch.float64)
    labels, groups = torch.tensor([0.0, 1, 1, 0, 1]), torch.tensor([0, 0, 1, 2, 2])
    cells = torch.tensor([0, 1, 3, 4, 5])

    def loss(at: Tensor) -> Tensor:
        return -at.log_softmax(1)[torch.arange(5), cells]

    found, width = JointLoss().score_gradient(Seen(scores.clone(), labels, groups), {}), 1e-6
    for cell in range(N_CELLS):
        step = width * functional.one_hot(torch.tensor(cell), N_CELLS)
        slope = (loss(scores + step) - loss(scores - step)) / (2 * width)
        torch.testing.assert_close(found[:, cell], slope, rtol=0, atol=1e-8)
    assert JointLoss().beside is None


@pytest.mark.parametrize("name", EXTRACTORS)
def test_scores_are_the_values_of_cells_times_their_chances(name):
    model = build(name)
    X, *_ = people(model)
    embeddings = model.embed_fixed(X).double()
    heads = model.heads.double()
    chances = (embeddings @ heads[:, :-1].T + heads[:, -1]).softmax(1)
    torch.testing.assert_close(model.cell_chances(X), chances, rtol=1e-5, atol=1e-6)
    assert torch.equal(model.cell_values, plain_values(N_CELLS))
    torch.testing.assert_close(model.probabilities(X), chances[:, 1::2].sum(1), rtol=1e-5, atol=1e-6)
    # Without prices a positive decision is worth 2 P(1) − 1.
    torch.testing.assert_close(model.scores(X).double(), 2 * chances[:, 1::2].sum(1) - 1, rtol=1e-5, atol=1e-5)
    before = model.probabilities(X)
    model.cell_values = torch.tensor([0.3, -1.0, 2.0, 0.0, 0.5, -0.2], dtype=torch.float64)
    torch.testing.assert_close(model.scores(X).double(), chances @ model.cell_values, rtol=1e-5, atol=1e-5)
    # What the model believes does not depend on what is decided.
    assert torch.equal(model.probabilities(X), before)


def test_nobody_has_no_scores():
    for name in ("mlp", "hats", "cnn"):
        model = build(name)
        assert model.scores(torch.zeros(0, *model.shape)).shape == (0,)
        assert model.cell_chances(torch.zeros(0, *model.shape)).shape == (0, N_CELLS)


def test_a_joint_model_starts_without_preferences():
    model = ScoreModel(mlp(5, (4,)), (5,), n_cells=4)
    X = torch.randn(7, 5)
    assert model.cell_chances(X).tolist() == [[0.25] * 4] * 7
    assert model.scores(X).tolist() == [0.0] * 7


def test_an_ordinary_model_has_probabilities_by_its_score():
    model = ScoreModel(mlp(5, (4,)), (5,))
    X = torch.randn(7, 5)
    assert model.cell_values is None
    np.testing.assert_allclose(model.probabilities(X).numpy(), model.scores(X).double().sigmoid().numpy())


def test_values_of_cells_are_saved_and_part_of_the_digest():
    model = build("mlp")
    digest = model.digest()
    assert "cell_values" in model.tensors()
    model.cell_values = 2 * model.cell_values
    assert model.digest() != digest
