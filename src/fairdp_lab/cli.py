"""Commands of the laboratory: audit, bench, demo, paper-bounds, compare and reproduce.

`fairdp.cli` loads them by name when they are called. What they need beyond click is imported in each of them, so that
help and lists load no more than those of the product.
"""

import math
import os
import shlex
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairdp import errors
from fairdp.cli.options import (
    NAMES,
    NUMBERS,
    format_options,
    json_option,
    ledger_options,
    make_folder,
    parameter_options,
    read_grid,
    seed_option,
    table_options,
    taken_format,
    taken_ledger,
)
from fairdp.cli.printing import print_json, print_table, print_warnings
from fairdp.cli.terminal import say, saying_which_trainings_are_kept
from fairdp.errors import bound_above, rounded_up, with_error
from fairdp.parameters import CERTIFIABLE

if TYPE_CHECKING:
    from fairdp.paper import PaperBounds
    from fairdp_lab.audit.attack import Finding
    from fairdp_lab.audit.command import AuditReport
    from fairdp_lab.sweeps.compare import DemoModel
    from fairdp_lab.sweeps.fits import Population
    from fairdp_lab.sweeps.workers import Workers


# Draws of a single release and canaries of a training; with --quick.
_THOROUGH, _QUICK = (100_000, 1000), (20_000, 200)
_BOUNDS = ("ε stated", "at least")
scheduler_option = click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="A Dask scheduler whose workers do the work instead, such as tcp://10.0.0.1:8786.",
)
GAPS = {metric: f"{about.short} gap" for metric, about in CERTIFIABLE.items()}
TITLES = {"paper": "the paper", "model": "our default", "all-columns": "all columns"}
_METRICS = {metric: about.label for metric, about in CERTIFIABLE.items()} | {
    "false_positive_rate": "false positive rates"
}
_DEVIATIONS = {"printed": "σ₀, as printed", "one_head": "Nσ₀, one head", "deployed": "√Nσ₀, deployed"}


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
    moved by more than is accounted, or if a lower bound exceeds the stated ε, which happens to a correct program in at
    most one of a thousand runs.
    """
    from fairdp_lab.audit.command import PARTS, AuditSettings, methods_named, run_audit

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
    from fairdp_lab.audit.attack import FALSE_ALARM

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
    """Test, stated ε, and ε that the attack shows, rounded to the safe side."""
    stated, shown = math.ceil(1e3 * finding.epsilon) / 1e3, math.floor(1e3 * finding.epsilon_lower) / 1e3
    return finding.test, f"{stated:.3f}", f"{shown:.3f}"


@click.command(epilog="\b\nExample:\n  fairdp bench --json\n")
@click.option("--quick", is_flag=True, help="Fewer rounds: rough figures in under a minute.")
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True, help="Torch threads.")
@json_option
def bench(quick: bool, threads: int, as_json: bool) -> None:
    """Compare a private step with a plain one and with Opacus, and whole fits with those of others, in one process."""
    from fairdp.cli.printing import print_bench
    from fairdp_lab.bench import run_bench

    print_bench(run_bench(quick=quick, n_threads=threads), as_json=as_json)


def taken_workers(number: int | None, scheduler: str | None) -> "Workers":
    """As many processes as were asked for, else one per processor; or a cluster, whose workers must be there."""
    from fairdp_lab.sweeps.workers import Workers, check_cluster

    if scheduler is not None:
        check_cluster(scheduler)
    return Workers(number=number or os.cpu_count() or 1, scheduler=scheduler)


@click.command(epilog="\b\nExample:\n  fairdp demo --out demo/\n")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default="demo",
    show_default=True,
    help="Folder for the models.",
)
@click.option("--overwrite", is_flag=True, help="Replace the models that are in --out.")
@seed_option("Seed of all trainings.  [default: the operating system's randomness]")
@json_option
def demo(out: Path, overwrite: bool, seed: int | None, as_json: bool) -> None:
    """Train the paper's FairDP and the default method on the Adult data, and show them side by side.

    The paper's FairDP gets the settings of --paper of fairdp fit; the default is trained on the paper's inputs and on
    all columns. Without the Adult data, both are trained on a population that is built in.
    """
    from fairdp.cli.printing import print_fit
    from fairdp_lab.sweeps.compare import DEFAULT, demo_datasets, run_demo

    datasets, note = demo_datasets()
    if note:
        say(note)
    models = run_demo(out, datasets, seed=seed, overwrite=overwrite)
    if as_json:
        print_json({"models": [model.to_json() for model in models]})
        return
    _print_side_by_side(models)
    print_fit(next(model.report for model in models if model.name == DEFAULT), as_json=False)


def _print_side_by_side(models: "list[DemoModel]") -> None:
    columns = [_column(model) for model in models]
    rows = [(name, *(column[name] for column in columns)) for name in columns[0]]
    print_table(None, rows, headers=("", *(TITLES[model.name] for model in models)), wrap_numbers=False)
    print(
        "Gaps on the test records, and (≤) what is certified with confidence 95 %. τ_emp and\n"
        "Theorem 2 are the paper's own certificates: diagnostics, no bounds for these models.\n"
        f"\nModels: {', '.join(str(model.report.out) for model in models)}. Of {TITLES['model']}:\n"
    )


def _column(model: "DemoModel") -> dict[str, str]:
    """One model's column of the table, by the names of its rows."""
    report, metrics, privacy = model.report, model.report.metrics, model.report.privacy
    # Named data sets have test records.
    assert metrics is not None
    found = {
        "method": report.method,
        "data": report.dataset,
        "inputs": str(model.n_inputs),
        "epsilon": f"{rounded_up(privacy.epsilon)} ({privacy.accountant.upper()})",
        "accuracy": f"{metrics['accuracy']:.4f}",
        "majority class": f"{metrics['majority_accuracy']:.4f}",
        "ROC-AUC": f"{metrics['auc']:.4f}",
        "positive rate": f"{metrics['positive_rate']:.4f}",
        "parity ratio": f"{metrics['demographic_parity_ratio']:.4f}",
    }
    for metric, title in GAPS.items():
        certified = report.certificate.gaps.get(metric)
        bound = "" if certified is None else f" (≤ {bound_above(certified.tau)})"
        found[title] = f"{metrics[f'{metric}_difference']:.4f}{bound}"
    for metric, title in GAPS.items():
        found[f"τ_emp, {title.removesuffix(' gap')}"] = (
            "–" if model.paper is None else f"{model.paper.tau_emp[metric]:.4f}"
        )
    found["Theorem 2"] = "–" if model.paper is None else f"{model.paper.theorem_2_corrected:.4f}"
    return found | {"verdict": report.verdict.verdict}


