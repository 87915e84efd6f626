"""What a reader asks first of a model, each question with a short answer and the section that says more."""

from dataclasses import dataclass

from fairdp._format import rounded_up
from fairdp.accounting.words import PUBLISHED
from fairdp.certify.certificate import Certificate
from fairdp.report.exposure import risk_in_a_sentence
from fairdp.report.model import ModelReport
from fairdp.report.owner import TO_FILL_IN, OwnersCard
from fairdp.report.words import NOT_PROMISED, known_sizes, level

# Of more groups than this only so many are named at the head; the tables name all.
_MOST_GROUPS = 12


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
        Answer(question="What is not promised?", text=f"Among others: {_not_promised()}.", section="limits"),
        _owned(
            "Who made it, and when?",
            f"Made on {made.date} (UTC) with {made.versions}. Owner:",
            "model-card",
            card.get("owner"),
        ),
        Answer(question="What else was spent on these records?", text=spent_in_all(report), section="privacy"),
        Answer(
            question="How to check it?",
            text=f"Two commands, without the records; {files}",
            section="verify",
            command=f"fairdp verify {report.command_name}",
        ),
    ]


def _owned(question: str, text: str, section: str, said: str | None) -> Answer:
    return Answer(question=question, text=text, section=section, owner=said or TO_FILL_IN, missing=said is None)


def positive_decision(report: ModelReport) -> str:
    """What a positive decision is, in the words of the schema or of the labels."""
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


def _not_promised() -> str:
    return "; ".join(NOT_PROMISED[:3])


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
