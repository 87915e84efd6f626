"""One private model of group and label, one private sketch, the whole frontier: the default."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fairdp.accounting.recipe import Recipe, Survey
from fairdp.accounting.words import CELLS, DIRECTION, FRONTIER, RANKING
from fairdp.config.training import TrainConfig
from fairdp.methods.dpsgd import dpsgd
from fairdp.training.companion import Companion, Memory, Seen

if TYPE_CHECKING:  # A plan needs the recipe, and should not wait for torch.
    from torch import Tensor

# Parts of the privacy, in inverse variances; what is left goes to the steps. Rates of one label need more: the fewer
# records they are about, the more their sizes and counts matter.
_RANKING, _FRONTIER_OF_ONE = 0.01, 0.01
_CELLS = {"demographic_parity": 0.01, "equal_opportunity": 0.04, "equalized_odds": 0.04}
_FRONTIER = {"demographic_parity": 0.10, "equal_opportunity": 0.14}
# Direction, and the frontier along it: both labels have twice as many rates, some of few records.
_DIRECTION = {"demographic_parity": (0.12, 0.06), "equal_opportunity": (0.12, 0.06), "equalized_odds": (0.20, 0.10)}
LOOKS = 100


@dataclass(frozen=True, kw_only=True)
class JointLoss(Companion):
    r"""Cross-entropy of the cell, group by label: :math:`-\ln P_{c}(x)` with the softmax :math:`P` of the scores.

    Cell :math:`2 a + y` holds the records of group a with label y.
    """

    def score_gradient(self, seen: Seen, memory: Memory) -> "Tensor":
        cells, chances = 2 * seen.groups + seen.labels.long(), seen.scores.softmax(1)
        return chances.scatter_add_(1, cells[:, None], chances.new_full((len(cells), 1), -1.0))


def fairdp_frontier(config: TrainConfig, group_sizes: tuple[float, ...]) -> Recipe:
    """Our own method: DP-SGD of a joint model of group and label; a fair rule is read off it afterwards.

    For a rule that sees the inputs alone, the most accurate one within a gap decides by a weighted sum of the chances
    of the cells (Chen, Klochkov, Liu, ICLR 2024), with a price for each group. Cells are counted with noise, the prices
    of more than two groups, or of both labels, are found by noisy counts of decisions, and one sketch of the decisions
    at all multiples of these prices tells the whole trade-off. The average over the second half of the steps is
    deployed.
    """
    return replace(
        dpsgd(config, group_sizes),
        companion=JointLoss(),
        averaging="second_half",
        joint=True,
        surveys=surveys_of(config, len(group_sizes)),
    )


def surveys_of(config: TrainConfig, n_groups: int) -> tuple[Survey, ...]:
    """What is counted beside the steps."""
    asked = [Survey(what=config.asks, share=config.asks_share)] if config.asks else []
    asked += [Survey(what=CELLS, share=_CELLS[config.parity]), Survey(what=RANKING, share=_RANKING)]
    if n_groups == 1:
        return (*asked, Survey(what=FRONTIER, share=_FRONTIER_OF_ONE))
    if not needs_direction(config, n_groups):
        return (*asked, Survey(what=FRONTIER, share=_FRONTIER[config.parity]))
    direction, along = _DIRECTION[config.parity]
    return (*asked, Survey(what=DIRECTION, share=direction, n_looks=LOOKS), Survey(what=FRONTIER, share=along))


def needs_direction(config: TrainConfig, n_groups: int) -> bool:
    """Whether prices have more than one direction: two groups whose one rate should agree have but one."""
    return n_groups > 2 or config.parity == "equalized_odds" or config.positive_rate is not None
