"""Studies of the default beside its rivals on tables and images, and of how often attacks pass a stated ε."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import groupby, product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import binomtest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from fairdp.data.columns import Numeric
from fairdp.data.grouped import GroupedData
from fairdp.data.schema import TableSchema
from fairdp.methods import METHODS
from fairdp.metrics import area_under_roc, metrics_of_counts
from fairdp_lab.audit.attack import CanaryRun, Finding, audit_method, canary_run
from fairdp_lab.studies.protocol import Findings, Run, plain, table
from fairdp_lab.sweeps.fits import Fit, Population, Row, load

EPSILON, DELTA = 1.0, 1e-5
DP_EBM, DP_EBM_TUNED = "dp_ebm", "dp_ebm_tuned"
BOOSTING, LOGISTIC, REDUCTION = "boosting", "logistic_regression", "reduction"
# What readers call them.
TITLES = {
    DP_EBM: "DP-EBM",
    DP_EBM_TUNED: "DP-EBM, tuned on the test records",
    BOOSTING: "boosting, not private",
    LOGISTIC: "logistic regression, not private",
    REDUCTION: "fairlearn's reduction, not private",
}
DEFAULT_RATE = 0.01
LEARNING_RATES = (DEFAULT_RATE, 0.02, 0.05, 0.1, 0.2, 0.4)
# Where columns have no declared bounds, ours takes them up to here.
_UNDECLARED = (-3.0, 3.0)
EPSILONS = (0.5, 1.0, 2.0, 4.0)
N_RUNS, N_QUICK = 25, 2
N_CANARIES = 100
# Draws of a method as one release, in each world.
N_DRAWS = 1000
# Chance that the bounds of one run are wrong; far larger than a command's, so that a thousand runs can show it.
FAILURE_PROBABILITY = 0.05
# What is counted of every run, in words.
TESTS = {
    "one_run": "one run, white box and final model",
    "one_release": "the method as one release, two worlds",
    "null": "one run, scores of nobody: a bound above 0",
}
OURS, PLAIN, AIMING = "fairdp_frontier", "dpsgd", ("raco_dp", "dp_postprocess")
FULL, ADULT, CREDIT, FACES, SYNTHETIC = (
    Population(dataset=name) for name in ("adult_full", "adult", "credit", "utkface", "synthetic")
)
FEW = replace(FULL, n_train=4000)
NO_TARGET = {"max_gap": 1.0}
ALL, SOME = "all", "default hold-out"
TABLE_RIVALS = (DP_EBM, BOOSTING, LOGISTIC)
N_SEEDS, N_FACE_SEEDS, N_QUICK_SEEDS = 5, 3, 2
Numbers = Mapping[str, float]
_SHOWN = {
    "accuracy": "accuracy",
    "auc": "AUC",
    "gap": "test gap",
    "training_gap": "training gap",
    "demographic_parity_ratio": "ratio",
    "positive_rate": "positive rate",
    "certified_gap": "certified gap",
}


@dataclass(frozen=True, kw_only=True)
class Rival:
    """One training of a model that is not ours.

    Parameters
    ----------
    learning_rate
        Of DP-EBM.
    max_gap
        Demographic parity gap on the training records that the reduction aims at.
    """

    name: str
    population: Population
    seed: int = 0
    learning_rate: float = DEFAULT_RATE
    max_gap: float = 1.0


def has_dp_ebm() -> bool:
    """True if the package with DP-EBM is installed."""
    return find_spec("interpret") is not None


def reached(rival: Rival, rng: np.random.Generator) -> dict[str, float]:
    """Figures of a rival on the test records; its seed is its own, so that rivals of one seed are a pair with ours."""
    parts = load(rival.population)
    train, test = parts.train, parts.test
    if rival.name == REDUCTION:
        model = fitted_reduction(train, max_gap=rival.max_gap)
        on_training, chances = (model._pmf_predict(data.X)[:, 1] for data in (train, test))
        return {**figures_of(chances, test), "training_gap": figures_of(on_training, train)["gap"]}
    if rival.name == DP_EBM:
        ebm = fitted_dp_ebm(train, parts.schema, seed=rival.seed, learning_rate=rival.learning_rate)
        chances = ebm.predict_proba(whole_columns(test.inputs, parts.schema))[:, 1]
    else:
        chances = _fitted_exactly(rival.name, train).predict_proba(test.X)[:, 1]
    return {**figures_of((chances >= 0.5).astype(np.float64), test), "auc": area_under_roc(test.y, chances)[0]}


def figures_of(decisions: NDArray[np.float64], data: GroupedData) -> dict[str, float]:
    """Accuracy, rate, ratio and gap of decisions, or of the chances of positive ones."""
    cells = 2 * data.groups + data.y
    sizes, positives = (np.bincount(cells, weights, 2 * data.n_groups) for weights in (None, decisions))
    counts = np.stack([sizes - positives, positives], axis=1).reshape(data.n_groups, 2, 2)
    found = {k: v for k, v in metrics_of_counts(counts, data.group_names).items() if isinstance(v, float)}
    return {**found, "gap": found["demographic_parity_difference"]}


def fitted_dp_ebm(
    train: GroupedData, schema: TableSchema | None, *, seed: int | None, learning_rate: float = DEFAULT_RATE
) -> Any:
    """DP-EBM with what is declared of the columns, so that it spends nothing on finding it and reads nothing exactly.

    Nori, Caruana, Bu, Shen, Kulkarni (2021), *Accuracy, Interpretability, and Differential Privacy via Explainable
    Boosting*, ICML.
    """
    from interpret.privacy import DPExplainableBoostingClassifier

    X = whole_columns(train.inputs, schema)
    numbers = [name for name in X if X[name].dtype == np.float64]
    model = DPExplainableBoostingClassifier(
        feature_types=["continuous" if name in numbers else "nominal" for name in X],
        privacy_bounds=dict.fromkeys(numbers, (0.0, 1.0) if schema else _UNDECLARED),
        learning_rate=learning_rate,
        epsilon=EPSILON,
        delta=DELTA,
        random_state=seed,
        n_jobs=1,
    )
    # Any other warning would say that it looks at the records for what should have been declared.
    with warnings.catch_warnings(action="error"):
        warnings.filterwarnings("ignore", message="Privacy violation: using a fixed random_state")
        return model.fit(X, train.y)


def whole_columns(X: NDArray[np.float32], schema: TableSchema | None) -> pd.DataFrame:
    """Columns as they were before their encoding: a category as one word, a number on its declared scale."""
    if schema is None:
        return pd.DataFrame({f"x{k}": x.clip(*_UNDECLARED).astype(np.float64) for k, x in enumerate(X.T)})
    found, start = {}, 0
    for column in schema.columns:
        names = column.feature_names
        inputs = X[:, start : start + len(names)]
        if isinstance(column, Numeric):
            found[column.name] = inputs[:, 0].astype(np.float64)
        else:
            # A single input is an indicator: yes or no.
            words = np.array(names if len(names) > 1 else ("no", "yes"), dtype=object)
            found[column.name] = words[inputs.argmax(1) if len(names) > 1 else inputs[:, 0].astype(np.int64)]
        start += len(names)
    return pd.DataFrame(found)


def fitted_reduction(train: GroupedData, *, max_gap: float) -> Any:
    """A randomised choice of logistic regressions whose rates of two groups differ by so much at most.

    Agarwal, Beygelzimer, Dudík, Langford, Wallach (2018), *A Reductions Approach to Fair Classification*, ICML. It
    bounds how far a group's rate is from that of all; of two groups the smaller one is farther, by the gap times the
    share of the larger.
    """
    from fairlearn.reductions import DemographicParity, ExponentiatedGradient

    bound = max_gap * float(train.group_sizes.max() / train.n_samples)
    model = ExponentiatedGradient(LogisticRegression(max_iter=1000), DemographicParity(difference_bound=bound))
    with warnings.catch_warnings(action="ignore"):
        model.fit(train.X, train.y, sensitive_features=train.groups)
    return model


def best_rate(found: Mapping[float, Sequence[Mapping[str, float]]]) -> float:
    """The learning rate with the best accuracy on the test records, which nobody may choose by: it favours them.

    >>> best_rate({0.1: [{"accuracy": 0.8}, {"accuracy": 0.7}], 0.2: [{"accuracy": 0.74}, {"accuracy": 0.75}]})
    0.1
    """
    return max(found, key=lambda rate: float(np.mean([run["accuracy"] for run in found[rate]])))


def _fitted_exactly(name: str, train: GroupedData) -> Any:
    model = HistGradientBoostingClassifier(random_state=0) if name == BOOSTING else LogisticRegression(max_iter=1000)
    with warnings.catch_warnings(action="ignore"):
        return model.fit(train.X, train.y)


@dataclass(frozen=True, kw_only=True)
class Audited:
    """Findings of one small audit; ``lower`` by the names of ``TESTS``, beside what each must not pass."""

    method: str
    epsilon: float
    lower: dict[str, float]
    limit: dict[str, float]

    def passed_limit(self, test: str) -> bool:
        """True if a lower bound says too much."""
        return self.lower[test] > self.limit[test]


def campaign_study(run: Run) -> Findings:
    """Audit every private method at several ε, again and again."""
    methods = [name for name, method in METHODS.items() if method.private]
    settings = list(product(methods, EPSILONS))
    tasks = [setting for setting in settings for _ in range(N_QUICK if run.quick else N_RUNS)]
    audited = run.done(audit_once, tasks, what="audits")
    rows = [_row(setting, [a for a in audited if (a.method, a.epsilon) == setting]) for setting in settings]
    totals = {test: _total(audited, test) for test in TESTS}
    figures = {
        "n_runs": len(audited),
        "n_canaries": N_CANARIES,
        "n_draws": N_DRAWS,
        "delta": DELTA,
        "failure_probability": FAILURE_PROBABILITY,
        "totals": totals,
        "rows": rows,
    }
    return Findings(figures, _campaign_text(len(audited), totals, rows))


def audit_once(task: tuple[str, float], rng: np.random.Generator) -> Audited:
    """One small audit, with each test at ``FAILURE_PROBABILITY``."""
    method, epsilon = task
    seeds = [int(seed) for seed in rng.integers(2**31, size=2)]
    run = canary_run(method, epsilon=epsilon, delta=DELTA, n_canaries=N_CANARIES, seed=seeds[0])
    best = _best(run)
    # The same scores beside the coins of another run: what they say of those is nothing.
    null = _best(replace(run, included=rng.random(len(run.included)) < 0.5))
    one_release = audit_method(
        method,
        epsilon=epsilon,
        delta=DELTA,
        n_draws=N_DRAWS,
        n_canaries=N_CANARIES,
        failure_probability=FAILURE_PROBABILITY,
        seed=seeds[1],
    )
    return Audited(
        method=method,
        epsilon=epsilon,
        lower={"one_run": best.epsilon_lower, "one_release": one_release.epsilon_lower, "null": null.epsilon_lower},
        limit={"one_run": best.epsilon, "one_release": one_release.epsilon, "null": 0.0},
    )


def _best(run: CanaryRun) -> Finding:
    """The largest of a run's bounds, all of which hold together."""
    n_tests = len(run.findings(failure_probability=FAILURE_PROBABILITY))
    found = run.findings(failure_probability=FAILURE_PROBABILITY / n_tests)
    return max(found, key=lambda finding: finding.epsilon_lower)


