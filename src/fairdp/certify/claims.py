"""What a certificate claims of one metric, the events that may fail it, and how decisions were diluted for it."""

from dataclasses import dataclass


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
class Event:
    """An event that may fail: its probability, and the construction that bounds it, ``"pair"`` or ``"score_box"``."""

    failure_probability: float
    construction: str


@dataclass(frozen=True, kw_only=True)
class Dilution:
    """A share of the decisions that follow a constant: every gap, and so every bound, shrinks by that share."""

    share: float
    constant: int
    target_tau: float
