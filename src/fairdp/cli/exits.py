"""Exit codes of commands whose result misses what was asked of it."""

from typing import TYPE_CHECKING

import click

from fairdp._checks import InputError
from fairdp._format import bound_above
from fairdp.cli.flags import in_flags

if TYPE_CHECKING:
    from fairdp.certify.certificate import Certificate, NotCertified
    from fairdp.frontier.verdict import Verdict


def exit_unless_met(certificate: "Certificate | NotCertified", *, required: float | None) -> None:
    """End with exit code 1 if a bound was required beforehand and the certificate does not reach it."""
    from fairdp.certify.certificate import NotCertified

    if required is None:
        return
    missed = f"missed: --require-tau {required:g}:"
    if isinstance(certificate, NotCertified):
        reason = in_flags(InputError(certificate.reason.explanation), click.get_current_context().command)
        click.echo(f"{missed} not certified, because {reason}.", err=True)
    for metric, gap in certificate.gaps.items():
        if gap.claimed and gap.tau > required:
            click.echo(f"{missed} {metric} is certified at {bound_above(gap.tau)}.", err=True)
    if not certificate.met:
        raise click.exceptions.Exit(1)


def exit_unless_good(verdict: "Verdict", *, strict: bool) -> None:
    """End with exit code 1 if a target that the user stated is certainly missed, or if a good verdict was asked for."""
    target = verdict.target
    if target is not None and target.explicit and target.met == "no":
        flag = "--max-gap" if target.kind == "max_gap" else "--min-ratio"
        click.echo(f"missed: {flag} {target.value:g}: estimated at {target.estimate:.3f}.", err=True)
        raise click.exceptions.Exit(1)
    if strict and verdict.verdict != "good":
        click.echo(f"missed: --strict: the verdict is {verdict.verdict}.", err=True)
        raise click.exceptions.Exit(1)
