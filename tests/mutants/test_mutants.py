"""The tool that puts mistakes into the code, every mutant's text and check, and today's twenty against their checks."""

import ast
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

import pytest

from fairdp.methods import METHODS
from mutants import run
from mutants.changing import Mutant, NotChanged, put_in
from mutants.tables import FORMULAS, RESULTS, Outcome, by_method, tables

SCRATCH = """
from dataclasses import dataclass
from functools import cached_property, lru_cache, wraps

LIMIT, OTHER = 3, 4


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
"""


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    """A module of its own, with what others have imported from it."""
    (tmp_path / "scratch_module.py").write_text(SCRATCH)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "scratch_module", raising=False)
    yield importlib.import_module("scratch_module")
    sys.modules.pop("scratch_module", None)


CHANGES = {
    "function": ("return factor * x + LIMIT", "return factor * x - LIMIT", lambda module: module.plain(0), (3, -3)),
    "default": ("plain(x, factor=2)", "plain(x, factor=9)", lambda module: module.plain(1), (5, 12)),
    "constant": ("LIMIT, OTHER = 3, 4", "LIMIT, OTHER = 30, 4", lambda module: module.plain(0), (3, 30)),
    "cache": (
        "def cached(x):\n    return x + 1",
        "def cached(x):\n    return x",
        lambda module: module.cached(9),
        (10, 9),
    ),
    "wraps": ("def wrapped(x):\n    return x + 1", "def wrapped(x):\n    return x", lambda m: m.wrapped(9), (10, 9)),
    "method": ("return self.size + 1", "return self.size", lambda module: module.Box().method(), (6, 5)),
    "field": ("size: int = 5", "size: int = 50", lambda module: module.Box().size, (5, 50)),
    "attribute": ('kind = "small"', 'kind = "large"', lambda module: module.Box.kind, ("small", "large")),
    "property": ("return self.size + 2", "return self.size", lambda module: module.Box().prop, (7, 5)),
    "cached property": ("return self.size + 3", "return self.size", lambda module: module.Box().once, (8, 5)),
    "class method": ("cls(size=6)", "cls(size=60)", lambda module: module.Box.made().size, (6, 60)),
    "static method": ("return 7", "return 70", lambda module: module.Box.alone(), (7, 70)),
}


def mistake(old: str, new: str, **more: str) -> Mutant:
    return Mutant(name="a mistake", area="here", module="scratch_module", old=old, new=new, **more)


@pytest.mark.parametrize("kind", CHANGES)
def test_whoever_holds_what_is_changed_makes_the_mistake(kind, scratch, monkeypatch):
    old, new, ask, (before, after) = CHANGES[kind]
    # Numbers are bound anew in this package's own modules alone.
    monkeypatch.setitem(sys.modules, "fairdp.scratch", scratch)
    held = functools.partial(ask, scratch)
    if kind != "cache":
        assert held() == before
    put_in(mistake(old, new))
    assert held() == after


def test_what_cannot_be_put_in_is_an_error(scratch):
    for old, new in (("no such text", ""), ("return", "pass"), ("return 7", "return  7"), ("class Box", "class Crate")):
        with pytest.raises(NotChanged):
            put_in(mistake(old, new))
    with pytest.raises(NotChanged, match=r"there is no Box\.other"):
        put_in(mistake("return 7", "return 8", within="Box.other"))
    put_in(mistake("return self.size", "return self.kind", within="Box.method"))
    assert scratch.Box().prop == 7


CHECK = "test_randomness.py::test_a_derived_key_has_the_length_that_was_asked_for"
THREE = {
    "killed": ("digest_size=n_bytes", "digest_size=32", CHECK),
    "survived": ('return "Chain()"', 'return "chain"', CHECK),
    "not found": ("no such text", "", CHECK),
    "no check": ("digest_size=n_bytes", "digest_size=16", "test_randomness.py::test_that_is_not_there"),
}


def test_a_mutant_is_killed_or_survives_and_one_without_an_answer_is_an_error():
    """In a process of its own, as it is copied; the check that is not there fails on the true code too."""
    program = f"""
import json, sys
sys.path[:0] = {[str(run.TESTS.parent / "src"), str(run.TESTS)]!r}
import fairdp.randomness
from mutants import run
from mutants.changing import Mutant
three = {THREE!r}
made = [Mutant(name=n, area="", module="fairdp.streams", old=o, new=w, checks=(c,)) for n, (o, w, c) in three.items()]
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
    assert len(everything()) >= 200
    assert len(argued) <= 0.05 * len(everything())
    assert all(bool(mutant.checks) != bool(mutant.argued) for mutant in everything())


def problems(mutant: Mutant) -> Iterator[str]:
    """Why a mutant could not be put into the code, or its check not be run."""
    try:
        ast.parse(mutant.source()[1])
    except (NotChanged, SyntaxError) as error:
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
    made = [mistake("a", "b") for _ in range(3)]
    made = [
        replace(m, area=FORMULAS, name=name) for m, name in zip(made, ("x: one", "x: two", "y: three"), strict=True)
    ]
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
    assert {method for method, own in table.items() if own.get("killed", 0) < 10} == few
    # Those that are missing share their formulas with `fairfm`, or have a test file of their own.
    assert METHODS.keys() - table.keys() <= {"fairfm_smooth", "fairdp_frontier"}


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
