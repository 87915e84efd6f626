"""Score models: a feature extractor followed by a linear head, all parameters in one flat vector.

Here too: how a model is built from a configuration or from a user's own module, and the checks that such a module
keeps records apart and starts from nothing that an earlier run has learnt.
"""

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from threading import RLock
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from fairdp.config import ModelConfig
from fairdp.errors import InputError, ParameterError
from fairdp.networks.layers import has_bookkeeping, refuse_mixing_layers, refuse_tied_parameters
from fairdp.networks.rows import CentredRows, ImageRows, OrientedGradients, SplineFeatures

Digests = frozenset[bytes]
ExtractorBuilder = Callable[[], nn.Module]

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh}
# For the two registers below.
_LOCK = RLock()
# Modules that runs of this process have started from: the tensors of each, and digests of what they held. The tensors
# themselves, because while a run in another thread differentiates, others stand in their places.
_STARTED: WeakKeyDictionary[nn.Module, tuple[tuple[Tensor, ...], Digests]] = WeakKeyDictionary()
# What modules of finished runs held that they had not held at their start.
_LEARNT: set[bytes] = set()
# One for the process, as the generator is. It keeps runs in other threads away, but not code that draws from torch's
# global generator without it: with a user's own module, a seed holds only while nobody else does so.
_GENERATOR_LOCK = RLock()
# Frozen parameters and buffers of a module, in the saved tensors.
FIXED = "extractor."
# Values of the cells of a joint model, in the saved tensors.
CELL_VALUES = "cell_values"
# Records of tables that are scored at once.
_ROWS = 8192
# Of torch's generators.
_LARGEST_SEED = 2**63 - 1


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

    def queried_state(self) -> dict[str, Tensor]:
        """The numbers of an input layer that follow from a release."""
        return self._fixed if isinstance(self.extractor, (SplineFeatures, ImageRows)) else {}

    def note_fixed(self) -> None:
        """Take what is fixed as it is now: numbers that follow from a release were put in."""
        self._fixed = self._live_fixed()

    def has_changed_itself(self) -> bool:
        """True if a forward pass has changed what should stay fixed."""
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
        """Outputs in training: the score of the only head, shape (n_records,), or one for each cell, (…, n_cells)."""
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
        if isinstance(self.extractor, SplineFeatures):
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


