"""`fairdp export`: the deployed model of a folder as an ONNX file."""

from pathlib import Path
from typing import Any

import numpy as np

from fairdp.classifier import FairDPClassifier
from fairdp.saved.folder import read_model
from fairdp.saved.onnx import check_ending, check_exportable, described_onnx, hashes_in, write_content


def export_saved(folder: Path, out: Path) -> dict[str, Any]:
    """Write the saved model in a folder to an ONNX file with the hashes of that folder; says what is in the file."""
    check_ending(out)
    if read_model(folder).model["model"]["kind"] == "custom":
        raise ValueError(
            f"the model in {str(folder)!r} was trained with an own module, which is code; export it in Python: "
            "fairdp.saved.onnx.write_onnx(FairDPClassifier.load(folder, module=...), out)."
        )
    model: FairDPClassifier = FairDPClassifier.load(folder)
    check_exportable(model)
    hashes = hashes_in(folder)
    write_content(out, described_onnx(model, hashes))
    shape = model.score_model_.shape
    return {
        "out": str(out),
        "certificate_sha256": hashes["certificate.json"],
        "inputs": {"records": f"float32 ({', '.join(['n', *map(str, shape)])})"},
        "outputs": {"score": "float32 (n)", "probability": "float32 (n)", "decision": "int64 (n)"},
        "n_features": int(np.prod(shape)),
    }
