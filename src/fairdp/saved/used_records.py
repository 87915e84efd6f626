"""The records that a model has used, as keyed hashes in a file beside its folder, so that none is used again unnoticed.

A certificate needs records that the model has not seen. The file holds no plain data: of each record only a hash under
a random key, so that hashes from elsewhere say nothing about it. But whoever has the file has the key too, and can ask
of any record whether it was used. That is no differentially private answer. A model folder may be published, so the
file is beside it and never in it, is written for its owner only, and belongs in the same safe place as the data.
"""

import hashlib
import json
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from fairdp._checks import SavedModelError
from fairdp._files import (
    MOST_TENSORS,
    RecordError,
    content_of,
    from_plain,
    json_bytes,
    parsed_json,
    tensors_in,
    write_file,
)
from fairdp.data.grouped import GroupedData

FORMAT = 2
# The use that training makes of records.
TRAINING = "training"
KEY_BYTES = 16
# Bytes of records that are copied at a time.
_CHUNK = 2**24


@dataclass(frozen=True, eq=False)
class UsedRecords:
    """A secret key, and the sorted fingerprints under it of the records of each use. Printing shows counts only.

    ``model_sha256`` names the model that used them, once there is one: a model that is replaced leaves its file behind.
    ``split_key`` is the secret of the coins that chose the test records, which are in no use; empty if there is none.
    """

    key: bytes
    uses: Mapping[str, NDArray[np.uint64]]
    model_sha256: str = ""
    split_key: bytes = b""

    @classmethod
    def new(cls, split_key: bytes = b"") -> "UsedRecords":
        """No records yet, and a key of its own."""
        return cls(key=secrets.token_bytes(KEY_BYTES), uses={}, split_key=split_key)

    def of_model(self, digest: str) -> "UsedRecords":
        """Those of the model with this digest: these, or none if they are another model's."""
        if self.model_sha256 in ("", digest):
            return replace(self, model_sha256=digest)
        return replace(UsedRecords.new(), model_sha256=digest)

    def with_use(self, name: str, fingerprints: NDArray[np.uint64]) -> "UsedRecords":
        """With those of one more use. Sorting forgets which row of a table a fingerprint is from."""
        if name in self.uses:
            raise SavedModelError(f"records were noted for {name!r} before; name another use.")
        return replace(self, uses={**self.uses, name: np.sort(fingerprints)})

    def overlaps(self, fingerprints: NDArray[np.uint64]) -> dict[str, int]:
        """How many of these fingerprints each earlier use holds.

        Equal records have equal fingerprints, and two people may be equal by chance: the caller decides what to allow.
        """
        return {name: int(_contained(fingerprints, known).sum()) for name, known in self.uses.items()}

    def __repr__(self) -> str:
        return f"UsedRecords({', '.join(f'{name}: {len(known)}' for name, known in self.uses.items())})"


