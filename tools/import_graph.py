"""The packages of fairdp in their order, and who imports whom: for the test of the order, and for its picture."""

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[1] / "src"

# Lowest first: a package imports only packages of earlier lines. A name is a package, or a module at the top.
LAYERS = """
    errors
    _io
    distributed
    randomness releases
    parameters
    config
    data
    metrics
    accounting
    ledger
    certify
    frontier
    statements
    networks
    training
    methods
    run
    defaults
    saved
    paper
    evaluation
    classifier
    own_loop tuning records
    fitting planning
    report
    cli
    lab
""".strip().splitlines()

# Values that users print: their methods find the words when called, so that sentences live in one place above them.
PRINTED = {"accounting.spent", "certify.certificate", "frontier.verdict"}

PLACES = {name: place for place, names in enumerate(LAYERS) for name in names.split()}

Graph = dict[str, set[str]]


def modules() -> set[str]:
    """All modules, by their names below fairdp; those of fairdp_lab are in ``lab``. Empty files are left out."""
    found = set()
    for path in SOURCES.rglob("*.py"):
        if path.stat().st_size:
            found.add(_short(".".join(path.relative_to(SOURCES).with_suffix("").parts).removesuffix(".__init__")))
    return found - {"fairdp", "__main__", "lab"}


def _short(name: str) -> str:
    return re.sub(r"^fairdp_lab\b", "lab", name).removeprefix("fairdp.")


def import_graph() -> Graph:
    """Each module with the modules that it imports anywhere, also inside functions and for types only.

    Left out are the words of the values in `PRINTED`, which their methods import.
    """
    known = modules()
    return {module: _imports_of(module, known) for module in sorted(known)}


def package_graph() -> Graph:
    """The same for packages and the modules at the top."""
    found: Graph = {name: set() for name in PLACES}
    for module, used in import_graph().items():
        package = module.split(".")[0]
        found[package] |= {name.split(".")[0] for name in used} - {package}
    return found


def reduced(graph: Graph) -> Graph:
    """The graph without the edges that follow from others."""
    reach: Graph = {}
    for node in TopologicalSorter(graph).static_order():
        reach[node] = graph[node].union(*(reach[used] for used in graph[node]))
    return {node: {u for u in used if not any(u in reach[v] for v in used - {u})} for node, used in graph.items()}


def _imports_of(module: str, known: set[str]) -> set[str]:
    parts = module.split(".")
    path = SOURCES.joinpath(*(["fairdp_lab", *parts[1:]] if parts[0] == "lab" else ["fairdp", *parts]))
    tree = ast.parse((path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text())
    found: set[str] = set()
    nodes = list(ast.walk(tree))
    if module in PRINTED:
        methods = [node for node in nodes if isinstance(node, ast.FunctionDef)]
        words = {node for method in methods for node in method.body if _is_words(node)}
        nodes = [node for node in nodes if node not in words]
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module}: write imports in full"
            found |= {str(node.module)} | {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    names = {_short(name) for name in found if name.split(".")[0] in ("fairdp", "fairdp_lab")} & known
    # A package named only on the way to one of its modules is not what is imported.
    return {name for name in names if not any(other.startswith(f"{name}.") for other in names)} - {module}


def _is_words(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and str(node.module).startswith("fairdp.statements.")
