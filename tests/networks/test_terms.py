import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from fairdp.networks.terms import (
    ApartTerm,
    EmbeddingTerm,
    HeadTerm,
    LinearTerm,
    PositionsTerm,
    WrittenTerm,
    rounding_bound,
    row_norms,
)
from fairdp.training.clipping import MARGIN

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
    """What is added to a squared norm that comes from Gram matrices."""
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
