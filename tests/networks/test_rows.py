"""Rows of inputs: linear splines and bins, sparse rows, oriented gradients."""

import math

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from torch import Tensor, nn

from fairdp.errors import ParameterError
from fairdp.networks import rows as hat_rows
from fairdp.networks.rows import (
    ROW_CAP,
    CentredRows,
    ImageRows,
    OrientedGradients,
    SparseHeadTerm,
    SparseRows,
    SplineFeatures,
    _directions,
    capped_rows,
)
from onnx_cases import ROUNDING, session_of

NORM = 3.2
# Two categories of three values, then two numbers; zero lies at the start of the first and within the second.
ZEROS = {6: 0.0, 7: 0.25}


def layer(**options) -> SplineFeatures:
    # A category is one; splines of a number have squares of one at most on each scale, its bin is one.
    settings = {"most_squares": 2 + 3 * len(ZEROS), "norm": NORM, **options}
    return SplineFeatures(8, ZEROS, **settings)


def records(n_records: int = 50, seed: int = 0) -> torch.Tensor:
    rng = np.random.default_rng(seed)
    X = np.zeros((n_records, 8), np.float32)
    for start in (0, 3):
        X[np.arange(n_records), start + rng.integers(3, size=n_records)] = 1
    X[:, 6:] = rng.random((n_records, 2))
    # Nodes, edges of bins and both ends, exactly.
    X[:8, 6] = [0.0, 1.0, 1 / 7, 0.5, 1 / 256, 0.25, 255 / 256, 3 / 7][:n_records]
    X[:8, 7] = [0.25, 0.0, 1.0, 0.2500001, 0.2499999, 0.75, 0.125, 0.5][:n_records]
    return torch.from_numpy(X)


def taught(n_records: int = 1000, **options) -> SplineFeatures:
    """With weights as from a noisy release, some of it below zero."""
    rows = layer(**options)
    noisy = rows.answers(records(n_records)) + 30 * torch.from_numpy(np.random.default_rng(1).normal(size=rows.width))
    rows.learn(noisy, n_records=n_records, deviation=30.0)
    return rows


@pytest.mark.parametrize("rows", [layer(), taught()], ids=["untaught", "taught"])
def test_sparse_rows_are_the_dense_ones(rows):
    X = records()
    dense, sparse = rows(X), rows.sparse(X)
    assert sparse.matrix.shape == dense.shape == (50, rows.width) == (50, 6 + 2 * (16 + 256))
    np.testing.assert_allclose(sparse.matrix.toarray(), dense.numpy(), atol=3e-6)
    # Two categories, and for each number two splines on each scale and one bin.
    assert np.diff(sparse.matrix.indptr).max() <= 2 + 5 * 2


def test_that_check_notices_one_entry_of_wrong_weight():
    rows, X = taught(), records()
    sparse = rows.sparse(X).matrix.toarray()
    rows.weights[6:] *= 1.001
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(sparse, rows(X).numpy(), atol=3e-6)


def test_every_row_has_the_norm():
    rows, X = taught(), records(200)
    assert rows(X).norm(dim=1).tolist() == pytest.approx([NORM] * 200, rel=1e-5)
    exact = np.sqrt((rows.sparse(X).matrix.toarray() ** 2).sum(1))
    assert exact.tolist() == pytest.approx([NORM] * 200, rel=1e-12)


def test_norms_travel_with_the_rows():
    rows = taught().sparse(records())
    assert rows.norms.tolist() == pytest.approx([NORM] * 50, rel=1e-12)


def test_a_number_by_hand():
    """One number with zero at zero, u = 1/16: splines at 7/16 and 7/2 of the way, its fourth root being one half."""
    rows = SplineFeatures(1, {0: 0.0}, most_squares=3, norm=1.0)
    entries = rows._entries(torch.tensor([[1 / 16]])).toarray()[0]
    expected = np.zeros(16 + 256)
    expected[[0, 1]] = [9 / 16, 7 / 16]
    expected[[8 + 3, 8 + 4]] = 0.5
    expected[16 + 16] = 1.0
    assert entries.tolist() == pytest.approx(expected.tolist())


