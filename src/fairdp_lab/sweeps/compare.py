"""Comparisons from beginning to end: train what is missing, sum it up, draw it and write it down; and the demo."""

import io
import math
import os
import platform
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

from fairdp import errors
from fairdp._io import content_of, from_plain, json_bytes, parsed_json, read_key, write_file, write_key
from fairdp.accounting.mechanisms import PrivacyBudget, Reading, reading_epsilon, reading_for
from fairdp.classifier import FairDPClassifier
from fairdp.cli.terminal import progress_bar, say
from fairdp.data import catalog as sources
from fairdp.data.catalog import DATASETS
from fairdp.data.tables import load_table, read_table
from fairdp.errors import DataError, InputError, ParameterError, rounded_up
from fairdp.fitting import FitReport, fit_source
from fairdp.ledger.costs import reading_cost
from fairdp.ledger.ledger import Spending
from fairdp.methods import METHODS, ONLY_FOR
from fairdp.paper import BoundsAt, paper_bounds_of
from fairdp.parameters import paper_settings
from fairdp.randomness import Generators
from fairdp.records import Source, load_for_dataset
from fairdp.report.charts import PROVENANCE, SUMMARY
from fairdp.run.fit import PrivateSchemaReader
from fairdp.run.plan import checked, kind_of, network_for, train_config
from fairdp.saved.folder import check_place
from fairdp.statements.certificate import collapse_warning
from fairdp_lab.drawing import save_figure, tradeoff_figure
from fairdp_lab.sweeps.fits import (
    Fit,
    Payment,
    Population,
    Row,
    Store,
    Trained,
    digest_of,
    figures_of,
    load,
    random_state_of,
    refuse_too_many,
    table_of,
)
from fairdp_lab.sweeps.workers import Say, Workers, code_digest, spread, told

