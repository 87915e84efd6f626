"""Sums over parts of blocks of records, added in one order, whoever computes which part.

Rounding depends on the order in which numbers are added. So the parts of a block are added one after another, and so
are the blocks: by one process or by many, the sum has the same bits. A process has neighbouring parts; those that begin
a block it may add by itself, and each of the others goes to the first process as it is.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fairdp.team import Team, shares

# What a part adds, from the numbers of its block and of the part in it.
Compute = Callable[[int, int], Tensor]


@dataclass(frozen=True)
class _Piece:
    """Parts of one block that one process adds up by itself; ``begins`` says whether the block begins with them."""

    rank: int
    block: int
    parts: range
    begins: bool


def summed_in_order(
    sizes: Sequence[Sequence[int]], compute: Compute, *, n_numbers: int, team: Team, rows: Sequence[int] | None = None
) -> list[Tensor]:
    """The rows of the sum of all parts, in double precision; only the first process has it, the others have zeros.

    Parameters
    ----------
    sizes
        Records of each part of each block, by which the work is shared.
    compute
        Called for the own parts only, in their order.
    rows
        The row of the sum that each block belongs to; None: all belong to one.
    """
    found: dict[int, Tensor] = {}

    def add(block: int, total: Tensor) -> None:
        row = 0 if rows is None else rows[block]
        found[row] = found[row] + total if row in found else total

    if team.size == 1:
        for block, parts in enumerate(sizes):
            add(block, _added(block, range(len(parts)), compute, n_numbers))
    else:
        _add_together(sizes, compute, n_numbers, team, add)
    n_rows = 1 if rows is None else max(rows, default=0) + 1
    return [found[row] if row in found else _nothing(n_numbers) for row in range(n_rows)]


def _add_together(
    sizes: Sequence[Sequence[int]], compute: Compute, n_numbers: int, team: Team, add: Callable[[int, Tensor], None]
) -> None:
    """Compute the own parts; the first process adds up those of all, block by block."""
    pieces = _pieces(sizes, team.size)
    mine = [_added(piece.block, piece.parts, compute, n_numbers) for piece in pieces if piece.rank == team.rank]
    if not team.is_first:
        if mine:
            team.send_to_first(torch.stack(mine))
        return
    of_block = torch.zeros(0)
    for place, (piece, total) in enumerate(_arriving(pieces, mine, n_numbers, team), start=1):
        of_block = total if piece.begins else of_block + total
        if place == len(pieces) or pieces[place].begins:
            add(piece.block, of_block)


def _pieces(sizes: Sequence[Sequence[int]], n_workers: int) -> list[_Piece]:
    """All pieces in the order in which they are added; those of a process are next to each other."""
    owners = shares([size for block in sizes for size in block], n_workers)
    found, start = [], 0
    for block, parts in enumerate(sizes):
        own = owners[start : start + len(parts)]
        # A block without records adds nothing; whoever had the last one has it too.
        first = own[0] if own else owners[start - 1] if start else 0
        found.append(_Piece(first, block, range(own.count(first)), begins=True))
        found += [_Piece(own[p], block, range(p, p + 1), begins=False) for p in range(own.count(first), len(own))]
        start += len(parts)
    return found


def _arriving(
    pieces: Sequence[_Piece], mine: Sequence[Tensor], n_numbers: int, team: Team
) -> Iterator[tuple[_Piece, Tensor]]:
    """Every piece with its sum, in their order, at the first process."""
    for rank in range(team.size):
        theirs = [piece for piece in pieces if piece.rank == rank]
        if theirs:
            yield from zip(theirs, team.received(rank, (len(theirs), n_numbers)) if rank else mine, strict=True)


def _added(block: int, parts: range, compute: Compute, n_numbers: int) -> Tensor:
    if not parts:
        return _nothing(n_numbers)
    # In double precision: over many records single precision would round past the bound.
    total = compute(block, parts[0]).to(torch.float64, copy=True)
    for part in parts[1:]:
        total += compute(block, part)
    return total


def _nothing(n_numbers: int) -> Tensor:
    return torch.zeros(n_numbers, dtype=torch.float64)
