"""Who does the work of a sweep: the option for a cluster, and what is made of it."""

import os
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from fairdp.experiments.sweeps.parallel import Workers

scheduler_option = click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="A Dask scheduler whose workers do the work instead, such as tcp://10.0.0.1:8786.",
)


def taken_workers(number: int | None, scheduler: str | None) -> "Workers":
    """As many processes as were asked for, else one per processor; or a cluster, whose workers must be there."""
    from fairdp.experiments.sweeps.cluster import check_cluster
    from fairdp.experiments.sweeps.parallel import Workers

    if scheduler is not None:
        check_cluster(scheduler)
    return Workers(number=number or os.cpu_count() or 1, scheduler=scheduler)
