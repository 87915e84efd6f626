"""Sentences about privacy, certificate, target and usefulness are in `fairdp.statements`, and nowhere else."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "fairdp"
TERMS = re.compile(
    r"\b(accura\w+|bound(s|ed)?|certif\w+|collapsed?|delta|epsilon|fair|fairness|gaps?|guarantee\w*|learnt|privac\w+|"
    r"private(ly)?|target|tau|useful|δ|ε)\b",
    re.IGNORECASE,
)
_N_WORDS = 6

# Options and their help, and what commands refuse; their answers, in `cli.printing`, are checked.
COMMANDS = ("cli",)

# Modules, or definitions in them, and what their sentences are about instead.
ELSEWHERE = {
    "cli.printing._certificate_plan_rows": "labels of a table",
    "cli.printing._paper_rows": "labels of a table",
    "cli.printing._plan_answer": "a run that is only planned",
    "cli.printing._print_metrics": "a table that is missing",
    "cli.printing._reading_rows": "labels of a table",
    "cli.printing.certificate_answer": "where the files are, and the next command",
    "cli.printing.print_ledger": "labels of a table",
    "cli.printing.print_outlook": "labels of a table",
    "cli.printing.print_retargeted": "the next command",
    "data": "a table, before anything is spent on it",
    "fitting.fit_source": "a warning that comes before training",
    "ledger.ledger.Spending": "the totals of a ledger, for the data holder alone",
    "methods.METHODS": "titles of papers",
    "networks.layers.why_refused": "the reason of a refusal",
    "paper": "reasons of refusals",
    "parameters.NoCertificate": "reasons of refusals, which statements quote",
    "parameters.Parameters": "help of options",
    "report.cards": "questions of published lists, and the records",
    "report.charts": "many models, compared",
    "report.model.FIELDS": "questions to the owner of a model",
    "saved.folder._TAKE": "the private half of a key",
    "saved.verify": "findings of checks, written apart from all that they check",
}


def sentences(module: str, source: str) -> list[tuple[str, str]]:
    """The definition and text of every literal that is a sentence about the terms.

    Docstrings, errors and the help of options are left out.
    """
    return [
        (f"{module}.{name}", text)
        for name, node in _definitions(ast.parse(source))
        for text in _texts(node)
        if len(re.findall(r"[^\W\d_]+", text)) >= _N_WORDS and TERMS.search(text)
    ]


def _definitions(tree: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        yield getattr(node, "name", None) or getattr(targets[0], "id", ""), node


def _texts(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Raise) or (isinstance(node, ast.Call) and _name(node.func).endswith("Error")):
        return
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return  # a docstring
    if isinstance(node, ast.keyword) and node.arg in ("help", "short_help", "epilog"):
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "0" for part in node.values)
    else:
        for child in ast.iter_child_nodes(node):
            yield from _texts(child)


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def found() -> dict[str, list[str]]:
    """All sentences of the product outside of the package of statements, by definition."""
    by_definition: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
        package = module.partition(".")[0]
        if module == "cli.printing" or package not in (*COMMANDS, "statements"):
            for name, text in sentences(module, path.read_text(encoding="utf-8")):
                by_definition.setdefault(name, []).append(text)
    return by_definition


def test_sentences_about_the_terms_are_in_one_place():
    elsewhere = {name: texts for name, texts in found().items() if not any(map(name.startswith, ELSEWHERE))}
    assert not elsewhere


def test_every_exception_is_needed():
    assert [place for place in ELSEWHERE if not any(name.startswith(place) for name in found())] == []


PLANTED = '''
"""The privacy guarantee of a model, whatever anybody knows."""
def said(epsilon):
    """A certificate says that the gaps are bounded, and no more."""
    if epsilon < 0:
        raise ParameterError("epsilon", epsilon, "is no privacy budget that a model can have")
    {planted}
'''


@pytest.mark.parametrize(
    "planted",
    [
        'return "the model is private, whoever looks at it"',
        'return f"with epsilon {epsilon} nobody can tell who was there"',
        'lines = ["it decides alike for both groups, " "as its certificate says"]',
        'show(note="all gaps of this model are below the limit")',
    ],
)
def test_that_check_notices_a_planted_sentence(planted):
    assert [name for name, _ in sentences("run.fit", PLANTED.format(planted=planted))] == ["run.fit.said"]


@pytest.mark.parametrize(
    "passed", ['option(help="Privacy budget that the run may spend")', 'return "epsilon: not private"']
)
def test_that_check_passes_docstrings_errors_help_and_labels(passed):
    assert sentences("run.fit", PLANTED.format(planted=passed)) == []


def indirect_questions(source: str) -> list[str]:
    """First lines of docstrings that begin as an indirect question does."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    texts = (ast.get_docstring(node) or "" for node in ast.walk(ast.parse(source)) if isinstance(node, documented))
    return [text.splitlines()[0] for text in texts if re.match(r"(What|Whether|How)\b", text)]


def test_no_docstring_is_an_indirect_question():
    paths = [path for folder in (PACKAGE, PACKAGE.with_name("fairdp_lab")) for path in folder.rglob("*.py")]
    assert {path.name: found for path in paths if (found := indirect_questions(path.read_text(encoding="utf-8")))} == {}
    assert indirect_questions('def is_due():\n    """Whether a look is due."""') == ["Whether a look is due."]
