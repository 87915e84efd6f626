"""Train classifiers with differential privacy and certified group fairness."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairdp.accounting import PrivacyBudget
    from fairdp.data.catalog import load_dataset
    from fairdp.data.grouped import GroupedData
    from fairdp.data.synthetic import synthetic_population
    from fairdp.estimators import FairDPClassifier
    from fairdp.methods import METHODS
    from fairdp.privacy import PrivacySpent

__version__ = "0.1.0"
__all__ = [
    "METHODS",
    "FairDPClassifier",
    "GroupedData",
    "PrivacyBudget",
    "PrivacySpent",
    "__version__",
    "load_dataset",
    "synthetic_population",
]

# Names are looked up on first use: `fairdp --help` must not wait for torch.
_HOMES = {
    "FairDPClassifier": "fairdp.estimators",
    "GroupedData": "fairdp.data.grouped",
    "METHODS": "fairdp.methods",
    "PrivacyBudget": "fairdp.accounting",
    "PrivacySpent": "fairdp.privacy",
    "load_dataset": "fairdp.data.catalog",
    "synthetic_population": "fairdp.data.synthetic",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'fairdp' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
