"""Write docs/packages.svg: the packages of fairdp in their order, with an arrow to each that one needs directly.

`python docs/architecture.py`
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from import_graph import LAYERS, Graph, package_graph, reduced

PICTURE = Path(__file__).parent / "project" / "packages.svg"

ABOUT = {
    "errors": "errors and one-line checks",
    "_io": "files and folders written whole or not at all",
    "distributed": "the processes that fit one model together",
    "randomness": "keys and streams, exact discrete noise",
    "releases": "the one point where values leave the records",
    "parameters": "what a user may choose, declared once",
    "config": "numbers of a run, defaults by model",
    "data": "tables and named data sets → GroupedData",
    "metrics": "rates, gaps, intervals",
    "accounting": "mechanisms → ε; recipe, plan, what was spent",
    "ledger": "what was spent on which records, in total",
    "certify": "noisy counts → τ; pure",
    "frontier": "noisy sketch → every trade-off, the rule, the verdict",
    "statements": "every sentence about privacy and fairness",
    "networks": "extractors, ScoreModel, per-record gradients",
    "training": "sample, clip, noise, update: the loop",
    "methods": "how each method differs from DP-SGD",
    "run": "one fit: hold out, plan, train, certify",
    "defaults": "parameters and defaults in words",
    "saved": "the model folder: write, read, verify, ONNX",
    "paper": "the paper's theorems as printed and as corrected",
    "evaluation": "decisions on labelled records, with intervals",
    "classifier": "the scikit-learn estimator",
    "own_loop": "private gradients for your own loop",
    "tuning": "settings chosen and paid for",
    "records": "the records of a run, a saved model with records",
    "fitting": "a fit from files to a folder",
    "planning": "cost of a run, worth of its certificate",
    "report": "the page for a reviewer",
    "cli": "the commands: options, answers and tables",
    "lab": "fairdp_lab: compare, reproduce, audit, bench, figures",
}
ROW, BOX, LEFT, WIDTH = 40, 28, 24, 430


def page() -> str:
    """The whole picture."""
    names = [name for layer in LAYERS for name in layer.split()]
    middle = {name: 30 + ROW * place + BOX / 2 for place, name in enumerate(names)}
    shapes = [_box(name, middle[name]) for name in names] + [*_arrows(reduced(package_graph()), middle)]
    height = int(max(middle.values()) + BOX)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 {height}" font-family="sans-serif" font-size="13">'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#555"/></marker></defs>'
        f'<rect width="100%" height="100%" fill="#fff"/>\n{chr(10).join(shapes)}\n</svg>\n'
    )


def _box(name: str, middle: float) -> str:
    top = middle - BOX / 2
    return (
        f'<rect x="{LEFT}" y="{top:g}" width="{WIDTH}" height="{BOX}" rx="5" fill="#eef3fa" stroke="#7a94b8"/>'
        f'<text x="{LEFT + 10}" y="{middle + 4:g}" font-weight="bold">{name}</text>'
        f'<text x="{LEFT + 112}" y="{middle + 4:g}" fill="#444">{ABOUT[name]}</text>'
    )


def _arrows(graph: Graph, middle: dict[str, float]) -> list[str]:
    """Arcs on the right, from each package up to those that it imports; the longer, the further out."""
    found, right = [], LEFT + WIDTH
    for name, used in graph.items():
        for other in sorted(used, key=middle.__getitem__):
            start, end = middle[name] - 4, middle[other] + 4
            out = right + 18 + 0.42 * (start - end)
            path = f"M{right},{start:g} C{out:g},{start:g} {out:g},{end:g} {right + 2},{end:g}"
            found.append(f'<path d="{path}" fill="none" stroke="#555" stroke-opacity=".55" marker-end="url(#tip)"/>')
    return found


if __name__ == "__main__":
    PICTURE.write_text(page())
