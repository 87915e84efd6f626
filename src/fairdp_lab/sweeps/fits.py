"""One training and its figures: what sweeps and studies are made of, and rows over seeds."""

import hashlib
import json
import math
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairdp.certify.certificate import Certificate
from fairdp.classifier import FairDPClassifier
from fairdp.data.catalog import load_dataset
from fairdp.data.datasets import N_TEST, N_TRAIN, synthetic_population
from fairdp.data.grouped import GroupedData
from fairdp.data.schema import PLAIN, TableSchema
from fairdp.data.tables import table_batches
from fairdp.errors import DataError, with_error
from fairdp.ledger.ledger import Ledger, Spending
from fairdp.methods import METHODS
from fairdp.metrics import Counts, at_positive_rate, decision_counts
from fairdp.paper import paper_bounds_of
from fairdp.randomness import derived_key
from fairdp.records import Source, load_records, measure

# Positive rates at which a model without a target is also measured, as a control; small ones are where gaps bend.
CONTROL_RATES = tuple(np.concatenate([np.arange(0, 0.05, 0.0025), np.arange(0.05, 1.001, 0.01)]).round(4).tolist())
METRICS = ("demographic_parity", "equal_opportunity", "equalized_odds")
GAPS = tuple(f"{metric}_difference" for metric in METRICS)
# What a run has spent; never rounded.
PRIVACY = ("epsilon", "epsilon_rdp", "epsilon_pld", "noise_multiplier")
# Part of the key of every kept training. Raise it by hand when a change of the code or of a library changes figures of
# trainings, which `tools/compare_versions.py` shows: everything is then trained again. The noise of a comparison
# follows from that key (`random_state_of`): if it is not raised, a user's own table gets the same noise for other
# figures, and the difference of the two shows what the noise hides.
FIGURES = 1


@dataclass(frozen=True, kw_only=True)
class Population:
    """Records by name.

    Parameters
    ----------
    dataset
        Named data set.
    split
        Seed of what is left to chance: who is drawn with a bias, and who is kept of a ratio or of so many records.
    sensitive
        Protected columns of a named data set; none: its usual one.
    by_race
        Whether the groups are told apart by race too, white or not, as an input says.
    by_every_race
        Whether they are told apart by each race that an input names.
    bias
        Of a synthetic population, otherwise as the named one.
    ratio
        None: as it is delivered. Else the largest group keeps so many times the training records of the smallest, ρ.
    n_train
        None: all training records. Else so many of them.
    source
        Where a command's records come from, such as a user's own table; ``dataset`` then only names them.
    key
        Secret of the holder of an own table: it chooses the test records, and what identifies the records is a
        commitment under it. None for public data.
    """

    dataset: str
    split: int | None = None
    sensitive: tuple[str, ...] = ()
    by_race: bool = False
    by_every_race: bool = False
    bias: float | None = None
    ratio: float | None = None
    n_train: int | None = None
    source: Source | None = None
    key: bytes | None = field(default=None, repr=False)

    def __str__(self) -> str:
        race = " by sex and every race" if self.by_every_race else " by sex and race" if self.by_race else ""
        race += f" by {' and '.join(self.sensitive)}" if self.sensitive else ""
        bias = "" if self.bias is None else f", bias {self.bias:g}"
        ratio = "" if self.ratio is None else f", ratio {self.ratio:g}"
        some = "" if self.n_train is None else f", {self.n_train} rows"
        return f"{self.dataset}{race}{bias}{ratio}{some}"


@dataclass(frozen=True)
class Parts:
    """Training and test records, and what is to be said of them.

    ``group_sizes`` says how the sizes of the groups are known: those of published records are public.
    """

    train: GroupedData
    test: GroupedData
    schema: TableSchema | None
    notes: tuple[str, ...] = ()
    group_sizes: str | Mapping[str, float] | None = "public"

    def described(self) -> dict[str, Any] | None:
        """The schema as a model takes it."""
        return None if self.schema is None else self.schema.to_dict()

    def digest(self, key: bytes | None = None) -> str:
        """SHA-256 of all records and of what their columns mean: others are other results.

        With a key it is a commitment: without it, nobody can tell whether these are the records.
        """
        digest = hashlib.sha256() if key is None else hashlib.blake2b(key=key, digest_size=32)
        digest.update(repr(self.described()).encode())
        for part in (self.train, self.test):
            digest.update(repr((part.X.shape, part.group_names)).encode())
            for array in (part.X, part.y, part.groups):
                digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()


