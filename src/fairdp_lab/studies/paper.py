"""The paper's tables and figures made again, its algorithms to the letter, and every method beside FairDP."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairdp.accounting.mechanisms import PrivacyBudget
from fairdp.accounting.plan import make_plan
from fairdp.config import TrainConfig
from fairdp.data.grouped import GroupedData
from fairdp.errors import with_error
from fairdp.methods import METHODS, dp_is_sgd, dpsgd, fairdp
from fairdp.metrics import evaluate_decisions
from fairdp.paper import monte_carlo_error, monte_carlo_error_printed
from fairdp.parameters import ASSUMED, STATED
from fairdp_lab.studies import protocol as printed
from fairdp_lab.studies.protocol import (
    COLUMNS,
    EPSILONS,
    N_SEEDS,
    OURS,
    PLAIN,
    QUICK_SETTINGS,
    SHIFTS,
    UTILITIES,
    Findings,
    Run,
    Runs,
    Setting,
    Variant,
    accounted,
    batched,
    budgets_of,
    control,
    datasets_of,
    matched,
    plain,
    relative_reduction,
    settings_of,
    summary,
    t_test,
    table,
    tables_of,
    tidy,
    train,
    variants_of,
)
from fairdp_lab.sweeps.fits import GAPS, METRICS, Fit, Population, Row, Trained, load

M_COLUMNS = {
    "auc": "AUC",
    "accuracy": "accuracy",
    "demographic_parity_difference": "parity gap",
    "equal_opportunity_difference": "EOpp gap",
    "false_positive_rate_difference": "FPR gap (“EOdd”)",
}
BOUNDS = (0.25, 0.5, 0.75, 1.0)
# The step sizes that the paper states, on faces: ours there are smaller.
STATED_STEPS = (("learning_rate", (0.007, 0.005)), ("sgd_learning_rate", 0.005))
# Up to the imbalance of the training records as they are.
RATIOS = {
    "adult": (1.0, 1.25, 1.5, 1.75, 2.0),
    "credit": (1.0, 1.25, 1.5),
    "utkface": (1.0, 1.25),
    "synthetic": (1.0, 1.5),
}
RATIO_BUDGETS = (0.5, 1.0, 2.0)
Numbers = Sequence[Trained] | Sequence[Mapping[str, float]]
OTHERS = {"dp_is_sgd": "DP-IS-SGD", "clean": "clean training"}
MATCHED = {"dpsgd": "DP-SGD at FairDP's positive rate", "dp_is_sgd": "DP-IS-SGD at FairDP's positive rate"}
TESTED = tuple(name for name in COLUMNS if name != "auc")
FITTED, UNFITTED = "M fitted", "M = 1"
Floats = NDArray[np.float64]
EPSILON = 1.0
BUDGET = PrivacyBudget(epsilon=1.0, delta=1e-5)
N_STEPS = 300
GROUPS = {
    "Adult, 2 groups": (10_771, 21_790),
    "Adult, 4 groups": (2_129, 8_642, 2_616, 19_174),
    "Default-CCC": (9_510, 14_490),
    "90 : 10": (27_000, 3_000),
    "50 : 30 : 15 : 5": (15_000, 9_000, 4_500, 1_500),
    "8 equal groups": (3_750,) * 8,
}
RATES = (0.02, 0.1, 0.3)
ALLOCATIONS = {
    "pooled": (dpsgd, "average"),
    "balanced, one draw": (fairdp, "average"),
    "balanced, a draw for every group": (fairdp, "per_group"),
    "sampled equally often": (dp_is_sgd, "average"),
}
DATASETS, N_METHOD_SEEDS = ("adult", "credit"), 5
QUICK_METHODS = ("dpsgd", "fairfm")
# The gap before the ratio.
METHOD_COLUMNS = {
    name: COLUMNS[name] for name in ("auc", "accuracy", "positive_rate", "demographic_parity_difference")
} | COLUMNS
HELD_OUT = 0.2
N_MEMBERS = 10
Pair = tuple[float, float]


def dataset_study(run: Run) -> Findings:
    """The paper's table of data sets."""
    rows, lines = [], []
    for dataset in datasets_of(run):
        parts, digits = load(Population(dataset=dataset)), printed.SIZES.get(dataset)
        sizes = parts.train.group_sizes + parts.test.group_sizes
        found = {
            "records": int(sizes.sum()),
            "features": " × ".join(str(n) for n in reversed(parts.train.X.shape[1:])),
            "positive": int(parts.train.y.sum() + parts.test.y.sum()),
        }
        groups = {name: int(n) for name, n in zip(parts.train.group_names, sizes, strict=True)}
        n_test = parts.test.n_samples
        rows.append({"dataset": dataset, **found, "groups": groups, "test": n_test, "printed": digits})
        named = ", ".join(f"{name} {n}" for name, n in groups.items())
        told = {"groups": named, "of these for testing": n_test}
        lines.append({"data": dataset, **beside_printed(found, digits), **told})
    return Findings({"rows": rows}, "In brackets what the paper prints.\n\n" + table(lines))


