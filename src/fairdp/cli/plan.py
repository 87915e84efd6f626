"""`fairdp plan`: what a run would cost, without any data."""

from typing import Any

import click

from fairdp.cli.options import names, output_options, training_options, whole_numbers


@click.command(epilog="\b\nExample:\n  fairdp plan --epsilon 1 --group-sizes 10771,21790\n")
@click.option("--group-sizes", callback=whole_numbers, required=True, help="Records of each group, N,N,…")
@training_options
@click.option("--certify-fraction", type=float, default=0.2, show_default=True, help="Part held out; 0 for none.")
@click.option("--confidence", type=float, default=0.95, show_default=True, help="Of the certificate.")
@click.option("--certify-metrics", callback=names, help="Metrics to certify.  [default: all three]")
@click.option("--positive-rate", type=float, default=0.1, show_default=True, help="Guess: share of positive decisions.")
@click.option("--label-rate", type=float, default=0.25, show_default=True, help="Guess: share of positive labels.")
@click.option("--target-width", type=float, help="Ask which fraction makes every bound this close to its gap.")
@click.option(
    "--input-agnostic-tau", type=float, default=0.1, show_default=True, help="Ask what a bound over all inputs costs."
)
@output_options
def plan(
    certify_fraction: float,
    confidence: float,
    certify_metrics: tuple[str, ...] | None,
    positive_rate: float,
    label_rate: float,
    target_width: float | None,
    input_agnostic_tau: float,
    as_json: bool,
    seed: int | None,
    **parameters: Any,
) -> None:
    """Show noise, epsilon for every group and the expected width of the certificate, before any data is touched."""
    from fairdp.cli.printing import print_plan
    from fairdp.commands.plan import CertificatePlan, plan_report
    from fairdp.config.certificate import METRICS

    certificate = CertificatePlan(
        fraction=certify_fraction,
        confidence=confidence,
        metrics=certify_metrics or METRICS,
        positive_rate=positive_rate,
        label_rate=label_rate,
        target_width=target_width,
        input_agnostic_tau=input_agnostic_tau,
    )
    print_plan(plan_report(certificate=certificate, **parameters), as_json=as_json)
