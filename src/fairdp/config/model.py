"""Which network stands before the linear head."""

from collections.abc import Iterable
from dataclasses import dataclass

from fairdp import _checks

MODELS = ("logistic", "mlp", "cnn")


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Which extractor stands before the linear head.

    A logistic model with ``n_active`` has bounded inputs, as if so many of them were not zero in a record; with
    ``normalize_inputs`` all records have about the same norm, so that clipping treats them alike, and inputs that are
    numbers (``numeric``, by position) are bent, so that a score need not rise or fall with them.
    """

    kind: str
    hidden: tuple[int, ...] = (32,)
    activation: str = "relu"
    normalize_embedding: bool = False
    n_active: int = 0
    normalize_inputs: bool = False
    numeric: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.hidden, str) or not isinstance(self.hidden, Iterable):
            raise ValueError(f"hidden must be a tuple of layer sizes such as (32,), got {self.hidden!r}.")
        _checks.one_of((*MODELS, "custom"), model=self.kind)
        _checks.one_of(("relu", "tanh"), activation=self.activation)
        for size in self.hidden:
            _checks.positive_integer(hidden=size)
        for name in ("hidden", "numeric"):
            object.__setattr__(self, name, tuple(int(value) for value in getattr(self, name)))
        if self.kind == "mlp" and not self.hidden:
            raise ValueError("hidden must name at least one layer size, got (). For none use model='logistic'.")