def _row(setting: tuple[str, float], audited: Sequence[Audited]) -> dict[str, object]:
    means = {f"mean_{test}": float(np.mean([a.lower[test] for a in audited])) for test in TESTS}
    passed = {f"passed_{test}": sum(a.passed_limit(test) for a in audited) for test in TESTS}
    return {"method": setting[0], "epsilon": setting[1], "n_runs": len(audited), **means, **passed}


def _total(audited: Sequence[Audited], test: str) -> dict[str, float]:
    """Number of bounds that said too much, and how unlikely it is if it does so no more often than is stated."""
    events = sum(a.passed_limit(test) for a in audited)
    found = binomtest(events, len(audited), FAILURE_PROBABILITY, alternative="greater")
    return {"passed": events, "share": events / len(audited), "p_value": float(found.pvalue)}


def _campaign_text(n_runs: int, totals: dict[str, dict[str, float]], rows: Sequence[dict[str, object]]) -> str:
    summary = [
        {"bound": what, "passed": totals[test]["passed"], "of": n_runs, "binomial p-value": totals[test]["p_value"]}
        for test, what in TESTS.items()
    ]
    lines = [
        {
            "method": row["method"],
            "ε": f"{row['epsilon']:g}",
            "one run": row["mean_one_run"],
            "one release": row["mean_one_release"],
        }
        for row in rows
    ]
    return (
        f"{n_runs} small audits of all private methods. Each bound may pass the ε that is stated in "
        f"{100 * FAILURE_PROBABILITY:g} % of the runs; a p-value far below 0.001 would say that it does so more "
        f"often.\n\n{table(summary)}\n"
        f"Mean lower bounds, from {N_CANARIES} canaries in one run and from {N_DRAWS} draws of one release (a fifth "
        f"for closed forms):\n\n{table(lines)}"
    )


