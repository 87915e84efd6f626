"""What the records of a batch add up to before noise, with how far one record can move it."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from fairdp.accounting.recipe import Coordinates, Recipe, Statistics
from fairdp.networks.models import ScoreModel
from fairdp.networks.terms import ApartTerm, LayerTerm
from fairdp.team import the_team
from fairdp.training.clipping import BoundedSum, bounded_rows, clip_and_add, gradient_norms
from fairdp.training.companion import Companion, Memory, Seen
from fairdp.training.records import Block, Part
from fairdp.training.shared_sums import summed_in_order

# The factor on the clip norm of methods that have only one.
_ONE = torch.ones(1)


class Sums:
    """Sums over the batches of one run, at the current parameters of its model."""

    def __init__(self, model: ScoreModel, recipe: Recipe, companion: Companion) -> None:
        self.model, self.recipe, self.companion, self.beside = model, recipe, companion, companion.beside
        self.team = the_team()

    def statistics(self, batch: list[Block], memory: Memory) -> BoundedSum:
        """Sum of what the batch adds to the statistics."""
        assert isinstance(self.beside, Statistics)

        def added(block: int, part: int) -> Tensor:
            seen = self._measured(batch[block].part(part), memory)
            # A record without a finite score contributes nothing, although its decision would be a number.
            return bounded_rows(self.companion.contributions(seen, memory), seen.is_finite())

        sizes = [block.sizes for block in batch]
        [total] = summed_in_order(sizes, added, n_numbers=self.beside.size, team=self.team)
        return BoundedSum(total, np.ones(len(self.recipe.group_sizes)))

    def clipped_gradients(self, batch: list[Block], memory: Memory, n_members: int = 1) -> BoundedSum:
        """Sum of the batch's weighted, clipped gradients, with what the companion has clipped together with them.

        Where groups have their own optimisers, a row for each group: of all rows, a record moves that of its own.
        """
        n_heads = self.model.n_cells or n_members
        n_params = self.model.n_extractor_params + n_heads * self.model.head_size
        n_further = self.beside.size if isinstance(self.beside, Coordinates) else 0
        factors = self.clip_factors(memory)

        def added(block: int, number: int) -> Tensor:
            part, total = batch[block].part(number), torch.zeros(n_params + n_further)
            terms = self._gradients(part, memory)
            if n_further:
                terms = [*terms, ApartTerm(self.companion.contributions(_seen(part), memory), total[n_params:])]
            clip_norm = self.recipe.clip_norm * (factors if len(factors) == 1 else factors[part.groups])
            clip_and_add(terms, part.weights, clip_norm=clip_norm, total=total[:n_params], norms=part.norms)
            return total

        rows = summed_in_order(
            [block.sizes for block in batch],
            added,
            n_numbers=n_params + n_further,
            team=self.team,
            rows=[block.group or 0 for block in batch],
        )
        apart = self.recipe.group_optimizers
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
            part.terms = part.gradients(self.companion.score_gradient(_seen(part), memory))
        return part.terms


def _seen(part: Part) -> Seen:
    return Seen(part.passed.scores, part.labels, part.groups)
