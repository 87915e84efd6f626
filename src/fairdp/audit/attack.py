"""All attacks of one command, with a failure probability that is shared among all of their tests."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from fairdp.audit.canaries import GUESSED, canary_run
from fairdp.audit.findings import Finding
from fairdp.audit.two_worlds import audit_release, single_releases
from fairdp.audit.whole_method import audit_method
from fairdp.methods import METHODS

# Chance of any false alarm in a whole command.
FALSE_ALARM = 1e-3
# Tests of a method: one release, and two views of one run with each share of guesses.
_TESTS_OF_A_METHOD = 1 + 2 * len(GUESSED)
# Draws of whole methods, as a share of those of a single release: each is a training.
_OF_METHODS = 5

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class MethodAttack:
    """What the attacks on one method found.

    Parameters
    ----------
    release
        The method as one release, in two worlds.
    one_run
        A training with canaries, by what is seen of it and by the number of guesses.
    """

    release: Finding
    one_run: tuple[Finding, ...]

    @property
    def epsilon(self) -> float:
        """The ε that is stated."""
        return self.release.epsilon

    @property
    def epsilon_lower(self) -> float:
        """The largest lower bound at the δ that is stated; one at a larger δ holds there all the more."""
        return max(test.epsilon_lower for test in self.findings if test.delta >= self.release.delta)

    @property
    def best_run(self) -> Finding:
        """The largest lower bound from one run, beside what is accounted at its δ."""
        return max(self.one_run, key=lambda test: test.epsilon_lower)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All tests."""
        return (self.release, *self.one_run)


@dataclass(frozen=True, kw_only=True)
class AttackReport:
    """What all attacks of one command found."""

    releases: tuple[Finding, ...]
    methods: dict[str, MethodAttack]
    n_tests: int

    @property
    def failed(self) -> list[Finding]:
        """The tests whose lower bound passes what is stated."""
        of_methods = [finding for found in self.methods.values() for finding in found.findings]
        return [finding for finding in (*self.releases, *of_methods) if not finding.passed]

    @property
    def passed(self) -> bool:
        """Whether no lower bound passes what is stated."""
        return not self.failed


def attack(
    methods: tuple[str, ...],
    *,
    epsilon: float,
    delta: float,
    n_draws: int,
    n_canaries: int,
    seed: int | None = None,
    say: Say = lambda line: None,
) -> AttackReport:
    """Attack the single releases of fairdp and every one of these methods, which are private.

    All tests together raise a false alarm with probability at most ``FALSE_ALARM`` (Bonferroni).
    """
    tested = single_releases(epsilon, delta)
    n_tests = len(tested) + _TESTS_OF_A_METHOD * len(methods)
    each = FALSE_ALARM / n_tests
    releases = []
    for release in tested:
        say(f"attack: {release.name}")
        releases.append(audit_release(release, n_draws=n_draws, failure_probability=each, seed=seed))
    found = {}
    for method in methods:
        say(f"attack: {method}")
        found[method] = _attack_method(method, epsilon, delta, n_draws, n_canaries, each, seed)
    return AttackReport(releases=tuple(releases), methods=found, n_tests=n_tests)


def _attack_method(
    method: str, epsilon: float, delta: float, n_draws: int, n_canaries: int, each: float, seed: int | None
) -> MethodAttack:
    assert METHODS[method].private
    release = audit_method(
        method,
        epsilon=epsilon,
        delta=delta,
        n_draws=n_draws // _OF_METHODS,
        n_canaries=n_canaries,
        failure_probability=each,
        seed=seed,
    )
    run = canary_run(method, epsilon=epsilon, delta=delta, n_canaries=n_canaries, seed=seed)
    found = [replace(test, test=f"{method}: {test.test}") for test in run.findings(failure_probability=each)]
    return MethodAttack(release=replace(release, test=f"{method}: {release.test}"), one_run=tuple(found))
