"""Rates and impact ratios as New York City's rules on automated hiring ask for them, from released counts alone."""

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairdp._checks import ParameterError
from fairdp.certify.calibration import above_median
from fairdp.certify.certificate import Certificate
from fairdp.certify.rates import Rate
from fairdp.certify.tables import JOINED, over_largest, selection_rates
from fairdp.data.schema import TableSchema
from fairdp.report.model import ModelReport

NAME = "ll144"
SOURCE = (
    "Local Law 144 of 2021 of New York City (Administrative Code § 20-870 ff.) and the rules of its Department of "
    "Consumer and Worker Protection (6 RCNY § 5-300 to § 5-304), final rule adopted in April 2023, in force since "
    "6 May 2023, as known to this version of the program"
)
# Below this share of the data an auditor may leave a category out of the ratios (§ 5-301); it is listed all the same.
SMALL = 0.02

_ROLES = {"sex": "Sex", "race": "Race or ethnicity"}
# Names of columns that say what they are; any other has to be named.
_SAID = {
    "sex": {"sex", "gender"},
    "race": {"race", "ethnicity", "race ethnicity", "race or ethnicity", "ethnicity race", "ethnic group"},
}
_UNKNOWN = {"unknown", "missing", "not stated", "not specified", "not disclosed", "undisclosed", "prefer not to say"}

Values = tuple[str, ...]
# A category: the roles of its table, and its value of each; a sex and a race may both be called "other".
Key = tuple[tuple[str, ...], Values]


@dataclass(frozen=True, kw_only=True)
class Category:
    """One category: its noisy number and share of all, and its rates.

    A ratio is None where the category is below 2 % of the data and left out of the comparison; the rate and ratio of
    scores are None where no scores were counted.
    """

    name: str
    n: int
    share: float
    rate: Rate
    ratio: Rate | None
    score_rate: Rate | None
    score_ratio: Rate | None


@dataclass(frozen=True, kw_only=True)
class CategoryTable:
    """The categories of one attribute or of both together.

    ``unknown`` is the noisy number of people in none of them; None where no value is called so.
    """

    title: str
    categories: tuple[Category, ...]
    unknown: int | None


@dataclass(frozen=True, kw_only=True)
class Profile:
    """The figures that the rules ask for, as far as the model's groups allow.

    ``columns`` are the protected columns by role, ``lacking`` the roles that no column has, ``unknown_values`` the
    values that were read as unknown because of their names.
    """

    columns: Mapping[str, str]
    lacking: tuple[str, ...]
    unknown_values: tuple[str, ...]
    tables: tuple[CategoryTable, ...]
    n: int
    confidence: float
    median: float | None
    short: str = "Local Law 144"
    source: str = SOURCE


def ll144(report: ModelReport, asked: str) -> Profile:
    """The profile of a model; ``asked`` is ``ll144``, or names the columns: ``ll144:sex=COLUMN,race=COLUMN``."""
    certificate, schema = report.certificate, report.schema
    if not isinstance(certificate, Certificate):
        raise ParameterError("profile", asked, "needs a certificate, whose counts it shows", "run fairdp certify")
    if schema is None or schema.group_names != certificate.group_names:
        raise ParameterError("profile", asked, "needs a schema that names the protected columns", "fit a table")
    columns = _columns(asked, schema)
    parts = {roles: _parts(schema, [columns[role] for role in roles]) for roles in _tables(columns)}
    known = {(roles, own): groups for roles, found in parts.items() for own, groups in found.items()}
    rated = _rated(certificate, {key: groups for key, groups in known.items() if not _unknown(key[1])})
    n = sum(sum(map(sum, group)) for group in certificate.counts)
    tables = tuple(_table(roles, found, rated, certificate, n) for roles, found in parts.items())
    values = dict.fromkeys(value for _, own in known for value in own if _unknown((value,)))
    return Profile(
        columns={_ROLES[role]: name for role, name in columns.items()},
        lacking=tuple(words for role, words in _ROLES.items() if role not in columns),
        unknown_values=tuple(values),
        tables=tables,
        n=n,
        confidence=certificate.confidence,
        median=rated.median,
    )


