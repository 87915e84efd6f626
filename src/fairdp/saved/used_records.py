"""The records that a model has used, as keyed hashes in a file beside its folder, so that none is used again unnoticed.

A certificate needs records that the model has not seen. The register holds no plain data: of each record only a hash
under a random key, so that hashes from elsewhere say nothing about it. But whoever has the file has the key too, and
can ask of any record whether it was used. That is no differentially private answer. A model folder may be published,
so the register is beside it and never in it, is written for its owner only, and belongs in the same safe place as the
data.
"""

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import save

from fairdp._files import described_tensors, write_file
from fairdp.data.grouped import GroupedData

FORMAT = 1
# The use that training makes of records.
TRAINING = "training"
KEY_BYTES = 16
# Bytes of records that are copied at a time.
_CHUNK = 2**24


@dataclass(frozen=True, eq=False)
class Register:
    """A secret key, and the sorted fingerprints under it of the records of each use. Printing shows counts only.

    ``model_sha256`` names the model that used them, once there is one: a model that is replaced leaves its register
    behind.
    """

    key: bytes
    uses: Mapping[str, NDArray[np.uint64]]
    model_sha256: str = ""

    @classmethod
    def new(cls) -> "Register":
        """An empty register with a key of its own."""
        return cls(key=secrets.token_bytes(KEY_BYTES), uses={})

    def of_model(self, digest: str) -> "Register":
        """The register of the model with this digest: this one, or an empty one if it is another model's."""
        if self.model_sha256 in ("", digest):
            return replace(self, model_sha256=digest)
        return replace(Register.new(), model_sha256=digest)

    def with_use(self, name: str, fingerprints: NDArray[np.uint64]) -> "Register":
        """The register with one more use. Sorting forgets which row of a table a fingerprint is from."""
        if name in self.uses:
            raise ValueError(f"name of a use must be new in the register, got {name!r}; choose another.")
        return replace(self, uses={**self.uses, name: np.sort(fingerprints)})

    def used(self, fingerprints: NDArray[np.uint64]) -> dict[str, int]:
        """How many of these fingerprints each earlier use holds.

        Equal records have equal fingerprints, and two people may be equal by chance: the caller decides what to allow.
        """
        return {name: int(_contained(fingerprints, known).sum()) for name, known in self.uses.items()}

    def __repr__(self) -> str:
        return f"Register({', '.join(f'{name}: {len(known)}' for name, known in self.uses.items())})"


def fingerprints(data: GroupedData, key: bytes) -> NDArray[np.uint64]:
    """Hash of each record under the key: features, label and group as they are encoded, shape (n_samples,).

    The hash is BLAKE2b with 64 bits. Two unequal records share one with probability 2⁻⁶⁴; among n fresh and m used
    records the chance of any false match is at most n m 2⁻⁶⁴, for a million each 5e-8. Features are rounded to
    float32, and −0 counts as 0.
    """
    n_features = data.X[0].size if data.n_samples else 0
    rows = max(1, _CHUNK // (4 * n_features + 16))
    return np.concatenate(
        [np.empty(0, dtype=np.uint64), *(_hashes(data, key, i, i + rows) for i in range(0, data.n_samples, rows))]
    )


def _hashes(data: GroupedData, key: bytes, start: int, stop: int) -> NDArray[np.uint64]:
    y, groups = (np.asarray(codes[start:stop], dtype="<i8") for codes in (data.y, data.groups))
    X = np.asarray(data.X[start:stop], dtype="<f4").reshape(len(y), -1) + np.float32(0)
    table = np.hstack([np.ascontiguousarray(part).view(np.uint8).reshape(len(y), -1) for part in (X, y, groups)])
    content, width = table.tobytes(), table.shape[1]
    records = (content[i : i + width] for i in range(0, len(content), width))
    digests = b"".join(hashlib.blake2b(record, key=key, digest_size=8).digest() for record in records)
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)


def _contained(values: NDArray[np.uint64], known: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which values are among the known ones, which are sorted."""
    return np.searchsorted(known, values, side="right") > np.searchsorted(known, values, side="left")


def register_path(folder: Path) -> Path:
    """Where the register of a model folder is: beside it, whichever way the folder is named."""
    folder = folder.resolve()
    return folder.with_name(f"{folder.name}.register")


def check_register(path: Path) -> None:
    """Refuse, before any work is done, a place where something else than a register is."""
    if path.is_dir():
        raise ValueError(f"register {str(path)!r} is a folder; choose another --out.")
    try:
        read_register(path)
    except ValueError:
        raise ValueError(f"{str(path)!r} is not a register and would be overwritten; choose another --out.") from None


def write_register(path: Path, register: Register) -> None:
    """Replace the register in one step, readable by its owner only."""
    about = {
        "format": FORMAT,
        "key": register.key.hex(),
        "model_sha256": register.model_sha256,
        "uses": list(register.uses),
        "digest": _digest(register),
    }
    # A name may be any text: the file knows uses by their number.
    tensors = {str(i): known for i, known in enumerate(register.uses.values())}
    write_file(path, save(tensors, metadata={"fairdp": json.dumps(about)}), owner_only=True)


def read_register(path: Path) -> Register | None:
    """The register in a file, None if there is no such file; one clear line if it is damaged or of another version."""
    if not path.exists():
        return None
    try:
        about, tensors = described_tensors(path, framework="np")
        version = about["format"]
        register = _checked(about, tensors) if version == FORMAT else None
    except OSError as error:
        raise ValueError(f"register {str(path)!r} cannot be read ({error}); restore it from a copy.") from None
    except (SafetensorError, KeyError, TypeError, ValueError):
        raise ValueError(f"register {str(path)!r} is damaged; restore it from a copy.") from None
    if register is None:
        raise ValueError(
            f"register {str(path)!r} has format {version}, this fairdp reads {FORMAT}; install a matching one."
        )
    return register


def _checked(about: Mapping[str, Any], tensors: Mapping[str, NDArray[np.uint64]]) -> Register:
    uses = {name: tensors[str(i)] for i, name in enumerate(about["uses"])}
    register = Register(key=bytes.fromhex(about["key"]), uses=uses, model_sha256=about["model_sha256"])
    # The file format has no checksum of its own, and one wrong bit would let a used record pass as fresh.
    if about["digest"] != _digest(register):
        raise ValueError("its contents do not match its digest")
    return register


def _digest(register: Register) -> str:
    digest = hashlib.blake2b(json.dumps([register.model_sha256, *register.uses]).encode(), key=register.key)
    for known in register.uses.values():
        digest.update(known.tobytes())
    return digest.hexdigest()
