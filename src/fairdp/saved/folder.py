"""Saved models: a folder of safetensors and JSON with checksums, no pickle anywhere."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from fairdp._checks import SavedModelError
from fairdp._files import MOST_TENSORS, content_of, from_plain, json_bytes, parsed_json, tensors_in
from fairdp._folders import restore, write_folder
from fairdp.accounting.spent import PrivacySpent
from fairdp.certify.certificate import Certificate, NotCertified
from fairdp.certify.record import certificate_record, read_record
from fairdp.config.model import ModelConfig
from fairdp.frontier.choice import Target
from fairdp.frontier.curve import Frontier
from fairdp.networks.models import ParameterSmoothing, tensor_bytes
from fairdp.run.made import Made
from fairdp.run.predictor import Predictor

SCHEMA_VERSION = 15
TENSORS, MARKER, PRIVACY, CERTIFICATE = "model.safetensors", "model.json", "privacy.json", "certificate.json"
FILES = (TENSORS, MARKER, PRIVACY, CERTIFICATE)
SUMS = "SHA256SUMS"
# Over the sums, so not among them; whatever writes the folder anew drops it.
SIGNATURE = "SIGNATURE"
OWN = (*FILES, SUMS, SIGNATURE)


@dataclass(frozen=True, kw_only=True)
class ModelRecord:
    """What the folder says of the model itself: what was chosen, what it predicts, and how to build it again.

    A joint model has a ``frontier``, and the ``target`` that its rule was chosen for, which may have been moved since.
    """

    schema_version: int = SCHEMA_VERSION
    parameters: dict[str, Any]
    classes: tuple[Any, ...]
    groups: tuple[str, ...]
    feature_schema: dict[str, object] | None
    feature_names: tuple[str, ...] | None
    predictor: Predictor
    notes: dict[str, object]
    made: Made
    model: ModelConfig
    shape: tuple[int, ...]
    heads: tuple[int, int]
    smoothing: ParameterSmoothing | None
    frontier: Frontier | None
    target: Target | None


@dataclass(frozen=True, kw_only=True)
class SavedModel:
    """The contents of a model folder."""

    tensors: dict[str, Tensor]
    model: ModelRecord
    privacy: PrivacySpent
    certificate: Certificate | NotCertified


def write_model(folder: Path, saved: SavedModel) -> None:
    """Write a model folder whole or not at all; its certificate names the files that it speaks of by their hashes."""
    contents = {
        TENSORS: tensor_bytes(saved.tensors),
        MARKER: json_bytes(saved.model),
        PRIVACY: json_bytes(saved.privacy),
    }
    files = {name: sha256(content) for name, content in contents.items()}
    about = saved.certificate.about if isinstance(saved.certificate, Certificate) else None
    if about is not None and about.model_sha256 != files[TENSORS]:
        raise SavedModelError("the parameters were changed after they were certified; fit the model again.")
    contents[CERTIFICATE] = json_bytes({**certificate_record(saved.certificate), "files": files})
    write_folder(folder, {**contents, SUMS: checksums(contents)}, own=OWN, marker=MARKER)


def read_model(folder: Path) -> SavedModel:
    """Read a model folder after checking its checksums and version."""
    restore(folder)
    if not (folder / MARKER).is_file():
        raise SavedModelError(f"{str(folder)!r} is not a saved model: it has no {MARKER}.")
    contents = checked_contents(folder)
    try:
        about, privacy, certificate = (parsed_json(contents[name]) for name in FILES[1:])
        version = about.get("schema_version")
        if version != SCHEMA_VERSION:
            raise SavedModelError(
                f"{str(folder)!r} has schema version {version}, this fairdp reads {SCHEMA_VERSION}; install a matching "
                "one."
            )
        return SavedModel(
            tensors=tensors_in(contents[TENSORS], framework="pt")[1],
            model=from_plain(ModelRecord, about),
            privacy=from_plain(PrivacySpent, privacy),
            certificate=read_record(certificate).certificate(),
        )
    except SavedModelError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise SavedModelError(f"saved model {str(folder)!r} is damaged: a record cannot be read ({error}).") from None


def is_signed(folder: Path) -> bool:
    """Whether a folder holds a signature, of whatever worth."""
    return (folder / SIGNATURE).exists()


def sha256(content: bytes) -> str:
    """The hash by which files of a folder are named."""
    return hashlib.sha256(content).hexdigest()


def checksums(contents: Mapping[str, bytes]) -> bytes:
    """Lines in the format of ``sha256sum``, so that anyone can check them without this program."""
    return "".join(f"{sha256(content)}  {name}\n" for name, content in sorted(contents.items())).encode()


def model_files(folder: Path) -> dict[str, bytes]:
    """What the files of a model folder hold, by their names; too large ones are refused."""
    try:
        return {
            name: content_of(folder / name, **({"most": MOST_TENSORS} if name == TENSORS else {})) for name in FILES
        }
    except OSError as error:
        raise SavedModelError(f"saved model {str(folder)!r} cannot be read: {error.strerror}.") from None


def checked_contents(folder: Path) -> dict[str, bytes]:
    """The files of a model folder by their names, if all are there and fit the sums."""
    missing = [name for name in (*FILES, SUMS) if not (folder / name).is_file()]
    if missing:
        names = ", ".join(missing)
        raise SavedModelError(f"saved model {str(folder)!r} is incomplete: {names} is missing; copy it whole.")
    contents = model_files(folder)
    recorded = content_of(folder / SUMS).decode(errors="replace").split("\n")
    for line in checksums(contents).decode().splitlines():
        if line not in recorded:
            name = line.split()[1]
            raise SavedModelError(
                f"saved model {str(folder)!r} was changed: {name} does not match {SUMS}; restore the file."
            )
    return contents
