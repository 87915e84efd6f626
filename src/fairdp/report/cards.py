"""The parts of a page about one model: headline, standings, answers, cautions, cards and checklists."""

import math
from dataclasses import dataclass

from fairdp.certify.certificate import Certificate
from fairdp.data.columns import COLUMN_TYPES, Binned, Categorical, Column, Numeric
from fairdp.data.schema import TableSchema
from fairdp.parameters import DEFAULT_MAX_GAP, Parameters
from fairdp.report.model import FIELDS, NO_CARD, TO_FILL_IN, ModelReport, OwnersCard
from fairdp.statements.certificate import (
    NOT_PROMISED,
    certificate_cautions,
    claims,
    four_fifths_verdict,
    how_sure,
    rates_in_short,
)
from fairdp.statements.privacy import (
    KNOWN_SIZES,
    accounting_in_short,
    how_private,
    mechanism_in_short,
    privacy_cautions,
    privacy_level,
    spent_in_all,
)
from fairdp.statements.verdict import (
    StatusLine,
    arithmetic_line,
    decision_cautions,
    guarantee_line,
    unconfirmed,
    useful_line,
)

# Of more groups than this only so many are named at the head; the tables name all.
_MOST_GROUPS = 12
_KINDS = {"logistic": "logistic regression", "mlp": "multilayer perceptron", "cnn": "convolutional network"}

# Which of the owner's fields are about the model; the others are about the records.
_ABOUT_MODEL = ("owner", "contact", "purpose", "decision", "appeal", "out_of_scope", "limits", "review_date")


def headline(report: ModelReport) -> str:
    """The model and what is promised about it, in one line."""
    of = f" of {report.label}" if report.label else ""
    what = f"classifier{of} trained with {report.method_name}"
    gaps, certificate = "no gap is certified", report.certificate
    if isinstance(certificate, Certificate):
        gaps = f"{', '.join(claims(certificate))} with confidence {100 * certificate.confidence:g}\u00a0%"
    promised = f"{privacy_level(report.privacy)}; {gaps}"
    if not report.verified:
        return f"NOT VERIFIED. What the folder claims: a {what}: {promised}."
    return f"A {what}: {promised}."


def cautions(report: ModelReport) -> list[str]:
    """Warnings that come before any figure, most serious first."""
    return [
        *(f"Check failed: {check.name}: {check.found}" for check in report.checks if not check.passed),
        *privacy_cautions(report.privacy, read_from_rows=report.inferred),
        *certificate_cautions(report.certificate, privacy_seeded=report.privacy.noise_seeded),
        *decision_cautions(
            report.estimates.get("positive_rate", math.nan),
            uses_group=report.about.predictor.flips is not None,
            tosses_coins=report.about.predictor.tosses_coins,
        ),
    ]


def status_lines(report: ModelReport) -> list[StatusLine]:
    """The three lines. They are independent: none stands for another, and none of them for an approval."""
    failed = [check.name for check in report.checks if not check.passed]
    asked = guarantee_line(report.verdict, report.certificate, report.about.parameters)
    useful = useful_line(report.verdict)
    if failed:
        asked, useful = unconfirmed(asked), unconfirmed(useful)
    return [arithmetic_line(failed, len(report.checks)), asked, useful]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One question; ``owner`` is the part that the owner has to say, ``missing`` if that was not done."""

    question: str
    text: str
    section: str
    owner: str = ""
    missing: bool = False
    command: str = ""


def answers(report: ModelReport, card: OwnersCard) -> list[Answer]:
    """The questions of a reader who has only the page."""
    made, files = report.about.made, "everything here is computed from the files of the folder, by their hashes below."
    return [
        _owned(
            "Which decision?",
            f"{positive_decision(report)} What that means for the person:",
            "model-card",
            card.get("decision"),
        ),
        Answer(question="How private?", text=how_private(report.privacy, report.risk), section="privacy"),
        Answer(question="For how many people?", text=_people(report), section="data-card"),
        Answer(question="Which groups?", text=_groups(report), section="fairness"),
        Answer(question="How sure?", text=how_sure(report.certificate), section="fairness"),
        Answer(
            question="What is not promised?", text=f"Among others: {'; '.join(NOT_PROMISED[:3])}.", section="limits"
        ),
        _owned(
            "Who made it, and when?",
            f"Made on {made.date} (UTC) with {made.versions}. Owner:",
            "model-card",
            card.get("owner"),
        ),
        Answer(question="What else was spent on these records?", text=spent_in_all(report.privacy), section="privacy"),
        Answer(
            question="How to check it?",
            text=f"One command, without the records; {files}",
            section="verify",
            command=f"fairdp verify {report.command_name}",
        ),
    ]


def _owned(question: str, text: str, section: str, said: str | None) -> Answer:
    return Answer(question=question, text=text, section=section, owner=said or TO_FILL_IN, missing=said is None)


def positive_decision(report: ModelReport) -> str:
    """The meaning of a positive decision, in the words of the schema or of the labels."""
    negative, positive = (str(name) for name in report.about.classes)
    if report.schema is not None:
        label, negative, positive = report.schema.label, report.schema.negative, report.schema.positive
        return f"A positive decision is: {label} = {positive}; a negative one: {label} = {negative}."
    return f"A positive decision is: {positive}; a negative one: {negative}. The label has no name in the folder."


def _people(report: ModelReport) -> str:
    privacy = report.privacy
    trained = sum(privacy.planned_sizes.values())
    how = KNOWN_SIZES[report.privacy.group_sizes]
    text = f"About {trained:,.0f} records to train on ({how})"
    if isinstance(report.certificate, Certificate):
        counted = sum(sum(map(sum, group)) for group in report.certificate.counts)
        text += f", and about {counted:,} others that the certificate counted (noisy counts)"
    return f"{text}. A record is one person only if the owner's data are so."


def _groups(report: ModelReport) -> str:
    names = report.about.groups
    by = f" by {' and '.join(report.schema.sensitive)}" if report.schema is not None else ""
    more = f" and {len(names) - _MOST_GROUPS} more" if len(names) > _MOST_GROUPS else ""
    return f"{len(names)}{by}: {', '.join(names[:_MOST_GROUPS])}{more}."


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of a card; ``missing`` if the owner has to fill it in."""

    name: str
    text: str
    missing: bool = False