def beside_printed(found: Mapping[str, object], digits: Sequence[object] | None) -> dict[str, str]:
    """Found values, with those that the paper prints in brackets."""
    if digits is None:
        return {name: f"{value}" for name, value in found.items()}
    return {name: f"{value} ({its})" for (name, value), its in zip(found.items(), digits, strict=True)}


def bound_settings(run: Run) -> list[Setting]:
    """FairDP at ε = 1 with every M of the paper's table, in both readings of Adam; on faces the second for M = 1 only.

    On faces it is also trained with the step sizes that the paper states.
    """
    settings = []
    for dataset in datasets_of(run):
        variants = [Variant(bound=bound) for bound in BOUNDS]
        variants += [
            Variant(bound=bound, per_group=True) for bound in (BOUNDS if dataset != "utkface" else BOUNDS[-1:])
        ]
        settings += [
            Setting(dataset=dataset, method="fairdp", epsilon=1.0, changes=variant.changes) for variant in variants
        ]
        if dataset == "utkface":
            stated = (*PLAIN.changes, *STATED_STEPS)
            settings.append(Setting(dataset=dataset, method="fairdp", epsilon=1.0, changes=stated))
    return settings


def bound_study(run: Run) -> Findings:
    """The paper's table of M at ε = 1, beside its printed rows and DP-SGD at the same positive rate."""
    settings = bound_settings(run)
    runs = train([*settings, *dict.fromkeys(setting.beside("dpsgd") for setting in settings)], run)
    found = summary({setting: runs[setting] for setting in settings})
    beside = [control(setting, runs) for setting in settings]
    lines = [_bound_line(*each) for each in zip(settings, found, beside, strict=True)]
    rows = [{**row.to_json(), "printed": _printed(setting)} for setting, row in zip(settings, found, strict=True)]
    text = (
        f"FairDP at ε = 1; mean ± standard error over seeds, in brackets what the paper prints. {accounted(found)}The "
        "paper's column “EOdd” is below its EOpp, which the larger of two gaps cannot be; we compare the gap of false "
        f"positive rates.\n\n{table(lines)}"
    )
    return Findings({"rows": rows, "controls": plain(beside)}, text, runs=tidy(runs, run))


def _printed(setting: Setting) -> tuple[float, ...] | None:
    return printed.IMPACT_OF_M.get((setting.dataset, float(str(dict(setting.changes)["weight_bound"]))))


def _bound_line(setting: Setting, row: Row, beside: Row) -> dict[str, object]:
    changes, digits = dict(setting.changes), _printed(setting)
    adam = "per group" if changes["group_optimizers"] else "one"
    stated = ", η = .007, .005" if "learning_rate" in changes else ""
    gap, accuracy = (beside.mean[name] for name in ("demographic_parity_difference", "accuracy"))
    return {
        "data": setting.dataset,
        "M": f"{changes['weight_bound']:g}",
        "Adam": adam + stated,
        **beside_printed(row.texts(M_COLUMNS), digits and [f"{value:g}" for value in digits]),
        "positive rate": f"{row.mean['positive_rate']:.3f}",
        "DP-SGD at this rate: gap (accuracy)": f"{gap:.3f} ({accuracy:.3f})",
    }


