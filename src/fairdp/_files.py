"""Files that are written whole or not at all, and what goes into them: JSON and tensors, read within limits."""

import errno
import glob
import json
import math
import os
import tempfile
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from importlib import import_module
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from fairdp._checks import ParameterError

T = TypeVar("T")

# What we write is far below: of anything larger, only the reading would be noticed.
_MOST_JSON, _MOST_DEEP, _MOST_DIGITS = 2**24, 32, 300
MOST_TENSORS = 2**33
_MODULES = {"np": "numpy", "pt": "torch"}


def write_file(path: Path, content: bytes, *, owner_only: bool = False) -> None:
    """Replace a file in one step: the old content stays until the new one is complete.

    What is for its owner only is written by one process at a time: a draft of it that is there was left by one that was
    ended, and may hold a secret.
    """
    if owner_only:
        remove_drafts(path)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        write_all(handle, content)
        if not owner_only:
            os.chmod(temporary, allowed_mode(0o666))
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def try_place(path: Path) -> None:
    """Try whether a file can be written, by a draft: a kill in between leaves nothing under its name."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    os.unlink(temporary)


def remove_drafts(path: Path) -> None:
    """Remove what processes left that were ended while they wrote a file, which nobody else is writing."""
    for draft in path.parent.glob(f".{glob.escape(path.name)}.????????"):
        draft.unlink(missing_ok=True)


def write_all(handle: int, content: bytes) -> None:
    """Write to an open file, wait until it is on the disk, and close it."""
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(handle, rest) :]
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk, where folders can be read and synced."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(handle)


def write_key(path: Path, key: bytes) -> None:
    """Keep a secret key in a file of its own, for its owner only."""
    write_file(path, key.hex().encode(), owner_only=True)


def read_key(path: Path, n_bytes: int) -> bytes | None:
    """The key of this length that a file keeps, or None if there is none."""
    try:
        key = bytes.fromhex(content_of(path).decode())
    except (OSError, ValueError):
        return None
    return key if len(key) == n_bytes else None


def write_out(out: Path, content: bytes) -> None:
    """Write the file that a command's ``out`` names, or say in one line why that cannot be."""
    try:
        write_file(out, content)
    except OSError as error:
        raise ParameterError("out", str(out), f"cannot be written: {error.strerror}") from None


def refuse_existing(out: Path, *, overwrite: bool) -> None:
    """Refuse to replace a file that nobody asked to replace, before the work for it begins; a pipe takes anything."""
    if out.is_file() and not overwrite:
        raise ParameterError(
            "out", str(out), "is there already", "choose another file, or add `overwrite` to replace it"
        )


def allowed_mode(mode: int) -> int:
    """A mode of new files without what the user's mask takes, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mode & ~mask


def content_of(path: Path, *, most: int = _MOST_JSON) -> bytes:
    """The bytes of a regular file; of a pipe or a device nobody knows when they end."""
    if path.is_dir() or not path.exists():
        code = errno.EISDIR if path.is_dir() else errno.ENOENT
        raise OSError(code, os.strerror(code), str(path))
    if not path.is_file():
        raise OSError(errno.EINVAL, "not a file", str(path))
    if path.stat().st_size > most:
        raise OSError(errno.EFBIG, "too large", str(path))
    return path.read_bytes()


def parsed_json(content: bytes | str) -> Any:
    """What JSON says, if it says everything once, in numbers that are numbers; else a `RecordError`.

    Of a name that stands twice, readers see different values.
    """
    if len(content) > _MOST_JSON:
        raise RecordError("it is too long")
    try:
        value = json.loads(
            content, object_pairs_hook=_once, parse_int=_whole, parse_float=_finite, parse_constant=_finite
        )
    except RecursionError:
        raise RecordError("it is nested too deeply") from None
    except ValueError:
        raise RecordError("it is no JSON") from None
    level = [value]
    for _ in range(_MOST_DEEP):
        inner = [one for one in level if isinstance(one, (dict, list))]
        level = [item for one in inner for item in (one.values() if isinstance(one, dict) else one)]
        if not level:
            return value
    raise RecordError("it is nested too deeply")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise RecordError("a name stands twice in one object")
    return dict(pairs)


def _whole(digits: str) -> int:
    # Python itself refuses some thousand digits, and floats end at some hundred.
    if len(digits) > _MOST_DIGITS:
        raise RecordError("a number is too large")
    return int(digits)


def _finite(number: str) -> float:
    if not math.isfinite(float(number)):
        raise RecordError("a number is not finite")
    return float(number)


def json_bytes(value: object) -> bytes:
    """Readable JSON; numbers that JSON does not know (infinity, NaN) become null."""
    return (json.dumps(_known(to_plain(value)), indent=2, allow_nan=False, ensure_ascii=False) + "\n").encode()


def _known(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _known(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_known(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def tensors_in(content: bytes, *, framework: Literal["np", "pt"]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a file of tensors says of itself, and the tensors, of NumPy ("np") or torch ("pt"); else a `RecordError`."""
    # On use: commands that read no tensors should not wait for them.
    from safetensors import SafetensorError

    header = parsed_json(content[8 : 8 + int.from_bytes(content[:8], "little")])
    try:
        tensors = import_module(f"safetensors.{_MODULES[framework]}").load(content)
    except (SafetensorError, ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError):
        raise RecordError("its tensors cannot be read") from None
    return header.get("__metadata__") or {}, tensors


