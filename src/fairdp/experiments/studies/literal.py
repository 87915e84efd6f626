"""Algorithms 1 and 2 of the paper to the letter. **Not private**: it divides by realised batch sizes.

Written down a second time, with numpy alone and outside everything that releases values: nothing here may be used to
train on anybody's records. It shows what the corrections of `fairdp.methods.fairdp` change in the figures.
"""

from dataclasses import dataclass, field
from itertools import product

import numpy as np
from numpy.typing import NDArray

from fairdp.config.paper import ASSUMED, STATED
from fairdp.data.grouped import GroupedData
from fairdp.experiments.studies.protocol import (
    COLUMNS,
    N_SEEDS,
    QUICK_SETTINGS,
    Setting,
    Variant,
    accounted,
    summary,
    tables_of,
    train,
)
from fairdp.experiments.studies.results import Findings, Run, plain, table
from fairdp.experiments.sweeps.fits import Row
from fairdp.experiments.sweeps.populations import Population, load
from fairdp.metrics.scored_records import evaluate_decisions

Floats = NDArray[np.float64]

EPSILON = 1.0


@dataclass(frozen=True, kw_only=True)
class Literal:
    """A training by the letter: its noise is given, as no ε follows from it."""

    dataset: str
    noise_multiplier: float
    per_group: bool
    sample_rate: float
    n_steps: int
    weight_bound: float = 1.0
    clip_norm: float = float(ASSUMED["clip_norm"])
    hidden: int = int(ASSUMED["hidden"][0])
    n_members: int = int(STATED["n_members"])
    learning_rates: tuple[float, float] = STATED["learning_rate"]


@dataclass
class Adam:
    """Adam's state for a vector of parameters, as it was published."""

    first: Floats | float = 0.0
    second: Floats | float = 0.0
    n_steps: int = 0

    def step(self, gradient: Floats, rate: float) -> Floats:
        """What is taken from the parameters."""
        self.n_steps += 1
        self.first = 0.9 * self.first + 0.1 * gradient
        self.second = 0.999 * self.second + 0.001 * gradient**2
        mean, square = self.first / (1 - 0.9**self.n_steps), self.second / (1 - 0.999**self.n_steps)
        return np.asarray(rate * mean / (np.sqrt(square) + 1e-8))


@dataclass
class Network:
    """One hidden layer of ReLU and a head, both with a bias in their last column, in one vector of parameters."""

    n_inputs: int
    hidden: int
    rng: np.random.Generator
    params: Floats = field(init=False)

    def __post_init__(self) -> None:
        layers = [(self.hidden * (self.n_inputs + 1), self.n_inputs), (self.hidden + 1, self.hidden)]
        self.params = np.concatenate([self.rng.uniform(-1, 1, size) / np.sqrt(fan_in) for size, fan_in in layers])

    @property
    def head(self) -> Floats:
        """(w, b), a view of the parameters."""
        return self.params[-(self.hidden + 1) :]

    def embedded(self, X: Floats) -> Floats:
        """ξ with a constant 1; ``X`` has one too."""
        layer = self.params[: -(self.hidden + 1)].reshape(self.hidden, -1)
        return np.hstack([np.maximum(X @ layer.T, 0.0), np.ones((len(X), 1))])

    def clipped_gradients(self, X: Floats, y: Floats, clip_norm: float) -> tuple[Floats, Floats]:
        """Of every record, clipped as a whole: the sum for the hidden layer, and a row each for the head."""
        rows = self.embedded(X)
        delta = 1 / (1 + np.exp(-(rows @ self.head))) - y
        below = delta[:, None] * self.head[:-1] * (rows[:, :-1] > 0)
        norms = np.sqrt(delta**2 * (rows**2).sum(1) + (below**2).sum(1) * (X**2).sum(1))
        factors = np.minimum(1.0, clip_norm / np.maximum(norms, 1e-300))
        return ((factors[:, None] * below).T @ X).ravel(), (factors * delta)[:, None] * rows


