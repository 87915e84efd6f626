"""Write docs/reference/cli.md from the commands themselves: `python docs/cli_reference.py`."""

import re
from collections.abc import Iterator
from pathlib import Path

import click

from fairdp.cli import fairdp
from fairdp.cli.options import SectionedCommand, options_by_section
from fairdp.defaults import of_group
from fairdp.parameters import GROUPS

PAGE = Path(__file__).parent / "reference" / "cli.md"
# Said once for all commands.
SHARED = {"--json", "--help", "--help-all"}
# Described on the page of parameters.
SETTINGS = {declared.name: declared.help for group in GROUPS for declared in of_group(group) if declared.flags}

OPENING = """# The command line

<!-- Made by `python docs/cli_reference.py`; change the help texts in src/fairdp/cli/ and in
src/fairdp/parameters.py instead. -->

`fairdp COMMAND --help` says the same as this page. Settings of a model are listed by name here, and described once,
under [Parameters](parameters.md). Every command also has

| option | meaning |
|---|---|
{shared}

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | done, but something asked for was missed: `--require-tau`, a stated target, `--strict`, or a check |
| 2 | bad input; one line on stderr says what to change ([troubleshooting](troubleshooting.md)) |
| 3 | a bug in fairdp; please report it |
| 130, 143 | interrupted (Ctrl-C), terminated (SIGTERM); no file is left half-written and no process behind |

| variable | meaning |
|---|---|
| `FAIRDP_DATA` | folder to search first for named data sets |
| `FAIRDP_LEDGER` | file of the [ledger](../explanation/ledger.md), in place of the one in `$XDG_DATA_HOME` |
| `FAIRDP_DEBUG` | if set, errors show a traceback |

**Completion.** To complete commands and options with the Tab key, add one line to your shell's start-up file:
`eval "$(_FAIRDP_COMPLETE=bash_source fairdp)"` in `~/.bashrc`, the same with `zsh_source` in `~/.zshrc`, and
`_FAIRDP_COMPLETE=fish_source fairdp | source` in `~/.config/fish/config.fish`.

| command | what it does |
|---|---|
{commands}
"""


def page() -> str:
    """The whole page."""
    found = list(_leaves(fairdp, "fairdp"))
    shared = [option for option in found[0][1].params if option.name == "as_json"]
    rows = [f"| [`{path}`](#{path.replace(' ', '-')}) | {_paragraphs(command)[0]} |" for path, command in found]
    opening = OPENING.format(shared="\n".join(_rows(found[0][1], shared)), commands="\n".join(rows))
    return opening + "".join(_section(path, command) for path, command in found)


def _leaves(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    """Commands that do something, in the order of the program."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        own = command.get_command(context, name)
        assert own is not None
        yield from _leaves(own, f"{path} {name}")


def _section(path: str, command: click.Command) -> str:
    # With the names of the help option that commands have under the group: click remembers the first it is asked for.
    context = click.Context(command, info_name=path, **fairdp.context_settings)
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    sections = options_by_section(command, context)
    if not isinstance(command, SectionedCommand):
        sections = {"": [option for option in command.params if isinstance(option, click.Option)]}
    options = [line for section, own in sections.items() for line in _table(command, section, own)]
    settings = [option.opts[-1] for own in sections.values() for option in own if _is_setting(option)]
    options += [f"[Parameters](parameters.md): {', '.join(f'`{flag}`' for flag in settings)}\n"] if settings else []
    examples = _examples(command)
    parts = [f"\n## {path}\n", "```", usage, "```\n", *(f"{text}\n" for text in _paragraphs(command)), *options]
    return "\n".join([*parts, "```", *examples, "```"]) + "\n"


def _is_setting(option: click.Option) -> bool:
    """True if an option is a parameter of a model, and no more than that is said of it."""
    return (option.help or "").startswith(SETTINGS.get(option.name or "", "\0"))


def _table(command: click.Command, section: str, options: list[click.Option]) -> list[str]:
    """The options under one heading, without those that every command has."""
    rows = _rows(command, [option for option in options if not SHARED & {*option.opts} and not _is_setting(option)])
    return [f"| {section or 'option'} | meaning |", "|---|---|", *rows, ""] if rows else []


def _rows(command: click.Command, options: list[click.Option]) -> list[str]:
    context = click.Context(command, **fairdp.context_settings)
    records = (option.get_help_record(context) for option in options)
    return [f"| `{_cell(name)}` | {_prose(_cell(text))} |" for name, text in filter(None, records)]


def _cell(text: str) -> str:
    return " ".join(text.replace("|", r"\|").split())


def _prose(text: str) -> str:
    """One paragraph in one line, with options as code."""
    return re.sub(r"(?<![\w`-])(--[a-z-]+)", r"`\1`", " ".join(text.split()))


def _paragraphs(command: click.Command) -> list[str]:
    return [_prose(text) for text in (command.help or "").split("\n\n")]


def _examples(command: click.Command) -> list[str]:
    lines = (command.epilog or "").splitlines()
    return [line.strip() for line in lines if re.match(r"\s+fairdp ", line)]


if __name__ == "__main__":
    PAGE.write_text(page())
