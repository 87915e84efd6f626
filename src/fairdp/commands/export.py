"""`fairdp export`: the deployed model of a folder as an ONNX file."""

import math
from dataclasses import dataclass
from pathlib import Path

from fairdp._checks import SavedModelError
from fairdp._files import refuse_existing, write_out
from fairdp.classifier import FairDPClassifier
from fairdp.saved.folder import CERTIFICATE, read_model
from fairdp.saved.onnx import check_ending, check_exportable, described_onnx, hashes_in


@dataclass(frozen=True, kw_only=True)
class ExportReport:
    """What is in an exported file, and the certificate that covers it."""

    out: str
    certificate_sha256: str
    inputs: dict[str, str]
    outputs: dict[str, str]
    n_features: int
    positive: str


def export_saved(folder: Path, out: Path, *, overwrite: bool = False) -> ExportReport:
    """Write the saved model in a folder to an ONNX file with the hashes of that folder; return what is in the file."""
    check_ending(out)
    refuse_existing(out, overwrite=overwrite)
    if read_model(folder).model.model.kind == "custom":
        raise SavedModelError(
            f"the model in {str(folder)!r} was trained with your own module, which is code; export it in Python: "
            "fairdp.write_onnx(FairDPClassifier.load(folder, module=...), out)."
        )
    model: FairDPClassifier = FairDPClassifier.load(folder)
    check_exportable(model)
    hashes = hashes_in(folder)
    write_out(out, described_onnx(model, hashes))
    shape = model.score_model_.shape
    return ExportReport(
        out=str(out),
        certificate_sha256=hashes[CERTIFICATE],
        inputs={"records": f"float32 ({', '.join(['n', *map(str, shape)])})"},
        outputs={"score": "float32 (n)", "probability": "float32 (n)", "decision": "int64 (n)"},
        n_features=math.prod(shape),
        positive=str(model.classes_[1]),
    )
