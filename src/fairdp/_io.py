"""Files and folders that are written whole or not at all, and what goes into them, read within limits.

Both are made beside their place as a draft, ``.NAME.new.*``, which its maker keeps locked until it takes its name: a
draft that nobody holds was left by a process that was ended, and is removed by the next that writes there.
"""

import ctypes
import errno
import glob
import itertools
import json
import math
import os
import shutil
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from importlib import import_module
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from fairdp.errors import DataError, ParameterError, SavedModelError

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

T = TypeVar("T")

# What we write is far below: of anything larger, only the reading would be noticed.
_MOST_JSON, _MOST_DEEP, _MOST_DIGITS = 2**24, 32, 300
MOST_TENSORS = 2**33
_MODULES = {"np": "numpy", "pt": "torch"}
# No schema comes near. The number of characters is that of a value without quotes, which may be a number.
_MOST_YAML, _MOST_VALUES, _MOST_CHARACTERS = 2**21, 2**17, 1000
# Bytes up to which an array is in memory.
MOST_IN_MEMORY = 2**26
# Of Linux, from <linux/fs.h> and <fcntl.h>, and what systems, file systems and sandboxes answer that do not know it.
_RENAME_EXCHANGE, _AT_FDCWD = 2, -100
_UNKNOWN = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM)


def write_file(path: Path, content: bytes, *, owner_only: bool = False) -> None:
    """Replace a file in one step: the old content stays until the new one is complete."""
    with draft_of(path, owner_only=owner_only) as handle:
        write_to(handle, content)


@contextmanager
def draft_of(path: Path, *, owner_only: bool = False) -> Iterator[int]:
    """An open file to write to, some at a time, that takes its name when all of it is on the disk.

    A draft for its owner only that a process left which was ended may hold a secret, and goes with the next.
    """
    if owner_only:
        remove_leftovers(path)
    handle, draft = _new_draft(path)
    try:
        yield handle
        os.fsync(handle)
        if not owner_only:
            os.chmod(draft, allowed_mode(0o666))
        # Still locked: whoever sweeps must not take it for one that was left.
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    finally:
        os.close(handle)
    sync_folder(path.parent)


def try_place(path: Path) -> None:
    """Try whether a file can be written, by a draft: a kill in between leaves nothing under its name."""
    handle, draft = _new_draft(path)
    draft.unlink(missing_ok=True)
    os.close(handle)


def _new_draft(path: Path) -> tuple[int, Path]:
    """An open, locked file beside a path."""
    while True:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=_prefix(path))
        lock(handle)
        # Somebody who removes what was left may have come between the two calls.
        if os.path.exists(name):
            return handle, Path(name)
        os.close(handle)


@contextmanager
def _closing(handle: int) -> Iterator[None]:
    """Close an open file; if all went well, once what was written is on the disk."""
    try:
        yield
        os.fsync(handle)
    finally:
        os.close(handle)


def write_to(handle: int, content: bytes) -> None:
    """Write all of it to an open file."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(handle, rest) :]


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


def allowed_mode(mode: int) -> int:
    """A mode of new files without what the user's mask takes, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mode & ~mask


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
        raise ParameterError("out", str(out), "already exists", "choose another file, or add `overwrite` to replace it")