def test_the_fourth_root_keeps_the_sign():
    """Zero at ½: −½ → 0, 0 → ½, ½ → 1, and 1/32 above zero is half of the way from there."""
    rows = SplineFeatures(1, {0: 0.5}, most_squares=3, norm=1.0)
    found = rows._roots(torch.tensor([[0.0], [0.5], [1.0], [0.5 + 1 / 32], [0.5 - 1 / 32]])).flatten()
    assert found.tolist() == pytest.approx([0.0, 0.5, 1.0, 0.75, 0.25], abs=1e-6)


def test_numbers_out_of_bounds_are_moved_to_them():
    rows, X = taught(), records(4)
    beyond = X.clone()
    X[:, 6], beyond[:, 6] = 1.0, 1e30
    X[:, 7], beyond[:, 7] = 0.0, -5.0
    np.testing.assert_array_equal(rows.sparse(X).matrix.toarray(), rows.sparse(beyond).matrix.toarray())
    assert torch.equal(rows(X), rows(beyond))


def strange() -> torch.Tensor:
    """Records that are not as declared: all categories at once, huge and negative numbers, nothing at all."""
    X = torch.zeros(8, 8)
    X[0] = 1.0
    X[1, :6] = 1e30
    X[2] = 3e38
    X[3] = -5.0
    X[5, 0] = float("nan")
    X[6, 7] = float("inf")
    X[7, :6] = torch.tensor([1.0, 0, 0, 0, 1, 0])
    return X


def test_removing_any_record_moves_the_answer_by_at_most_one():
    rows, X = layer(), torch.cat([records(40), strange()])
    whole = rows.answers(X)
    moves = [float((whole - rows.answers(X[torch.arange(48) != i])).norm()) for i in range(48)]
    assert whole.isfinite().all()
    assert max(moves) <= 1 + 1e-9
    # A huge record is cut to one exactly; one that is not finite says nothing.
    assert moves[40 + 1] == pytest.approx(1.0)
    assert moves[40 + 5] == moves[40 + 6] == 0.0
    # What is declared comes near the bound: a number on a node has a single spline on each scale.
    assert max(moves[:40]) > 0.9


def test_that_check_notices_a_bound_that_forgets_the_bins():
    """Were only splines and categories counted, and nothing cut, a record could move the answer by more."""
    rows = layer()
    forgotten = math.sqrt(2 + 2 * len(ZEROS))
    entries = rows._entries(records(40)).toarray()
    assert max(np.linalg.norm(entries, axis=1)) / forgotten > 1.05
    assert max(np.linalg.norm(entries, axis=1)) <= math.sqrt(rows.most_squares) * (1 + 1e-6)


def test_the_answer_counts_each_entry():
    rows, X = layer(), records(50)
    expected = rows._entries(X).toarray().sum(0) / math.sqrt(rows.most_squares)
    assert rows.answers(X).tolist() == pytest.approx(expected.tolist(), rel=2e-6)


def test_weights_by_hand():
    """One category and one number among 10,000 records, noise of 50: every factor worked out."""
    rows = SplineFeatures(2, {1: 0.0}, most_squares=4.0, norm=1.0)
    noisy = torch.zeros(rows.width, dtype=torch.float64)
    noisy[0], noisy[1], noisy[2] = 2500.0, 1000.0, -40.0
    rows.learn(noisy, n_records=10_000, deviation=50.0)
    floor = 6 * 50 / 10_000
    # Evidence for bins: 10,000 / (85 · 50) = 2.35 numbers, of which there is one; at most 1.5.
    assert rows.weights[0] == pytest.approx((2500 * 2 / 10_000 + floor) ** -0.4, rel=1e-5)
    assert rows.weights[1] == pytest.approx((1000 * 2 / 10_000 + floor) ** -0.4, rel=1e-5)
    assert rows.weights[2] == pytest.approx(floor**-0.4, rel=1e-5)
    assert rows.weights[-1] == pytest.approx(1.5 * floor**-0.4, rel=1e-5)


