"""Which value of a label is the positive decision: said by the user, or one of three pairs that leave no doubt."""

import math
from collections.abc import Sequence

from fairdp._checks import DataError
from fairdp.data.cells import number_of, spelling_of, text_of

# The second of each is positive, in whatever case it is written.
_UNDERSTOOD = (("0", "1"), ("false", "true"), ("no", "yes"))
_FEW_VALUES = 5


def chosen_positive(positive: object, texts: Sequence[str], label: str) -> str:
    """The positive one of the two values of a label; where nobody says it and it could be either, that is refused.

    >>> chosen_positive(None, ["No", "Yes"], "approved"), chosen_positive("1.0", ["0", "1"], "approved")
    ('Yes', '1')
    """
    if positive is not None:
        meant = value_meant(positive, texts)
        if meant is None:
            held = spelling_of(positive)
            raise DataError(f"`positive` must be a value of label {label!r} ({', '.join(texts)}), got {held!r}.")
        return meant
    known = {text_of(text).lower(): text for text in texts}
    for pair in _UNDERSTOOD:
        if set(known) == set(pair):
            return known[pair[1]]
    raise _unsaid(texts, label)


def refuse_unsaid(texts: Sequence[str], label: str) -> None:
    """Refuse a label of which no two values are a pair that leaves no doubt, whichever of them are frequent."""
    known = {text_of(text).lower() for text in texts}
    # A column of many values is another mistake, and names people.
    if 1 < len(known) <= _FEW_VALUES and not any(known.issuperset(pair) for pair in _UNDERSTOOD):
        raise _unsaid(texts, label)


def value_meant(value: object, texts: Sequence[str]) -> str | None:
    """The one of these texts that somebody means who writes it so, or in another way: 1.0 for 1, yes for Yes.

    >>> value_meant("1.0", ["0", "1"]), value_meant("GOOD", ["bad", "good"]), value_meant(7, ["0", "1"])
    ('1', 'good', None)
    """
    for as_read in (spelling_of, text_of, lambda text: text_of(text).lower(), _number):
        found = [text for text in texts if as_read(text) == as_read(value)]
        if len(found) == 1:
            return found[0]
    return None


def _number(value: object) -> object:
    number = number_of(value)
    # Whatever holds none equals nothing but itself.
    return object() if number is None or math.isnan(number) else number


def _unsaid(texts: Sequence[str], label: str) -> DataError:
    some = " or ".join(map(repr, texts[:2])) if len(texts) == 2 else ", ".join(map(repr, texts[:5]))
    return DataError(f"which value of label {label!r} is a positive decision, {some}? Say it with `positive`.")
