"""Texts in the words of the command line: flags instead of parameters."""

import re

import click

from fairdp._checks import InputError, in_words
from fairdp.config.parameters import DECLARED

_FLAGS = {name: declared.flag for name, declared in DECLARED.items() if declared.flag is not None}


# What stands in quotes is a user's own word: a column, a file, a value. The apostrophe of a word opens none.
_QUOTED = r"""(?<!\w)(?:'[^']*'|"[^"]*")"""


def in_flags(error: Exception, command: click.Command) -> str:
    """The message of an error, with what the user of a command types in place of the parameters that it mentions."""
    if not isinstance(error, InputError):
        return with_flags(str(error), command)
    typed = {str(own.name): own.opts[0] for own in command.params if isinstance(own, click.Option)}
    typed |= {str(own.name): own.human_readable_name for own in command.params if isinstance(own, click.Argument)}
    return error.in_words_of(lambda name: typed.get(name, name))


def help_in_flags(text: str) -> str:
    """The text of a declaration, with flags for parameters.

    >>> help_in_flags("Not a guarantee: see `require_tau`. `fairdp methods` lists them; `fairdp` is one.")
    'Not a guarantee: see --require-tau. `fairdp methods` lists them; fairdp is one.'
    """
    return in_words(text, lambda name: _FLAGS.get(name, name))


def with_flags(message: str, command: click.Command) -> str:
    """The message with parameters that are options of the command replaced by the flags that its user types.

    Every parameter is meant by ``name=``, and by its name where that begins the message and a verb follows. A name with
    an underscore is no word of prose, so it is meant elsewhere too, but not in a list, which may be of columns.

    >>> fit = click.Command("fit", params=[click.Option(["--looks", "n_looks"]), click.Option(["--model"])])
    >>> with_flags("n_looks=3 is too much for this model; see the column 'n_looks' or set n_looks.", fit)
    "--looks=3 is too much for this model; see the column 'n_looks' or set --looks."
    """
    flags = {str(option.name): option.opts[0] for option in command.params if isinstance(option, click.Option)}

    def flag(match: re.Match[str]) -> str:
        name = match["assigned"] or match["subject"] or match["plain"] or ""
        return flags.get(name, match[0])

    before, after = r"(?<![\w./-])", r"(?![\w,/-]|\.\w)"
    assigned = before + r"(?P<assigned>\w+)(?==)"
    subject = r"^(?P<subject>\w+)(?= (?:must|needs|is)\b)"
    plain = r"(?<!, )" + before + r"(?P<plain>\w+_\w+)" + after
    return re.sub("|".join((_QUOTED, assigned, subject, plain)), flag, message)