def test_many_numbers_and_few_records_get_small_weights_by_hand():
    """Sixteen numbers weigh as four: splines ½; 1,000 records and noise of 24: (1000 / 2040 / 16)³ of that for bins."""
    rows = SplineFeatures(16, dict.fromkeys(range(16), 0.0), most_squares=48.0, norm=1.0)
    rows.learn(torch.zeros(rows.width), n_records=1000, deviation=0.0)
    floor = (6 / 1000) ** -0.4
    assert rows.weights[0] == pytest.approx(0.5 * floor, rel=1e-5)
    assert rows.weights[-1] == pytest.approx(0.5 * (1000 / (85 * 24) / 16) ** 3 * floor, rel=1e-5)


def test_chunks_do_not_matter(monkeypatch):
    rows, X = taught(), torch.cat([records(40), strange()[:5]])
    whole, answer = rows.sparse(X), rows.answers(X)
    monkeypatch.setattr(hat_rows, "_CHUNK", 7)
    parts = rows.sparse(X)
    np.testing.assert_array_equal(whole.matrix.toarray(), parts.matrix.toarray())
    assert torch.equal(whole.norms, parts.norms)
    assert rows.answers(X).tolist() == pytest.approx(answer.tolist(), rel=1e-12)


def test_a_row_does_not_depend_on_the_others():
    """Not by a last digit: else one record would move what everybody else adds to a sum."""
    rows, X = taught(), torch.cat([records(101), strange()])
    together = rows.sparse(X).matrix.toarray()
    for i in range(len(X)):
        np.testing.assert_array_equal(rows.sparse(X[i : i + 1]).matrix.toarray()[0], together[i])


def test_a_record_that_is_not_finite_spoils_its_own_row_only():
    rows = taught().sparse(torch.cat([records(3), strange()[5:6], records(3)]))
    assert rows.norms.isfinite().tolist() == [True] * 3 + [False] + [True] * 3
    assert torch.equal(rows.norms[:3], rows.norms[4:])


def test_nobody_and_nothing():
    rows = taught()
    assert rows.sparse(torch.zeros(0, 8)).matrix.shape == (0, rows.width)
    assert not rows.answers(torch.zeros(0, 8)).any()
    plain = SplineFeatures(3, {}, most_squares=3.0, norm=1.0)
    X = torch.tensor([[0.0, 3.0, 4.0], [0.0, 0.0, 0.0]])
    assert plain(X)[0].tolist() == pytest.approx([0, 0.6, 0.8])
    assert plain.sparse(X).matrix.toarray().ravel().tolist() == pytest.approx([0, 0.6, 0.8, 0, 0, 0])


def test_memory_is_bounded_by_what_is_stated():
    rows = layer()
    sparse = rows.sparse(records(100)).matrix
    assert sparse.data.nbytes + sparse.indices.nbytes <= 100 * rows.row_bytes


def test_weights_are_saved_and_zeros_are_public():
    assert list(taught().state_dict()) == ["weights"]
    assert "552" not in repr(layer())
    assert f"{layer().width} entries" in repr(layer())


def undeclared() -> SplineFeatures:
    """Inputs that nobody declared: each as it is, at most three, and the last two as numbers on a bent scale too."""
    rows = SplineFeatures(4, {2: 0.5, 3: 0.5}, most_squares=4 + 3 * 2, norm=NORM, bounded=False)
    rows.learn(100 * torch.rand(rows.width, generator=torch.Generator().manual_seed(0)), n_records=500, deviation=20.0)
    return rows


def unbounded_records(n_records: int = 101) -> torch.Tensor:
    X = torch.randn(n_records, 4, generator=torch.Generator().manual_seed(1))
    X[0], X[1], X[2] = 1e30, -7.0, 0.0
    return X


