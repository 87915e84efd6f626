"""Models as ONNX files: the same scores and decisions in another runtime, and a hash that names the certificate."""

import hashlib
import json
import os
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pandas as pd
import pytest
import torch
from sklearn.exceptions import NotFittedError
from torch import Tensor, nn

from classifier_cases import CERTIFIED, fitted, people
from fairdp import FairDPClassifier, load_dataset
from fairdp.networks.model import ScoreModel
from fairdp.saved import onnx as export
from fairdp.saved import onnx as onnx_graph
from fairdp.saved.onnx import onnx_bytes, write_onnx
from onnx_cases import ROUNDING, Own, metadata_of, outputs_of, session_of


class Crowd(nn.Module):
    """Records of a crowd stand out from its mean: a record alone never does."""

    def forward(self, records: Tensor) -> Tensor:
        return records + torch.relu(records - records.mean(0) - 2.5)


def assert_decides_as(model: FairDPClassifier, content: bytes, X: np.ndarray) -> None:
    """The three outputs against `decision_function`, `predict_proba` and `predict`."""
    theirs, scores = outputs_of(content, X), model.decision_function(X)
    assert {name: value.dtype.name for name, value in theirs.items()} == {
        "score": "float32",
        "probability": "float32",
        "decision": "int64",
    }
    np.testing.assert_allclose(theirs["score"], scores, rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(theirs["probability"], model.predict_proba(X)[:, 1], rtol=0, atol=ROUNDING)
    sure = np.abs(scores) > ROUNDING
    assert sure.mean() > 0.99
    np.testing.assert_array_equal(model.classes_[theirs["decision"]][sure], model.predict(X)[sure])


@cache
def plain() -> tuple[FairDPClassifier, bytes]:
    model = fitted(n_members=3, **CERTIFIED)
    return model, onnx_bytes(model)


@cache
def adult():
    return load_dataset("adult")


class TestScores:
    def test_they_are_those_of_the_model_for_one_record_and_for_many(self):
        model, content = plain()
        X = people()[0]
        for records in (X, X[:1], X[:7]):
            assert_decides_as(model, content, records)

    def test_that_check_knows_another_model(self):
        """The negative control of all comparisons here: one step more of training is noticed."""
        with pytest.raises(AssertionError, match="Not equal to tolerance"):
            assert_decides_as(fitted(n_members=3, n_steps=21), plain()[1], people()[0])

    def test_that_check_knows_another_threshold(self):
        model, content = plain()
        proto = onnx.load_from_string(content)
        (threshold,) = (node for node in proto.graph.node if node.output == ["threshold"])
        moved = np.float32(np.median(model.decision_function(people()[0])))
        threshold.attribute[0].t.CopyFrom(onnx.numpy_helper.from_array(moved + np.float32(0.1), "threshold"))
        with pytest.raises(AssertionError, match="Arrays are not equal"):
            assert_decides_as(model, proto.SerializeToString(), people()[0])

    def test_a_score_of_zero_is_positive(self):
        model = fitted()
        model.score_model_.params.zero_()
        assert outputs_of(onnx_bytes(model), people()[0][:3])["decision"].tolist() == [1, 1, 1]
        assert model.predict(people()[0][:3]).tolist() == [1, 1, 1]

    @pytest.mark.more
    @pytest.mark.needs_data("adult")
    @pytest.mark.parametrize("method", ["raco_dp", "fairdp", "dpsgd", "fairsmooth"])
    def test_of_all_test_records_of_adult(self, method):
        settings = {"n_steps": 20, "sample_rate": 0.02, "n_draws": 20, "certify_fraction": 0.0, "random_state": 0}
        data = adult()
        model = FairDPClassifier(method=method, **settings).fit_grouped(data.train)
        assert data.test.n_samples == 16_281
        assert_decides_as(model, onnx_bytes(model), data.test.X)

    @pytest.mark.more
    @pytest.mark.parametrize(
        "parameters",
        [
            {"method": "fairfm", "epsilon": 8.0},
            {"method": "fairfm_smooth", "n_draws": 5},
            {"model": "logistic"},
            {"method": "fairdp", "bias": False},
            {"method": "dpsgd_smooth", "bias": False, "n_draws": 5},
            {"hidden": (8, 4), "activation": "tanh"},
            {"method": "raco_dp", "model": "logistic"},
        ],
        ids=str,
    )
    def test_of_other_kinds_of_models(self, parameters):
        model = fitted(**parameters)
        assert_decides_as(model, onnx_bytes(model), people()[0])

    @pytest.mark.more
    @pytest.mark.parametrize("method", ["fairdp", "fairsmooth"])
    def test_of_images(self, method):
        rng = np.random.default_rng(0)
        images = rng.random((300, 1, 8, 8), dtype=np.float32)
        labels, groups = rng.integers(0, 2, 300), rng.choice(["f", "m"], 300)
        model = fitted(data=(images, labels, groups), method=method, model="cnn", n_draws=5)
        content = onnx_bytes(model)
        assert_decides_as(model, content, images)
        assert session_of(content).get_inputs()[0].shape == ["n", 1, 8, 8]

    @pytest.mark.more
    def test_smoothed_scores_far_from_zero_stay_finite(self):
        """Chances below the smallest double, which only their logs can tell from zero."""
        model = fitted(method="fairsmooth", n_draws=5)
        model.score_model_.params.mul_(100)
        X = people()[0]
        scores = model.decision_function(X)
        largest = np.abs(scores).max()
        assert largest > 2000
        np.testing.assert_allclose(outputs_of(onnx_bytes(model), X)["score"], scores, rtol=0, atol=1e-6 * largest)


@pytest.mark.more
class TestOwnModules:
    @pytest.mark.parametrize("method", ["fairdp", "fairsmooth"])
    def test_they_score_as_in_the_model(self, method):
        model = fitted(module=Own, method=method, n_draws=5)
        assert_decides_as(model, onnx_bytes(model), people()[0])

    def test_a_record_is_seen_alone_as_in_the_model(self):
        """A batch as a whole would be scored otherwise, which no probe beforehand has shown."""
        model, X = fitted(module=Crowd), people()[0]
        together = model.score_model_.extractor(torch.from_numpy(X)).numpy()
        assert np.abs(together - X).max() > 0.1
        assert_decides_as(model, onnx_bytes(model), X)

    def test_exporting_leaves_the_model_as_it_was(self):
        model = fitted(module=Own)
        before, scores = model.score_model_.params.clone(), model.decision_function(people()[0])
        onnx_bytes(model)
        assert torch.equal(model.score_model_.params, before)
        assert all(layer.training for layer in model.score_model_.extractor.modules())
        np.testing.assert_array_equal(model.decision_function(people()[0]), scores)

    def test_one_that_torch_cannot_export_is_refused_in_one_line(self):
        model = fitted(module=Own)
        model.score_model_.extractor.forward = lambda records: records[:, : int(records.sum())]
        with pytest.raises(ValueError, match=r"^the module cannot be written as ONNX \(.+\); use layers that torch"):
            onnx_bytes(model)

    def test_a_file_that_scores_otherwise_is_not_written(self, monkeypatch, tmp_path):
        """Whatever went wrong on the way, here other noise than the model's."""
        model = fitted(method="fairsmooth", n_draws=5)
        monkeypatch.setattr(onnx_graph, "_draws", lambda own: own.params + torch.ones(5, 1))
        with pytest.raises(ValueError, match=r"^the ONNX file does not score as the model does; use layers without"):
            write_onnx(model, tmp_path / "model.onnx")
        assert os.listdir(tmp_path) == []


class TestMetadata:
    def test_hashes_are_those_of_the_saved_files(self, tmp_path):
        model, content = plain()
        model.save(tmp_path / "model")
        props = metadata_of(content)
        for key, name in {
            "certificate_sha256": "certificate.json",
            "privacy_sha256": "privacy.json",
            "model_sha256": "model.safetensors",
        }.items():
            assert props[key] == hashlib.sha256((tmp_path / "model" / name).read_bytes()).hexdigest()
            assert f"{props[key]}  {name}\n" in (tmp_path / "model" / "SHA256SUMS").read_text()

    @pytest.mark.more
    def test_a_loaded_model_gives_the_same_file(self, tmp_path):
        model, content = plain()
        model.save(tmp_path / "model")
        assert onnx_bytes(FairDPClassifier.load(tmp_path / "model")) == content

    def test_another_certificate_has_another_hash_and_no_seed_is_kept(self):
        other = onnx_bytes(fitted(n_members=3, random_state=987654321, **CERTIFIED))
        assert metadata_of(other)["certificate_sha256"] != metadata_of(plain()[1])["certificate_sha256"]
        assert b"987654321" not in other

    def test_it_says_what_the_model_is_and_promises(self):
        model, content = plain()
        props = metadata_of(content)
        assert props["method"] == "fairdp"
        assert (float(props["epsilon"]), float(props["delta"])) == (model.privacy_.epsilon, model.privacy_.delta)
        assert props["fairdp_version"] == "0.1.0"
        assert json.loads(props["classes"]) == [0, 1]
        assert "feature_names" not in props
        assert props["promise"].startswith("The certificate whose hash is certificate_sha256 holds for these decisions")
        assert "within 1e-5 of zero" in props["promise"]

    @pytest.mark.more
    def test_without_a_certificate_no_bound_is_claimed_and_names_are_kept(self):
        X, y, a = people()
        frame = pd.DataFrame(X, columns=["age", "income", "größe"])
        props = metadata_of(onnx_bytes(fitted(data=(frame, np.where(y == 1, "yes", "no"), a))))
        assert props["promise"].startswith("No bound on a gap between groups is claimed, because no records were held")
        assert json.loads(props["feature_names"]) == ["age", "income", "größe"]
        assert json.loads(props["classes"]) == ["no", "yes"]

    def test_no_path_of_this_machine_is_in_the_file(self):
        """Torch notes where every layer was written down."""
        content = plain()[1]
        for path in (Path(torch.__file__).parent, Path(export.__file__).parent, Path.home(), Path.cwd()):
            assert str(path).encode() not in content
        assert b".py" not in content


class TestRefusals:
    @pytest.mark.parametrize(
        ("parameters", "how"),
        [
            ({"predictor": "gibbs"}, "by a secret coin for each person"),
            ({"predictor": "smoothed"}, "by a secret coin for each person"),
            ({"method": "dp_postprocess"}, "by group"),
        ],
        ids=str,
    )
    def test_a_rule_that_is_no_function_of_the_features(self, parameters, how, tmp_path):
        with pytest.raises(ValueError, match=rf"^this model decides {how}, but an ONNX file .* use fairdp predict"):
            write_onnx(fitted(**parameters), tmp_path / "model.onnx")
        assert os.listdir(tmp_path) == []

    def test_a_model_that_is_not_fitted(self):
        with pytest.raises(NotFittedError):
            onnx_bytes(FairDPClassifier())

    def test_parameters_that_are_not_the_certified_ones(self):
        model = fitted(**CERTIFIED)
        model.score_model_.params.add_(1.0)
        with pytest.raises(ValueError, match="the parameters were changed after they were certified"):
            onnx_bytes(model)


def test_every_draw_is_the_one_that_the_model_makes():
    """By hand: the model's own draws, one after the other."""
    model: ScoreModel = fitted(method="fairsmooth", n_draws=3).score_model_
    assert model.smoothing is not None
    rng = np.random.default_rng(model.smoothing.seed)
    for draw in onnx_graph._draws(model):
        noise = torch.from_numpy(rng.standard_normal(len(model.params))).float()
        assert torch.equal(draw, torch.add(model.params, noise, alpha=model.smoothing.deviation))
