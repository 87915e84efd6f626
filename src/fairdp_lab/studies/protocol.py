"""Studies by name, and what they share: the paper's protocol and printed figures, runs, statistics and files.

The code of a study is loaded only when it runs.
"""

import csv
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fairdp._io import json_bytes, write_file
from fairdp.certify.bounds import NoisyBinomial
from fairdp.methods import METHODS
from fairdp.parameters import CERTIFIABLE, DECLARED, WITH_RATIO
from fairdp.randomness import RandBelow
from fairdp_lab.sweeps.compare import train_all
from fairdp_lab.sweeps.fits import GAPS, METRICS, Fit, Population, Row, Store, Trained
from fairdp_lab.sweeps.workers import Result, Task, Workers, run_tasks

if TYPE_CHECKING:
    from matplotlib.figure import Figure
Value = TypeVar("Value")
# Records, features and positives.
SIZES = {
    "adult": (48_842, "41", 11_687),
    "credit": (30_000, "89", 6_636),
    "utkface": (23_795, "48 × 48 × 1", 8_608),
}
# AUC, accuracy, and the gaps of demographic parity, EOpp and "EOdd" by M, at ε = 1.
IMPACT_OF_M = {
    ("adult", 0.25): (0.59, 0.75, 0.0, 0.0, 0.0),
    ("adult", 0.50): (0.77, 0.76, 0.001, 0.002, 0.001),
    ("adult", 0.75): (0.79, 0.79, 0.019, 0.021, 0.005),
    ("adult", 1.00): (0.80, 0.80, 0.027, 0.038, 0.011),
    ("credit", 0.25): (0.73, 0.78, 0.0, 0.0, 0.0),
    ("credit", 0.50): (0.75, 0.80, 0.011, 0.026, 0.009),
    ("credit", 0.75): (0.76, 0.81, 0.013, 0.018, 0.009),
    ("credit", 1.00): (0.76, 0.81, 0.016, 0.016, 0.009),
    ("utkface", 0.25): (0.73, 0.64, 0.0, 0.0, 0.0),
    ("utkface", 0.50): (0.79, 0.71, 0.087, 0.090, 0.044),
    ("utkface", 0.75): (0.80, 0.73, 0.115, 0.104, 0.061),
    ("utkface", 1.00): (0.80, 0.75, 0.130, 0.115, 0.068),
}
# Monte Carlo errors of ten heads, for demographic parity, equal opportunity and equalized odds.
ERRORS = {
    "adult": ("4.37e-5", "3.16e-4", "3.7e-4"),
    "credit": ("1.1e-4", "4.8e-4", "6.2e-4"),
    "utkface": ("1.36e-4", "3.7e-4", "6.1e-4"),
}
# FairDP's parity gap in the text, by ε.
GAPS_IN_TEXT = {"adult": {0.5: 0.014, 2.0: 0.025}}
# Gain over DP-IS-SGD at ε = .5, averaged over the three gaps, as fractions.
GAINS_IN_TEXT = {"credit": 0.7841, "utkface": 0.7408}
Ints = NDArray[np.int64]
PAPER_METHODS = ("clean", "dpsgd", "dpsgd_f", "dp_is_sgd", "fairsmooth", "dpsgd_smooth", "fairdp")
# Beside the paper's own, what we would use.
OURS = "fairdp_frontier"
ALL_METHODS = (*PAPER_METHODS, OURS)
# δ is the default of the estimator.
EPSILONS, DELTA = (0.5, 1.0, 1.5, 2.0), 1e-5
N_SEEDS = {"adult": 5, "credit": 5, "utkface": 3}
# The paper states a range for M, and not whether a group has an optimiser of its own.
BOUNDS = (0.5, 0.65, 0.75, 1.0)
# A training on faces takes minutes.
FACE_BOUNDS = (0.5, 1.0)
SHIFTS = (0.0, 0.05, 0.1, 0.2)
UTILITIES = ("auc", "accuracy")
SHOWN = (
    *("epsilon_pld", *UTILITIES, "positive_rate", f"{WITH_RATIO}_ratio", *GAPS, "false_positive_rate_difference"),
    *(f"paper_{metric}" for metric in METRICS),
)
# What tables show, with titles.
COLUMNS = {
    "auc": "AUC",
    "accuracy": "accuracy",
    "positive_rate": "positive rate",
    f"{WITH_RATIO}_ratio": "ratio",
    **{f"{metric}_difference": f"{about.short} gap" for metric, about in CERTIFIABLE.items()},
}
# The paper trains on all training records: its certificate has none held out. Its noise is the moments accountant's.
SETTINGS: Mapping[str, object] = {"certify_fraction": 0.0, "accountant": "rdp"}
# The last step of FairDP has the step size that the run ends with, η_T: on tables that of the estimator, on faces this.
LAST_STEP: Mapping[str, Mapping[str, object]] = {"utkface": {"sgd_learning_rate": 0.002}}
# Faces were trained with all records of a batch in one pass: parts of 256, the default by now, round differently.
PASSES: Mapping[str, Mapping[str, object]] = {"utkface": {"max_physical_batch_size": 4096}}
# Methods whose threshold is also moved to FairDP's positive rate.
CONTROLS = ("dpsgd", "dp_is_sgd")
# A quick run shows that a study works, on a population that is built in.
QUICK_METHODS = ("clean", "dpsgd", "dpsgd_f", "dp_is_sgd", "dpsgd_smooth", "fairdp")
QUICK_SETTINGS: Mapping[str, object] = {"n_steps": 60, "sample_rate": 0.1, "n_draws": 5}


