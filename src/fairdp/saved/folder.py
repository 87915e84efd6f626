"""Saved models: a folder of safetensors and JSON with checksums, no pickle anywhere."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load
from torch import Tensor

from fairdp._files import json_bytes, write_folder
from fairdp.networks.models import tensor_bytes

SCHEMA_VERSION = 5
MARKER = "model.json"
SUMS = "SHA256SUMS"
TENSORS = "model.safetensors"


@dataclass(frozen=True, kw_only=True)
class SavedModel:
    """The contents of a model folder."""

    tensors: dict[str, Tensor]
    model: dict[str, Any]
    privacy: dict[str, Any]
    certificate: dict[str, Any]


def write_model(folder: Path, saved: SavedModel) -> None:
    """Write a model folder whole or not at all; its certificate names the files that it speaks of by their hashes."""
    contents = {
        TENSORS: tensor_bytes(saved.tensors),
        MARKER: json_bytes({"schema_version": SCHEMA_VERSION, **saved.model}),
        "privacy.json": json_bytes(saved.privacy),
    }
    files = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    certified = saved.certificate.get("about", {}).get("model_sha256", files[TENSORS])
    if certified != files[TENSORS]:
        raise ValueError("the parameters were changed after they were certified; fit the model again.")
    contents["certificate.json"] = json_bytes({**saved.certificate, "files": files})
    write_folder(folder, {**contents, SUMS: _checksums(contents)}, marker=MARKER)


def read_model(folder: Path) -> SavedModel:
    """Read a model folder after checking its checksums and version."""
    if not (folder / MARKER).is_file():
        raise ValueError(f"{str(folder)!r} is not a saved model: it has no {MARKER}.")
    contents = _checked_contents(folder)
    documents = {name: _parsed(folder, name, contents[name]) for name in (MARKER, "privacy.json", "certificate.json")}
    model = documents[MARKER]
    version = model.pop("schema_version", None)
    if version != SCHEMA_VERSION:
        raise ValueError(
            f"{str(folder)!r} has schema version {version}, this fairdp reads {SCHEMA_VERSION}; install a matching one."
        )
    return SavedModel(
        tensors=load(contents[TENSORS]),
        model=model,
        privacy=documents["privacy.json"],
        certificate=documents["certificate.json"],
    )


def _checksums(contents: Mapping[str, bytes]) -> bytes:
    """Lines in the format of ``sha256sum``, so that anyone can check them without this program."""
    lines = [f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in sorted(contents.items())]
    return "".join(lines).encode()


def _parsed(folder: Path, name: str, content: bytes) -> dict[str, Any]:
    try:
        return json.loads(content)
    except ValueError as error:
        raise ValueError(f"saved model {str(folder)!r} is damaged: {name} is not JSON ({error}).") from None


def _checked_contents(folder: Path) -> dict[str, bytes]:
    names = (TENSORS, MARKER, "privacy.json", "certificate.json", SUMS)
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise ValueError(f"saved model {str(folder)!r} is incomplete: {', '.join(missing)} is missing; copy it whole.")
    contents = {name: (folder / name).read_bytes() for name in names}
    recorded = contents.pop(SUMS).decode(errors="replace").split("\n")
    for line in _checksums(contents).decode().splitlines():
        if line not in recorded:
            name = line.split()[1]
            raise ValueError(
                f"saved model {str(folder)!r} was changed: {name} does not match {SUMS}; restore the file."
            )
    return contents