@dataclass(frozen=True, kw_only=True)
class Case:
    """Records and a target, with what is trained for it.

    Parameters
    ----------
    methods
        Methods of the package.
    rivals
        Models by others.
    held_out
        Whether ours is also trained as by default, with some records held out for the certificate.
    """

    population: Population
    target: Mapping[str, object]
    methods: tuple[str, ...] = (OURS,)
    rivals: tuple[str, ...] = ()
    held_out: bool = False

    @property
    def words(self) -> str:
        """The target as the table names it."""
        if self.target == NO_TARGET:
            return "none"
        parity = str(self.target.get("parity", "demographic_parity")).replace("_", " ")
        ratio = self.target.get("min_ratio")
        return f"{parity} {self.target['max_gap']:g}" if ratio is None else f"{parity}, ratio {ratio:g}"

    @property
    def entries(self) -> list[tuple[str, str]]:
        """Methods of the package, and the records that they are trained on."""
        return [(OURS, SOME)] * self.held_out + [(method, ALL) for method in self.methods]

    def fits(self, method: str, records: str, seeds: Sequence[int]) -> list[Fit]:
        """One training for each seed."""
        target = {} if method == PLAIN else self.target
        kept = {} if records == SOME else {"certify_fraction": 0.0}
        settings = tuple({"epsilon": EPSILON, **kept, **target}.items())
        return [Fit(population=self.of_seed(s), method=method, seed=s, settings=settings) for s in seeds]

    def of_seed(self, seed: int) -> Population:
        """Where records are left out, others for every seed."""
        return self.population if self.population.n_train is None else replace(self.population, split=seed)

    def rivals_named(self, name: str, seeds: Sequence[int]) -> list[Rival]:
        """Trainings of a rival: for every seed if it or its records are random, with every learning rate it has."""
        seeds = seeds if name == DP_EBM or self.population.n_train else seeds[:1]
        rates = LEARNING_RATES if name == DP_EBM else (DEFAULT_RATE,)
        aim = float(str(self.target["max_gap"]))
        return [
            Rival(name=name, population=self.of_seed(seed), seed=seed, learning_rate=rate, max_gap=aim)
            for rate in rates
            for seed in seeds
        ]


