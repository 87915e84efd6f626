"""Whether the rule of a joint model is the one that its recorded frontier and target lead to."""

import math
from collections.abc import Iterator

import numpy as np

from fairdp.accounting.words import CELLS, DIRECTION, FRONTIER, RANKING
from fairdp.certify.origin import HeldOutRecords
from fairdp.certify.record import CertificateRecord
from fairdp.frontier.choice import Target, choose
from fairdp.frontier.curve import LINE, RAY, Frontier
from fairdp.frontier.events import line_prices
from fairdp.frontier.ranking import N_BINS
from fairdp.networks.models import CELL_VALUES
from fairdp.run.read_frontier import target_of
from fairdp.saved.verify.check import SAME, Check, Recorded, equal

# Prices of a band add up to zero, up to the rounding of a search by halving.
_ROUNDING = 1e-6


def rule_check(recorded: Recorded) -> Check:
    """That what a positive decision is worth in each cell follows from the frontier; other models have neither."""
    frontier, target, values = recorded.model.frontier, recorded.model.target, recorded.tensors.get(CELL_VALUES)
    if not recorded.model.model.n_cells:
        passed = frontier is None and target is None and values is None
        return Check("rule", passed, "decides by its score." if passed else "has prices that this model does not use.")
    if frontier is None or target is None or values is None:
        return Check("rule", False, "lacks the frontier, the target or the values of cells that it follows from.")
    wrong = [*_not_released(recorded, frontier), *_ill_formed(recorded, frontier)]
    if not wrong:
        expected = frontier.values_at(choose(frontier, target).position)
        if values.shape != expected.shape or not np.allclose(values, expected, rtol=SAME, atol=SAME):
            wrong.append(CELL_VALUES)
    # A certificate on records that the run held out is about the rule that it was fitted for.
    certificate = recorded.certificate
    held_out = isinstance(certificate, CertificateRecord) and isinstance(certificate.about.records, HeldOutRecords)
    if is_moved(recorded) and held_out:
        wrong.append("target")
    found = (
        f"{', '.join(wrong)} contradicted by the rest" if wrong else f"follows from the frontier for {_said(target)}"
    )
    return Check("rule", not wrong, f"{found}.")


def is_moved(recorded: Recorded) -> bool:
    """Whether the rule aims at something else than it was fitted for."""
    target = recorded.model.target
    return target is not None and target != target_of(recorded.config)


def _not_released(recorded: Recorded, frontier: Frontier) -> Iterator[str]:
    """What is not as the privacy record and the settings say."""
    surveys, config = recorded.privacy.surveys, recorded.config
    stds = {"cells_std": CELLS, "sketch_std": FRONTIER, "ranking_std": RANKING}
    yield from (name for name, code in stds.items() if not equal(getattr(frontier, name), surveys.get(code)))
    if frontier.parity != config.parity:
        yield "parity"
    if frontier.cost_ratio != config.cost_ratio:
        yield "cost_ratio"
    if (DIRECTION in surveys) != bool(frontier.looked):
        yield "looked"


def _ill_formed(recorded: Recorded, frontier: Frontier) -> Iterator[str]:
    """What cannot be the frontier of a model with these groups."""
    n_cells = 2 * len(recorded.model.groups)
    if not len(frontier.cell_sizes) == recorded.model.model.n_cells == n_cells:
        yield "cell_sizes"
        return
    n_events, positions = len(frontier.events.members), np.array(frontier.positions)
    min_ratio = recorded.config.min_ratio
    if len(frontier.prices) != n_events or (not frontier.looked and frontier.prices != _fixed(frontier, min_ratio)):
        yield "prices"
        return
    if frontier.shift and recorded.config.positive_rate is None:
        yield "shift"
    if frontier.looked and len(frontier.looked) != n_events:
        yield "looked"
    if frontier.positions not in ((0.0,), LINE, RAY):
        yield "positions"
    # A ratio raises low rates more than it lowers high ones.
    weights = [price * min_ratio if price < 0 and min_ratio else price for price in frontier.prices]
    if any(abs(sum_of) > _ROUNDING for sum_of in np.bincount(frontier.events.bands, weights=weights)):
        yield "prices"
    if frontier.looked and any(error <= 0 for _, error in frontier.looked) and frontier.sketch_std:
        yield "looked"
    if np.shape(frontier.sketch) != (n_cells, len(positions)):
        yield "sketch"
    if np.shape(frontier.ranking) != (2, N_BINS):
        yield "ranking"
    numbers = (frontier.cell_sizes, frontier.prices, frontier.positions, *frontier.sketch, *frontier.ranking)
    if not all(np.isfinite(row).all() for row in numbers):
        yield "frontier"


def _fixed(frontier: Frontier, min_ratio: float) -> tuple[float, ...]:
    """Prices at position 1 where no looks were needed to find them."""
    return tuple(line_prices(frontier.sizes, min_ratio)) if len(frontier.sizes) == 4 else (0.0,)


def _said(target: Target) -> str:
    limit = (
        f"a gap of at most {target.value:g}" if target.kind == "max_gap" else f"a ratio of at least {target.value:g}"
    )
    return limit if math.isinf(target.price) else f"{limit} at a price of at most {target.price:g}"
