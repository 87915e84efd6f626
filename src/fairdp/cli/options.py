"""Options that several commands share, and how numbers are read from the command line."""

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from fairdp.cli.flags import help_in_flags
from fairdp.cli.sections import OUTPUT, Option
from fairdp.config.declaration import Declaration
from fairdp.config.parameters import DATA, DECLARED, PRIVACY
from fairdp.config.reference import default_text

if TYPE_CHECKING:
    from fairdp.commands.records import Source
    from fairdp.data.formats import TableFormat

Decorated = Callable[..., Any]
Decorator = Callable[[Decorated], Decorated]


class Separated(click.ParamType[tuple[Any, ...]]):
    """Values of one kind, separated by commas."""

    def __init__(self, kind: type, name: str, example: str) -> None:
        self.kind, self.name, self.example = kind, name, example

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[Any, ...]:
        """Read ``.007,.005`` as numbers, or ``a, b`` as names; a default is a tuple already."""
        if isinstance(value, tuple):
            return value
        try:
            return tuple(self.kind(part.strip()) for part in value.split(","))
        except ValueError:
            self.fail(f"{value!r} is not a list such as {self.example}.", param, ctx)


class ByGroup(click.ParamType[Any]):
    """Numbers of groups, such as sizes, by name; in place of them, where asked for, a word or numbers without names."""

    # A name may hold commas and signs of its own: only a number ends it.
    _ONE = re.compile(r"\s*(.+?)\s*=\s*(\d+(?:\.\d+)?)\s*(?:,|$)")

    def __init__(self, example: str, *, word: str = "", unnamed: bool = False) -> None:
        self.example, self.word, self.unnamed = example, word, unnamed
        self.name = f"NAME=N,…{f'|{word}' if word else ''}{'|N,…' if unnamed else ''}"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """As it is: in capitals the word would be another one."""
        return self.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read ``f=900,m=1100`` as numbers of groups."""
        if not isinstance(value, str) or (self.word and value.strip() == self.word):
            return value.strip() if isinstance(value, str) else value
        if self.unnamed and "=" not in value:
            return WHOLE_NUMBERS.convert(value, param, ctx)
        numbers = self._ONE.findall(value)
        names = [name for name, _ in numbers]
        if self._ONE.sub("", value).strip() or not numbers or len(set(names)) < len(names):
            other = f", or the word {self.word}" if self.word else ""
            self.fail(f"{value!r} is not a list such as {self.example}, with each group once{other}.", param, ctx)
        return {name: float(number) if "." in number else int(number) for name, number in numbers}


SIZES = "women=900,men=1100"
NAMES = Separated(str, "NAME,…", "sex,region")
NUMBERS = Separated(float, "X,…", "0.007,0.005")
WHOLE_NUMBERS = Separated(int, "N,…", "64,32")

# How the command line reads a parameter of each kind.
_TYPES: dict[Any, click.ParamType[Any]] = {
    **dict.fromkeys((int, int | None), click.INT),
    **dict.fromkeys((float, float | None), click.FLOAT),
    **dict.fromkeys((str, str | None), click.STRING),
    tuple[int, ...]: WHOLE_NUMBERS,
    tuple[str, ...] | None: NAMES,
    float | tuple[float, ...] | None: NUMBERS,
    str | Mapping[str, float] | None: ByGroup(SIZES, word="public"),
    Mapping[str, float] | None: ByGroup("women=2,men=1"),
}


def parameter_options(*names: str, **defaults: str) -> Decorator:
    """Options for parameters of the estimator, with the declared help, default and choices.

    ``defaults`` says some in other words, where the declared ones name an option that the command lacks.
    """
    return together(*(_parameter_option(DECLARED[name], defaults.get(name, default_text(name))) for name in names))


def _parameter_option(declared: Declaration, default: str) -> Decorator:
    assert declared.flags is not None
    default = help_in_flags(default)
    reads: dict[str, Any] = {"type": click.Choice(declared.choices) if declared.choices else None}
    if declared.kind is bool:
        reads, default = {}, "yes" if declared.default else ""
    elif declared.name == "random_state":
        reads = {"type": click.IntRange(min=0), "metavar": "N"}
    elif not declared.choices:
        reads = {"type": _TYPES[declared.kind]}
    return click.option(
        declared.flags,
        declared.name,
        cls=Option,
        section=declared.group,
        default=declared.default,
        help=help_in_flags(declared.help) + (f"  [default: {default}]" if default else ""),
        **reads,
    )


def together(*options: Decorator) -> Decorator:
    """Several options as one, in this order."""

    def decorate(command: Decorated) -> Decorated:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def in_section(section: str, *flags: str, **said: Any) -> Decorator:
    """An option that is not a parameter of the estimator, under a heading."""
    return click.option(*flags, cls=Option, section=section, **said)


json_option = in_section(
    OUTPUT, "--json", "as_json", is_flag=True, help="Print one JSON object on stdout, and nothing else."
)
verbose_option = in_section(OUTPUT, "--verbose", is_flag=True, help="Print the statements in full too.")


def seed_option(help: str) -> Decorator:
    """``--seed`` of a command that does not train one model."""
    return click.option("--seed", type=click.IntRange(min=0), metavar="N", help=help)


def _format_options(sep: str, decimal: str, encoding: str, sheet: str) -> Decorator:
    """How a file is written, with what is taken where nobody says it."""
    cells = f"Between the cells of a text file; tab is a word for it.  [default: {sep}]"
    thousands, days = "a point, comma, blank or '' for nothing.", "Whether dates are written day, month, year."
    return together(
        in_section(DATA, "--sep", metavar="CHAR", help=cells),
        in_section(DATA, "--decimal", type=click.Choice([".", ","]), help=f"Sign of decimals.  [default: {decimal}]"),
        in_section(DATA, "--thousands", metavar="CHAR", help=f"Between thousands: {thousands}"),
        in_section(DATA, "--encoding", metavar="NAME", help=f"Such as cp1252 or utf-16.  [default: {encoding}]"),
        in_section(DATA, "--day-first/--no-day-first", default=None, help=days),
        in_section(DATA, "--sheet", help=f"Sheet of a workbook.  [default: {sheet}]"),
    )


# Said here, or by the schema, and never guessed while records are read.
format_options = _format_options(*(f"the schema's, or {text}" for text in (",", ".", "utf-8", "its only one")))
detected_format_options = _format_options("detected", "detected", "detected", "its only one")
table_options = together(
    in_section(DATA, "--label", help="Column to predict; it must have two values."),
    in_section(
        DATA,
        "--positive",
        help="The label's value that is a positive decision; needed unless they are 0/1, false/true or no/yes.",
    ),
    in_section(
        DATA,
        "--sensitive",
        type=NAMES,
        help="Protected columns, separated by commas; several form intersections. A named data set has its own by "
        "default; `fairdp data list` shows which others it can protect.",
    ),
    in_section(
        DATA,
        "--schema",
        type=click.Path(path_type=Path),
        help="Declared types, categories and bounds of the columns (YAML or JSON).",
    ),
    in_section(
        DATA,
        "--test-fraction",
        type=float,
        default=0.2,
        show_default=True,
        help="Fraction of TABLE kept for testing; 0 for none.",
    ),
    format_options,
)
data_options = together(
    in_section(DATA, "--dataset", help="A named data set; see `fairdp data list`."),
    table_options,
    in_section(
        DATA,
        "--test",
        type=click.Path(path_type=Path),
        help="Labelled table to test on; all of TABLE is then used.",
    ),
    in_section(
        DATA,
        "--cache",
        type=click.Path(path_type=Path, file_okay=False),
        help="Folder that keeps TABLE as --schema encodes it, for further runs; as private as TABLE.",
    ),
)
# What commands that train a model write.
model_options = together(
    in_section(OUTPUT, "--out", type=click.Path(path_type=Path), help="Folder for the trained model."),
    in_section(OUTPUT, "--overwrite", is_flag=True, help="Replace the model that is in --out."),
    in_section(OUTPUT, "--private-metrics", is_flag=True, help="Report only metrics that may be published."),
)


ledger_options = together(
    in_section(
        PRIVACY,
        "--ledger",
        type=click.Path(dir_okay=False, path_type=Path),
        help="File that adds up what is spent on TABLE.  [default: $FAIRDP_LEDGER, or one for each user]",
    ),
    in_section(
        PRIVACY, "--no-ledger", is_flag=True, help="Add nothing up, for experiments; the statement then says so."
    ),
    in_section(
        PRIVACY,
        "--budget",
        type=float,
        help="Refuse to spend if all entries of TABLE together would pass this epsilon.",
    ),
)


def taken_ledger(parameters: dict[str, Any]) -> Path | None:
    """Where a command adds up what it spends, taken out of its options."""
    from fairdp.ledger.book import ledger_path

    named, none = parameters.pop("ledger"), parameters.pop("no_ledger")
    if none and named is not None:
        raise click.UsageError("give --ledger or --no-ledger, not both.")
    return None if none else named or ledger_path()


def taken_source(parameters: dict[str, Any]) -> "Source":
    """Where a command's records come from, taken out of its options."""
    from fairdp.commands.records import Source

    names_of_options = (
        "table",
        "dataset",
        "label",
        "positive",
        "sensitive",
        "schema",
        "test_fraction",
        "test",
        "cache",
    )
    given = {name: parameters.pop(name) for name in names_of_options}
    typed = click.get_current_context().get_parameter_source("test_fraction") is not ParameterSource.DEFAULT
    if given["test"] is not None and typed:
        raise click.UsageError("give --test or --test-fraction, not both.")
    return Source(**{**given, "sensitive": given["sensitive"] or ()}, written=taken_format(parameters))


def taken_format(parameters: dict[str, Any]) -> "TableFormat":
    """How a table is written, taken out of a command's options."""
    from fairdp.data.formats import FORMAT_KEYS, TableFormat

    return TableFormat(**{key: parameters.pop(key) for key in FORMAT_KEYS})


def make_folder(folder: Path) -> None:
    """Make the folder before the work starts, so that a long run does not end with nowhere to write."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.BadParameter(f"{str(folder)!r} cannot be written: {error.strerror}.", param_hint="--out") from None
    if not os.access(folder, os.W_OK):
        raise click.BadParameter(f"{str(folder)!r} cannot be written.", param_hint="--out")