CASES = (
    *(
        Case(population=people, target=NO_TARGET, methods=(OURS, PLAIN), rivals=TABLE_RIVALS, held_out=True)
        for people in (FULL, ADULT, CREDIT, FEW, SYNTHETIC)
    ),
    Case(population=FACES, target=NO_TARGET, held_out=True),
    *(
        Case(population=FULL, target={"max_gap": gap}, methods=(OURS, *AIMING), rivals=(REDUCTION,), held_out=True)
        for gap in (0.10, 0.05, 0.02)
    ),
    *(
        Case(population=FULL, target={"max_gap": 0.02, "parity": parity})
        for parity in ("equal_opportunity", "equalized_odds")
    ),
    Case(population=replace(FULL, by_race=True), target={"max_gap": 0.05}),
    Case(population=replace(FULL, by_every_race=True), target={"max_gap": 0.05}),
    *(Case(population=people, target={"min_ratio": 0.8}) for people in (FULL, ADULT)),
    *(Case(population=replace(SYNTHETIC, bias=bias), target={"min_ratio": 0.8}) for bias in (0.5, 1.0, 1.5)),
    *(Case(population=FACES, target={"max_gap": gap}) for gap in (0.10, 0.03)),
)
QUICK = (
    Case(population=SYNTHETIC, target=NO_TARGET, methods=(OURS, PLAIN), rivals=TABLE_RIVALS, held_out=True),
    Case(population=SYNTHETIC, target={"max_gap": 0.05}, methods=(OURS, *AIMING), rivals=(REDUCTION,)),
    Case(population=SYNTHETIC, target={"min_ratio": 0.8}),
)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """The runs of one line of the table."""

    case: Case
    method: str
    records: str
    runs: Sequence[Numbers]

    @property
    def row(self) -> Row:
        """Means over the runs."""
        case = {"population": str(self.case.population), "target": self.case.words}
        return Row.of({**case, "method": self.method, "records": self.records, "n_runs": len(self.runs)}, self.runs)


