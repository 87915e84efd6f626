"""The tool that puts mistakes into the code, the pattern and check of every mutant, and today's twenty."""

import functools
import importlib
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairdp.methods import METHODS
from mutants import changing, run
from mutants.changing import Mutant, NotChanged, put_in
from mutants.run import FORMULAS, RESULTS, Outcome, by_method, tables

SCRATCH = """
from dataclasses import dataclass
from functools import cached_property, lru_cache, wraps

import click

LIMIT, OTHER = 3, 4
TABLE = {key: 2 * key for key in range(3)}


def logged(function):
    @wraps(function)
    def inner(*given):
        return function(*given)
    return inner


def plain(x, factor=2):
    return factor * x + LIMIT


@lru_cache
def cached(x):
    return x + 1


@logged
def wrapped(x):
    return x + 1


@click.command()
@click.option("--x", default=1)
def command(x):
    return x + 1


@dataclass(frozen=True)
class Box:
    size: int = 5
    kind = "small"

    def method(self):
        return self.size + 1

    @property
    def prop(self):
        return self.size + 2

    @cached_property
    def once(self):
        return self.size + 3

    @classmethod
    def made(cls):
        return cls(size=6)

    @staticmethod
    def alone():
        return 7


def twice():
    return plain(0) + plain(0)


def branching(number):
    if number > 5:
        return [part for part in range(number)]
    return []
"""


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    """A module of a package beside the others, with what others have imported from it."""
    (tmp_path / "fairdp_scratch").mkdir()
    (tmp_path / "fairdp_scratch" / "first.py").write_text(SCRATCH)
    (tmp_path / "fairdp_scratch" / "second.py").write_text("def plain(y):\n    return y / 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(changing, "SOURCES", tmp_path)
    yield importlib.import_module("fairdp_scratch.first")
    for name in [name for name in sys.modules if name.startswith("fairdp_scratch")]:
        del sys.modules[name]


CHANGES = {
    "function": ("plain", "$a + LIMIT", "$a - LIMIT", lambda module: module.plain(0), (3, -3)),
    "default": ("plain", "2", "9", lambda module: module.plain(1), (5, 12)),
    "constant": ("LIMIT", "LIMIT, OTHER = 3, $b", "LIMIT, OTHER = 30, $b", lambda module: module.plain(0), (3, 30)),
    "table": ("TABLE", "2 * $key", "3 * $key", lambda module: module.TABLE[1], (2, 3)),
    "cache": ("cached", "$x + 1", "$x", lambda module: module.cached(9), (10, 9)),
    "wraps": ("wrapped", "$x + 1", "$x", lambda module: module.wrapped(9), (10, 9)),
    "command": ("command", "$x + 1", "$x", lambda module: module.command.main([], standalone_mode=False), (2, 1)),
    "method": ("Box.method", "self.size + 1", "self.size", lambda module: module.Box().method(), (6, 5)),
    "field": ("Box", "size: int = 5", "size: int = 50", lambda module: module.Box().size, (5, 50)),
    "attribute": ("Box", "kind = $a", "kind = 'large'", lambda module: module.Box.kind, ("small", "large")),
    "property": ("Box.prop", "self.size + 2", "self.size", lambda module: module.Box().prop, (7, 5)),
    "cached property": ("Box.once", "self.size + 3", "self.size", lambda module: module.Box().once, (8, 5)),
    "class method": ("Box.made", "cls(size=6)", "cls(size=60)", lambda module: module.Box.made().size, (6, 60)),
    "static method": ("Box.alone", "return 7", "return 70", lambda module: module.Box.alone(), (7, 70)),
    "inner function": ("logged.inner", "$f(*$x)", "$f(*$x) + 5", lambda m: m.logged(m.plain)(0), (3, 8)),
    "condition": ("branching", "if $n > 5: $body", "if $n >= 5: $body", lambda m: len(m.branching(5)), (0, 5)),
    "several statements": ("branching", "if $n > 5: $body\nreturn $no", "$body", lambda m: len(m.branching(2)), (0, 2)),
    "bound name": (
        "branching",
        "[$i for $i in range($n)]",
        "[$n for $i in range(1)]",
        lambda m: m.branching(6),
        ([*range(6)], [6]),
    ),
}


def mistake(within: str, old: str, new: str, **more: Any) -> Mutant:
    return Mutant(name="a mistake", area="here", within=within, old=old, new=new, **more)


@pytest.mark.parametrize("kind", CHANGES)
def test_whoever_holds_what_is_changed_makes_the_mistake(kind, scratch):
    within, old, new, ask, (before, after) = CHANGES[kind]
    held = functools.partial(ask, scratch)
    if kind != "cache":
        assert held() == before
    put_in(mistake(within, old, new))
    assert held() == after


NOT_CHANGED = {
    "no such pattern": ("twice", "plain(1)", "0", "0 times"),
    "other names in two places": ("plain", "$a + $a", "$a", "0 times"),
    "two matches": ("twice", "plain(0)", "0", "2 times"),
    "no such function": ("Box.other", "7", "8", "Box.other of no module"),
    "no syntax": ("twice", "plain(", "0", "never closed"),
    "nothing": ("twice", "", "0", "empty pattern"),
    "no change": ("Box.alone", "return 7", "return  7", "same functions"),
    "another name": ("LIMIT", "LIMIT, OTHER = $a", "LIMIT, BOTH = $a", "others by name"),
    "a name that is not there": ("plain", "$a + LIMIT", "$a + unheard", "does not know unheard"),
    "a metavariable of the new pattern alone": ("plain", "$a + LIMIT", "$a + $b", r"does not know \$b"),
}


@pytest.mark.parametrize("kind", NOT_CHANGED)
def test_what_cannot_be_put_in_is_an_error(kind, scratch):
    within, old, new, message = NOT_CHANGED[kind]
    with pytest.raises(NotChanged, match=message):
        put_in(mistake(within, old, new))


def test_which_of_several_matches_is_meant_can_be_said(scratch):
    put_in(mistake("twice", "plain(0)", "10 * plain(0)", nth=2))
    assert scratch.twice() == 33
    for within, old, times in (("twice", "plain(0)", 2), ("Box.alone", "7", 1)):
        with pytest.raises(NotChanged, match=f"{times} times"):
            put_in(mistake(within, old, "0", nth=times + 1))


def test_of_modules_with_the_same_function_the_pattern_decides_or_the_name_of_the_module(scratch):
    assert mistake("plain", "$y / 3", "$y").changed()[0] == "fairdp_scratch.second"
    with pytest.raises(NotChanged, match=r"fairdp_scratch\.first, fairdp_scratch\.second .* 2 times"):
        mistake("plain", "return $a", "return None").changed()
    assert mistake("plain", "return $a", "return None", module="first").changed()[0] == "fairdp_scratch.first"


CHECK = "test_randomness.py::test_a_derived_key_has_the_length_that_was_asked_for"
THREE = {
    "killed": ("derived_key", "$hash($a, key=$b, digest_size=$c)", "$hash($a, key=$b, digest_size=32)", CHECK),
    "survived": ("Chain.__repr__", "return 'Chain()'", "return 'chain'", CHECK),
    "not found": ("derived_key", "no_such_name", "0", CHECK),
    "no check": ("Chain.__repr__", "return 'Chain()'", "return 'chain'", "test_randomness.py::test_that_is_not_there"),
}


def test_a_mutant_is_killed_or_survives_and_one_without_an_answer_is_an_error():
    """In a process of its own, as it is copied; the check that is not there fails on the true code too."""
    # All that `conftest.py` needs is imported once, and not by each of the five copies.
    program = f"""
import json, sys
sys.path[:0] = {[str(run.TESTS.parent / folder) for folder in ("src", "tests", "tools")]!r}
import figure_records, golden_pages, hypothesis, pool
from mutants import run
from mutants.changing import Mutant
three = {THREE!r}
made = [Mutant(name=k, area="", within=f, old=o, new=n, checks=(c,)) for k, (f, o, n, c) in three.items()]
found = run.outcomes(made)
print(json.dumps({{name: outcome.verdict for name, outcome in found.items()}}))
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(ended.stdout.splitlines()[-1]) == {
        "true code: test_randomness.py": "error",
        "killed": "killed",
        "survived": "survived",
        "not found": "error",
        "no check": "error",
    }


@functools.cache
def everything() -> list[Mutant]:
    return run.mutants()


def test_there_are_enough_and_few_are_argued():
    argued = [mutant for mutant in everything() if mutant.argued]
    assert len(everything()) >= 400
    assert len(argued) <= 0.05 * len(everything())
    assert all(bool(mutant.checks) != bool(mutant.argued) for mutant in everything())


def problems(mutant: Mutant) -> Iterator[str]:
    """Reasons why a mutant cannot be put into the code, or its check not be run."""
    try:
        mutant.changed()
    except NotChanged as error:
        yield str(error)
    for check in mutant.checks:
        path, *names = check.split("[")[0].split("::")
        text = (run.TESTS / path).read_text(encoding="utf-8") if (run.TESTS / path).exists() else ""
        if not names or not all(re.search(rf"(def|class) {name}\b", text) for name in names):
            yield f"there is no {check}"


def test_every_mutant_still_fits_the_code_and_has_its_check():
    assert [(mutant.name, problem) for mutant in everything() for problem in problems(mutant)] == []


def test_the_table_is_that_of_these_mutants_and_none_is_left():
    table = json.loads((RESULTS / "mutants.json").read_text(encoding="utf-8"))
    listed = {row["name"]: row["verdict"] for row in table["mutants"]}
    assert listed.keys() == {mutant.name for mutant in everything()}
    assert set(listed.values()) <= {"killed", "killed by the time limit", "argued"}
    assert table["total"] == len(listed) == sum(table["summary"].values())
    assert table["summary"] == dict(Counter(listed.values()))


def test_mistakes_in_formulas_are_counted_by_method():
    made = [replace(mistake("f", "a", "b"), area=FORMULAS, name=name) for name in ("x: one", "x: two", "y: three")]
    elsewhere = replace(made[0], area="noise", name="x: of another area")
    found = {m.name: Outcome(verdict="killed") for m in [*made, elsewhere]} | {"x: two": Outcome(verdict="argued")}
    assert by_method([*made, elsewhere], found) == {"x": {"argued": 1, "killed": 1}, "y": {"killed": 1}}
    plain, page = tables([*made, elsewhere], found)
    assert json.loads(plain)["by_method"] == by_method(made, found)
    assert "| `x` | 1 | 1 |\n| `y` | 0 | 1 |\n" in page


def test_every_method_has_enough_mistakes_in_its_formulas_and_all_are_noticed():
    table = json.loads((RESULTS / "mutants.json").read_text(encoding="utf-8"))["by_method"]
    assert table.keys() <= METHODS.keys()
    few = {"clean"}  # It is DP-SGD without two things.
    assert {method for method, own in table.items() if own.get("killed", 0) < 7} == few
    # What is missing shares its formulas with `fairfm`.
    lacking = METHODS.keys() - table.keys()
    assert lacking <= {"fairfm_smooth"}, "add seven mistakes 'NAME: …' to formulas.toml, then make mutants"


def test_the_twenty_are_others_every_day_and_the_same_all_day():
    first, again, other = (
        [m.name for m in run.twenty(everything(), day)] for day in ("2026-01-01",) * 2 + ("2026-01-02",)
    )
    assert first == again != other
    assert len(set(first)) == 20


@pytest.mark.more
def test_todays_twenty_are_noticed():
    program = Path(run.__file__)
    ended = subprocess.run([sys.executable, str(program), "--twenty"], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-1000:]
