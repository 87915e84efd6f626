"""Everything that a page shows of one saved model: read from its folder, which holds only released values.

Beside the model there may be the owner's card, an audit, the figures of Local Law 144, and, in a file of its own, an
appendix with exact figures.
"""

import datetime
import itertools
import math
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairdp._io import content_of, parsed_json, plain_yaml
from fairdp.accounting.mechanisms import (
    LaplaceRelease,
    Mechanism,
    Reading,
    SampledGaussian,
    grid_width,
    privacy_loss,
    reading_epsilon,
    reading_loss,
)
from fairdp.accounting.selection import Selection
from fairdp.accounting.spent import PrivacySpent
from fairdp.certify.certificate import Certificate, FreshRecords, NotCertified
from fairdp.certify.rates import (
    JOINED,
    Rate,
    above_median,
    calibration_of,
    cost_of_scores,
    estimated_metrics,
    group_table,
    over_largest,
    selection_rates,
)
from fairdp.data.columns import shown
from fairdp.data.schema import TableSchema
from fairdp.errors import InputError, ParameterError, SavedModelError, finite_positive
from fairdp.frontier.curve import FrontierPoint, chosen_point, frontier_points
from fairdp.frontier.verdict import Verdict, judged
from fairdp.methods import METHODS, Method
from fairdp.run.fit import Fitted
from fairdp.saved.folder import FILES, SUMS, paid_counts, read_model, sha256
from fairdp.saved.verify import verify_folder
from fairdp.saved.verify_checks import Check
from fairdp.statements.certificate import FOUR_FIFTHS
from fairdp.statements.privacy import risk_in_a_sentence

Floats = NDArray[np.float64]

# False-positive rates at which the best true-positive rate is stated.
FALSE_POSITIVE_RATES = (0.001, 0.01, 0.1)

# False-positive rates at which a curve is drawn: close together where it is steep.
_DRAWN = np.unique(np.concatenate([np.geomspace(1e-4, 0.02, 20), np.linspace(0.02, 1, 99)]))

# Points of the curve of (ε, δ) that are used, and the δ where it ends; leaving any out only loosens the bound.
_N_POINTS = 1500
_LAST_DELTA = 1e-10

# Room for rounding in sums of the privacy loss, added to every δ.
_ROUNDING = 1e-9

# Of the grid of privacy losses without steps.
_WIDTH = 1e-4
TO_FILL_IN = "To be filled in by the owner."

# The fields of the owner's card: their names on the page, and the questions that they answer.
FIELDS: Mapping[str, tuple[str, str]] = {
    "owner": ("Owner", "Who answers for the model: organisation and role."),
    "contact": ("Contact", "Where questions and complaints go."),
    "purpose": ("Intended use", "What the decisions are used for, and by whom."),
    "decision": ("What a decision means", "What a positive and a negative decision mean for the person."),
    "appeal": ("Objections", "How a person can object, and who decides again."),
    "out_of_scope": ("Uses that are out of scope", "What the model must not be used for."),
    "limits": ("Limits seen in practice", "Where it failed, or may fail."),
    "review_date": ("Date of review", "When somebody last looked at all of this, as 2026-01-31."),
    "data_origin": ("Origin of the records", "Source, period and licence of the records."),
    "data_selection": ("Selection of the records", "How the records were selected, and whom they leave out."),
    "records_per_person": ("Records of one person", "How many records one person can have; the guarantee is for one."),
    "legal_basis": ("Legal basis", "On what basis protected attributes are processed, and why that is necessary."),
    "access": ("Access to the records", "Who can see the records, and how that is controlled."),
    "retention": ("Deletion of the records", "When records and protected attributes are deleted."),
}

# What the owner said, by field; a field that is not there was not filled in.
OwnersCard = Mapping[str, str]
NO_CARD: OwnersCard = {}
MARK = "NOT TO BE PUBLISHED"
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


