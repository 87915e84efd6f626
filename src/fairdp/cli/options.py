"""The parts that commands are made of: help with headings, options they share, and how values are read."""

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from fairdp.cli.terminal import help_in_flags
from fairdp.parameters import CERTIFICATE, DATA, DECLARED, EXPERT, PRIVACY, TARGET, Declaration

if TYPE_CHECKING:
    from fairdp.data.schema import TableFormat
    from fairdp.records import Source


SEARCH, OUTPUT = "Search", "Output"
SECTIONS = (DATA, SEARCH, PRIVACY, TARGET, CERTIFICATE, OUTPUT, EXPERT)

# Width of the flags, the same under all headings; longer ones get their own line.
_WIDTH, _NARROW = 30, 20

# The name of what shows all options, and the note that it was asked for.
_ALL = "help_all"
SIZES = "women=900,men=1100"
Decorated = Callable[..., Any]
Decorator = Callable[[Decorated], Decorated]


class Option(click.Option):
    """An option that knows its heading, and asks for its default in words when its help is read.

    The words follow from the methods, whose modules take a second to load.
    """

    def __init__(self, *args: Any, section: str, in_words: Callable[[], str] | None = None, **kwargs: Any) -> None:
        self._in_words = in_words
        super().__init__(*args, **kwargs)
        self.section = section

    @property
    def help(self) -> str | None:
        """The help, with the default."""
        default = self._in_words() if self._in_words else ""
        return f"{self._help}  [default: {default}]" if default else self._help

    @help.setter
    def help(self, text: str | None) -> None:
        self._help = text