@click.command("paper-bounds", epilog="\b\nExample:\n  fairdp paper-bounds model/ loans.csv\n")
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("table", required=False, type=click.Path(path_type=Path))
@click.option("--dataset", help="The training split of a named data set instead of TABLE.")
@click.option("--confidence", type=float, default=0.95, show_default=True, help="α of Proposition 3.")
@click.option("--release-epsilon", type=float, default=0.1, show_default=True, help="ε' of Remark 2's Laplace noise.")
@seed_option("Seed of the noise that shows Remark 2, for repeatable figures.")
@format_options
@json_option
def paper_bounds(
    folder: Path,
    table: Path | None,
    dataset: str | None,
    confidence: float,
    release_epsilon: float,
    seed: int | None,
    as_json: bool,
    **written: Any,
) -> None:
    """Show the paper's own certificates of the model in FOLDER, on rows that the paper takes from its training.

    Theorem 2 as printed and corrected, Proposition 3 (τ_emp), the error of its heads, and Remark 2. All of them are
    diagnostics, and none is a guarantee for this model: see `fairdp certify`. The figures are exact, so they are for
    the data holder's eyes only: the privacy guarantee does not cover them.
    """
    from fairdp.paper import paper_bounds_of
    from fairdp.records import load_with_records

    estimator, data = load_with_records(folder, table, dataset, part="train", written=taken_format(written))
    found = paper_bounds_of(estimator, data, confidence=confidence, release_epsilon=release_epsilon, random_state=seed)
    if as_json:
        print_json(found.to_json())
        return
    _print(found)


def _print(found: "PaperBounds") -> None:
    last = found.last_step
    print(f"{found.method} on {found.n_records:,} records. {found.status}\n")
    step = f"{last.optimizer}, η = {last.learning_rate:g}, C = {last.clip_norm:g}, N = {last.n_members}"
    head = f"M = {last.weight_bound:g}, ‖w‖ = {found.head_norm:.4g}"
    rows = [("deviation of a weight", *(f"{bounds.deviation:.3g}" for bounds in found.at.values()))]
    rows += [
        (title, *(f"{getattr(bounds, name):.4f}" for bounds in found.at.values()))
        for name, title in {
            "theorem_2_printed": "Theorem 2, as printed",
            "theorem_2_corrected": "Theorem 2, corrected",
            "reach": "erf(‖w‖/(√2σ))",
            "lowest_chance": "P_lb",
            "highest_chance": "P_ub",
        }.items()
    ]
    rows += [
        (f"τ_emp, {title}", *(_number(bounds.tau_emp[metric]) for bounds in found.at.values()))
        for metric, title in _METRICS.items()
    ]
    print_table(f"Last step: {step}; {head}; α = {found.confidence:g}", rows, headers=("", *_DEVIATIONS.values()))
    _print_errors(found)
    _print_remark_2(found)
    for note in found.notes:
        print(note)


def _print_errors(found: "PaperBounds") -> None:
    errors = found.monte_carlo
    rows = [
        (title, _small(errors["printed"][name]), _small(errors["measured"][name])) for name, title in _METRICS.items()
    ]
    at_most = f"of a single rate at most {errors['at_most_per_rate']:.3f}"
    print_table(f"Monte Carlo error, summed over rates; {at_most}", rows, headers=("", "printed", "between the heads"))


