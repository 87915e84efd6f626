"""Folders that are written whole or not at all, replaced in one step, and written by one command at a time."""

import ctypes
import errno
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from fairdp._checks import SavedModelError
from fairdp._files import allowed_mode, sync_folder, write_all

# Of Linux, from <linux/fs.h> and <fcntl.h>.
_RENAME_EXCHANGE, _AT_FDCWD = 2, -100
# What systems, file systems and sandboxes answer that do not know the exchange.
_UNKNOWN = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM)


def write_folder(folder: Path, contents: Mapping[str, bytes], *, own: Collection[str], marker: str) -> None:
    """Write all files to a folder in one step; see `check_replaceable` for what may be there before.

    Whatever happens, the path holds the old folder or the new one, whole and on the disk.
    """
    # Links are followed once: what they point to may change meanwhile.
    folder = folder.resolve()
    check_replaceable(folder, own=own, marker=marker)
    folder.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(folder)
    with _staging(folder) as staging:
        for name, content in contents.items():
            handle = os.open(staging / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            write_all(handle, content)
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
        remove_leftovers(folder)
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


def restore(folder: Path) -> None:
    """Put the old folder back where a command was ended between the two renames that replace it."""
    aside = _aside(folder.resolve())
    if aside.is_dir() and not folder.exists():
        with suppress(OSError):
            os.rename(aside, folder.resolve())


def remove_leftovers(folder: Path) -> None:
    """Remove what commands left that were ended while they wrote; those at work hold a lock on theirs."""
    restore(folder)
    leftovers = [path for path in folder.parent.iterdir() if path.name.startswith(_prefix(folder))]
    for path in (*leftovers, _aside(folder)):
        with suppress(OSError):
            handle = os.open(path, os.O_RDONLY)
            try:
                if lock(handle):
                    shutil.rmtree(path, ignore_errors=True)
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


def _prefix(folder: Path) -> str:
    return f".{folder.name}.new."


def _aside(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.old")
