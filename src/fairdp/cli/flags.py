"""Texts for the command line: flags instead of parameters."""

import click

from fairdp._checks import InputError, in_words
from fairdp.config.parameters import DECLARED

_FLAGS = {name: declared.flag for name, declared in DECLARED.items() if declared.flag is not None}


def in_flags(error: InputError, command: click.Command) -> str:
    """The message of an error, with the flags of a command in place of the parameters it mentions."""
    typed = {str(option.name): option.opts[0] for option in command.params if isinstance(option, click.Option)}
    arguments = [argument for argument in command.params if isinstance(argument, click.Argument)]
    typed |= {str(argument.name): argument.human_readable_name for argument in arguments}
    return error.in_words_of(lambda name: typed.get(name, name))


def help_in_flags(text: str) -> str:
    """The text of a declaration, with flags for parameters.

    >>> help_in_flags("Not a guarantee: see `require_tau`. `fairdp methods` lists them; `fairdp` is one.")
    'Not a guarantee: see --require-tau. `fairdp methods` lists them; fairdp is one.'
    """
    return in_words(text, lambda name: _FLAGS.get(name, name))
