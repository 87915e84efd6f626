"""What a ledger says of a model, as its privacy record keeps it."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class LedgerNote:
    """What a ledger says of a model: its entry, and what all entries of the table spent together by the last writing.

    Nothing here depends on a record. The ``token`` is random and stands in the entry too, so that a ledger that was
    restored from an older copy is noticed. ``epsilon`` composes the mechanisms, at the sum of their deltas; it holds
    for a plan that was fixed in advance, and ``epsilon_sum`` in any case.
    """

    entry: int
    token: str
    table: str
    epsilon: float
    delta: float
    epsilon_sum: float

    def to_json(self) -> dict[str, object]:
        """Under the names users see; the token is for the folder."""
        return {
            "entry": self.entry,
            "table": self.table,
            "epsilon_total": self.epsilon,
            "delta_total": self.delta,
            "epsilon_sum": self.epsilon_sum,
        }