def tables_study(run: Run) -> Findings:
    """Mean and standard error over seeds of ours and of its rivals, on the same test records."""
    from fairdp_lab.drawing import target_figure

    cases = QUICK if run.quick else CASES
    found = [*_trained(cases, run), *_rivals(cases, run)]
    entries = [entry for case in cases for entry in found if entry.case == case]
    lacks = "" if has_dp_ebm() else "**DP-EBM is left out**: it is not installed (`pip install 'fairdp[lab]'`). "
    pairs = paired(entries)
    drawn = [entry.row for entry in entries if _is_drawn(entry, cases[0])]
    figures = {
        "epsilon": EPSILON,
        "without_dp_ebm": not has_dp_ebm(),
        "rows": plain(entry.row for entry in entries),
        "paired": plain(pairs),
    }
    data = str(cases[0].population)
    drawing = target_figure(plain(drawn), titles=TITLES, headline=f"Accuracy against the gap on {data}")
    return Findings(figures, lacks + _tables_text(entries, pairs), drawings={"": drawing})


def _trained(cases: Sequence[Case], run: Run) -> list[Entry]:
    """Methods of the package."""
    asked = [(case, *entry, case.fits(*entry, _seeds(case, run))) for case in cases for entry in case.entries]
    found = iter(run.trained([fit for *_, fits in asked for fit in fits]))
    return [
        Entry(case=case, method=method, records=records, runs=[next(found).numbers for _ in fits])
        for case, method, records, fits in asked
    ]


def _seeds(case: Case, run: Run) -> range:
    n_seeds = N_QUICK_SEEDS if run.quick else N_FACE_SEEDS if case.population == FACES else N_SEEDS
    return range(run.seed, run.seed + n_seeds)


