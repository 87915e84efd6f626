"""The place of a model on the disk: its folder, and beside it the records that it has used, which change together."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fairdp._checks import SavedModelError
from fairdp._files import remove_drafts, sync_folder
from fairdp._folders import check_replaceable, claimed
from fairdp.saved.folder import MARKER, OWN, TENSORS, sha256
from fairdp.saved.used_records import (
    UsedRecords,
    check_used_records,
    next_used_records_path,
    read_used_records,
    used_records_path,
    write_used_records,
)


@contextmanager
def place_for_model(out: Path, *, overwrite: bool) -> Iterator[None]:
    """Hold the place where a model will be written, or refuse it before any work is done."""
    check_place(out, overwrite=overwrite)
    with place_of_model(out):
        # Another command may have ended just before.
        check_place(out, overwrite=overwrite)
        check_used_records(used_records_path(out))
        yield


@contextmanager
def place_of_model(folder: Path) -> Iterator[None]:
    """Hold the place of a model: no other command replaces it meanwhile."""
    with claimed(folder) as place:
        _settle(place)
        yield


def check_place(out: Path, *, overwrite: bool) -> None:
    """Refuse a folder that cannot be written, holds something else, or a model that nobody said to replace."""
    check_replaceable(out, own=OWN, marker=MARKER)
    if not overwrite and (out / MARKER).exists():
        raise SavedModelError(
            f"output folder {str(out)!r} holds a model already; choose another folder, or add `overwrite` to replace "
            "it."
        )


@contextmanager
def with_used_records(folder: Path, used: UsedRecords) -> Iterator[None]:
    """Replace a model's used records together with the model, which the caller writes.

    Two places cannot change in one step. So the new records wait beside the old ones, each naming its model, and
    whichever model is in the folder finds its own.
    """
    path, waiting = used_records_path(folder), next_used_records_path(folder)
    write_used_records(waiting, used)
    try:
        yield
    except BaseException:
        _settle(folder.resolve())
        raise
    os.replace(waiting, path)
    sync_folder(path.parent)


def _settle(folder: Path) -> None:
    """Finish what an earlier command left: used records that wait go to their model, or away."""
    path, waiting = used_records_path(folder), next_used_records_path(folder)
    for each in (path, waiting):
        remove_drafts(each)
    if not waiting.exists():
        return
    tensors = folder / TENSORS
    digest = sha256(tensors.read_bytes()) if tensors.is_file() else None
    if _digest_in(path) != digest == _digest_in(waiting):
        os.replace(waiting, path)
    else:
        waiting.unlink()
    sync_folder(path.parent)


def _digest_in(path: Path) -> str:
    """The model that used records are of; none where they cannot be read."""
    try:
        used = read_used_records(path)
    except SavedModelError:
        return ""
    return "" if used is None else used.model_sha256
