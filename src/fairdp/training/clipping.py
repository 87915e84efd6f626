"""The one value that leaves the data at a step: a sum of clipped gradients, with how far a record can move it."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairdp.networks.terms import LayerTerm

# Gradients are summed in single precision, in parts: clip below C, so that C is a bound and not an estimate. Removing
# one of three million aligned gradients shifts all parts, and was seen to move the sum by .9989 C.
MARGIN = 1 - 1e-2
# Rows are summed in double precision; only their norms round.
_ROW_MARGIN = 1 - 1e-4


@dataclass(frozen=True, eq=False)
class BoundedSum:
    """A sum over records and, for each group, how far adding or removing one of its records can move it (L2).

    It is also all that the processes of a team add up: sums of their records add, sensitivities stay. Only the first of
    them has the total.
    """

    total: Tensor
    sensitivities: NDArray[np.float64]


@torch.inference_mode()
def clip_and_add(
    terms: list[LayerTerm],
    weights: Tensor,
    *,
    clip_norm: float | Tensor,
    total: Tensor,
    norms: Tensor | None = None,
) -> None:
    r"""Add :math:`\sum_i c_i g_i` to ``total``, with :math:`c_i = w_i \min(1, .99\,C / \|g_i\|)`.

    Parameters
    ----------
    terms
        The gradients of all records, layer by layer.
    weights
        Public factor of each record, :math:`w_i`, shape (n_records,).
    clip_norm
        Bound on the norm of a record's whole gradient, :math:`C`, or one for each record.
    total
        Flat sum over all parameters, changed in place.
    norms
        The norms of the gradients, where they are known already.
    """
    norms = gradient_norms(terms) if norms is None else norms
    coefficients = (clip_norm * MARGIN / norms).clamp_(max=1.0).mul_(weights)
    if not math.isfinite(norms.sum()):
        finite = norms.isfinite()
        # A record without a finite gradient contributes nothing, whatever its buffers hold.
        coefficients[~finite] = 0.0
        for term in terms:
            term.erase(~finite)
    for term in terms:
        term.add_weighted_sum(coefficients, total)


@torch.inference_mode()
def gradient_norms(terms: list[LayerTerm]) -> Tensor:
    """Norm of every record's whole gradient, shape (n_records,)."""
    squared = terms[0].squared_norms()
    for term in terms[1:]:
        squared = squared.add_(term.squared_norms())
    return squared.sqrt_()


def bounded_rows(rows: Tensor, counts: Tensor) -> Tensor:
    """The sum of rows, each scaled to norm at most one, whatever the method returned for its records.

    Rows of records that do not count, and rows that are not finite, add nothing.
    """
    norms = torch.linalg.vector_norm(rows, dim=1)
    scales = (_ROW_MARGIN / norms.clamp(min=_ROW_MARGIN)).mul_(counts)
    if not math.isfinite(norms.sum()):
        finite = norms.isfinite()
        rows, scales = rows.masked_fill(~finite[:, None], 0.0), scales.masked_fill(~finite, 0.0)
    return scales.double() @ rows.double()
