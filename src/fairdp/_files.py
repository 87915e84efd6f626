"""Files and folders that are written whole or not at all, and JSON that every reader accepts."""

import json
import math
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairdp._checks import ParameterError, SavedModelError
from fairdp._records import to_plain


def write_file(path: Path, content: bytes, *, owner_only: bool = False) -> None:
    """Replace a file in one step: the old content stays until the new one is complete."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        if not owner_only:
            os.chmod(temporary, 0o666 & ~_umask())
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_out(out: Path, content: bytes) -> None:
    """Write the file that a command's ``out`` names, or say in one line why that cannot be."""
    try:
        write_file(out, content)
    except OSError as error:
        raise ParameterError("out", str(out), f"cannot be written: {error.strerror}") from None


def _umask() -> int:
    """The user's mask for new files, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def write_folder(folder: Path, contents: Mapping[str, bytes], *, marker: str) -> None:
    """Write all files to a folder in one step; an existing folder is replaced only if it holds the marker file."""
    check_replaceable(folder, marker=marker)
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        for name, content in contents.items():
            (staging / name).write_bytes(content)
        staging.chmod(0o777 & ~_umask())
        _swap_in(staging, folder)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise


def check_replaceable(folder: Path, *, marker: str) -> None:
    """Refuse, before any work is done, a folder that could not be written or that holds something else."""
    if folder.exists() and not folder.is_dir():
        raise SavedModelError(f"output folder {str(folder)!r} is a file; choose another name.")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / marker).exists():
        raise SavedModelError(f"output folder {str(folder)!r} holds other files; choose an empty or a new one.")
    above = next(parent for parent in folder.absolute().parents if parent.exists())
    try:
        # Trying is the only sure answer: permissions say nothing of read-only and special file systems.
        os.rmdir(tempfile.mkdtemp(dir=above, prefix=".fairdp."))
    except OSError as error:
        raise SavedModelError(
            f"output folder {str(folder)!r} cannot be written: {error.strerror} in {str(above)!r}."
        ) from None


def _swap_in(staging: Path, folder: Path) -> None:
    if not folder.exists():
        staging.rename(folder)
        return
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.old.") as aside:
        old = Path(aside) / "old"
        folder.rename(old)
        try:
            staging.rename(folder)
        except BaseException:
            old.rename(folder)
            raise


def json_bytes(value: object) -> bytes:
    """Readable JSON; numbers that JSON does not know (infinity, NaN) become null."""
    return (json.dumps(_known(to_plain(value)), indent=2, allow_nan=False, ensure_ascii=False) + "\n").encode()


def _known(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _known(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_known(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def described_tensors(path: Path, *, framework: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a file of tensors says of itself, and the tensors, of NumPy ("np") or torch ("pt")."""
    # On use: commands that read no tensors should not wait for it.
    from safetensors import safe_open

    with safe_open(path, framework=framework) as file:
        names = file.keys()
        return json.loads(file.metadata()["fairdp"]), {name: file.get_tensor(name) for name in names}