def test_undeclared_inputs_by_hand():
    """One is ¾ of the way on the bent scale; seven is cut to three beside it."""
    rows = SplineFeatures(1, {0: 0.5}, most_squares=4, norm=1.0, bounded=False)
    entries = rows._entries(torch.tensor([[1.0], [7.0]])).toarray()
    assert entries[:, 0].tolist() == [1.0, 3.0]
    assert entries[0, 1:9].tolist() == pytest.approx([0, 0, 0, 0, 0, 0.75, 0.25, 0])
    assert entries[0, 1 + 16 + 192] == 1.0


def test_undeclared_inputs_hold_the_same_promises():
    rows, X = undeclared(), unbounded_records()
    sparse = rows.sparse(X)
    np.testing.assert_allclose(sparse.matrix.toarray(), rows(X).numpy(), atol=5e-6)
    assert sparse.norms.tolist() == pytest.approx([NORM] * len(X), rel=1e-12)
    for i in range(len(X)):
        np.testing.assert_array_equal(rows.sparse(X[i : i + 1]).matrix.toarray()[0], sparse.matrix.toarray()[i])


def test_undeclared_inputs_move_the_answer_by_at_most_one_record():
    rows, X = undeclared(), torch.cat([unbounded_records(40), torch.full((1, 4), torch.nan)])
    X[5, 1] = torch.inf
    whole = rows.answers(X)
    moves = [float((whole - rows.answers(X[torch.arange(41) != i])).norm()) for i in range(41)]
    assert whole.isfinite().all()
    assert 0.9 < max(moves) <= 1 + 1e-9
    assert moves[5] == moves[40] == 0.0


def test_frequencies_can_be_read_from_the_weights_again():
    """Those of the release, where noise was not below zero, with the floor of 6 · 30 / 1000 on each."""
    rows = layer()
    noisy = rows.answers(records(1000)) + 3 * torch.rand(rows.width, dtype=torch.float64)
    rows.learn(noisy, n_records=1000, deviation=30.0)
    frequencies = noisy.numpy() * math.sqrt(rows.most_squares) / 1000
    others, splines = rows.released()
    np.testing.assert_allclose(others, frequencies[:6] + 0.18, rtol=1e-5)
    # Two scales, two numbers, eight splines.
    np.testing.assert_allclose(splines.ravel(), frequencies[6 : 6 + 32] + 0.18, rtol=1e-5)


def test_splines_of_one_number_are_those_of_a_row():
    X = records(1)
    X[:, 6:] = 0.3
    expected = layer()._entries(X).toarray()[0, 6 : 6 + 32].reshape(2, 2, 8)
    np.testing.assert_allclose(layer().hats_of(0.3), expected, atol=1e-6)


def test_peaks_are_where_people_are():
    """Splines are on tops at k / 7; between 3/14 and 5/14 most have 0.25, and around 1 on either scale all have 0.9."""
    rows = SplineFeatures(1, {0: 0.0}, most_squares=3, norm=1.0)
    X = torch.tensor([[0.25]] * 6 + [[0.3]] * 3 + [[0.9]] * 5 + [[0.5]] * 20)
    rows.learn(rows.answers(X), n_records=34, deviation=1.0)
    linear, roots = rows.peaks()[:, 0]
    assert linear[2] == pytest.approx((0.25 * 256 + 0.5) / 256)
    # Nobody is within the limits of the spline before it, and those of the next one are none of its own.
    assert 1 / 14 - 1 / 256 <= linear[1] <= 3 / 14 + 1 / 256
    # The limit of the last linear spline is 13/14; that of the last root is (13/14)⁴ = 0.74.
    assert linear[6] == roots[7] == pytest.approx((math.floor(0.9 * 256) + 0.5) / 256)
    # Everybody who is missing is encoded as the middle: it is no peak.
    assert not np.isclose([*linear, *roots], 128.5 / 256).any()


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


