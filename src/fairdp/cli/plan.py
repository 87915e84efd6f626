"""`fairdp plan`: what a run would cost, without any data."""

from typing import Any

import click

from fairdp.cli.options import SIZES, ByGroup, in_section, json_option, parameter_options
from fairdp.cli.sections import SectionedCommand
from fairdp.config.parameters import CERTIFICATE, DATA


@click.command(cls=SectionedCommand, epilog="\b\nExample:\n  fairdp plan --epsilon 1 --group-sizes 10771,21790\n")
@in_section(
    DATA,
    "--group-sizes",
    type=ByGroup(SIZES, unnamed=True),
    required=True,
    help="Number of records in each group: with names as `fairdp fit` would be told, without for a guess of sizes that "
    "it would count with noise.",
)
@parameter_options(
    "method",
    "epsilon",
    "delta",
    "noise_multiplier",
    "accountant",
    "parity",
    "certify_fraction",
    "confidence",
    "certify_metrics",
    "n_looks",
    "score_share",
)
@in_section(
    CERTIFICATE,
    "--positive-rate",
    type=float,
    default=0.1,
    show_default=True,
    help="Guess: share of positive decisions.",
)
@in_section(
    CERTIFICATE, "--label-rate", type=float, default=0.25, show_default=True, help="Guess: share of positive labels."
)
@in_section(
    CERTIFICATE,
    "--target-width",
    type=float,
    help="Find the fraction to hold out so that every bound is this close to its gap.",
)
@in_section(
    CERTIFICATE,
    "--input-agnostic-tau",
    type=float,
    default=0.1,
    show_default=True,
    help="Show what a bound for all possible inputs would cost in accuracy.",
)
@parameter_options("sample_rate", "n_steps", "clip_norm", "weight_bound", "n_members", "noise_allocation")
@parameter_options("learning_rate", "schedule", "diameter", "optimizer", "adam_share", "sgd_learning_rate")
@parameter_options("group_optimizers", "group_weights")
@json_option
def plan(
    certify_fraction: float,
    confidence: float,
    certify_metrics: tuple[str, ...] | None,
    n_looks: int,
    score_share: float,
    positive_rate: float,
    label_rate: float,
    target_width: float | None,
    input_agnostic_tau: float,
    as_json: bool,
    **parameters: Any,
) -> None:
    """Show the noise, epsilon for every group and the expected width of the certificate, before touching any data."""
    from fairdp.cli.printing import print_plan
    from fairdp.commands.plan import CertificatePlan, plan_report
    from fairdp.config.certificate import METRICS

    certificate = CertificatePlan(
        fraction=certify_fraction,
        confidence=confidence,
        metrics=certify_metrics or METRICS,
        n_looks=n_looks,
        score_share=score_share,
        positive_rate=positive_rate,
        label_rate=label_rate,
        target_width=target_width,
        input_agnostic_tau=input_agnostic_tau,
    )
    print_plan(plan_report(certificate=certificate, **parameters), as_json=as_json)