@dataclass(frozen=True)
class Study:
    """A named study: what it shows, and the function that runs it.

    Parameters
    ----------
    name
        As it is typed.
    home
        Where the code is: a module here, and a function in it that makes `Findings` from a `Run`.
    shows
        What the results say, in one line.
    paper
        The table or figure of the paper that it makes again; empty: beyond the paper.
    """

    name: str
    home: str
    shows: str
    paper: str = ""

    def findings(self, run: "Run") -> "Findings":
        """Run the study."""
        module, function = self.home.split(".")
        made: Findings = getattr(import_module(f"fairdp_lab.studies.{module}"), function)(run)
        return made


_ALL = (
    Study(
        "datasets",
        "paper.dataset_study",
        "Records, features, positives and groups of the three data sets.",
        "Table 1, data sets",
    ),
    Study(
        "tradeoffs",
        "paper.tradeoff_study",
        "Utility against the three gaps for every method and budget, with DP-SGD at FairDP's positive rate.",
        "figures of the trade-offs, for accuracy and for ROC-AUC",
    ),
    Study(
        "gains",
        "paper.gain_study",
        "How much smaller FairDP's gaps are than those of DP-IS-SGD and clean training, and what it costs.",
        "figures of fairness gain and utility drop, against DP-IS-SGD and against clean training",
    ),
    Study(
        "t-tests",
        "paper.t_test_study",
        "Two-tailed t-tests between methods, over seeds.",
        "the p-values in the text",
    ),
    Study(
        "certificate-tightness",
        "paper.tightness_study",
        "Observed gaps under shifts of Pr(a, y), the paper's certificate and the one that holds.",
        "figures of the tightness of the certificate and of its behaviour under shift",
    ),
    Study(
        "halting",
        "ablations.halting_study",
        "When training would halt by a certificate that holds, and by the paper's τ_emp, and which model each keeps.",
        "Remark 2 and section V, in the text",
    ),
    Study(
        "mc-error",
        "paper.mc_error_study",
        "The error of an ensemble of ten heads, as the paper prints it.",
        "table of the DP-MC approximation error",
    ),
    Study(
        "impact-of-m",
        "paper.bound_study",
        "What the bound M on the head does to utility and gaps, beside DP-SGD at the same positive rate.",
        "table of the hyper-parameter M",
    ),
    Study(
        "imbalance",
        "paper.imbalance_study",
        "FairDP where the largest group is cut to ρ times the smallest.",
        "figures of the imbalance ρ, for accuracy and for ROC-AUC",
    ),
    Study(
        "claims",
        "claims.claim_study",
        "Every claim of the paper's evaluation, with a verdict by a stated rule.",
        "the claims of abstract and text",
    ),
    Study("members", "ablations.member_study", "FairDP with one to twenty heads."),
    Study(
        "noise-allocation",
        "ablations.allocation_study",
        "FairDP with noise for every group, or once on their average.",
    ),
    Study(
        "schedule",
        "ablations.schedule_study",
        "FairDP with the step sizes of Theorem 4, a constant one, and the paper's Adam with its hand-over to SGD.",
    ),
    Study(
        "components",
        "ablations.component_study",
        "From DP-SGD to FairDP part by part: balanced groups, the bound M, DP-MC and its error, with both Adams.",
        "the contribution of each component, promised in section VI",
    ),
    Study(
        "literal",
        "paper.literal_study",
        "Algorithms 1 and 2 to the letter, which is not private, beside ours at the same noise.",
    ),
    Study(
        "baselines",
        "ablations.baseline_study",
        "DP-IS-SGD with its authors' grouping, and smoothing with several deviations.",
    ),
    Study(
        "intersections",
        "ablations.intersection_study",
        "FairDP on Adult's groups of sex and race.",
        "several protected attributes, section II",
    ),
    Study(
        "convergence",
        "convergence.convergence_study",
        "Excess risk of the last iterate against the number of steps, at fixed noise and at fixed ε: Theorem 4's rate.",
    ),
    Study(
        "certificate-slack",
        "coverage.slack_study",
        "How far the certified gap lies above the observed one, beside simpler bounds and one that is no bound.",
    ),
    Study(
        "certificate-coverage",
        "coverage.coverage_study",
        "How often certificates are wrong where the truth is known, and that broken ones are noticed.",
    ),
    Study(
        "methods",
        "paper.methods_study",
        "What every method reaches on Adult and Default-CCC at the same budget, with its own defaults.",
    ),
    Study(
        "tables",
        "tables.tables_study",
        "What the default reaches on tables and images, with and without targets, beside its rivals.",
    ),
    Study(
        "frontier-family",
        "frontier.family_study",
        "What the default promises, on tables whose law is known: prices, targets, verdicts, and its frontier.",
    ),
    Study(
        "noise",
        "paper.noise_study",
        "How large a step's noise is when groups weigh by their size or equally, and are sampled alike or not.",
    ),
    Study(
        "audit-campaign",
        "tables.campaign_study",
        "How often lower bounds on ε from attacks pass the ε that is stated, over a thousand small audits.",
    ),
)
STUDIES: dict[str, Study] = {study.name: study for study in _ALL}