@lru_cache(maxsize=4)
def load(population: Population) -> Parts:
    """The records that a name stands for."""
    if population.bias is not None:
        return _synthetic(population.bias, population.split or 0)
    if population.source is None:
        named = load_dataset(population.dataset, sensitive=population.sensitive)
        parts = Parts(named.train, named.test, named.schema, named.notes)
    else:
        split_key = None if population.key is None else derived_key(population.key, "test split")
        # Whoever adds up what is spent reads the rows again: here it is enough that each knows its place.
        records = load_records(population.source, split_key=split_key, observe=lambda rows, columns: None)
        known = "public" if records.published else records.declared_sizes or None
        parts = Parts(records.train, records.test, records.schema, records.warnings, known)
    if population.ratio is not None:
        return replace(parts, train=_reduced(parts.train, population.ratio, population.split or 0))
    if population.n_train is not None:
        return replace(parts, train=_some(parts.train, population.n_train, population.split or 0))
    if population.by_every_race:
        races = _races(parts)
        return _crossed(parts, lambda X: X[:, list(races)].argmax(1), tuple(races.values()))
    if population.by_race:
        white = next(position for position, race in _races(parts).items() if race == "White")
        return _crossed(parts, lambda X: (X[:, white] > 0.5).astype(np.int64), ("other", "white"))
    return parts


@lru_cache(maxsize=64)
def digest_of(population: Population) -> str:
    """Fingerprint of the records that a name stands for: SHA-256 of public ones, a commitment to all others."""
    key = None if population.key is None else derived_key(population.key, "records", n_bytes=32)
    return load(population).digest(key)


def _synthetic(bias: float, seed: int) -> Parts:
    people = replace(synthetic_population(), bias=bias)
    rng = np.random.default_rng([seed, int(1000 * bias)])
    return Parts(people.sample(N_TRAIN, rng), people.sample(N_TEST, rng), None)


def _reduced(train: GroupedData, ratio: float, seed: int) -> GroupedData:
    """Every group cut, at random, to at most so many times the smallest one."""
    rng = np.random.default_rng([seed, int(1000 * ratio)])
    most = int(ratio * train.group_sizes.min())
    members = [np.flatnonzero(train.groups == group) for group in range(train.n_groups)]
    kept = [rows if len(rows) <= most else rng.choice(rows, most, replace=False) for rows in members]
    return train.take(np.sort(np.concatenate(kept)))


def _some(train: GroupedData, n_train: int, seed: int) -> GroupedData:
    """So many records at random."""
    return train.take(np.sort(np.random.default_rng([seed, n_train]).permutation(train.n_samples)[:n_train]))


def _races(parts: Parts) -> dict[int, str]:
    """The inputs that say a race."""
    assert parts.schema is not None
    named = enumerate(parts.schema.feature_names)
    return {position: name.removeprefix("race=") for position, name in named if name.startswith("race=")}


def _crossed(
    parts: Parts, code_of: Callable[[NDArray[np.float32]], NDArray[np.int64]], names: tuple[str, ...]
) -> Parts:
    """Each group parted once more, by a code that follows from the inputs."""

    def crossed(data: GroupedData) -> GroupedData:
        both = tuple(f"{group}, {name}" for group in data.group_names for name in names)
        return replace(data, groups=len(names) * data.groups + code_of(data.inputs), group_names=both)

    return Parts(crossed(parts.train), crossed(parts.test), parts.schema)


