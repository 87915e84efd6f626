"""Refusals that name the parameter, the value and the remedy, one-line checks, and numbers as sentences state them."""

import math
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from html import escape
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


def rounded_up(value: float) -> str:
    """Four digits, rounded up, for what was spent.

    >>> rounded_up(0.99971)
    '0.9998'
    """
    if not value or math.isinf(value):
        return f"{value:g}"
    unit = 10.0 ** (math.floor(math.log10(value)) - 3)
    return f"{math.ceil(value / unit - 1e-9) * unit:.10g}"


def bound_above(value: float) -> str:
    """Four decimals of an upper bound on a rate or a gap."""
    return f"{min(1.0, math.ceil(1e4 * value - 1e-9) / 1e4):.4f}"


def bound_below(value: float) -> str:
    """Four decimals of a lower bound on a ratio."""
    return f"{math.floor(1e4 * value + 1e-9) / 1e4:.4f}"


def with_error(mean: float, error: float | None, *, digits: int = 3) -> str:
    """A mean and its standard error, which one run alone does not have; a dash where there is no number at all.

    >>> with_error(0.81234, 0.0012), with_error(0.8, math.nan), with_error(math.nan, 0.1)
    ('0.812 ± 0.001', '0.800', '–')
    """
    if math.isnan(mean):
        return "–"
    return f"{mean:.{digits}f}" + ("" if error is None or math.isnan(error) else f" ± {error:.{digits}f}")


def html_table(caption: str, rows: Iterable[Sequence[str]], note: str = "") -> str:
    """A table whose first column holds the headings of its rows.

    >>> html_table("sizes", [("a<b", "1")])
    '<table><caption>sizes</caption><tr><th scope="row">a&lt;b</th><td>1</td></tr></table>'
    """
    lines = "".join(
        f'<tr><th scope="row">{escape(head)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in cells)}</tr>'
        for head, *cells in rows
    )
    after = f"<p><small>{escape(note)}</small></p>" if note else ""
    return f"<table><caption>{escape(caption)}</caption>{lines}</table>{after}"
