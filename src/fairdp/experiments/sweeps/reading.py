"""The columns of a user's table that nobody has declared: read once, with noise, for all trainings of a comparison."""

import math
from dataclasses import dataclass, replace
from pathlib import Path

from fairdp._files import content_of, from_plain, json_bytes, parsed_json, write_file
from fairdp._format import rounded_up
from fairdp.accounting.calibration import reading_for
from fairdp.accounting.mechanisms import PrivacyBudget, reading_epsilon
from fairdp.accounting.reading import Reading
from fairdp.commands.records import Source
from fairdp.data.tables import load_table, read_table
from fairdp.experiments.sweeps.comparison import Comparison
from fairdp.experiments.sweeps.paying import Payment, refuse_too_many
from fairdp.ledger.costs import reading_cost
from fairdp.ledger.spending import Spending
from fairdp.methods import METHODS
from fairdp.randomness import Generators
from fairdp.run.reading import PaidReader

# What was read, in the folder of the comparison: whoever goes on with it reads nothing again.
SCHEMA, READING = "schema.json", "reading.json"


@dataclass(frozen=True, kw_only=True)
class ReadOnce:
    """What it cost to read the columns: as large a part of the smallest ε of a training as a single one would pay."""

    reading: Reading
    delta: float

    @property
    def epsilon(self) -> float:
        """What it cost at δ."""
        return reading_epsilon(self.reading, self.delta)

    @property
    def note(self) -> str:
        """The same in words."""
        return (
            "types, categories, ranges and groups were read from the table once, with noise, for epsilon "
            f"{rounded_up(self.epsilon)} at delta {self.delta:g} beside all trainings; give a schema to declare them."
        )


def with_columns_read(
    comparison: Comparison, folder: Path, payment: Payment | None
) -> tuple[Comparison, ReadOnce | None]:
    """The same comparison with a schema for a table that has none, and what it cost to read it.

    Reading has an entry of its own, before the trainings. A comparison without noise reads the table as it stands.
    """
    (population, *others) = comparison.populations
    source = population.source
    spent = [fit.epsilon for fit in comparison.fits() if METHODS[fit.method].private and math.isfinite(fit.epsilon)]
    if others or source is None or source.table is None or source.schema is not None or not spent:
        return comparison, None
    if source.label is None or not source.sensitive:
        # Whoever loads it says what is missing.
        return comparison, None
    if not (folder / SCHEMA).exists():
        budget = PrivacyBudget(epsilon=min(spent), delta=comparison.delta)
        _read_into(folder, source, budget, payment, beside=math.fsum(spent))
    once = from_plain(ReadOnce, parsed_json(content_of(folder / READING)))
    read = replace(population, source=replace(source, schema=folder / SCHEMA))
    return replace(comparison, populations=(read,)), once


def _read_into(folder: Path, source: Source, budget: PrivacyBudget, payment: Payment | None, *, beside: float) -> None:
    assert source.table is not None
    assert source.label is not None
    table = source.table.name
    if payment is not None:
        reading = reading_for(budget, read_table(source.table, source.written).shape[1])
        refuse_too_many(payment, [(table, beside + reading_epsilon(reading, budget.delta))])
    ledger, limit = (None, None) if payment is None else (payment.ledger, payment.budget)
    with Spending(ledger, command="compare", budget=limit) as spending:

        def charge(reading: Reading) -> None:
            spending.charge_all()
            spending.pay(reading_cost(reading, budget.delta, table), table)

        reader = PaidReader(budget=budget, below=Generators.of(None).below, charge=charge)
        read = load_table(
            source.table,
            label=source.label,
            sensitive=source.sensitive,
            positive=source.positive,
            written=source.written,
            observe=spending.observe or (lambda rows: None),
            read=reader,
        )
        assert reader.reading is not None
        write_file(folder / READING, json_bytes(ReadOnce(reading=reader.reading, delta=budget.delta)))
        # Paid for once, it is public from here on. Last, so that whoever finds it finds both.
        write_file(folder / SCHEMA, json_bytes(replace(read.schema, declared=True).to_dict()))
        spending.complete()