def model_card(report: ModelReport, card: OwnersCard) -> list[Entry]:
    """The model and its method, with the owner's fields about its use."""
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
        Entry(
            name="Target in training",
            text=_target_of_training(report.about.parameters, takes=report.method.takes_target),
        ),
        *(_owner(key, card) for key in _ABOUT_MODEL),
    ]


def data_card(report: ModelReport, card: OwnersCard) -> list[Entry]:
    """The records, as far as the folder knows them, and the owner's fields about the rest."""
    schema, sizes = report.schema, report.privacy.planned_sizes
    planned = ", ".join(f"{name} {size:,.0f}" for name, size in sizes.items())
    negative, positive = (str(name) for name in report.about.classes)
    label, protected = "", "given as an array; its name is not recorded"
    if schema is not None:
        negative, positive = schema.negative, schema.positive
        label, protected = f"{schema.label}: ", ", ".join(schema.sensitive)
    return [
        Entry(name="Label", text=f"{label}{positive} (positive) or {negative} (negative)"),
        Entry(name="Protected attribute", text=protected),
        Entry(name="Groups", text=", ".join(report.about.groups)),
        Entry(name="Training records, as planned", text=f"{planned} ({KNOWN_SIZES[report.privacy.group_sizes]})"),
        Entry(name="Inputs", text=_inputs(report)),
        Entry(name="Spent on the table in all", text=spent_in_all(report.privacy)),
        Entry(name="Link to the data", text=_tie(report)),
        *(_owner(key, card) for key in FIELDS if key not in _ABOUT_MODEL),
    ]


def features(schema: TableSchema | None) -> list[tuple[str, str, str]]:
    """Name, type and values of each input column of a table, as declared or as read from it."""
    types = {kind: name for name, kind in COLUMN_TYPES.items()}
    columns = () if schema is None else schema.columns
    return [(column.name, types[type(column)], _values(column)) for column in columns]


def _owner(key: str, card: OwnersCard) -> Entry:
    said = card.get(key)
    return Entry(name=FIELDS[key][0], text=said or TO_FILL_IN, missing=said is None)


def _tie(report: ModelReport) -> str:
    """The owner's commitment to the records, without a hash by which a guessed record could be recognised."""
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
    return f"{words}{by_group}"


def _target_of_training(chosen: Parameters, *, takes: bool) -> str:
    if not takes:
        return "none: the method takes no target"
    stated = {name: getattr(chosen, name) for name in ("max_gap", "min_ratio", "positive_rate")}
    given = {name: value for name, value in stated.items() if value is not None}
    if not given.keys() & {"max_gap", "min_ratio"}:
        given = {"max_gap": DEFAULT_MAX_GAP, **given}
    limits = ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in given.items())
    return f"{chosen.parity.replace('_', ' ')}, {limits}; aimed at, not guaranteed"


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


@dataclass(frozen=True, kw_only=True)
class Item:
    """One question; ``section`` is the anchor of the answer, empty if the owner has to give it, and ``said`` if so."""

    question: str
    answer: str
    section: str = ""
    said: bool = False


