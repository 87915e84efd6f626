"""What is released after a joint model is trained, and the rule that follows from it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fairdp._scratch import joined
from fairdp.accounting.plan import Plan
from fairdp.accounting.words import CELLS, DIRECTION, FRONTIER, RANKING
from fairdp.config.training import TrainConfig
from fairdp.data.grouped import GroupedData
from fairdp.frontier.choice import Target, choose
from fairdp.frontier.curve import LINE, RAY, Frontier
from fairdp.frontier.direction import Direction, find_direction
from fairdp.frontier.events import Events, Floats, line_prices, parts_of, plain_values, summed
from fairdp.frontier.ranking import exact_ranking
from fairdp.frontier.sketch import changes_of, sketch_of
from fairdp.networks.models import ScoreModel
from fairdp.streams import Chain
from fairdp.team import the_team
from fairdp.training.records import as_tensor
from fairdp.training.surveys import released


def read_frontier(model: ScoreModel, data: GroupedData, plan: Plan, config: TrainConfig, chain: Chain) -> Frontier:
    """Release what the target needs to be met, and set what a positive decision is worth in each cell."""
    frontier = _Reader(model, data, plan, config, chain).frontier()
    model.cell_values = torch.from_numpy(frontier.values_at(choose(frontier, target_of(config)).position))
    return frontier


def target_of(config: TrainConfig) -> Target:
    """What the run aims at."""
    return Target(max_gap=config.max_gap, min_ratio=config.min_ratio, price=config.price)


@dataclass(frozen=True, eq=False)
class _Reader:
    """The records of a run, and the ways out of them that are left after the last step.

    Of a team each process counts its share of the records; whole numbers add up to the same in any order.
    """

    model: ScoreModel
    data: GroupedData
    plan: Plan
    config: TrainConfig
    chain: Chain

    def frontier(self) -> Frontier:
        chances, cells = self._finite()
        n_cells, events = chances.shape[1], Events(self.config.parity, self.data.n_groups)
        sizes = self._release(np.bincount(cells, minlength=n_cells), CELLS)
        ranked = (exact_ranking(some[:, 1::2].sum(1), own % 2) for some, own in parts_of(chances, cells))
        ranking = self._release(np.asarray(sum(ranked)), RANKING)
        looked = self._direction(chances, cells, events, np.maximum(sizes, 1.0))
        prices, positions = self._ray(events, looked, np.maximum(sizes, 1.0))
        shift = 0.0 if looked is None else looked.shift
        values = plain_values(n_cells, self.config.cost_ratio) + shift
        pulls = events.pulls(prices, np.maximum(sizes, 1.0))
        changes = (
            changes_of(summed(some, values), summed(some, pulls), own, n_cells, np.array(positions))
            for some, own in parts_of(chances, cells)
        )
        sketch = self._release(np.asarray(sum(changes)), FRONTIER, sketch_of)
        stds = self.plan.survey_stds
        return Frontier(
            parity=self.config.parity,
            cost_ratio=self.config.cost_ratio,
            cell_sizes=tuple(sizes.tolist()),
            cells_std=stds[CELLS],
            prices=tuple(prices.tolist()),
            shift=shift,
            positions=positions,
            sketch=tuple(map(tuple, sketch.tolist())),
            sketch_std=stds[FRONTIER],
            looked=() if looked is None else tuple(zip(looked.rates.tolist(), looked.errors.tolist(), strict=True)),
            ranking=tuple(map(tuple, ranking.tolist())),
            ranking_std=stds[RANKING],
        )

    def _finite(self) -> tuple[Floats, NDArray[Any]]:
        """Chances of the cells for each record, and its cell; a record that has none counts for nothing."""
        found: list[NDArray[np.bool_]] = [np.empty(0, dtype=bool)]
        data = self.data.take(self.data.share(the_team().rank, the_team().size))

        def believed() -> Iterator[Floats]:
            for part in data.batches():
                chances = self.model.cell_chances(as_tensor(part.inputs)).numpy()
                finite = np.isfinite(chances).all(1)
                found.append(finite)
                yield chances[finite]

        shape = (data.n_samples, self.model.n_cells)
        chances = joined(believed(), np.float64, shape)
        return chances, data.cells[np.concatenate(found)]

    def _direction(self, chances: Floats, cells: NDArray[Any], events: Events, sizes: Floats) -> Direction | None:
        survey = next((survey for survey in self.plan.recipe.surveys if survey.what == DIRECTION), None)
        if survey is None:
            return None
        return find_direction(
            chances,
            cells,
            events,
            sizes,
            gap=self.config.max_gap,
            min_ratio=self.config.min_ratio,
            cost_ratio=self.config.cost_ratio,
            most=self.config.price,
            positive_rate=self.config.positive_rate,
            look=lambda exact: self._release(exact, DIRECTION),
            std=self.plan.survey_stds[DIRECTION],
            n_looks=survey.n_looks,
        )

    def _ray(self, events: Events, looked: Direction | None, sizes: Floats) -> tuple[Floats, tuple[float, ...]]:
        """Prices at position 1, and the positions: both sides of none for two events, else along what was found."""
        if self.data.n_groups == 1:
            return np.zeros(len(events.members)), (0.0,)
        if looked is None:
            return line_prices(sizes, self.config.min_ratio), LINE
        return looked.prices, RAY

    def _release(self, counts: NDArray[Any], what: str, made: Callable[[Floats], Floats] = np.asarray) -> Floats:
        """What is made of counts over all records, with noise."""
        exact = made(the_team().added(counts.astype(np.int64)).astype(np.float64))
        flat = torch.from_numpy(np.ascontiguousarray(exact, dtype=np.float64).ravel())
        return released(flat, self.plan, what, self.chain).double().numpy().reshape(np.shape(exact))
