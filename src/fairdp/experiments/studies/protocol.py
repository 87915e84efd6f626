"""The paper's experiments as trainings: data sets, methods, budgets, bounds M, optimisers and seeds."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from fairdp.config.parameters import DECLARED
from fairdp.experiments.studies.results import Run
from fairdp.experiments.sweeps.fits import GAPS, METRICS, Fit, Row, Trained
from fairdp.experiments.sweeps.populations import Population
from fairdp.methods import METHODS

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
    *("epsilon_pld", *UTILITIES, "positive_rate", "demographic_parity_ratio", *GAPS, "false_positive_rate_difference"),
    *(f"paper_{metric}" for metric in METRICS),
)
# What tables show, with titles.
COLUMNS = {
    "auc": "AUC",
    "accuracy": "accuracy",
    "positive_rate": "positive rate",
    "demographic_parity_ratio": "ratio",
    "demographic_parity_difference": "parity gap",
    "equal_opportunity_difference": "EOpp gap",
    "equalized_odds_difference": "EOdds gap",
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
        """What tells it apart, for tables."""
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
    """What the privacy of the private runs is by each accountant, in a sentence."""
    spent: dict[float, set[str]] = {}
    for row in rows:
        if row.named["epsilon"]:
            spent.setdefault(float(str(row.named["epsilon"])), set()).add(f"{row.mean['epsilon_pld']:.3f}")
    by_rdp = ", ".join(f"{epsilon:g}" for epsilon in sorted(spent))
    by_pld = ", ".join(" to ".join(sorted({min(spent[e]), max(spent[e])})) for e in sorted(spent))
    return (
        f"The noise is the moments accountant's for ε = {by_rdp} (δ = 1e-5); PLD makes ε = {by_pld} of the same runs. "
    )