def imbalance_settings(run: Run) -> list[Setting]:
    """FairDP where the largest group is cut to ρ times the smallest, at three budgets."""
    return [
        Setting(dataset=dataset, method="fairdp", epsilon=epsilon, changes=PLAIN.changes, ratio=ratio)
        for dataset in datasets_of(run)
        for ratio in RATIOS[dataset]
        for epsilon in (RATIO_BUDGETS[::2] if run.quick else RATIO_BUDGETS)
    ]


def imbalance_study(run: Run) -> Findings:
    """The largest group cut to ρ times the smallest: utility, gaps, and the paper's certificate."""
    from fairdp_lab.drawing import imbalance_figure

    runs = train(imbalance_settings(run), run)
    rows = summary(runs)
    taus = {f"paper_{metric}": f"τ_emp {metric.replace('_', ' ')}" for metric in METRICS}
    shown = {name: title for name, title in COLUMNS.items() if name != "demographic_parity_ratio"} | taus
    lines = [
        {"data": row.named["dataset"], "ρ": f"{row.named['ratio']:g}", "ε": f"{row.named['epsilon']:g}"}
        | row.texts(shown)
        for row in rows
    ]
    text = (
        f"FairDP, {PLAIN.words}; mean ± standard error over seeds. {accounted(rows)}Last the paper's τ_emp on the "
        f"training records that were kept, which is no bound for the model.\n\n{table(lines)}"
    )
    drawings = {
        f"-{utility}": imbalance_figure(plain(rows), utility=utility, words=PLAIN.words) for utility in UTILITIES
    }
    return Findings({"rows": plain(rows)}, text, runs=tidy(runs, run), drawings=drawings)


def fitted_variant(dataset: str, runs: Runs, run: Run) -> Variant:
    """The reading of FairDP that is closest to the numbers that the paper's text has of a data set.

    These are parity gaps at two budgets, or a gain over DP-IS-SGD averaged over the gaps; without any, the plain one.
    """

    def distance(variant: Variant) -> float:
        at = [Setting(dataset=dataset, method="fairdp", epsilon=e, changes=variant.changes) for e in EPSILONS]
        gaps = printed.GAPS_IN_TEXT.get(dataset, {})
        found = [abs(mean_of(runs[it], GAPS[0]) - gaps[it.epsilon]) for it in at if it.epsilon in gaps]
        if dataset in printed.GAINS_IN_TEXT:
            gain = Gain.of(at[0], runs[at[0]], runs[at[0].beside("dp_is_sgd")])
            found.append(abs(gain.mean_gain - printed.GAINS_IN_TEXT[dataset]))
        return sum(found)

    return min(variants_of(run, dataset), key=distance)


def mean_of(found: Numbers, name: str) -> float:
    """Mean of a number over runs."""
    return float(np.mean([it[name] for it in found]))


def shown_settings(runs: Runs, run: Run) -> dict[Setting, str]:
    """FairDP as figures and tables show it: at M = 1 with one Adam, and in the reading that fits the paper."""
    return {
        setting: words
        for dataset in datasets_of(run)
        for words, variant in ((UNFITTED, PLAIN), (FITTED, fitted_variant(dataset, runs, run)))
        for setting in runs
        if (setting.dataset, setting.method, setting.changes) == (dataset, "fairdp", variant.changes)
    }


def titles_of(runs: Runs, run: Run) -> dict[str, str]:
    """Which reading fits each data set, for figures."""
    return {dataset: f"M fitted: {fitted_variant(dataset, runs, run).words}" for dataset in datasets_of(run)}