def checklists(report: ModelReport, card: OwnersCard = NO_CARD) -> list[tuple[str, str, tuple[Item, ...]]]:
    """Title, source and questions of the three lists, with answers for this model, and those of its owner."""
    return [
        (
            "A claim of differential privacy",
            "NIST SP 800-226, Guidelines for Evaluating Differential Privacy Guarantees",
            _differential_privacy(report, card),
        ),
        (
            "The four-fifths rule",
            "29 CFR 1607.4(D), Uniform Guidelines on Employee Selection Procedures",
            _four_fifths(report, card),
        ),
        (
            "Special categories of personal data for bias detection and correction",
            "Regulation (EU) 2024/1689 (AI Act), Article 10(5), high-risk systems",
            _special_categories(report, card),
        ),
    ]


def _of_owner(question: str, remark: str, card: OwnersCard, key: str) -> Item:
    """A question that the owner's card may answer; else a remark says what to add."""
    said = card.get(key)
    return Item(question=question, answer=said or remark, said=said is not None)


def _differential_privacy(report: ModelReport, card: OwnersCard) -> tuple[Item, ...]:
    several = "Whether one person can have several records: their protection is then weaker than that of one record."
    uncovered = "Exact metrics, preprocessing, choices made by looking at the data, other models of these records."
    return (
        Item(question="What is the unit of privacy?", answer="Adding or removing one record.", section="privacy"),
        _of_owner("Is a record a person?", several, card, "records_per_person"),
        Item(
            question="How large are epsilon and delta?", answer=f"{privacy_level(report.privacy)}.", section="privacy"
        ),
        Item(
            question="Who must be trusted?",
            answer="Central model: whoever trains sees all records; the guarantee covers the released folder.",
            section="privacy",
        ),
        Item(
            question="Which mechanism, with what sensitivity?",
            answer=mechanism_in_short(report.privacy),
            section="privacy",
        ),
        Item(
            question="How are releases composed and accounted for?",
            answer=accounting_in_short(report.privacy),
            section="privacy",
        ),
        Item(question="What is not covered?", answer=uncovered, section="privacy"),
        Item(
            question="Was anything else spent on these records?", answer=spent_in_all(report.privacy), section="privacy"
        ),
        Item(
            question="Is the implementation sound?",
            answer="Noise has exactly the accounted law, in floating point too; running time is not protected. See "
            "docs/explanation/threat-model.md; `fairdp audit` tries to refute the claim.",
            section="privacy",
        ),
        Item(
            question="Does the noise hit small groups harder?",
            answer=rates_in_short(report.certificate),
            section="fairness",
        ),
        _of_owner(
            "How is access to the raw records controlled?",
            "Storage, access and deletion of the training records and of the ledger.",
            card,
            "access",
        ),
    )


def _four_fifths(report: ModelReport, card: OwnersCard) -> tuple[Item, ...]:
    return (
        Item(
            question="Is any group's selection rate below four fifths of the highest?",
            answer=four_fifths_verdict(report.certificate, report.estimates),
            section="fairness",
        ),
        _of_owner(
            "Which decision is the favourable one?",
            "The report assumes the positive one: confirm it.",
            card,
            "decision",
        ),
        Item(
            question="Does the rule apply to these groups and this use?",
            answer="It is about selection rates by race, sex or ethnic group in employment.",
        ),
        Item(
            question="Are the numbers large enough to matter?",
            answer="The rule also weighs statistical and practical significance and small numbers.",
        ),
    )


def _special_categories(report: ModelReport, card: OwnersCard) -> tuple[Item, ...]:
    protected = "differentially private training" if report.privacy.is_private else "no privacy-preserving training"
    return (
        _of_owner(
            "Are the protected attributes special categories, and is the system high-risk?",
            "Name the attributes and the legal basis.",
            card,
            "legal_basis",
        ),
        Item(
            question="(a) Could bias be found and corrected without them?",
            answer="Why other data, including synthetic or anonymised data, would not do.",
        ),
        Item(
            question="(b) Which technical limits on re-use and privacy-preserving measures are in place?",
            answer=f"Here: {protected}; {privacy_level(report.privacy)}. Add limits on re-use, security and "
            "pseudonymisation.",
            section="privacy",
        ),
        _of_owner(
            "(c) Who has access, and is it documented?", "Controls, safeguards and authorised persons.", card, "access"
        ),
        Item(question="(d) Are they passed on to others?", answer="That no other party receives or accesses them."),
        _of_owner(
            "(e) When are they deleted?", "Once the bias is corrected or the retention period ends.", card, "retention"
        ),
        Item(
            question="(f) Do the records of processing give the reasons?",
            answer="Why the processing was strictly necessary.",
        ),
    )