def _rivals(cases: Sequence[Case], run: Run) -> list[Entry]:
    """Models by others; of DP-EBM its default, and the learning rate that is best on the test records."""
    asked = [
        (case, name, case.rivals_named(name, _seeds(case, run)))
        for case in cases
        for name in case.rivals
        if name != DP_EBM or has_dp_ebm()
    ]
    tasks = [task for *_, its in asked for task in its]
    numbers = dict(zip(tasks, run.done(reached, tasks, what="rivals"), strict=True))
    entries = []
    for case, name, its in asked:
        rates = {rate: [numbers[task] for task in its if task.learning_rate == rate] for rate in LEARNING_RATES}
        entries.append(Entry(case=case, method=name, records=ALL, runs=rates[DEFAULT_RATE]))
        if name == DP_EBM:
            entries.append(Entry(case=case, method=DP_EBM_TUNED, records=ALL, runs=rates[best_rate(rates)]))
    return entries


def paired(entries: Sequence[Entry]) -> list[Row]:
    """Ours minus each private rival, seed by seed, where there is no target."""
    rows = []
    for entry in entries:
        if entry.case.target != NO_TARGET or entry.method not in (PLAIN, DP_EBM, DP_EBM_TUNED):
            continue
        ours = next(one for one in entries if (one.case, one.method, one.records) == (entry.case, OURS, ALL))
        differences = [
            {name: mine[name] - theirs[name] for name in ("accuracy", "auc")}
            for mine, theirs in zip(ours.runs, entry.runs, strict=True)
        ]
        rows.append(Row.of({"population": str(entry.case.population), "method": entry.method}, differences))
    return rows


def _is_drawn(entry: Entry, first: Case) -> bool:
    """True if an entry is about the demographic parity gap of the first population, of all its records."""
    same = entry.case.population == first.population and entry.records == ALL
    return same and set(entry.case.target) == {"max_gap"}


def _tables_text(entries: Sequence[Entry], pairs: Sequence[Row]) -> str:
    n_seeds = sorted({len(entry.runs) for entry in entries if entry.method == OURS}, reverse=True)
    intro = (
        f"ε = {EPSILON:g}, δ = 1e-5, the defaults of each method; mean ± standard error over "
        f"{' or, for faces, '.join(map(str, n_seeds))} seeds, a single number where there was one run. Records: all of "
        "the training records, or some of them held out for the certificate, as by default. Gaps are those of the "
        "target's notion, on the test records and on the training records; the certified gap is that of demographic "
        "parity, and one bound of several that hold together with confidence .95. `dp_postprocess` asks for the group "
        "when it decides, the others do not.\n\n"
        "Rivals: DP-EBM (interpret) gets whole columns, with their types and bounds declared; *tuned* is the best of "
        f"{len(LEARNING_RATES)} learning rates by its accuracy on the test records, which favours it and is paid for "
        "by no ε. **Not private**: boosting (scikit-learn's HistGradientBoosting), logistic regression, and "
        "fairlearn's ExponentiatedGradient over logistic regression, whose randomised decisions count as expected.\n\n"
    )
    parts = []
    for is_without, group in groupby(entries, key=lambda entry: entry.case.target == NO_TARGET):
        title = "Without a target" if is_without else "With a target"
        parts.append(f"## {title}\n\n{table([_line(entry) for entry in group])}")
    if pairs:
        parts.append(f"## Ours minus private rivals, seed by seed\n\n{table([_pair_line(row) for row in pairs])}")
    return intro + "\n".join(parts)


def _pair_line(row: Row) -> dict[str, object]:
    named = {"data": row.named["population"], "ours minus": name_of(str(row.named["method"]))}
    return {**named, **row.texts({"accuracy": "accuracy", "auc": "AUC"}, digits=4)}


def _line(entry: Entry) -> dict[str, object]:
    case = entry.case
    target = {} if case.target == NO_TARGET else {"target": case.words}
    named = {"data": str(case.population), **target, "method": name_of(entry.method), "records": entry.records}
    return {**named, **entry.row.texts(_SHOWN, digits=4)}


def name_of(method: str) -> str:
    """A method as a table names it."""
    return TITLES.get(method, f"`{method}`")
