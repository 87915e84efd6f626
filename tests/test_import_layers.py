"""Imports point down: a module may import only modules that stand before it, or beside it on its line."""

import ast
from pathlib import Path

import fairdp

# One line per layer, lowest first; a name stands for the module and everything below it.
LAYERS: list[tuple[str, ...]] = [
    ("_validate", "files", "keys", "notebook", "rounding"),
    ("accounting", "config", "discrete"),
    ("defaults", "selection"),
    ("data.grouped", "sensitive", "labels", "metrics"),
    ("intervals", "scoring"),
    ("evaluation",),
    ("data",),
    ("register",),
    ("certify.claims", "certify.noise", "certify.gaussian"),
    ("certify.arms", "certify.combination"),
    ("certify.pairs", "certify.concentration", "certify.paper"),
    ("certify.gaps",),
    ("certify.registration", "certify.release"),
    ("certify.shift", "certify.widths", "postprocessing"),
    ("certify.certificate",),
    ("certify.record",),
    ("training.gradients",),
    ("training.layers",),
    ("training.extractors",),
    ("training.models",),
    ("training.inspection",),
    ("training.stack",),
    ("training.companion",),
    ("training.control", "training.functional"),
    (
        "training.backprop",
        "training.clipping",
        "training.memory",
        "training.sampling",
        "training.update",
        "training.recipe",
    ),
    ("training.noise", "training.sums"),
    ("training.loop",),
    ("training.group_models",),
    ("methods",),
    ("predictors",),
    ("certification",),
    ("privacy",),
    ("checkpoint",),
    ("artifacts",),
    ("planning", "fitting"),
    ("saving",),
    ("settings",),
    ("parts",),
    ("looks",),
    ("runs",),
    ("fitted",),
    ("estimators",),
    ("export",),
    ("own_loop", "tuning"),
    ("verification.check",),
    ("verification.privacy", "verification.certificate"),
    ("verification",),
    ("tasks",),
    ("drawing",),
    ("report",),
    ("sweeps.populations", "sweeps.shifts", "sweeps.paper_tau"),
    ("sweeps.fits",),
    ("sweeps.parallel", "sweeps.store"),
    ("sweeps",),
    ("studies",),
    ("bench",),
    ("reporting",),
    ("cli",),
]

SOURCE = Path(fairdp.__file__).parent
MODULES = {
    ".".join(p.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__") for p in SOURCE.rglob("*.py")
}


def layer_of(module: str) -> int:
    matches = [(len(n), i) for i, names in enumerate(LAYERS) for n in names if f"{module}.".startswith(f"{n}.")]
    assert matches, f"fairdp.{module} has no place in the layers of this test"
    return max(matches)[1]


def imports_of(module: str) -> set[str]:
    """Modules of the package that a module imports anywhere, also inside functions."""
    path = SOURCE.joinpath(*module.split("."))
    tree = ast.parse((path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text())
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"fairdp.{module}: write imports in full"
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    names = {name.removeprefix("fairdp.") for name in found if name.startswith("fairdp.")} & MODULES
    # A package named only on the way to one of its modules is not what is imported.
    return {name for name in names if not any(other.startswith(f"{name}.") for other in names)}


def test_every_module_imports_only_what_stands_below_or_beside_it():
    wrong = [
        f"fairdp.{module} imports fairdp.{used}"
        for module in sorted(MODULES - {"__init__", "__main__", "data", "training"})
        for used in sorted(imports_of(module))
        if layer_of(used) > layer_of(module)
    ]
    assert not wrong, "\n".join(wrong)


def test_that_check_notices_an_import_that_points_up():
    assert layer_of("training.loop") > layer_of("training.noise") > layer_of("accounting")
    assert "training.recipe" in imports_of("privacy")


def test_no_layer_is_a_ghost():
    assert all(any(f"{module}.".startswith(f"{name}.") for module in MODULES) for names in LAYERS for name in names)
