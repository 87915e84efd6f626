"""What reviewers ask about a private and group-fair model, and where the report, or its owner, has to answer."""

from dataclasses import dataclass

from fairdp.certify.certificate import Certificate
from fairdp.report.answers import spent_in_all
from fairdp.report.model import ModelReport
from fairdp.report.owner import NO_CARD, OwnersCard
from fairdp.report.words import four_fifths_verdict, level


@dataclass(frozen=True, kw_only=True)
class Item:
    """One question; ``section`` is the anchor of the answer, empty if the owner has to give it, and ``said`` if so."""

    question: str
    answer: str
    section: str = ""
    said: bool = False


@dataclass(frozen=True, kw_only=True)
class Checklist:
    """The questions of one source."""

    title: str
    source: str
    items: tuple[Item, ...]


def checklists(report: ModelReport, card: OwnersCard = NO_CARD) -> list[Checklist]:
    """The three lists, with answers for this model, and those of its owner."""
    return [
        Checklist(
            title="A claim of differential privacy",
            source="NIST SP 800-226, Guidelines for Evaluating Differential Privacy Guarantees",
            items=_differential_privacy(report, card),
        ),
        Checklist(
            title="The four-fifths rule",
            source="29 CFR 1607.4(D), Uniform Guidelines on Employee Selection Procedures",
            items=_four_fifths(report, card),
        ),
        Checklist(
            title="Special categories of personal data for bias detection and correction",
            source="Regulation (EU) 2024/1689 (AI Act), Article 10(5), high-risk systems",
            items=_special_categories(report, card),
        ),
    ]


def _of_owner(question: str, remark: str, card: OwnersCard, key: str) -> Item:
    """A question that the owner's card may answer; else a remark says what to add."""
    said = card.get(key)
    return Item(question=question, answer=said or remark, said=said is not None)


def _differential_privacy(report: ModelReport, card: OwnersCard) -> tuple[Item, ...]:
    several = "Whether one person can have several records: their protection is then weaker than that of one record."
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
        *_limits(report, card),
    )


def _limits(report: ModelReport, card: OwnersCard) -> tuple[Item, ...]:
    """What a claim leaves open, and what it rests on."""
    uncovered = "Exact metrics, preprocessing, choices made by looking at the data, other models of these records."
    return (
        Item(question="What is not covered?", answer=uncovered, section="privacy"),
        Item(question="Was anything else spent on these records?", answer=spent_in_all(report), section="privacy"),
        Item(
            question="Is the implementation sound?",
            answer="Noise has exactly the accounted law, in floating point too; running time is not protected. See "
            "docs/threat-model.md; `fairdp audit` tries to refute the claim.",
            section="privacy",
        ),
        Item(question="Does the noise hit small groups harder?", answer=_utility(report), section="fairness"),
        _of_owner(
            "How is access to the raw records controlled?",
            "Storage, access and deletion of the training records and of the register beside the model.",
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