FACE = (1, 48, 48)
N_ORIENTATIONS = 9


def images(n: int, shape: tuple[int, ...] = FACE) -> Tensor:
    return torch.rand(n, *shape, generator=torch.Generator().manual_seed(0))


def ramp(degrees: float, side: int = 48) -> Tensor:
    """One image that brightens in one direction, 0° to the right and 90° downwards."""
    down, right = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    angle = math.radians(degrees)
    return ((math.cos(angle) * right + math.sin(angle) * down) / side)[None, None]


def fine_and_coarse(features: Tensor) -> tuple[Tensor, Tensor]:
    """Features of one face by (cell of the block, orientation, row and column of the block)."""
    fine, coarse = features[0].split([4 * N_ORIENTATIONS * 49, 4 * N_ORIENTATIONS * 9])
    return fine.view(4, N_ORIENTATIONS, 7, 7), coarse.view(4, N_ORIENTATIONS, 3, 3)


class TestCounts:
    @pytest.mark.parametrize(
        ("shape", "cell", "n_features"),
        [
            ((1, 24, 24), 3, 2088),
            ((3, 32, 32), 4, 2088),
            # 28 pixels are seven cells of four; half a cell more on either side makes whole coarse cells.
            ((1, 28, 28), 4, 2088),
            ((3, 100, 100), 13, 2088),
            # 4 × 16 cells, 2 × 8 coarse ones: (3 · 15 + 1 · 7) · 36.
            ((1, 24, 96), 6, 1872),
            # Too flat for two coarse cells, so that they reach beyond the image.
            ((2, 8, 200), 5, 4 * 9 * (3 * 39 + 19)),
            ((1, 8, 8), 1, 2088),
        ],
    )
    def test_cells_grow_with_the_image(self, shape, cell, n_features):
        layer = OrientedGradients(shape)
        assert (layer.cell, layer.n_features) == (cell, n_features)
        assert layer(images(2, shape)).shape == (2, n_features)

    @pytest.mark.parametrize("shape", [(48, 48), (2304,), (1, 7, 48), (1, 48, 7), (0, 48, 48)])
    def test_other_records_are_refused(self, shape):
        with pytest.raises(ParameterError, match="at least 8 × 8 pixels, got"):
            OrientedGradients(shape)

    def test_nothing_is_trained_or_saved(self):
        layer = OrientedGradients(FACE)
        assert list(layer.parameters()) == []
        assert layer.state_dict() == {}


