"""What the input layer of a model asks about all training records, before the first step."""

import numpy as np
from torch import Tensor

from fairdp.accounting.plan import Plan
from fairdp.data.grouped import GroupedData
from fairdp.networks.hat_rows import HatRows
from fairdp.networks.models import ScoreModel
from fairdp.networks.oriented_gradients import ImageRows
from fairdp.streams import Chain
from fairdp.team import the_team
from fairdp.training.clipping import BoundedSum
from fairdp.training.noise import add_gaussian_noise
from fairdp.training.records import as_tensor
from fairdp.training.shared_sums import summed_in_order

# Records that are summed at once, and how many such parts are a block.
_CHUNK, _PARTS = 8192, 16


def tell_input_layer(model: ScoreModel, data: GroupedData, plan: Plan, chain: Chain) -> None:
    """Release the sum that the input layer asks for, if it asks for one, and let its numbers follow from it."""
    layer = model.extractor
    # Of a user's own module nobody knows how far a record moves what it would ask.
    if not isinstance(layer, (HatRows, ImageRows)) or layer.asks not in plan.survey_stds:
        return
    starts = range(0, data.n_samples, _CHUNK)
    blocks = [starts[first : first + _PARTS] for first in range(0, len(starts), _PARTS)]

    def answers(block: int, part: int) -> Tensor:
        start = blocks[block][part]
        return layer.answers(as_tensor(data.take(slice(start, start + _CHUNK)).inputs))

    sizes = [[min(_CHUNK, data.n_samples - start) for start in block] for block in blocks]
    [total] = summed_in_order(sizes, answers, n_numbers=layer.width, team=the_team())
    noisy = released(total, plan, layer.asks, chain)
    layer.learn(noisy, n_records=sum(plan.recipe.group_sizes), deviation=plan.survey_stds[layer.asks])
    model.note_fixed()


def released(total: Tensor, plan: Plan, what: str, chain: Chain) -> Tensor:
    """A sum about all training records, which one of them moves by at most one, with the noise planned for it."""
    n_groups, std = len(plan.mechanisms), plan.survey_stds[what]
    bounded, stream = BoundedSum(total, np.ones(n_groups)), chain.step().stream(what)
    return add_gaussian_noise(bounded, std, accounted_multipliers=np.full(n_groups, std), stream=stream, purpose=what)
