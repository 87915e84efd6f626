"""The records of a run as tensors, and batches of them in parts that fit into memory."""

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairdp.accounting.recipe import Recipe
from fairdp.config.limits import LARGEST_PHYSICAL_BATCH
from fairdp.data.grouped import GroupedData
from fairdp.data.stored_rows import StoredRows
from fairdp.networks.backprop import Backprop, HeadOnly, SparseHead, backprop_of
from fairdp.networks.global_generator import seeded_globally
from fairdp.networks.hat_rows import HatRows
from fairdp.networks.models import ScoreModel
from fairdp.networks.sparse_rows import SparseRows
from fairdp.networks.stack import LinearStack
from fairdp.networks.terms import LayerTerm, Passed
from fairdp.streams import StepKeys
from fairdp.training.sampling import Positions

# Embeddings that no training changes are kept if they are not larger than this, and so are the rows of a batch.
_MOST_BYTES_KEPT, _MOST_BYTES_OF_A_BATCH = 2**29, 2**26
# Images that pass through a network at once: fewer would be no faster, and more leave workers less to share.
_IMAGES = 256
# Many parts are a multiple of this, and few a power of two, so that 2, 4 or 8 workers have the same to do.
_ROUND = 8


Rows: TypeAlias = Tensor | SparseRows
Where: TypeAlias = Tensor | slice


class Part:
    """Some records of a batch, which go forward once and back once, no matter who asks first.

    ``weights`` are the public factors of the records, and ``members`` the head that each goes to (DP-MC). ``coins`` are
    the seeds of what a network tosses on the way forward and back. ``terms`` and ``norms`` are the records' gradients,
    once they are made.
    """

    def __init__(
        self, records: "Records", places: Where, rows: Rows, members: Tensor | None, coins: tuple[int, int] | None
    ) -> None:
        self.records, self.rows, self.members, self.coins = records, rows, members, coins
        self.labels, self.groups = at(records.y, places).float(), at(records.groups, places).long()
        self.weights = at(records.weights, places if records.are_weighted else self.groups)
        self.terms: list[LayerTerm] | None = None
        self.norms: Tensor | None = None

    @cached_property
    def passed(self) -> Passed:
        """The records, gone forward through the model as it is at the first call."""
        if self.coins is None:
            return self.records.route.forward(self.rows)
        with seeded_globally(self.coins[0]):
            return self.records.route.forward(self.rows)

    def gradients(self, at_scores: Tensor) -> list[LayerTerm]:
        """The records' gradients, from those of the loss at their scores."""
        passed = self.passed
        if self.coins is None:
            return passed.backward(at_scores, self.members)
        with seeded_globally(self.coins[1]):
            return passed.backward(at_scores, self.members)


class Records:
    """All records of a run, as a model takes them: inputs, or embeddings that no training changes."""

    def __init__(self, model: ScoreModel, data: GroupedData, recipe: Recipe, *, max_part: int | None = None) -> None:
        self.model, self.by_group = model, recipe.group_optimizers
        # Stored rows stay where they are: only what is sampled is read.
        self.X: Tensor | StoredRows = data.X if isinstance(data.X, StoredRows) else as_tensor(data.X)
        # A byte for each of many records; of few, as the loss takes them.
        self.y = torch.tensor(data.y, dtype=torch.int8 if isinstance(data.X, StoredRows) else torch.float32)
        self.groups, self.n_groups = torch.from_numpy(data.groups), data.n_groups
        # Of each group; or of each record, at most as much: none can have more influence than is accounted for.
        weights = recipe.record_weights
        if data.weights is not None:
            weights = weights[data.groups] * data.weights
        self.weights, self.are_weighted = torch.from_numpy(weights).to(torch.float32), data.weights is not None
        self.is_embedded = (
            not model.n_extractor_params
            and model.keeps_records_apart
            and not isinstance(model.extractor, HatRows)
            # Inputs that are used unchanged need no copy.
            and not LinearStack.fits(model)
            and 4 * len(self.X) * model.width <= _MOST_BYTES_KEPT
        )
        if self.is_embedded:
            embedded = (rows for batch in data.batches() for rows in model.embeddings(as_tensor(batch.inputs)))
            self.X = torch.cat([torch.empty(0, model.width), *embedded])
        self.row_bytes = 4 * math.prod(self.X.shape[1:])
        self.max_part = max_part or (LARGEST_PHYSICAL_BATCH if len(self.X.shape) == 2 else _IMAGES)
        self.route: Backprop = self._route()
        self.sparse: SparseRows | None = None
        self._parts: dict[tuple[int, int], SparseRows] = {}
        if isinstance(model.extractor, HatRows) and model.extractor.row_bytes * len(self.X) <= _MOST_BYTES_KEPT:
            self.sparse = model.extractor.sparse_of(as_tensor(batch.inputs) for batch in data.batches())

    def _route(self) -> Backprop:
        if isinstance(self.model.extractor, HatRows):
            return SparseHead(self.model)
        return HeadOnly(self.model) if self.is_embedded else backprop_of(self.model)

    def _consecutive(self, rows: SparseRows, places: slice) -> SparseRows:
        """Rows next to each other; a run that takes everybody in every step asks for the same ones again."""
        start, stop = span = places.start, places.stop
        if span not in self._parts:
            self._parts[span] = rows.between(start, stop)
        return self._parts[span]

    def rows_at(self, places: Where) -> Rows:
        """The records at these places, as the route takes them."""
        if self.sparse is not None:
            sparse = self.sparse
            return self._consecutive(sparse, places) if isinstance(places, slice) else sparse.at(places)
        rows, extractor = at(self.X, places), self.model.extractor
        return extractor.sparse(rows) if isinstance(extractor, HatRows) else rows

    def batch(
        self, chosen: Sequence[Positions], members: Sequence[Tensor] | None = None, coins: StepKeys | None = None
    ) -> "list[Block]":
        """The records at these positions, block by block, each with the head that it goes to if there are several.

        Where groups are summed apart, a block of each group takes the place of every block. ``coins`` are for networks
        that toss some, each part its own, so that it does not matter who passes it.
        """
        blocks = [torch.from_numpy(positions) for positions in chosen]
        heads: Sequence[Tensor | None] = members or [None] * len(blocks)
        pairs = list(zip(blocks, heads, strict=True))
        if self.by_group:
            apart = [each for pair in pairs for each in self._by_group(*pair)]
            return [
                Block(self, *each, keeps="nothing", number=number, coins=coins, group=number % self.n_groups)
                for number, each in enumerate(apart)
            ]
        is_small = self.row_bytes * sum(len(block) for block in blocks) <= _MOST_BYTES_OF_A_BATCH
        keeps: Keeps = "rows" if is_small else "nothing"
        if len(blocks) == 1 and 0 < len(blocks[0]) <= self.max_part:
            keeps = "pass"
        return [Block(self, *pair, keeps=keeps, number=number, coins=coins) for number, pair in enumerate(pairs)]

    def _by_group(self, chosen: Tensor, members: Tensor | None) -> Iterator[tuple[Tensor, Tensor | None]]:
        """Line 7 of Algorithm 1: the batch of each group, possibly empty."""
        groups = self.groups[chosen]
        for group in range(self.n_groups):
            mine = (groups == group).nonzero().flatten()
            yield chosen[mine], None if members is None else members[mine]

    @property
    def is_sparse(self) -> bool:
        """Whether the route takes sparse rows."""
        return isinstance(self.route, SparseHead)