def train_literally(task: Literal, data: GroupedData, rng: np.random.Generator) -> tuple[Network, Floats]:
    """The network and its N heads after T steps."""
    X, y = _with_one(data.inputs), data.y.astype(np.float64)
    groups = [np.flatnonzero(data.groups == group) for group in range(data.n_groups)]
    network = Network(n_inputs=X.shape[1] - 1, hidden=task.hidden, rng=rng)
    optimizers = [Adam() for _ in range(data.n_groups if task.per_group else 1)]
    noise = task.noise_multiplier * task.clip_norm
    for step in range(task.n_steps):
        rate = task.learning_rates[2 * step // task.n_steps]
        network.head[:] *= min(1.0, task.weight_bound / float(np.linalg.norm(network.head)))  # Line 4: before.
        batches = [rows[rng.random(len(rows)) < task.sample_rate] for rows in groups]  # Line 7.
        found = [network.clipped_gradients(X[batch], y[batch], task.clip_norm) for batch in batches]
        if step == task.n_steps - 1:
            return network, _last_step(network, found, noise, rate, task.n_members, rng)
        # Lines 11 and 12: noise for every group, over the size that its batch happens to have.
        noisy = [
            (np.concatenate([layer, head.sum(0)]) + noise * rng.standard_normal(network.params.size)) / len(head)
            for layer, head in found
        ]
        gradients = noisy if task.per_group else [np.mean(noisy, axis=0)]
        moves = [optimizer.step(gradient, rate) for optimizer, gradient in zip(optimizers, gradients, strict=True)]
        network.params -= np.mean(moves, axis=0)  # Line 13.
    raise AssertionError("a run has a step")


def _last_step(
    network: Network,
    found: list[tuple[Floats, Floats]],
    noise: float,
    rate: float,
    n_members: int,
    rng: np.random.Generator,
) -> Floats:
    """Algorithm 2: the hidden layer once, and N heads from equal parts of each batch, as they lie."""
    before = network.head.copy()
    layers = [(layer + noise * rng.standard_normal(layer.size)) / len(head) for layer, head in found]
    network.params[: -len(before)] -= rate * np.mean(layers, axis=0)
    heads = np.empty((n_members, len(before)))
    parts = [np.array_split(head, n_members) for _, head in found]
    for member in range(n_members):
        sums = [part[member].sum(0) + noise * rng.standard_normal(len(before)) for part in parts]
        sizes = [max(1, len(part[member])) for part in parts]
        heads[member] = before - rate * np.mean([total / n for total, n in zip(sums, sizes, strict=True)], axis=0)
    return heads


def reached(task: Literal, rng: np.random.Generator) -> dict[str, float]:
    """Its figures on the test records."""
    parts = load(Population(dataset=task.dataset))
    network, heads = train_literally(task, parts.train, rng)
    scores = (network.embedded(_with_one(parts.test.inputs)) @ heads.T).mean(1)
    decisions = (scores >= 0).astype(np.int64)
    test = parts.test
    found = evaluate_decisions(test.y, scores, test.groups, test.group_names, decisions=decisions)
    return {name: value for name, value in found.items() if isinstance(value, float)}


def _with_one(X: NDArray[np.float32]) -> Floats:
    return np.hstack([X.astype(np.float64), np.ones((len(X), 1))])


def literal_study(run: Run) -> Findings:
    """The algorithm as printed beside ours, at the same noise."""
    settings = [
        Setting(dataset=dataset, method="fairdp", epsilon=EPSILON, changes=Variant(per_group=own).changes)
        for dataset, own in product(tables_of(run), (False, True))
    ]
    runs = train(settings, run)
    rows, lines = [], []
    for setting, ours in zip(settings, summary(runs), strict=True):
        task = Literal(
            dataset=setting.dataset,
            noise_multiplier=ours.mean["noise_multiplier"],
            per_group=bool(dict(setting.changes)["group_optimizers"]),
            sample_rate=float(str((QUICK_SETTINGS if run.quick else ASSUMED)["sample_rate"])),
            n_steps=int(str((QUICK_SETTINGS if run.quick else ASSUMED)["n_steps"])),
        )
        n_seeds = 2 if run.quick else N_SEEDS[setting.dataset]
        what = f"by the letter, {setting.dataset}, {'own' if task.per_group else 'one'} Adam"
        found = run.done(reached, [task] * n_seeds, what=what)
        literal = Row.of({**setting.named(), "literal": True, "n_runs": n_seeds}, found)
        for row, words in ((ours, "`fairdp`"), (literal, "by the letter, **not private**")):
            rows.append(row)
            named = {"data": setting.dataset, "Adam": "per group" if task.per_group else "one", "algorithm": words}
            lines.append(named | row.texts(COLUMNS))
    text = (
        f"M = 1, the noise of ε = {EPSILON:g}; mean ± standard error over seeds. {accounted(summary(runs))}By the "
        "letter: the head is clipped before the step and not after the last one, noisy sums are divided by the "
        "realised size of the batch, and a batch is cut into equal parts as it lies. **That is not private**, and no ε "
        f"belongs to these rows.\n\n{table(lines)}"
    )
    return Findings({"rows": plain(rows)}, text)
