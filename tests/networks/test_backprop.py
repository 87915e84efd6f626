"""Per-record gradients by every route, layer by layer."""

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from fairdp.networks.gradients import RecordByRecord, _agree, backprop_of
from fairdp.networks.layers import (
    BOOKKEEPING,
    ApartTerm,
    EmbeddingTerm,
    HeadTerm,
    LinearTerm,
    Passed,
    PositionsTerm,
    WrittenTerm,
    conv_terms,
    has_bookkeeping,
    rounding_bound,
    row_norms,
    why_refused,
)
from fairdp.networks.model import ScoreModel, mlp
from fairdp.training.noise import MARGIN
from score_models import MODELS, Lookup, assert_right, build, naive_gradients, norms_and_sum, records


@pytest.mark.parametrize("name", MODELS)
def test_every_route_equals_one_record_at_a_time(name: str):
    model = build(name)
    route = backprop_of(model)
    assert type(route).__name__ == MODELS[name][2]
    assert_right(route, model, *records(model))
    assert_right(RecordByRecord(model), model, *records(model))


@pytest.mark.parametrize("name", ["no hidden layer", "mlp relu", "layer norm", "own parameter"])
def test_that_holds_for_a_head_without_bias(name: str):
    model = build(name, bias=False)
    assert model.heads.shape == (1, model.width)
    assert len(model.params) == len(build(name).params) - 1
    assert_right(backprop_of(model), model, *records(model))
    assert_right(RecordByRecord(model), model, *records(model))
    X, _ = records(model)
    torch.testing.assert_close(model.scores(X), model.embed_fixed(X) @ model.heads[0])


def test_heads_of_an_ensemble_without_bias_take_the_gradients_of_their_own_records():
    model, n_members = build("mlp relu", bias=False), 3
    X, y = records(model)
    members = torch.tensor([0, 2, 2, 0, 2, 0])
    passed = backprop_of(model).forward(X)
    n_extractor, width = model.n_extractor_params, model.width
    total = torch.zeros(n_extractor + n_members * width)
    with torch.inference_mode():
        for term in passed.backward(torch.sigmoid(passed.scores) - y, members):
            term.add_weighted_sum(torch.ones(len(X)), total)
    own = naive_gradients(model, X, y)[:, n_extractor:]
    expected = torch.stack([own[members == member].sum(0) for member in range(n_members)])
    torch.testing.assert_close(total[n_extractor:].view(n_members, width), expected, rtol=1e-4, atol=1e-6)


class Inexact:
    """A route that sees the records a little larger than they are."""

    def __init__(self, model: ScoreModel) -> None:
        self.route = backprop_of(model)

    def forward(self, X: Tensor) -> Passed:
        return self.route.forward(1.001 * X)


def test_that_check_notices_a_wrong_gradient():
    model = build("mlp tanh")
    X, y = records(model)
    with pytest.raises(AssertionError):
        assert_right(Inexact(model), model, X, y)


class Twice(nn.Module):
    """One layer used for both halves of a record: cross terms enter the norm."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, X: Tensor) -> Tensor:
        return self.layer(X[:, 0]) + torch.tanh(self.layer(X[:, 1]))


class Branches(nn.Module):
    """Two layers whose outputs are added: autograd hands both the same gradient tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(5, 3), nn.Linear(5, 3)

    def forward(self, X: Tensor) -> Tensor:
        return self.left(X) + self.right(X)