@dataclass(frozen=True, eq=False)
class PrivacyCurve:
    """Pairs (ε, δ), from ε = 0 on, that all hold of one mechanism, for a record that is added and for one removed."""

    epsilons: Floats
    deltas: Floats

    @property
    def advantage(self) -> float:
        """Bound on the true-positive rate minus the false-positive rate of any attack: δ at ε = 0."""
        return float(self.deltas[0])

    def true_positive_rates(self, false_positive_rates: Floats) -> Floats:
        r"""Bound on the true-positive rate of any attack at each false-positive rate, :math:`1 - f(\alpha)`.

        .. math::
            f(\alpha) = \sup_{\varepsilon} \max\{0,\; 1 - \delta(\varepsilon) - e^{\varepsilon} \alpha,\;
            e^{-\varepsilon} (1 - \delta(\varepsilon) - \alpha)\}.

        References
        ----------
        Dong, Roth, Su (2022), Gaussian differential privacy, Proposition 2.5; Wasserman, Zhou (2010).
        """
        rates = np.asarray(false_positive_rates, dtype=np.float64)[:, None]
        kept = 1 - self.deltas
        misses = np.maximum(kept - np.exp(self.epsilons) * rates, np.exp(-self.epsilons) * (kept - rates))
        found: Floats = 1 - np.clip(misses.max(axis=1), 0, 1)
        return found


@dataclass(frozen=True, kw_only=True)
class Exposure:
    """Bounds, never estimates, on what the best attack on one kind of record can reach.

    Parameters
    ----------
    who
        The records it is about.
    epsilon
        What such a record spent.
    true_positive_rates
        Bounds at ``FALSE_POSITIVE_RATES``.
    drawn
        Points of the bound, false-positive rate and true-positive rate, for a picture.
    """

    who: str
    epsilon: float
    advantage: float
    true_positive_rates: tuple[float, ...]
    drawn: tuple[tuple[float, float], ...]


@dataclass(frozen=True, kw_only=True)
class ModelReport:
    """A saved model as its report shows it."""

    name: str
    about: Fitted
    schema: TableSchema | None
    n_parameters: int
    privacy: PrivacySpent
    certificate: Certificate | NotCertified
    checks: tuple[Check, ...]
    files: dict[str, str]
    exposures: tuple[Exposure, ...]
    groups: dict[str, Any] | None
    estimates: Mapping[str, Any]
    verdict: Verdict
    frontier: tuple[FrontierPoint, ...] = ()
    chosen: FrontierPoint | None = None

    @property
    def inferred(self) -> bool:
        """True if anything about the columns was read from the rows and is not paid for."""
        return self.schema is not None and not self.schema.declared and self.privacy.reading is None

    @property
    def verified(self) -> bool:
        """True if everything that `fairdp verify` checks agrees."""
        return all(check.passed for check in self.checks)

    @property
    def command_name(self) -> str:
        """The folder's name as a shell reads it."""
        return shlex.quote(f"{self.name}/")

    @property
    def risk(self) -> str:
        """The bound at the smallest false-positive rate, of the part where it is weakest; empty without bounds."""
        weakest = max((exposure.true_positive_rates[0] for exposure in self.exposures), default=None)
        return "" if weakest is None else risk_in_a_sentence(weakest, FALSE_POSITIVE_RATES[0])

    @property
    def method_name(self) -> str:
        """The method by its registered name."""
        return self.about.parameters.method

    @property
    def method(self) -> Method:
        """The method with its guarantee and its paper."""
        return METHODS[self.method_name]

    @property
    def label(self) -> str | None:
        """The column that is predicted, if it has a name."""
        return None if self.schema is None else self.schema.label

    @property
    def four_fifths(self) -> float:
        """Four fifths of the highest estimated rate; NaN without one."""
        rows = () if self.groups is None else self.groups["rows"]
        known = [row.selection_rate.estimate for row in rows if not math.isnan(row.selection_rate.estimate)]
        return FOUR_FIFTHS * max(known, default=math.nan)


