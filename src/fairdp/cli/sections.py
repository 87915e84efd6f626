"""Help under headings, in the order in which people need it."""

from collections.abc import Mapping
from typing import Any

import click

from fairdp.config.parameters import CERTIFICATE, DATA, EXPERT, PRIVACY, TARGET

SEARCH, OUTPUT = "Search", "Output"
# Width of the flags, the same under all headings; longer ones get their own line.
_WIDTH, _NARROW = 30, 20
# The name of what shows all options, and the note that it was asked for.
_ALL = "help_all"
SECTIONS = (DATA, SEARCH, PRIVACY, TARGET, CERTIFICATE, OUTPUT, EXPERT)


class Option(click.Option):
    """An option that knows its heading."""

    def __init__(self, *args: Any, section: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.section = section


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

    Those that were added under a heading stand under it, with a summary of one line.
    """

    def add_commands(self, heading: str, summaries: Mapping[click.Command, str]) -> None:
        """Add commands under a heading."""
        for command, summary in summaries.items():
            command.short_help = summary
            self.add_command(command)
            self._headings[str(command.name)] = heading

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._headings: dict[str, str] = {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands as they were added."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands; click would cut most sentences in their middle."""
        width = max(map(len, self.commands))
        for heading in dict.fromkeys(self._headings.get(name, "Commands") for name in self.commands):
            own = {
                name.ljust(width): command
                for name, command in self.commands.items()
                if self._headings.get(name, "Commands") == heading
            }
            with formatter.section(heading):
                formatter.write_dl([(name, command.get_short_help_str(limit=1000)) for name, command in own.items()])


def options_by_section(command: click.Command, context: click.Context) -> dict[str, list[click.Option]]:
    """The options of a command by their headings; those without one go under the output."""
    options = [option for option in command.get_params(context) if isinstance(option, click.Option)]
    placed = {section: [option for option in options if _section_of(option) == section] for section in SECTIONS}
    return {section: found for section, found in placed.items() if found}


def _section_of(option: click.Option) -> str:
    return option.section if isinstance(option, Option) else OUTPUT