KEY_BYTES = 32
# Budget of the demonstration.
EPSILON = 1.0
# Folders of the models, so that other commands can be tried on them.
PAPER, DEFAULT, ALL_COLUMNS = "paper", "model", "all-columns"
# What was read, in the folder of the comparison: whoever goes on with it reads nothing again.
SCHEMA, READING = "schema.json", "reading.json"
PACKAGES = ("fairdp", "torch", "numpy", "scipy", "scikit-learn", "dp-accounting", "joblib")
# Methods whose positive rate DP-SGD is moved to, as a control.
CONTROLLED = ("fairdp", "fairdp_frontier")
# A training, where it pays, and what identifies its records.
_Task = tuple[Fit, Payment | None, str | None]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Populations, methods, budgets and seeds of a comparison.

    Parameters
    ----------
    seeds
        Each is one training of every method.
    grid
        Parameters of the estimator with their values, in all combinations of those that a method uses.
    """

    populations: tuple[Population, ...]
    methods: tuple[str, ...]
    epsilons: tuple[float, ...]
    seeds: range
    delta: float = 1e-5
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.methods:
            errors.one_of(METHODS, methods=name)
        free = set(FairDPClassifier().get_params()) - {"method", "epsilon", "delta", "random_state", "module"}
        for name in self.grid:
            errors.one_of(free, grid=name)

    def fits(self) -> list[Fit]:
        """Every training."""
        return [
            Fit(
                population=population,
                method=method,
                seed=seed,
                settings=tuple(({"delta": self.delta} | budget | dict(variant)).items()),
                is_control=method == "dpsgd",
                is_experiment=False,
            )
            for population in self.populations
            for method in self.methods
            for budget in self._budgets(method)
            for variant in self._variants(method)
            for seed in self.seeds
        ]

    def check(self) -> None:
        """Refuse, before the first training begins, any that could not."""
        for fit in self.fits():
            if fit.seed == self.seeds[0]:
                _check(fit)

    def _budgets(self, method: str) -> list[dict[str, float]]:
        return [{"epsilon": epsilon} for epsilon in self.epsilons] if METHODS[method].private else [{}]

    def _variants(self, method: str) -> list[tuple[tuple[str, Any], ...]]:
        """Combinations of the grid that mean something to a method; the same one only once."""
        grid = sorted(self.grid.items())
        # Not trained again for every value of a parameter that means nothing to it.
        fitting = {name: values for name, values in grid if method in ONLY_FOR.get(name, METHODS)}
        return [tuple(zip(fitting, values, strict=True)) for values in product(*fitting.values())]


def _check(fit: Fit) -> None:
    """Refuse a training that could not begin."""
    train = load(fit.population).train
    parameters = FairDPClassifier(method=fit.method, random_state=fit.seed, **dict(fit.settings)).get_params(deep=False)
    sizes = tuple(float(size) for size in train.group_sizes)
    try:
        chosen, shape = checked(**parameters), train.X.shape[1:]
        train_config(chosen, kind_of(chosen, shape), sizes)
        network_for(chosen, shape, None, train.n_groups)
    except TypeError as error:
        shown = ", ".join(f"{name}={value!r}" for name, value in _variant(fit).items())
        raise DataError(f"`grid` has a value of the wrong kind among {shown} ({error}).") from None


def tidy_rows(found: Mapping[Fit, Trained]) -> list[dict[str, object]]:
    """A flat row for each training."""
    return [
        {
            "dataset": str(fit.population),
            "method": fit.method,
            "epsilon": _epsilon(fit),
            "seed": fit.seed,
            **_variant(fit),
            **{("epsilon_spent" if name == "epsilon" else name): value for name, value in result.numbers.items()},
            "seconds": result.seconds,
        }
        for fit, result in found.items()
    ]


def summary_rows(found: Mapping[Fit, Trained]) -> list[Row]:
    """Mean and standard error over seeds."""
    return [
        Row.of({**_named(fits[0], found), "n_runs": len(fits)}, [found[fit].numbers for fit in fits])
        for fits in _together(found)
    ]


def control_rows(found: Mapping[Fit, Trained], *, at: str) -> list[Row]:
    """DP-SGD with its threshold moved to the positive rate of another method, run by run; none without both."""
    plain = {_beside(fit): result for fit, result in found.items() if fit.is_control}
    rows = []
    for fits in _together(found):
        if fits[0].method == at and all(_beside(fit) in plain for fit in fits):
            moved = [plain[_beside(fit)].at_rate(found[fit]["positive_rate"]) for fit in fits]
            rows.append(Row.of({**_named(fits[0], found), "method": "dpsgd", "at": at, "n_runs": len(fits)}, moved))
    return rows


def _beside(fit: Fit) -> tuple[object, ...]:
    """Key that a training shares with its control: everything but the method and what is its own."""
    variant = tuple((name, value) for name, value in _variant(fit).items() if name not in ONLY_FOR)
    return fit.population, fit.epsilon, fit.seed, variant


def _together(found: Iterable[Fit]) -> list[list[Fit]]:
    """Trainings that differ in their seed only."""
    together: dict[tuple[object, ...], list[Fit]] = {}
    for fit in found:
        together.setdefault((fit.population, fit.method, fit.settings), []).append(fit)
    return list(together.values())


def _named(fit: Fit, found: Iterable[Fit]) -> dict[str, object]:
    """Columns that tell a row apart; of the parameters those that differ between trainings of the method."""
    alike = [_variant(other) for other in found if other.method == fit.method]
    differs = {name for setting in alike for name in setting if len({str(other[name]) for other in alike}) > 1}
    variant = ", ".join(f"{name}={value}" for name, value in _variant(fit).items() if name in differs)
    named: dict[str, object] = {"dataset": str(fit.population), "method": fit.method, "epsilon": _epsilon(fit)}
    return named | ({"variant": variant} if variant else {})


def privacy_cost(
    dataset: str, spent: Sequence[float], *, delta: float, read: tuple[float, float] = (0.0, 0.0)
) -> dict[str, object]:
    """Cost of all trainings on the same records by basic composition, in numbers and in words.

    ``spent`` are their budgets, infinite where they are not private, all at the same δ; ``read`` are ε and δ of reading
    the columns once before them.
    """
    private = [epsilon for epsilon in spent if math.isfinite(epsilon)]
    n_others = len(spent) - len(private)
    epsilon, delta = sum(private) + read[0], len(private) * delta + read[1]
    others = f"; {n_others} further runs are not private at all" if n_others else ""
    return {
        "dataset": dataset,
        "n_private_runs": len(private),
        "n_other_runs": n_others,
        "epsilon": epsilon,
        "delta": delta,
        "statement": (
            f"{dataset}: {len(private)} private runs on the same training records are kept here. Whoever "
            f"sees them all, or a choice made among them, sees ε = {rounded_up(epsilon)} and δ = "
            f"{rounded_up(delta)} in all (basic composition){others}. Their seeds are kept with them, so that "
            "the comparison can be continued: this is what the runs would cost with seeds that are secret. "
            "Metrics are exact on the test records: for the data holder's eyes."
        ),
    }


def _epsilon(fit: Fit) -> float | None:
    return fit.epsilon if METHODS[fit.method].private else None


def _variant(fit: Fit) -> dict[str, object]:
    return {name: value for name, value in fit.settings if name not in ("epsilon", "delta")}


def train_all(
    fits: Sequence[Fit],
    *,
    store: Store | None,
    workers: Workers,
    say: Say,
    watch: Callable[[int, int], None] | None = None,
    payment: Payment | None = None,
) -> dict[Fit, Trained]:
    """Figures of every training; equal trainings are done once.

    Parameters
    ----------
    store
        Where finished trainings are kept and found again; None: nowhere.
    watch
        Told, as trainings end, how many of those that were still to do are done.
    payment
        Where trainings on a user's own table add up what they spend; None: nowhere.
    """
    asked = list(dict.fromkeys(fits))
    known = {} if store is None else {fit: found for fit in asked if (found := store.read(fit)) is not None}
    missing = [fit for fit in asked if fit not in known]
    if known:
        say(f"trainings: {len(known)} of {len(asked)} are kept from before")
    if payment is not None:
        private = [fit for fit in missing if METHODS[fit.method].private and table_of(fit.population)]
        refuse_too_many(payment, [(table_of(fit.population), fit.epsilon) for fit in private])
    # The records are identified where they may be others: on a worker elsewhere.
    tasks: list[_Task] = [
        (
            fit,
            None if payment is None else payment.of_one(),
            None if workers.scheduler is None else digest_of(fit.population),
        )
        for fit in missing
    ]
    results = spread(_timed, tasks, workers)
    for done, (position, found) in enumerate(told(results, len(missing), say, what="trainings"), start=1):
        known[missing[position]] = found
        if store is not None:
            store.write(missing[position], found)
        if watch is not None:
            watch(done, len(missing))
    return {fit: known[fit] for fit in asked}


def _timed(task: _Task) -> Trained:
    start = time.perf_counter()
    fit, payment, records = task
    if records not in (None, digest_of(fit.population)):
        raise DataError(
            f"a worker on {platform.node()!r} finds other records of {str(fit.population)!r} than this machine; put "
            "the same files where all of them see them."
        )
    found = figures_of(fit, random_state=random_state_of(fit), payment=payment)
    return replace(found, seconds=round(time.perf_counter() - start, 1))


def holder_key_path(folder: Path) -> Path:
    """Where the key is: beside the folder, however that is named."""
    folder = folder.resolve()
    return folder.with_name(f"{folder.name}.key")


def holder_key(folder: Path) -> bytes:
    """The key of the comparison in a folder, so that it continues; a new one if there is none."""
    path = holder_key_path(folder)
    if not path.exists():
        return secrets.token_bytes(KEY_BYTES)
    key = read_key(path, KEY_BYTES)
    if key is None:
        raise InputError(
            f"{str(path)!r} holds no key of a comparison; restore it from a copy, or choose another `out`."
        )
    return key


def keep_holder_key(folder: Path, key: bytes) -> None:
    """Write the key, for its owner only."""
    write_key(holder_key_path(folder), key)


@dataclass(frozen=True, kw_only=True)
class DemoModel:
    """One model of the demonstration, and the paper's certificates of it, which are diagnostics.

    ``paper`` has them at the deviation of the head that the paper prints; None where its formulas do not apply to how
    the model decides.
    """

    name: str
    n_inputs: int
    report: FitReport
    paper: BoundsAt | None

    def to_json(self) -> dict[str, Any]:
        """Plain values: those of `fairdp fit`, and the diagnostics."""
        paper = self.paper
        figures = None if paper is None else {"tau_emp": paper.tau_emp, "theorem_2": paper.theorem_2_corrected}
        return {"name": self.name, "n_inputs": self.n_inputs, **self.report.to_json(), "paper_bounds": figures}


def demo_datasets() -> tuple[tuple[str, ...], str]:
    """The data sets to train on, Adult if it can be had, and a line that says so if it cannot."""
    try:
        sources.fetch("adult")
    except (OSError, InputError):
        return ("synthetic",), "The Adult data could not be had; using the built-in synthetic population."
    return ("adult", "adult_full"), ""


def run_demo(out: Path, datasets: tuple[str, ...], *, seed: int | None, overwrite: bool = False) -> list[DemoModel]:
    """Train the paper's FairDP and the default on the paper's inputs, and the default on all columns."""
    budget = {"epsilon": EPSILON, "random_state": seed}
    plans = [(PAPER, datasets[0], paper_settings(**budget)), (DEFAULT, datasets[0], budget)]
    plans += [(ALL_COLUMNS, dataset, budget) for dataset in datasets[1:]]
    for name, _, _ in plans:
        check_place(out / name, overwrite=overwrite)
    return [_trained(name, dataset, parameters, out / name, overwrite) for name, dataset, parameters in plans]


def _trained(name: str, dataset: str, parameters: dict[str, Any], folder: Path, overwrite: bool) -> DemoModel:
    source = Source(
        table=None, dataset=dataset, label=None, positive=None, sensitive=(), schema=None, test_fraction=0.2
    )
    with progress_bar("training") as observe:
        report = fit_source(source, parameters, out=folder, overwrite=overwrite, observe=observe, say=say)
    try:
        paper = paper_bounds_of(*load_for_dataset(folder, dataset, part="train")).at["printed"]
    except ParameterError:
        # Not of one linear score with a noisy head.
        paper = None
    return DemoModel(name=name, n_inputs=DATASETS[dataset].features, report=report, paper=paper)


@dataclass(frozen=True, kw_only=True)
class ReadOnce:
    """Price of reading the columns: as large a part of the smallest ε of a training as a single one would pay."""

    reading: Reading
    delta: float

    @property
    def epsilon(self) -> float:
        """Price at δ."""
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

        reader = PrivateSchemaReader(budget=budget, below=Generators.of(None).below, charge=charge)
        read = load_table(
            source.table,
            label=source.label,
            sensitive=source.sensitive,
            positive=source.positive,
            written=source.written,
            observe=spending.observe or (lambda rows, columns: None),
            read=reader,
        )
        assert reader.reading is not None
        write_file(folder / READING, json_bytes(ReadOnce(reading=reader.reading, delta=budget.delta)))
        # Paid for once, it is public from here on. Last, so that whoever finds it finds both.
        write_file(folder / SCHEMA, json_bytes(replace(read.schema, declared=True).to_dict()))
        spending.complete()


def run_compare(
    comparison: Comparison,
    *,
    workers: Workers,
    folder: Path,
    command: str,
    say: Say,
    watch: Callable[[int, int], None],
    payment: Payment | None = None,
    read: ReadOnce | None = None,
) -> dict[str, object]:
    """Carry it out; finished trainings are kept one by one, so that the same comparison continues where it stopped.

    Parameters
    ----------
    command
        How it was asked for, for the record.
    watch
        Told how many of the trainings that were still to do are done.
    payment
        Where trainings on a user's own table add up what they spend.
    read
        Price of reading the columns of such a table, if they were read.
    """
    store = Store(folder / "trainings")
    found = train_all(comparison.fits(), store=store, workers=workers, say=say, watch=watch, payment=payment)
    rows, delta = summary_rows(found), comparison.delta
    read_for = (0.0, 0.0) if read is None else (read.epsilon, read.delta)
    notes = [] if read is None else [read.note]
    notes += [*(note for population in comparison.populations for note in load(population).notes)]
    report: dict[str, object] = {
        "delta": delta,
        "n_runs": len(found),
        "positive": {
            population.dataset: schema.positive
            for population in comparison.populations
            if (schema := load(population).schema) is not None
        },
        "rows": [row.to_json() for row in rows],
        "controls": [row.to_json() for at in CONTROLLED for row in control_rows(found, at=at)],
        "privacy": [
            privacy_cost(str(population), store.spent_on(population), delta=delta, read=read_for)
            for population in comparison.populations
        ],
        "warnings": [*notes, *(note for row in rows for note in _collapse(row))],
    }
    seconds = sum(result.seconds for result in found.values())
    frame = pd.DataFrame(tidy_rows(found))
    parquet = io.BytesIO()
    frame.to_parquet(parquet, index=False)
    contents = {
        "results.parquet": parquet.getvalue(),
        "results.csv": frame.to_csv(index=False, lineterminator="\n").encode(),
        SUMMARY: json_bytes(report),
        PROVENANCE: json_bytes(provenance(command, comparison.populations, seconds=seconds)),
    }
    for name, content in contents.items():
        write_file(folder / name, content)
    drawn = _draw(found, folder)
    return {**report, "out": str(folder), "files": [*contents, *(path.name for path in drawn)]}


def _collapse(row: Row) -> list[str]:
    """Warning about a method that gives nearly everybody the same decision."""
    warning = collapse_warning(row.mean["positive_rate"])
    budget = "" if row.named["epsilon"] is None else f" at ε = {row.named['epsilon']:g}"
    return [f"{row.named['dataset']}, {row.named['method']}{budget}: {warning}"] if warning else []


def _draw(found: Mapping[Fit, Trained], folder: Path) -> list[Path]:
    # In a picture one control is a yardstick, and two are a crowd.
    controls = next((rows for at in CONTROLLED if (rows := control_rows(found, at=at))), [])
    drawn, beside = [row.to_json() for row in summary_rows(found)], [row.to_json() for row in controls]
    paths = []
    for utility in ("accuracy", "auc"):
        figure = tradeoff_figure(drawn, utility=utility, controls=beside)
        paths += save_figure(figure, folder, f"tradeoff-{utility}")
    return paths


def provenance(command: str, populations: Iterable[Population], *, seconds: float) -> dict[str, object]:
    """Origin of results: command, versions, code, records and machine; ``seconds`` are those of all trainings."""
    return {
        "command": command,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
        "code_sha256": code_digest(),
        "records": {str(population): _identified(population) for population in populations},
        "hardware": {"system": platform.platform(), "machine": platform.machine(), "processors": os.cpu_count()},
        "training_seconds": round(seconds, 1),
    }


def _identified(population: Population) -> str:
    """Fingerprint of the records; of a user's own nobody else can check it."""
    return f"{'SHA-256' if population.key is None else 'commitment'} {digest_of(population)}"
