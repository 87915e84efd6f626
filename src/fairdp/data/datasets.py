"""The data sets themselves: Adult (census income), credit (default in Taiwan), UTKFace, and a synthetic population.

Schemas state public bounds and categories; files are read as they were published.
"""

import hashlib
import io
import itertools
import math
import re
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import integrate, special

from fairdp.data.cells import numbers_of, spellings_of
from fairdp.data.columns import Binned, Categorical, Column, Numeric, OtherThan
from fairdp.data.grouped import GroupedData
from fairdp.data.schema import TableSchema
from fairdp.errors import DataError, ParameterError, finite_positive, positive_integer

# Adult: the categories of each column, and the columns of both files.
WORKCLASS = "Federal-gov Local-gov Never-worked Private Self-emp-inc Self-emp-not-inc State-gov Without-pay ?"
EDUCATION = (
    "Preschool 1st-4th 5th-6th 7th-8th 9th 10th 11th 12th HS-grad Some-college Assoc-voc Assoc-acdm "
    "Bachelors Masters Prof-school Doctorate"
)
MARITAL_STATUS = "Divorced Married-AF-spouse Married-civ-spouse Married-spouse-absent Never-married Separated Widowed"
OCCUPATION = (
    "Adm-clerical Armed-Forces Craft-repair Exec-managerial Farming-fishing Handlers-cleaners "
    "Machine-op-inspct Other-service Priv-house-serv Prof-specialty Protective-serv Sales Tech-support "
    "Transport-moving ?"
)
RELATIONSHIP = "Husband Not-in-family Other-relative Own-child Unmarried Wife"
RACE = "Amer-Indian-Eskimo Asian-Pac-Islander Black Other White"
NATIVE_COUNTRY = (
    "Cambodia Canada China Columbia Cuba Dominican-Republic Ecuador El-Salvador England France Germany "
    "Greece Guatemala Haiti Holand-Netherlands Honduras Hong Hungary India Iran Ireland Italy Jamaica Japan "
    "Laos Mexico Nicaragua Outlying-US(Guam-USVI-etc) Peru Philippines Poland Portugal Puerto-Rico Scotland "
    "South Taiwan Thailand Trinadad&Tobago United-States Vietnam Yugoslavia ?"
)
FILE_COLUMNS = (
    "age workclass fnlwgt education education-num marital-status occupation relationship race sex "
    "capital-gain capital-loss hours-per-week native-country income"
)


# Credit.
LABEL = "Default"
LABEL_ALIASES = ("default payment next month", "default.payment.next.month")
CODED_COLUMNS = ("EDUCATION", "MARRIAGE", "PAY_0", "PAY_2", "PAY_3", "PAY_4", "PAY_5", "PAY_6")
BILL_COLUMNS = tuple(f"BILL_AMT{month}" for month in range(1, 7))
PAYMENT_COLUMNS = tuple(f"PAY_AMT{month}" for month in range(1, 7))
FILE_COLUMNS_CREDIT = (
    "ID",
    "LIMIT_BAL",
    "SEX",
    *CODED_COLUMNS[:2],
    "AGE",
    *CODED_COLUMNS[2:],
    *BILL_COLUMNS,
    *PAYMENT_COLUMNS,
    LABEL,
)
SEX_NAMES = {"1": "Male", "2": "Female"}
# What the codes mean, for groups; the codes for others, and those that nobody has documented, are one group.
CREDIT_GROUPS = {
    "EDUCATION": {"1": "graduate school", "2": "university", "3": "high school"},
    "MARRIAGE": {"1": "married", "2": "single"},
}
OTHER = "other"

# Faces: pixels on a side, and the years from which on a face has the other label.
SIDE = 48
AGE_LIMIT = 35
# The values of each column that may be protected; the paper has the first.
FACE_GROUPS = {"race": ("white", "non-white"), "gender": ("male", "female")}
# [age]_[gender]_[race]_[date and time].jpg, with .chip.jpg behind it in the aligned and cropped edition.
# Two of its files have a blank before the dot or lack the dot.
FILE_NAME = re.compile(r"(?P<age>\d{1,3})_(?P<gender>[01])_(?P<race>[0-4])_\d+ ?\.?jpg(\.chip\.jpg)?")

# Records of the synthetic data set.
N_TRAIN = 20_000
N_TEST = 10_000


def adult_schema() -> TableSchema:
    """The paper's 41 features: binned age and hours, work class, education, race, born outside the US."""
    return _schema(
        Binned(name="age", edges=(25, 35, 45, 55, 65)),
        _one_hot("workclass", WORKCLASS),
        _one_hot("education", EDUCATION),
        _one_hot("race", RACE),
        Binned(name="hours-per-week", edges=(20, 30, 40)),
        OtherThan(name="native-country", value="United-States"),
    )