def gap_under_shift(counts: NDArray[np.float64] | Counts, shift: float) -> float:
    r"""Largest gap when a mass of ``shift`` moves from one cell (group, label) to another, over all such pairs.

    Decisions within a cell stay as they are, so the rates follow from the new shares, without drawing records anew:
    :math:`\sum_y P'(a, y) r_{a, y} / P'(a)`. Moving mass γ from a cell to another is a total variation of γ; cells that
    hold less cannot give it.

    >>> counts = np.array([[[90, 10], [0, 0]], [[50, 0], [0, 50]]])
    >>> gap_under_shift(counts, 0.0)
    0.4
    >>> round(gap_under_shift(counts, 0.125), 6)  # half of those whom the second group refuses become accepted ones
    0.65
    """
    shares, rates = _cells(counts)
    found = [_gap(shares, rates)]
    for giver, taker in permutations(range(len(shares)), 2):
        if shares[giver] > shift > 0 and shares[taker] > 0:
            moved = shares.copy()
            moved[giver] -= shift
            moved[taker] += shift
            found.append(_gap(moved, rates))
    return max(found)


def gap_under_reversal(counts: NDArray[np.float64] | Counts, shift: float) -> float:
    r"""The gap when the tie between group and label is loosened and then reversed, by a total variation of ``shift``.

    This is how An et al. (2022), whom the paper cites for its shift, move Pr(a, y): the cells of two groups and two
    labels have shares of .1, .4, .4, .1 where they train and of .4, .1, .1, .4 where they test, so that groups and
    labels stay as frequent as they were and only who has which label changes
    (https://github.com/umd-huang-lab/transfer-fairness, ``Sshift2``). Here each of the two cells that hold more than
    independence would give them loses γ/2, and each of the other two gains it; theirs is γ = .6. Not a number if a cell
    has less to give, or if there are other than two groups.

    >>> counts = np.array([[[30, 10], [0, 10]], [[5, 5], [0, 40]]])  # shares .4, .1, .1, .4
    >>> gap_under_reversal(counts, 0.0)
    0.5
    >>> round(gap_under_reversal(counts, 0.6), 6)  # shares .1, .4, .4, .1: rates .85 and .6
    0.25
    """
    shares, rates = _cells(counts)
    if len(shares) != 4:
        return math.nan
    # In the order group 0 with labels 0 and 1, group 1 with labels 0 and 1; the sign says which two hold more.
    more = np.sign(shares[0] * shares[3] - shares[1] * shares[2]) * np.array([1, -1, -1, 1])
    moved = shares - shift / 2 * more
    return _gap(moved, rates) if (moved > 0).all() else math.nan


def _cells(counts: NDArray[np.float64] | Counts) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Share and acceptance rate of each cell (group, label); a cell without people accepts nobody."""
    cells = np.asarray(counts, dtype=np.float64).reshape(-1, 2)
    sizes = cells.sum(1)
    return sizes / sizes.sum(), np.divide(cells[:, 1], sizes, out=np.zeros(len(sizes)), where=sizes > 0)


def _gap(shares: NDArray[np.float64], rates: NDArray[np.float64]) -> float:
    by_group = shares.reshape(-1, 2)
    accepted = (shares * rates).reshape(-1, 2).sum(1) / by_group.sum(1)
    return float(accepted.max() - accepted.min())


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
    """Name of a user's table; empty for named data sets, which no ledger is kept of."""
    source = population.source
    if source is None or source.table is None:
        return ""
    schema = load(population).schema
    return (schema.table if schema is not None else "") or source.table.name


@contextmanager
def paying(payment: Payment | None, population: Population, method: str) -> Iterator[Spending]:
    """Of one training: what is spent is written before it is released, and completed at the end.

    A method that is not private is a yardstick for the data holder's eyes, and promises nothing to add up.
    """
    source, table = population.source, table_of(population)
    if payment is None or not table or not METHODS[method].private:
        yield Spending(None, command="compare")
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
            spending.observe(rows, () if schema is None else schema.table_columns)
        yield spending
        spending.complete()