class Folded(nn.Module):
    """Positions folded into the batch: the rows of the layer's input are not the records."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, X: Tensor) -> Tensor:
        return self.layer(X.reshape(-1, 3)).reshape(len(X), -1).sigmoid()


class SequenceFirst(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, X: Tensor) -> Tensor:
        return self.layer(X.transpose(0, 1)).transpose(0, 1).flatten(1)


class Doubled(nn.Sequential):
    def forward(self, X: Tensor) -> Tensor:
        return 2 * super().forward(X)


class OverwritesInForward(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(5, 4), nn.Linear(4, 3)

    def forward(self, X: Tensor) -> Tensor:
        return self.second(self.first(X).relu_()).tanh_()


def _tied() -> nn.Module:
    first, second = nn.Linear(5, 5), nn.Linear(5, 5)
    second.weight = first.weight
    return nn.Sequential(first, nn.Tanh(), second)


def _reused() -> nn.Module:
    layer = nn.Linear(5, 5)
    return nn.Sequential(layer, nn.Tanh(), layer)


def _reused_activation() -> nn.Module:
    act = nn.ReLU()
    return nn.Sequential(nn.Linear(5, 4), act, nn.Linear(4, 4), act)


@pytest.mark.parametrize(
    ("extractor", "shape"),
    [
        pytest.param(_tied, (5,), id="tied weights"),
        pytest.param(lambda: nn.Sequential(_tied(), nn.Sigmoid()), (5,), id="tied weights, not a stack"),
        pytest.param(_reused, (5,), id="layer twice in a stack"),
        pytest.param(lambda: nn.Sequential(_reused(), nn.Sigmoid()), (5,), id="layer twice, not a stack"),
        pytest.param(_reused_activation, (5,), id="activation twice in a stack"),
        pytest.param(lambda: Twice(nn.Linear(3, 4)), (2, 3), id="layer called twice"),
        pytest.param(Branches, (5,), id="parallel branches"),
        pytest.param(OverwritesInForward, (5,), id="outputs overwritten in forward"),
        pytest.param(Folded, (4, 3), id="positions folded into the batch"),
        pytest.param(SequenceFirst, (6, 3), id="sequence first"),
        pytest.param(lambda: nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Flatten()), (5, 3), id="stack on sequences"),
        pytest.param(lambda: Doubled(nn.Linear(5, 2), nn.ReLU()), (5,), id="sequence with its own forward"),
        pytest.param(lambda: nn.Sequential(nn.Linear(5, 2), nn.Linear(2, 2, bias=False)), (5,), id="no activation"),
    ],
)
def test_unusual_arrangements_are_right(extractor, shape):
    torch.manual_seed(1)
    model = ScoreModel(extractor(), shape)
    assert_right(backprop_of(model), model, *records(model))


def test_a_table_looked_up_twice_is_right_even_if_the_probe_hits_the_padding_row():
    torch.manual_seed(1)

    class TwoColumns(Lookup):
        def forward(self, X: Tensor) -> Tensor:
            return self.table(X[:, 0].long()) + self.table(X[:, 1].long())

    model = ScoreModel(TwoColumns(padding_idx=0), (2,))
    assert_right(backprop_of(model), model, torch.tensor([[3.0, 3.0], [1.0, 2.0], [0.0, 4.0]]), torch.ones(3))


class MinusBatchMean(nn.Module):
    def forward(self, X: Tensor) -> Tensor:
        return X - X.mean(0)


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, X: Tensor) -> Tensor:
        self.seen += X.sum()
        return X


@pytest.mark.parametrize(
    ("extractor", "shape", "message"),
    [
        (lambda: nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4)), (5,), r"layer '1' \(BatchNorm1d\) mixes"),
        (lambda: nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4)), (1, 6, 6), r"layer '1' \(BatchNorm2d\) mixes"),
        (
            lambda: nn.Sequential(nn.Conv2d(1, 4, 3), nn.InstanceNorm2d(4, track_running_stats=True)),
            (1, 6, 6),
            r"layer '1' \(InstanceNorm2d\) keeps running statistics",
        ),
        (lambda: Lookup(max_norm=1.0), (4,), r"layer 'table' \(Embedding\) changes with the batch"),
        (lambda: Lookup(scale_grad_by_freq=True), (4,), r"layer 'table' \(Embedding\) changes with the batch"),
        (MinusBatchMean, (5,), "records of a batch influence each other"),
        (lambda: nn.Sequential(nn.Linear(5, 4), MinusBatchMean()), (5,), "records of a batch influence each other"),
        (Counter, (5,), "changes its own state in forward"),
    ],
)
def test_modules_that_break_the_bound_are_refused_by_name(extractor, shape, message):
    with pytest.raises(ValueError, match=message):
        backprop_of(ScoreModel(extractor(), shape))


def test_dropout_stays_per_record_and_runs():
    torch.manual_seed(0)
    model = ScoreModel(nn.Sequential(nn.Linear(5, 4), nn.Dropout(0.5), nn.ReLU()), (5,))
    norms, total = norms_and_sum(backprop_of(model), model, *records(model), torch.ones(6))
    assert norms.isfinite().all()
    assert total.isfinite().all()


def test_a_dead_embedding_has_finite_gradients():
    model = ScoreModel(mlp(5, (4,)), (5,))
    model.params[model.slices["1.weight"]] = 0.0
    model.params[model.slices["1.bias"]] = -1.0
    X, y = records(model)
    norms, total = norms_and_sum(backprop_of(model), model, X, y, torch.ones(6))
    assert not model.embed(X).any()
    assert norms.isfinite().all()
    assert total.isfinite().all()
    assert total[-1] == pytest.approx(float(naive_gradients(model, X, y)[:, -1].sum()), rel=1e-5)


def test_the_data_are_left_as_they_were():
    for name in ("no hidden layer", "mlp relu", "in-place relu", "cnn"):
        model = build(name)
        X, y = records(model)
        before = X.clone()
        norms_and_sum(backprop_of(model), model, X, y, torch.ones(6))
        assert torch.equal(X, before)


def _half_frozen() -> nn.Module:
    layers = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3), nn.Sigmoid())
    layers[0].requires_grad_(False)
    return layers


def test_frozen_layers_stay_as_they_are():
    extractor = _half_frozen()
    before = extractor[0].weight.clone()
    model = ScoreModel(extractor, (5,))
    assert set(model.slices) == {"2.weight", "2.bias"}
    assert type(backprop_of(model)).__name__ == "Hooked"
    model.replace_params(torch.zeros_like(model.params))
    assert torch.equal(extractor[0].weight, before)
    assert set(model.fixed_state()) == {"0.weight", "0.bias"}


def test_an_embedding_bag_that_renormalises_is_refused():
    with pytest.raises(ValueError, match=r"EmbeddingBag.*max_norm"):
        ScoreModel(nn.EmbeddingBag(3, 2, max_norm=1.0), (2,))


class WrongNorms:
    """Terms whose sums are right and whose norms are not."""

    def __init__(self, term) -> None:
        self.term = term

    def squared_norms(self) -> Tensor:
        return 0.5 * self.term.squared_norms()

    def add_weighted_sum(self, coefficients: Tensor, total: Tensor) -> None:
        self.term.add_weighted_sum(coefficients, total)


def test_the_check_on_public_noise_compares_norms_too():
    model = build("layer norm")
    right, written = backprop_of(model), RecordByRecord(model)

    class Route:
        def forward(self, X: Tensor) -> Passed:
            passed = right.forward(X)
            return Passed(passed.scores, lambda *given: [WrongNorms(term) for term in passed.backward(*given)])

    assert _agree(right, written, model)
    assert not _agree(Route(), written, model)


def test_book_keeping_that_is_wrong_is_not_trusted(monkeypatch):
    """A last check: whatever a layer's book-keeping says, torch.func must say it too, of public noise."""
    right = BOOKKEEPING[nn.LayerNorm]
    monkeypatch.setitem(BOOKKEEPING, nn.LayerNorm, lambda layer, inputs, *more: right(layer, 2 * inputs + 1, *more)[:1])
    model = build("layer norm")
    assert type(backprop_of(model)) is RecordByRecord


