"""The sentences of a page about one model: headline, standings, answers, cautions, cards and checklists."""

import math
from dataclasses import dataclass

from fairdp._format import bound_above, bound_below, rounded_up
from fairdp.accounting import spent as privacy
from fairdp.accounting.spent import DECLARED, EXACT, NOISY, PUBLIC, PUBLISHED
from fairdp.certify import statement
from fairdp.certify.certificate import Certificate, NotCertified
from fairdp.certify.statement import NAMES
from fairdp.data.columns import COLUMN_TYPES, Binned, Categorical, Column, Numeric
from fairdp.data.schema import TableSchema
from fairdp.errors import in_words
from fairdp.frontier.verdict import TargetMet
from fairdp.metrics import collapse_warning
from fairdp.parameters import DEFAULT_MAX_GAP, Parameters
from fairdp.report.model import FIELDS, FOUR_FIFTHS, NO_CARD, TO_FILL_IN, ModelReport, OwnersCard, risk_in_a_sentence

_KNOWN_SIZES = {NOISY: "noisy counts", PUBLIC: "public sizes", DECLARED: "declared sizes", EXACT: "exact counts"}

# What a page has room for, in addition to what the statement says.
_ALSO_NOT_COVERED = (
    "group names and labels that are themselves private",
    "running time, and messages about bad input",
)

NOT_PROMISED = (
    *statement.NOT_PROMISED,
    "records that are not an independent sample, such as households or repeated visits",
)
YES, NO, UNDECIDED, NOT_ASKED = "yes", "no", "undecided", "not asked for"

# Of a model that orders people well and whose decisions a constant would beat.
RANKS = "yes, as a ranking; its decisions are less accurate than the majority class"

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
        gaps = f"{', '.join(_claims(certificate))} with confidence {100 * certificate.confidence:g}\u00a0%"
    promised = f"{level(report)}; {gaps}"
    if not report.verified:
        return f"NOT VERIFIED. What the folder claims: a {what}: {promised}."
    return f"A {what}: {promised}."


def level(report: ModelReport) -> str:
    """The privacy level, rounded up."""
    if not report.private:
        return "not private"
    epsilon = rounded_up(report.privacy.epsilon)
    if report.pure:
        return f"ε = {epsilon} for adding or removing one record"
    return f"ε = {epsilon} at δ = {report.privacy.delta:g} for adding or removing one record"


def _claims(certificate: Certificate) -> list[str]:
    """The bounds that are claimed, rounded to the safe side."""
    return [f"{NAMES[name]} ≤ {bound_above(gap.tau)}" for name, gap in certificate.gaps.items() if gap.claimed]


def verdict_in_words(report: ModelReport) -> list[tuple[str, str]]:
    """The verdict of the paid counts: a heading for each line, and the rest of it."""
    lines = [in_words(line, str).split(": ", 1) for line in report.verdict.lines]
    return [(heading, rest[:1].upper() + rest[1:]) for heading, rest in lines]


def not_covered(report: ModelReport) -> list[str]:
    """Everything that the stated ε does not cover."""
    return [*privacy.not_covered(report.privacy), *_ALSO_NOT_COVERED]


def known_sizes(report: ModelReport) -> str:
    """The origin of the sizes that training was planned with."""
    return _KNOWN_SIZES[report.privacy.group_sizes]


def four_fifths_verdict(report: ModelReport) -> str:
    """The certificate and the estimates against a ratio of four fifths, and no more than that."""
    estimate = report.estimates.get("demographic_parity_ratio", math.nan)
    gap = report.certificate.gaps.get("demographic_parity") if isinstance(report.certificate, Certificate) else None
    bound = None if gap is None or not gap.claimed else gap.ratio
    if bound is not None and bound >= FOUR_FIFTHS:
        return f"The certified lower bound of the ratio, {bound_below(bound)}, is not below 0.8."
    known = "no lower bound of the ratio is certified"
    if bound is not None:
        known = f"the certified lower bound, {bound_below(bound)}, is below that"
    guess = "there is no estimate of the ratio"
    if not math.isnan(estimate):
        guess = f"the estimate, {estimate:.4f}, is {'' if estimate < FOUR_FIFTHS else 'not '}below that"
    return f"A ratio of four fifths, 0.8, is not established: {known}, and {guess}."