@dataclass(frozen=True, kw_only=True)
class Fit:
    """One training by one method.

    Parameters
    ----------
    settings
        Parameters of the estimator as pairs, so that equal trainings are equal.
    is_control
        Whether the model is also measured at other positive rates than its own.
    shifts
        Sizes of shifts of Pr(a, y) under which the gap is also measured and certified.
    is_experiment
        A study of public data: trainings with the same seed share batches and noise, and the gap on the training
        records is measured too. Otherwise each has noise of its own, and nothing exact is read off its records.
    """

    population: Population
    method: str
    seed: int
    settings: tuple[tuple[str, Any], ...] = ()
    is_control: bool = False
    shifts: tuple[float, ...] = ()
    is_experiment: bool = True

    @property
    def epsilon(self) -> float:
        """Budget that was asked for."""
        return float(dict(self.settings).get("epsilon", 1.0))


@dataclass(frozen=True, kw_only=True)
class Trained:
    """Figures of a training: numbers by name, and how long it took.

    Parameters
    ----------
    moved
        Of a control: numbers by name with the threshold moved, one for each of `CONTROL_RATES`.
    """

    numbers: Mapping[str, float]
    moved: Mapping[str, Sequence[float]] = field(default_factory=dict)
    seconds: float = 0.0

    def __getitem__(self, name: str) -> float:
        return self.numbers[name]

    def at_rate(self, positive_rate: float) -> dict[str, float]:
        """Numbers of a control whose threshold is moved to a positive rate; its AUC does not depend on it."""
        rates = self.moved["positive_rate"]
        at = {name: float(np.interp(positive_rate, rates, curve)) for name, curve in self.moved.items()}
        return {"auc": self["auc"], **at}


@dataclass(frozen=True, kw_only=True)
class Row:
    """Means over runs and their standard errors, which one run alone does not have, and what tells the row apart."""

    named: Mapping[str, object]
    mean: Mapping[str, float]
    standard_error: Mapping[str, float]

    @classmethod
    def of(cls, named: Mapping[str, object], runs: Iterable[Mapping[str, float]]) -> "Row":
        """The row of some runs, with the numbers that all of them have."""
        first, *others = runs
        shared = [name for name in first if all(name in other for other in others)]
        numbers = {name: np.array([first[name], *(other[name] for other in others)]) for name in shared}
        # An infinite budget has no spread.
        with np.errstate(invalid="ignore"):
            return cls(
                named=named,
                mean={name: float(values.mean()) for name, values in numbers.items()},
                standard_error={
                    name: float(values.std(ddof=1) / np.sqrt(len(values))) if others else np.nan
                    for name, values in numbers.items()
                },
            )

    def pair(self, name: str) -> tuple[float, float]:
        """A mean and its standard error."""
        return self.mean[name], self.standard_error[name]

    def text(self, name: str, *, digits: int = 3) -> str:
        """The same in words; a dash where the row has none."""
        return with_error(self.mean.get(name, np.nan), self.standard_error.get(name), digits=digits)

    def texts(self, titles: Mapping[str, str], *, digits: int = 3) -> dict[str, str]:
        """Several of them, by the titles of their names."""
        return {title: self.text(name, digits=digits) for name, title in titles.items()}

    def to_json(self) -> dict[str, object]:
        """Plain values."""
        return {**self.named, "mean": self.mean, "standard_error": self.standard_error}


