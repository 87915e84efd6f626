"""A deployed model as an ONNX file: scores and decisions without this program, tied to its certificate by hash."""

import importlib
import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from sklearn.utils.validation import check_is_fitted

import fairdp
from fairdp._checks import InputError, ParameterError, SavedModelError
from fairdp._files import write_out
from fairdp.certify.certificate import NotCertified
from fairdp.data.schema import TableSchema
from fairdp.networks.inspection import public_probe
from fairdp.networks.models import ScoreModel
from fairdp.saved.fitted import Fitted, saved_form
from fairdp.saved.folder import CERTIFICATE, PRIVACY, SUMS, TENSORS, write_model
from fairdp.saved.onnx_graph import deployed, in_one_line

# By which a file may differ from the model on the probe: far above rounding, far below another model.
_TOLERANCE = 1e-4


def onnx_bytes(model: Fitted) -> bytes:
    """The content of an ONNX file: records in; their scores, probabilities and decisions out.

    Its metadata name, by their hashes, the files that ``model.save`` writes. Refused with a `SavedModelError`: a model
    whose decisions do not follow from the features alone, and a module that torch cannot export.
    """
    check_is_fitted(model)
    check_exportable(model)
    with TemporaryDirectory() as folder:
        write_model(Path(folder) / "model", saved_form(model))
        hashes = hashes_in(Path(folder) / "model")
    return described_onnx(model, hashes)


def write_onnx(model: Fitted, out: str | Path) -> None:
    """Write the model to an ONNX file, whole or not at all."""
    check_ending(Path(out))
    write_out(Path(out), onnx_bytes(model))


def check_ending(out: Path) -> None:
    if out.suffix.lower() != ".onnx":
        raise ParameterError("out", str(out), "must end in .onnx")


def check_exportable(model: Fitted) -> None:
    if model.predictor_.tosses_coins:
        how = "by a secret coin for each person" if model.predictor_.flips is None else "by group"
        raise SavedModelError(
            f"this model decides {how}, but an ONNX file knows the features only; use fairdp predict, or train with "
            "`predictor`='deterministic', without `target_tau` and by another method than dp_postprocess."
        )
    for name in ("onnx", "onnxruntime", "onnxscript"):
        try:
            importlib.import_module(name)
        except ImportError:
            raise InputError(f"ONNX files need {name}, which is missing; run pip install 'fairdp[onnx]'.") from None


def hashes_in(folder: Path) -> dict[str, str]:
    """SHA-256 of the files of a saved model, by their names."""
    lines = (folder / SUMS).read_text().splitlines()
    return {name: digest for digest, name in (line.split("  ", 1) for line in lines)}


def described_onnx(model: Fitted, hashes: Mapping[str, str]) -> bytes:
    from onnx import helper

    proto = deployed(model.score_model_)
    helper.set_model_props(proto, _described(model, hashes))
    content: bytes = proto.SerializeToString(deterministic=True)
    _check_scores(content, model.score_model_)
    return content


def _described(model: Fitted, hashes: Mapping[str, str]) -> dict[str, str]:
    """What a reader of the file should know; ONNX holds texts only."""
    schema = None if model.feature_schema_ is None else TableSchema.from_dict(model.feature_schema_)
    classes = model.classes_.tolist() if schema is None else [schema.negative, schema.positive]
    names = list(getattr(model, "feature_names_in_", [])) if schema is None else list(schema.feature_names)
    return {
        "fairdp_version": fairdp.__version__,
        "method": model.fitted_parameters_["method"],
        "epsilon": str(model.privacy_.epsilon),
        "delta": str(model.privacy_.delta),
        "certificate_sha256": hashes[CERTIFICATE],
        "privacy_sha256": hashes[PRIVACY],
        "model_sha256": hashes[TENSORS],
        "classes": json.dumps(classes, ensure_ascii=False),
        **({"feature_names": json.dumps(names, ensure_ascii=False)} if names else {}),
        "promise": _promise(model),
    }


def _promise(model: Fitted) -> str:
    if isinstance(model.certificate_, NotCertified):
        return f"No bound on a gap between groups is claimed, because {model.certificate_.explanation}."
    schema = "" if model.feature_schema_ is None else " by the schema in model.json"
    return (
        "The certificate whose hash is certificate_sha256 holds for these decisions on records that are encoded as for "
        f"training{schema}, up to rounding where a score is within 1e-5 of zero. Not promised: anything for another "
        "encoding, another threshold, a changed file, or what the certificate itself does not promise."
    )


def _check_scores(content: bytes, model: ScoreModel) -> None:
    """Refuse a file that does not score as the model does: it would not be what was certified."""
    import onnxruntime

    options, probe = onnxruntime.SessionOptions(), public_probe(model)
    options.log_severity_level = 4
    with in_one_line():
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        given = session.run(["score", "probability"], {"records": probe.numpy()})
    expected = (model.scores(probe).numpy(), model.probabilities(probe).numpy())
    if not all(
        np.allclose(*pair, rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True)
        for pair in zip(given, expected, strict=True)
    ):
        raise SavedModelError("the ONNX file does not score as the model does; use layers without chance or state.")
