"""What trainings of a sweep on a user's table write into the ledger, each before it releases anything."""

import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from fairdp._checks import DataError
from fairdp.data.formats import PLAIN
from fairdp.data.tables import table_batches
from fairdp.experiments.sweeps.populations import Population, load
from fairdp.ledger.book import Ledger
from fairdp.ledger.spending import Spending
from fairdp.methods import METHODS
from fairdp.run.progress import Progress, paid_by


@dataclass(frozen=True, kw_only=True)
class Payment:
    """Where trainings add up what they spend: the ledger, by its path and by what it is told from others by.

    A worker elsewhere may find another file under the same path, or none.

    Parameters
    ----------
    token
        Of one training: a worker that begins it again, because another has died at it, finds its entry by it.
    """

    ledger: Path
    identity: str
    budget: float | None = None
    token: str = ""

    @classmethod
    def into(cls, path: Path, budget: float | None) -> "Payment":
        """Into the ledger at a path, which is made if there is none."""
        with Ledger(path) as ledger:
            return cls(ledger=ledger.path, identity=ledger.identity, budget=budget)

    def of_one(self) -> "Payment":
        """Of the next training, which pays once however often it is begun before its result arrives."""
        return replace(self, token=secrets.token_hex(16))


def refuse_too_many(payment: Payment, spends: Iterable[tuple[str, float]]) -> None:
    """Before the first of several trainings, refuse all if they would pass the budget together."""
    wanted: dict[str, float] = {}
    for table, epsilon in spends:
        wanted[table] = wanted.get(table, 0.0) + epsilon
    with Ledger(payment.ledger) as ledger:
        for table, epsilon in wanted.items():
            ledger.foresee(table, epsilon, payment.budget)


def table_of(population: Population) -> str:
    """The name of a user's table; empty for named data sets, which no ledger is kept of."""
    source = population.source
    if source is None or source.table is None:
        return ""
    schema = load(population).schema
    return (schema.table if schema is not None else "") or source.table.name


@contextmanager
def paying(payment: Payment | None, population: Population, method: str) -> Iterator[Progress]:
    """Of one training: what is spent is written before it is released, and completed at the end.

    A method that is not private is a yardstick for the data holder's eyes, and promises nothing to add up.
    """
    source, table = population.source, table_of(population)
    if payment is None or not table or not METHODS[method].private:
        yield Progress()
        return
    assert source is not None
    assert source.table is not None
    with Spending(payment.ledger, command="compare", budget=payment.budget, token=payment.token) as spending:
        if spending.identity != payment.identity:
            raise DataError(
                f"a worker finds another ledger at {str(payment.ledger)!r} than this machine; put it where all of them "
                "see the same file, or add `no_ledger`."
            )
        assert spending.observe is not None
        schema = load(population).schema
        for rows in table_batches(source.table, PLAIN if schema is None else schema.format):
            spending.observe(rows)
        yield paid_by(spending, table)
        spending.complete()
