"""Options that several commands share, and how numbers are read from the command line."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairdp._checks import InputError
from fairdp._format import bound_above
from fairdp.cli.flags import in_flags
from fairdp.config.training import DEFAULT_METHOD

if TYPE_CHECKING:
    from fairdp.certify.certificate import Certificate, NotCertified
    from fairdp.commands.records import Source

Command = Callable[..., Any]


def output_options(command: Command) -> Command:
    """``--json`` and ``--seed``, which every command has."""
    command = click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, nothing else there.")(
        command
    )
    return click.option(
        "--seed",
        type=click.IntRange(min=0),
        help="For repeatable experiments; a model's guarantee then holds only while the seed is secret.",
    )(command)


def table_options(command: Command) -> Command:
    """How a user's own table is read, and what of it is kept for testing."""
    options = (
        click.option("--label", help="Column to predict; two values."),
        click.option("--positive", help="The label's value that counts as positive."),
        click.option(
            "--sensitive",
            callback=names,
            help="Protected columns, separated by commas; several make intersections.",
        ),
        click.option(
            "--schema",
            type=click.Path(path_type=Path),
            help="Declared types, categories and bounds (YAML, JSON).",
        ),
        click.option("--test-fraction", type=float, default=0.2, show_default=True, help="Held-out part of TABLE."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def taken_source(parameters: dict[str, Any]) -> "Source":
    """Where the records of a command come from, taken out of its options."""
    from fairdp.commands.records import Source

    names_of_options = ("table", "dataset", "label", "positive", "sensitive", "schema", "test_fraction")
    own = {name: parameters.pop(name) for name in names_of_options}
    return Source(**{**own, "sensitive": own["sensitive"] or ()})


def training_options(command: Command) -> Command:
    """The numbers of a run; what is left out gets the default of the model kind."""
    options = (
        click.option("--method", default=DEFAULT_METHOD, show_default=True, help="Training method: `fairdp methods`."),
        click.option("--epsilon", type=float, default=1.0, show_default=True, help="Privacy budget ε; inf: no noise."),
        click.option("--delta", type=float, default=1e-5, show_default=True, help="Privacy budget δ, below 1/n."),
        click.option(
            "--sample-rate",
            type=float,
            help="Chance of a record to be in a batch, q.  [default: 0.3; images 0.05; other methods 0.01 on tables]",
        ),
        click.option("--n-steps", type=int, help="Number of steps, T.  [default: 400; images 300; other methods 2000]"),
        click.option("--clip-norm", type=float, help="Bound on one record's gradient, C.  [default: 1]"),
        click.option("--weight-bound", type=float, default=1.0, show_default=True, help="Bound on the head, M."),
        click.option("--n-members", type=int, default=10, show_default=True, help="Heads of the ensemble, N."),
        click.option(
            "--noise-allocation",
            type=click.Choice(["per_group", "average"]),
            default="per_group",
            show_default=True,
            help="Noise for every group (the paper), or one draw on their average (less noise, same ε).",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def target_options(command: Command) -> Command:
    """What methods with a target, a penalty, a grouping or a smoothing of their own take."""
    options = (
        click.option(
            "--parity",
            type=click.Choice(["demographic_parity", "equal_opportunity", "equalized_odds"]),
            default="demographic_parity",
            show_default=True,
            help="Rates that should agree; fairdp_parity, raco_dp, dp_postprocess.",
        ),
        click.option(
            "--max-gap",
            type=float,
            help="Difference that is aimed at, not guaranteed: see --require-tau.  [default: 0.03]",
        ),
        click.option("--min-ratio", type=float, help="Smallest over largest rate that is aimed at, such as 0.8."),
        click.option("--positive-rate", type=float, help="Share of positive decisions that is aimed at."),
        click.option("--fairness-weight", type=float, default=10.0, show_default=True, help="Penalty of dp_fermi."),
        click.option(
            "--grouping",
            type=click.Choice(["attribute", "attribute_and_label"]),
            default="attribute",
            show_default=True,
            help="What dp_is_sgd samples equally often.",
        ),
        click.option("--max-sample-rate", type=float, default=1.0, show_default=True, help="Cap of dp_is_sgd's rates."),
        click.option(
            "--parameter-noise",
            type=float,
            default=0.1,
            show_default=True,
            help="Deviation of the smoothing; fairsmooth, dpsgd_smooth, fairfm_smooth.",
        ),
        click.option("--n-draws", type=int, default=100, show_default=True, help="Draws of the smoothing."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def certificate_options(command: Command) -> Command:
    """What is fixed about a certificate before any record is looked at."""
    options = (
        click.option(
            "--confidence", type=float, default=0.95, show_default=True, help="Of the certificate, all claims together."
        ),
        click.option(
            "--certify-metrics",
            callback=names,
            help="Metrics to certify, separated by commas; fewer get tighter bounds.  [default: all three]",
        ),
        click.option(
            "--require-tau", type=float, help="Bound that every gap must meet, tested in a sequence; exit 1 if missed."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


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


def names(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    """Read ``a,b`` as names."""
    return None if value is None else tuple(part.strip() for part in value.split(","))


def numbers(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[float, ...] | None:
    """Read ``.007,.005`` as numbers."""
    if value is None:
        return None
    try:
        return tuple(float(part) for part in value.split(","))
    except ValueError:
        raise click.BadParameter(f"{value!r} is not a list of numbers such as 0.007,0.005.") from None


def whole_numbers(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    """Read ``10771,21790`` as whole numbers."""
    if value is None:
        return None
    try:
        return tuple(int(part) for part in value.split(","))
    except ValueError:
        raise click.BadParameter(f"{value!r} is not a list of whole numbers such as 64,32.") from None


def make_folder(folder: Path) -> None:
    """Make the folder before the work, so that a long run does not end with nowhere to write."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.BadParameter(f"{str(folder)!r} cannot be written: {error.strerror}.", param_hint="--out") from None
    if not os.access(folder, os.W_OK):
        raise click.BadParameter(f"{str(folder)!r} cannot be written.", param_hint="--out")
