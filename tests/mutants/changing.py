"""A mistake put into the code in memory: the text of a module is changed, and what differs replaces what was there.

Everybody who imported a function holds the function itself, so its code is replaced in place; numbers and tables are
bound anew wherever the same object goes by the same name.
"""

import ast
import sys
import types
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any


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
    module
        Where it is made.
    old, new
        The text that is replaced, which must occur once, and what replaces it.
    within
        Function or class, as ``Class.method``, outside of which the text may occur too.
    checks
        Tests that should notice it, the first one first, as paths below ``tests``.
    argued
        Why no test can notice it, for a change that breaks no guarantee.
    """

    name: str
    area: str
    module: str
    old: str
    new: str
    within: str = ""
    checks: tuple[str, ...] = ()
    argued: str = ""

    def source(self) -> tuple[str, str]:
        """The text of the module, as it is and with the mistake."""
        true = Path(str(import_module(self.module).__file__)).read_text(encoding="utf-8")
        start, stop = _span(true, self.within) if self.within else (0, len(true))
        if true.count(self.old, start, stop) != 1:
            found = true.count(self.old, start, stop)
            raise NotChanged(f"{self.module} has the text {self.old!r} {found} times, where it must be there once.")
        return true, true[:start] + true[start:stop].replace(self.old, self.new) + true[stop:]


def _span(source: str, name: str) -> tuple[int, int]:
    """Where a function or a class begins and ends."""
    node: Any = ast.parse(source)
    for part in name.split("."):
        node = next((inner for inner in ast.walk(node) if getattr(inner, "name", None) == part), None)
        if node is None:
            raise NotChanged(f"there is no {name}.")
    lines = source.splitlines(keepends=True)
    return len("".join(lines[: node.lineno - 1])), len("".join(lines[: node.end_lineno]))


def put_in(mutant: Mutant) -> None:
    """Change the code of this process; whoever calls it afterwards makes the mistake."""
    true, wrong = mutant.source()
    module, (before, after) = sys.modules[mutant.module], (_statements(text) for text in (true, wrong))
    names = [name for name in after if after[name] != before.get(name)]
    if not names or before.keys() != after.keys():
        raise NotChanged(f"{mutant.module} has the same functions and values as before, or others by name.")
    fresh = types.ModuleType(mutant.module)
    fresh.__dict__.update({key: vars(module)[key] for key in ("__file__", "__package__", "__spec__")})
    exec(compile(wrong, str(module.__file__), "exec"), fresh.__dict__)
    for name in names:
        old, new = getattr(module, name), getattr(fresh, name)
        if isinstance(old, type):
            _replace_class(old, new)
        elif _function(old) is not None:
            _replace_function(_function(old), _function(new))
        else:
            _bind_anew(name, old, new)


def _statements(source: str) -> dict[str, str]:
    """What a module defines, each by its name, without where in the text it is."""
    found = {}
    for node in ast.parse(source).body:
        named = getattr(node, "name", None)
        targets = getattr(node, "targets", [getattr(node, "target", None)])
        names = [named] if named else [inner.id for t in targets if t for inner in ast.walk(t) if hasattr(inner, "id")]
        found |= {name: ast.dump(node) for name in names}
    return found


def _function(value: Any) -> types.FunctionType | None:
    """The function behind a method, a property or a decorated function."""
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
    for module in [module for key, module in sys.modules.items() if key.split(".")[0] == "fairdp"]:
        if getattr(module, name, None) is old:
            setattr(module, name, new)
