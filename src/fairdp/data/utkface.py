"""UTKFace: grey 48 × 48 faces; the label is age above 35, the groups are white and non-white."""

import hashlib
import itertools
import re
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairdp._checks import DataError
from fairdp.data.grouped import GroupedData

SIDE = 48
AGE_LIMIT = 35
# The values of each column that may be protected; the paper has the first.
GROUP_NAMES = {"race": ("white", "non-white"), "gender": ("male", "female")}
LICENCE = (
    "UTKFace is available for non-commercial research purposes only; the copyright of each image belongs to "
    "its owner. The images may not be redistributed."
)
# [age]_[gender]_[race]_[date and time].jpg, with .chip.jpg behind it in the aligned and cropped edition.
# Two of its files have a blank before the dot or lack the dot.
FILE_NAME = re.compile(r"(?P<age>\d{1,3})_(?P<gender>[01])_(?P<race>[0-4])_\d+ ?\.?jpg(\.chip\.jpg)?")


@dataclass(frozen=True, kw_only=True, eq=False)
class Faces:
    """Images and what is known of them; printing it shows their number only.

    Parameters
    ----------
    pixels
        Grey values, shape (n_samples, 48, 48), uint8.
    age, gender, race
        Years; 0 male, 1 female; 0 White, 1 Black, 2 Asian, 3 Indian, 4 Others. Shape (n_samples,).
    img_name
        File names, shape (n_samples,).
    """

    pixels: NDArray[np.uint8]
    age: NDArray[np.int16]
    gender: NDArray[np.int8]
    race: NDArray[np.int8]
    img_name: NDArray[np.str_]

    def __post_init__(self) -> None:
        lengths = {len(self.pixels), len(self.age), len(self.gender), len(self.race), len(self.img_name)}
        if len(lengths) != 1 or self.pixels.shape[1:] != (SIDE, SIDE) or self.pixels.dtype != np.uint8:
            raise DataError(f"pixels must be uint8 of shape (n, {SIDE}, {SIDE}), with one entry per image elsewhere.")

    @property
    def labels(self) -> NDArray[np.int64]:
        """1 where the age is above 35, shape (n_samples,)."""
        return (self.age > AGE_LIMIT).astype(np.int64)

    @property
    def groups(self) -> NDArray[np.int64]:
        """0 white, 1 non-white, shape (n_samples,)."""
        return (self.race != 0).astype(np.int64)

    @property
    def counts(self) -> dict[str, int]:
        """Numbers by which an edition of the data can be recognised."""
        positive = self.labels == 1
        white = self.groups == 0
        return {"images": len(self.age), "age > 35": int(positive.sum()), "white": int(white.sum())}

    def __repr__(self) -> str:
        return f"Faces({len(self.age)} images)"


def read_utkface(folder: str | Path) -> Faces:
    """The images of ``utkface48.npz``."""
    try:
        # Numpy would leave a broken archive open if it opened the file itself.
        with (Path(folder) / "utkface48.npz").open("rb") as file, np.load(file, allow_pickle=False) as stored:
            return Faces(**{name: stored[name] for name in Faces.__dataclass_fields__})
    except (ValueError, KeyError, AttributeError, EOFError, zipfile.BadZipFile):
        raise DataError("utkface48.npz is damaged or another file; get the data set again.") from None


def grouped_faces(faces: Faces, rows: NDArray[np.int64], protected: Sequence[str] = ("race",)) -> GroupedData:
    """The images at these positions with values in [0, 1], shape (n_rows, 1, 48, 48), in groups of these columns."""
    X = faces.pixels[rows].astype(np.float32)[:, None]
    X /= 255
    codes = {"race": faces.groups, "gender": faces.gender.astype(np.int64)}
    groups = np.zeros(len(rows), dtype=np.int64)
    for column in protected:
        groups = len(GROUP_NAMES[column]) * groups + codes[column][rows]
    return GroupedData(X, faces.labels[rows], groups, group_names(protected))


def group_names(protected: Sequence[str]) -> tuple[str, ...]:
    """One value of each of these columns, as tables name their groups; the last changes fastest."""
    return tuple(" & ".join(values) for values in itertools.product(*(GROUP_NAMES[column] for column in protected)))


def duplicate_clusters(pixels: NDArray[np.uint8]) -> NDArray[np.int64]:
    """A code for each image, the same for images with the same pixels, shape (n_samples,)."""
    first: dict[bytes, int] = {}
    digests = (hashlib.sha256(image.tobytes()).digest() for image in pixels)
    return np.array([first.setdefault(digest, len(first)) for digest in digests], dtype=np.int64)


def pack_utkface(folder: str | Path) -> tuple[Faces, tuple[str, ...]]:
    """Images from a folder of the original files, and the names of files that do not follow the pattern.

    Needs pillow. Each image becomes grey and 48 × 48; sub-folders are searched too.
    """
    paths = sorted(path for path in Path(folder).rglob("*.jpg") if path.is_file())
    matches = [(path, FILE_NAME.fullmatch(path.name)) for path in paths]
    malformed = tuple(path.name for path, match in matches if match is None)
    found = [(path, match) for path, match in matches if match is not None]
    if not found:
        raise DataError(f"{str(folder)!r} holds no file named like [age]_[gender]_[race]_[date].jpg.")
    faces = Faces(
        pixels=np.stack([_grey(path) for path, _ in found]),
        age=np.array([int(match["age"]) for _, match in found], dtype=np.int16),
        gender=np.array([int(match["gender"]) for _, match in found], dtype=np.int8),
        race=np.array([int(match["race"]) for _, match in found], dtype=np.int8),
        img_name=np.array([path.name for path, _ in found]),
    )
    return faces, malformed


def _grey(path: Path) -> NDArray[np.uint8]:
    image_module = _pillow()
    try:
        with image_module.open(path) as image:
            return np.asarray(image.convert("L").resize((SIDE, SIDE)), dtype=np.uint8)
    except OSError:
        raise DataError(f"{str(path)!r} is not an image that can be read.") from None


def _pillow() -> Any:
    """The imaging library, which only packing needs."""
    try:
        from PIL import Image
    except ImportError:
        raise DataError("packing UTKFace needs pillow; run pip install 'fairdp[images]'.") from None
    return Image
