"""Hats and bins: dense and sparse rows agree, one record moves what is asked by at most one, weights by hand."""

import math

import numpy as np
import pytest
import torch

from fairdp.networks import hat_rows
from fairdp.networks.hat_rows import HatRows

NORM = 3.2
# Two categories of three values, then two numbers; zero lies at the start of the first and within the second.
ZEROS = {6: 0.0, 7: 0.25}


def layer(**options) -> HatRows:
    # A category is one; hats of a number have squares of one at most on each scale, its bin is one.
    settings = {"most_squares": 2 + 3 * len(ZEROS), "norm": NORM, **options}
    return HatRows(8, ZEROS, **settings)


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


def taught(n_records: int = 1000, **options) -> HatRows:
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
    # Two categories, and for each number two hats on each scale and one bin.
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
    """One number with zero at zero, u = 1/16: hats at 7/16 and 7/2 of the way, its fourth root being one half."""
    rows = HatRows(1, {0: 0.0}, most_squares=3, norm=1.0)
    entries = rows._entries(torch.tensor([[1 / 16]])).toarray()[0]
    expected = np.zeros(16 + 256)
    expected[[0, 1]] = [9 / 16, 7 / 16]
    expected[[8 + 3, 8 + 4]] = 0.5
    expected[16 + 16] = 1.0
    assert entries.tolist() == pytest.approx(expected.tolist())


def test_the_fourth_root_keeps_the_sign():
    """Zero at ½: −½ → 0, 0 → ½, ½ → 1, and 1/32 above zero is half of the way from there."""
    rows = HatRows(1, {0: 0.5}, most_squares=3, norm=1.0)
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
    # What is declared comes near the bound: a number on a node has a single hat on each scale.
    assert max(moves[:40]) > 0.9


def test_that_check_notices_a_bound_that_forgets_the_bins():
    """Were only hats and categories counted, and nothing cut, a record could move the answer by more."""
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
    rows = HatRows(2, {1: 0.0}, most_squares=4.0, norm=1.0)
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
    """Sixteen numbers weigh as four: hats ½; 1,000 records and noise of 24: (1000 / 2040 / 16)³ of that for bins."""
    rows = HatRows(16, dict.fromkeys(range(16), 0.0), most_squares=48.0, norm=1.0)
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
    plain = HatRows(3, {}, most_squares=3.0, norm=1.0)
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


def undeclared() -> HatRows:
    """Inputs that nobody declared: each as it is, at most three, and the last two as numbers on a bent scale too."""
    rows = HatRows(4, {2: 0.5, 3: 0.5}, most_squares=4 + 3 * 2, norm=NORM, bounded=False)
    rows.learn(100 * torch.rand(rows.width, generator=torch.Generator().manual_seed(0)), n_records=500, deviation=20.0)
    return rows


def unbounded_records(n_records: int = 101) -> torch.Tensor:
    X = torch.randn(n_records, 4, generator=torch.Generator().manual_seed(1))
    X[0], X[1], X[2] = 1e30, -7.0, 0.0
    return X


def test_undeclared_inputs_by_hand():
    """One is ¾ of the way on the bent scale; seven is cut to three beside it."""
    rows = HatRows(1, {0: 0.5}, most_squares=4, norm=1.0, bounded=False)
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
    others, hats = rows.released()
    np.testing.assert_allclose(others, frequencies[:6] + 0.18, rtol=1e-5)
    # Two scales, two numbers, eight hats.
    np.testing.assert_allclose(hats.ravel(), frequencies[6 : 6 + 32] + 0.18, rtol=1e-5)


def test_hats_of_one_number_are_those_of_a_row():
    X = records(1)
    X[:, 6:] = 0.3
    expected = layer()._entries(X).toarray()[0, 6 : 6 + 32].reshape(2, 2, 8)
    np.testing.assert_allclose(layer().hats_of(0.3), expected, atol=1e-6)


def test_peaks_are_where_people_are():
    """Hats are on tops at k / 7; between 3/14 and 5/14 most have 0.25, and around 1 on either scale all have 0.9."""
    rows = HatRows(1, {0: 0.0}, most_squares=3, norm=1.0)
    X = torch.tensor([[0.25]] * 6 + [[0.3]] * 3 + [[0.9]] * 5 + [[0.5]] * 20)
    rows.learn(rows.answers(X), n_records=34, deviation=1.0)
    linear, roots = rows.peaks()[:, 0]
    assert linear[2] == pytest.approx((0.25 * 256 + 0.5) / 256)
    # Nobody is within the limits of the hat before it, and those of the next one are none of its own.
    assert 1 / 14 - 1 / 256 <= linear[1] <= 3 / 14 + 1 / 256
    # The limit of the last linear hat is 13/14; that of the last root is (13/14)⁴ = 0.74.
    assert linear[6] == roots[7] == pytest.approx((math.floor(0.9 * 256) + 0.5) / 256)
    # Everybody who is missing is encoded as the middle: it is no peak.
    assert not np.isclose([*linear, *roots], 128.5 / 256).any()