def read_model_report(folder: Path) -> ModelReport:
    """The report on the saved model in a folder. Its hashes must match; its claims are checked and may fail."""
    saved = read_model(folder)
    checks = tuple(verify_folder(folder))
    try:
        return _report(folder, saved, checks)
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, ArithmeticError) as error:
        kind = type(error).__name__
        raise SavedModelError(
            f"saved model {str(folder)!r} is damaged: a record cannot be read ({kind}: {error})."
        ) from None


def _report(folder: Path, saved: Fitted, checks: tuple[Check, ...]) -> ModelReport:
    certified = saved.certificate if isinstance(saved.certificate, Certificate) else None
    schema, frontier, target = saved.feature_schema, saved.frontier, saved.target
    return ModelReport(
        name=folder.resolve().name,
        about=saved,
        schema=None if schema is None else TableSchema.from_dict(schema),
        n_parameters=saved.tensors["params"].numel(),
        privacy=saved.privacy,
        certificate=saved.certificate,
        checks=checks,
        files={name: sha256((folder / name).read_bytes()) for name in (*FILES, SUMS)},
        exposures=tuple(exposures_of(saved.privacy, saved.certificate)),
        groups=None if certified is None else group_figures(certified),
        estimates={} if certified is None else estimated_metrics(certified),
        verdict=judged(paid_counts(saved)),
        frontier=() if frontier is None else tuple(frontier_points(frontier)),
        chosen=None if frontier is None or target is None else chosen_point(frontier, target),
    )


def group_figures(certificate: Certificate) -> dict[str, Any]:
    """The rates of a certificate's groups, their calibration where scores were counted, and the price of counting them.

    Rates hold together with its confidence, and so do those of scores. ``cost`` is by how much each certified bound is
    expected to be wider for the scores, ``epsilon`` what a record spent on them at the most.
    """
    rows, scores = group_table(certificate), certificate.scores
    if scores is None:
        return {"rows": rows, "calibration": {}, "cost": {}, "epsilon": 0.0}
    bins = calibration_of(scores, failure_probability=certificate.registration.failure_probability)
    return {
        "rows": rows,
        "calibration": dict(zip(certificate.group_names, bins, strict=True)),
        "cost": {metric: value for metric, value in cost_of_scores(certificate).items() if not math.isnan(value)},
        "epsilon": max(scores.epsilons),
    }


def exposures_of(privacy: PrivacySpent, certificate: Certificate | NotCertified) -> list[Exposure]:
    """Records trained on, held out for the certificate, or counted for a later one; each record is one of these."""
    chosen = privacy.selection
    if chosen is not None:
        # Held out or trained on: the choice between the trials is accounted for both at once.
        found = [_exposure("in any trial", privacy.epsilon, [selected_curve(chosen, name) for name in chosen.by_group])]
    else:
        curves = [curve_of(mechanism) for mechanism in dict.fromkeys(privacy.mechanisms.values())]
        trained = [curve for curve in curves if curve is not None]
        if len(trained) < len(curves):
            return []
        found = [_exposure("trained on", privacy.epsilon, trained)]
        if privacy.certify_epsilons:
            spent = max(privacy.certify_epsilons.values())
            both = spent + reading_epsilon(privacy.reading, privacy.delta)
            found.append(_exposure("held out", both, [pure_curve(spent, privacy.reading)]))
    about = certificate.about if isinstance(certificate, Certificate) else None
    if isinstance(certificate, Certificate) and about is not None and isinstance(about.records, FreshRecords):
        spent = certificate.epsilon + about.records.sizes_epsilon
        found.append(_exposure("of the later certificate", spent, [pure_curve(spent)]))
    return found


def _exposure(who: str, epsilon: float, curves: list[PrivacyCurve]) -> Exposure:
    stated, drawn = (worst_of(curves, np.array(rates)) for rates in (FALSE_POSITIVE_RATES, _DRAWN))
    return Exposure(
        who=who,
        epsilon=epsilon,
        advantage=max(curve.advantage for curve in curves),
        true_positive_rates=tuple(stated.tolist()),
        drawn=((0.0, float(worst_of(curves, np.zeros(1))[0])), *zip(_DRAWN.tolist(), drawn.tolist(), strict=True)),
    )