def plain_values(n_cells: int) -> Tensor:
    """Values of cells without any fairness target: a positive decision gains one for label 1 and loses one for 0."""
    return torch.tensor([-1.0, 1.0], dtype=torch.float64).repeat(n_cells // 2)


def tensor_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """Tensors as a file of safetensors holds them."""
    return save({name: tensor.contiguous() for name, tensor in tensors.items()})


@dataclass(frozen=True, eq=False)
class Given:
    """A builder for a module that is there already: an own loop trains it in place, once."""

    module: nn.Module

    def __call__(self) -> nn.Module:
        return self.module


def build_model(
    config: ModelConfig,
    shape: tuple[int, ...],
    module: ExtractorBuilder | None,
    seed: int,
    *,
    will_be_replaced: bool = False,
) -> ScoreModel:
    """A freshly initialised model, the same for the same seed, whatever other threads draw.

    Parameters
    ----------
    seed
        Of all weights that it starts from. Torch's global generator is left as it was.
    will_be_replaced
        Whether all its numbers will be read from elsewhere, so that what it starts from does not matter.
    """
    generator = torch.Generator().manual_seed(seed)
    heads: dict[str, Any] = {"n_cells": config.n_cells, "bias": config.bias}
    if module is None:
        model = ScoreModel(_known_extractor(config, shape, generator), shape, generator, **heads)
    else:
        # Another stream than the head's, which would otherwise repeat the numbers of the first layer.
        own_seed = int(torch.randint(_LARGEST_SEED, (1,), generator=generator))
        extractor = _built(module, own_seed)
        if not will_be_replaced:
            check_untrained(extractor)
        # Its first forward pass may draw as well.
        with seeded_globally(own_seed):
            model = ScoreModel(extractor, shape, generator, **heads)
    note_start(model.extractor)
    return model


def _known_extractor(config: ModelConfig, shape: tuple[int, ...], generator: torch.Generator) -> nn.Module:
    if config.kind == "logistic" and config.n_cells:
        zeros = dict(zip(config.numeric, config.zeros, strict=True))
        bounds = {"most_squares": config.most_squares, "norm": config.row_norm}
        return SplineFeatures(math.prod(shape), zeros, **bounds, bounded=config.bounded)
    if config.kind == "oriented_gradients":
        return ImageRows(shape, norm=config.row_norm)
    # Layers draw their first weights from the global generator as they are made; on this device they draw none.
    with torch.device("meta"):
        extractor = _layers(config, shape)
    extractor.to_empty(device="cpu")
    for layer in extractor.modules():
        if isinstance(layer, (nn.Linear, nn.Conv2d)):
            _start(layer, generator)
    return extractor


def _layers(config: ModelConfig, shape: tuple[int, ...]) -> nn.Module:
    if config.kind == "logistic":
        return logistic(config.n_active)
    if config.kind == "mlp":
        return mlp(math.prod(shape), config.hidden, activation=config.activation)
    return cnn(shape, activation=config.activation)


def _start(layer: nn.Linear | nn.Conv2d, generator: torch.Generator) -> None:
    """Weights and biases as torch draws them, uniform within one over the root of the number of inputs."""
    bound = 1 / math.sqrt(layer.weight[0].numel())
    nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
    if layer.bias is not None:
        nn.init.uniform_(layer.bias, -bound, bound, generator=generator)


def _built(module: ExtractorBuilder, seed: int) -> nn.Module:
    """A user's module that has nothing in common with the next one its builder would return."""
    if isinstance(module, nn.Module):
        kind = type(module).__name__
        raise InputError(
            f"`module` must build the extractor when it is called, got a built {kind}; pass the class or a function."
        )
    with seeded_globally(seed):
        extractor = module()
        if not isinstance(extractor, nn.Module):
            raise InputError(f"`module` must return a torch.nn.Module, got {type(extractor).__name__}.")
        if not isinstance(module, Given):
            check_fresh_weights(extractor, module())
    refuse_tied_parameters(extractor)
    return extractor


def logistic(n_active: int = 0) -> nn.Module:
    """No trained extractor, but perhaps bounded inputs: the score is linear in them."""
    return nn.Sequential(nn.Flatten(), BoundedInputs(n_active)) if n_active else nn.Flatten()


def mlp(n_features: int, hidden: tuple[int, ...], *, activation: str = "relu") -> nn.Module:
    """Fully connected layers, each followed by the activation."""
    layers: list[nn.Module] = [nn.Flatten()]
    for n_in, n_out in zip((n_features, *hidden[:-1]), hidden, strict=True):
        layers += [nn.Linear(n_in, n_out), ACTIVATIONS[activation]()]
    return nn.Sequential(*layers)


def cnn(shape: tuple[int, ...], *, activation: str = "tanh") -> nn.Module:
    """Two strided convolutions, a pooling and a layer of 64: small enough for the noise, large enough for faces."""
    if len(shape) != 3 or min(shape[1:]) < 5:
        needed = f"needs images of shape (channels, height, width) with at least 5 × 5 pixels, got {shape}"
        raise ParameterError("model", "cnn", needed)
    channels, height, width = shape
    act = ACTIVATIONS[activation]
    features: list[nn.Module] = [
        # Each image by its own mean and deviation: light and contrast go, and no other record is looked at.
        nn.GroupNorm(1, channels, affine=False),
        nn.Conv2d(channels, 16, 5, stride=2, padding=2),
        act(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        act(),
        nn.MaxPool2d(2),
        nn.Flatten(),
    ]
    flat = 32 * math.prod(_halved(_halved(side)) // 2 for side in (height, width))
    features += [nn.Linear(flat, 64), act()]
    return nn.Sequential(*features)


def _halved(side: int) -> int:
    """Output size of the strided convolutions above."""
    return (side + 1) // 2


class Codes(nn.Module):
    """Category codes as the whole numbers that ``nn.Embedding`` looks up; first layer of a model with embeddings."""

    def forward(self, records: Tensor) -> Tensor:
        return records.long()


class BoundedInputs(nn.Module):
    """The inputs of the functional mechanism: no record is longer than one, nor than √k in the sum."""

    def __init__(self, n_active: int) -> None:
        super().__init__()
        self.n_active = n_active

    def forward(self, records: Tensor) -> Tensor:
        sums = records.abs().sum(1, keepdim=True) / math.sqrt(self.n_active)
        norms = torch.maximum(torch.linalg.vector_norm(records, dim=1, keepdim=True), sums)
        return torch.where(norms.isfinite(), records / norms.clamp(min=1.0), 0.0)


def check_fresh_weights(first: nn.Module, second: nn.Module) -> None:
    """Refuse a builder whose two modules have anything in common: then so have the runs that start from them."""
    if first is second or _places(_tensors(first)) & _places(_tensors(second)):
        raise InputError(
            "`module` must build a new module every time, but two calls return the same one, or share parameters or "
            "buffers; build all of them inside the function, or copy.deepcopy what is public."
        )


def check_untrained(module: nn.Module) -> None:
    """Refuse a module that has been in a run before, and one with numbers that an earlier run has learnt."""
    tensors = _tensors(module)
    with _LOCK:
        starts = list(_STARTED.values())
        used = module in _STARTED or any(_places(tensors) & _places(found) for found, _ in starts)
        learnt = _LEARNT.union(*(_digests(found) - held for found, held in starts))
    if used or _digests(tensors) & learnt:
        raise InputError(
            "`module` was in an earlier run of this program, or starts from what one has learned, so its weights are "
            "not public; build one with new weights."
        )


def note_start(module: nn.Module) -> None:
    """Remember a module, and what it holds, before a run trains it or a saved model is read into it."""
    tensors = _tensors(module)
    with _LOCK:
        _STARTED[module] = tensors, _digests(tensors)


def mark_trained(module: nn.Module) -> None:
    """Remember what a module holds by now and did not hold at its start: a copy of it is as trained as itself.

    Only digests are kept, and only in memory.
    """
    with _LOCK:
        _, held = _STARTED.get(module, ((), frozenset()))
        _LEARNT.update(_digests(_tensors(module)) - held)


def _tensors(module: nn.Module) -> tuple[Tensor, ...]:
    """Parameters, buffers, and tensors that are plain attributes; those of lazy layers come with the first record."""
    plain = (value for layer in module.modules() for value in vars(layer).values() if isinstance(value, Tensor))
    everything = (*module.parameters(), *module.buffers(), *plain)
    return tuple(t for t in everything if not is_lazy(t) and t.layout == torch.strided and t.numel())


def _places(tensors: Iterable[Tensor]) -> set[int]:
    """Where tensors are in memory."""
    return {tensor.untyped_storage().data_ptr() for tensor in tensors}


def _digests(tensors: Iterable[Tensor]) -> Digests:
    """One for each tensor, of its shape and numbers."""
    return frozenset(_digest(tensor) for tensor in tensors)


def _digest(tensor: Tensor) -> bytes:
    digest = hashlib.blake2b(repr((tensor.shape, tensor.dtype)).encode(), digest_size=16)
    digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.digest()


def check_records_stay_apart(model: ScoreModel) -> None:
    """Refuse a module that lets one record's embedding depend on another, or that remembers what it saw.

    The probe is public noise; no private record is needed to find out.
    """
    probe = public_probe(model)
    dropouts = [m for m in model.extractor.modules() if isinstance(m, nn.modules.dropout._DropoutNd) and m.training]
    for layer in dropouts:
        layer.eval()
    before = [value.clone() for value in model.extractor.state_dict().values()]
    with torch.no_grad():
        together = model.extractor(probe).flatten(1)
        apart = torch.cat([model.extractor(record[None]).flatten(1) for record in probe])
    for layer in dropouts:
        layer.train()
    if any(not torch.equal(a, b) for a, b in zip(before, model.extractor.state_dict().values(), strict=True)):
        raise InputError(
            "the module changes its own state in forward, so it would remember private records; remove that buffer, or "
            "use nn.GroupNorm in place of a batch norm."
        )
    if together.shape != apart.shape or not torch.allclose(together, apart, rtol=1e-3, atol=1e-4):
        raise InputError(
            "the module lets the records of a batch influence each other; every record must be embedded on its own: "
            "look for a mean, a maximum or a softmax over the first axis."
        )


def public_probe(model: ScoreModel) -> Tensor:
    """A few records of noise, the same for everybody."""
    return torch.rand(4, *model.shape, generator=torch.Generator().manual_seed(0))


def keeps_records_apart(extractor: nn.Module) -> bool:
    """True if every layer is known to treat each record on its own, whatever the values.

    A user's own forward is code that a probe cannot see through, so it is taken record by record.
    """
    layers = list(extractor.modules())
    # A forward that was put in the place of a layer's own is code that its type does not tell of.
    hooked = any(layer._forward_hooks or layer._forward_pre_hooks or "forward" in vars(layer) for layer in layers)
    return not hooked and all(
        type(layer) in _APART or (type(layer) is nn.Flatten and layer.start_dim >= 1) for layer in layers
    )


_APART = {
    *(
        nn.Sequential,
        nn.Identity,
        Codes,
        BoundedInputs,
        SplineFeatures,
        ImageRows,
        OrientedGradients,
        CentredRows,
        nn.Linear,
        nn.Conv1d,
        nn.Conv2d,
        nn.Embedding,
    ),
    *(nn.LayerNorm, nn.GroupNorm, nn.InstanceNorm1d, nn.InstanceNorm2d),
    *(nn.ReLU, nn.Tanh, nn.Sigmoid, nn.GELU, nn.SiLU, nn.ELU, nn.LeakyReLU, nn.Softplus, nn.Hardtanh),
    *(nn.MaxPool1d, nn.MaxPool2d, nn.AvgPool1d, nn.AvgPool2d, nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d),
}


def draws_at_random(model: ScoreModel) -> bool:
    """True if a forward pass may toss coins of its own: dropout, or anything in a user's own code."""
    return not model.keeps_records_apart


@contextmanager
def seeded_globally(seed: int) -> Iterator[None]:
    """Let torch's global generator start from a seed, and leave it afterwards as it was."""
    with _GENERATOR_LOCK, torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def sequence_of(extractor: nn.Module) -> list[tuple[str, nn.Module]]:
    """The layers in the order in which they run, repeated ones as often as they do."""
    return list(extractor._modules.items()) if isinstance(extractor, nn.Sequential) else [("", extractor)]


def slices_of(model: ScoreModel, name: str, layer: nn.Module) -> dict[str, slice]:
    """Where the trained parameters of one layer stand in the vector."""
    names = {
        parameter: f"{name}.{parameter}" if name else parameter
        for parameter, _ in layer.named_parameters(recurse=False)
    }
    return {parameter: model.slices[full] for parameter, full in names.items() if full in model.slices}


def is_trained(model: ScoreModel, name: str, layer: nn.Module) -> bool:
    """True if a layer has own parameters that are trained."""
    return bool(slices_of(model, name, layer))


def each_trained_once(model: ScoreModel) -> bool:
    """True if every parameter is trained and belongs to one layer that stands at one place."""
    return len(_uses_of_parameters(model)) == len(model.slices)


def all_bookkept(model: ScoreModel) -> bool:
    """True if every trained layer is known, trained whole, and shares no parameter."""
    if not model.keeps_records_apart:
        return False
    tied = len(_uses_of_parameters(model)) != len(list(model.extractor.parameters()))
    trained = [(name, m) for name, m in model.extractor.named_modules() if is_trained(model, name, m)]
    whole = all(len(slices_of(model, name, m)) == len(list(m.parameters(recurse=False))) for name, m in trained)
    named = all(set(slices_of(model, name, m)) <= {"weight", "bias"} for name, m in trained)
    return not tied and whole and named and all(has_bookkeeping(m) for _, m in trained)


def _uses_of_parameters(model: ScoreModel) -> list[str]:
    """Names of parameters, one for each place where one stands."""
    return [name for name, _ in model.extractor.named_parameters(remove_duplicate=False)]
