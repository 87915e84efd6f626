"""`fairdp audit`: replay neighbours of the records and attack the training."""

import math
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairdp.cli.options import json_option, parameter_options, seed_option
from fairdp.commands.progress import say

if TYPE_CHECKING:
    from fairdp.audit.findings import Finding
    from fairdp.commands.audit import AuditReport

# Draws of a single release and canaries of a training; with --quick.
_THOROUGH, _QUICK = (100_000, 1000), (20_000, 200)


@click.command(
    epilog="""\b
Examples:
  fairdp audit
  fairdp audit --method fairdp --epsilon 4 --only attack
  fairdp audit --quick --out audit.json && fairdp report model/ --audit audit.json
"""
)
@click.option(
    "--method", default="all", show_default=True, help="A method of `fairdp methods`, or all.", metavar="NAME"
)
@click.option("--epsilon", type=float, default=1.0, show_default=True, help="The ε that methods state in the audit.")
@parameter_options("delta")
@click.option("--only", type=click.Choice(["replay", "attack"]), help="Do only one of the two parts.")
@click.option(
    "--draws",
    type=click.IntRange(min=1000),
    help=f"Draws of a single release, with a record and as many without.  [default: {_THOROUGH[0]}]",
)
@click.option(
    "--canaries",
    type=click.IntRange(min=20, max=5000),
    help=f"Records of one training that are in it by a coin each.  [default: {_THOROUGH[1]}]",
)
@click.option("--quick", is_flag=True, help=f"{_QUICK[0]} draws, {_QUICK[1]} canaries and fewer replays: sooner.")
@seed_option("Seed for repeatable experiments.  [default: the operating system's randomness]")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="JSON file for the results.")
@click.option("--overwrite", is_flag=True, help="Replace the file that is at --out.")
@json_option
def audit(
    method: str,
    epsilon: float,
    delta: float,
    only: str | None,
    draws: int | None,
    canaries: int | None,
    quick: bool,
    seed: int | None,
    out: Path | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Check what is claimed about privacy: replay neighbours of the records, and attack the training.

    Replay compares every release and every file with and without a record. Attack tries to tell from the releases
    whether a record was there, and states the ε that this proves. Both use built-in records. Exit code 1 if a release
    moved by more than is accounted, or if a lower bound passes the stated ε, which happens to a correct program in at
    most one of a thousand runs.
    """
    from fairdp.cli.printing import print_json
    from fairdp.commands.audit import PARTS, AuditSettings, methods_named, run_audit

    n_draws, n_canaries = _QUICK if quick else _THOROUGH
    settings = AuditSettings(
        methods=methods_named(method),
        epsilon=epsilon,
        delta=delta,
        n_draws=draws or n_draws,
        n_canaries=canaries or n_canaries,
        seed=seed,
        parts=PARTS if only is None else (only,),
        quick=quick,
    )
    report = run_audit(settings, out=out, overwrite=overwrite, say=(lambda line: None) if as_json else say)
    if as_json:
        print_json(report.to_json())
    else:
        print_audit(report)
    if not report.passed:
        raise click.exceptions.Exit(1)


def print_audit(report: "AuditReport") -> None:
    """Single releases, then methods, then all that is wrong."""
    from fairdp.audit.attack import FALSE_ALARM
    from fairdp.cli.tables import print_table

    settings, attacks = report.settings, report.attacks
    if attacks is not None:
        at = f"ε stated at δ = {settings.delta:g}, or pure"
        print_table(f"Single releases; {at}", [_row(test) for test in attacks.releases], headers=("", *_BOUNDS))
    if settings.private:
        rows = [_method_row(report, method) for method in settings.private]
        headers = ("method", "replayed", "violated", *_BOUNDS, "one run")
        print_table("Methods", rows, headers=headers, wrap_numbers=False)
    for method in settings.methods:
        if method not in settings.private:
            click.echo(f"{method}: not private, nothing to audit.")
    for method, replayed in (report.replays or {}).items():
        for route, part in replayed.untested:
            click.echo(f"{method}: no neighbour moved any {part} on the route {route!r}; other routes tested it.")
    for violation in report.violations:
        where = f"{violation.method}, {violation.route}, {violation.neighbour}, {violation.release}"
        click.echo(f"VIOLATION: {where}: {violation.found}")
    for test in [] if attacks is None else attacks.failed:
        click.echo(f"VIOLATION: {test.test}: ε is at least {test.epsilon_lower:.4f}, stated {test.epsilon:.4f}.")
    if attacks is not None:
        often = f"one of {round(1 / FALSE_ALARM):,} runs"
        click.echo(f"{attacks.n_tests} tests; in at most {often} does a bound pass an ε that is true.")
    click.echo("Nothing contradicts what is stated." if report.passed else "NOT as stated.")


_BOUNDS = ("ε stated", "at least")


def _method_row(report: "AuditReport", method: str) -> tuple[str, ...]:
    cells = [method, "–", "–", "–", "–", "–"]
    if report.replays is not None:
        replayed = report.replays[method]
        cells[1:3] = f"{replayed.releases:,}", str(len(replayed.violations))
    if report.attacks is not None:
        found = report.attacks.methods[method]
        _, stated, shown = _row(found.best_run)
        # The bound of one run has a smaller δ, and what is stated at it is more.
        cells[3:] = *_row(found.release)[1:], f"{shown} of {stated}"
    return tuple(cells)


def _row(finding: "Finding") -> tuple[str, str, str]:
    """What was tested, what is stated, and what the attack shows, rounded to the safe side."""
    stated, shown = math.ceil(1e3 * finding.epsilon) / 1e3, math.floor(1e3 * finding.epsilon_lower) / 1e3
    return finding.test, f"{stated:.3f}", f"{shown:.3f}"
