"""How often certificates are wrong where the truth is known, and whether broken ones would be noticed."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product

import numpy as np
from scipy.stats import binomtest

from fairdp._checks import InputError
from fairdp.experiments.studies.broken_twins import (
    certified_without_noise,
    clopper_pearson_without_noise,
    empty_cell_misses,
)
from fairdp.experiments.studies.implication import ARMS, ImplicationTask, check_implication
from fairdp.experiments.studies.known_truth import (
    CONFIDENCE,
    FAILURE_PROBABILITY,
    Checked,
    Setting,
    adult_population,
    finite_certificates,
    synthetic_certificates,
    synthetic_truths,
)
from fairdp.experiments.studies.results import Findings, Run, table

# A construction that breaks its promise is called caught when keeping it would make so many events this unlikely.
CAUGHT = 1e-6


@dataclass(frozen=True)
class Tally:
    """Events against a promised rate, and the chance of so many if each had the promised probability at most."""

    events: int
    trials: int
    promised: float = FAILURE_PROBABILITY

    @classmethod
    def of(cls, results: Sequence[Checked]) -> "Tally":
        """Certificates that claim something false."""
        return cls(sum(result.violations for result in results), sum(result.trials for result in results))

    @property
    def p_value(self) -> float:
        """The chance of at least so many events."""
        return float(binomtest(self.events, self.trials, self.promised, alternative="greater").pvalue)

    def to_json(self) -> dict[str, object]:
        """Plain values."""
        return {**asdict(self), "rate": self.events / self.trials, "p_value": self.p_value}

    def line(self, label: str) -> dict[str, object]:
        """What a table says of it."""
        numbers = {"rate": self.events / self.trials, "promised": self.promised, "p-value": self.p_value}
        return {"": label, "wrong": f"{self.events:,}", "of": f"{self.trials:,}", **numbers}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much of everything is done.

    Parameters
    ----------
    certificates, many_groups, truths
        Settings on the synthetic population: full certificates for few and for 16 groups, and cheaper checks for 16.
    n_bounds
        Bounds for each of the settings of the implication, at each of two levels.
    adult_tasks, adult_certificates
        Certificates on the Adult records: how many tasks of how many.
    twin_tasks, n_certified_twins, n_plain_twins, n_draws
        Broken certificates: the construction itself in tasks of so many, plain binomial bounds, draws of empty cells.
    """

    certificates: tuple[Setting, ...]
    many_groups: tuple[Setting, ...]
    truths: tuple[Setting, ...]
    n_bounds: int
    adult_tasks: int
    adult_certificates: int
    twin_tasks: int
    n_certified_twins: int
    n_plain_twins: int
    n_draws: int


def settings(
    n_groups: Sequence[int], sizes: Sequence[int], epsilons: Sequence[float], offsets: Sequence[float], *, n_runs: int
) -> tuple[Setting, ...]:
    """Every combination."""
    return tuple(
        Setting(n_groups=k, n_samples=n, epsilon=epsilon, offset=offset, n_runs=n_runs)
        for k, n, epsilon, offset in product(n_groups, sizes, epsilons, offsets)
    )


EPSILONS = (0.1, 0.5, 1.0, 4.0)
# Positive decisions about as frequent as positive labels, and rare ones.
OFFSETS = (0.6, 1.8)
FULL = Plan(
    certificates=settings((2, 4), (40, 200, 1_000, 5_000, 30_000), EPSILONS, OFFSETS, n_runs=25),
    many_groups=settings((16,), (200, 3_000, 30_000), EPSILONS, OFFSETS, n_runs=1),
    truths=settings((16,), (200, 3_000, 30_000), EPSILONS, OFFSETS, n_runs=40),
    n_bounds=72,
    adult_tasks=20,
    adult_certificates=10,
    twin_tasks=4,
    n_certified_twins=50,
    n_plain_twins=2_000,
    n_draws=200_000,
)
QUICK = Plan(
    certificates=settings((2, 4), (40, 2_000), (1.0,), (0.6,), n_runs=2),
    many_groups=settings((16,), (3_000,), (4.0,), (0.6,), n_runs=1),
    truths=settings((16,), (30_000,), (1.0, 4.0), (0.6,), n_runs=10),
    n_bounds=1,
    adult_tasks=1,
    adult_certificates=3,
    twin_tasks=1,
    n_certified_twins=30,
    n_plain_twins=300,
    n_draws=20_000,
)
# Where noise is large beside the counts and the groups differ enough for a bound that is too small to be seen.
TWIN = Setting(n_groups=2, n_samples=1_000, epsilon=0.1, offset=0.0, n_runs=1)