def tradeoff_study(run: Run) -> Findings:
    """Utility against the three gaps, for every method and budget, with the control at the same positive rate."""
    from fairdp_lab.drawing import tradeoff_figure

    runs = train(settings_of(run), run)
    shown = shown_settings(runs, run)
    rows = dict(zip(runs, summary(runs), strict=True))
    drawn = [{**row.to_json(), "variant": shown.get(it)} for it, row in rows.items() if it in _visible(runs, shown)]
    beside = {setting: control(setting, runs) for setting in shown}
    hollow = [{**row.to_json(), "variant": FITTED} for it, row in beside.items() if shown[it] == FITTED]
    lines = [_line(it, row) for it, row in rows.items() if it in _visible(runs, shown)]
    lines += [_line(it, row) for it, row in beside.items()]
    text = (
        f"{accounted(rows.values())}All training records, the defaults of each method; mean ± standard error over "
        "seeds. FairDP at M = 1 with one Adam, and in the reading that is closest to the paper's numbers; all others "
        "are below. `dpsgd` at `fairdp`: the same DP-SGD models with the threshold moved to FairDP's positive rate, "
        f"seed by seed.\n\n{table(lines)}\n**FairDP by M and by optimiser**: parity gap (positive rate).\n\n"
        + table(_by_variant(runs, run))
    )
    titles = titles_of(runs, run)
    drawings = {
        f"-{utility}": tradeoff_figure(drawn, utility=utility, controls=hollow, titles=titles) for utility in UTILITIES
    }
    controls = [control(it, runs) for it in runs if it.method in ("fairdp", OURS)]
    figures = {"fitted": titles, "rows": plain(rows.values()), "controls": plain(controls)}
    return Findings(figures, text, runs=tidy(runs, run), drawings=drawings)


def _visible(runs: Runs, shown: Mapping[Setting, str]) -> set[Setting]:
    return {setting for setting in runs if setting.method != "fairdp" or setting in shown}


def _line(setting: Setting, row: Row) -> dict[str, object]:
    method = str(row.named["method"])
    at = f" at `{row.named['at']}`" if "at" in row.named else ""
    named = {"data": setting.dataset, "method": f"`{method}`{at}{'' if METHODS[method].private else ' (not private)'}"}
    return {**named, "M, Adam": reading(setting), "ε": _budget(setting.epsilon), **row.texts(COLUMNS)}


def reading(setting: Setting) -> str:
    """M and optimiser of FairDP, as tables name them; of other methods a dash."""
    if setting.method != "fairdp":
        return "–"
    changes = dict(setting.changes)
    return Variant(bound=float(str(changes["weight_bound"])), per_group=bool(changes["group_optimizers"])).words


def _by_variant(runs: Runs, run: Run) -> list[dict[str, str]]:
    lines = []
    for dataset in datasets_of(run):
        for variant in variants_of(run, dataset):
            its = [it for it in runs if (it.dataset, it.method, it.changes) == (dataset, "fairdp", variant.changes)]
            cells = {
                f"ε = {it.epsilon:g}": f"{mean_of(runs[it], GAPS[0]):.3f} ({mean_of(runs[it], 'positive_rate'):.3f})"
                for it in its
            }
            lines.append({"data": dataset, "M, Adam": variant.words, **cells})
    return lines


def _tested(difference: float, p_value: float) -> str:
    """A dash where a run has no such number, as the ratio of rates that are zero."""
    return "–" if math.isnan(difference) else f"{difference:+.3f} (p = {p_value:.2g})"


def _budget(epsilon: object) -> str:
    return "∞" if epsilon is None else f"{epsilon:g}"


@dataclass(frozen=True, kw_only=True)
class Gain:
    """Relative reductions of gaps and utilities against another method, with standard errors, at a setting of ours."""

    dataset: str
    epsilon: float | None
    variant: str
    n_runs: int
    positive_rates: tuple[float, float]
    gains: Mapping[str, tuple[float, float]]
    drops: Mapping[str, tuple[float, float]]

    @classmethod
    def of(cls, setting: Setting, ours: Numbers, others: Numbers, *, paired: bool = False) -> "Gain":
        """Compare runs of two methods."""
        less = {
            name: relative_reduction([r[name] for r in ours], [r[name] for r in others], paired=paired)
            for name in (*GAPS, *UTILITIES)
        }
        return cls(
            dataset=setting.dataset,
            epsilon=setting.epsilon,
            variant=reading(setting),
            n_runs=len(ours),
            positive_rates=(mean_of(ours, "positive_rate"), mean_of(others, "positive_rate")),
            gains={name: less[name] for name in GAPS},
            drops={name: less[name] for name in UTILITIES},
        )

    @property
    def mean_gain(self) -> float:
        """Over the three gaps."""
        return float(np.mean([mean for mean, _ in self.gains.values()]))

    @property
    def mean_drop(self) -> float:
        """Over both utilities."""
        return float(np.mean([mean for mean, _ in self.drops.values()]))

    def line(self) -> dict[str, str]:
        """Its line of a table."""
        less = {**self.gains, **self.drops}
        rates = " / ".join(f"{rate:.3f}" for rate in self.positive_rates)
        titles = {f"less {COLUMNS[name]}, %": pair for name, pair in less.items()}
        named = {"data": self.dataset, "M, Adam": self.variant, "ε": _budget(self.epsilon), "positive rates": rates}
        return named | {title: f"{100 * mean:.1f} ± {100 * error:.1f}" for title, (mean, error) in titles.items()}


