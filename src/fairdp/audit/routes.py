"""Which ways each method is sent: every one that its users may take."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from fairdp.audit.ways import ByArrays, ByFile, ByOwnLoop, FitFile, OwnForward, Settings, Way, layered
from fairdp.config.parameters import PARITIES
from fairdp.methods import METHODS


@dataclass(frozen=True, kw_only=True)
class Route:
    """One way with its settings.

    Parameters
    ----------
    is_full
        Whether every kind of record is sent along; otherwise a few.
    lacks
        A group of which the table has no record, so that a neighbour may be alone in it.
    """

    name: str
    way: Way
    settings: Settings
    is_full: bool = False
    lacks: str = ""

    @property
    def reads_raw_cells(self) -> bool:
        """Whether cells are read by the program, and not by whoever made the arrays."""
        return isinstance(self.way, ByFile)

    def group(self, name: str) -> str:
        """The group in which a record of this group of the table is trained on."""
        return self.way.group(name) if isinstance(self.way, ByArrays) else name


# Sizes that somebody might have declared.
_DECLARED_SIZES = {"f": 60, "m": 50, "x": 30}

# High rates and few steps: the record by which two tables differ should often be in the batch.
_COMMON: dict[str, Any] = {
    "epsilon": 8.0,
    "sample_rate": 0.4,
    "certify_fraction": 0.35,
    # The cheapest to compute; all three are certified on one route.
    "certify_metrics": ("equal_opportunity",),
    "hidden": (6,),
    "n_members": 3,
    "n_draws": 5,
}
STEPS, QUICK_STEPS = 100, 20


def routes_of(method: str, fit: FitFile, *, quick: bool = False) -> list[Route]:
    """The routes of a private method; of the quick ones each method has the file, and every other one method."""
    found = [
        Route(
            name=name,
            way=way,
            settings=_settings(method, quick, **settings),
            is_full=name == "file",
            lacks="x" * (name == _ALONE),
        )
        for name, way, settings in _routes(method, ByFile(fit=fit), ByFile(fit=fit, declared=False))
    ]
    return (
        [route for route in found if route.name == "file" or route.name in _QUICK.get(method, ())] if quick else found
    )


def route_of(method: str, name: str, fit: FitFile, *, quick: bool = False, **settings: Any) -> Route:
    """One route by its name, with other settings if some are given."""
    route = next(route for route in routes_of(method, fit) if route.name == name)
    n_steps = min(route.settings["n_steps"], QUICK_STEPS if quick else STEPS)
    return replace(route, settings={**route.settings, "n_steps": n_steps, **settings})


_QUICK = {
    "dpsgd": ("undeclared", "own forward", "weights"),
    "fairdp": ("looks", "own loop", "group optimizers"),
    "raco_dp": ("layers",),
    "dp_fermi": ("parts",),
    "fairdp_frontier": ("arrays, two groups", "oriented gradients"),
}

_ALONE = "declared sizes, alone in a group"

_Described = tuple[str, Way, dict[str, Any]]


def _routes(method: str, file: ByFile, undeclared: ByFile) -> Iterator[_Described]:
    about = METHODS[method]
    yield "file", file, {}
    yield "no certificate", file, {"certify_fraction": 0.0}
    yield "target", file, {"target_tau": 0.2}
    yield "arrays", ByArrays(), {}
    yield _ALONE, file, {"group_sizes": _DECLARED_SIZES}
    if method == "dpsgd":
        # Of so few records most columns can be read only at such a price.
        yield "undeclared", undeclared, {"epsilon": 40.0}
        yield "undeclared search", ByFile(fit=file.fit, declared=False, searched=True), {"epsilon": 60.0}
        yield "all metrics", file, {"certify_metrics": None}
    if not about.closed_form:
        yield from _routes_by_steps(method, file)
    if about.takes_target:
        for parity in PARITIES[1:]:
            yield parity, file, {"parity": parity}
    yield from _own_routes(method, file)


def _routes_by_steps(method: str, file: ByFile) -> Iterator[_Described]:
    about = METHODS[method]
    yield "logistic", file, {"model": "logistic"}
    yield "mlp", file, {"model": "mlp", "activation": "tanh", "normalize_embedding": True}
    yield "parts", file, {"max_physical_batch_size": 7}
    yield "weights", ByArrays(weighted=True), {"max_sample_weight": 2.0}
    yield "layers", ByArrays(shape="sequences"), {"module": layered, "n_steps": QUICK_STEPS}
    yield "images", ByArrays(shape="images"), {"model": "cnn", "n_steps": QUICK_STEPS}
    yield "own forward", ByArrays(), {"module": OwnForward, "n_steps": QUICK_STEPS}
    if about.is_one_run:
        yield "own loop", ByOwnLoop(), {"n_members": 1, "n_steps": QUICK_STEPS}
    if about.has_iterates:
        # So few records meet hardly any bound, and looks go on only while they do.
        yield "looks", file, {"n_looks": 3, "require_tau": 0.9, "certify_metrics": ("demographic_parity",)}
    if method in ("dpsgd", "fairdp"):
        yield "search", ByFile(fit=file.fit, searched=True), {}


def _own_routes(method: str, file: ByFile) -> Iterator[_Described]:
    if method == "fairdp":
        yield "one head", file, {"n_members": 1}
        yield "a look that is missed", file, {"n_looks": 3, "require_tau": 0.3}
        yield "average noise", file, {"noise_allocation": "average"}
        yield "group optimizers", file, {"group_optimizers": True, "group_weights": {"f": 3, "m": 2, "x": 1}}
        yield "no bias", file, {"bias": False}
        yield "gibbs", file, {"predictor": "gibbs"}
        yield "smoothed", file, {"predictor": "smoothed"}
    if METHODS[method].joint:
        yield from _joint_routes(file)
    if method == "dp_is_sgd":
        yield "noisy sizes", file, {"group_sizes": None}
        yield "labels", file, {"group_sizes": None, "grouping": "attribute_and_label"}


def _joint_routes(file: ByFile) -> Iterator[_Described]:
    """What steers the surveys after the steps: targets, costs, and whether prices have one direction or several."""
    yield "positive rate", file, {"positive_rate": 0.4}
    yield "ratio", file, {"min_ratio": 0.8}
    yield "costs", file, {"cost_ratio": 2.0, "max_gap": 0.02}
    yield "arrays, two groups", ByArrays(two_groups=True), {}
    for parity in PARITIES[1:]:
        yield f"two groups, {parity}", ByArrays(two_groups=True), {"parity": parity}
    yield "oriented gradients", ByArrays(shape="images"), {"n_steps": QUICK_STEPS}


def _settings(method: str, quick: bool, **own: Any) -> Settings:
    # Its rates follow from the sizes, and each has an account of its own, which takes a second.
    sizes = {"group_sizes": _DECLARED_SIZES} if method == "dp_is_sgd" else {}
    settings = {**_COMMON, **sizes, "method": method, "n_steps": QUICK_STEPS if quick else STEPS, **own}
    return {**settings, "n_steps": min(settings["n_steps"], QUICK_STEPS)} if quick else settings
