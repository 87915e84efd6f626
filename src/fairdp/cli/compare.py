"""`fairdp compare`: methods side by side, on the same records and at the same budgets."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairdp import _checks
from fairdp.cli.grid import read_grid
from fairdp.cli.interruption import saying_which_trainings_are_kept
from fairdp.cli.options import (
    NAMES,
    NUMBERS,
    json_option,
    ledger_options,
    make_folder,
    parameter_options,
    seed_option,
    table_options,
    taken_format,
    taken_ledger,
)
from fairdp.cli.spreading import scheduler_option, taken_workers
from fairdp.commands.progress import say

if TYPE_CHECKING:
    from fairdp.experiments.sweeps.populations import Population


@click.command(
    epilog="""\b
Examples:
  fairdp compare --dataset adult --methods dpsgd,fairdp,fairdp_frontier --epsilons .5,1,2 --seeds 5 --out frontier/
  fairdp compare --dataset adult --methods fairdp --grid weight_bound=.25,.5,.75,1 --out bounds/
  fairdp compare loans.csv --label approved --sensitive sex --schema loans.yaml --out loans-comparison/
"""
)
@click.argument("table", required=False, type=click.Path(path_type=Path))
@click.option("--dataset", type=NAMES, help="Named data sets instead of TABLE, separated by commas.")
@table_options
@click.option(
    "--methods",
    type=NAMES,
    default="clean,dpsgd,fairdp,fairdp_frontier",
    show_default=True,
    help="See `fairdp methods`.",
)
@click.option("--epsilons", type=NUMBERS, default="1", show_default=True, help="Budgets ε, separated by commas.")
@parameter_options("delta")
@click.option(
    "--seeds", type=click.IntRange(min=1), default=3, show_default=True, help="Training runs for each combination."
)
@click.option(
    "--grid",
    multiple=True,
    callback=read_grid,
    help="A parameter with values, such as weight_bound=.25,.5 or hidden=[32],[16,16]; repeat --grid for more.",
)
@click.option("--workers", type=click.IntRange(min=1), help="Number of processes to use.  [default: one per processor]")
@scheduler_option
@click.option(
    "--backend",
    type=click.Choice(["local", "dask"]),
    help="Where to run; --scheduler alone says the same.  [default: dask with --scheduler, else local]",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default="comparison",
    show_default=True,
    help="Folder for tables, pictures and, in trainings/, every finished training run.",
)
@seed_option("First seed.  [default: 0]")
@ledger_options
@json_option
def compare(
    table: Path | None,
    dataset: tuple[str, ...] | None,
    methods: tuple[str, ...],
    epsilons: tuple[float, ...],
    delta: float,
    seeds: int,
    grid: dict[str, list[Any]],
    workers: int | None,
    backend: str | None,
    scheduler: str | None,
    out: Path,
    seed: int | None,
    budget: float | None,
    as_json: bool,
    **of_table: Any,
) -> None:
    """Train methods on the same records, at the same budgets and with several seeds, and show the trade-offs.

    Every training run is stored in OUT/trainings as soon as it ends: the same command continues an interrupted
    comparison, and a larger one trains only what is new.
    """
    if backend is not None and (backend == "dask") != (scheduler is not None):
        raise click.UsageError("--backend dask and --scheduler ADDRESS go together.")
    from fairdp.cli.comparison_table import print_comparison
    from fairdp.commands.progress import progress_bar
    from fairdp.experiments.sweeps.compare import CompareTask, run_compare
    from fairdp.experiments.sweeps.comparison import Comparison
    from fairdp.experiments.sweeps.holder_key import holder_key, keep_holder_key
    from fairdp.experiments.sweeps.paying import Payment
    from fairdp.experiments.sweeps.reading import with_columns_read

    path = taken_ledger(of_table)
    if budget is not None and (table is None or path is None):
        raise click.UsageError("--budget needs TABLE and a ledger.")
    first, key = seed or 0, None if table is None else holder_key(out)
    comparison = Comparison(
        populations=_populations(dataset, table, of_table, key),
        methods=methods,
        epsilons=epsilons,
        seeds=range(first, first + seeds),
        delta=delta,
        grid=grid,
    )
    spread_over = taken_workers(workers, scheduler)
    payment = None if table is None or path is None else Payment.into(path, budget)
    read = None
    if table is not None and of_table["schema"] is None:
        make_folder(out)
        comparison, read = with_columns_read(comparison, out, payment)
    # Anything wrong with any training run is reported before the first one starts and before its folder is written.
    comparison.check()
    make_folder(out)
    if key is not None:
        keep_holder_key(out, key)
    with saying_which_trainings_are_kept(out / "trainings"), progress_bar("training") as watch:
        task = CompareTask(
            comparison=comparison,
            workers=spread_over,
            folder=out,
            command=shlex.join(["fairdp", *sys.argv[1:]]),
            say=_say,
            watch=watch,
            payment=payment,
            read=read,
        )
        report = run_compare(task)
    print_comparison(report, as_json=as_json)


def _populations(
    dataset: tuple[str, ...] | None, table: Path | None, of_table: dict[str, Any], key: bytes | None
) -> "tuple[Population, ...]":
    """The records to compare on, data sets or a table; loading them says what is missing."""
    from fairdp.commands.records import Source
    from fairdp.experiments.sweeps.populations import Population

    # Models are compared by what they do on test records.
    _checks.in_unit_interval(test_fraction=of_table["test_fraction"])
    of_table["sensitive"] = of_table["sensitive"] or ()
    written = taken_format(of_table)
    sources = [Source(table=table, dataset=name, written=written, **of_table) for name in dataset or (None,)]
    table_name = table.name if table else ""
    # Other groups are another comparison: pictures and tables say so.
    groups = f" by {' and '.join(of_table['sensitive'])}" if dataset and of_table["sensitive"] else ""
    return tuple(
        Population(dataset=(source.dataset or table_name) + groups, source=source, key=key) for source in sources
    )


def _say(line: str) -> None:
    """A line of progress, if there is no progress bar."""
    if not sys.stderr.isatty():
        say(line)