def _columns(asked: str, schema: TableSchema) -> dict[str, str]:
    """The protected column of each role: as it was named, or by its own name; never by a guess."""
    name, _, given = asked.partition(":")
    if name != NAME:
        raise ParameterError("profile", asked, f"must be {NAME}, or {NAME}:sex=COLUMN,race=COLUMN")
    known = ", ".join(map(repr, schema.sensitive))
    if given:
        columns = dict(part.partition("=")[::2] for part in given.split(","))
        if not columns.keys() <= _ROLES.keys() or not set(columns.values()) <= set(schema.sensitive):
            raise ParameterError("profile", asked, f"must name sex or race with protected columns, which are {known}")
        return {role: columns[role] for role in _ROLES if role in columns}
    found = {role: [own for own in schema.sensitive if _words(own) in names] for role, names in _SAID.items()}
    if not any(found.values()) or any(len(own) > 1 for own in found.values()):
        remedy = f"say which is which: {NAME}:sex=COLUMN,race=COLUMN"
        raise ParameterError("profile", asked, f"cannot tell sex and race by the names of {known}", remedy)
    return {role: own[0] for role, own in found.items() if own}


def _words(name: str) -> str:
    return re.sub(r"[\W_]+", " ", name.lower()).strip()


def _unknown(values: Values) -> bool:
    return any(_words(value) in _UNKNOWN for value in values)


def _tables(columns: Mapping[str, str]) -> list[tuple[str, ...]]:
    """Each role by itself, and both together."""
    return [(role,) for role in columns] + ([tuple(columns)] if len(columns) > 1 else [])


def _parts(schema: TableSchema, columns: Sequence[str]) -> dict[Values, tuple[int, ...]]:
    """Which groups make up each combination of values of these columns, by their places."""
    places = [schema.sensitive.index(name) for name in columns]
    found: dict[Values, tuple[int, ...]] = {}
    for group, values in enumerate(itertools.product(*schema.groups)):
        own = tuple(values[place] for place in places)
        found[own] = (*found.get(own, ()), group)
    return found


@dataclass(frozen=True, kw_only=True)
class _Rated:
    """Rates of decisions and of scores of all categories, whose intervals hold together."""

    rates: Mapping[Key, Rate]
    score_rates: Mapping[Key, Rate]
    median: float | None


def _rated(certificate: Certificate, parts: Mapping[Key, tuple[int, ...]]) -> _Rated:
    rates = dict(zip(parts, selection_rates(certificate, list(parts.values())), strict=True))
    if certificate.scores is None:
        return _Rated(rates=rates, score_rates={}, median=None)
    failure = certificate.registration.failure_probability
    seen = above_median(certificate.scores, parts=list(parts.values()), failure_probability=failure)
    return _Rated(rates=rates, score_rates=dict(zip(parts, seen.shares, strict=True)), median=seen.median)


def _table(
    roles: tuple[str, ...], parts: Mapping[Values, tuple[int, ...]], rated: _Rated, certificate: Certificate, n: int
) -> CategoryTable:
    sizes = {own: sum(sum(map(sum, certificate.counts[group])) for group in groups) for own, groups in parts.items()}
    known = [own for own in parts if not _unknown(own)]
    compared = [own for own in known if sizes[own] >= SMALL * n]
    ratios, score_ratios = (
        over_largest({JOINED.join(own): rates[roles, own] for own in compared if (roles, own) in rates})
        for rates in (rated.rates, rated.score_rates)
    )
    categories = tuple(
        Category(
            name=(name := JOINED.join(own)),
            n=sizes[own],
            share=sizes[own] / n if n > 0 else 0.0,
            rate=rated.rates[roles, own],
            ratio=ratios.get(name),
            score_rate=rated.score_rates.get((roles, own)),
            score_ratio=score_ratios.get(name),
        )
        for own in known
    )
    unknown = [size for own, size in sizes.items() if _unknown(own)]
    title = " and ".join(_ROLES[role] for role in roles).capitalize()
    return CategoryTable(title=title, categories=categories, unknown=sum(unknown) if unknown else None)
