"""Record and replay: a run on one table, and the same run on its neighbours with all releases held fixed."""

import secrets
from collections.abc import Callable

from fairdp import _checks
from fairdp.audit.pairs import replay_route
from fairdp.audit.routes import routes_of
from fairdp.audit.violations import ReplayReport, Violation
from fairdp.audit.ways import FitFile, fit_file
from fairdp.methods import METHODS

__all__ = ["ReplayReport", "Violation", "replay"]


def replay(
    method: str,
    *,
    seed: int | None = None,
    observe: Callable[[str], None] = lambda line: None,
    quick: bool = False,
    fit: FitFile = fit_file,
) -> ReplayReport:
    """Record runs of a method and replay each on neighbouring tables: nothing unaccounted may depend on one record.

    Each route is taken once on a table and once more for each of its neighbours, which has one record more or less in
    the file itself. The replay draws the same coins and hands out the recorded releases. Checked are: the same releases
    in the same order, of the same shape and with the same noise; the distance of the exact values against what
    ``privacy.json`` accounts for the record's group; that nobody is both trained on and held out; and every byte of
    the saved folder. Methods that are not private have nothing to audit.

    Parameters
    ----------
    method
        One of ``fairdp.METHODS``.
    seed
        Of the table, its neighbours and all randomness; None for another one every time.
    observe
        Called with a line about each route before it is taken.
    quick
        Fewer routes, records and steps.
    fit
        How a file becomes a folder, such as the whole of `fairdp fit`.

    References
    ----------
    Auditing by record and replay: arXiv 2602.17454 (2026).
    """
    _checks.one_of(METHODS, method=method)
    report = ReplayReport()
    if not METHODS[method].private:
        return report
    seed = secrets.randbelow(2**31) if seed is None else seed
    for number, route in enumerate(routes_of(method, fit, quick=quick)):
        observe(f"replay of {method}: {route.name}")
        report += replay_route(method, route, seed=seed, rotation=number, quick=quick)
    return report + _never_tested(method, report)


def _never_tested(method: str, report: ReplayReport) -> ReplayReport:
    """A release that no neighbour moved on any route is reported: an audit that tests nothing must not pass."""
    found = tuple(
        Violation(
            method=method, route="all", neighbour="all", release="the audit", found=f"no neighbour moved any {part}"
        )
        for part in report.never_tested
    )
    return ReplayReport(violations=found)
