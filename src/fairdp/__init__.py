"""Train classifiers with differential privacy and certified group fairness."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairdp.accounting import PrivacyBudget
    from fairdp.data.catalog import load_dataset
    from fairdp.data.grouped import GroupedData
    from fairdp.data.synthetic import synthetic_population
    from fairdp.estimators import FairDPClassifier
    from fairdp.evaluation import Evaluation
    from fairdp.methods import METHODS
    from fairdp.own_loop import make_private_fair
    from fairdp.privacy import PrivacySpent
    from fairdp.scoring import accuracy_within_gap, gap_scorer
    from fairdp.tuning import tune

__version__ = "0.1.0"
__all__ = [
    "METHODS",
    "Evaluation",
    "FairDPClassifier",
    "GroupedData",
    "PrivacyBudget",
    "PrivacySpent",
    "__version__",
    "accuracy_within_gap",
    "gap_scorer",
    "load_dataset",
    "make_private_fair",
    "synthetic_population",
    "tune",
]

# Names are looked up on first use: `fairdp --help` must not wait for torch.
_HOMES = {
    "Evaluation": "fairdp.evaluation",
    "FairDPClassifier": "fairdp.estimators",
    "GroupedData": "fairdp.data.grouped",
    "METHODS": "fairdp.methods",
    "PrivacyBudget": "fairdp.accounting",
    "PrivacySpent": "fairdp.privacy",
    "accuracy_within_gap": "fairdp.scoring",
    "gap_scorer": "fairdp.scoring",
    "load_dataset": "fairdp.data.catalog",
    "make_private_fair": "fairdp.own_loop",
    "synthetic_population": "fairdp.data.synthetic",
    "tune": "fairdp.tuning",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'fairdp' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
