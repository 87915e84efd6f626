"""Which network stands before the linear head."""

from dataclasses import dataclass

from fairdp import _checks
from fairdp._checks import ParameterError
from fairdp.config.parameters import MODELS, Parameters, check_parameters


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Which extractor stands before the linear head.

    A logistic model with ``n_active`` has bounded inputs, as if so many of them were not zero in a record. A joint
    model has ``n_cells`` outputs; before it stand rows of norm ``row_norm``, in which numbers (``numeric``, by
    position) become hats and bins (``zeros``: where zero lies on the scale of each; ``bounded``: whether they are
    within [0, 1], as declared columns are; ``most_squares``: the squared norm of such a row before weights, at most).
    """

    kind: str
    hidden: tuple[int, ...] = Parameters.hidden
    activation: str = "relu"
    normalize_embedding: bool = Parameters.normalize_embedding
    bias: bool = Parameters.bias
    n_active: int = 0
    numeric: tuple[int, ...] = ()
    n_cells: int = 0
    zeros: tuple[float, ...] = ()
    bounded: bool = True
    most_squares: float = 1.0
    row_norm: float = 1.0

    def __post_init__(self) -> None:
        _checks.one_of((*MODELS, "custom"), model=self.kind)
        check_parameters(hidden=self.hidden, activation=self.activation)
        check_parameters(normalize_embedding=self.normalize_embedding, bias=self.bias)
        for name in ("hidden", "numeric"):
            object.__setattr__(self, name, tuple(int(value) for value in getattr(self, name)))
        object.__setattr__(self, "zeros", tuple(float(value) for value in self.zeros))
        if self.kind == "mlp" and not self.hidden:
            raise ParameterError(
                "hidden", self.hidden, "must name at least one layer size", "For none use `model`='logistic'."
            )
