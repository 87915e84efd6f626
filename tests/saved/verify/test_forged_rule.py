"""Forgers of the rule of a joint model, of what it follows from, or of the queries that paid for it."""

import math

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from fairdp import FairDPClassifier
from fairdp.certify.certificate import NotCertified
from fairdp.parameters import NoCertificate
from fairdp.saved.folder import certificate_record
from forgeries import failed, folder_of, forge, mechanism_with, put, sum_up, tie
from priced_cases import priced_model

JOINT, THREE, ORDINARY = "method fairdp_frontier", "joint, three groups", "nothing held out"
RATIO, THREE_RATIO = "joint, ratio", "joint, ratio of three groups"


def model_with(*path, value):
    return lambda files: put(files.model, path, value)


def change_tensor(folder, change) -> None:
    tensors = load_file(folder / "model.safetensors")
    save_file(change(tensors), folder / "model.safetensors")
    tie(folder)
    sum_up(folder)


@pytest.mark.parametrize(
    "kind", [JOINT, THREE, RATIO, THREE_RATIO, "joint, one group", "joint, no noise", "joint, nothing held out"]
)
def test_what_a_run_wrote_is_verified(saved_as, kind):
    assert failed(saved_as(kind)) == set()


class TestValues:
    def test_other_values_of_cells_than_the_target_leads_to(self, saved_as):
        folder = saved_as(JOINT)
        change_tensor(folder, lambda tensors: {**tensors, "cell_values": tensors["cell_values"] + 1e-6})
        assert "rule" in failed(folder)

    @pytest.mark.parametrize("kind", [JOINT, THREE])
    def test_values_that_are_missing_or_too_few(self, saved_as, kind):
        folder = saved_as(kind)
        change_tensor(folder, lambda tensors: {name: t for name, t in tensors.items() if name != "cell_values"})
        assert "model" in failed(folder)
        folder = saved_as(kind)
        change_tensor(folder, lambda tensors: {**tensors, "cell_values": tensors["cell_values"][:2]})
        assert "model" in failed(folder)

    def test_values_or_a_target_of_an_ordinary_model(self, saved_as):
        folder = saved_as(ORDINARY)
        change_tensor(folder, lambda tensors: {**tensors, "cell_values": np.zeros(4)})
        assert failed(folder) == {"model"}
        folder = saved_as(ORDINARY)
        forge(folder, model_with("target", value={"max_gap": 0.1, "min_ratio": 0.0, "price": 1.0}))
        assert failed(folder) == {"rule"}

    def test_heads_for_other_cells(self, saved_as):
        folder = saved_as(JOINT)
        forge(folder, model_with("heads", value=[2, 8]))
        assert "model" in failed(folder)


class TestFrontier:
    @pytest.mark.parametrize(
        ("kind", "field", "value"),
        [
            (JOINT, "parity", "equal_opportunity"),
            (JOINT, "cost_ratio", 2.0),
            (JOINT, "cells_std", 1.0),
            (JOINT, "sketch_std", 1.0),
            (JOINT, "ranking_std", 1.0),
            (JOINT, "prices", [-2.0, 2.0]),
            (JOINT, "prices", [0.0]),
            (JOINT, "prices", [-1.25, 1.0]),
            (RATIO, "prices", [-1.0, 1.0]),
            (THREE, "prices", [-0.2, 0.1, 0.2]),
            (JOINT, "shift", 0.5),
            (JOINT, "positions", [0.0, 1.0]),
            (JOINT, "looked", [[0.5, 0.01], [0.5, 0.01]]),
            (JOINT, "cell_sizes", [100.0] * 6),
            (JOINT, "ranking", [[1.0]]),
            (THREE, "looked", []),
            (THREE, "shift", 0.5),
            (JOINT, None, None),
        ],
    )
    def test_one_that_the_rest_contradicts(self, saved_as, kind, field, value):
        folder = saved_as(kind)
        forge(folder, model_with("frontier", *([field] if field else []), value=value))
        assert "rule" in failed(folder)

    def test_positions_that_fall_or_leave_out_none(self, saved_as):
        positions = list(FairDPClassifier.load(folder_of(JOINT)).frontier_.positions)
        for changed in (positions[::-1], [p + 1e-3 for p in positions]):
            folder = saved_as(JOINT)
            forge(folder, model_with("frontier", "positions", value=changed))
            assert "rule" in failed(folder)

    def test_a_sketch_that_leads_to_another_rule(self, tmp_path):
        """Counts by which a gap would be closed at once, beside the values of a rule that pays for it."""
        model = priced_model(certify_fraction=0.0)
        model.save(tmp_path / "model")
        assert not np.allclose(model.score_model_.cell_values.numpy(), [-1, 1, -1, 1])
        assert failed(tmp_path / "model") == set()
        sketch = np.array(model.frontier_.sketch)
        forge(tmp_path / "model", model_with("frontier", "sketch", value=(0.9 * sketch).tolist()))
        assert failed(tmp_path / "model") == {"rule"}


