"""Flags that stand for parameters say and do what is declared; the help shows them under headings."""

import click
import pytest

from fairdp.cli import fairdp
from fairdp.cli.options import NAMES, NUMBERS, SECTIONS, WHOLE_NUMBERS, SectionedCommand, options_by_section
from fairdp.cli.terminal import help_in_flags
from fairdp.defaults import default_text
from fairdp.parameters import DECLARED, GROUPS

# Flags of the same name that mean something else.
OTHERS = {("plan", "group_sizes"), ("plan", "positive_rate"), ("certify", "epsilon"), ("evaluate", "confidence")}
OTHERS |= {("audit", "method"), ("audit", "epsilon"), ("paper-bounds", "confidence")}
# A search states an epsilon, and takes no noise.
OTHER_DEFAULTS = {("tune", "epsilon"): "1"}
# Commands have a ledger by default.
OTHERS |= {(name, "ledger") for name in ("fit", "tune", "certify", "compare")}
FLAGS = [
    pytest.param(command, option, id=f"{name} {option.opts[0]}")
    for name, command in fairdp.every_command().items()
    for option in command.params
    if isinstance(option, click.Option) and option.name in DECLARED and (name, option.name) not in OTHERS
]
SECTIONED = [name for name, command in fairdp.every_command().items() if isinstance(command, SectionedCommand)]


@pytest.mark.parametrize(("command", "option"), FLAGS)
def test_a_flag_says_what_is_declared(command, option):
    declared = DECLARED[option.name]
    assert option.opts == [declared.flag]
    # What a command passes on if the flag is left out.
    assert option.get_default(click.Context(command, **fairdp.context_settings)) == declared.default
    assert option.help.startswith(help_in_flags(declared.help))
    if declared.kind is not bool:
        default = OTHER_DEFAULTS.get((command.name, option.name), help_in_flags(default_text(option.name)))
        assert option.help.endswith(f"  [default: {default}]") == bool(default)
    if declared.choices:
        assert tuple(option.type.choices) == declared.choices


def test_fit_has_every_flag_that_is_declared():
    flags = {option.opts[0] for option in fairdp.every_command()["fit"].params}
    assert {declared.flag for declared in DECLARED.values()} - flags == {None}


def test_the_sections_are_the_groups_of_the_estimator():
    assert [section for section in SECTIONS if section in GROUPS] == list(GROUPS)
    context = click.Context(fairdp.every_command()["fit"], **fairdp.context_settings)
    placed = options_by_section(fairdp.every_command()["fit"], context)
    assert {option.name: name for name, own in placed.items() for option in own}.items() >= {
        (name, declared.group) for name, declared in DECLARED.items() if declared.flag
    }


@pytest.mark.parametrize("name", SECTIONED)
def test_help_shows_every_option_once_under_a_heading(run, name):
    text = run(name, "--help-all").out
    headings = [line.removesuffix(":") for line in text.splitlines() if line and line.removesuffix(":") in SECTIONS]
    assert headings == [section for section in SECTIONS if section in headings]
    assert headings[0] == "Data and model"
    for option in fairdp.every_command()[name].params:
        if isinstance(option, click.Option):
            assert sum(line.split()[:1] == [option.opts[0]] for line in text.splitlines()) == 1, option.name
    assert "`method`" not in text


@pytest.mark.parametrize("name", SECTIONED)
def test_short_help_fits_two_screens_and_says_how_many_options_it_leaves_out(run, name):
    short, whole = run(name, "--help").out, run(name, "--help-all").out
    assert len(short.splitlines()) <= 48
    assert max(map(len, whole.splitlines())) <= 130
    options = {o.opts[0] for o in fairdp.every_command()[name].params if isinstance(o, click.Option)}
    shown = {flag for flag in options if f"\n  {flag} " in short or f"\n  {flag}\n" in short}
    assert f"fairdp {name} --help-all shows {len(options - shown)} more options." in short
    assert {"--epsilon", "--json", "--help-all"} < shown < options
    assert "more options" not in whole


def test_the_three_large_commands_have_headings():
    assert SECTIONED == ["fit", "tune", "plan"]


def test_lists_are_read():
    assert NAMES.convert("sex, region", None, None) == ("sex", "region")
    assert NUMBERS.convert(".007,.005", None, None) == (0.007, 0.005)
    assert WHOLE_NUMBERS.convert("64,32", None, None) == (64, 32)
    assert WHOLE_NUMBERS.convert((32,), None, None) == (32,)
    for kind, text in ((NUMBERS, "fast"), (WHOLE_NUMBERS, "1.5"), (WHOLE_NUMBERS, "")):
        with pytest.raises(click.BadParameter, match="is not a list such as"):
            kind.convert(text, None, None)