class RecordError(TypeError):
    """Plain values that are not the record they should be."""


def to_plain(value: Any) -> Any:
    """Dataclasses and mappings as dicts, tuples as lists, all the way down; everything else as it is.

    >>> from fairdp.config.model import ModelConfig
    >>> to_plain(ModelConfig(kind="mlp"))["hidden"]
    [32]
    """
    if is_dataclass(value):
        return {field.name: to_plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    return value


def from_plain(kind: type[T], value: object) -> T:
    """Inverse of `to_plain`, for a dataclass; a `RecordError` names what is missing, unknown or of another type.

    JSON has no infinity: it is written as null, and read as such where a number must be.
    """
    read: T = _read(kind, value, kind.__name__)
    return read


def _read(kind: Any, value: Any, name: str) -> Any:
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _read_union(parts, value, name)
    if origin is Literal and any(type(value) is type(part) and value == part for part in parts):
        return value
    if isinstance(kind, type) and issubclass(kind, Enum) and value in tuple(kind):
        return kind(value)
    if is_dataclass(kind) and isinstance(value, dict):
        return _read_dataclass(kind, value)
    if origin is dict and isinstance(value, dict):
        return {key: _read(parts[1], item, f"{name}.{key}") for key, item in value.items()}
    if origin is tuple and isinstance(value, list):
        each = parts[:1] * len(value) if parts[-1] is ... else parts
        if len(each) != len(value):
            raise RecordError(f"{name} has {len(value)} values")
        return tuple(_read(part, item, name) for part, item in zip(each, value, strict=True))
    if kind is float and (value is None or type(value) is int):
        return math.inf if value is None else float(value)
    if kind in (Any, object) or type(value) is kind:
        return value
    # Not the value itself: it may be a key.
    raise RecordError(f"{name} is of another type or kind")


def _read_union(kinds: tuple[Any, ...], value: Any, name: str) -> Any:
    """As the first kind that fits."""
    if value is None and NoneType in kinds:
        return None
    *others, last = (kind for kind in kinds if kind is not NoneType)
    for kind in others:
        try:
            return _read(kind, value, name)
        except RecordError:
            continue
    return _read(last, value, name)


def _read_dataclass(kind: Any, record: dict[str, Any]) -> Any:
    types = _field_types(kind)
    needed = {field.name for field in fields(kind) if field.default is field.default_factory is MISSING}
    if wrong := sorted((needed - record.keys()) | (record.keys() - types.keys())):
        raise RecordError(f"missing or unknown: {', '.join(wrong[:3])}{', …' if len(wrong) > 3 else ''}")
    return kind(**{name: _read(types[name], value, name) for name, value in record.items()})


@cache
def _field_types(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)
