"""The model card and the data card: what the folder says, and what only the owner can say."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairdp.accounting.words import DECLARED, EXACT, NOISY, PUBLIC
from fairdp.config.parameters import DEFAULT_MAX_GAP
from fairdp.data.columns import Binned, Categorical, Column, Numeric
from fairdp.data.entries import COLUMN_TYPES
from fairdp.data.schema import TableSchema
from fairdp.report.model import ModelReport

OWNER = "To be completed by the owner."

_KNOWN_SIZES = {NOISY: "noisy counts", PUBLIC: "public sizes", DECLARED: "declared sizes", EXACT: "exact counts"}
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


def model_card(report: ModelReport) -> list[Entry]:
    """What was trained and by what method, with fields for its intended use."""
    return [
        Entry(name="Method", text=report.method_name),
        Entry(name="Guarantee of the method", text=report.method.guarantee),
        Entry(name="Source of the method", text=report.method.paper if report.method.paper != "—" else "none"),
        Entry(name="Network", text=_network(report)),
        Entry(name="Decision", text=_decision(report)),
        Entry(name="Target in training", text=_target(report.about.parameters, takes=report.method.takes_target)),
        Entry(name="Software", text="fairdp; versions are not recorded in the folder"),
        _owner("Intended use"),
        _owner("Uses that are out of scope"),
        _owner("Limits seen in practice"),
        _owner("Contact and date of review"),
    ]


def data_card(report: ModelReport) -> list[Entry]:
    """What the records are, as far as the folder knows, and fields for the rest."""
    schema, sizes = report.schema, report.privacy.planned_sizes
    how = _KNOWN_SIZES[report.privacy.group_sizes]
    planned = ", ".join(f"{name} {size:,.0f}" for name, size in sizes.items())
    negative, positive = (str(name) for name in report.about.classes)
    label = f"{schema.label}: " if schema is not None else ""
    return [
        Entry(name="Label", text=f"{label}{positive} (positive) or {negative} (negative)"),
        Entry(name="Protected attribute", text=_protected(schema)),
        Entry(name="Groups", text=", ".join(report.about.groups)),
        Entry(name="Training records, as planned", text=f"{planned} ({how})"),
        Entry(name="Inputs", text=_inputs(report)),
        _owner("Origin, period and licence of the records"),
        _owner("How the records were selected, and whom they leave out"),
        _owner("How many records one person can have"),
    ]


def features(schema: TableSchema | None) -> list[Feature]:
    """The input columns of a table."""
    types = {kind: name for name, kind in COLUMN_TYPES.items()}
    columns = () if schema is None else schema.columns
    return [Feature(name=column.name, type=types[type(column)], values=_values(column)) for column in columns]


def _owner(name: str) -> Entry:
    return Entry(name=name, text=OWNER, missing=True)


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
