"""Train classifiers with differential privacy and certified group fairness."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairdp._checks import DataError, InputError, ParameterError, SavedModelError
    from fairdp.accounting.mechanisms import PrivacyBudget
    from fairdp.accounting.spent import PrivacySpent
    from fairdp.classifier import FairDPClassifier
    from fairdp.config.paper import paper_settings
    from fairdp.data.catalog import load_dataset
    from fairdp.data.encoder import SchemaEncoder
    from fairdp.data.grouped import GroupedData
    from fairdp.data.synthetic import synthetic_population
    from fairdp.methods import METHODS
    from fairdp.metrics.evaluation import Evaluation
    from fairdp.metrics.scoring import accuracy_within_gap, gap_scorer
    from fairdp.own_loop import make_private_fair
    from fairdp.saved.onnx import write_onnx
    from fairdp.tuning import tune

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
    "DataError": "fairdp._checks",
    "Evaluation": "fairdp.metrics.evaluation",
    "FairDPClassifier": "fairdp.classifier",
    "GroupedData": "fairdp.data.grouped",
    "InputError": "fairdp._checks",
    "METHODS": "fairdp.methods",
    "ParameterError": "fairdp._checks",
    "PrivacyBudget": "fairdp.accounting.mechanisms",
    "PrivacySpent": "fairdp.accounting.spent",
    "SavedModelError": "fairdp._checks",
    "SchemaEncoder": "fairdp.data.encoder",
    "accuracy_within_gap": "fairdp.metrics.scoring",
    "gap_scorer": "fairdp.metrics.scoring",
    "load_dataset": "fairdp.data.catalog",
    "make_private_fair": "fairdp.own_loop",
    "paper_settings": "fairdp.config.paper",
    "synthetic_population": "fairdp.data.synthetic",
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
