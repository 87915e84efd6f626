"""The sum over the records of a batch before noise, with how far one record can move it.

Records of a batch go forward and back in parts, whose sums are added in one order, whoever computes them: the bits are
the same for any number of workers. `released` adds the noise where a sum is over all records instead of a batch.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairdp.accounting.plan import AuxiliaryMechanism, BatchView, Coordinates, Memory, Plan, Recipe, Statistics
from fairdp.data.grouped import GroupedData, StoredRows
from fairdp.distributed import ProcessGroup, process_group, shares
from fairdp.networks.gradients import Backprop, HeadOnly, LinearStack, SparseHead, backprop_of
from fairdp.networks.layers import ApartTerm, LayerTerm, Passed
from fairdp.networks.model import ScoreModel, seeded_globally
from fairdp.networks.rows import ImageRows, SparseRows, SplineFeatures
from fairdp.parameters import LARGEST_PHYSICAL_BATCH
from fairdp.randomness import Chain, StepKeys
from fairdp.training.noise import BoundedSum, Positions, add_gaussian_noise, bounded_rows, clip_and_add, gradient_norms

Rows: TypeAlias = Tensor | SparseRows
Where: TypeAlias = Tensor | slice
Keeps = Literal["pass", "rows", "nothing"]
# What a part adds, from the numbers of its block and of the part in it.
Compute = Callable[[int, int], Tensor]

# Embeddings that no training changes are kept if they are not larger than this, and so are the rows of a batch.
_MOST_BYTES_KEPT, _MOST_BYTES_OF_A_BATCH = 2**29, 2**26
# Images that pass through a network at once: fewer would be no faster, and more leave workers less to share.
_IMAGES = 256
# Many parts are a multiple of this, and few a power of two, so that 2, 4 or 8 workers have the same to do.
_ROUND = 8
# The factor on the clip norm of methods that have only one.
_ONE = torch.ones(1)
# Records that are summed at once, and how many such parts are a block.
_CHUNK, _PARTS = 8192, 16


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
            and not isinstance(model.extractor, SplineFeatures)
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
        if isinstance(model.extractor, SplineFeatures) and model.extractor.row_bytes * len(self.X) <= _MOST_BYTES_KEPT:
            self.sparse = model.extractor.sparse_of(as_tensor(batch.inputs) for batch in data.batches())

    def _route(self) -> Backprop:
        if isinstance(self.model.extractor, SplineFeatures):
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
        return extractor.sparse(rows) if isinstance(extractor, SplineFeatures) else rows

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
        """True if the route takes sparse rows."""
        return isinstance(self.route, SparseHead)


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


class Sums:
    """Sums over the batches of one run, at the current parameters of its model."""

    def __init__(self, model: ScoreModel, recipe: Recipe, auxiliary: AuxiliaryMechanism) -> None:
        self.model, self.recipe, self.auxiliary = model, recipe, auxiliary
        self.auxiliary_release = auxiliary.auxiliary_release
        self.processes = process_group()

    def statistics(self, batch: list[Block], memory: Memory) -> BoundedSum:
        """Sum of what the batch adds to the statistics."""
        assert isinstance(self.auxiliary_release, Statistics)

        def added(block: int, part: int) -> Tensor:
            view = self._measured(batch[block].part(part), memory)
            # A record without a finite score contributes nothing, although its decision would be a number.
            return bounded_rows(self.auxiliary.contributions(view, memory), view.is_finite())

        sizes = [block.sizes for block in batch]
        [total] = summed_in_order(sizes, added, n_numbers=self.auxiliary_release.size, processes=self.processes)
        return BoundedSum(total, np.ones(len(self.recipe.group_sizes)))

    def clipped_gradients(self, batch: list[Block], memory: Memory, n_members: int = 1) -> BoundedSum:
        """Sum of the batch's weighted, clipped gradients, with the coordinates clipped together with them.

        Where groups have their own optimisers, a row for each group: of all rows, a record moves that of its own.
        """
        n_heads = self.model.n_cells or n_members
        n_params = self.model.n_extractor_params + n_heads * self.model.head_size
        n_further = self.auxiliary_release.size if isinstance(self.auxiliary_release, Coordinates) else 0
        factors = self.clip_factors(memory)

        def added(block: int, number: int) -> Tensor:
            part, total = batch[block].part(number), torch.zeros(n_params + n_further)
            terms = self._gradients(part, memory)
            if n_further:
                terms = [*terms, ApartTerm(self.auxiliary.contributions(_view_of(part), memory), total[n_params:])]
            clip_norm = self.recipe.clip_norm * (factors if len(factors) == 1 else factors[part.groups])
            clip_and_add(terms, part.weights, clip_norm=clip_norm, total=total[:n_params], norms=part.norms)
            return total

        rows = summed_in_order(
            [block.sizes for block in batch],
            added,
            n_numbers=n_params + n_further,
            processes=self.processes,
            rows=[block.group or 0 for block in batch],
        )
        apart = self.recipe.group_optimizers
        return BoundedSum(torch.stack(rows) if apart else rows[0], self.recipe.sensitivities * factors.numpy())

    def clip_factors(self, memory: Memory) -> Tensor:
        """Factor on the clip norm of each group, or a single one for all."""
        factors = self.auxiliary.clip_factors(memory)
        return _ONE if factors is None else factors

    def _measured(self, part: Part, memory: Memory) -> BatchView:
        """Records as statistics see them."""
        assert isinstance(self.auxiliary_release, Statistics)
        if self.auxiliary_release.of == "norms":
            part.norms = gradient_norms(self._gradients(part, memory))
            return replace(_view_of(part), norms=part.norms)
        return _view_of(part)

    def _gradients(self, part: Part, memory: Memory) -> list[LayerTerm]:
        """Gradients of a part, computed once: those whose norms were measured are those that are summed."""
        if part.terms is None:
            part.terms = part.gradients(self.auxiliary.score_gradient(_view_of(part), memory))
        return part.terms


def _view_of(part: Part) -> BatchView:
    return BatchView(part.passed.scores, part.labels, part.groups)


@dataclass(frozen=True)
class _Piece:
    """Parts of one block that one process adds up by itself; ``begins`` says whether the block begins with them."""

    rank: int
    block: int
    parts: range
    begins: bool


def summed_in_order(
    sizes: Sequence[Sequence[int]],
    compute: Compute,
    *,
    n_numbers: int,
    processes: ProcessGroup,
    rows: Sequence[int] | None = None,
) -> list[Tensor]:
    """The rows of the sum of all parts, in double precision; only the first process has it, the others have zeros.

    Parameters
    ----------
    sizes
        Records of each part of each block, by which the work is shared.
    compute
        Called for the own parts only, in their order.
    rows
        The row of the sum that each block belongs to; None: all belong to one.
    """
    found: dict[int, Tensor] = {}

    def add(block: int, total: Tensor) -> None:
        row = 0 if rows is None else rows[block]
        found[row] = found[row] + total if row in found else total

    if processes.size == 1:
        for block, parts in enumerate(sizes):
            add(block, _added(block, range(len(parts)), compute, n_numbers))
    else:
        _add_together(sizes, compute, n_numbers, processes, add)
    n_rows = 1 if rows is None else max(rows, default=0) + 1
    return [found[row] if row in found else _nothing(n_numbers) for row in range(n_rows)]


def _add_together(
    sizes: Sequence[Sequence[int]],
    compute: Compute,
    n_numbers: int,
    processes: ProcessGroup,
    add: Callable[[int, Tensor], None],
) -> None:
    """Compute the own parts; the first process adds up those of all, block by block."""
    pieces = _pieces(sizes, processes.size)
    mine = [_added(piece.block, piece.parts, compute, n_numbers) for piece in pieces if piece.rank == processes.rank]
    if not processes.is_rank_zero:
        if mine:
            processes.send_to_rank_zero(torch.stack(mine))
        return
    of_block = torch.zeros(0)
    for place, (piece, total) in enumerate(_arriving(pieces, mine, n_numbers, processes), start=1):
        of_block = total if piece.begins else of_block + total
        if place == len(pieces) or pieces[place].begins:
            add(piece.block, of_block)


def _pieces(sizes: Sequence[Sequence[int]], n_workers: int) -> list[_Piece]:
    """All pieces in the order in which they are added; those of a process are next to each other."""
    owners = shares([size for block in sizes for size in block], n_workers)
    found, start = [], 0
    for block, parts in enumerate(sizes):
        own = owners[start : start + len(parts)]
        # A block without records adds nothing; whoever had the last one has it too.
        first = own[0] if own else owners[start - 1] if start else 0
        found.append(_Piece(first, block, range(own.count(first)), begins=True))
        found += [_Piece(own[p], block, range(p, p + 1), begins=False) for p in range(own.count(first), len(own))]
        start += len(parts)
    return found


def _arriving(
    pieces: Sequence[_Piece], mine: Sequence[Tensor], n_numbers: int, processes: ProcessGroup
) -> Iterator[tuple[_Piece, Tensor]]:
    """Every piece with its sum, in their order, at the first process."""
    for rank in range(processes.size):
        theirs = [piece for piece in pieces if piece.rank == rank]
        if theirs:
            yield from zip(theirs, processes.received(rank, (len(theirs), n_numbers)) if rank else mine, strict=True)


def _added(block: int, parts: range, compute: Compute, n_numbers: int) -> Tensor:
    if not parts:
        return _nothing(n_numbers)
    # In double precision: over many records single precision would round past the bound.
    total = compute(block, parts[0]).to(torch.float64, copy=True)
    for part in parts[1:]:
        total += compute(block, part)
    return total


def _nothing(n_numbers: int) -> Tensor:
    return torch.zeros(n_numbers, dtype=torch.float64)


def calibrate_input_layer(model: ScoreModel, data: GroupedData, plan: Plan, chain: Chain) -> None:
    """Release the sum that the input layer asks for, if any, and set the layer's numbers from it."""
    layer = model.extractor
    # Of a user's own module nobody knows how far a record moves what it would ask.
    if not isinstance(layer, (SplineFeatures, ImageRows)) or layer.query not in plan.query_stds:
        return
    starts = range(0, data.n_samples, _CHUNK)
    blocks = [starts[first : first + _PARTS] for first in range(0, len(starts), _PARTS)]

    def answers(block: int, part: int) -> Tensor:
        start = blocks[block][part]
        return layer.answers(as_tensor(data.take(slice(start, start + _CHUNK)).inputs))

    sizes = [[min(_CHUNK, data.n_samples - start) for start in block] for block in blocks]
    [total] = summed_in_order(sizes, answers, n_numbers=layer.width, processes=process_group())
    noisy = released(total, plan, layer.query, chain)
    layer.learn(noisy, n_records=sum(plan.recipe.group_sizes), deviation=plan.query_stds[layer.query])
    model.note_fixed()


def released(total: Tensor, plan: Plan, what: str, chain: Chain) -> Tensor:
    """A sum about all training records, which one of them moves by at most one, with the noise planned for it."""
    n_groups, std = len(plan.mechanisms), plan.query_stds[what]
    bounded, stream = BoundedSum(total, np.ones(n_groups)), chain.step().stream(what)
    return add_gaussian_noise(bounded, std, accounted_multipliers=np.full(n_groups, std), stream=stream, purpose=what)
