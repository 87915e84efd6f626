"""What a certificate claims of one metric, and how its decisions were diluted for it."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class CertifiedGap:
    """One metric's bound: the gap is at most ``tau``; for demographic parity also the ratio is at least ``ratio``.

    ``claimed`` is false where a fixed sequence ended before this metric: its ``tau`` of one says nothing.
    """

    tau: float
    pair: tuple[str, str]
    ratio: float | None = None
    claimed: bool = True


@dataclass(frozen=True, kw_only=True)
class Dilution:
    """A share of the decisions that follow a constant: every gap, and so every bound, shrinks by that share."""

    share: float
    constant: int
    target_tau: float

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> "Dilution":
        """From a record, which may say more."""
        return cls(share=record["share"], constant=record["constant"], target_tau=record["target_tau"])