@dataclass(frozen=True, kw_only=True)
class Run:
    """Size, seed and workers of a study.

    Parameters
    ----------
    quick
        Far fewer draws: shows that the study works, and little else.
    seed
        Decides every random number; results do not depend on the number of workers.
    workers
        Who shares the work; a number stands for so many processes on this machine.
    say
        Where progress is told.
    store
        Where finished trainings are kept and found again; None: nowhere.
    datasets
        Data sets that a study of several is cut down to; none named: all of them.
    """

    quick: bool
    seed: int
    workers: int | Workers
    say: Callable[[str], None]
    store: Store | None = None
    datasets: tuple[str, ...] = ()

    def trained(self, fits: Sequence[Fit]) -> list[Trained]:
        """Figures of every training, in order; those that are kept from before are not done again."""
        found = train_all(fits, store=self.store, workers=self._workers, say=self.say)
        return [found[fit] for fit in fits]

    def done(
        self, function: Callable[[Task, np.random.Generator], Result], tasks: Sequence[Task], *, what: str
    ) -> list[Result]:
        """Result of every task, in order; ``function`` is called with a task and its own generator."""
        return run_tasks(function, tasks, seed=self.seed, workers=self._workers, say=self.say, what=what)

    @property
    def _workers(self) -> Workers:
        return self.workers if isinstance(self.workers, Workers) else Workers(number=self.workers)