def coverage_study(run: Run) -> Findings:
    """All four parts; the Adult model is trained first, so that missing data are noticed at once."""
    return carry_out(QUICK if run.quick else FULL, run)


def carry_out(plan: Plan, run: Run) -> Findings:
    """The study in any size."""
    adult = _adult(plan, run)
    parts = {"synthetic": _synthetic(plan, run), "implication": _implication(plan, run), "adult": adult}
    parts["broken_twins"] = _twins(plan, run)
    figures = {name: part.figures for name, part in parts.items()}
    return Findings({"confidence": CONFIDENCE, **figures}, "\n".join(part.text for part in parts.values()))


def _adult(plan: Plan, run: Run) -> Findings:
    """Certificates on Adult records, or why there are none."""
    title = "## Adult records that the model never saw, as the population\n\n"
    run.say("training a model on Adult")
    try:
        population = adult_population(n_runs=plan.adult_certificates)
    except (OSError, InputError) as error:
        run.say(f"without the Adult part: {error}")
        return Findings({"not_run": str(error)}, f"{title}Not run: {error}\n")
    results = run.done(finite_certificates, [population] * plan.adult_tasks, what="certificates on Adult")
    tally, gaps = Tally.of(results), results[0].true_gaps
    taus = {name: float(np.mean([result.mean_tau[name] for result in results])) for name in gaps}
    sample = f"Samples of {population.n_samples:,} with replacement, ε = {population.epsilon:g}.\n\n"
    bounds = table([{"metric": name, "true gap": gaps[name], "mean certified τ": taus[name]} for name in gaps])
    about = {"n_samples": population.n_samples, "epsilon": population.epsilon, "true_gaps": gaps, "mean_tau": taus}
    return Findings({**about, **tally.to_json()}, f"{title}{sample}{table([tally.line('certificates')])}\n{bounds}")


def _synthetic(plan: Plan, run: Run) -> Findings:
    few = run.done(synthetic_certificates, plan.certificates, what="certificates")
    many = run.done(synthetic_certificates, plan.many_groups, what="certificates of 16 groups")
    lost = run.done(synthetic_truths, plan.truths, what="truths of 16 groups")
    full = list(zip((*plan.certificates, *plan.many_groups), (*few, *many), strict=True))
    everything = Tally.of([result for _, result in full])
    rejected = Tally(sum(lost), sum(setting.n_runs for setting in plan.truths))
    figures: dict[str, object] = {"all": everything.to_json(), "truth_rejected_16_groups": rejected.to_json()}
    lines = [everything.line("all certificates")]
    for key, label in (("n_groups", "groups"), ("n_samples", "records"), ("epsilon", "= ε")):
        values = sorted({getattr(setting, key) for setting, _ in full})
        tallies = {
            f"{value:g}": Tally.of([result for setting, result in full if getattr(setting, key) == value])
            for value in values
        }
        figures[f"by_{key}"] = {value: tally.to_json() for value, tally in tallies.items()}
        lines += [tally.line(f"{value} {label}") for value, tally in tallies.items()]
    lines.append(rejected.line("16 groups, truth rejected"))
    claims = {
        claim: sum(result.violations_by_claim[claim] for _, result in full) for claim in few[0].violations_by_claim
    }
    figures |= {
        "by_claim": claims,
        "settings": [{**asdict(setting), **asdict(result)} for setting, result in full],
        "settings_truth": [
            {**asdict(setting), "trials": setting.n_runs, "violations": n_lost}
            for setting, n_lost in zip(plan.truths, lost, strict=True)
        ],
    }
    text = (
        "## Certificates of fixed linear rules on the synthetic population\n\n"
        f"A certificate claims all three gaps and a ratio together, with confidence {CONFIDENCE}; it is wrong if any "
        "claim is. The p-value is the chance of so many wrong ones if the promise is just kept. The last line checks "
        "instead that the true rates are not rejected, which is all that a certificate rests on.\n\n"
        f"{table(lines)}\nWrong claims: {', '.join(f'{claim} {count}' for claim, count in claims.items())}.\n"
    )
    return Findings(figures, text)


