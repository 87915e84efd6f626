"""What the records of a batch add up to before noise, with how far one record can move it."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from fairdp.accounting.recipe import Coordinates, Recipe, Statistics
from fairdp.networks.models import ScoreModel
from fairdp.networks.terms import ApartTerm, LayerTerm
from fairdp.training.clipping import BoundedSum, add_bounded_rows, clip_and_add, gradient_norms
from fairdp.training.companion import Companion, Memory, Seen
from fairdp.training.records import Block, Part

# The factor on the clip norm of methods that have only one.
_ONE = torch.ones(1)


class Sums:
    """Sums over the batches of one run, at the current parameters of its model."""

    def __init__(self, model: ScoreModel, recipe: Recipe, companion: Companion) -> None:
        self.model, self.recipe, self.companion, self.beside = model, recipe, companion, companion.beside

    def statistics(self, batch: list[Block], memory: Memory) -> BoundedSum:
        """Sum of what the batch adds to the statistics."""
        assert isinstance(self.beside, Statistics)
        sums = []
        for block in batch:
            sums.append(torch.zeros(self.beside.size, dtype=torch.float64))
            for part in block:
                seen = self._measured(part, memory)
                # A record without a finite score contributes nothing, although its decision would be a number.
                add_bounded_rows(self.companion.contributions(seen, memory), seen.is_finite(), sums[-1])
        return BoundedSum(_added(sums), np.ones(len(self.recipe.group_sizes)))

    def clipped_gradients(self, batch: list[Block], memory: Memory, n_members: int = 1) -> BoundedSum:
        """Sum of the batch's weighted, clipped gradients, with what the companion has clipped together with them.

        Where groups have their own optimisers, a row for each group: of all rows, a record moves that of its own.
        """
        n_heads = self.model.n_cells or n_members
        n_params = self.model.n_extractor_params + n_heads * self.model.head_size
        n_further = self.beside.size if isinstance(self.beside, Coordinates) else 0
        factors, apart = self.clip_factors(memory), self.recipe.group_optimizers
        sums: list[list[Tensor]] = [[] for _ in (self.recipe.group_sizes if apart else (0,))]
        for block in batch:
            # Parts are summed in double precision: over many records single precision would round past the bound.
            total = torch.zeros(n_params + n_further, dtype=torch.float64)
            sums[block.group or 0].append(total)
            for part in block:
                subtotal = torch.zeros(n_params + n_further)
                terms = self._gradients(part, memory)
                if n_further:
                    terms = [*terms, ApartTerm(self.companion.contributions(_seen(part), memory), subtotal[n_params:])]
                clip_norm = self.recipe.clip_norm * (factors if len(factors) == 1 else factors[part.groups])
                clip_and_add(terms, part.weights, clip_norm=clip_norm, total=subtotal[:n_params], norms=part.norms)
                total += subtotal
        rows = [_added(blocks) for blocks in sums]
        return BoundedSum(torch.stack(rows) if apart else rows[0], self.recipe.sensitivities * factors.numpy())

    def clip_factors(self, memory: Memory) -> Tensor:
        """Factor on the clip norm of each group, or a single one for all."""
        factors = self.companion.clip_factors(memory)
        return _ONE if factors is None else factors

    def _measured(self, part: Part, memory: Memory) -> Seen:
        """Records as statistics see them."""
        assert isinstance(self.beside, Statistics)
        if self.beside.of == "norms":
            part.norms = gradient_norms(self._gradients(part, memory))
            return replace(_seen(part), norms=part.norms)
        return _seen(part)

    def _gradients(self, part: Part, memory: Memory) -> list[LayerTerm]:
        """Gradients of a part, computed once: those whose norms were measured are those that are summed."""
        if part.terms is None:
            part.terms = part.passed.backward(self.companion.score_gradient(_seen(part), memory), part.members)
        return part.terms


def _added(sums: list[Tensor]) -> Tensor:
    """The sum over all blocks, in their order: the same bits, wherever each was computed."""
    total = sums[0]
    for block in sums[1:]:
        total = total + block
    return total


def _seen(part: Part) -> Seen:
    return Seen(part.passed.scores, part.labels, part.groups)