@dataclass(frozen=True)
class Findings:
    """Figures for programs, and the same as Markdown for readers.

    Parameters
    ----------
    figures
        Numbers for the JSON file.
    text
        Markdown.
    runs
        One flat row for each training, for the CSV file; none: no such file.
    drawings
        Pictures, by the end of their file names.
    """

    figures: Mapping[str, object]
    text: str
    runs: Sequence[Mapping[str, object]] = ()
    drawings: Mapping[str, "Figure"] = field(default_factory=dict)


def command_of(name: str, run: Run) -> str:
    """The command that makes the same results again."""
    chosen = f" --datasets {','.join(run.datasets)}" if run.datasets else ""
    return f"fairdp reproduce {name}{' --quick' if run.quick else ''}{chosen} --seed {run.seed}"


def record_of(name: str, shows: str, run: Run, findings: Findings, *, version: str) -> dict[str, object]:
    """The figures with where they come from."""
    origin = {"command": command_of(name, run), "version": version, "seed": run.seed, "quick": run.quick}
    return {"study": name, "shows": shows, **origin, **findings.figures}


def write_results(record: Mapping[str, object], findings: Findings, folder: Path) -> list[Path]:
    """Write ``NAME.json`` and ``NAME.md``, with ``NAME.csv`` and pictures where there are any; their paths."""
    made = f"Made by `{record['command']}` with fairdp {record['version']}, seed {record['seed']}."
    rough = " A quick run: too few draws for conclusions." if record["quick"] else ""
    name = str(record["study"])
    pictures = "".join(f"![{name}{end}]({name}{end}.svg)\n\n" for end in findings.drawings)
    text = f"# {name}\n\n{record['shows']}\n\n{made}{rough}\n\n{pictures}{findings.text}"
    contents = {f"{name}.json": json_bytes(record), f"{name}.md": text.encode()}
    if findings.runs:
        contents[f"{name}.csv"] = csv_bytes(findings.runs)
    for file, content in contents.items():
        write_file(folder / file, content)
    return [folder / file for file in contents] + _write_drawings(findings, folder, name)


def _write_drawings(findings: Findings, folder: Path, name: str) -> list[Path]:
    if not findings.drawings:
        return []
    # On use: most studies draw nothing.
    from fairdp_lab.drawing import save_figure

    return [path for end, figure in findings.drawings.items() for path in save_figure(figure, folder, name + end)]