def gains_over(runs: Runs, *, method: str, at_same_rate: bool = False) -> dict[Setting, Gain]:
    """FairDP's gains over another method, as it is or moved to FairDP's positive rate run by run."""
    return {
        setting: Gain.of(setting, runs[setting], matched(setting, runs, method=method), paired=True)
        if at_same_rate
        else Gain.of(setting, runs[setting], runs[setting.beside(method)])
        for setting in runs
        if setting.method == "fairdp"
    }


def gain_study(run: Run) -> Findings:
    """Relative reductions of gaps by FairDP against other methods, and what utility that costs."""
    from fairdp_lab.drawing import gain_figure

    runs = train(settings_of(run, ("clean", "dpsgd", "dp_is_sgd", "fairdp")), run)
    shown, titles = shown_settings(runs, run), titles_of(runs, run)
    gains = {(method, title): gains_over(runs, method=method) for method, title in OTHERS.items()}
    gains |= {
        (f"{method}_at_same_rate", title): gains_over(runs, method=method, at_same_rate=True)
        for method, title in MATCHED.items()
    }
    tables = "\n".join(
        f"**Against {title}**\n\n{table([gain.line() for setting, gain in found.items() if setting in shown])}"
        for (_, title), found in gains.items()
    )
    figures = {key: [asdict(gain) for gain in found.values()] for (key, _), found in gains.items()}
    drawings = {
        f"-{key.replace('_', '-')}": gain_figure(
            [asdict(gain) for setting, gain in found.items() if shown.get(setting) == FITTED],
            against=title,
            titles=titles,
        )
        for (key, title), found in gains.items()
        if key != "dp_is_sgd_at_same_rate"
    }
    note = (
        "Reduction of the gap and of the utility, in percent of the other method's: 1 − FairDP / other, of means over "
        "seeds, ± standard error over seeds (delta method), on one set of test records; FairDP at M = 1 with one Adam, "
        "and in the reading that is closest to the paper's numbers, which the figures show. Beyond the paper, the last "
        "tables compare with methods moved to FairDP's own positive rate, run by run; their errors are of pairs.\n\n"
    )
    return Findings({"fitted": titles, "gains": figures}, note + tables, drawings=drawings)


def t_test_study(run: Run) -> Findings:
    """Two-tailed t-tests between methods, over seeds."""
    runs = train(settings_of(run, ("clean", "dpsgd", "dpsgd_f", "dp_is_sgd", "fairdp")), run)
    shown = shown_settings(runs, run)
    asked = [("fairdp", "clean", False), ("fairdp", "dp_is_sgd", False), ("dpsgd_f", "clean", False)]
    rows, lines = [], []
    for method, other, moved in [*asked, ("fairdp", "dpsgd", True)]:
        for compared in [it for it in runs if it.method == method and (it in shown or method != "fairdp")]:
            beside: Numbers = matched(compared, runs, method=other) if moved else runs[compared.beside(other)]
            tests = {
                name: t_test([r[name] for r in runs[compared]], [r[name] for r in beside], paired=moved)
                for name in TESTED
            }
            against = f"{other} at its positive rate" if moved else other
            rows.append({**compared.named(), "against": against, **tests})
            lines.append(
                {"data": compared.dataset, "M, Adam": reading(compared), "ε": _budget(compared.epsilon)}
                | {"difference": f"`{method}` − {against}"}
                | {COLUMNS[name]: _tested(**test) for name, test in tests.items()}
            )
    note = (
        "Difference of means over seeds and p-value of a two-tailed t-test: Welch's, and for DP-SGD at FairDP's "
        f"positive rate, which goes run by run, the paired one. These are {len(TESTED) * len(rows)} tests: of as many "
        "without any difference one in twenty would show p < .05. All runs are measured on the same test records: what "
        "is tested is whether trainings differ, not whether the population's gaps do.\n\n"
    )
    return Findings({"tests": rows}, note + table(lines))


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


