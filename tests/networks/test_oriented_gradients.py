import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fairdp._checks import ParameterError
from fairdp.networks.oriented_gradients import (
    ROW_CAP,
    CentredRows,
    ImageRows,
    OrientedGradients,
    _directions,
    capped_rows,
)
from onnx_cases import ROUNDING, session_of

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
    def test_a_face(self):
        layer = OrientedGradients(FACE)
        # Blocks of 2 × 2 cells among 8 × 8 and among 4 × 4, with 4 · 9 numbers each: (49 + 9) · 36.
        assert layer(images(3)).shape == (3, 2088)
        assert (layer.cell, layer.n_features) == (6, 2088)

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

    @pytest.mark.parametrize("shape", [FACE, (3, 28, 40)])
    def test_records_stay_apart(self, shape):
        layer, X = OrientedGradients(shape), images(9, shape)
        alone = torch.cat([layer(image[None]) for image in X])
        assert torch.allclose(layer(X), alone, atol=1e-6)

    def test_the_same_images_have_the_same_features(self):
        assert torch.equal(OrientedGradients(FACE)(images(5)), OrientedGradients(FACE)(images(5)))

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
