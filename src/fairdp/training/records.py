"""The records of a run as tensors, and batches of them in parts that fit into memory."""

from collections.abc import Iterator
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from fairdp.accounting.recipe import Recipe
from fairdp.data.grouped import GroupedData
from fairdp.networks.backprop import Backprop, HeadOnly, backprop_of
from fairdp.networks.models import ScoreModel
from fairdp.networks.stack import LinearStack
from fairdp.networks.terms import LayerTerm, Passed

# Embeddings that no training changes are kept if they are not larger than this, and so are the rows of a batch.
_MOST_BYTES_KEPT, _MOST_BYTES_OF_A_BATCH = 2**29, 2**26


class Part:
    """Some records of a batch, which go forward once and back once, no matter who asks first.

    ``weights`` are the public factors of the records, and ``members`` the head that each goes to (DP-MC). ``terms`` and
    ``norms`` are the records' gradients, once they are made.
    """

    def __init__(self, records: "Records", chosen: Tensor, rows: Tensor, members: Tensor | None) -> None:
        self.records, self.rows, self.members = records, rows, members
        self.labels = records.y.index_select(0, chosen)
        self.groups = records.groups.index_select(0, chosen)
        self.weights = records.weights.index_select(0, chosen)
        self.terms: list[LayerTerm] | None = None
        self.norms: Tensor | None = None

    @cached_property
    def passed(self) -> Passed:
        """The records, gone forward through the model as it is at the first call."""
        return self.records.route.forward(self.rows)

    def scores_now(self) -> Tensor:
        """Scores under the current parameters of the model; nothing is kept for a backward pass."""
        model = self.records.model
        embeddings = self.rows if self.records.is_embedded else model.embed(self.rows)
        return torch.addmv(model.heads[0, -1], embeddings, model.heads[0, :-1])


class Records:
    """All records of a run, as a model takes them: inputs, or embeddings that no training changes."""

    def __init__(self, model: ScoreModel, data: GroupedData, recipe: Recipe, *, max_part: int) -> None:
        self.model, self.max_part = model, max_part
        # Torch wants writable memory, though nothing here writes; only read-only arrays are copied.
        self.X = torch.from_numpy(np.require(data.X, np.float32, ["C", "W"]))
        self.y = torch.tensor(data.y, dtype=torch.float32)
        self.groups = torch.from_numpy(data.groups)
        weights = recipe.record_weights[data.groups]
        if data.weights is not None:
            # At most one each: no record can have more influence than is accounted for.
            weights = weights * data.weights
        self.weights = torch.from_numpy(weights).to(torch.float32)
        self.is_embedded = (
            not model.n_extractor_params
            and model.keeps_records_apart
            # Inputs that are used unchanged need no copy.
            and not LinearStack.fits(model)
            and 4 * len(self.X) * model.width <= _MOST_BYTES_KEPT
        )
        if self.is_embedded:
            self.X = torch.cat([torch.empty(0, model.width), *model.embeddings(self.X)])
        self.row_bytes = 4 * self.X[:1].numel()
        self.route: Backprop = HeadOnly(model) if self.is_embedded else backprop_of(model)

    def batch(self, chosen: Tensor, members: Tensor | None = None) -> "Batch":
        """The records at these positions, each with the head that it goes to, where there are several."""
        return Batch(self, chosen, members)


class Batch:
    """The sampled records of one step, to be iterated over once or twice.

    A batch of one part goes forward once, even if it is gone through twice; of a larger one only the rows are kept.
    """

    def __init__(self, records: Records, chosen: Tensor, members: Tensor | None) -> None:
        self.records, self.chosen, self.members = records, chosen, members
        self._rows: Tensor | None = None
        self._only: Part | None = None
        if 0 < len(chosen) <= records.max_part:
            self._only = Part(records, chosen, records.X.index_select(0, chosen), members)
        elif len(chosen) * records.row_bytes <= _MOST_BYTES_OF_A_BATCH:
            self._rows = records.X.index_select(0, chosen)

    def __iter__(self) -> Iterator[Part]:
        if self._only is not None:
            yield self._only
            return
        yield from (self._part(start) for start in range(0, len(self.chosen), self.records.max_part))

    def _part(self, start: int) -> Part:
        records, here = self.records, slice(start, start + self.records.max_part)
        chosen = self.chosen[here]
        rows = records.X.index_select(0, chosen) if self._rows is None else self._rows[here]
        return Part(records, chosen, rows, None if self.members is None else self.members[here])