class Adam:
    """Adam's state for a vector of parameters, as it was published."""

    def __init__(self) -> None:
        self.first: Floats | float = 0.0
        self.second: Floats | float = 0.0
        self.n_steps = 0

    def step(self, gradient: Floats, rate: float) -> Floats:
        """Step to take from the parameters."""
        self.n_steps += 1
        self.first = 0.9 * self.first + 0.1 * gradient
        self.second = 0.999 * self.second + 0.001 * gradient**2
        mean, square = self.first / (1 - 0.9**self.n_steps), self.second / (1 - 0.999**self.n_steps)
        return np.asarray(rate * mean / (np.sqrt(square) + 1e-8))


class Network:
    """One hidden layer of ReLU and a head, both with a bias in their last column, in one vector of parameters."""

    def __init__(self, *, n_inputs: int, hidden: int, rng: np.random.Generator) -> None:
        self.hidden = hidden
        layers = [(hidden * (n_inputs + 1), n_inputs), (hidden + 1, hidden)]
        self.params: Floats = np.concatenate([rng.uniform(-1, 1, size) / np.sqrt(fan_in) for size, fan_in in layers])

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


def noise_study(run: Run) -> Findings:
    """Standard deviation of the noise on the gradient, over the clip norm, at one budget."""
    rows, lines = [], []
    for sample_rate, (name, sizes) in product(RATES[1:2] if run.quick else RATES, GROUPS.items()):
        noise = noise_of(sizes, sample_rate)
        rows.append({"groups": name, "sample_rate": sample_rate, "sizes": list(sizes), **noise})
        shown = {allocation: f"{std:.5f}" for allocation, std in noise.items()}
        lines.append({"groups": name, "q": f"{sample_rate:g}", **shown})
    text = (
        f"ε = {BUDGET.epsilon:g}, δ = {BUDGET.delta:g}, {N_STEPS} steps. Pooled: every record weighs alike (`dpsgd`). "
        "Balanced: every group weighs alike (`fairdp`), with either `noise_allocation`. "
        f"Sampled equally often: a rate for every group (`dp_is_sgd`).\n\n{table(lines)}"
    )
    return Findings({"epsilon": BUDGET.epsilon, "n_steps": N_STEPS, "rows": rows}, text)


def noise_of(sizes: tuple[int, ...], sample_rate: float) -> dict[str, float]:
    """The standard deviation by allocation."""
    found = {}
    for name, (recipe, allocation) in ALLOCATIONS.items():
        config = TrainConfig(
            sample_rate=sample_rate, n_steps=N_STEPS, clip_norm=1.0, learning_rates=(1.0,), noise_allocation=allocation
        )
        plan = make_plan(recipe(config, tuple(float(size) for size in sizes)), BUDGET, n_steps=N_STEPS)
        found[name] = plan.noise_std
    return found


def methods_study(run: Run) -> Findings:
    """Mean and standard error over seeds of what each method reaches, as `fairdp fit` trains it."""
    datasets, methods, n_seeds = (
        (("synthetic",), QUICK_METHODS, 2) if run.quick else (DATASETS, METHODS, N_METHOD_SEEDS)
    )
    settings = (("epsilon", EPSILON), ("certify_metrics", ("demographic_parity",)))
    cases = [(dataset, method) for dataset in datasets for method in methods]
    fits = [
        Fit(population=Population(dataset=dataset), method=method, seed=run.seed + s, settings=settings)
        for dataset, method in cases
        for s in range(n_seeds)
    ]
    rows, lines = [], []
    for (dataset, method), runs in zip(cases, batched(run.trained(fits), n_seeds), strict=True):
        spent = max(fitted["epsilon"] for fitted in runs)
        named = {"dataset": dataset, "method": method, "epsilon_spent": spent}
        rows.append(row := Row.of(named, [_shown(fitted) for fitted in runs]))
        private = "" if METHODS[method].private else " (not private)"
        certified = f"{row.mean['certified_parity_gap']:.3f}"
        lines.append(
            {"data": dataset, "method": f"`{method}`{private}", **row.texts(METHOD_COLUMNS), "certified gap": certified}
        )
    text = (
        f"ε = {EPSILON:g}, δ = 1e-5, the defaults of each method, a fifth of the training records held out for "
        f"the certificate; mean ± standard error over {n_seeds} seeds, on the test records. A small gap beside a small "
        f"positive rate is no fairness.\n\n{table(lines)}"
    )
    return Findings({"epsilon": EPSILON, "n_seeds": n_seeds, "methods": plain(rows)}, text)