def figures_of(fit: Fit, *, random_state: int, payment: Payment | None = None) -> Trained:
    """Figures of a training on the test records, and the gap that it aimed at on its training records."""
    parts = load(fit.population)
    settings = {"group_sizes": parts.group_sizes} | dict(fit.settings)
    model = FairDPClassifier(method=fit.method, random_state=random_state, **settings)
    model.table = table_of(fit.population) or model.table
    with paying(payment, fit.population, fit.method) as spending:
        model.fit_grouped(parts.train, feature_schema=parts.described(), spending=spending)
    measured = {name: value for name, value in measure(model, parts.test).items() if isinstance(value, float)}
    metric = f"{settings.get('parity', 'demographic_parity')}_difference"
    found = {**measured, "gap": measured[metric], **_spent(model), **_certified(model)}
    # Only studies of targets show it, and a smoothed model would run a hundred times for every training record.
    if fit.is_experiment and model.score_model_.smoothing is None:
        found["training_gap"] = float(measure(model, parts.train)[metric])
    if fit.shifts:
        found |= _shifted(model, parts.test, fit.shifts)
        found |= {f"paper_{name}": tau for name, tau in paper_taus(model, parts.train).items() if name in METRICS}
        found |= {f"heads_error_{name}": error for name, error in heads_error(model, parts.test).items()}
    moved = _moved(model, parts.test) if fit.is_control else {}
    return _rounded(Trained(numbers=found, moved=moved)) if fit.is_experiment else Trained(numbers=found, moved=moved)


def _rounded(found: Trained) -> Trained:
    """So many digits that a file of trainings stays small, and that one which was read is one which was done."""
    numbers = {name: value if name in PRIVACY else float(f"{value:.6g}") for name, value in found.numbers.items()}
    moved = {name: [float(f"{value:.5g}") for value in curve] for name, curve in found.moved.items()}
    return Trained(numbers=numbers, moved=moved)


def _spent(model: FairDPClassifier) -> dict[str, float]:
    """ε by the chosen accountant and by each of both, and the noise."""
    return {name: float(getattr(model.privacy_, name)) for name in PRIVACY}


def paper_taus(model: FairDPClassifier, train: GroupedData) -> dict[str, float]:
    """The paper's τ_emp on the training records, those held out included, with the noise of one head, Nσ₀."""
    return paper_bounds_of(model, train).at["one_head"].tau_emp


def _certified(model: FairDPClassifier) -> dict[str, float]:
    """Bounds of the certificate, if there is one; by the name of the metric, and of demographic parity once more."""
    if not isinstance(model.certificate_, Certificate):
        return {}
    gaps = model.certificate_.gaps
    found = {f"certified_{metric}": gap.tau for metric, gap in gaps.items()}
    parity = gaps.get("demographic_parity")
    if parity is not None:
        found["certified_gap"] = parity.tau
    # A certificate of several claims may make none about the ratio.
    if parity is not None and parity.ratio is not None:
        found["certified_ratio"] = parity.ratio
    return found


def _moved(model: FairDPClassifier, test: GroupedData) -> dict[str, list[float]]:
    """Gaps and accuracy with the threshold moved, for every control rate."""
    scores = np.asarray(model.scores(test.inputs), dtype=np.float64)
    shown = ("accuracy", "demographic_parity_ratio", *GAPS)
    curves: dict[str, list[float]] = {"positive_rate": list(CONTROL_RATES), **{name: [] for name in shown}}
    for rate in CONTROL_RATES:
        moved = at_positive_rate(test.y, scores, test.groups, test.group_names, positive_rate=rate)
        for name in shown:
            curves[name].append(float(str(moved[name])))
    return curves


def heads_error(model: FairDPClassifier, test: GroupedData) -> dict[str, float]:
    """Standard errors that the paper's Monte Carlo formula stands for, over the heads; none of a single head."""
    measured = paper_bounds_of(model, test).monte_carlo["measured"]
    return {name: measured[name] for name in METRICS} if len(model.score_model_.heads) > 1 else {}


def _shifted(model: FairDPClassifier, test: GroupedData, shifts: Sequence[float]) -> dict[str, float]:
    """The gap under shifts of each size, and its bound where there is one."""
    decisions = model.predictor_.decisions(model.score_model_, test.inputs, groups=test.groups)
    counts: Counts = decision_counts(test.y, decisions, test.groups, test.n_groups)
    found = {f"gap_at_shift_{shift:g}": gap_under_shift(counts, shift) for shift in shifts}
    found |= {f"gap_at_reversal_{shift:g}": gap_under_reversal(counts, shift) for shift in shifts}
    if isinstance(model.certificate_, Certificate):
        found |= {
            f"certified_at_shift_{shift:g}": model.certificate_.under_shift(shift)["demographic_parity"]
            for shift in shifts
        }
    return found


