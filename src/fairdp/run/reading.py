"""How a run reads the columns of a table that nobody has declared: once, with noise, and paid for before."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from fairdp._checks import DataError, InputError, ParameterError
from fairdp._files import RecordError, content_of, from_plain, json_bytes, parsed_json, write_file
from fairdp._format import rounded_up
from fairdp.accounting.calibration import reading_for
from fairdp.accounting.mechanisms import PrivacyBudget, reading_epsilon
from fairdp.accounting.reading import Reading
from fairdp.config.defaults import train_config
from fairdp.data.columns import repeated
from fairdp.data.inference import refuse_continuous
from fairdp.data.noisy_tally import released_tally
from fairdp.data.observed import observe
from fairdp.data.positive import chosen_positive, refuse_unsaid
from fairdp.data.reading import schema_from
from fairdp.data.schema import TableSchema, refuse_unfilled
from fairdp.data.tally import column_names, tally_of
from fairdp.ledger.spending import Spending
from fairdp.methods import METHODS
from fairdp.randomness import Generators, RandBelow
from fairdp.run.settings import RunSettings
from fairdp.team import the_team

_UNKNOWN_GROUPS = "fill them, or let fairdp schema propose 'other: unknown', by which they are a group"
# Numbers of a run are checked before anybody is counted.
_ANY_SIZE = 1e6


@dataclass(kw_only=True)
class PaidReader:
    """Reads the columns of one table, once.

    Parameters
    ----------
    budget
        What may be spent on the table in all.
    below
        Chance for a purpose.
    charge
        Called before anything is released, or used that was: writes down what is spent.
    reading
        How the table was read; None before.
    schema
        What was read of it; None before.
    """

    budget: PrivacyBudget
    below: Callable[[str], RandBelow]
    charge: Callable[[Reading], None] = lambda reading: None
    reading: Reading | None = None
    schema: TableSchema | None = field(default=None, repr=False)

    def __call__(
        self, frame: pd.DataFrame, label: str, sensitive: Sequence[str], positive: object
    ) -> tuple[TableSchema, tuple[str, ...]]:
        """The schema of a table and notes on it; what was read before is not read again."""
        if self.schema is not None and self.reading is not None:
            self.charge(self.reading)
            return self.schema, ()
        sensitive = (sensitive,) if isinstance(sensitive, str) else tuple(sensitive)
        # Whatever can be refused without telling anybody else is refused before it costs anything.
        twice = repeated((label, *sensitive))
        if twice is not None:
            raise DataError(f"column {twice!r} is named twice; label, protected columns and inputs must differ.")
        refuse_unfilled(frame, label)
        for name in sensitive:
            refuse_unfilled(frame, name, remedy=_UNKNOWN_GROUPS)
            refuse_continuous(frame[name])
        texts = list(observe(frame[label]).counts)
        if positive is None:
            refuse_unsaid(texts, label)
        else:
            chosen_positive(positive, texts, label)
        reading = reading_for(self.budget, len(column_names(frame)))
        assert reading is not None
        _refuse_beyond(self.budget, reading)
        tally = tally_of(frame)
        self.charge(reading)
        noisy = released_tally(tally, std=reading.std, threshold=reading.threshold, below=self.below)
        self.reading = reading
        self.schema, notes = schema_from(noisy, label, sensitive, positive)
        return self.schema, notes


@dataclass(frozen=True, kw_only=True)
class KeptReading:
    """What stands beside the checkpoint of a run that has read its table: reading it again would release it again."""

    reading: Reading
    schema: dict[str, object]


def reader_for(settings: RunSettings, spending: Spending, table: str, *, kept: Path | None = None) -> PaidReader | None:
    """What reads a table for a run with these settings; None if the run is not private, and reads it as it stands.

    ``kept`` is the checkpoint of a run that goes on.
    """
    if not METHODS[settings.method].private or not settings.goal.is_private:
        return None
    if settings.goal.epsilon_follows:
        raise ParameterError(
            "noise_multiplier",
            settings.goal.noise_multiplier,
            "with `n_steps` leaves open which epsilon the columns may be read with",
            "declare them in a schema, or give `epsilon` in place of `n_steps`",
        )
    _check_numbers(settings)
    budget, below = settings.budget, Generators.of(settings.seed).below
    if kept is None:
        return PaidReader(budget=budget, below=below, charge=lambda reading: spending.reserve(budget, reading, table))
    before = _kept(kept)
    return PaidReader(
        budget=budget,
        below=below,
        # The entry of the run that goes on is about all records of the table.
        charge=lambda reading: spending.charge_all(),
        reading=before.reading,
        schema=TableSchema.from_dict(before.schema),
    )


def _refuse_beyond(budget: PrivacyBudget, reading: Reading) -> None:
    """Refuse a reading that by itself would spend the budget: below a tiny δ no noise gets under some ε (moments)."""
    spent = reading_epsilon(reading, budget.delta)
    if spent >= budget.epsilon:
        raise ParameterError(
            "epsilon",
            budget.epsilon,
            f"is less than reading the columns of the table takes at `delta`={budget.delta:g} ({rounded_up(spent)})",
            "declare them in a schema, or use more",
        )


def _check_numbers(settings: RunSettings) -> None:
    """Refuse what can be refused whatever the table holds, before reading it costs anything."""
    chosen = {**settings.training, "group_weights": None}
    train_config(settings.kind((1,)), settings.method, (_ANY_SIZE, _ANY_SIZE), **chosen)


def keep_reading(checkpoint: Path, reader: PaidReader) -> None:
    """Write what was read beside a checkpoint."""
    assert reader.reading is not None
    assert reader.schema is not None
    content = json_bytes(KeptReading(reading=reader.reading, schema=reader.schema.to_dict()))
    write_file(reading_path(checkpoint), content, owner_only=True)


def reading_path(checkpoint: Path) -> Path:
    """Where it is kept what was read of the table of a checkpoint."""
    return checkpoint.with_name(f"{checkpoint.name}.schema")


def _kept(checkpoint: Path) -> KeptReading:
    path = reading_path(checkpoint)
    try:
        return from_plain(KeptReading, parsed_json(the_team().from_first(lambda: content_of(path))))
    except (OSError, RecordError, ValueError):
        raise InputError(
            f"what was read of the table is not in {str(path)!r}, so that the run cannot be continued; restore the "
            "file, give the schema that the run had, or start the run again."
        ) from None
