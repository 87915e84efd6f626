"""Score models: a feature extractor followed by a linear head, all parameters in one flat vector."""

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor, nn

from fairdp._checks import InputError
from fairdp.networks.extractors import keeps_records_apart
from fairdp.networks.hat_rows import HatRows
from fairdp.networks.layers import refuse_mixing_layers
from fairdp.networks.oriented_gradients import ImageRows

# Frozen parameters and buffers of a module, in the saved tensors.
FIXED = "extractor."
CELL_VALUES = "cell_values"
# Records of tables that are scored at once.
_ROWS = 8192


def plain_values(n_cells: int) -> Tensor:
    """Values of cells without any fairness target: a positive decision gains one for label 1 and loses one for 0."""
    return torch.tensor([-1.0, 1.0], dtype=torch.float64).repeat(n_cells // 2)


@dataclass(frozen=True, kw_only=True)
class ParameterSmoothing:
    """Gaussian noise on all parameters of a deployed model, averaged over draws that a public seed fixes."""

    deviation: float
    n_draws: int
    seed: int


class ScoreModel:
    """z(x) = ⟨w, ξ(x)⟩ + b, the mean over one or more heads (w, b) of the same embedding ξ; b may be left out.

    A joint model has a head for each cell, group by label, whose softmax is the chance P_c of the cell; its score is
    what a positive decision is worth, z(x) = Σ_c v_c P_c(x), with a value v_c for each cell.

    The parameters live in one vector, the extractor's first and the heads' last, so that clipping, noise, optimiser
    and projection each are one operation. The bias is the last coordinate of a head: bounding a head's norm bounds
    both.

    Parameters
    ----------
    extractor
        Any module that maps (n_records, *shape) to embeddings and keeps records apart. Its parameters are moved into
        the vector, except frozen ones (``requires_grad=False``), which stay as they are.
    shape
        Shape of one record.
    generator
        What the head's first weights are drawn from; None: always the same ones.
    n_cells
        Number of cells of a joint model, two for each group (`cell_codes`); zero for an ordinary one.
    bias
        Whether heads have a bias; those of a joint model always do.

    Attributes
    ----------
    heads
        The heads (w, b), a view of shape (n_members, head_size), or (n_cells, head_size).
    head_size
        Numbers of a head: the width of the embedding, and one for the bias.
    cell_values
        The values v of a joint model, shape (n_cells,); None for an ordinary one.
    smoothing
        How the deployed scores are averaged over noise on the parameters; None: not at all. Training is without.
    """

    smoothing: ParameterSmoothing | None = None

    def __init__(
        self,
        extractor: nn.Module,
        shape: tuple[int, ...],
        generator: torch.Generator | None = None,
        *,
        n_cells: int = 0,
        bias: bool = True,
    ) -> None:
        refuse_mixing_layers(extractor)
        for layer in extractor.modules():
            # An activation that overwrites its input would overwrite what the gradients are made from.
            if hasattr(layer, "inplace"):
                layer.__dict__["inplace"] = False
        self.extractor = extractor.train()
        self.keeps_records_apart = keeps_records_apart(extractor)
        self.shape = shape
        self.width = self._width_of_embedding()
        self.bias, self.head_size = bias, self.width + bias
        self.slices: dict[str, slice] = {}
        start = 0
        trainable = {name: p for name, p in extractor.named_parameters() if p.requires_grad}
        for name, parameter in trainable.items():
            self.slices[name] = slice(start, start + parameter.numel())
            start += parameter.numel()
        self.n_extractor_params = start
        self.n_cells = n_cells
        self.cell_values = plain_values(n_cells) if n_cells else None
        self.params = torch.zeros(start + max(1, n_cells) * self.head_size)
        for name, parameter in trainable.items():
            self.params[self.slices[name]] = parameter.detach().flatten()
        if not n_cells:
            self._start_head(self.params[start:], generator or torch.Generator().manual_seed(0))
        self._attach()
        # As it was built, before any record was seen: this, and nothing later, is ever saved.
        self._fixed = self._live_fixed()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Make a copy's parameters views of its own vector again: copying takes them apart."""
        self.__dict__.update(state)
        self._attach()

    def replace_params(self, params: Tensor) -> None:
        """Take over another vector, possibly with another number of heads."""
        if (params.numel() - self.n_extractor_params) % self.head_size:
            raise ValueError(f"a vector of {params.numel()} parameters does not fit this model.")
        self.params = params
        self._attach()

    def fixed_state(self) -> dict[str, Tensor]:
        """Frozen parameters and buffers as they were built: what a copy of the model needs besides the vector."""
        return self._fixed

    def tensors(self) -> dict[str, Tensor]:
        """All numbers of the model, as they are saved: the trained vector, values of cells, and what stayed fixed."""
        values = {} if self.cell_values is None else {CELL_VALUES: self.cell_values}
        return {"params": self.params, **values, **{FIXED + name: value for name, value in self._fixed.items()}}

    def digest(self) -> str:
        """SHA-256 of the model as it is saved."""
        return hashlib.sha256(tensor_bytes(self.tensors())).hexdigest()

    def load_fixed_state(self, state: dict[str, Tensor]) -> None:
        """Take over the frozen parameters and buffers of a copy."""
        self.extractor.load_state_dict(state, strict=False)
        self.note_fixed()

    def surveyed_state(self) -> dict[str, Tensor]:
        """The numbers of an input layer that follow from a release."""
        return self._fixed if isinstance(self.extractor, (HatRows, ImageRows)) else {}

    def note_fixed(self) -> None:
        """Take what is fixed as it is now: numbers that follow from a release were put in."""
        self._fixed = self._live_fixed()

    def has_changed_itself(self) -> bool:
        """Whether a forward pass has changed what should stay fixed."""
        return any(not torch.equal(self._fixed[name], value) for name, value in self._live_fixed().items())

    def _live_fixed(self) -> dict[str, Tensor]:
        state = self.extractor.state_dict()
        return {name: value.clone() for name, value in state.items() if name not in self.slices}

    def embed(self, X: Tensor) -> Tensor:
        """Embeddings ξ of records, shape (n_records, width); a module of unknown layers sees one record at a time."""
        if self.keeps_records_apart or not len(X):
            return self.extractor(X).flatten(1)
        # A functional call: what a module writes to its buffers is gone after it.
        state: dict[str, Tensor] = {**dict(self.extractor.named_parameters()), **dict(self.extractor.named_buffers())}

        def alone(record: Tensor) -> Tensor:
            return torch.func.functional_call(self.extractor, state, (record[None],)).flatten()

        return torch.func.vmap(alone, randomness="different")(X)

    def embed_fixed(self, X: Tensor) -> Tensor:
        """Embeddings as at prediction: nothing dropped at random, no gradients."""
        self.extractor.eval()
        with torch.no_grad():
            embeddings = self.embed(X)
        self.extractor.train()
        return embeddings

    def scores(self, X: Tensor) -> Tensor:
        """Scores as deployed, shape (n_records,): those of the mean head, or the logit of their smoothed chance."""
        if self.smoothing is None:
            return self._plain_scores(X)
        rng = np.random.default_rng(self.smoothing.seed)
        log_chances = torch.full((2, len(X)), -math.inf, dtype=torch.float64)
        for _ in range(self.smoothing.n_draws):
            with self.moved_to(self.with_noise(self.smoothing.deviation, rng)):
                scores = self._plain_scores(X).double()
            chances = nn.functional.logsigmoid(torch.stack([scores, -scores]))
            torch.logaddexp(log_chances, chances, out=log_chances)
        return (log_chances[0] - log_chances[1]).float()

    def with_noise(self, deviation: float, rng: np.random.Generator) -> Tensor:
        """The parameters with fresh Gaussian noise on each."""
        noise = torch.from_numpy(rng.standard_normal(len(self.params))).float()
        return torch.add(self.params, noise, alpha=deviation)

    @contextmanager
    def moved_to(self, params: Tensor) -> Iterator[None]:
        """Have other parameters for a moment, and then the very same ones again, whatever happens in between.

        What is added and subtracted again would drift.
        """
        if params is self.params:
            yield
            return
        exact = self.params.clone()
        self.params.copy_(params)
        try:
            yield
        finally:
            self.params.copy_(exact)

    def described_smoothing(self) -> dict[str, Any] | None:
        """Plain values of the smoothing, if there is one."""
        return None if self.smoothing is None else asdict(self.smoothing)

    def outputs(self, embeddings: Tensor) -> Tensor:
        """What training sees: the score of the only head, shape (n_records,), or one for each cell, (…, n_cells)."""
        if self.n_cells:
            return torch.addmm(self.heads[:, -1], embeddings, self.heads[:, :-1].T)
        weights, bias = self.split(self.heads[0])
        return torch.addmv(bias, embeddings, weights)

    def pulled_back(self, score_gradients: Tensor) -> Tensor:
        """Gradients at the embeddings, from those at the outputs."""
        if self.n_cells:
            return score_gradients @ self.heads[:, :-1]
        return torch.outer(score_gradients, self.heads[0, : self.width])

    def split(self, heads: Tensor) -> tuple[Tensor, Tensor]:
        """Weights and biases of heads, which are zero for heads without."""
        return heads[..., : self.width], heads[..., self.width :].sum(-1)

    def cell_chances(self, X: Tensor) -> Tensor:
        """P of each cell by a joint model, in double precision, shape (n_records, n_cells)."""
        heads = self.heads.double()
        weights, biases = heads[:, :-1].T, heads[:, -1]
        if isinstance(self.extractor, HatRows):
            logits = (self.extractor.sparse(part).times(weights) + biases for part in X.split(_ROWS) if len(part))
        else:
            logits = (embedded.double() @ weights + biases for embedded in self.embeddings(X))
        parts = [part.softmax(1) for part in logits]
        return torch.cat(parts) if parts else torch.empty(0, self.n_cells, dtype=torch.float64)

    def worths(self, X: Tensor) -> Tensor:
        """Scores of a joint model in double precision: beside −1, single precision loses what a change is worth."""
        assert self.cell_values is not None
        return self.cell_chances(X) @ self.cell_values

    def probabilities(self, X: Tensor) -> Tensor:
        """Chance of label 1, shape (n_records,): what the model believes, whatever is decided about it."""
        return self.cell_chances(X)[:, 1::2].sum(1) if self.n_cells else self.scores(X).double().sigmoid()

    def _plain_scores(self, X: Tensor) -> Tensor:
        """Mean score of the heads; the extractor runs as at prediction (no dropout)."""
        if self.cell_values is not None:
            return self.worths(X).float()
        # In double precision, so that a record's score hardly depends on how many others are scored with it.
        weights, bias = self.split(self.heads.mean(0).double())
        parts = [(embedded.double() @ weights + bias).float() for embedded in self.embeddings(X)]
        return torch.cat(parts) if parts else torch.empty(0)

    def embeddings(self, X: Tensor) -> Iterator[Tensor]:
        """Embeddings as at prediction, some thousand records at a time, or so many images as a cache holds."""
        chunk = _ROWS if len(self.shape) == 1 else 128
        return (self.embed_fixed(part) for part in torch.split(X, chunk) if len(part))

    def _width_of_embedding(self) -> int:
        try:
            with torch.no_grad():
                return self.extractor(torch.zeros(1, *self.shape)).flatten(1).shape[1]
        except (RuntimeError, IndexError, TypeError) as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"the module cannot embed records of shape {self.shape}: {reason}.") from error

    def _start_head(self, head: Tensor, generator: torch.Generator) -> None:
        nn.init.uniform_(head, -1 / math.sqrt(self.width), 1 / math.sqrt(self.width), generator=generator)

    def _attach(self) -> None:
        """Let the heads and the extractor's parameters be views of the vector; autograd never sees them."""
        self.heads = self.params[self.n_extractor_params :].view(-1, self.head_size)
        for name, parameter in self.extractor.named_parameters():
            parameter.requires_grad_(False)
            if name in self.slices:
                parameter.data = self.params[self.slices[name]].view_as(parameter)


ExtractorBuilder = Callable[[], nn.Module]


def tensor_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """Tensors as a file of safetensors holds them."""
    return save({name: tensor.contiguous() for name, tensor in tensors.items()})