def write_folder(folder: Path, contents: Mapping[str, bytes], *, own: Collection[str], marker: str) -> None:
    """Write all files to a folder in one step; see `check_replaceable` for what may be there before.

    Whatever happens, the path holds the old folder or the new one, whole and on the disk.
    """
    # Links are followed once: what they point to may change meanwhile.
    folder = folder.resolve()
    check_replaceable(folder, own=own, marker=marker)
    folder.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(folder, _aside(folder))
    with _staging(folder) as staging:
        for name, content in contents.items():
            handle = os.open(staging / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            with _closing(handle):
                write_to(handle, content)
        os.chmod(staging, allowed_mode(0o777))
        sync_folder(staging)
        _put_in_place(staging, folder)
        sync_folder(folder.parent)


def check_replaceable(folder: Path, *, own: Collection[str], marker: str) -> None:
    """Refuse, before any work is done, a folder that could not be written or that holds something else.

    What may be replaced is empty, or holds the marker and nothing but files of its own kind.
    """
    restore(folder)
    if folder.exists() and not folder.is_dir():
        raise SavedModelError(f"output folder {str(folder)!r} is a file; choose another name.")
    held = set(os.listdir(folder)) if folder.is_dir() else set()
    if held and (marker not in held or held - set(own)):
        raise SavedModelError(f"output folder {str(folder)!r} holds other files; choose an empty or a new one.")
    above = next(parent for parent in folder.absolute().parents if parent.exists())
    try:
        # Trying is the only sure answer: permissions say nothing of read-only and special file systems.
        trial = tempfile.mkdtemp(dir=above, prefix=_prefix(folder))
        with suppress(FileNotFoundError):
            os.rmdir(trial)
    except OSError as error:
        raise SavedModelError(
            f"output folder {str(folder)!r} cannot be written: {error.strerror} in {str(above)!r}."
        ) from None


def restore(folder: Path) -> None:
    """Put the old folder back where a command was ended between the two renames that replace it."""
    aside = _aside(folder.resolve())
    if aside.is_dir() and not folder.exists():
        with suppress(OSError):
            os.rename(aside, folder.resolve())


@contextmanager
def claimed(folder: Path) -> Iterator[Path]:
    """Let no other command write to a folder meanwhile; yields where it is, links followed.

    The system gives a claim back when its process ends, however it ends.
    """
    folder = folder.resolve()
    made = [parent for parent in folder.parents if not parent.exists()]
    folder.parent.mkdir(parents=True, exist_ok=True)
    path = folder.with_name(f".{folder.name}.lock")
    handle = _claim(path, folder)
    try:
        restore(folder)
        remove_leftovers(folder, _aside(folder))
        yield folder
    finally:
        # A file that stays is in nobody's way: whether it is locked counts.
        with suppress(OSError):
            path.unlink()
        os.close(handle)
        with suppress(OSError):
            for parent in made:
                parent.rmdir()


def _claim(path: Path, folder: Path) -> int:
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        if not lock(handle):
            os.close(handle)
            raise SavedModelError(
                f"another command is writing to {str(folder)!r}; wait for its end, or choose another folder."
            )
        # Whoever held it before removes the file at its end, perhaps between our two calls.
        if path.exists() and os.path.samestat(os.fstat(handle), path.stat()):
            return handle
        os.close(handle)


def lock(handle: int) -> bool:
    """Lock an open file or folder, unless another holds it; where there are no locks, nobody does."""
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        pass
    return True


def remove_leftovers(path: Path, *others: Path) -> None:
    """Remove drafts of a file or folder that commands left which were ended; those at work hold a lock on theirs."""
    for left in (*path.parent.glob(f"{glob.escape(_prefix(path))}*"), *others):
        with suppress(OSError):
            handle = os.open(left, os.O_RDONLY)
            try:
                if not lock(handle):
                    continue
                if left.is_dir():
                    shutil.rmtree(left, ignore_errors=True)
                else:
                    left.unlink()
            finally:
                os.close(handle)


@contextmanager
def _staging(folder: Path) -> Iterator[Path]:
    """A folder beside another in which it is made; what is there in the end, the draft or the old one, is removed."""
    staging = Path(tempfile.mkdtemp(dir=folder.parent, prefix=_prefix(folder)))
    handle = -1
    try:
        handle = os.open(staging, os.O_RDONLY)
        lock(handle)
        yield staging
    finally:
        if handle >= 0:
            os.close(handle)
        shutil.rmtree(staging, ignore_errors=True)


def _put_in_place(staging: Path, folder: Path) -> None:
    try:
        # Where there is nothing, or an empty folder.
        os.rename(staging, folder)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        if not exchange(staging, folder):
            _rename_twice(staging, folder)


def exchange(one: Path, other: Path) -> bool:
    """Let two paths change places in one step; False where the system or the file system cannot."""
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    if renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNKNOWN:
        return False
    raise OSError(number, os.strerror(number), str(other))


def _rename_twice(staging: Path, folder: Path) -> None:
    """The next best: whoever comes between the two finds the old folder aside, and puts it back."""
    aside = _aside(folder)
    os.rename(folder, aside)
    try:
        os.rename(staging, folder)
    except BaseException:
        restore(folder)
        raise
    sync_folder(folder.parent)
    shutil.rmtree(aside, ignore_errors=True)


def _prefix(path: Path) -> str:
    """The beginning of the names of drafts."""
    return f".{path.name}.new."


def _aside(folder: Path) -> Path:
    """Where the old folder is between the two renames that replace it."""
    return folder.with_name(f".{folder.name}.old")


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
    """The value of JSON that says everything once, in numbers that are numbers; else a `RecordError`.

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
    """The metadata of a file of tensors, and the tensors, of NumPy ("np") or torch ("pt"); else a `RecordError`."""
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

    >>> from fairdp.config import ModelConfig
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


_field_types = cache(get_type_hints)


def joined(parts: "Iterable[NDArray[Any]]", kind: "DTypeLike", shape: tuple[int, ...]) -> "NDArray[Any]":
    """The rows of all parts, which together have this shape or fewer rows; a large array can only be read.

    Its file has no name, so that the system removes it when the process ends, however that ends.
    """
    import numpy as np

    kind = np.dtype(kind)
    if kind.itemsize * math.prod(shape) > MOST_IN_MEMORY:
        return in_file(parts, kind, shape)
    whole, stop = np.empty(shape, dtype=kind), 0
    for part in parts:
        start, stop = stop, stop + len(part)
        whole[start:stop] = part
    return whole[:stop]


def in_file(parts: "Iterable[NDArray[Any]]", kind: "DTypeLike", shape: tuple[int, ...]) -> "NDArray[Any]":
    """The same in a file, of whatever size."""
    import numpy as np

    with tempfile.TemporaryFile() as file:
        n_rows = 0
        for part in parts:
            n_rows += len(part)
            try:
                # Through the file, not through a map of it: a full disk is then an error and not the end of us.
                file.write(np.ascontiguousarray(part, dtype=kind).data)
                file.flush()
            except OSError as error:
                raise DataError(
                    f"a temporary file in {tempfile.gettempdir()!r} cannot be written ({error.strerror}); name a "
                    "folder with more room in TMPDIR."
                ) from None
        return mapped(file, kind, (n_rows, *shape[1:]))


def mapped(file: Any, kind: "DTypeLike", shape: tuple[int, ...]) -> "NDArray[Any]":
    """An array at the beginning of an open file, which may be closed and removed."""
    import numpy as np

    if not math.prod(shape):
        return np.empty(shape, dtype=kind)
    return np.asarray(np.memmap(file, dtype=kind, mode="r", shape=shape))


def read_plain(path: Path) -> Any:
    """Plain values from the file of a schema; one clear line if it cannot be read."""
    if not path.exists():
        raise FileNotFoundError(f"schema {str(path)!r} does not exist.")
    try:
        return plain_yaml(content_of(path))
    except OSError as error:
        raise DataError(f"schema {str(path)!r} cannot be read: {error.strerror}.") from None
    except DataError as error:
        raise DataError(f"schema {str(path)!r} {error.template}.") from None


def plain_yaml(content: bytes) -> Any:
    """Plain values from the text of a file.

    Raises
    ------
    DataError
        With a phrase that says what is wrong.
    """
    import yaml

    if len(content) > _MOST_YAML:
        raise DataError(f"has {len(content)} bytes, and may have {_MOST_YAML}")
    try:
        text = content.decode("utf-8-sig")
        # Ten times as fast, where PyYAML has it.
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        _check_events(yaml.parse(text, Loader=loader))
        return yaml.load(text, Loader=loader)
    except DataError:
        raise
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}" if mark else "its text"
        raise DataError(f"is neither YAML nor JSON: {where} cannot be read") from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        # Values that look like a date or a number, or are tagged as one, and are none; text that is not UTF-8.
        raise DataError("is neither YAML nor JSON: its text cannot be read") from None


def _check_events(events: Iterable[Any]) -> None:
    """Refuse what would be read, but not as its author or any reader expects; nothing is built for that."""
    import yaml

    # For each collection that is open: the keys of a mapping so far, and whether the next value is one of them.
    levels: list[tuple[set[str], Iterator[bool]]] = []
    for number, event in enumerate(events):
        line = event.start_mark.line + 1
        if number > _MOST_VALUES:
            raise DataError(f"has more than {_MOST_VALUES} values")
        if isinstance(event, yaml.AliasEvent):
            raise DataError(f"has an alias in line {line}; write out what it stands for")
        if isinstance(event, yaml.CollectionEndEvent):
            levels.pop()
        elif isinstance(event, yaml.ScalarEvent):
            if not event.style and len(event.value) > _MOST_CHARACTERS:
                raise DataError(f"has a value of {len(event.value)} characters in line {line}; put it in quotes")
            keys, is_key = levels[-1] if levels else (set(), itertools.repeat(False))
            if next(is_key):
                if event.value in keys:
                    raise DataError(f"says {event.value!r} twice in line {line}; leave one out")
                keys.add(event.value)
        elif isinstance(event, yaml.CollectionStartEvent):
            if levels:
                next(levels[-1][1])
            if len(levels) == _MOST_DEEP:
                raise DataError(f"is nested too deeply in line {line}")
            is_mapping = isinstance(event, yaml.MappingStartEvent)
            levels.append((set(), itertools.cycle((True, False)) if is_mapping else itertools.repeat(False)))