class Store:
    """A folder with a file for each data set, which has a line for each finished training."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: dict[Path, dict[str, Trained]] = {}

    def path(self, population: Population) -> Path:
        """Where the trainings on a data set are kept."""
        return self.folder / f"{population.dataset}.jsonl"

    def read(self, fit: Fit) -> Trained | None:
        """Figures of a training; None if they are not here, or of other records, or their line is damaged."""
        path = self.path(fit.population)
        if path not in self._known:
            self._known[path] = {_key(record): found for record, found in kept_in(path)}
        return self._known[path].get(_key(_record(fit)))

    def write(self, fit: Fit, found: Trained) -> None:
        """Keep the figures of a training at the end of its file; a line that was cut off before it stays alone."""
        self.folder.mkdir(parents=True, exist_ok=True)
        record, path = _record(fit), self.path(fit.population)
        moved = {"moved": found.moved} if found.moved else {}
        written = {**record, "seconds": found.seconds, "numbers": found.numbers, **moved}
        with path.open("ab+") as stream:
            if stream.tell():
                stream.seek(-1, 2)
                if stream.read(1) != b"\n":
                    stream.write(b"\n")
            # Numbers that are none, such as a ratio of zero rates, stay so, as Python writes them.
            stream.write((json.dumps(written, separators=(",", ":"), default=str) + "\n").encode())
        self._known.setdefault(path, {})[_key(record)] = found

    def spent_on(self, population: Population) -> list[float]:
        """Budgets of all kept trainings on these records, whichever command they were for."""
        records = digest_of(population)
        return [
            found["epsilon"]
            for path in sorted(self.folder.glob("*.jsonl"))
            for record, found in kept_in(path)
            if record["records"] == records and "epsilon" in found.numbers
        ]


def kept_in(path: Path) -> Iterator[tuple[dict[str, Any], Trained]]:
    """The trainings of a file, each with its record, without damaged lines."""
    for line in path.read_bytes().splitlines() if path.exists() else ():
        with suppress(ValueError, TypeError, KeyError, AttributeError):
            kept = json.loads(line)
            record = {"fit": dict(kept["fit"]), "records": kept["records"], "figures": kept["figures"]}
            numbers, moved = dict(kept["numbers"]), dict(kept.get("moved", {}))
            yield record, Trained(numbers=numbers, moved=moved, seconds=float(kept["seconds"]))


def _record(fit: Fit) -> dict[str, Any]:
    """A training, its records, and the number of `FIGURES`."""
    return {"fit": _described(fit), "records": digest_of(fit.population), "figures": FIGURES}


def _key(record: Mapping[str, Any]) -> str:
    return json.dumps([record["fit"], record["records"], record["figures"]], sort_keys=True, default=str)


def _described(fit: Fit) -> dict[str, Any]:
    """A training as plain values: what is not as usual, without the secret of the data holder."""
    population = {name: value for name, value in _unusual(fit.population).items() if name != "key"}
    return {**_unusual(fit), "population": population, "settings": dict(fit.settings)}


def _unusual(value: Fit | Population) -> dict[str, Any]:
    usual = {each.name: each.default for each in fields(value)}
    return {name: found for name, found in asdict(value).items() if found != usual[name]}


def key_of(fit: Fit) -> str:
    """Another one for other records, settings or figures."""
    return hashlib.sha256(_key(_record(fit)).encode()).hexdigest()[:24]


def random_state_of(fit: Fit) -> int:
    """The seed itself in a study of public data; else one that no other records, settings or figures have.

    Two models with the same noise, of other scales or of other records, would show what it hides. On a user's own table
    it follows from their secret.
    """
    key = fit.population.key
    if key is not None:
        return int.from_bytes(derived_key(key, f"noise of {key_of(fit)}"), "little")
    return fit.seed if fit.is_experiment else int(key_of(fit)[:16], 16)
