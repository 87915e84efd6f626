"""Which rates a notion of parity compares: the cells of records behind them, and which cells are peers."""

import torch
from torch import Tensor

from fairdp.training.companion import Seen


def n_cells(parity: str, n_groups: int) -> int:
    """Number of cells: one for each group, for equalized odds one for each group and label."""
    return n_groups * (2 if parity == "equalized_odds" else 1)


def cells_of(parity: str, seen: Seen, n_groups: int) -> Tensor:
    """Cell of each record; records that no rate is about are in a cell after the last."""
    if parity == "demographic_parity":
        return seen.groups
    if parity == "equal_opportunity":
        return torch.where(seen.labels == 1, seen.groups, n_groups)
    return seen.groups + n_groups * seen.labels.long()


def peers(parity: str, n_groups: int) -> Tensor:
    """One where the rates of two different cells should agree, else zero; shape (n_cells, n_cells)."""
    groups = 1 - torch.eye(n_groups)
    return torch.block_diag(groups, groups) if parity == "equalized_odds" else groups
