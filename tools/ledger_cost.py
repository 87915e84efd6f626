"""Cost of the ledger: a fit with and without it, one more mechanism to compose, and five million records.

Usage: python tools/ledger_cost.py [--runs 15]

Each measurement is made in a process of its own, forked after all imports; those with a ledger and those without take
turns. Seconds are of the processor, those of child processes included, and the median of the runs is shown.
"""

import argparse
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from fairdp.accounting.mechanisms import SampledGaussian, epsilon_spent
from fairdp.fitting import fit_source
from fairdp.ledger.costs import Cost, composed
from fairdp.ledger.ledger import Claim, Ledger
from fairdp.records import Source

# As Adult: so many rows, numeric columns, and columns of categories.
ROWS, NUMERIC, WORDS = 45_222, 6, 8
DELTA = 1e-6


def table_like_adult(rng: np.random.Generator) -> pd.DataFrame:
    """Rows of the size of Adult, each with a number of its own."""
    numeric = {f"n{place}": rng.integers(0, 20_000, ROWS) for place in range(NUMERIC)}
    words = {f"w{place}": rng.choice([f"value {k}" for k in range(12)], ROWS) for place in range(WORDS - 1)}
    return pd.DataFrame({**numeric, **words, "sex": rng.choice(["f", "m"], ROWS), "y": rng.choice(["no", "yes"], ROWS)})


def schema_of(table: pd.DataFrame) -> dict[str, object]:
    """A declared schema, so that nothing is read from the rows."""
    columns: list[dict[str, object]] = []
    for name in table.columns[: NUMERIC + WORDS - 1]:
        if name.startswith("n"):
            columns.append({"name": name, "type": "numeric", "low": 0, "high": 20_000})
        else:
            columns.append({"name": name, "type": "categorical", "categories": [f"value {k}" for k in range(12)]})
    return {
        "label": "y",
        "positive": "yes",
        "negative": "no",
        "sensitive": [{"name": "sex", "groups": ["f", "m"]}],
        "columns": columns,
    }


def processor_seconds() -> float:
    """Of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def in_child(work: Callable[[], None]) -> tuple[float, float]:
    """Seconds of the processor and MB of memory, above those before, that a piece of work takes in its own process."""
    reading, writing = os.pipe()
    process = os.fork()
    if not process:
        try:
            before, memory = processor_seconds(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            work()
            spent = processor_seconds() - before
            more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) / 1024
            os.write(writing, f"{spent} {more}".encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        seconds, megabytes = map(float, pipe.read().split())
    os.waitpid(process, 0)
    return seconds, megabytes


def fit_cost(folder: Path, runs: int) -> list[str]:
    """A fit without a ledger, with a new one, and with one that has as many other records."""
    rng = np.random.default_rng(0)
    for name in ("people", "others"):
        table_like_adult(rng).to_csv(folder / f"{name}.csv", index=False)
        about = {**schema_of(table_like_adult(rng)[:1]), "table": name}
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(about))

    def fit(table: str, ledger: Path | None) -> None:
        source = Source(
            table=folder / f"{table}.csv",
            dataset=None,
            label=None,
            positive=None,
            sensitive=(),
            schema=folder / f"{table}.yaml",
            test_fraction=0.2,
        )
        parameters = {"method": "dpsgd", "n_steps": 2, "sample_rate": 0.01, "certify_fraction": 0.0, "random_state": 0}
        fit_source(source, parameters, ledger=ledger)

    # The noise is sought once, and is not what is measured.
    fit("people", None)
    kept = folder / "kept.sqlite"
    in_child(lambda: fit("others", kept))
    seconds: dict[str, list[float]] = {"without": [], "new": [], "kept": []}
    for run in range(runs):
        copy = folder / f"kept{run}.sqlite"
        copy.write_bytes(kept.read_bytes())
        ledgers = {"without": None, "new": folder / f"new{run}.sqlite", "kept": copy}
        for name, ledger in ledgers.items():
            seconds[name].append(in_child(lambda ledger=ledger: fit("people", ledger))[0])
    without, new, other = (statistics.median(each) for each in seconds.values())
    return [
        f"fit of {ROWS:,} rows without a ledger: {without:.3f} s",
        f"with a new ledger: {1000 * (new - without):+.0f} ms",
        f"with one that has as many other records of another table: {1000 * (other - without):+.0f} ms",
    ]


def composition_cost() -> list[str]:
    """The total of entries that all differ, as each of them comes."""
    lines, costs = [], []
    for place in range(5):
        step = SampledGaussian(sample_rate=0.01 + place / 200, noise_multiplier=2.0 + place / 5, n_steps=1000)
        costs.append(Cost(epsilon=epsilon_spent(step, DELTA), delta=DELTA, by_group={"all": (step,)}))
        start = time.process_time()
        composed(costs)
        lines.append(f"{time.process_time() - start:.2f} s")
    return [f"total of one to five different mechanisms: {', '.join(lines)}"]


def register_cost(folder: Path) -> list[str]:
    """Five million records whose cells are canonical already: hashed, compared and written."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({f"n{place}": rng.integers(0, 1000, 5_000_000).astype(float) for place in range(2)})
    step = SampledGaussian(sample_rate=0.01, noise_multiplier=2.0, n_steps=10)
    cost = Cost(epsilon=epsilon_spent(step, DELTA), delta=DELTA, by_group={"all": (step,)})

    def register() -> None:
        with Ledger(folder / "large.sqlite") as ledger:
            hasher = ledger.hasher()
            for start in range(0, len(table), 2**16):
                hasher.add(table[start : start + 2**16])
            ledger.spend(Claim(command="fit", table="large", cost=cost, records=hasher.hashed()))

    seconds, megabytes = in_child(register)
    return [f"{len(table):,} records of {table.shape[1]} numbers: {seconds:.1f} s, {megabytes:.0f} MB more"]


def main() -> None:
    """Measure, and print one line for each number."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=15)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        for line in [*fit_cost(Path(folder), runs), *composition_cost(), *register_cost(Path(folder))]:
            print(line)


if __name__ == "__main__":
    main()
