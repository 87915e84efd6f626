"""Train classifiers with differential privacy and certified group fairness."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairdp.accounting.mechanisms import PrivacyBudget
    from fairdp.accounting.spent import PrivacySpent
    from fairdp.classifier import FairDPClassifier, SchemaEncoder
    from fairdp.data.catalog import load_dataset
    from fairdp.data.datasets import synthetic_population
    from fairdp.data.grouped import GroupedData
    from fairdp.errors import DataError, InputError, ParameterError, SavedModelError
    from fairdp.evaluation import Evaluation
    from fairdp.methods import METHODS
    from fairdp.own_loop import make_private_fair
    from fairdp.parameters import paper_settings
    from fairdp.saved.onnx import write_onnx
    from fairdp.tuning import accuracy_within_gap, gap_scorer, tune

__version__ = "0.1.0"
__all__ = [
    "METHODS",
    "DataError",
    "Evaluation",
    "FairDPClassifier",
    "GroupedData",
    "InputError",
    "ParameterError",
    "PrivacyBudget",
    "PrivacySpent",
    "SavedModelError",
    "SchemaEncoder",
    "__version__",
    "accuracy_within_gap",
    "gap_scorer",
    "load_dataset",
    "make_private_fair",
    "paper_settings",
    "synthetic_population",
    "tune",
    "write_onnx",
]

# Names are looked up on first use: `fairdp --help` must not wait for torch.
_HOMES = {
    "DataError": "fairdp.errors",
    "Evaluation": "fairdp.evaluation",
    "FairDPClassifier": "fairdp.classifier",
    "GroupedData": "fairdp.data.grouped",
    "InputError": "fairdp.errors",
    "METHODS": "fairdp.methods",
    "ParameterError": "fairdp.errors",
    "PrivacyBudget": "fairdp.accounting.mechanisms",
    "PrivacySpent": "fairdp.accounting.spent",
    "SavedModelError": "fairdp.errors",
    "SchemaEncoder": "fairdp.classifier",
    "accuracy_within_gap": "fairdp.tuning",
    "gap_scorer": "fairdp.tuning",
    "load_dataset": "fairdp.data.catalog",
    "make_private_fair": "fairdp.own_loop",
    "paper_settings": "fairdp.parameters",
    "synthetic_population": "fairdp.data.datasets",
    "tune": "fairdp.tuning",
    "write_onnx": "fairdp.saved.onnx",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'fairdp' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
