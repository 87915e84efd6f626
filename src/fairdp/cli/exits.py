"""Exit codes: what they are, and which a result has that misses what was asked of it."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from fairdp._checks import InputError
from fairdp._format import bound_above
from fairdp.cli.flags import in_flags
from fairdp.commands.progress import say

if TYPE_CHECKING:
    from fairdp.certify.certificate import Certificate, NotCertified
    from fairdp.frontier.verdict import Verdict

DONE, MISSED, BAD_INPUT, INTERNAL = 0, 1, 2, 3


@contextmanager
def to_any_reader() -> Iterator[None]:
    """Print to somebody who may have seen enough (`fairdp … | head`): no failure, and it hides no miss."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except SystemExit as stop:
        # By which rich says the same, having done the same.
        if not isinstance(stop.__context__, BrokenPipeError):
            raise


def exit_unless_met(certificate: "Certificate | NotCertified", *, required: float | None) -> None:
    """End with exit code 1 if a bound was required beforehand and the certificate does not reach it."""
    from fairdp.certify.certificate import NotCertified

    if required is None:
        return
    missed = f"missed: --require-tau {required:g}:"
    if isinstance(certificate, NotCertified):
        reason = in_flags(InputError(certificate.reason.explanation), click.get_current_context().command)
        say(f"{missed} not certified, because {reason}.")
    for metric, gap in certificate.gaps.items():
        if gap.claimed and gap.tau > required:
            say(f"{missed} {metric} is certified at {bound_above(gap.tau)}.")
    if not certificate.met:
        raise click.exceptions.Exit(MISSED)


def exit_unless_good(verdict: "Verdict", *, strict: bool) -> None:
    """End with exit code 1 if a target that the user stated is certainly missed, or if a good verdict was asked for."""
    target = verdict.target
    if target is not None and target.explicit and target.met == "no":
        flag = "--max-gap" if target.kind == "max_gap" else "--min-ratio"
        say(f"missed: {flag} {target.value:g}: estimated at {target.estimate:.3f}.")
        raise click.exceptions.Exit(MISSED)
    if strict and verdict.verdict != "good":
        say(f"missed: --strict: the verdict is {verdict.verdict}.")
        raise click.exceptions.Exit(MISSED)