Keeps = Literal["pass", "rows", "nothing"]


def where(chosen: Tensor) -> Where:
    """Positions, which are in order; if they leave none out as a slice: a full batch need not be copied."""
    if not len(chosen):
        return chosen
    first, last = int(chosen[0]), int(chosen[-1])
    return slice(first, last + 1) if last - first + 1 == len(chosen) else chosen


def as_tensor(X: NDArray[np.float32]) -> Tensor:
    """Records as torch wants them, in writable memory, though nothing writes; only read-only arrays are copied."""
    return torch.from_numpy(np.require(X, np.float32, ["C", "W"]))


def at(values: Tensor | StoredRows, places: Where) -> Tensor:
    """The values at these places, shared if they are consecutive and in memory."""
    if isinstance(values, StoredRows):
        return torch.from_numpy(values.at(places if isinstance(places, slice) else places.numpy()))
    return values[places] if isinstance(places, slice) else values.index_select(0, places)


class Block:
    """The sampled records of one block, in parts, each to be asked for once or twice.

    A batch that is a single part keeps its forward pass, to go forward once even if it is gone through twice; of a
    larger batch only the rows are kept, as long as there is room for them. ``group`` is that of all its records, where
    groups are summed apart.
    """

    def __init__(
        self,
        records: Records,
        chosen: Tensor,
        members: Tensor | None,
        *,
        keeps: Keeps,
        number: int = 0,
        coins: StepKeys | None = None,
        group: int | None = None,
    ) -> None:
        self.records, self.chosen, self.members, self.group = records, chosen, members, group
        self._n, self._length = len(chosen), self._length_of_parts(len(chosen))
        self._keeps, self._number, self._coins = keeps, number, coins
        self._rows: dict[int, Rows] = {}
        self._passed: dict[int, Part] = {}

    def _length_of_parts(self, n: int) -> int:
        """Records of a part, but perhaps of the last: parts are 1, 2, 4, 8 or a multiple of 8, and all of one size."""
        if n <= self.records.max_part:
            return max(1, n)
        n_parts = math.ceil(n / self.records.max_part)
        unit = min(_ROUND, 2 ** math.ceil(math.log2(n_parts)))
        return math.ceil(n / (unit * math.ceil(n_parts / unit)))

    @property
    def sizes(self) -> list[int]:
        """Records of each part."""
        whole, rest = divmod(self._n, self._length)
        return [self._length] * whole + [rest] * (rest > 0)

    def part(self, number: int) -> Part:
        """One of the parts, which are numbered in the order of their records."""
        if number in self._passed:
            return self._passed[number]
        here = slice(number * self._length, (number + 1) * self._length)
        places = where(self.chosen if self._length >= self._n else self.chosen[here])
        rows = self._rows.get(number)
        if rows is None:
            rows = self.records.rows_at(places)
        members = None if self.members is None else self.members[here]
        part = Part(self.records, places, rows, members, self._coins_of(number))
        if self._keeps == "pass":
            self._passed[number] = part
        # Sparse rows are at hand anyway.
        elif self._keeps == "rows" and not self.records.is_sparse:
            self._rows[number] = rows
        return part

    def _coins_of(self, part: int) -> tuple[int, int] | None:
        if self._coins is None:
            return None
        forth, back = (self._coins.seed(f"dropout {self._number} {part} {way}") for way in ("forth", "back"))
        return forth, back
