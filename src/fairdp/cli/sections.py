"""Help under headings, in the order in which people need it."""

from typing import Any

import click

from fairdp.config.parameters import CERTIFICATE, DATA, EXPERT, PRIVACY, TARGET

SEARCH, OUTPUT = "Search", "Output"
# Width of the flags, the same under all headings; longer ones get their own line.
_WIDTH = 30
SECTIONS = (DATA, SEARCH, PRIVACY, TARGET, CERTIFICATE, OUTPUT, EXPERT)


class Option(click.Option):
    """An option that knows its heading."""

    def __init__(self, *args: Any, section: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.section = section


class SectionedCommand(click.Command):
    """A command with so many options that its help needs headings."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, each under its heading."""
        for section, options in options_by_section(self, ctx).items():
            records = [record for option in options if (record := option.get_help_record(ctx)) is not None]
            with formatter.section(section):
                formatter.write_dl([(flags.ljust(_WIDTH), text) for flags, text in records])


class OrderedGroup(click.Group):
    """A group whose help lists its commands in the order of work, each with its whole first sentence."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands as they were added."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands; click would cut most sentences in their middle."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, own.get_short_help_str(limit=1000)) for name, own in self.commands.items()])


def options_by_section(command: click.Command, context: click.Context) -> dict[str, list[click.Option]]:
    """The options of a command by their headings; those without one go under the output."""
    options = [option for option in command.get_params(context) if isinstance(option, click.Option)]
    placed = {section: [option for option in options if _section_of(option) == section] for section in SECTIONS}
    return {section: found for section, found in placed.items() if found}


def _section_of(option: click.Option) -> str:
    return option.section if isinstance(option, Option) else OUTPUT