class SectionedCommand(click.Command):
    """A command with so many options that its help needs headings, and shows the ``common`` ones unless asked."""

    def __init__(self, *args: Any, common: tuple[str, ...] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.common = {*common, "out", "overwrite", "verbose", "as_json", _ALL}
        self.params.append(
            Option(
                ["--help-all"],
                section=OUTPUT,
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=_show_all,
                help="Show all options and exit.",
            )
        )

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, each under its heading."""
        left_out, width = 0, _WIDTH if ctx.meta.get(_ALL) else _NARROW
        for section, options in options_by_section(self, ctx).items():
            shown = [option for option in options if ctx.meta.get(_ALL) or option.name in self.common]
            left_out += sum(option not in shown and "--help" not in option.opts for option in options)
            records = [record for option in shown if (record := option.get_help_record(ctx)) is not None]
            if records:
                with formatter.section(section):
                    formatter.write_dl([(flags.ljust(width), text) for flags, text in records])
        if left_out:
            formatter.write_paragraph()
            formatter.write_text(f"{ctx.command_path} --help-all shows {left_out} more options.")


def _show_all(ctx: click.Context, param: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        ctx.meta[_ALL] = True
        click.echo(ctx.get_help())
        ctx.exit()


class OrderedGroup(click.Group):
    """A group whose help lists its commands in the order of work, each with its whole first sentence.

    Those that were added under a heading stand under it, with a summary of one line. One that is named as
    ``module:command`` is imported when it is called, or asked for its help.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._headings: dict[str, str] = {}
        self._summaries: dict[str, str] = {}
        self._elsewhere: dict[str, str] = {}

    def add_commands(self, heading: str, summaries: Mapping[click.Command | str, str]) -> None:
        """Add commands under a heading."""
        for command, summary in summaries.items():
            if isinstance(command, str):
                name = command.partition(":")[2].replace("_", "-")
                self._elsewhere[name] = command
            else:
                self.add_command(command)
                name = str(command.name)
            self._headings[name], self._summaries[name] = heading, summary

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands as they were added."""
        return list(self._headings) or list(self.commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A command, imported now if it is one from elsewhere."""
        if cmd_name in self._elsewhere and cmd_name not in self.commands:
            module, _, attribute = self._elsewhere[cmd_name].partition(":")
            self.add_command(getattr(import_module(module), attribute), cmd_name)
        return super().get_command(ctx, cmd_name)

    def every_command(self) -> dict[str, click.Command]:
        """All commands by name, imported."""
        with click.Context(self) as context:
            found = {name: self.get_command(context, name) for name in self.list_commands(context)}
        return {name: command for name, command in found.items() if command is not None}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands; click would cut most sentences in their middle."""
        names = self.list_commands(ctx)
        width = max(map(len, names))
        for heading in dict.fromkeys(self._headings.get(name, "Commands") for name in names):
            own = [name for name in names if self._headings.get(name, "Commands") == heading]
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), self._summary(name)) for name in own])

    def _summary(self, name: str) -> str:
        return self._summaries[name] if name in self._summaries else self.commands[name].get_short_help_str(limit=1000)


def options_by_section(command: click.Command, context: click.Context) -> dict[str, list[click.Option]]:
    """The options of a command by their headings; those without one go under the output."""
    options = [option for option in command.get_params(context) if isinstance(option, click.Option)]
    placed: dict[str, list[click.Option]] = {section: [] for section in SECTIONS}
    for option in options:
        placed[option.section if isinstance(option, Option) else OUTPUT].append(option)
    return {section: found for section, found in placed.items() if found}


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


def read_grid(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, list[Any]]:
    """Read ``weight_bound=.25,.5`` as a parameter with its values, ``hidden=[32],[16,16]`` as one with lists."""
    grid: dict[str, list[Any]] = {}
    for text in values:
        name, equals, rest = text.partition("=")
        if not equals or not rest.strip():
            raise click.BadParameter(f"{text!r} is not a parameter with values, such as weight_bound=.25,.5,1.")
        parts = re.findall(r"[^,\[\]]*\[[^\]]*\]|[^,]+", rest)
        grid.setdefault(name.strip().replace("-", "_"), []).extend(_value(part.strip()) for part in parts)
    return grid


def _value(text: str) -> Any:
    """A whole number, a number, a list, a truth value, None, or else a word."""
    if text.startswith("["):
        return tuple(_value(part.strip()) for part in text.strip("[]").split(",") if part.strip())
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return {"true": True, "false": False, "none": None, "null": None}.get(text.lower(), text)


def parameter_options(*names: str, **defaults: str) -> Decorator:
    """Options for parameters of the estimator, with the declared help, default and choices.

    ``defaults`` says some in other words, where the declared ones name an option that the command lacks.
    """
    return together(*(_parameter_option(DECLARED[name], defaults.get(name)) for name in names))


def _parameter_option(declared: Declaration, default: str | None) -> Decorator:
    assert declared.flags is not None

    def in_words() -> str:
        from fairdp.defaults import default_text

        if declared.kind is bool:
            return "yes" if declared.default else ""
        return help_in_flags(default_text(declared.name) if default is None else default)

    reads: dict[str, Any] = {"type": click.Choice(declared.choices) if declared.choices else None}
    if declared.kind is bool:
        reads = {}
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
        help=help_in_flags(declared.help),
        in_words=in_words,
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
    """Options for the format of a file, with the values that hold where nobody gives them."""
    cells = f"Field separator of a text file, or 'tab'.  [default: {sep}]"
    thousands, days = "a point, comma, blank or '' for none.", "Whether dates are written day, month, year."
    return together(
        in_section(DATA, "--sep", metavar="CHAR", help=cells),
        in_section(DATA, "--decimal", type=click.Choice([".", ","]), help=f"Decimal mark.  [default: {decimal}]"),
        in_section(DATA, "--thousands", metavar="CHAR", help=f"Thousands separator: {thousands}"),
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
        help="Label value of the positive class; required unless labels are 0/1, false/true or no/yes.",
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
        help="Refuse to spend if all entries of TABLE together would exceed this epsilon.",
    ),
)


def taken_ledger(parameters: dict[str, Any]) -> Path | None:
    """Where a command adds up what it spends, taken out of its options."""
    from fairdp.ledger.ledger import ledger_path

    named, none = parameters.pop("ledger"), parameters.pop("no_ledger")
    if none and named is not None:
        raise click.UsageError("give --ledger or --no-ledger, not both.")
    return None if none else named or ledger_path()


def pop_source_options(parameters: dict[str, Any]) -> "Source":
    """Where a command's records come from, taken out of its options."""
    from fairdp.records import Source

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
    """The format of a table, taken out of a command's options."""
    from fairdp.data.schema import FORMAT_KEYS, TableFormat

    return TableFormat(**{key: parameters.pop(key) for key in FORMAT_KEYS})


def make_folder(folder: Path) -> None:
    """Make the folder before the work starts, so that a long run does not end with nowhere to write."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.BadParameter(f"{str(folder)!r} cannot be written: {error.strerror}.", param_hint="--out") from None
    if not os.access(folder, os.W_OK):
        raise click.BadParameter(f"{str(folder)!r} cannot be written.", param_hint="--out")