def _implication(plan: Plan, run: Run) -> Findings:
    """Counts at the usual level, and at one where truths are rejected often."""
    levels = (FAILURE_PROBABILITY, 0.4)
    tasks = [ImplicationTask(arms, level, plan.n_bounds) for level in levels for arms in ARMS]
    results = list(zip(tasks, run.done(check_implication, tasks, what="implication"), strict=True))
    bounds, broken = sum(result.bounds for _, result in results), sum(result.broken for _, result in results)
    figures: dict[str, object] = {"bounds": bounds, "broken": broken}
    lines = []
    for level in levels:
        its = [result for task, result in results if task.failure_probability == level]
        counts = {name: sum(getattr(result, name) for result in its) for name in ("missed", "broken")}
        rejected = Tally(sum(result.rejected for result in its), sum(result.bounds for result in its), level)
        figures[f"level_{level:g}"] = {"rejected": rejected.to_json(), **counts}
        shown = {"bounds below the truth": counts["missed"], "broken": counts["broken"]}
        lines.append({**rejected.line(f"truth rejected, level {level:g}"), **shown})
    figures["settings"] = [
        {**asdict(task.arms), "failure_probability": task.failure_probability, **asdict(result)}
        for task, result in results
    ]
    text = (
        "## A truth that is not rejected lies within the bound\n\n"
        f"{bounds:,} bounds on difference and ratio, with empty cells, rates of zero and one, and groups of "
        f"three: {broken} broken implications (there may be none).\n\n{table(lines)}"
    )
    return Findings(figures, text)


def _twins(plan: Plan, run: Run) -> Findings:
    def missed(function: Callable[[Setting, np.random.Generator], int], n_tasks: int, n_runs: int, what: str) -> Tally:
        tasks = [replace(TWIN, n_runs=n_runs)] * n_tasks
        return Tally(sum(run.done(function, tasks, what=what)), n_tasks * n_runs)

    tallies = {
        "certified_without_noise": missed(
            certified_without_noise, plan.twin_tasks, plan.n_certified_twins, "certified as if counts were exact"
        ),
        "clopper_pearson_without_noise": missed(
            clopper_pearson_without_noise, 1, plan.n_plain_twins, "Clopper–Pearson on noisy counts"
        ),
    }
    # The shortcut for a group without anybody, at a usual and at a large level, beside the proper bound.
    rng = np.random.default_rng([run.seed, *b"empty cells"])
    for level in (FAILURE_PROBABILITY / 12, 0.1):
        misses = empty_cell_misses(rng, epsilon=4.0, folds=2, failure_probability=level, n_draws=plan.n_draws)
        for name, count in misses.items():
            tallies[f"empty_cell_{name}_{level:.2g}"] = Tally(count, plan.n_draws, level)
    caught = {name: tally.p_value < CAUGHT for name, tally in tallies.items() if "proper" not in name}
    figures = {
        name: {**tally.to_json(), **({"caught": caught[name]} if name in caught else {})}
        for name, tally in tallies.items()
    }
    words = {True: "yes", False: "no", None: "–"}
    lines = [
        {**tally.line(name.replace("_", " ")), "caught": words[caught.get(name)]} for name, tally in tallies.items()
    ]
    text = (
        "## Certificates with a mistake, which must be caught\n\n"
        "The first two take noisy counts for exact ones (ε = 0.1). The others bound the rate of a group without "
        "anybody (ε = 4): the shortcut raises its least possible size to one, the proper bound does not.\n\n"
        f"{table(lines)}"
    )
    return Findings(figures, text)