def worst_of(curves: Iterable[PrivacyCurve], false_positive_rates: Floats) -> Floats:
    """The largest bound over several mechanisms, at each false-positive rate."""
    largest: Floats = np.max([curve.true_positive_rates(false_positive_rates) for curve in curves], axis=0)
    return largest


def curve_of(mechanism: Mechanism) -> PrivacyCurve | None:
    """The curve of a recorded mechanism; None without noise, when nothing is protected."""
    if mechanism.noise_multiplier == 0:
        return None
    if isinstance(mechanism, LaplaceRelease):
        return pure_curve(1 / mechanism.noise_multiplier + mechanism.counts_epsilon, mechanism.reading)
    return _sampled_gaussian_curve(mechanism)


def pure_curve(epsilon: float, reading: Reading | None = None) -> PrivacyCurve:
    """The curve of everything that is ε-differentially private with δ = 0: randomised response is the worst.

    The columns of the table may have been read before it.
    """
    finite_positive(epsilon=epsilon)
    if reading is not None:
        return _curve_of_loss(reading_loss(reading, _WIDTH).compose(_pure_loss(epsilon, _WIDTH)))
    return PrivacyCurve(np.array([0.0, epsilon]), np.array([math.tanh(epsilon / 2), 0.0]))


def selected_curve(selection: Selection, group: str) -> PrivacyCurve:
    """The curve of a choice between trials, for a record of a group, from its Rényi divergences."""
    least = _LAST_DELTA if selection.reading is None else 2 * selection.reading.delta
    deltas = np.logspace(-2, math.log10(least), 60)
    epsilons = np.array([selection.epsilon(group, float(delta)) for delta in deltas])
    # From any pair to ε = 0 (Kairouz, Oh, Viswanath, 2015, Remark A.1).
    advantages = (np.expm1(epsilons) + 2 * deltas) / (np.exp(epsilons) + 1)
    return PrivacyCurve(np.append(0.0, epsilons), np.append(advantages.min(), deltas))


@lru_cache(maxsize=64)
def _sampled_gaussian_curve(mechanism: SampledGaussian) -> PrivacyCurve:
    """PLD as in accounting, which adds the pure ε of noisy counts; here they enter as the worst mechanism of that ε."""
    loss = privacy_loss(mechanism)
    if mechanism.counts_epsilon:
        loss = loss.compose(_pure_loss(mechanism.counts_epsilon, grid_width(mechanism.noise_multiplier)))
    return _curve_of_loss(loss)


def _pure_loss(epsilon: float, width: float) -> Any:
    # Imported on use: the package takes a second to load.
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    return pld.from_privacy_parameters(common.DifferentialPrivacyParameters(epsilon, 0.0), width)


def _curve_of_loss(loss: Any) -> PrivacyCurve:
    # A mass at infinity, as of what passes a threshold, no ε gets below.
    last = float(loss.get_epsilon_for_delta(_LAST_DELTA + loss.get_delta_for_epsilon(math.inf)))
    epsilons = np.linspace(0.0, last if math.isfinite(last) else 1.0, _N_POINTS)
    deltas = np.asarray(loss.get_delta_for_epsilon(epsilons), dtype=np.float64)
    return PrivacyCurve(epsilons, np.clip(deltas + _ROUNDING, 0, 1))


def card_template() -> str:
    """An empty card in YAML, with a question for every field."""
    lines = ["# The owner's part of a report: fairdp report model/ --card owner.yaml", "# It is printed as it stands."]
    for key, (_, question) in FIELDS.items():
        lines += ["", f"# {question}", f'{key}: ""']
    return "\n".join(lines) + "\n"