def adult_full_schema() -> TableSchema:
    """All usable columns as 105 features: 100 one-hot, 5 numeric. The sampling weight is left out."""
    return _schema(
        _one_hot("workclass", WORKCLASS),
        _one_hot("education", EDUCATION),
        _one_hot("marital-status", MARITAL_STATUS),
        _one_hot("occupation", OCCUPATION),
        _one_hot("relationship", RELATIONSHIP),
        _one_hot("race", RACE),
        _one_hot("native-country", NATIVE_COUNTRY),
        # Bounds of the census questionnaire and round numbers above its top codes, not extremes of the rows.
        Numeric(name="age", low=16, high=90, missing="error"),
        Numeric(name="education-num", low=1, high=16, missing="error"),
        Numeric(name="capital-gain", low=0, high=100_000, transform="signed_log", missing="error"),
        Numeric(name="capital-loss", low=0, high=10_000, transform="signed_log", missing="error"),
        Numeric(name="hours-per-week", low=0, high=100, missing="error"),
    )


def read_adult(folder: str | Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The official training and test rows as they stand in the files, labels without the test file's dot."""
    return _read(Path(folder) / "adult.data"), _read(Path(folder) / "adult.test")


def _read(path: Path) -> pd.DataFrame:
    # The test file opens with a comment line that starts with a bar.
    frame = pd.read_csv(
        path,
        names=FILE_COLUMNS.split(),
        skipinitialspace=True,
        comment="|",
        dtype=str,
        keep_default_na=False,
        index_col=False,
    )
    return frame.assign(income=frame["income"].str.rstrip("."))


def _one_hot(name: str, words: str) -> Categorical:
    return Categorical(name=name, categories=tuple(words.split()))


def _schema(*columns: Column) -> TableSchema:
    return TableSchema(
        columns=columns,
        label="income",
        positive=">50K",
        negative="<=50K",
        sensitive=("sex",),
        groups=(("Female", "Male"),),
    )


def credit_schema() -> TableSchema:
    """89 features: 75 one-hot and 14 numeric. Sex is the protected column and no input."""
    delays = tuple(str(code) for code in range(-2, 9))
    # The paper's 89 features have ten codes in the two oldest months: no client is one month late there.
    old_delays = tuple(code for code in delays if code != "1")
    columns: tuple[Column, ...] = (
        Categorical(name="EDUCATION", categories=tuple("0123456")),
        Categorical(name="MARRIAGE", categories=tuple("0123")),
        *(Categorical(name=name, categories=delays) for name in CODED_COLUMNS[2:6]),
        *(Categorical(name=name, categories=old_delays) for name in CODED_COLUMNS[6:]),
        # Round public bounds in New Taiwan dollars and years, not extremes of the rows.
        Numeric(name="LIMIT_BAL", low=10_000, high=1_000_000, transform="signed_log", missing="error"),
        Numeric(name="AGE", low=20, high=80, missing="error"),
        *(
            Numeric(name=n, low=-1_000_000, high=1_000_000, transform="signed_log", missing="error")
            for n in BILL_COLUMNS
        ),
        *(Numeric(name=n, low=0, high=1_000_000, transform="signed_log", missing="error") for n in PAYMENT_COLUMNS),
    )
    return TableSchema(
        columns=columns,
        label=LABEL,
        positive="1",
        negative="0",
        sensitive=("SEX",),
        groups=(("Male", "Female"),),
    )


def read_credit(folder: str | Path) -> pd.DataFrame:
    """All rows with the label column ``Default`` and sex as ``Male`` or ``Female``."""
    frame = canonical_credit(_read_csv((Path(folder) / "UCI_Credit_Card.csv").read_bytes()))
    return frame.assign(SEX=[SEX_NAMES.get(code, code) for code in spellings_of(frame["SEX"])])


def with_named_groups(
    schema: TableSchema, frames: Sequence[pd.DataFrame]
) -> tuple[TableSchema, tuple[pd.DataFrame, ...]]:
    """A schema and its rows with words in place of the codes of protected columns, so that groups have names."""
    named = {name: CREDIT_GROUPS[name] for name in schema.sensitive if name in CREDIT_GROUPS}
    groups = tuple(
        (*named[name].values(), OTHER) if name in named else values
        for name, values in zip(schema.sensitive, schema.groups, strict=True)
    )
    return replace(schema, groups=groups), tuple(
        frame.assign(
            **{name: [words.get(code, OTHER) for code in spellings_of(frame[name])] for name, words in named.items()}
        )
        for frame in frames
    )


def canonical_credit(frame: pd.DataFrame) -> pd.DataFrame:
    """The columns in one order, under one set of names, as whole numbers."""
    named = frame.rename(columns=dict.fromkeys(LABEL_ALIASES, LABEL))
    lacking = [name for name in FILE_COLUMNS_CREDIT if name not in named.columns]
    if lacking:
        raise DataError(f"the credit table has no column {lacking[0]!r}; give the file as published.")
    numbers = np.column_stack([numbers_of(named[name]) for name in FILE_COLUMNS_CREDIT])
    if not (np.isfinite(numbers) & (numbers == np.rint(numbers))).all():
        raise DataError("the credit table must hold whole numbers only; give the file as published.")
    return pd.DataFrame(numbers.astype(np.int64), columns=list(FILE_COLUMNS_CREDIT))


def canonical_csv(content: bytes, *, suffix: str) -> bytes:
    """A published file, spreadsheet or CSV, as the canonical CSV file."""
    frame = _read_csv(content) if suffix == ".csv" else _read_spreadsheet(content)
    return canonical_credit(frame).to_csv(index=False, lineterminator="\n").encode()


def content_sha256(content: bytes) -> str:
    """Digest of the numbers in a CSV file, the same for every way to write them."""
    table = canonical_credit(_read_csv(content)).to_numpy(dtype="<i8")
    return hashlib.sha256(table.tobytes()).hexdigest()


def _read_csv(content: bytes) -> pd.DataFrame:
    try:
        return pd.read_csv(io.BytesIO(content), dtype=str, keep_default_na=False)
    except ValueError:
        raise DataError("the credit table is not a CSV file; give the file as published.") from None


def _read_spreadsheet(content: bytes) -> pd.DataFrame:
    # The first row of the published spreadsheet holds placeholders X1 … X23, the second the names.
    try:
        return pd.read_excel(io.BytesIO(content), header=1)
    except ImportError:
        remedy = "install xlrd, or save it as CSV and give that with --from"
        raise DataError(f"the credit data come as an .xls spreadsheet; {remedy}.") from None
    except Exception:  # Every spreadsheet engine has errors of its own.
        raise DataError("the credit spreadsheet cannot be read; give the file as published.") from None


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
    # Numpy would leave a broken archive open if it opened the file itself.
    with (Path(folder) / "utkface48.npz").open("rb") as file:
        return faces_in(file)


def faces_in(file: BinaryIO) -> Faces:
    """The images of an open npz file."""
    try:
        with np.load(file, allow_pickle=False) as stored:
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
        groups = len(FACE_GROUPS[column]) * groups + codes[column][rows]
    return GroupedData(X, faces.labels[rows], groups, group_names(protected))


def group_names(protected: Sequence[str]) -> tuple[str, ...]:
    """One value of each of these columns, as tables name their groups; the last changes fastest."""
    return tuple(" & ".join(values) for values in itertools.product(*(FACE_GROUPS[column] for column in protected)))


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


class TrueRates(NamedTuple):
    """Rates of a linear rule in each group of the population, each of shape (n_groups,).

    Parameters
    ----------
    selection
        Pr(ŷ = 1 | a).
    true_positive
        Pr(ŷ = 1 | a, y = 1).
    false_positive
        Pr(ŷ = 1 | a, y = 0).
    """

    selection: NDArray[np.float64]
    true_positive: NDArray[np.float64]
    false_positive: NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class SyntheticPopulation:
    r"""Groups that differ in their inputs only; the label depends on the inputs and on nothing else.

    .. math::
        a \sim \text{shares}, \qquad x \mid a \sim N(\mu_a, I_d), \qquad
        \Pr(y = 1 \mid x, a) = \Phi\big((\langle v, x \rangle - c) / s\big).

    Here :math:`v = e_1`, and :math:`\mu_a = \text{bias} \cdot t_a (e_1 + e_2) / \sqrt 2` with
    :math:`t_a` evenly spaced from 1/2 (first group) to −1/2 (last group): the first input carries the label
    and the group, the second the group only, the others neither.

    Parameters
    ----------
    n_groups, n_features
        K and d; at least two of either.
    bias
        Distance between the means of the first and the last group. With 0 the groups are alike.
    group_shares
        Pr(a), one for each group, summing to 1.
    threshold
        c: the larger, the rarer is the positive label.
    label_noise
        s: standard deviation of the noise in the label.
    """

    n_groups: int
    n_features: int
    bias: float
    group_shares: tuple[float, ...]
    threshold: float = 0.5
    label_noise: float = 0.5

    def __post_init__(self) -> None:
        positive_integer(n_groups=self.n_groups, n_features=self.n_features)
        finite_positive(label_noise=self.label_noise)
        for name in ("n_groups", "n_features"):
            if getattr(self, name) < 2:
                raise ParameterError(name, getattr(self, name), "must be at least 2")
        for name in ("bias", "threshold"):
            if not math.isfinite(getattr(self, name)):
                raise ParameterError(name, getattr(self, name), "must be finite")
        shares = self.group_shares
        if len(shares) != self.n_groups or min(shares) <= 0 or abs(sum(shares) - 1) > 1e-9:
            raise ParameterError("group_shares", shares, f"must be {self.n_groups} positive numbers with sum 1")

    @property
    def group_names(self) -> tuple[str, ...]:
        """``group 0``, ``group 1`` and so on."""
        return tuple(f"group {group}" for group in range(self.n_groups))

    @property
    def group_means(self) -> NDArray[np.float64]:
        r"""Mean of the inputs of each group, :math:`\mu_a`, shape (n_groups, n_features)."""
        means = np.zeros((self.n_groups, self.n_features))
        means[:, :2] = (self.bias * np.linspace(0.5, -0.5, self.n_groups) / math.sqrt(2))[:, None]
        return means

    def sample(self, n_samples: int, rng: np.random.Generator) -> GroupedData:
        """Independent records of the population."""
        groups = rng.choice(self.n_groups, size=n_samples, p=self.group_shares).astype(np.int64)
        x = rng.standard_normal((n_samples, self.n_features)) + self.group_means[groups]
        noise = self.label_noise * rng.standard_normal(n_samples)
        y = (x[:, 0] + noise > self.threshold).astype(np.int64)
        return GroupedData(x.astype(np.float32), y, groups, self.group_names)

    def positive_rate(self, group: int) -> float:
        r"""Share of positive labels in a group, :math:`\Phi((\mu_{a1} - c) / \sqrt{1 + s^2})`."""
        if not 0 <= group < self.n_groups:
            raise ParameterError("group", group, f"must be from 0 to {self.n_groups - 1}")
        return float(special.ndtr((self.group_means[group, 0] - self.threshold) / self._margin_std))

    def rates(self, w: NDArray[np.float64], b: float) -> TrueRates:
        r"""True rates of the rule :math:`\hat y = 1[\langle w, x \rangle + b \ge 0]`.

        Score and noisy label margin are bivariate normal in each group with correlation
        :math:`\rho = w_1 / (\|w\| \sqrt{1 + s^2})`.
        """
        w = np.asarray(w, dtype=np.float64)
        if w.shape != (self.n_features,):
            raise DataError(f"w must have shape ({self.n_features},), got {w.shape}.")
        norm = float(np.linalg.norm(w))
        if norm == 0:
            constant = np.full(self.n_groups, float(b >= 0))
            return TrueRates(selection=constant, true_positive=constant, false_positive=constant)
        score = (self.group_means @ w + b) / norm
        margin = (self.group_means[:, 0] - self.threshold) / self._margin_std
        correlation = float(w[0]) / (norm * self._margin_std)
        joint = np.array([both_below(h, k, correlation) for h, k in zip(score, margin, strict=True)])
        selected, positive = special.ndtr(score), special.ndtr(margin)
        return TrueRates(
            selection=selected,
            true_positive=joint / positive,
            false_positive=(selected - joint) / special.ndtr(-margin),
        )

    @property
    def _margin_std(self) -> float:
        return math.sqrt(1 + self.label_noise**2)


def synthetic_population(
    *,
    n_groups: int = 2,
    n_features: int = 10,
    bias: float = 1.0,
    group_shares: tuple[float, ...] | None = None,
    threshold: float = 0.5,
    label_noise: float = 0.5,
) -> SyntheticPopulation:
    """A population; by default the shares of K groups are in the proportion K : K − 1 : … : 1."""
    positive_integer(n_groups=n_groups)
    if group_shares is None:
        group_shares = tuple(2 * (n_groups - k) / (n_groups * (n_groups + 1)) for k in range(n_groups))
    return SyntheticPopulation(
        n_groups=n_groups,
        n_features=n_features,
        bias=bias,
        group_shares=group_shares,
        threshold=threshold,
        label_noise=label_noise,
    )


def both_below(h: float, k: float, correlation: float) -> float:
    r"""Pr(U ≤ h, V ≤ k) for standard normal U and V with this correlation.

    .. math::
        \Phi(h)\Phi(k) + \frac{1}{2\pi} \int_0^{\arcsin\rho}
        \exp\Big(-\frac{h^2 + k^2 - 2hk\sin t}{2\cos^2 t}\Big)\,dt.

    References
    ----------
    Plackett (1954), "A reduction formula for normal multivariate integrals", Biometrika 41.
    """

    def density(angle: float) -> float:
        exponent = (h * h + k * k - 2 * h * k * math.sin(angle)) / (2 * math.cos(angle) ** 2)
        return math.exp(-exponent) / (2 * math.pi)

    integral, _ = integrate.quad(density, 0, math.asin(correlation), epsabs=1e-13, epsrel=1e-12)
    return float(special.ndtr(h) * special.ndtr(k) + integral)