def cautions(report: ModelReport) -> list[str]:
    """Warnings that come before any figure, most serious first."""
    return [
        *(f"Check failed: {check.name}: {check.found}" for check in report.checks if not check.passed),
        *_privacy_cautions(report),
        *_certificate_cautions(report),
        *_decision_cautions(report),
    ]


def _privacy_cautions(report: ModelReport) -> list[str]:
    found = []
    if not report.private:
        found.append("Not private: the model was trained without noise, and epsilon is infinite.")
    if report.private and report.privacy.noise_seeded:
        found.append(
            "Seeded noise: the noise came from a fixed seed. The guarantee holds only while that seed is secret and "
            "used for this run alone, and a small number can be guessed."
        )
    if report.inferred:
        found.append(
            "Schema read from the table: column types, categories, ranges and group names were read from the private "
            "rows and are treated as public. What they reveal is not accounted for."
        )
    return found


def _certificate_cautions(report: ModelReport) -> list[str]:
    certificate = report.certificate
    if isinstance(certificate, NotCertified):
        return [f"Not certified: no gap is bounded, because {certificate.explanation}."]
    found, about = [], certificate.about
    if about is not None and about.noise_seeded and not report.privacy.noise_seeded:
        found.append("Seeded noise: the noise on the certificate's counts came from a fixed seed.")
    if not certificate.met:
        found.append(
            f"Requirement missed: {certificate.registration.require_tau:g} was required of every gap beforehand, and "
            "the certificate does not reach it."
        )
    empty = [NAMES[name] for name, gap in certificate.gaps.items() if gap.claimed and gap.tau >= 1]
    if empty:
        found.append(f"A bound of 1 says nothing: {', '.join(empty)}.")
    if about is not None and about.earlier:
        found.append(
            f"Certificate {len(about.earlier) + 1} of this model: rely on one that was named before it "
            "was made, not on the best of them."
        )
    return found


def _decision_cautions(report: ModelReport) -> list[str]:
    found = []
    rate = report.estimates.get("positive_rate", math.nan)
    collapse = None if math.isnan(rate) else collapse_warning(rate)
    if collapse:
        found.append(f"Collapsed: {collapse}")
    rule = report.about.predictor
    if rule.flips is not None:
        found.append(
            "Group used in decisions: the decision about a person depends on their group, which must be given with "
            "every record."
        )
    if rule.tosses_coins:
        found.append(
            "Randomised decisions: people with equal records may get different decisions, by a keyed coin for each."
        )
    return found


@dataclass(frozen=True, kw_only=True)
class StatusLine:
    """One question with its own answer, ``state``, one of the answers above, and what it rests on."""

    name: str
    state: str
    text: str


def status_lines(report: ModelReport) -> list[StatusLine]:
    """The three lines. They are independent: none stands for another, and none of them for an approval."""
    asked, useful = _guarantee(report), _useful(report)
    if not report.verified:
        asked, useful = _unconfirmed(asked), _unconfirmed(useful)
    return [_arithmetic(report), asked, useful]


def _unconfirmed(line: StatusLine) -> StatusLine:
    if line.state == NOT_ASKED:
        return line
    claimed = f"not confirmed, because a check failed. What the folder says: {line.text}"
    return StatusLine(name=line.name, state=UNDECIDED, text=claimed)


def _arithmetic(report: ModelReport) -> StatusLine:
    failed = [check.name for check in report.checks if not check.passed]
    n_checks = len(report.checks)
    if failed:
        text = f"{len(failed)} of {n_checks} checks failed: {', '.join(failed)}. Do not rely on the figures below."
    else:
        text = (
            f"all {n_checks} checks agree: the privacy and every bound follow from what the folder records. This says "
            "nothing about quality."
        )
    return StatusLine(name="Arithmetic checked", state=NO if failed else YES, text=text)