class TestByHand:
    @pytest.mark.parametrize("bin_", range(N_ORIENTATIONS))
    def test_a_ramp_falls_into_its_orientation(self, bin_):
        fine, coarse = fine_and_coarse(OrientedGradients(FACE)(ramp(20 * bin_)))
        # Four equal cells with one orientation each have 1/2 of the block's norm, which the cap makes 0.3.
        expected = torch.zeros(4, N_ORIENTATIONS)
        expected[:, bin_] = 0.3
        assert torch.allclose(fine[:, :, 3, 3], expected, atol=1e-5)
        assert {int(orientation) for orientation in coarse[:, :, 1, 1].argmax(1)} <= {bin_ // 2, (bin_ + 1) // 2}

    def test_fine_cells_know_no_sign_and_coarse_ones_do(self):
        layer = OrientedGradients(FACE)
        (fine, coarse), (fine_back, coarse_back) = (fine_and_coarse(layer(ramp(angle))) for angle in (40, 220))
        assert torch.allclose(fine, fine_back, atol=1e-5)
        # 40° is direction 1 of nine that are 40° apart; 220° is in the middle of directions 5 and 6.
        assert (coarse[0, :, 1, 1] > 1e-5).nonzero().flatten().tolist() == [1]
        middle = coarse_back[0, :, 1, 1]
        assert middle.topk(2).indices.sort().values.tolist() == [5, 6]
        assert middle[[0, 1, 2, 3, 4, 7, 8]].max() < 1e-5

    def test_a_single_edge(self):
        image = torch.zeros(1, *FACE)
        image[..., 24:] = 1
        fine, _ = fine_and_coarse(OrientedGradients(FACE)(image))
        # Columns 23 and 24 have a gradient, to the right; they end cell 3 and begin cell 4.
        assert fine.sum((0, 2, 3)).nonzero().flatten().tolist() == [0]
        assert fine[:, 0].sum((0, 1)).nonzero().flatten().tolist() == [2, 3, 4]

    def test_votes_between_two_directions(self):
        # 30° is as far from 20° as from 40°: both get the same, and together the whole within 1.6 %.
        gradient = torch.tensor([math.cos(math.radians(30)), math.sin(math.radians(30))])
        along, across = (_directions()[:, :, 0, 0] @ gradient).chunk(2)
        votes = torch.relu(along - across.abs())
        assert votes.nonzero().flatten().tolist() == [1, 2]
        assert votes[1].item() == pytest.approx(votes[2].item(), abs=1e-6)
        assert votes.sum().item() == pytest.approx(1 / math.cos(math.radians(10)), abs=1e-6)

    def test_of_several_channels_the_strongest_gradient_counts(self):
        steep, gentle = ramp(60), 0.25 * ramp(100)
        coloured = torch.cat([gentle, steep, 0 * gentle], 1)
        assert torch.equal(OrientedGradients((3, 48, 48))(coloured), OrientedGradients(FACE)(steep))


class TestPromises:
    def test_a_constant_changes_nothing(self):
        layer, X = OrientedGradients(FACE), images(4)
        assert torch.allclose(layer(X + 0.5), layer(X), atol=1e-4)
        assert layer(torch.full((1, *FACE), 0.7)).abs().max() == 0

    def test_contrast_changes_little(self):
        layer, X = OrientedGradients(FACE), images(4)
        assert torch.allclose(layer(X / 4), layer(X), atol=2e-2)

    def test_the_same_images_have_the_same_features(self):
        assert torch.equal(OrientedGradients(FACE)(images(5)), OrientedGradients(FACE)(images(5)))

    @pytest.mark.parametrize("shape", [FACE, (3, 28, 40)])
    def test_records_stay_apart(self, shape):
        layer, X = OrientedGradients(shape), images(9, shape)
        alone = torch.cat([layer(image[None]) for image in X])
        assert torch.allclose(layer(X), alone, atol=1e-6)

    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 3e38])
    @pytest.mark.parametrize("shape", [FACE, (3, 48, 48)])
    def test_values_that_are_not_finite_stay_with_their_record(self, value, shape):
        layer, X = OrientedGradients(shape), images(5, shape)
        before = layer(X)
        X[2, 0, 10, 10] = value
        after = layer(X)
        others = [0, 1, 3, 4]
        assert torch.equal(after[others], before[others])
        assert after.isfinite().all()

    @pytest.mark.parametrize("scale", [1e-20, 1.0, 255.0, 1e30])
    def test_entries_and_norms_are_bounded(self, scale):
        layer = OrientedGradients(FACE)
        features = layer(scale * images(6))
        assert 0 <= features.min() <= features.max() <= 0.3 + 1e-6
        # Each of 58 blocks has a norm of at most one.
        assert features.norm(dim=1).max() <= math.sqrt(58)