def csv_bytes(rows: Sequence[Mapping[str, object]]) -> bytes:
    """Flat rows as CSV, numbers to six digits; a row may lack what others have."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    stream = io.StringIO()
    writer = csv.DictWriter(stream, names, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items() if v is not None})
    return stream.getvalue().encode()


def table(lines: Sequence[Mapping[str, object]]) -> str:
    """A table in Markdown from lines by title; numbers with a decimal point are cut to what can be read.

    >>> print(table([{"data": "adult", "gap": 0.12345}]), end="")
    | data | gap |
    | --- | --- |
    | adult | 0.1235 |
    """
    titles = list(lines[0])
    rows = [titles, ["---"] * len(titles), *([_cell(line[title]) for title in titles] for line in lines)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _cell(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.2g}" if abs(value) < 0.001 else f"{value:.4f}"


def plain(rows: Iterable[Row]) -> list[dict[str, object]]:
    """Rows for the JSON file."""
    return [row.to_json() for row in rows]


def batched(values: Sequence[Value], size: int) -> list[Sequence[Value]]:
    """The values in parts of one size, such as the seeds of a setting."""
    return [values[start : start + size] for start in range(0, len(values), size)]


def relative_reduction(ours: Sequence[float], others: Sequence[float], *, paired: bool = False) -> tuple[float, float]:
    """1 − mean(ours) / mean(others), with its standard error by the delta method, for samples or for pairs.

    >>> relative_reduction([1.0, 1.0], [4.0, 4.0])
    (0.75, 0.0)
    >>> relative_reduction([1.0, 2.0], [4.0, 8.0], paired=True)
    (0.75, 0.0)
    """
    a, b, n = np.mean(ours), np.mean(others), len(ours)
    if not b:
        return math.nan, math.nan
    covariance = (
        np.cov(ours, others) / n
        if paired
        else np.diag([np.var(ours, ddof=1) / n, np.var(others, ddof=1) / len(others)])
    )
    slope = np.array([-1 / b, a / b**2])
    return float(1 - a / b), math.sqrt(max(0.0, float(slope @ covariance @ slope)))


def t_test(ours: Sequence[float], others: Sequence[float], *, paired: bool = False) -> dict[str, float]:
    """Two-tailed test of equal means, Welch's or that of pairs; without spread they differ for certain or not at all.

    >>> t_test([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])["p_value"]
    1.0
    >>> t_test([1.0, math.nan], [1.0, 2.0])
    {'difference': nan, 'p_value': nan}
    """
    difference = float(np.mean(ours) - np.mean(others))
    # A ratio of rates that are zero is no number, and neither is what is made from it.
    if math.isnan(difference):
        return {"difference": math.nan, "p_value": math.nan}
    spread = np.ptp(np.subtract(ours, others)) if paired else np.ptp(ours) + np.ptp(others)
    if not spread > 1e-15:
        return {"difference": difference, "p_value": float(abs(difference) < 1e-12)}
    if paired:
        return {"difference": difference, "p_value": float(stats.ttest_rel(ours, others).pvalue)}
    # From means and deviations: samples of which one has no spread are compared without a warning.
    (mean, deviation, n), (other_mean, other_deviation, n_others) = (
        (float(np.mean(sample)), float(np.std(sample, ddof=1)), len(sample)) for sample in (ours, others)
    )
    test = stats.ttest_ind_from_stats(mean, deviation, n, other_mean, other_deviation, n_others, equal_var=False)
    return {"difference": difference, "p_value": float(test.pvalue)}


def typical_arm(size: int, rate: float, *, epsilon: float, n_noise_terms: int) -> NoisyBinomial:
    """The expected counts, rounded, without noise."""
    positives = round(size * rate)
    return NoisyBinomial(positive=positives, negative=size - positives, epsilon=epsilon, n_noise_terms=n_noise_terms)


def drawn_arm(rng: np.random.Generator, size: int, rate: float, *, epsilon: float, n_noise_terms: int) -> NoisyBinomial:
    """One draw of the counts and their noise."""
    positive, negative = drawn_counts(rng, size, rate, epsilon=epsilon, n_noise_terms=n_noise_terms, n_draws=1)
    return NoisyBinomial(
        positive=int(positive[0]), negative=int(negative[0]), epsilon=epsilon, n_noise_terms=n_noise_terms
    )


def drawn_counts(
    rng: np.random.Generator, size: int, rate: float, *, epsilon: float, n_noise_terms: int, n_draws: int
) -> tuple[Ints, Ints]:
    """Noisy counts of positive and negative decisions, each of shape (n_draws,)."""
    positives = rng.binomial(size, rate, n_draws)
    return (
        positives + laplace_noise(rng, epsilon=epsilon, n_noise_terms=n_noise_terms, n_draws=n_draws),
        size - positives + laplace_noise(rng, epsilon=epsilon, n_noise_terms=n_noise_terms, n_draws=n_draws),
    )


def laplace_noise(rng: np.random.Generator, *, epsilon: float, n_noise_terms: int, n_draws: int) -> Ints:
    """Sums of discrete Laplace noise: one draw is the difference of two geometric ones."""
    draws = rng.geometric(1 - np.exp(-epsilon), (2, n_noise_terms, n_draws)).sum(1)
    return draws[0] - draws[1]


def random_below(rng: np.random.Generator) -> RandBelow:
    """A seeded source for the exact sampler of noise."""
    return lambda below: int(rng.integers(below))


@dataclass(frozen=True, kw_only=True)
class Variant:
    """FairDP as it may be read: the bound M on the head, and whether every group has an Adam of its own."""

    bound: float = 1.0
    per_group: bool = False

    @property
    def changes(self) -> tuple[tuple[str, object], ...]:
        """As parameters."""
        return (("weight_bound", self.bound), ("group_optimizers", self.per_group))

    @property
    def words(self) -> str:
        """As figures and tables name it."""
        return f"M = {self.bound:g}, {'Adam per group' if self.per_group else 'one Adam'}"


PLAIN = Variant()


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A method on a data set at a budget: a point of a figure, trained with several seeds.

    ``epsilon`` is None for methods that are not private. ``changes`` are parameters that are not those of the protocol;
    ``ratio`` cuts the largest group of the training records, at random with every seed; ``sensitive`` are protected
    columns other than the paper's.
    """

    dataset: str
    method: str
    epsilon: float | None
    changes: tuple[tuple[str, object], ...] = ()
    ratio: float | None = None
    sensitive: tuple[str, ...] = ()

    def fit(self, seed: int, settings: Mapping[str, object] = SETTINGS) -> Fit:
        """The training with one seed; the same one whichever study asks, so what is as by default is left out."""
        last = LAST_STEP.get(self.dataset, {}) if self.method == "fairdp" else {}
        chosen = {**settings, **last, **PASSES.get(self.dataset, {}), "epsilon": self.epsilon, **dict(self.changes)}
        if self.epsilon is None:
            chosen.pop("accountant", None)
        unusual = {name: value for name, value in sorted(chosen.items()) if value != DECLARED[name].default}
        split = None if self.ratio is None else seed
        return Fit(
            population=Population(dataset=self.dataset, ratio=self.ratio, split=split, sensitive=self.sensitive),
            method=self.method,
            seed=seed,
            settings=tuple(unusual.items()),
            is_control=self.method in CONTROLS and not self.changes,
            shifts=SHIFTS if self.method == "fairdp" else (),
        )

    def named(self) -> dict[str, object]:
        """Its own columns of tables."""
        ratio = {} if self.ratio is None else {"ratio": self.ratio}
        groups = {"sensitive": ",".join(self.sensitive)} if self.sensitive else {}
        about = {"dataset": self.dataset, **groups, "method": self.method, "epsilon": self.epsilon}
        return {**about, **dict(self.changes), **ratio}

    def beside(self, method: str) -> "Setting":
        """Another method on the same records at the same budget, as by default."""
        budget = self.epsilon if METHODS[method].private else None
        return replace(self, method=method, epsilon=budget, changes=PLAIN.changes if method == "fairdp" else ())


