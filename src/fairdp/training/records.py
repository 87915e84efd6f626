"""The records of a run as tensors, and batches of them in parts that fit into memory."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from fairdp.accounting.recipe import Recipe
from fairdp.data.grouped import GroupedData
from fairdp.networks.backprop import Backprop, HeadOnly, SparseHead, backprop_of
from fairdp.networks.hat_rows import HatRows
from fairdp.networks.models import ScoreModel
from fairdp.networks.sparse_rows import SparseRows
from fairdp.networks.stack import LinearStack
from fairdp.networks.terms import LayerTerm, Passed
from fairdp.training.sampling import Positions

# Embeddings that no training changes are kept if they are not larger than this, and so are the rows of a batch.
_MOST_BYTES_KEPT, _MOST_BYTES_OF_A_BATCH = 2**29, 2**26


Rows: TypeAlias = Tensor | SparseRows


class Part:
    """Some records of a batch, which go forward once and back once, no matter who asks first.

    ``weights`` are the public factors of the records, and ``members`` the head that each goes to (DP-MC). ``terms`` and
    ``norms`` are the records' gradients, once they are made.
    """

    def __init__(self, records: "Records", chosen: Tensor, rows: Rows, members: Tensor | None) -> None:
        self.records, self.rows, self.members = records, rows, members
        self.labels, self.groups = at(records.y, chosen), at(records.groups, chosen)
        self.weights = at(records.weights, chosen)
        self.terms: list[LayerTerm] | None = None
        self.norms: Tensor | None = None

    @cached_property
    def passed(self) -> Passed:
        """The records, gone forward through the model as it is at the first call."""
        return self.records.route.forward(self.rows)


class Records:
    """All records of a run, as a model takes them: inputs, or embeddings that no training changes."""

    def __init__(self, model: ScoreModel, data: GroupedData, recipe: Recipe, *, max_part: int) -> None:
        self.model, self.max_part, self.by_group = model, max_part, recipe.group_optimizers
        # Torch wants writable memory, though nothing here writes; only read-only arrays are copied.
        self.X = torch.from_numpy(np.require(data.X, np.float32, ["C", "W"]))
        self.y = torch.tensor(data.y, dtype=torch.float32)
        self.groups, self.n_groups = torch.from_numpy(data.groups), data.n_groups
        weights = recipe.record_weights[data.groups]
        if data.weights is not None:
            # At most one each: no record can have more influence than is accounted for.
            weights = weights * data.weights
        self.weights = torch.from_numpy(weights).to(torch.float32)
        self.is_embedded = (
            not model.n_extractor_params
            and model.keeps_records_apart
            and not isinstance(model.extractor, HatRows)
            # Inputs that are used unchanged need no copy.
            and not LinearStack.fits(model)
            and 4 * len(self.X) * model.width <= _MOST_BYTES_KEPT
        )
        if self.is_embedded:
            self.X = torch.cat([torch.empty(0, model.width), *model.embeddings(self.X)])
        self.row_bytes = 4 * self.X[:1].numel()
        self.route: Backprop = self._route()
        self.sparse: SparseRows | None = None
        self._parts: dict[tuple[int, int], SparseRows] = {}
        if isinstance(model.extractor, HatRows) and model.extractor.row_bytes * len(self.X) <= _MOST_BYTES_KEPT:
            self.sparse = model.extractor.sparse(self.X)

    def _route(self) -> Backprop:
        if isinstance(self.model.extractor, HatRows):
            return SparseHead(self.model)
        return HeadOnly(self.model) if self.is_embedded else backprop_of(self.model)

    def _consecutive(self, rows: SparseRows, start: int, stop: int) -> SparseRows:
        """Rows next to each other; a run that takes everybody in every step asks for the same ones again."""
        if (start, stop) not in self._parts:
            self._parts[start, stop] = rows.between(start, stop)
        return self._parts[start, stop]

    def rows_at(self, chosen: Tensor) -> Rows:
        """The records at these positions, as the route takes them."""
        if self.sparse is not None:
            span = span_of(chosen)
            return self.sparse.at(chosen) if span is None else self._consecutive(self.sparse, *span)
        rows, extractor = at(self.X, chosen), self.model.extractor
        return extractor.sparse(rows) if isinstance(extractor, HatRows) else rows

    def batch(self, chosen: Sequence[Positions], members: Sequence[Tensor] | None = None) -> "list[Block]":
        """The records at these positions, block by block, each with the head that it goes to if there are several.

        Where groups are summed apart, a block of each group takes the place of every block.
        """
        blocks = [torch.from_numpy(positions) for positions in chosen]
        heads: Sequence[Tensor | None] = members or [None] * len(blocks)
        if self.by_group:
            return [block for pair in zip(blocks, heads, strict=True) for block in self._blocks_of_groups(*pair)]
        if len(blocks) == 1 and 0 < len(blocks[0]) <= self.max_part:
            return [Block(self, blocks[0], heads[0], keeps="pass")]
        is_small = self.row_bytes * sum(len(block) for block in blocks) <= _MOST_BYTES_OF_A_BATCH
        keeps: Keeps = "rows" if is_small else "nothing"
        return [Block(self, *pair, keeps=keeps) for pair in zip(blocks, heads, strict=True)]

    def _blocks_of_groups(self, chosen: Tensor, members: Tensor | None) -> "Iterator[Block]":
        """Line 7 of Algorithm 1: the batch of each group, possibly empty."""
        groups = self.groups[chosen]
        for group in range(self.n_groups):
            mine = (groups == group).nonzero().flatten()
            own = None if members is None else members[mine]
            yield Block(self, chosen[mine], own, keeps="nothing", group=group)

    @property
    def is_sparse(self) -> bool:
        """Whether the route takes sparse rows."""
        return isinstance(self.route, SparseHead)


Keeps = Literal["pass", "rows", "nothing"]


def span_of(chosen: Tensor) -> tuple[int, int] | None:
    """First position and end, if the positions, which are in order, leave none out: a full batch need not be copied."""
    if not len(chosen) or int(chosen[-1]) - int(chosen[0]) + 1 != len(chosen):
        return None
    return int(chosen[0]), int(chosen[-1]) + 1


def at(values: Tensor, chosen: Tensor) -> Tensor:
    """The values at these positions, shared if they are consecutive."""
    span = span_of(chosen)
    return values.index_select(0, chosen) if span is None else values[slice(*span)]


class Block:
    """The sampled records of one block, in parts, to be iterated over once or twice.

    A batch that is a single part keeps its forward pass, to go forward once even if it is gone through twice; of a
    larger batch only the rows are kept, as long as there is room for them. ``group`` is that of all its records, where
    groups are summed apart.
    """

    def __init__(
        self, records: Records, chosen: Tensor, members: Tensor | None, *, keeps: Keeps, group: int | None = None
    ) -> None:
        self.records, self.chosen, self.members, self.group = records, chosen, members, group
        self._rows = records.X.index_select(0, chosen) if keeps == "rows" and not records.is_sparse else None
        self._only = self._part(0) if keeps == "pass" else None

    def __iter__(self) -> Iterator[Part]:
        if self._only is not None:
            yield self._only
            return
        yield from (self._part(start) for start in range(0, len(self.chosen), self.records.max_part))

    def _part(self, start: int) -> Part:
        records, here = self.records, slice(start, start + self.records.max_part)
        chosen = self.chosen[here]
        rows = records.rows_at(chosen) if self._rows is None else self._rows[here]
        return Part(records, chosen, rows, None if self.members is None else self.members[here])
