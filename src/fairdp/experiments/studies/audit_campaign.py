"""Many small audits: how often a lower bound passes the ε that is stated, and how often one is found in nothing."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from scipy.stats import binomtest

from fairdp.audit.canaries import CanaryRun, canary_run
from fairdp.audit.findings import Finding
from fairdp.audit.whole_method import audit_method
from fairdp.experiments.studies.results import Findings, Run, table
from fairdp.methods import METHODS

EPSILONS = (0.5, 1.0, 2.0, 4.0)
DELTA = 1e-5
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


@dataclass(frozen=True, kw_only=True)
class Audited:
    """What the tests of one small audit found; ``lower`` by the names of ``TESTS``, beside what each must not pass."""

    method: str
    epsilon: float
    lower: dict[str, float]
    limit: dict[str, float]

    def passed_limit(self, test: str) -> bool:
        """Whether a lower bound says too much."""
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
    return Findings(figures, _text(len(audited), totals, rows))


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
    """How often a bound said too much, and how unlikely that is if it does so no more often than is stated."""
    events = sum(a.passed_limit(test) for a in audited)
    found = binomtest(events, len(audited), FAILURE_PROBABILITY, alternative="greater")
    return {"passed": events, "share": events / len(audited), "p_value": float(found.pvalue)}


def _text(n_runs: int, totals: dict[str, dict[str, float]], rows: Sequence[dict[str, object]]) -> str:
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
