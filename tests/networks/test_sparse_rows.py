"""Sparse rows and the gradients of heads over them, against rows and gradients written out."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from fairdp.networks.sparse_rows import SparseHeadTerm, SparseRows

N, WIDTH, HEADS = 9, 13, 4
BEFORE = 5  # Parameters that stand before the heads.


def rows(seed: int = 0) -> SparseRows:
    rng = np.random.default_rng(seed)
    dense = rng.normal(size=(N, WIDTH)) * (rng.random((N, WIDTH)) < 0.3)
    dense[4] = 0.0
    return SparseRows.of(csr_array(dense))


def dense_of(sparse: SparseRows) -> torch.Tensor:
    return torch.from_numpy(sparse.matrix.toarray())


def term(sparse: SparseRows | None = None) -> SparseHeadTerm:
    pulls = torch.from_numpy(np.random.default_rng(1).normal(size=(N, HEADS)))
    return SparseHeadTerm(rows() if sparse is None else sparse, pulls, slice(BEFORE, None))


def written(given: SparseHeadTerm) -> torch.Tensor:
    """Gradient of every record: the outer product of its pulls and (row, 1); shape (N, n_parameters)."""
    with_one = torch.cat([dense_of(given.rows), torch.ones(N, 1, dtype=torch.float64)], 1)
    outer = torch.einsum("nh,nw->nhw", given.score_gradients, with_one).flatten(1)
    return torch.cat([torch.zeros(N, BEFORE, dtype=torch.float64), outer], 1)


def weighted_sum(given: SparseHeadTerm, coefficients: torch.Tensor) -> torch.Tensor:
    total = torch.zeros(BEFORE + HEADS * (WIDTH + 1), dtype=torch.float64)
    given.add_weighted_sum(coefficients, total)
    return total


COEFFICIENTS = torch.linspace(0.2, 1.7, N, dtype=torch.float64)


def test_norms_are_those_of_the_gradients_written_out():
    torch.testing.assert_close(term().squared_norms(), written(term()).square().sum(1), rtol=1e-12, atol=1e-12)


def test_asking_for_norms_leaves_the_sum_as_it_was():
    """Squares are taken of a copy: pulls are used again for the sum."""
    given = term()
    given.squared_norms()
    torch.testing.assert_close(
        weighted_sum(given, COEFFICIENTS), COEFFICIENTS @ written(term()), rtol=1e-12, atol=1e-12
    )


def test_that_check_notices_a_gradient_without_its_constant():
    given = term()
    short = given.score_gradients.square().sum(1) * given.rows.norms.square()
    with pytest.raises(AssertionError):
        torch.testing.assert_close(short, written(given).square().sum(1), rtol=1e-12, atol=1e-12)


def test_a_sum_adds_to_what_is_there_and_in_single_precision_too():
    total = torch.ones(BEFORE + HEADS * (WIDTH + 1))
    term().add_weighted_sum(COEFFICIENTS, total)
    torch.testing.assert_close(total, 1 + (COEFFICIENTS @ written(term())).float(), rtol=1e-5, atol=1e-5)


def test_erased_records_are_gone_whatever_they_held():
    sparse = rows()
    sparse.matrix.data[: sparse.matrix.indptr[1]] = np.nan
    sparse = SparseRows.of(sparse.matrix)
    given, gone = term(sparse), torch.zeros(N, dtype=torch.bool)
    given.score_gradients[0] = torch.nan
    gone[[0, 3]] = True
    kept_rows, kept_pulls = given.rows, given.score_gradients
    assert given.squared_norms().isnan().tolist() == [True] + [False] * (N - 1)
    given.erase(gone)
    assert given.squared_norms()[gone].tolist() == [0.0, 0.0]
    expected = torch.where(gone, 0.0, COEFFICIENTS) @ written(term())
    torch.testing.assert_close(weighted_sum(given, COEFFICIENTS), expected, rtol=1e-12, atol=1e-12)
    # Rows are kept from step to step: those of the run are left alone.
    assert np.isnan(kept_rows.matrix.data[0])
    assert kept_pulls[3].any()


def test_parts_of_rows_are_rows():
    whole, dense = rows(), dense_of(rows())
    for start, stop in [(0, N), (2, 5), (4, 5), (3, 3), (N, N)]:
        part = whole.between(start, stop)
        assert torch.equal(dense_of(part), dense[start:stop])
        assert torch.equal(part.norms, whole.norms[start:stop])
        assert len(part) == stop - start
    for chosen in ([3, 0, 3], []):
        picked = whole.at(torch.tensor(chosen, dtype=torch.long))
        assert torch.equal(dense_of(picked), dense[chosen])
        assert torch.equal(picked.norms, whole.norms[chosen])
    assert whole.width == WIDTH


def test_products_are_those_of_dense_rows():
    heads, pulls = torch.randn(WIDTH, HEADS, dtype=torch.float64), torch.randn(N, HEADS, dtype=torch.float64)
    for part, dense in [(rows(), dense_of(rows())), (rows().between(2, 6), dense_of(rows())[2:6])]:
        torch.testing.assert_close(part.times(heads), dense @ heads, rtol=1e-12, atol=1e-12)
        n = len(dense)
        torch.testing.assert_close(part.transposed_times(pulls[:n]), dense.T @ pulls[:n], rtol=1e-12, atol=1e-12)


def test_norms_are_those_of_the_rows():
    assert rows().norms.tolist() == pytest.approx(dense_of(rows()).norm(dim=1).tolist())
    assert rows().norms[4] == 0.0
