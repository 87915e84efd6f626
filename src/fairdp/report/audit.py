"""The results of `fairdp audit` as a report shows them: of the program that made a model, not of the model."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairdp._checks import InputError
from fairdp._files import content_of, parsed_json


@dataclass(frozen=True, kw_only=True)
class AuditLine:
    """One test: the ε that is stated, at its δ, and the ε that the attack shows."""

    test: str
    epsilon: float
    delta: float
    epsilon_lower: float

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> "AuditLine":
        """From a test of an audit, which holds more."""
        numbers = {name: float(record[name]) for name in ("epsilon", "delta", "epsilon_lower")}
        return cls(test=str(record["test"]), **numbers)

    @property
    def stated(self) -> str:
        """What is stated, rounded up."""
        at = f"δ = {self.delta:g}" if self.delta else "pure"
        return f"{math.ceil(1e3 * self.epsilon) / 1e3:.3f}, {at}"

    @property
    def shown(self) -> str:
        """What the attack shows, rounded down."""
        return f"{math.floor(1e3 * self.epsilon_lower) / 1e3:.3f}"


@dataclass(frozen=True, kw_only=True)
class AuditSection:
    """What an audit says about one method.

    Parameters
    ----------
    passed
        Whether nothing in the whole audit contradicts what is stated.
    lines
        The attacks on single releases and on the method; none where they were left out.
    releases, violations
        Replayed releases and what is wrong with them; None where the replay was left out.
    """

    method: str
    private: bool
    passed: bool
    lines: tuple[AuditLine, ...]
    releases: int | None
    violations: tuple[str, ...]


def read_audit(path: Path, method: str) -> AuditSection:
    """What the file of an audit says about a method."""
    try:
        record = parsed_json(content_of(path))
        if method in record["methods"]:
            return _section(record, record["methods"][method], method)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(
            f"{str(path)!r} holds no results of an audit; make them with: fairdp audit --out FILE."
        ) from None
    raise InputError(
        f"the audit in {str(path)!r} is not about {method!r}; run: fairdp audit --method {method} --out FILE."
    )


def _section(record: Mapping[str, Any], found: Mapping[str, Any], method: str) -> AuditSection:
    attack, replay = found.get("attack"), found.get("replay")
    tests = [] if attack is None else [*record["releases"], attack["tests"][0], attack["one_run"]]
    wrong = [] if replay is None else replay["violations"]
    return AuditSection(
        method=method,
        private=bool(found["private"]),
        passed=record["passed"] is True,
        lines=tuple(AuditLine.of(test) for test in tests),
        releases=None if replay is None else int(replay["releases"]),
        violations=tuple(f"{entry['neighbour']}, {entry['release']}: {entry['found']}" for entry in wrong),
    )