def read_card(path: Path) -> OwnersCard:
    """The card in a YAML or JSON file; one clear line if it cannot be used."""
    where = f"card {str(path)!r}"
    try:
        content = plain_yaml(content_of(path))
    except OSError as error:
        raise InputError(f"{where} cannot be read: {error.strerror}.") from None
    except InputError as error:
        raise InputError(f"{where} {error.template}.") from None
    if not isinstance(content, Mapping):
        raise InputError(f"{where} must name fields and texts; `card_template` writes an empty one.")
    for key in content:
        if key not in FIELDS:
            raise InputError(f"{where} has the unknown field {shown(key)}; it may have {', '.join(FIELDS)}.")
    texts = {key: _text(where, key, value) for key, value in content.items() if value is not None}
    return {key: text for key, text in texts.items() if text}


def _text(where: str, key: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float | datetime.date):
        raise InputError(f"{where}: {key} must be one text, got {shown(value)}; put it in quotes.")
    return " ".join(str(value).split())


def read_audit(path: Path, method: str) -> dict[str, Any]:
    """The file of an audit, as far as it is about a method.

    ``lines`` are the attacks on single releases and on the method, with the stated ε, rounded up, and the ε that the
    attack shows, rounded down; none where they were left out. ``releases`` is None where the replay was left out.
    """
    try:
        record = parsed_json(content_of(path))
        if method in record["methods"]:
            return _section(record, record["methods"][method], method)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(
            f"{str(path)!r} holds no results of an audit; make them with: fairdp audit --out FILE."
        ) from None
    raise InputError(
        f"the audit in {str(path)!r} is not about {method!r}; run: fairdp audit --method {method} --out FILE."
    )


def _section(record: Mapping[str, Any], found: Mapping[str, Any], method: str) -> dict[str, Any]:
    attack, replay = found.get("attack"), found.get("replay")
    lines = []
    for test in [] if attack is None else [*record["releases"], attack["tests"][0], attack["one_run"]]:
        epsilon, delta, shown = (float(test[name]) for name in ("epsilon", "delta", "epsilon_lower"))
        stated = f"{math.ceil(1e3 * epsilon) / 1e3:.3f}, {f'δ = {delta:g}' if delta else 'pure'}"
        lines.append((str(test["test"]), stated, f"{math.floor(1e3 * shown) / 1e3:.3f}"))
    wrong = [] if replay is None else replay["violations"]
    return {
        "method": method,
        "private": bool(found["private"]),
        "passed": record["passed"] is True,
        "lines": lines,
        "releases": None if replay is None else int(replay["releases"]),
        "violations": [f"{entry['neighbour']}, {entry['release']}: {entry['found']}" for entry in wrong],
    }


def read_appendix(path: Path, report: ModelReport) -> dict[str, Any]:
    """The evaluation in a JSON file; it must be of the report's method, with the report's groups.

    ``figures`` are the metrics with their values and, where there are some, their intervals, as texts.
    """
    try:
        record = parsed_json(content_of(path))
        method, metrics = str(record["method"]), record["metrics"]
        found = {
            "n_test": int(record["n_test"]),
            "confidence": float(record["confidence"]),
            "figures": _figures(metrics, record["intervals"]),
            "warnings": [*map(str, record["warnings"])],
        }
        groups = set(metrics["positive_rate_by_group"])
    except (ArithmeticError, ValueError, LookupError, TypeError, AttributeError):
        raise InputError(
            f"{str(path)!r} holds no evaluation; make it with: fairdp evaluate MODEL TABLE --json > FILE."
        ) from None
    if method != report.method_name or groups != set(report.about.groups):
        raise InputError(
            f"the evaluation in {str(path)!r} is of another model: its method is {method!r}, its groups are "
            f"{', '.join(sorted(groups))}; evaluate this one."
        )
    return found


