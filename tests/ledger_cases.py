"""Costs, tables and claims for the tests of the ledger."""

import numpy as np
import pandas as pd

from fairdp.accounting.mechanisms import SampledGaussian, epsilon_spent
from fairdp.ledger.costs import Cost, PureRelease
from fairdp.ledger.ledger import Claim, Ledger
from fairdp.ledger.records import HashedRecords

DELTA = 1e-5


def steps(sample_rate: float, noise_multiplier: float, n_steps: int, **beside: float) -> SampledGaussian:
    return SampledGaussian(sample_rate=sample_rate, noise_multiplier=noise_multiplier, n_steps=n_steps, **beside)


def fit_cost(*mechanisms: SampledGaussian, held_out: float = 0.0, delta: float = DELTA) -> Cost:
    """As of a fit: a group for each mechanism, with records held out or not."""
    counts = (PureRelease(epsilon=held_out),) if held_out else ()
    return Cost(
        epsilon=max(held_out, *(epsilon_spent(mechanism, delta) for mechanism in mechanisms)),
        delta=delta,
        by_group={f"group {place}": (mechanism, *counts) for place, mechanism in enumerate(mechanisms)},
    )


def pure(epsilon: float) -> Cost:
    return Cost(epsilon=epsilon, delta=0.0, by_group={"all": (PureRelease(epsilon=epsilon),)})


def people(*numbers: int) -> pd.DataFrame:
    """One row for each number, always the same for the same one."""
    chosen = np.array(numbers, dtype=int)
    age, sex = (chosen * 7919) % 83, np.where(chosen % 3, "f", "m")
    return pd.DataFrame({"id": chosen, "age": age, "sex": sex, "paid": chosen % 2})


def hashed(ledger: Ledger, frame: pd.DataFrame) -> HashedRecords:
    hasher = ledger.hasher()
    hasher.add(frame)
    return hasher.hashed()


def claim(ledger: Ledger, cost: Cost, frame: pd.DataFrame | None, *, table: str = "loans", **said) -> Claim:
    records = None if frame is None else hashed(ledger, frame)
    return Claim(**{"command": "fit", **said}, table=table, cost=cost, records=records)
