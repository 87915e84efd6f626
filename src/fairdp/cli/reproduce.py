"""`fairdp reproduce`: run a study again and write its results."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairdp.cli.interruption import saying_which_trainings_are_kept
from fairdp.cli.options import json_option, make_folder, seed_option
from fairdp.cli.spreading import scheduler_option, taken_workers
from fairdp.commands.progress import say

if TYPE_CHECKING:
    from fairdp.experiments.sweeps.parallel import Workers


@click.command(epilog="\b\nExample:\n  fairdp reproduce certificate-slack --quick\n  fairdp reproduce --list\n")
@click.argument("name", required=False)
@click.option("--list", "only_list", is_flag=True, help="List the studies and what each one shows.")
@click.option(
    "--rekey",
    is_flag=True,
    help="Instead of a study: hand stored training runs on to changed code, if two of each kind come out the same.",
)
@click.option(
    "--quick", is_flag=True, help="Show in under a minute that a study works, with too few draws to conclude anything."
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for NAME.json, NAME.md and trainings/.  [default: results; with --quick results/quick]",
)
@click.option(
    "--datasets",
    help="Run only these data sets of the study, separated by commas.  [default: adult,credit,utkface]",
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    help="Number of processes to use; it does not affect the results.  [default: one per processor]",
)
@scheduler_option
@seed_option("Seed for the whole study.  [default: 0]")
@json_option
def reproduce(
    name: str | None,
    only_list: bool,
    rekey: bool,
    quick: bool,
    out: Path | None,
    datasets: str | None,
    workers: int | None,
    scheduler: str | None,
    seed: int | None,
    as_json: bool,
) -> None:
    """Run a study again and write its figures as JSON and Markdown.

    Every training run is stored in OUT/trainings as soon as it ends: the same command continues an interrupted study,
    and studies share runs. Changed records, settings or code are trained again; after a change of code that changes no
    result, --rekey saves that.
    """
    from fairdp import __version__
    from fairdp.cli.printing import print_cards, print_pairs
    from fairdp.experiments.studies import STUDIES

    if only_list:
        cards = [
            {"study": study.name, "shows": study.shows, "paper": study.paper or "beyond the paper"}
            for study in STUDIES.values()
        ]
        print_cards("studies", cards, as_json=as_json)
        return
    chosen = _known_datasets(datasets)
    if rekey:
        _rekey(out or Path("results"), chosen, taken_workers(workers, scheduler))
        return
    if name is None or name not in STUDIES:
        problem = "a study is needed, one of" if name is None else f"{name!r} is not one of"
        raise click.BadParameter(f"{problem} {', '.join(STUDIES)}.", param_hint="NAME")
    if quick and datasets:
        raise click.UsageError("--quick takes the built-in population; leave out --datasets or --quick.")
    # Imported on use: listing names, or rejecting a wrong one, needs no training.
    from fairdp.experiments.studies.results import Run, record_of, write_results
    from fairdp.experiments.sweeps.store import Store

    spread_over = taken_workers(workers, scheduler)
    # A quick run shows that a study works; it must not take the place of one that shows something.
    out = out or Path("results", "quick" if quick else "")
    make_folder(out)
    run = Run(
        quick=quick,
        seed=seed or 0,
        workers=spread_over,
        say=say,
        store=Store(out / "trainings"),
        datasets=chosen,
    )
    with saying_which_trainings_are_kept(out / "trainings"):
        findings = STUDIES[name].findings(run)
    record = record_of(name, STUDIES[name].shows, run, findings, version=__version__)
    paths = write_results(record, findings, out)
    if as_json:
        print_pairs(record, as_json=True)
        return
    click.echo(f"{findings.text}\nWritten to {' and '.join(map(str, paths))}.")


def _rekey(out: Path, datasets: tuple[str, ...], workers: "Workers") -> None:
    """Of the named data sets, or of all that have trainings."""
    from fairdp.experiments.sweeps.rekey import rekey

    for path in sorted((out / "trainings").glob("*.jsonl")):
        if not datasets or path.stem in datasets:
            done = rekey(path, workers=workers, say=say)
            click.echo(f"{path}: {done.n_trainings} trainings handed on, {done.n_again} of them done again and equal.")


def _known_datasets(names: str | None) -> tuple[str, ...]:
    from fairdp.experiments.studies.protocol import N_SEEDS

    chosen = tuple(name.strip() for name in (names or "").split(",") if name.strip())
    unknown = [name for name in chosen if name not in N_SEEDS]
    if unknown:
        raise click.BadParameter(f"{unknown[0]!r} is not one of {', '.join(N_SEEDS)}.", param_hint="--datasets")
    return chosen