Runs = dict[Setting, list[Trained]]


def settings_of(run: Run, methods: Sequence[str] = ALL_METHODS) -> list[Setting]:
    """Every method on every data set at every budget; FairDP in all its variants."""
    return [
        Setting(dataset=dataset, method=method, epsilon=epsilon, changes=changes)
        for dataset in datasets_of(run)
        for method in methods
        if method in QUICK_METHODS or not run.quick
        for changes in ([each.changes for each in variants_of(run, dataset)] if method == "fairdp" else [()])
        for epsilon in budgets_of(run, method)
    ]


def variants_of(run: Run, dataset: str) -> tuple[Variant, ...]:
    """The readings of FairDP that are trained, the plain one first."""
    if run.quick:
        return (PLAIN, Variant(bound=0.75), Variant(per_group=True))
    bounds, readings = (FACE_BOUNDS, (False,)) if dataset == "utkface" else (BOUNDS, (False, True))
    return tuple(Variant(bound=bound, per_group=own) for own in readings for bound in sorted(bounds, reverse=True))


def datasets_of(run: Run) -> tuple[str, ...]:
    """The paper's three, or those that were asked for."""
    return ("synthetic",) if run.quick else (run.datasets or tuple(N_SEEDS))


def tables_of(run: Run) -> tuple[str, ...]:
    """The same without faces, for what goes beyond the paper: hours of training that would teach little."""
    return tuple(name for name in datasets_of(run) if name != "utkface")