class TestCentredRows:
    def test_by_hand(self):
        layer = CentredRows(torch.tensor([1.0, 1.0]), 3.0)
        # (4, 5) − (1, 1) = (3, 4), of norm five; the mean itself has no direction.
        rows = torch.tensor([[4.0, 5.0], [1.0, 1.0]])
        assert torch.allclose(layer(rows), torch.tensor([[1.8, 2.4], [0.0, 0.0]]))

    @pytest.mark.parametrize("value", [math.nan, math.inf, 3e38])
    def test_no_row_is_longer_or_reaches_another(self, value):
        layer, rows = CentredRows(torch.full((5,), 0.1), 3.1), torch.randn(4, 5, generator=torch.manual_seed(0))
        before = layer(rows)
        rows[1] = value
        after = layer(rows)
        assert after.norm(dim=1).max() <= 3.1 * (1 + 1e-6)
        assert torch.equal(after[[0, 2, 3]], before[[0, 2, 3]])

    def test_the_mean_is_saved(self):
        mean = torch.arange(3.0)
        layer = CentredRows(mean, 1.0)
        mean += 1
        assert list(layer.parameters()) == []
        assert layer.state_dict()["mean"].tolist() == [0, 1, 2]

    @pytest.mark.parametrize("norm", [0.0, -1.0, math.nan, math.inf])
    def test_a_norm_is_positive(self, norm):
        with pytest.raises(ParameterError, match="must be positive and finite"):
            CentredRows(torch.zeros(2), norm)

    @pytest.mark.parametrize("factor", [10.0, 100.0, 0.0, 0.01, 1.0, 1e30, math.inf, math.nan])
    def test_one_record_moves_the_capped_sum_by_one_at_most(self, factor):
        rows = torch.randn(20, 7, generator=torch.manual_seed(1)).abs()
        rows[3] *= factor
        with_it, without = capped_rows(rows).sum(0), capped_rows(rows[torch.arange(20) != 3]).sum(0)
        assert (with_it - without).norm() <= 1 + 1e-6

    def test_rows_within_the_cap_are_only_rescaled(self):
        rows = torch.tensor([[3.0, 4.0], [6.0, 8.0]])
        assert torch.allclose(capped_rows(rows) * ROW_CAP, torch.tensor([[3.0, 4.0], [3.6, 4.8]]), rtol=2e-5)


@pytest.mark.more
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("shape", [FACE, (3, 28, 40)])
def test_the_onnx_file_has_the_same_features(shape):
    features = OrientedGradients(shape)
    mean = torch.full((features.n_features,), 0.05)
    extractor = nn.Sequential(features, CentredRows(mean, 3.1)).eval()
    sizes = {"input": {0: torch.export.Dim("n")}}
    with torch.no_grad():
        program = torch.export.export(extractor, (images(4, shape),), dynamic_shapes=sizes, strict=False)
        exported = torch.onnx.export(program, dynamo=True, verbose=False, input_names=["records"], opset_version=18)
    session = session_of(exported.model_proto.SerializeToString())
    for n in (1, 7):
        X = images(n, shape)
        X[0, 0, 5, 5] = math.nan
        (made,) = session.run(None, {"records": X.numpy()})
        assert np.allclose(made, extractor(X).numpy(), rtol=0, atol=ROUNDING)


def test_the_rows_of_images_learn_their_mean_from_a_sum_that_one_record_moves_by_at_most_one():
    layer, X = ImageRows(FACE, norm=3.1), images(40)
    whole = layer.answers(X)
    for left_out in range(0, 40, 7):
        assert torch.linalg.vector_norm(whole - layer.answers(X[torch.arange(40) != left_out])) <= 1 + 1e-6
    layer.learn(whole.float(), n_records=40, deviation=1.0)
    assert torch.allclose(layer.centred.mean, ROW_CAP * whole.float() / 40)
    assert torch.allclose(torch.linalg.vector_norm(layer(X), dim=1), torch.full((40,), 3.1), rtol=1e-5)


def test_the_top_at_zero_is_in_a_bin_whatever_the_bounds():
    """Of bounds −a to b, whose zero may come out a little below itself."""
    zeros = sorted({a / (a + b) for a in range(1, 9) for b in range(1, 9)})
    rows = SplineFeatures(len(zeros), dict(enumerate(zeros)), most_squares=3.0 * len(zeros), norm=1.0)
    assert ((rows.peaks() > 0) & (rows.peaks() < 1)).all()
