"""A mistake put into the code in memory: a pattern is found in the syntax of a function, and its match is replaced.

Everybody who imported a function holds the function itself, so its code is replaced in place; numbers and tables are
bound anew wherever the same object goes by the same name.
"""

import ast
import builtins
import re
import sys
import types
from collections import defaultdict
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import click

# The names of the project's packages begin alike.
SOURCES, PACKAGES = Path(__file__).resolve().parents[2] / "src", "fairdp"
# Python has no `$`, so that a metavariable `$x` is parsed as a name that nothing else has.
_META = "METAVARIABLE_"
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class NotChanged(ValueError):
    """A mutant that cannot be put into the code as it is now."""


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One mistake, and the check that should notice it.

    Parameters
    ----------
    name
        The mistake in words.
    area
        Name of the file that it comes from.
    within
        Function, class or constant in which it is made, as ``Class.method``, in whichever module.
    old, new
        Patterns: an expression or statements, and what replaces them. ``$x`` is any expression or name, the same one
        throughout; as the whole body of an ``if`` or a loop, it is any statements.
    nth
        Which match is meant, from 1, where there are several.
    module
        How the name of the module ends, where several have a match.
    checks
        Tests that should notice it, the first one first, as paths below ``tests``.
    argued
        Why no test can notice it, for a change that breaks no guarantee.
    """

    name: str
    area: str
    within: str
    old: str
    new: str
    nth: int = 0
    module: str = ""
    checks: tuple[str, ...] = ()
    argued: str = ""

    def changed(self) -> tuple[str, ast.Module, ast.Module]:
        """Name of the module, and its syntax without the mistake and with it."""
        old, new = _parsed(self.old, self.new)
        ending = self.module and f".{self.module}"
        places = [place for place in all_places(SOURCES)[self.within] if f".{place.module}".endswith(ending)]
        found = [(place, *match) for place in places for match in _matches(old, place.node)]
        if not (0 < self.nth <= len(found) if self.nth else len(found) == 1):
            where = ", ".join(sorted({place.module for place in places})) or "no module"
            raise NotChanged(f"{self.within} of {where} has the pattern {self.old!r} {len(found)} times.")
        place, nodes, start, bound = found[max(self.nth - 1, 0)]
        known = _bound(place.tree.body) | _names(place.unit) | _bound(new) | set(dir(builtins)) | bound.keys()
        if unknown := set().union(*map(_names, new)) - known:
            names = ", ".join(sorted(unknown)).replace(_META, "$")
            raise NotChanged(f"{self.within} of {place.module} does not know {names}.")
        made = _filled(new, bound)
        if isinstance(nodes, list):
            made = [*nodes[:start], *made, *nodes[start + len(old) :]] or [ast.Pass()]
        wrong = deepcopy(place.unit, {id(nodes): made if isinstance(nodes, list) else made[0]})
        first = place.tree.body.index(place.unit.body[0])
        body = [*place.tree.body[:first], *wrong.body, *place.tree.body[first + 1 :]]
        return place.module, place.tree, ast.Module(body, [])


@dataclass(frozen=True)
class _Place:
    """A function, class or constant, the statement of a module that holds it, and all of that module."""

    node: ast.AST
    unit: ast.Module
    tree: ast.Module
    module: str


@cache
def all_places(sources: Path) -> defaultdict[str, list[_Place]]:
    """Everything that the packages define, by its qualified name."""
    found = defaultdict(list)
    for path in sorted(sources.glob(f"{PACKAGES}*/**/*.py")):
        module = ".".join(path.relative_to(sources).with_suffix("").parts).removesuffix(".__init__")
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for unit in [ast.Module([statement], []) for statement in tree.body]:
            names = set() if isinstance(unit.body[0], (ast.Import, ast.ImportFrom)) else _bound(unit.body)
            for name, node in [*((name, unit) for name in names), *_inner(unit, "")]:
                found[name].append(_Place(node, unit, tree, module))
    return found


def _inner(node: ast.AST, outer: str) -> Iterator[tuple[str, ast.AST]]:
    """Functions and classes that are defined inside of others."""
    for child in ast.iter_child_nodes(node):
        name = f"{outer}.{child.name}".lstrip(".") if isinstance(child, _DEFINITIONS) else outer
        if outer and name != outer:
            yield name, child
        yield from _inner(child, name)


def _bound(nodes: Iterable[ast.AST]) -> set[str]:
    """Names that are bound here, and not inside of what is defined here."""
    inner = [node for outer in nodes for node in ([outer] if isinstance(outer, _DEFINITIONS) else ast.walk(outer))]
    names = {node.id for node in inner if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    names |= {node.arg for node in inner if isinstance(node, ast.arg)}
    names |= {node.name for node in inner if isinstance(node, _DEFINITIONS)}
    return names | {(node.asname or node.name).split(".")[0] for node in inner if isinstance(node, ast.alias)}


def _names(tree: ast.AST) -> set[str]:
    fields = {ast.Name: "id", ast.arg: "arg"}
    return {getattr(node, fields[type(node)]) for node in ast.walk(tree) if type(node) in fields}


def _parsed(*texts: str) -> list[list[Any]]:
    """Patterns, as an expression each if all of them are one, or else as statements."""
    try:
        bodies = [ast.parse(re.sub(r"\$(\w+)", rf"{_META}\1", text)).body for text in texts]
    except SyntaxError as error:
        raise NotChanged(f"{error} in {texts}") from None
    if not bodies[0]:
        raise NotChanged("an empty pattern would match everywhere.")
    if all([type(node) for node in body] == [ast.Expr] for body in bodies):
        return [[node.value for node in body] for body in bodies]
    return bodies


def _matches(old: list[Any], place: ast.AST) -> list[tuple[Any, int, dict[str, Any]]]:
    """Every match in the order of the text: a node, or a list and where in it, and what the metavariables are."""
    found = []
    for node in ast.walk(place):
        if isinstance(old[0], ast.expr):
            candidates = [(node, 0, [node])] if isinstance(node, ast.expr) else []
        else:
            lists = [value for _, value in ast.iter_fields(node) if isinstance(value, list)]
            candidates = [(nodes, i, nodes[i : i + len(old)]) for nodes in lists for i in range(len(nodes))]
        for nodes, i, candidate in candidates:
            bound: dict[str, Any] = {}
            if _match(old, candidate, bound):
                found.append(((candidate[0].lineno, candidate[0].col_offset), nodes, i, bound))
    return [match for _, *match in sorted(found, key=lambda match: match[0])]


def _metavariable(pattern: Any) -> str:
    """Name of the metavariable that a pattern is, an expression, an identifier or all statements of a body, or ""."""
    if isinstance(pattern, list) and len(pattern) == 1 and isinstance(pattern[0], ast.Expr):
        pattern = pattern[0].value
    name = getattr(pattern, "id", pattern)
    return name if isinstance(name, str) and name.startswith(_META) else ""


def _match(pattern: Any, node: Any, bound: dict[str, Any]) -> bool:
    """Compare a pattern with a node; metavariables that it meets for the first time are added to those bound."""
    if node and (name := _metavariable(pattern)) and isinstance(node, (str, ast.expr, list)):
        node = ast.Name(node, ast.Load()) if isinstance(node, str) else node
        return _match(bound.setdefault(name, node), node, {})
    if isinstance(pattern, list) and isinstance(node, list):
        return len(pattern) == len(node) and all(_match(*pair, bound) for pair in zip(pattern, node, strict=True))
    if isinstance(pattern, ast.AST) and type(pattern) is type(node):
        return all(_match(getattr(pattern, f), getattr(node, f), bound) for f in node._fields if f != "ctx")
    return type(pattern) is type(node) and pattern == node


def _filled(pattern: Any, bound: dict[str, Any]) -> Any:
    """A pattern with what its metavariables stand for."""
    if name := _metavariable(pattern):
        found = deepcopy(bound[name])
        if hasattr(found, "ctx") and not isinstance(pattern, str):
            found.ctx = pattern.ctx
        return found.id if isinstance(pattern, str) else found
    if isinstance(pattern, list):
        return [_filled(inner, bound) for inner in pattern]
    if isinstance(pattern, ast.AST):
        return type(pattern)(**{field: _filled(getattr(pattern, field), bound) for field in pattern._fields})
    return pattern


def put_in(mutant: Mutant) -> None:
    """Change the code of this process; whoever calls it afterwards makes the mistake."""
    name, true, wrong = mutant.changed()
    before, after = (
        {bound: ast.dump(node) for node in tree.body for bound in _bound([node])} for tree in (true, wrong)
    )
    if before == after or before.keys() != after.keys():
        raise NotChanged(f"{name} has the same functions and values as before, or others by name.")
    module, fresh = import_module(name), types.ModuleType(name)
    fresh.__dict__.update({key: vars(module)[key] for key in ("__file__", "__package__", "__spec__")})
    exec(compile(ast.fix_missing_locations(wrong), str(module.__file__), "exec"), fresh.__dict__)
    # The variables of a comprehension are bound in it alone.
    for bound in [bound for bound in after if after[bound] != before[bound] and bound in vars(fresh)]:
        old, new = getattr(module, bound), getattr(fresh, bound)
        if isinstance(old, type):
            _replace_class(old, new)
        elif _function(old) is not None:
            _replace_function(_function(old), _function(new))
        else:
            _bind_anew(bound, old, new)


def _function(value: Any) -> types.FunctionType | None:
    """The function behind a method, a property, a command or a decorated function."""
    if isinstance(value, click.Command):
        return _function(value.callback)
    if isinstance(value, property):
        return _function(value.fget)
    if isinstance(value, cached_property):
        return _function(value.func)
    # Class and static methods, `wraps` and `lru_cache`.
    if hasattr(value, "__wrapped__"):
        return _function(value.__wrapped__)
    return value if isinstance(value, types.FunctionType) else None


def _replace_function(old: Any, new: Any) -> None:
    old.__code__, old.__defaults__, old.__kwdefaults__ = new.__code__, new.__defaults__, new.__kwdefaults__


def _replace_class(old: type, new: type) -> None:
    if vars(old).keys() != vars(new).keys():
        raise NotChanged(f"{old.__name__} has other names in it than before.")
    for name, value in vars(new).items():
        mine, here = vars(old)[name], _function(value)
        if here is not None:
            _replace_function(_function(mine), here)
        elif isinstance(value, type) and value.__module__ == new.__module__ and name[:2] != "__":
            _replace_class(mine, value)
        elif isinstance(value, (bool, int, float, str, tuple, dict)) and name[:2] != "__" and mine != value:
            setattr(old, name, value)


def _bind_anew(name: str, old: object, new: object) -> None:
    for module in [module for key, module in sys.modules.items() if key.startswith(PACKAGES)]:
        if getattr(module, name, None) is old:
            setattr(module, name, new)
