"""What is released after a joint model is trained, and the rule that follows from it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fairdp.accounting.plan import Plan
from fairdp.accounting.words import CELLS, DIRECTION, FRONTIER, RANKING
from fairdp.config.training import TrainConfig
from fairdp.data.grouped import GroupedData
from fairdp.frontier.choice import Target, choose
from fairdp.frontier.curve import LINE, RAY, Frontier
from fairdp.frontier.direction import Direction, find_direction
from fairdp.frontier.events import Events, Floats, line_prices, plain_values, summed
from fairdp.frontier.ranking import exact_ranking
from fairdp.frontier.sketch import exact_sketch
from fairdp.networks.models import ScoreModel
from fairdp.streams import Chain
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
    """The records of a run, and the ways out of them that are left after the last step."""

    model: ScoreModel
    data: GroupedData
    plan: Plan
    config: TrainConfig
    chain: Chain

    def frontier(self) -> Frontier:
        chances, cells = self._finite()
        n_cells, events = chances.shape[1], Events(self.config.parity, self.data.n_groups)
        sizes = self._release(np.bincount(cells, minlength=n_cells), CELLS)
        ranking = self._release(exact_ranking(chances[:, 1::2].sum(1), cells % 2), RANKING)
        looked = self._direction(chances, cells, events, np.maximum(sizes, 1.0))
        prices, positions = self._ray(events, looked, np.maximum(sizes, 1.0))
        shift = 0.0 if looked is None else looked.shift
        values = summed(chances, plain_values(n_cells, self.config.cost_ratio) + shift)
        pulls = summed(chances, events.pulls(prices, np.maximum(sizes, 1.0)))
        sketch = self._release(exact_sketch(values, pulls, cells, n_cells, np.array(positions)), FRONTIER)
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

    def _finite(self) -> tuple[Floats, NDArray[np.int64]]:
        """Chances of the cells for each record, and its cell; a record that has none counts for nothing."""
        X = torch.from_numpy(np.require(self.data.X, np.float32, ["C", "W"]))
        chances = self.model.cell_chances(X).numpy()
        finite = np.isfinite(chances).all(1)
        return chances[finite], (2 * self.data.groups + self.data.y)[finite]

    def _direction(self, chances: Floats, cells: NDArray[np.int64], events: Events, sizes: Floats) -> Direction | None:
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

    def _release(self, exact: NDArray[Any], what: str) -> Floats:
        flat = torch.from_numpy(np.ascontiguousarray(exact, dtype=np.float64).ravel())
        return released(flat, self.plan, what, self.chain).double().numpy().reshape(np.shape(exact))
