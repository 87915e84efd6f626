"""What the records of a batch add up to before noise: clipped gradients, and the statistics of a companion."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from fairdp.accounting.recipe import Recipe
from fairdp.config.training import TrainConfig
from fairdp.data.grouped import GroupedData
from fairdp.networks.backprop import Backprop, HeadOnly, backprop_of
from fairdp.networks.models import ScoreModel
from fairdp.networks.stack import LinearStack
from fairdp.networks.terms import ApartTerm, LayerTerm
from fairdp.training.clipping import BoundedSum, add_bounded_rows, clip_and_add, gradient_norms
from fairdp.training.companion import Companion, Memory, Seen

# The factor on the clip norm of methods that have but one.
_ONE = torch.ones(1)
# Embeddings that no training changes are kept if they are not larger than this.
_MOST_BYTES_KEPT = 2**29


class Kept(NamedTuple):
    """Gradients of a whole batch that were needed before they are summed, with their norms."""

    terms: list[LayerTerm]
    norms: Tensor


class BatchSums:
    """Sums over batches of one data set, at the present parameters of a model."""

    def __init__(self, model: ScoreModel, data: GroupedData, recipe: Recipe, config: TrainConfig) -> None:
        self.model, self.recipe, self.config = model, recipe, config
        self.companion = cast(Companion | None, recipe.companion)
        # Torch wants memory it may write to, though nothing here writes; only read-only arrays are copied.
        self.X = torch.from_numpy(np.require(data.X, np.float32, ["C", "W"]))
        self.y = torch.tensor(data.y, dtype=torch.float32)
        self.groups = torch.from_numpy(data.groups)
        weights = recipe.record_weights[data.groups]
        if data.weights is not None:
            # At most one each: no record can do more than it is accounted for.
            weights = weights * data.weights
        self.weights = torch.from_numpy(weights).to(torch.float32)
        self.backprop: Backprop
        self.is_embedded = (
            not model.n_extractor_params
            and model.keeps_records_apart
            # Inputs that are taken as they are need no copy.
            and not LinearStack.fits(model)
            and 4 * len(self.X) * model.width <= _MOST_BYTES_KEPT
        )
        if self.is_embedded:
            self.X = torch.cat([torch.empty(0, model.width), *model.embeddings(self.X)])
            self.backprop = HeadOnly(model)
        else:
            self.backprop = backprop_of(model)

    def bounded_statistics(self, batch: Tensor, memory: Memory, point: Tensor) -> tuple[BoundedSum, Kept | None]:
        """Sum of what the batch adds to the companion's statistics; the gradients too, if they were needed and fit.

        Parameters
        ----------
        point
            Parameters of the model whose scores the companion sees.
        """
        total, kept = self.no_statistics(), None
        parts = self._parts(batch)
        for part in parts:
            seen, kept = self._seen(part, memory, point)
            self._add_statistics(seen, memory, total)
        # One batch's gradients fit into memory; those of the last of several parts are not all.
        kept = kept if len(parts) == 1 else None
        return self.bounded(total), kept

    def clipped_sum(
        self,
        batch: Tensor,
        memory: Memory,
        *,
        members: Tensor | None = None,
        n_members: int = 1,
        kept: Kept | None = None,
        learn: Callable[[BoundedSum], None] | None = None,
        seen_at: Tensor | None = None,
        statistics: Tensor | None = None,
    ) -> BoundedSum:
        """Sum of the batch's weighted, clipped gradients.

        Parameters
        ----------
        members
            Index of the head that each record goes to, where there are several.
        kept
            The gradients, if they are at hand already.
        learn
            Told the statistics of the scores, before the gradient is made from them; for a batch in one part.
        seen_at, statistics
            Parameters of the model whose scores the companion sees meanwhile, and the sum that they are added to.
        """
        n_params = self.model.n_extractor_params + n_members * (self.model.width + 1)
        n_further = 0 if self.companion is None else self.companion.n_further
        # Parts are summed in double precision: over many records single precision would round past the bound.
        total = torch.zeros(n_params + n_further, dtype=torch.float64)
        factors = self.clip_factors(memory)
        for part, heads in zip(self._parts(batch), self._parts(batch if members is None else members), strict=True):
            subtotal = torch.zeros(n_params + n_further)
            rows = self.X.index_select(0, part)
            if statistics is not None:
                self._add_statistics(self._seen_from(rows, part, seen_at), memory, statistics)
            if kept is None:
                own_heads = None if members is None else heads
                terms = self._terms(rows, part, memory, own_heads, further=subtotal[n_params:], learn=learn)[0]
            clip_and_add(
                kept.terms if kept else terms,
                self.weights.index_select(0, part),
                clip_norm=self.recipe.clip_norm * self._of_records(factors, part),
                total=subtotal[:n_params],
                norms=kept.norms if kept else None,
            )
            total += subtotal
        return BoundedSum(total, self.recipe.sensitivities * factors.numpy())

    def clip_factors(self, memory: Memory) -> Tensor:
        """Factor on the clip norm of each group, or a single one for all."""
        factors = None if self.companion is None else self.companion.clip_factors(memory)
        return _ONE if factors is None else factors

    def no_statistics(self) -> Tensor:
        """The statistics of an empty batch."""
        assert self.companion is not None
        return torch.zeros(self.companion.n_statistics, dtype=torch.float64)

    def bounded(self, statistics: Tensor) -> BoundedSum:
        """Statistics with what a record can move them by."""
        return BoundedSum(statistics, np.ones(len(self.recipe.group_sizes)))

    def _parts(self, batch: Tensor) -> tuple[Tensor, ...]:
        return torch.split(batch, self.config.max_physical_batch_size) if len(batch) else ()

    def _of_records(self, factors: Tensor, part: Tensor) -> Tensor:
        return factors if len(factors) == 1 else factors.index_select(0, self.groups.index_select(0, part))

    def _add_statistics(self, seen: Seen, memory: Memory, total: Tensor) -> None:
        assert self.companion is not None
        # A record without a finite score contributes nothing, though what it would decide is a number.
        add_bounded_rows(self.companion.statistics(seen, memory), seen.is_finite(), total)

    def _seen(self, part: Tensor, memory: Memory, point: Tensor) -> tuple[Seen, Kept | None]:
        """Records as the companion sees them before the gradient is made; with norms, their gradients too."""
        assert self.companion is not None
        rows = self.X.index_select(0, part)
        if not self.companion.needs_norms:
            return self._seen_from(rows, part, point), None
        terms, seen = self._terms(rows, part, memory, None, further=torch.empty(0))
        assert seen is not None
        norms = gradient_norms(terms)
        return replace(seen, norms=norms), Kept(terms, norms)

    def _seen_from(self, rows: Tensor, part: Tensor, point: Tensor | None) -> Seen:
        with self._moved_to(point):
            head = self.model.heads[0]
            scores = torch.addmv(head[-1], rows if self.is_embedded else self.model.embed(rows), head[:-1])
        return Seen(scores, self.y.index_select(0, part), self.groups.index_select(0, part))

    def _terms(
        self,
        rows: Tensor,
        part: Tensor,
        memory: Memory,
        heads: Tensor | None,
        *,
        further: Tensor,
        learn: Callable[[BoundedSum], None] | None = None,
    ) -> tuple[list[LayerTerm], Seen | None]:
        """Gradients of some records, with what the companion wants clipped together with them, and what it saw."""
        labels, seen = self.y.index_select(0, part), None

        def score_gradient(scores: Tensor) -> Tensor:
            nonlocal seen
            if self.companion is None:
                return torch.sigmoid(scores).sub_(labels)
            seen = Seen(scores, labels, self.groups.index_select(0, part))
            if learn is not None:
                total = self.no_statistics()
                self._add_statistics(seen, memory, total)
                learn(self.bounded(total))
            return self.companion.score_gradient(seen, memory)

        terms = self.backprop(rows, score_gradient, heads)
        if len(further):
            assert self.companion is not None
            assert seen is not None
            terms.append(ApartTerm(self.companion.further(seen, memory), further))
        return terms, seen

    @contextmanager
    def _moved_to(self, point: Tensor | None) -> Iterator[None]:
        """Let the model have other parameters for a moment, and then the very same ones again."""
        params = self.model.params
        if point is None or point is params:
            yield
            return
        before = params.clone()
        params.copy_(point)
        yield
        params.copy_(before)
