"""`fairdp audit`: replay neighbours, attack every method, and set what is found beside what is stated."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from fairdp import errors
from fairdp._io import json_bytes, refuse_existing, write_out
from fairdp.accounting.mechanisms import PrivacyBudget
from fairdp.errors import ParameterError
from fairdp.methods import METHODS
from fairdp_lab.audit.attack import FALSE_ALARM, AttackReport, Finding, MethodAttack, Say, attack, n_declared
from fairdp_lab.audit.replay import ReplayReport, Violation
from fairdp_lab.audit.replay import replay as replay_method
from fairdp_lab.audit.routes import fit_as_command

ALL = "all"
PARTS = ("replay", "attack")


class Replay(Protocol):
    """Replays one method on neighbouring records."""

    def __call__(self, method: str, *, seed: int | None, observe: Say) -> ReplayReport: ...


@dataclass(frozen=True, kw_only=True)
class AuditSettings:
    """Methods to audit, and the size of the audit.

    Parameters
    ----------
    methods
        Names of methods; those that are not private are named in the report and left alone.
    n_draws
        Draws of a single release in each world.
    n_canaries
        Canaries of one training.
    parts
        Which of ``PARTS`` to do.
    quick
        Whether to replay fewer routes, records and steps.
    """

    methods: tuple[str, ...]
    epsilon: float
    delta: float
    n_draws: int
    n_canaries: int
    seed: int | None = None
    parts: tuple[str, ...] = PARTS
    quick: bool = False

    def __post_init__(self) -> None:
        for method in self.methods:
            errors.one_of(METHODS, method=method)
        errors.finite_positive(epsilon=self.epsilon)
        PrivacyBudget(epsilon=self.epsilon, delta=self.delta).check_for(n_declared(self.n_canaries))

    @property
    def private(self) -> tuple[str, ...]:
        """The methods that claim an ε."""
        return tuple(method for method in self.methods if METHODS[method].private)


@dataclass(frozen=True, kw_only=True)
class AuditReport:
    """Findings of an audit; None where a part was not asked for."""

    settings: AuditSettings
    replays: dict[str, ReplayReport] | None
    attacks: AttackReport | None

    @property
    def violations(self) -> list[Violation]:
        """Everything that moved by more than is accounted."""
        return [violation for replayed in (self.replays or {}).values() for violation in replayed.violations]

    @property
    def passed(self) -> bool:
        """True if nothing moved too far and no lower bound passes what is stated."""
        return not self.violations and (self.attacks is None or self.attacks.passed)

    def to_json(self) -> dict[str, Any]:
        """The fields that programs read."""
        settings, attacks = self.settings, self.attacks
        return {
            "passed": self.passed,
            "epsilon": settings.epsilon,
            "delta": settings.delta,
            "seeded": settings.seed is not None,
            "false_alarm": None if attacks is None else FALSE_ALARM,
            "n_tests": None if attacks is None else attacks.n_tests,
            "releases": [] if attacks is None else [_finding_json(finding) for finding in attacks.releases],
            "methods": {method: self._method_json(method) for method in settings.methods},
        }

    def _method_json(self, method: str) -> dict[str, Any]:
        found: dict[str, Any] = {"private": METHODS[method].private}
        if self.replays is not None and method in self.replays:
            found["replay"] = _replay_json(self.replays[method])
        if self.attacks is not None and method in self.attacks.methods:
            found["attack"] = _attack_json(self.attacks.methods[method])
        return found


def run_audit(
    settings: AuditSettings,
    *,
    out: Path | None = None,
    overwrite: bool = False,
    say: Say = lambda line: None,
    replay: Replay | None = None,
) -> AuditReport:
    """Audit the private methods among those that were named, and write what was found to a file, if one is named."""
    if out is not None and not out.absolute().parent.is_dir():
        raise ParameterError("out", str(out), "lies in a folder that does not exist", "make it first")
    if out is not None:
        refuse_existing(out, overwrite=overwrite)
    replays, attacks = None, None
    if "replay" in settings.parts and settings.private:
        replay = replay or _replay(quick=settings.quick)
        replays = {method: replay(method, seed=settings.seed, observe=say) for method in settings.private}
    if "attack" in settings.parts and settings.private:
        attacks = attack(
            settings.private,
            epsilon=settings.epsilon,
            delta=settings.delta,
            n_draws=settings.n_draws,
            n_canaries=settings.n_canaries,
            seed=settings.seed,
            say=say,
        )
    report = AuditReport(settings=settings, replays=replays, attacks=attacks)
    if out is not None:
        write_out(out, json_bytes(report.to_json()))
    return report


def methods_named(name: str) -> tuple[str, ...]:
    """The methods that a name stands for: itself, or all of them."""
    return tuple(METHODS) if name == ALL else (name,)


def _replay(*, quick: bool) -> Replay:
    """Replays that go the whole way of `fairdp fit`."""

    def replayed(method: str, *, seed: int | None, observe: Say) -> ReplayReport:
        return replay_method(method, seed=seed, observe=observe, quick=quick, fit=fit_as_command)

    return replayed


def _replay_json(replayed: ReplayReport) -> dict[str, Any]:
    names = ("method", "route", "neighbour", "release", "found")
    return {
        "releases": replayed.releases,
        "neighbours": replayed.neighbours,
        "files": replayed.files,
        "untested": [{"route": route, "release": part} for route, part in replayed.untested],
        "violations": [{name: getattr(violation, name) for name in names} for violation in replayed.violations],
    }


def _attack_json(found: MethodAttack) -> dict[str, Any]:
    return {
        "epsilon_lower": found.epsilon_lower,
        "epsilon": found.epsilon,
        "delta": found.release.delta,
        "one_run": _finding_json(found.best_run),
        "tests": [_finding_json(finding) for finding in found.findings],
    }


def _finding_json(finding: Finding) -> dict[str, Any]:
    return {**asdict(finding), "passed": finding.passed}
