"""Write tests/golden/messages.md from the source: every error message.

`python tools/error_messages.py`
"""

import ast
import builtins
import re
from collections.abc import Iterator
from pathlib import Path

from fairdp.errors import ParameterError

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "tests" / "golden" / "messages.md"
SOURCE = ROOT / "src"
_REFUSALS = ("ValueError", "InputError", "ParameterError", "DataError", "SavedModelError")

OPENING = """# Messages

<!-- Made by `python tools/error_messages.py`; change the messages in src/ instead. -->

Every error message, by the module that raises it. What is in braces is filled in with a name, a value, or a reason or
remedy that fits the case. In Python these are `ValueError`s unless another kind is named. On the command line
parameters are called by their flags (`max_gap` is `--max-gap`), the message is one line on stderr, and the exit code is
2. `FAIRDP_DEBUG=1` shows where it comes from. Messages may quote values from the rows they reject, so keep them with
the data.
"""


def page() -> str:
    """The whole page."""
    parts = [OPENING]
    for path in sorted(SOURCE.rglob("*.py")):
        rows = list(dict.fromkeys(_rows(ast.parse(path.read_text()))))
        if rows:
            module = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
            parts.append("\n".join([f"\n## {module}\n", "| message |", "|---|", *rows]) + "\n")
    return "".join(parts)


def _rows(tree: ast.Module) -> Iterator[str]:
    constants = _constants(tree)
    for node in sorted(ast.walk(tree), key=lambda node: getattr(node, "lineno", 0)):
        made = _made(node)
        if made is not None and made.args and _is_error(made.func):
            text = _message(made, constants)
            if re.fullmatch(r"\{[^{}]*\}", text):  # Somebody else's message, passed on.
                continue
            kind = ast.unparse(made.func).rpartition(".")[2]
            yield f"| {_cell(text)}{'' if kind in _REFUSALS else f' (`{kind}`)'} |"


def _made(node: ast.AST) -> ast.Call | None:
    """The exception that a statement makes: to raise it here, or to hand it to whoever raises it."""
    made = node.exc if isinstance(node, ast.Raise) else node.value if isinstance(node, ast.Return) else None
    return made if isinstance(made, ast.Call) else None


def _is_error(func: ast.expr) -> bool:
    name = ast.unparse(func).rpartition(".")[2]
    known = getattr(builtins, name, None)
    told = isinstance(known, type) and issubclass(known, Exception) and name != "AttributeError"
    return told or name in (*_REFUSALS, "BadParameter", "UsageError", "ClickException", "PrivacyBudgetExceeded")


def _message(made: ast.Call, constants: dict[str, str]) -> str:
    """The message of an error, put together as the error itself does."""
    if ast.unparse(made.func) != "ParameterError":
        return _template(made.args[0], constants).replace("`", "")
    parameter, value, *words = (_template(argument, constants) for argument in made.args)
    return str(ParameterError(parameter, _Shown(value), *words)).replace("`", "")


class _Shown(str):
    """A value that is shown without quotes, as what is filled in."""

    def __repr__(self) -> str:
        return str(self)


def _constants(tree: ast.Module) -> dict[str, str]:
    """Texts and numbers that a module gives a name."""
    pairs = [(target, node.value) for node in tree.body if isinstance(node, ast.Assign) for target in node.targets]
    for target, value in tuple(pairs):
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs += zip(target.elts, value.elts, strict=True)
    return {
        target.id: str(value.value)
        for target, value in pairs
        if isinstance(target, ast.Name) and isinstance(value, ast.Constant)
    }


def _template(node: ast.expr, constants: dict[str, str]) -> str:
    """The text of a message, with what is filled in between braces."""
    match node:
        case ast.Constant():
            return str(node.value)
        case ast.Name() if node.id in constants:
            return constants[node.id]
        case ast.JoinedStr():
            return "".join(_template(part, constants) for part in node.values)
        case ast.FormattedValue():
            return _template(node.value, constants)
        case ast.BinOp(op=ast.Add()):
            return _template(node.left, constants) + _template(node.right, constants)
        case ast.IfExp():
            return f"{_template(node.body, constants)} / {_template(node.orelse, constants)}"
    return f"{{{_name(node)}}}"


def _name(node: ast.expr) -> str:
    """The value that is filled in, without its format."""
    match node:
        case ast.Attribute():
            return node.attr
        case ast.Call(args=[own, *_]) if ast.unparse(node.func) in ("str", "repr", "int", "sorted", "', '.join"):
            return _name(own)
    return ast.unparse(node)


def _cell(text: str) -> str:
    """Plain text that Markdown leaves alone."""
    escaped = re.sub(r"([\\|*_`<>\[\]$])", r"\\\1", " ".join(text.split()))
    return re.sub(r"(?<![\w-])(--[a-z-]+)", r"`\1`", escaped)


if __name__ == "__main__":
    PAGE.write_text(page())