@pytest.mark.parametrize("kind", ["hook", "hook before", "own forward"])
def test_a_layer_with_a_hook_is_no_part_of_a_stack(kind):
    """It is code that the layer's type does not tell of, so that its records are taken one by one."""
    model = build("mlp tanh")
    layer = next(m for m in model.extractor.modules() if isinstance(m, nn.Linear))
    if kind == "hook":
        layer.register_forward_hook(lambda module, given, output: 2 * output)
    elif kind == "hook before":
        layer.register_forward_pre_hook(lambda module, given: (2 * given[0],))
    else:
        layer.forward = lambda X: nn.functional.linear(2 * X, layer.weight, layer.bias)
    hooked = ScoreModel(model.extractor.requires_grad_(True), model.shape)
    route = backprop_of(hooked)
    assert type(route) is RecordByRecord
    assert_right(route, hooked, *records(hooked))


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


N = 5


def _term(kind: str, seed: int = 0):
    """A term and its per-record gradients written out by definition, shape (N, n_parameters)."""
    rng = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=rng)

    if kind == "linear":
        a, d = normal(N, 3), normal(N, 2)
        return LinearTerm(a, d.clone(), slice(0, 6), slice(6, 8)), torch.cat(
            [torch.einsum("no,ni->noi", d, a).flatten(1), d], 1
        )
    if kind in ("positions", "many positions"):
        length = 2 if kind == "positions" else 9
        a, d = normal(N, 4, length), normal(N, 3, length)
        term = PositionsTerm(a, d, slice(0, 12), slice(12, 15))
        assert (term.gradients is None) == (kind == "positions")
        return term, torch.cat([torch.einsum("nol,nil->noi", d, a).flatten(1), d.sum(2)], 1)
    if kind == "embedding":
        indices = torch.randint(3, (N, 4), generator=rng)
        d = normal(N, 4, 2)
        table = torch.zeros(N, 3, 2)
        for record in range(N):
            table[record].index_add_(0, indices[record], d[record])
        return EmbeddingTerm(indices, d, slice(0, 6)), table.flatten(1)
    if kind == "written":
        gradients = normal(N, 4)
        return WrittenTerm(gradients.clone(), slice(0, 4)), gradients
    embeddings, dz = normal(N, 3), normal(N)
    return HeadTerm(embeddings, dz, slice(0, 4)), dz[:, None] * torch.cat([embeddings, torch.ones(N, 1)], 1)


