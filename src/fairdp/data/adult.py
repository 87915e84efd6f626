"""Adult (census income): the paper's 41 features, all usable columns as 105 features, and the two files."""

from pathlib import Path

import pandas as pd

from fairdp.data.columns import Binned, Categorical, Column, Numeric, OtherThan
from fairdp.data.schema import TableSchema

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
