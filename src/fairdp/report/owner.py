"""What only the owner of a model can say: the fields of `--card`, their template, and what a file fills in."""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fairdp._checks import InputError
from fairdp._files import content_of
from fairdp.data.entries import shown
from fairdp.data.plain_yaml import plain_yaml

TO_FILL_IN = "To be filled in by the owner."


@dataclass(frozen=True, kw_only=True)
class Field:
    """One field: its name on the page, and the question that it answers."""

    name: str
    question: str


FIELDS: Mapping[str, Field] = {
    "owner": Field(name="Owner", question="Who answers for the model: organisation and role."),
    "contact": Field(name="Contact", question="Where questions and complaints go."),
    "purpose": Field(name="Intended use", question="What the decisions are used for, and by whom."),
    "decision": Field(
        name="What a decision means", question="What a positive and a negative decision mean for the person."
    ),
    "appeal": Field(name="Objections", question="How a person can object, and who decides again."),
    "out_of_scope": Field(name="Uses that are out of scope", question="What the model must not be used for."),
    "limits": Field(name="Limits seen in practice", question="Where it failed, or may fail."),
    "review_date": Field(name="Date of review", question="When somebody last looked at all of this, as 2026-01-31."),
    "data_origin": Field(name="Origin of the records", question="Source, period and licence of the records."),
    "data_selection": Field(
        name="Selection of the records", question="How the records were selected, and whom they leave out."
    ),
    "records_per_person": Field(
        name="Records of one person", question="How many records one person can have; the guarantee is for one."
    ),
    "legal_basis": Field(
        name="Legal basis", question="On what basis protected attributes are processed, and why that is necessary."
    ),
    "access": Field(name="Access to the records", question="Who can see the records, and how that is controlled."),
    "retention": Field(name="Deletion of the records", question="When records and protected attributes are deleted."),
}


@dataclass(frozen=True)
class OwnersCard:
    """Texts by field; a field that is not there was not filled in."""

    texts: Mapping[str, str]

    def get(self, key: str) -> str | None:
        """The text of a field, None if the owner left it out."""
        assert key in FIELDS
        return self.texts.get(key)


NO_CARD = OwnersCard({})


def card_template() -> str:
    """An empty card in YAML, with a question for every field."""
    lines = ["# The owner's part of a report: fairdp report model/ --card owner.yaml", "# It is printed as it stands."]
    for key, field in FIELDS.items():
        lines += ["", f"# {field.question}", f'{key}: ""']
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
    return OwnersCard({key: text for key, text in texts.items() if text})


def _text(where: str, key: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float | datetime.date):
        raise InputError(f"{where}: {key} must be one text, got {shown(value)}; put it in quotes.")
    return " ".join(str(value).split())
