"""The model card and the data card: what the folder says, and what only the owner can say."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairdp.config.parameters import DEFAULT_MAX_GAP
from fairdp.data.columns import Binned, Categorical, Column, Numeric
from fairdp.data.entries import COLUMN_TYPES
from fairdp.data.schema import TableSchema
from fairdp.report.answers import positive_decision, spent_in_all
from fairdp.report.model import ModelReport
from fairdp.report.owner import FIELDS, TO_FILL_IN, OwnersCard
from fairdp.report.words import known_sizes

_KINDS = {"logistic": "logistic regression", "mlp": "multilayer perceptron", "cnn": "convolutional network"}


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of a card; ``missing`` if the owner has to fill it in."""

    name: str
    text: str
    missing: bool = False


@dataclass(frozen=True, kw_only=True)
class Feature:
    """One input column, as declared or as read from the table."""

    name: str
    type: str
    values: str


# Which of the owner's fields are about the model; the others are about the records.
_ABOUT_MODEL = ("owner", "contact", "purpose", "decision", "appeal", "out_of_scope", "limits", "review_date")


def model_card(report: ModelReport, card: OwnersCard) -> list[Entry]:
    """What was trained and by what method, with the owner's fields about its use."""
    made = report.about.made
    return [
        Entry(name="A positive decision", text=positive_decision(report).removeprefix("A positive decision is: ")),
        Entry(name="Made on", text=f"{made.date} (UTC)"),
        Entry(name="Software", text=made.versions),
        Entry(name="Method", text=report.method_name),
        Entry(name="Guarantee of the method", text=report.method.guarantee),
        Entry(name="Source of the method", text=report.method.paper if report.method.paper != "—" else "none"),
        Entry(name="Network", text=_network(report)),
        Entry(name="How it decides", text=_decision(report)),
        Entry(name="Target in training", text=_target(report.about.parameters, takes=report.method.takes_target)),
        *(_owner(key, card) for key in _ABOUT_MODEL),
    ]


def data_card(report: ModelReport, card: OwnersCard) -> list[Entry]:
    """What the records are, as far as the folder knows, and the owner's fields about the rest."""
    schema, sizes = report.schema, report.privacy.planned_sizes
    planned = ", ".join(f"{name} {size:,.0f}" for name, size in sizes.items())
    negative, positive = (str(name) for name in report.about.classes)
    label = f"{schema.label}: " if schema is not None else ""
    if schema is not None:
        negative, positive = schema.negative, schema.positive
    return [
        Entry(name="Label", text=f"{label}{positive} (positive) or {negative} (negative)"),
        Entry(name="Protected attribute", text=_protected(schema)),
        Entry(name="Groups", text=", ".join(report.about.groups)),
        Entry(name="Training records, as planned", text=f"{planned} ({known_sizes(report)})"),
        Entry(name="Inputs", text=_inputs(report)),
        Entry(name="Spent on the table in all", text=spent_in_all(report)),
        Entry(name="Tie to the records", text=_tie(report)),
        *(_owner(key, card) for key in FIELDS if key not in _ABOUT_MODEL),
    ]


def features(schema: TableSchema | None) -> list[Feature]:
    """The input columns of a table."""
    types = {kind: name for name, kind in COLUMN_TYPES.items()}
    columns = () if schema is None else schema.columns
    return [Feature(name=column.name, type=types[type(column)], values=_values(column)) for column in columns]


def _owner(key: str, card: OwnersCard) -> Entry:
    said = card.get(key)
    return Entry(name=FIELDS[key].name, text=said or TO_FILL_IN, missing=said is None)


def _tie(report: ModelReport) -> str:
    """What commits the owner to the records, without a hash by which a guessed record could be recognised."""
    none = "no hash of the records is published, because a guessed record could be recognised by it"
    note = report.privacy.ledger
    if note is None:
        return f"None: {none}, and no ledger was kept."
    return f"Entry {note.entry} of the owner's ledger, with the random token {note.token}; {none}."


def _network(report: ModelReport) -> str:
    config, heads = report.about.model, report.about.heads[0]
    kind = _KINDS.get(config.kind, "the user's own module")
    layers = f" with hidden layers of {', '.join(map(str, config.hidden))}" if config.kind == "mlp" else ""
    many = f", {heads} heads" if heads > 1 else ""
    return f"{kind}{layers}{many}; {report.n_parameters:,} trained parameters"


def _decision(report: ModelReport) -> str:
    rule = report.about.predictor
    words = {
        "deterministic": "positive where the score is at least zero",
        "gibbs": "by one of the heads, drawn for each person",
        "smoothed": "positive with a probability that grows with the score",
    }[rule.kind]
    by_group = "; then changed by group" if rule.flips is not None else ""
    constant = f"; a share of {rule.dilution:.4f} is constant" if rule.dilution else ""
    return f"{words}{by_group}{constant}"


def _target(parameters: Mapping[str, Any], *, takes: bool) -> str:
    if not takes:
        return "none: the method takes no target"
    given = {
        name: parameters[name] for name in ("max_gap", "min_ratio", "positive_rate") if parameters[name] is not None
    }
    if not given.keys() & {"max_gap", "min_ratio"}:
        given = {"max_gap": DEFAULT_MAX_GAP, **given}
    stated = ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in given.items())
    return f"{parameters['parity'].replace('_', ' ')}, {stated}; aimed at, not guaranteed"


def _protected(schema: TableSchema | None) -> str:
    if schema is None:
        return "given as an array; its name is not recorded"
    return ", ".join(schema.sensitive)


def _inputs(report: ModelReport) -> str:
    if report.schema is None:
        names = report.about.feature_names
        shape = " × ".join(map(str, report.about.shape))
        return f"arrays of shape {shape}" + (f": {', '.join(names)}" if names else "")
    how = "declared in a schema" if report.schema.declared else "read from the table with noise, which ε includes"
    if report.inferred:
        how = "read from the table and treated as public"
    return f"{len(report.schema.columns)} columns, {how}; {report.about.shape[0]} features after encoding"


def _values(column: Column) -> str:
    if isinstance(column, Numeric):
        logarithm = ", on a logarithmic scale" if column.transform == "signed_log" else ""
        return f"{column.low} to {column.high}{logarithm}"
    if isinstance(column, Categorical):
        other = f"; others count as {column.other}" if column.other else ""
        return ", ".join(column.categories) + other
    if isinstance(column, Binned):
        return f"cut at {', '.join(map(str, column.edges))}"
    return f"whether it differs from {column.value}"