def _guarantee(report: ModelReport) -> StatusLine:
    """The certified bound against what was asked for: before the certificate, or as a target."""
    parameters, certificate = report.about.parameters, report.certificate
    required = parameters.require_tau
    if isinstance(certificate, Certificate):
        required = certificate.registration.require_tau
    target = report.verdict.target
    if required is not None:
        state, text = _required(report, required)
    elif target is not None and target.explicit:
        state, text = _target(report, target)
    else:
        state, text = NOT_ASKED, f"no bound was asked for beforehand; {_known(report)}."
    return StatusLine(name="Guarantee asked for reached", state=state, text=text)


def _required(report: ModelReport, limit: float) -> tuple[str, str]:
    asked = f"at most {limit:g} was asked of every gap"
    if not isinstance(report.certificate, Certificate):
        return NO, f"{asked}, but {_known(report)}."
    reached = all(gap.tau <= limit for gap in report.certificate.gaps.values())
    return (YES if reached else NO), f"{asked}; {_known(report)}."


def _target(report: ModelReport, target: TargetMet) -> tuple[str, str]:
    """A bound decides with certainty; below that only estimates are known, which guarantee nothing."""
    ratio = target.kind == "min_ratio"
    what = NAMES[target.metric].replace("gap", "ratio") if ratio else NAMES[target.metric]
    limit = f"{'at least' if ratio else 'at most'} {target.value:g}"
    asked = f"{'an' if what[0] in 'ae' else 'a'} {what} of {limit} was asked for"
    gap = report.certificate.gaps.get(target.metric)
    bound = None if gap is None or not gap.claimed else gap.ratio if ratio else gap.tau
    if bound is not None and (bound >= target.value if ratio else bound <= target.value):
        return YES, f"{asked}; {_known(report)}."
    guess = "nothing was counted that could tell"
    if target.estimate is not None:
        words = {"yes": "seems to be met", "no": "is missed", "undecided": "may or may not be met"}
        hidden = f", without {', '.join(target.unmeasured)}, which noise hides" if target.unmeasured else ""
        guess = f"the target {words[target.met]}, by an estimate of {target.estimate:.3f} from noisy counts{hidden}"
    return (NO if target.met == NO else UNDECIDED), f"{asked}; {_known(report)}, and {guess}."


def _known(report: ModelReport) -> str:
    """The certified bounds, in a clause."""
    certificate = report.certificate
    if not isinstance(certificate, Certificate):
        return "no gap is certified"
    claims = _claims(certificate)
    parity = certificate.gaps.get("demographic_parity")
    if parity is not None and parity.ratio is not None:
        claims.append(f"ratio of positive rates ≥ {bound_below(parity.ratio)}")
    return f"certified with confidence {100 * certificate.confidence:g} %: {', '.join(claims)}"


def _useful(report: ModelReport) -> StatusLine:
    """Against the majority class: a constant decision that needs no model."""
    verdict = report.verdict
    if verdict.quality is None:
        state, text = UNDECIDED, "nothing that is paid for was counted that could tell."
    else:
        said = next(line for line in verdict.lines if line.startswith("quality: "))
        state, text = verdict.quality.learnt, in_words(said.removeprefix("quality: "), str)
        if state == YES and verdict.quality.accuracy < verdict.quality.majority_accuracy:
            state = RANKS
    if verdict.verdict == "collapsed":
        state, text = NO, f"nearly everybody gets the same decision. {text[0].upper()}{text[1:]}"
    return StatusLine(name="Model useful", state=state, text=text)


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
        Answer(question="How private?", text=_private(report), section="privacy"),
        Answer(question="For how many people?", text=_people(report), section="data-card"),
        Answer(question="Which groups?", text=_groups(report), section="fairness"),
        Answer(question="How sure?", text=_sure(report), section="fairness"),
        Answer(
            question="What is not promised?", text=f"Among others: {'; '.join(NOT_PROMISED[:3])}.", section="limits"
        ),
        _owned(
            "Who made it, and when?",
            f"Made on {made.date} (UTC) with {made.versions}. Owner:",
            "model-card",
            card.get("owner"),
        ),
        Answer(question="What else was spent on these records?", text=spent_in_all(report), section="privacy"),
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


def _private(report: ModelReport) -> str:
    if not report.private:
        return "Not private: the model was trained without noise, and may reveal whose records it was trained on."
    if not report.exposures:
        return f"Differential privacy with {level(report)}."
    risk = risk_in_a_sentence(report.exposures)
    return f"Differential privacy with {level(report)}. In one sentence: {risk}."