KINDS = ("linear", "positions", "many positions", "embedding", "written", "head")


def allowance(term) -> Tensor | float:
    """The share of a squared norm that comes from Gram matrices."""
    if isinstance(term, EmbeddingTerm):
        return rounding_bound(term.deltas.norm(dim=2), n_terms=sum(term.deltas.shape[1:])).double()
    if isinstance(term, PositionsTerm) and term.gradients is None:
        n_terms = sum(term.inputs.shape[1:]) + term.deltas.shape[1]
        return rounding_bound(term.inputs.norm(dim=1) * term.deltas.norm(dim=1), n_terms=n_terms).double()
    return 0.0


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=5, deadline=None)
@example(seed=52)
@given(seed=st.integers(0, 1000))
def test_norms_and_sums_follow_from_the_factors(kind, seed):
    term, written = _term(kind, seed)
    coefficients = torch.linspace(-1.0, 2.0, N)
    total = torch.ones(written.shape[1])
    squares, exact = term.squared_norms().double(), written.double().square().sum(1)
    # Never below, or a record would go unclipped; above by what rounding may have taken, where positions cancel.
    assert (squares >= (1 - 1e-5) * exact).all()
    assert (squares <= (1 + 1e-4) * exact + 1e-5 + 2 * allowance(term)).all()
    term.add_weighted_sum(coefficients, total)
    torch.testing.assert_close(total, 1 + coefficients @ written, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_an_erased_record_adds_nothing_whatever_its_buffers_hold(kind):
    term, written = _term(kind)
    for buffer in ("inputs", "deltas", "gradients", "embeddings", "score_gradients"):
        if isinstance(getattr(term, buffer, None), Tensor):
            getattr(term, buffer)[1] = torch.nan
    term.erase(torch.tensor([False, True, False, False, False]))
    coefficients = torch.tensor([1.0, 0.0, 1.0, 1.0, 1.0])
    total = torch.zeros(written.shape[1])
    term.add_weighted_sum(coefficients, total)
    torch.testing.assert_close(total, coefficients @ written, rtol=1e-4, atol=1e-5)


def test_members_send_each_record_to_one_head():
    embeddings, dz = torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([1.0, 1.0, 10.0])
    term = HeadTerm(embeddings, dz, slice(1, 5), torch.tensor([1, 0, 1]))
    total = torch.zeros(5)
    term.add_weighted_sum(torch.ones(3), total)
    assert total.tolist() == [0.0, 2.0, 1.0, 31.0, 11.0]


@pytest.mark.parametrize("scale", [1.0, 1e2, 1e4])
def test_cancellation_never_hides_a_gradient_from_the_gram_route(scale):
    """Two large, nearly opposite contributions: the Gram matrices cancel, the sum of the gradient does not."""
    rng = torch.Generator().manual_seed(0)
    a = torch.randn(200, 64, 1, generator=rng) * scale
    inputs = torch.cat([a, a + torch.randn(200, 64, 1, generator=rng)], 2)
    deltas = torch.randn(200, 64, 1, generator=rng) * torch.tensor([1.0, -1.0])
    term = PositionsTerm(inputs, deltas, slice(0, 64 * 64), None)
    assert term.gradients is None
    true = torch.einsum("nol,nil->noi", deltas.double(), inputs.double()).flatten(1).norm(dim=1)
    stated = term.squared_norms().double().sqrt()
    assert (stated.isnan() | (stated >= true * (1 - 1e-4))).all()


@pytest.mark.parametrize("scale", [1.0, 1e2, 1e4])
def test_cancellation_never_hides_a_gradient_of_an_embedding(scale):
    rng = torch.Generator().manual_seed(0)
    d = torch.randn(200, 1, 8, generator=rng) * scale
    deltas = torch.cat([d, -d + torch.randn(200, 1, 8, generator=rng)], 1)
    term = EmbeddingTerm(torch.zeros(200, 2, dtype=torch.long), deltas, slice(0, 8))
    true = deltas.double().sum(1).norm(dim=1)
    stated = term.squared_norms().double().sqrt()
    assert (stated.isnan() | (stated >= true * (1 - 1e-4))).all()


LONG = 3 * 10**7


@pytest.fixture(scope="module")
def long_row() -> Tensor:
    """Entries that single precision adds worst: all equal, so that the sum outgrows each of them. 120 MB."""
    return torch.full((1, LONG), 1e-3)


def off_by(norms: Tensor) -> float:
    return abs(float(norms[0]) / (float(torch.tensor(1e-3)) * LONG**0.5) - 1)


def test_the_norm_of_a_long_tensor_is_far_within_the_margin(long_row):
    """A hundredth of it, whichever term holds the row."""
    one = torch.ones(1)
    terms = (
        WrittenTerm(long_row, slice(0, LONG)),
        ApartTerm(long_row, torch.empty(0)),
        LinearTerm(long_row, one[None], slice(0, LONG), None),
        LinearTerm(one[None], long_row, slice(0, LONG), None),
    )
    for term in terms:
        assert off_by(term.squared_norms().sqrt()) < (1 - MARGIN) / 100
    head = HeadTerm(long_row, one, slice(0, LONG + 1)).squared_norms()
    assert off_by((head - 1).sqrt()) < (1 - MARGIN) / 10


def test_that_check_notices_a_norm_in_single_precision(long_row):
    assert off_by(torch.linalg.vector_norm(long_row, dim=1)) > 1 - MARGIN


def test_rows_of_usual_length_have_the_norm_that_torch_gives():
    for width in (0, 1, 5, 2**16):
        rows = torch.randn(3, width)
        assert torch.equal(row_norms(rows), torch.linalg.vector_norm(rows, dim=1))
    rows = torch.randn(3, 2**16 + 1)
    torch.testing.assert_close(row_norms(rows), rows.double().norm(dim=1).float())
    rows[0, -1] = torch.inf
    assert row_norms(rows).isfinite().tolist() == [False, True, True]