def _shown(found: Trained) -> dict[str, float]:
    return {name: found[name] for name in METHOD_COLUMNS} | {"certified_parity_gap": found["certified_gap"]}


def tightness_study(run: Run) -> Findings:
    """Observed gaps with and without a shift, the paper's τ_emp and our certified τ, over budgets."""
    from fairdp_lab.drawing import shift_figure

    runs = train([*settings_of(run, ("clean", "dp_is_sgd", "fairdp")), *certified_settings(run)], run)
    shown = [*shown_settings(runs, run)]
    rows = [tightness(setting, metric, runs) for setting in shown for metric in METRICS]
    drawn = [
        tightness(setting, metric, runs)
        for setting in runs
        for metric in METRICS
        if (setting.method, setting.changes) == ("fairdp", PLAIN.changes)
    ]
    text = (
        f"FairDP on all training records, in the reading that fits the paper and at {PLAIN.words}; mean ± standard "
        "error over seeds. γ: the largest gap when so much mass moves from one cell of group and label, which must "
        "have it, to another (not the worst shift of that size, which may use several cells); for equal opportunity "
        "and equalized odds nothing moves. Reversed: the shift of An et al. (2022), whom the paper cites, by their "
        "public code: the tie between group and label is loosened, then reversed, while groups and labels stay as "
        "frequent as they were. The paper's τ_emp speaks of an average over the noise of the last step and "
        "of the training records. The certified τ (confidence .95) is of other models, trained at M = 1 with one Adam "
        "and a fifth of the records held out; it speaks of each of these and of its population. Last columns: runs "
        "whose gap on the test records, which has an error of its own, is above the bound at γ = 0.\n\n"
        + table([_tightness_line(row) for row in rows])
    )
    figures = {"rows": rows, "shifts": SHIFTS}
    return Findings(figures, text, runs=tidy(runs, run), drawings={"": shift_figure(drawn, words=PLAIN.words)})


def certified_settings(run: Run) -> list[Setting]:
    """FairDP with records held out for our certificate."""
    changes = (*PLAIN.changes, ("certify_fraction", HELD_OUT))
    return [
        Setting(dataset=dataset, method="fairdp", epsilon=epsilon, changes=changes)
        for dataset in datasets_of(run)
        for epsilon in budgets_of(run, "fairdp")
    ]


def tightness(setting: Setting, metric: str, runs: Runs) -> dict[str, Any]:
    """A gap that was observed, by the size of a shift, and what is claimed of it, each with its standard error.

    Beside the runs of the setting stand those of clean training and those with records held out.
    """
    gap, moves = f"{metric}_difference", metric == "demographic_parity"
    found, others = runs[setting], runs[setting.beside("clean")]
    held_out = runs[replace(setting, changes=(*PLAIN.changes, ("certify_fraction", HELD_OUT)))]
    row, beside, ours = (Row.of({}, [fitted.numbers for fitted in its]) for its in (found, others, held_out))
    return {
        "dataset": setting.dataset,
        "metric": metric,
        "epsilon": setting.epsilon,
        "variant": reading(setting),
        "n_runs": len(found),
        "clean": beside.pair(gap),
        # What is conditioned on the label does not change with the shares of labels.
        "observed": {f"{s:g}": row.pair(f"gap_at_shift_{s:g}") for s in SHIFTS} if moves else {"0": row.pair(gap)},
        "reversal": {f"{s:g}": row.pair(f"gap_at_reversal_{s:g}") for s in SHIFTS[1:] if moves},
        "paper_tau": row.pair(f"paper_{metric}"),
        "certified_tau": ours.pair(f"certified_{metric}"),
        "certified_tau_shifted": {f"{s:g}": ours.pair(f"certified_at_shift_{s:g}") for s in SHIFTS[1:] if moves},
        "paper_tau_too_small": sum(fitted[f"paper_{metric}"] < fitted[gap] for fitted in found),
        "certified_tau_too_small": sum(fitted[f"certified_{metric}"] < fitted[gap] for fitted in held_out),
    }