def fingerprints(data: GroupedData, key: bytes) -> NDArray[np.uint64]:
    """Hash of each record under the key: features, label and group as they are encoded, shape (n_samples,).

    The hash is BLAKE2b with 64 bits. Two unequal records share one with probability 2⁻⁶⁴; among n fresh and m used
    records the chance of any false match is at most n m 2⁻⁶⁴, for a million each 5e-8. Features are rounded to
    float32, and −0 counts as 0.
    """
    found, stop = np.empty(data.n_samples, dtype=np.uint64), 0
    for part in data.batches(max(1, _CHUNK // (data.row_bytes + 16))):
        start, stop = stop, stop + part.n_samples
        found[start:stop] = _hashes(part, key)
    return found


class PassingRecords:
    """Batches that leave their fingerprints as they pass."""

    def __init__(self, batches: Iterable[GroupedData], key: bytes) -> None:
        self._batches, self._key = batches, key
        self._found: list[NDArray[np.uint64]] = []

    def __iter__(self) -> Iterator[GroupedData]:
        for batch in self._batches:
            self._found.append(fingerprints(batch, self._key))
            yield batch

    def fingerprints(self) -> NDArray[np.uint64]:
        """Those of all records that have passed."""
        return np.concatenate(self._found)


def _hashes(data: GroupedData, key: bytes) -> NDArray[np.uint64]:
    y, groups = (np.asarray(codes, dtype="<i8") for codes in (data.y, data.groups))
    X = np.asarray(data.inputs, dtype="<f4").reshape(len(y), -1) + np.float32(0)
    table = np.hstack([np.ascontiguousarray(part).view(np.uint8).reshape(len(y), -1) for part in (X, y, groups)])
    content, width = table.tobytes(), table.shape[1]
    records = (content[i : i + width] for i in range(0, len(content), width))
    digests = b"".join(hashlib.blake2b(record, key=key, digest_size=8).digest() for record in records)
    return np.frombuffer(digests, dtype="<u8")


def _contained(values: NDArray[np.uint64], known: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which values are among the known ones, which are sorted."""
    return np.searchsorted(known, values, side="right") > np.searchsorted(known, values, side="left")


def used_records_path(folder: Path) -> Path:
    """Where a model folder's used records are listed: beside it, however the folder is named."""
    folder = folder.resolve()
    return folder.with_name(f"{folder.name}.register")


def next_used_records_path(folder: Path) -> Path:
    """Where those of the next model wait until it is in the folder."""
    path = used_records_path(folder)
    return path.with_name(f".{path.name}.next")


def used_records_of(folder: Path, digest: str) -> UsedRecords | None:
    """The used records of the model in a folder, also where a command was ended just after it wrote the model."""
    found = read_used_records(used_records_path(folder))
    if found is None or found.model_sha256 not in ("", digest):
        waiting = read_used_records(next_used_records_path(folder))
        return waiting if waiting is not None and waiting.model_sha256 == digest else found
    return found


def check_used_records(path: Path) -> None:
    """Before any work is done, refuse a path that holds something else."""
    if path.is_dir():
        raise SavedModelError(f"{str(path)!r}, where used records are noted, is a folder; choose another `out`.")
    try:
        read_used_records(path)
    except SavedModelError:
        raise SavedModelError(
            f"{str(path)!r} would be overwritten, but holds no used records; choose another `out`."
        ) from None


@dataclass(frozen=True, kw_only=True)
class _Record:
    """What the file says beside the fingerprints."""

    format: int
    key: str
    model_sha256: str
    split_key: str
    uses: tuple[str, ...]
    digest: str


def write_used_records(path: Path, used: UsedRecords) -> None:
    """Replace the file atomically, readable by its owner only."""
    about = _Record(
        format=FORMAT,
        key=used.key.hex(),
        model_sha256=used.model_sha256,
        split_key=used.split_key.hex(),
        uses=tuple(used.uses),
        digest=_digest(used),
    )
    # A name may be any text: the file knows uses by their number.
    tensors = {str(i): known for i, known in enumerate(used.uses.values())}
    write_file(path, save(tensors, metadata={"fairdp": json_bytes(about).decode()}), owner_only=True)


def read_used_records(path: Path) -> UsedRecords | None:
    """The used records in a file, None if there is none; one clear line if it is damaged or of another version."""
    if not path.exists():
        return None
    try:
        about, tensors = tensors_in(content_of(path, most=MOST_TENSORS), framework="np")
        plain = parsed_json(about.get("fairdp", ""))
        version = plain.get("format") if isinstance(plain, dict) else None
        if type(version) is not int:
            raise RecordError("it has no format")
        used = _checked(from_plain(_Record, plain), tensors) if version == FORMAT else None
    except OSError as error:
        raise SavedModelError(
            f"used records {str(path)!r} cannot be read ({error.strerror}); restore them from a copy."
        ) from None
    except (RecordError, ValueError):
        raise SavedModelError(f"used records {str(path)!r} are damaged; restore them from a copy.") from None
    if used is None:
        raise SavedModelError(
            f"used records {str(path)!r} have format {version}, this fairdp reads {FORMAT}; install a matching one."
        )
    return used


def _checked(about: _Record, tensors: Mapping[str, NDArray[np.uint64]]) -> UsedRecords:
    numbers = [str(i) for i in range(len(about.uses))]
    fit = all(known.dtype == np.uint64 and known.ndim == 1 for known in tensors.values())
    if sorted(numbers) != sorted(tensors) or len(set(about.uses)) < len(numbers) or not fit:
        raise RecordError("its uses are not those that it names")
    uses = {name: tensors[number] for name, number in zip(about.uses, numbers, strict=True)}
    key, split_key = bytes.fromhex(about.key), bytes.fromhex(about.split_key)
    used = UsedRecords(key=key, uses=uses, model_sha256=about.model_sha256, split_key=split_key)
    # The file format has no checksum of its own, and one wrong bit would let a used record pass as fresh.
    if len(key) != KEY_BYTES or about.digest != _digest(used):
        raise RecordError("its contents do not match its digest")
    return used


def _digest(used: UsedRecords) -> str:
    digest = hashlib.blake2b(json.dumps([used.model_sha256, used.split_key.hex(), *used.uses]).encode(), key=used.key)
    for known in used.uses.values():
        digest.update(known.tobytes())
    return digest.hexdigest()
