"""`fairdp export`: from a saved folder to a file that another runtime decides by; wrong input in one line."""

import hashlib
import json
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from classifier_cases import CERTIFIED, fitted
from cli_cases import SCHEMA
from cli_cases import people as table_of_people
from fairdp.data.schema import read_schema
from onnx_cases import ROUNDING, Own, metadata_of, outputs_of

FIT = ("fit", "people.csv", "--label", "y", "--sensitive", "sex", "--schema", "schema.yaml", "--out", "model")
SHORT = ("--n-steps", "20", "--sample-rate", "0.2", "--seed", "0")


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table_of_people().to_csv("people.csv", index=False)
    Path("schema.yaml").write_text(yaml.safe_dump(SCHEMA))


@pytest.mark.usefixtures("workplace")
class TestCommand:
    @pytest.mark.more
    def test_from_a_table_to_decisions_in_another_runtime(self, run, answer):
        assert run(*FIT, *SHORT).code == 0
        answered = answer("export", "model", "--out", "model.onnx")
        content = Path("model.onnx").read_bytes()
        certificate = hashlib.sha256(Path("model/certificate.json").read_bytes()).hexdigest()
        assert answered == {
            "out": "model.onnx",
            "positive": "yes",
            "certificate_sha256": certificate,
            "inputs": {"records": "float32 (n, 3)"},
            "outputs": {"score": "float32 (n)", "probability": "float32 (n)", "decision": "int64 (n)"},
            "n_features": 3,
        }
        props = metadata_of(content)
        assert props["certificate_sha256"] == certificate
        assert json.loads(props["classes"]) == ["no", "yes"]
        assert len(json.loads(props["feature_names"])) == 3
        assert "by the schema in model.json" in props["promise"]

        assert run("predict", "model", "people.csv", "--out", "decisions.csv").code == 0
        theirs = outputs_of(content, read_schema("schema.yaml").encode(pd.read_csv("people.csv")))
        ours = pd.read_csv("decisions.csv")
        np.testing.assert_allclose(theirs["score"], ours["score"], rtol=0, atol=ROUNDING)
        sure = ours["score"].abs() > ROUNDING
        assert (np.array(["no", "yes"])[theirs["decision"]] == ours["decision"])[sure].all()

    @pytest.mark.more
    def test_the_page_on_deployment_runs(self, run):
        assert run(*FIT, *SHORT).code == 0
        assert run("export", "model/", "--out", "model.onnx").code == 0
        table_of_people(50, seed=1).drop(columns=["sex", "y"]).to_csv("new.csv", index=False)
        page = (Path(__file__).parent.parent.parent / "docs" / "how-to" / "deploy.md").read_text()
        names: dict[str, object] = {}
        for block in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL):
            exec(compile(block, "deploy.md", "exec"), names)
        assert names["decision"].shape == (50,)
        assert all(f"`{key}`" in page for key in names["props"])

    @pytest.mark.more
    def test_the_hash_is_that_of_the_folder_even_if_another_version_wrote_it(self, run):
        fitted(**CERTIFIED).save("model", overwrite=True)
        path, sums = Path("model/certificate.json"), Path("model/SHA256SUMS")
        before = hashlib.sha256(path.read_bytes()).hexdigest()
        path.write_bytes(path.read_bytes() + b"\n")
        now = hashlib.sha256(path.read_bytes()).hexdigest()
        sums.write_text(sums.read_text().replace(before, now))
        assert run("export", "model", "--out", "model.onnx").code == 0
        assert metadata_of(Path("model.onnx").read_bytes())["certificate_sha256"] == now

    def test_bad_input_is_refused_in_one_line(self, run, refused, monkeypatch):
        export = ("export", "model", "--out")
        refused(*export, "model.onnx")
        for settings in ({"predictor": "gibbs"}, {"module": Own}):
            fitted(**settings).save("model", overwrite=True)
            refused(*export, "model.onnx")
        fitted().save("model", overwrite=True)
        refused(*export, "model.pt")
        refused(*export, "none/model.onnx")
        Path("other.onnx").write_text("of somebody else")
        refused(*export, "other.onnx")
        assert run(*export, "other.onnx", "--overwrite").code == 0
        assert Path("other.onnx").read_bytes()[:16] != b"of somebody else"
        monkeypatch.setitem(sys.modules, "onnxruntime", None)
        refused(*export, "model.onnx")

    def test_a_changed_folder_is_refused(self, refused):
        fitted().save("model", overwrite=True)
        with open("model/certificate.json", "a") as file:
            file.write(" ")
        refused("export", "model", "--out", "model.onnx")