def _tightness_line(row: Mapping[str, Any]) -> dict[str, object]:
    observed, reversal = row["observed"], row["reversal"]
    shown = {f"test gap, γ = {s:g}": observed.get(f"{s:g}", observed["0"]) for s in SHIFTS}
    shown |= {f"reversed, γ = {s:g}": reversal.get(f"{s:g}", observed["0"]) for s in SHIFTS[1:]}
    shown |= {"paper's τ_emp": row["paper_tau"], "certified τ (M = 1)": row["certified_tau"], "clean": row["clean"]}
    return {
        "data": row["dataset"],
        "M, Adam": row["variant"],
        "metric": row["metric"].replace("_", " "),
        "ε": f"{row['epsilon']:g}",
        **{title: with_error(*pair) for title, pair in shown.items()},
        "τ_emp below the gap": f"{row['paper_tau_too_small']} of {row['n_runs']}",
        "certified τ below the gap": f"{row['certified_tau_too_small']} of {row['n_runs']}",
    }


def mc_error_study(run: Run) -> Findings:
    """The paper's table of Monte Carlo errors, from the sizes of the test cells, beside how much ten heads differ."""
    settings = {
        name: Setting(dataset=name, method="fairdp", epsilon=1.0, changes=PLAIN.changes) for name in datasets_of(run)
    }
    runs, rows, lines = train(settings.values(), run), [], []
    for dataset in datasets_of(run):
        errors, digits = printed_errors(load(Population(dataset=dataset)).test), printed.ERRORS.get(dataset)
        measured = {name: [found[f"heads_error_{name}"] for found in runs[settings[dataset]]] for name in METRICS}
        rows.append({"dataset": dataset, "errors": [*errors.values()], "printed": digits, "measured": measured})
        shown = {name: f"{error:.3e}" for name, error in errors.items()}
        between = {f"measured, {name.replace('_', ' ')}": _range(found) for name, found in measured.items()}
        lines.append({"data": dataset, **beside_printed(shown, digits), **between})
    text = (
        f"N = {N_MEMBERS} heads, the cells of the test records, errors summed over the cells of a metric; in brackets "
        "the paper's digits, which are cut off, not rounded, in some places. All people share the same heads, so "
        "averaging over people does not make the error smaller: that of one rate can be up to "
        f"{monte_carlo_error(n_members=N_MEMBERS):.3f}. Measured: the standard error of each rate over the heads of a "
        f"training of fairdp (ε = 1, {PLAIN.words}), summed in the same way, over seeds. It is small because the heads "
        "hardly differ, not because many people are averaged.\n\n" + table(lines)
    )
    return Findings({"n_members": N_MEMBERS, "rows": rows}, text)


def printed_errors(test: GroupedData) -> dict[str, float]:
    """The error of every metric by the paper's formula."""
    return {name: monte_carlo_error_printed(counts, n_members=N_MEMBERS) for name, counts in _cells(test).items()}


def _range(errors: Sequence[float]) -> str:
    ends = dict.fromkeys(f"{end:.1e}" if end else "0" for end in (min(errors), max(errors))) if errors else {}
    return " to ".join(ends) or "–"


def _cells(test: GroupedData) -> dict[str, list[int]]:
    """Sizes of the cells that each metric is made of."""
    negative, positive = np.bincount(2 * test.groups + test.y, minlength=2 * test.n_groups).reshape(-1, 2).T.tolist()
    return {
        "demographic parity": test.group_sizes.tolist(),
        "equal opportunity": positive,
        "equalized odds": [*positive, *negative],
    }