def _print_remark_2(found: "PaperBounds") -> None:
    remark, scales = found.remark_2, [rate.scale_needed for rate in found.rates if rate.n_records]
    needed = f"2/(nε'): {min(scales):.2g} to {max(scales):.2g}"
    rows = [
        (f"τ_emp, {title}", _number(remark["tau_printed"][name]), _number(remark["tau_needed"][name]))
        for name, title in _METRICS.items()
    ]
    print_table(
        f"Remark 2 at ε' = {remark['epsilon']:g}: one draw of Laplace noise on the rates, sizes n taken as public",
        rows,
        headers=("", f"scale 1/ε' = {remark['scale_printed']:g}, as printed", f"scale {needed}, as needed"),
    )


def _number(value: float) -> str:
    return "no evidence" if math.isnan(value) else f"{value:.4f}"


def _small(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.2e}"


def print_comparison(report: dict[str, Any], *, as_json: bool) -> None:
    """Methods side by side, and what all their runs cost."""
    if as_json:
        print_json(report)
        return
    from fairdp.report.charts import Row

    names = {"auc": "AUC", "accuracy": "accuracy", "positive_rate": "positive"}
    names |= {"demographic_parity_difference": "parity gap", "demographic_parity_ratio": "ratio"}
    for dataset in dict.fromkeys(row["dataset"] for row in report["rows"]):
        of_dataset = [row for row in [*report["rows"], *report["controls"]] if row["dataset"] == dataset]
        rows = [
            (Row.of(row).label, "∞" if row["epsilon"] is None else f"{row['epsilon']:g}", *_means(row, names))
            for row in of_dataset
        ]
        n_runs = of_dataset[0]["n_runs"]
        seeds = f"mean ± standard error over {n_runs} seeds" if n_runs > 1 else "one seed"
        positive = report["positive"].get(dataset)
        title = f"{dataset}: {seeds}, on the test records{f'; positive: {positive}' if positive else ''}"
        print_table(title, rows, headers=("method", "ε", *names.values()), wrap_numbers=False)
    if report["controls"]:
        print("dpsgd at another method: DP-SGD with its threshold moved to that method's positive rate.\n")
    for cost in report["privacy"]:
        print(cost["statement"])
    print_warnings(report["warnings"])
    print(f"\nWritten to {report['out']}: {', '.join(report['files'])}.")


def _means(row: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """Means, with errors for only the two metrics that are traded: a terminal is narrow."""
    traded = {name: row["standard_error"][name] for name in ("accuracy", "demographic_parity_difference")}
    return [with_error(row["mean"][name], traded.get(name)) for name in names]


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
    from fairdp.cli.terminal import progress_bar
    from fairdp_lab.sweeps.compare import (
        Comparison,
        holder_key,
        keep_holder_key,
        run_compare,
        with_columns_read,
    )
    from fairdp_lab.sweeps.fits import Payment

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
        report = run_compare(
            comparison,
            workers=spread_over,
            folder=out,
            command=shlex.join(["fairdp", *sys.argv[1:]]),
            say=_say,
            watch=watch,
            payment=payment,
            read=read,
        )
    print_comparison(report, as_json=as_json)


def _populations(
    dataset: tuple[str, ...] | None, table: Path | None, of_table: dict[str, Any], key: bytes | None
) -> "tuple[Population, ...]":
    """The records to compare on, data sets or a table; loading them says what is missing."""
    from fairdp.records import Source
    from fairdp_lab.sweeps.fits import Population

    # Models are compared by what they do on test records.
    errors.in_unit_interval(test_fraction=of_table["test_fraction"])
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


@click.command(epilog="\b\nExample:\n  fairdp reproduce certificate-slack --quick\n  fairdp reproduce --list\n")
@click.argument("name", required=False)
@click.option("--list", "only_list", is_flag=True, help="List the studies and what each one shows.")
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
    and studies share runs. Changed records or settings are trained again.
    """
    from fairdp import __version__
    from fairdp.cli.printing import print_cards, print_pairs
    from fairdp_lab.studies.protocol import STUDIES

    if only_list:
        cards = [
            {"study": study.name, "shows": study.shows, "paper": study.paper or "beyond the paper"}
            for study in STUDIES.values()
        ]
        print_cards("studies", cards, as_json=as_json)
        return
    chosen = _known_datasets(datasets)
    if name is None or name not in STUDIES:
        problem = "a study is needed, one of" if name is None else f"{name!r} is not one of"
        raise click.BadParameter(f"{problem} {', '.join(STUDIES)}.", param_hint="NAME")
    if quick and datasets:
        raise click.UsageError("--quick takes the built-in population; leave out --datasets or --quick.")
    # Imported on use: listing names, or rejecting a wrong one, needs no training.
    from fairdp_lab.studies.protocol import Run, record_of, write_results
    from fairdp_lab.sweeps.fits import Store

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


def _known_datasets(names: str | None) -> tuple[str, ...]:
    from fairdp_lab.studies.protocol import N_SEEDS

    chosen = tuple(name.strip() for name in (names or "").split(",") if name.strip())
    unknown = [name for name in chosen if name not in N_SEEDS]
    if unknown:
        raise click.BadParameter(f"{unknown[0]!r} is not one of {', '.join(N_SEEDS)}.", param_hint="--datasets")
    return chosen