class TestTarget:
    def test_one_that_was_moved_under_the_old_certificate(self, saved_as):
        folder = saved_as(JOINT)
        forge(folder, model_with("target", "max_gap", value=0.5))
        assert "rule" in failed(folder)

    def test_a_certificate_that_is_left_out_of_a_rule_that_was_not_moved(self, saved_as):
        def change(files):
            files.certificate = certificate_record(NotCertified(NoCertificate.RULE_MOVED))

        folder = saved_as(JOINT)
        forge(folder, change)
        assert failed(folder) == {"certificate"}

    def test_a_moved_rule_is_verified_and_its_reason_is_the_only_one(self, tmp_path):
        moved = FairDPClassifier.load(folder_of(JOINT)).retarget(max_gap=0.5)
        moved.save(tmp_path / "model")
        assert failed(tmp_path / "model") == set()

        def change(files):
            files.certificate = certificate_record(NotCertified(NoCertificate.NO_RECORDS_HELD_OUT))

        forge(tmp_path / "model", change)
        assert failed(tmp_path / "model") == {"certificate"}


class TestSurveys:
    def test_more_noise_than_was_accounted_for_is_no_harm_but_less_is(self, saved_as):
        """Each check for itself: the plan would notice either."""
        for factor, found in ((0.5, {"noise", "privacy record", "plan", "rule"}), (2.0, {"privacy record", "plan"})):
            folder = saved_as(JOINT)
            forge(
                folder,
                lambda files, factor=factor: files.privacy["surveys"].update(
                    {name: factor * std for name, std in files.privacy["surveys"].items()}
                ),
            )
            assert found <= failed(folder)
            assert ("noise" in failed(folder)) == (factor < 1)

    @pytest.mark.parametrize("multiplier", [0.0, 100.0])
    def test_queries_that_are_accounted_as_none_or_as_next_to_none(self, saved_as, multiplier):
        """With the lower epsilon that would follow."""
        folder = saved_as("joint, nothing held out")
        forge(folder, mechanism_with(surveys_multiplier=multiplier))
        assert {"noise", "privacy record", "plan"} <= failed(folder)

    def test_one_that_the_record_keeps_silent_about(self, saved_as):
        folder = saved_as(JOINT)
        forge(folder, lambda files: files.privacy["surveys"].pop("ranking"))
        assert {"noise", "rule"} <= failed(folder)

    def test_looks_that_were_accounted_once_were_taken_many_times(self, saved_as):
        """All looks share the noise: a single one with it would have been far cheaper."""
        folder, surveys = saved_as(THREE), FairDPClassifier.load(folder_of(THREE)).privacy_.surveys
        assert "direction" in surveys
        once = 1 / math.sqrt(sum(std**-2 for std in surveys.values()))
        forge(folder, mechanism_with(surveys_multiplier=once))
        assert "noise" in failed(folder)

    def test_queries_of_a_method_that_has_none(self, saved_as):
        folder = saved_as(ORDINARY)
        forge(folder, mechanism_with(surveys_multiplier=5.0))
        assert {"noise", "privacy record"} <= failed(folder)
