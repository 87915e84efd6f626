"""The data holder's appendix: exact figures of `fairdp evaluate`, which never stand on a page that may be published."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairdp._checks import InputError
from fairdp._files import content_of, parsed_json
from fairdp.report.model import ModelReport

MARK = "NOT TO BE PUBLISHED"


@dataclass(frozen=True, kw_only=True)
class ExactFigure:
    """One metric, with the ends of its interval where there is one, and its values by group where it has some."""

    name: str
    value: str
    interval: str = ""


@dataclass(frozen=True, kw_only=True)
class Appendix:
    """Exact figures of a model on test records."""

    n_test: int
    confidence: float
    figures: tuple[ExactFigure, ...]
    warnings: tuple[str, ...]


def read_appendix(path: Path, report: ModelReport) -> Appendix:
    """The evaluation in a JSON file; it must be of the report's method, with the report's groups."""
    try:
        record = parsed_json(content_of(path))
        method, metrics = str(record["method"]), record["metrics"]
        found = Appendix(
            n_test=int(record["n_test"]),
            confidence=float(record["confidence"]),
            figures=tuple(_figures(metrics, record["intervals"])),
            warnings=tuple(map(str, record["warnings"])),
        )
        groups = set(metrics["positive_rate_by_group"])
    except (ArithmeticError, ValueError, LookupError, TypeError, AttributeError):
        raise InputError(
            f"{str(path)!r} holds no evaluation; make it with: fairdp evaluate MODEL TABLE --json > FILE."
        ) from None
    if method != report.method_name or groups != set(report.about.groups):
        raise InputError(
            f"the evaluation in {str(path)!r} is of another model: its method is {method!r}, its groups are "
            f"{', '.join(sorted(groups))}; evaluate this one."
        )
    return found


def _figures(metrics: Mapping[str, Any], intervals: Mapping[str, Any]) -> list[ExactFigure]:
    found = []
    for name, value in metrics.items():
        words = name.replace("_", " ")
        if isinstance(value, Mapping):
            found += [ExactFigure(name=f"{words}: {group}", value=_number(own)) for group, own in value.items()]
            continue
        ends = intervals.get(name)
        interval = "" if ends is None else f"{_number(ends[0])} to {_number(ends[1])}"
        found.append(ExactFigure(name=words, value=_number(value), interval=interval))
    return found


def _number(value: Any) -> str:
    return "–" if value is None or math.isnan(value) else f"{value:.4f}"