def budgets_of(run: Run, method: str) -> tuple[float | None, ...]:
    """The budgets of a figure; a method without privacy has none."""
    if not METHODS[method].private:
        return (None,)
    return tuple(epsilon for epsilon in EPSILONS if epsilon != 1.5 or not run.quick)


def train(settings: Iterable[Setting], run: Run) -> Runs:
    """Figures of each setting, one entry per seed; trainings that studies share are done once."""
    chosen = {**SETTINGS, **(QUICK_SETTINGS if run.quick else {})}
    asked = {setting: [setting.fit(seed, chosen) for seed in _seeds(setting, run)] for setting in settings}
    found = dict(
        zip(fits := [fit for of_setting in asked.values() for fit in of_setting], run.trained(fits), strict=True)
    )
    return {setting: [found[fit] for fit in its] for setting, its in asked.items()}


def _seeds(setting: Setting, run: Run) -> range:
    return range(run.seed, run.seed + (2 if run.quick else N_SEEDS[setting.dataset]))


def summary(runs: Runs) -> list[Row]:
    """A row for each setting: mean and standard error over seeds."""
    return [
        Row.of({**setting.named(), "delta": DELTA, "n_runs": len(found)}, [it.numbers for it in found])
        for setting, found in runs.items()
    ]


def tidy(runs: Runs, run: Run) -> list[dict[str, object]]:
    """A row for each training, with the numbers that studies show."""
    return [
        {**setting.named(), "seed": seed, **{name: found[name] for name in SHOWN if name in found.numbers}}
        for setting, its in runs.items()
        for seed, found in zip(_seeds(setting, run), its, strict=True)
    ]


def control(setting: Setting, runs: Runs, *, method: str = "dpsgd") -> Row:
    """Another method with its threshold moved to the positive rate of a setting, seed by seed; a row of `summary`."""
    named = {**setting.named(), "method": method, "at": setting.method, "delta": DELTA, "n_runs": len(runs[setting])}
    return Row.of(named, matched(setting, runs, method=method))


def matched(setting: Setting, runs: Runs, *, method: str = "dpsgd") -> list[dict[str, float]]:
    """Another method at the same budget and seed, moved to the positive rate of each run of a setting."""
    others = runs[setting.beside(method)]
    return [other.at_rate(result["positive_rate"]) for result, other in zip(runs[setting], others, strict=True)]


def accounted(rows: Iterable[Row]) -> str:
    """One sentence on the ε of the private runs by each accountant."""
    spent: dict[float, set[str]] = {}
    for row in rows:
        if row.named["epsilon"]:
            spent.setdefault(float(str(row.named["epsilon"])), set()).add(f"{row.mean['epsilon_pld']:.3f}")
    by_rdp = ", ".join(f"{epsilon:g}" for epsilon in sorted(spent))
    by_pld = ", ".join(" to ".join(sorted({min(spent[e]), max(spent[e])})) for e in sorted(spent))
    return (
        f"The noise is the moments accountant's for ε = {by_rdp} (δ = 1e-5); PLD makes ε = {by_pld} of the same runs. "
    )