def _people(report: ModelReport) -> str:
    privacy = report.privacy
    trained = sum(privacy.planned_sizes.values())
    how = known_sizes(report)
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


def _sure(report: ModelReport) -> str:
    certificate = report.certificate
    if not isinstance(certificate, Certificate):
        return "Nothing is certified, so nothing is said about the population with any confidence."
    return (
        f"All certified bounds hold together with confidence {100 * certificate.confidence:g} %, over the draw of the "
        "records and the noise; estimates have intervals beside them."
    )


def spent_in_all(report: ModelReport) -> str:
    """The ledger's total of the declared table, or that there is none."""
    note = report.privacy.ledger
    if note is not None:
        return (
            f"By the ledger (entry {note.entry}), all releases about table {note.table!r} until this one spend "
            f"ε = {rounded_up(note.epsilon)} at δ = {note.delta:.4g} together if they were planned in advance, and "
            f"ε = {rounded_up(note.epsilon_sum)}, the simple sum, in any case."
        )
    if PUBLISHED in report.privacy.public_assumptions:
        return "A published data set: no ledger is kept of it."
    return "No ledger was kept: nothing else that was released about the records is added up."


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
        Entry(name="Training records, as planned", text=f"{planned} ({known_sizes(report)})"),
        Entry(name="Inputs", text=_inputs(report)),
        Entry(name="Spent on the table in all", text=spent_in_all(report)),
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
        Item(question="How large are epsilon and delta?", answer=f"{level(report)}.", section="privacy"),
        Item(
            question="Who must be trusted?",
            answer="Central model: whoever trains sees all records; the guarantee covers the released folder.",
            section="privacy",
        ),
        Item(question="Which mechanism, with what sensitivity?", answer=_mechanism(report), section="privacy"),
        Item(
            question="How are releases composed and accounted for?",
            answer=_accounting(report),
            section="privacy",
        ),
        Item(question="What is not covered?", answer=uncovered, section="privacy"),
        Item(question="Was anything else spent on these records?", answer=spent_in_all(report), section="privacy"),
        Item(
            question="Is the implementation sound?",
            answer="Noise has exactly the accounted law, in floating point too; running time is not protected. See "
            "docs/explanation/threat-model.md; `fairdp audit` tries to refute the claim.",
            section="privacy",
        ),
        Item(question="Does the noise hit small groups harder?", answer=_utility(report), section="fairness"),
        _of_owner(
            "How is access to the raw records controlled?",
            "Storage, access and deletion of the training records and of the ledger.",
            card,
            "access",
        ),
    )


def _mechanism(report: ModelReport) -> str:
    if not report.private:
        return "None: no noise was added."
    if report.privacy.noise_allocation == "laplace":
        return "Laplace noise on the coefficients of the loss, once (functional mechanism)."
    return "Poisson sampling, clipped gradients, Gaussian noise."


def _accounting(report: ModelReport) -> str:
    if not report.private:
        return "There is nothing to account for."
    if report.privacy.selection is not None:
        return "Renyi divergences, of one trial and of the choice between trials; recomputed by the checks."
    if report.pure:
        return "One release whose pure epsilon follows from its noise; recomputed by the checks."
    if report.privacy.accountant == "pld":
        return "Privacy loss distributions, with the moments accountant for comparison; recomputed by the checks."
    beside = ", with privacy loss distributions for comparison" if report.pld_bounds else ""
    return f"The moments accountant{beside}; recomputed by the checks."


def _utility(report: ModelReport) -> str:
    if isinstance(report.certificate, Certificate):
        return "Rates by group are shown with intervals, and gaps are bounded."
    return "No rates by group are released; `fairdp evaluate` shows them to the data holder."


def _four_fifths(report: ModelReport, card: OwnersCard) -> tuple[Item, ...]:
    return (
        Item(
            question="Is any group's selection rate below four fifths of the highest?",
            answer=four_fifths_verdict(report),
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
    protected = "differentially private training" if report.private else "no privacy-preserving training"
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
            answer=f"Here: {protected}; {level(report)}. Add limits on re-use, security and pseudonymisation.",
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
