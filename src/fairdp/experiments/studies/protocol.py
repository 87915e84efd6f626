"""The paper's experiments as trainings: data sets, methods, budgets and seeds that its tables and figures share."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from fairdp.experiments.studies.results import Run
from fairdp.experiments.sweeps.fits import GAPS, Fit, Row, Trained
from fairdp.experiments.sweeps.populations import Population
from fairdp.methods import METHODS

PAPER_METHODS = ("clean", "dpsgd", "dpsgd_f", "dp_is_sgd", "fairsmooth", "dpsgd_smooth", "fairdp")
# Beside the paper's own, what we would use.
ALL_METHODS = (*PAPER_METHODS, "fairdp_parity")
# δ is the default of the estimator.
EPSILONS, DELTA = (0.5, 1.0, 1.5, 2.0), 1e-5
N_SEEDS = {"adult": 5, "credit": 5, "utkface": 3}
UTILITIES = ("auc", "accuracy")
SHOWN = (*UTILITIES, "positive_rate", "demographic_parity_ratio", *GAPS, "false_positive_rate_difference")
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
# The paper trains on all training records: its certificate has none held out.
NOTHING_HELD_OUT: Mapping[str, float] = {"certify_fraction": 0.0}
# A quick run shows that a study works, on a population that is built in.
QUICK_METHODS = ("clean", "dpsgd", "dpsgd_f", "dp_is_sgd", "fairdp")
QUICK_SETTINGS: Mapping[str, float] = {"n_steps": 60, "sample_rate": 0.1}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A method on a data set at a budget: a point of a figure, trained with several seeds.

    ``epsilon`` is None for methods that are not private. ``changes`` are parameters that are not at their default;
    ``ratio`` cuts the largest group of the training records, at random with every seed.
    """

    dataset: str
    method: str
    epsilon: float | None
    changes: tuple[tuple[str, object], ...] = ()
    ratio: float | None = None
    shifts: tuple[float, ...] = ()

    def fit(self, seed: int, settings: Mapping[str, float]) -> Fit:
        """The training with one seed."""
        budget = {} if self.epsilon is None else {"epsilon": self.epsilon}
        split = None if self.ratio is None else seed
        return Fit(
            population=Population(dataset=self.dataset, ratio=self.ratio, split=split),
            method=self.method,
            seed=seed,
            settings=tuple({**settings, **budget, **dict(self.changes)}.items()),
            is_control=self.method == "dpsgd",
            shifts=self.shifts,
        )

    def named(self) -> dict[str, object]:
        """What tells it apart, for tables."""
        ratio = {} if self.ratio is None else {"ratio": self.ratio}
        return {"dataset": self.dataset, "method": self.method, "epsilon": self.epsilon, **dict(self.changes), **ratio}


Runs = dict[Setting, list[Trained]]


def settings_of(run: Run, methods: Sequence[str] = ALL_METHODS) -> list[Setting]:
    """Every method on every data set at every budget."""
    return [
        Setting(dataset=dataset, method=method, epsilon=epsilon)
        for dataset in datasets_of(run)
        for method in methods
        if method in QUICK_METHODS or not run.quick
        for epsilon in budgets_of(run, method)
    ]


def datasets_of(run: Run) -> tuple[str, ...]:
    """The paper's three, or those that were asked for."""
    return ("synthetic",) if run.quick else (run.datasets or tuple(N_SEEDS))


def tables_of(run: Run) -> tuple[str, ...]:
    """The same without faces, for what goes beyond the paper: hours of training that would teach little."""
    return datasets_of(run) if run.quick or run.datasets else tuple(name for name in N_SEEDS if name != "utkface")


def budgets_of(run: Run, method: str) -> tuple[float | None, ...]:
    """The budgets of a figure; a method without privacy has none."""
    if not METHODS[method].private:
        return (None,)
    return EPSILONS[1::2] if run.quick else EPSILONS


def train(settings: Iterable[Setting], run: Run) -> Runs:
    """Figures of each setting, one entry per seed; trainings that studies share are done once."""
    chosen = {**NOTHING_HELD_OUT, **(QUICK_SETTINGS if run.quick else {})}
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


def controls(runs: Runs, *, at: str) -> list[Row]:
    """DP-SGD with its threshold moved to the positive rate of another method, seed by seed; rows as of `summary`."""
    return [
        Row.of(
            {**setting.named(), "method": "dpsgd", "at": at, "delta": DELTA, "n_runs": len(found)},
            matched(setting, runs),
        )
        for setting, found in runs.items()
        if setting.method == at and setting.epsilon is not None
    ]


def matched(setting: Setting, runs: Runs) -> list[dict[str, float]]:
    """DP-SGD at the same budget and seed, moved to the positive rate of each run of a setting."""
    plain = runs[replace(setting, method="dpsgd", changes=(), shifts=())]
    return [dpsgd.at_rate(result["positive_rate"]) for result, dpsgd in zip(runs[setting], plain, strict=True)]
