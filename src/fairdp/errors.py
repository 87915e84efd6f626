"""Refusals: errors that name the parameter, the value and the remedy, and one-line checks."""

import math
import re
from collections.abc import Callable, Collection
from numbers import Real

# A parameter that a message mentions stands in backquotes: Python says its name, the command line its flag.
_MENTIONED = re.compile(r"`(\w+)`")


def in_words(template: str, name_of: Callable[[str], str]) -> str:
    """A text with the parameters that it mentions called by other names, and without their backquotes."""
    return _MENTIONED.sub(lambda match: name_of(match[1]), template)


class InputError(ValueError):
    """Input that cannot be used, with a message of one line for whoever gave it. All else is a fault of the program."""

    @property
    def template(self) -> str:
        """The message, with every parameter that it mentions in backquotes."""
        return str(self.args[0])

    def in_words_of(self, name_of: Callable[[str], str]) -> str:
        """The message with parameters called by other names, such as flags.

        >>> ParameterError("n_looks", 3, "needs `require_tau`").in_words_of(lambda name: f"--{name.replace('_', '-')}")
        '--n-looks=3 needs --require-tau.'
        """
        return in_words(self.template, name_of)

    def __str__(self) -> str:
        return self.in_words_of(str)


class DataError(InputError):
    """Records, tables or schemas that cannot be used."""


class SavedModelError(InputError):
    """A saved model, or a file that belongs to one, that cannot be read, written or trusted."""


class ParameterError(InputError):
    """A parameter with a value that cannot be used.

    Parameters
    ----------
    rule
        What the value breaks, as a phrase: "must be positive", or "needs `require_tau`".
    remedy
        What to do instead: a sentence after a rule that says "must", a clause after any other.

    >>> print(ParameterError("sample_rate", 12.8, "must be in (0, 1]", "Did you pass a batch size?"))
    sample_rate must be in (0, 1], got 12.8. Did you pass a batch size?
    >>> print(ParameterError("grouping", "label", "is for `method`='dp_is_sgd' only", "leave it out"))
    grouping='label' is for method='dp_is_sgd' only; leave it out.
    """

    def __init__(self, parameter: str, value: object, rule: str, remedy: str = "") -> None:
        super().__init__(parameter, value, rule, remedy)
        self.parameter, self.value, self.rule, self.remedy = parameter, value, rule, remedy

    @property
    def template(self) -> str:
        if self.rule.startswith("must"):
            # A list has commas of its own.
            got = "; got" if " one of " in self.rule else ", got"
            return f"`{self.parameter}` {self.rule}{got} {self.value!r}.{self.remedy and ' ' + self.remedy}"
        return f"`{self.parameter}`={self.value!r} {self.rule}{self.remedy and '; ' + self.remedy}."


def positive(**values: float) -> None:
    """Every value is a positive number; infinity counts."""
    for name, value in values.items():
        if not (isinstance(value, Real) and value > 0):
            raise ParameterError(name, value, "must be positive")


def positive_integer(**values: int) -> None:
    """Every value is a whole number of at least one."""
    for name, value in values.items():
        real = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
        if not real or value != int(value) or value < 1:
            raise ParameterError(name, value, "must be a whole number of at least 1")


def finite_positive(**values: float) -> None:
    """Every value is a positive finite number."""
    positive(**values)
    for name, value in values.items():
        if not math.isfinite(value):
            raise ParameterError(name, value, "must be finite")


def in_unit_interval(**values: float) -> None:
    """Every value lies strictly between zero and one."""
    for name, value in values.items():
        if not (isinstance(value, Real) and 0 < value < 1):
            raise ParameterError(name, value, "must be in (0, 1)")


def sample_rate(**values: float) -> None:
    """Every value is a probability above zero; one means every record at every step."""
    for name, value in values.items():
        if not (isinstance(value, Real) and 0 < value <= 1):
            raise ParameterError(name, value, "must be in (0, 1]", "Did you pass a batch size?")


def one_of(choices: Collection[str], **values: str) -> None:
    """Every value is one of the choices."""
    for name, value in values.items():
        # In a tuple even what cannot be hashed is looked up.
        if value not in tuple(choices):
            raise ParameterError(name, value, f"must be one of {', '.join(sorted(choices))}")