def _figures(metrics: Mapping[str, Any], intervals: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    found = []
    for name, value in metrics.items():
        words = name.replace("_", " ")
        if isinstance(value, Mapping):
            found += [(f"{words}: {group}", _number(own), "") for group, own in value.items()]
            continue
        ends = intervals.get(name)
        found.append((words, _number(value), "" if ends is None else f"{_number(ends[0])} to {_number(ends[1])}"))
    return found


def _number(value: Any) -> str:
    return "–" if value is None or math.isnan(value) else f"{value:.4f}"


@dataclass(frozen=True, kw_only=True)
class Profile:
    """The figures that the rules ask for, as far as the model's groups allow.

    ``columns`` are the protected columns by role, ``lacking`` the roles that no column has, ``unknown_values`` the
    values that were read as unknown because of their names.
    """

    columns: Mapping[str, str]
    lacking: tuple[str, ...]
    unknown_values: tuple[str, ...]
    tables: tuple[dict[str, Any], ...]
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
    # Each role by itself, and both together.
    titled = [(role,) for role in columns] + ([tuple(columns)] if len(columns) > 1 else [])
    parts = {roles: _parts(schema, [columns[role] for role in roles]) for roles in titled}
    known = {(roles, own): groups for roles, found in parts.items() for own, groups in found.items()}
    rated = {key: groups for key, groups in known.items() if not _unknown(key[1])}
    rates = dict(zip(rated, selection_rates(certificate, list(rated.values())), strict=True))
    score_rates: dict[Key, Rate] = {}
    median = None
    if certificate.scores is not None:
        failure = certificate.registration.failure_probability
        median, shares = above_median(certificate.scores, parts=list(rated.values()), failure_probability=failure)
        score_rates = dict(zip(rated, shares, strict=True))
    n = sum(sum(map(sum, group)) for group in certificate.counts)
    tables = tuple(_table(roles, found, rates, score_rates, certificate, n) for roles, found in parts.items())
    values = dict.fromkeys(value for _, own in known for value in own if _unknown((value,)))
    return Profile(
        columns={_ROLES[role]: name for role, name in columns.items()},
        lacking=tuple(words for role, words in _ROLES.items() if role not in columns),
        unknown_values=tuple(values),
        tables=tables,
        n=n,
        confidence=certificate.confidence,
        median=median,
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


def _parts(schema: TableSchema, columns: Sequence[str]) -> dict[Values, tuple[int, ...]]:
    """Which groups make up each combination of values of these columns, by their places."""
    places = [schema.sensitive.index(name) for name in columns]
    found: dict[Values, tuple[int, ...]] = {}
    for group, values in enumerate(itertools.product(*schema.groups)):
        own = tuple(values[place] for place in places)
        found[own] = (*found.get(own, ()), group)
    return found


def _table(
    roles: tuple[str, ...],
    parts: Mapping[Values, tuple[int, ...]],
    rates: Mapping[Key, Rate],
    score_rates: Mapping[Key, Rate],
    certificate: Certificate,
    n: int,
) -> dict[str, Any]:
    """The categories of one attribute, or of both together: noisy number and share of all, and rates.

    A ratio is None where the category is below 2 % of the data and left out of the comparison; the rate and ratio of
    scores are None where no scores were counted. ``unknown`` is the noisy number of people in no category; None where
    no value is called so.
    """
    sizes = {own: sum(sum(map(sum, certificate.counts[group])) for group in groups) for own, groups in parts.items()}
    known = [own for own in parts if not _unknown(own)]
    compared = [own for own in known if sizes[own] >= SMALL * n]
    ratios, score_ratios = (
        over_largest({JOINED.join(own): known_rates[roles, own] for own in compared if (roles, own) in known_rates})
        for known_rates in (rates, score_rates)
    )
    categories = [
        {
            "name": (name := JOINED.join(own)),
            "n": sizes[own],
            "share": sizes[own] / n if n > 0 else 0.0,
            "rate": rates[roles, own],
            "ratio": ratios.get(name),
            "score_rate": score_rates.get((roles, own)),
            "score_ratio": score_ratios.get(name),
        }
        for own in known
    ]
    unknown = [size for own, size in sizes.items() if _unknown(own)]
    title = " and ".join(_ROLES[role] for role in roles).capitalize()
    return {"title": title, "categories": categories, "unknown": sum(unknown) if unknown else None}
