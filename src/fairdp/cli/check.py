"""Commands that check a saved model or the ledger: certify, verify, report, shift, sign, ledger."""

import time
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairdp.cli.options import (
    NUMBERS,
    OrderedGroup,
    format_options,
    json_option,
    ledger_options,
    parameter_options,
    taken_format,
    taken_ledger,
    verbose_option,
)
from fairdp.cli.terminal import exit_unless_met, ignore_broken_pipe, say, say_cell_issues, say_spent
from fairdp.errors import bound_above

if TYPE_CHECKING:
    from fairdp.data.grouped import GroupedData

_ledger_option = click.option(
    "--ledger",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The ledger.  [default: $FAIRDP_LEDGER, or one for each user]",
)


def _print_template(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Print the owner's card instead of a report."""
    if wanted:
        from fairdp.report.model import card_template

        click.echo(card_template(), nl=False)
        context.exit()


@click.command(epilog="\b\nExample:\n  fairdp certify model/ fresh.csv --epsilon 1\n")
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("table", required=False, type=click.Path(path_type=Path))
@click.option("--dataset", help="The test split of a named data set instead of TABLE.")
@click.option("--epsilon", type=float, required=True, help="Pure epsilon that the fresh records spend.")
@parameter_options("confidence", "certify_metrics", "require_tau", "score_share")
@click.option(
    "--allow-equal",
    is_flag=True,
    help="Accept rows identical to used ones, or that no ledger can check (you assert that they are different people).",
)
@parameter_options("random_state")
@ledger_options
@click.option(
    "--of",
    type=click.IntRange(min=0),
    metavar="N",
    help="One of N certificates of the model that hold all together (0: of a series without end); the ledger counts.",
)
@format_options
@verbose_option
@json_option
def certify(
    folder: Path,
    table: Path | None,
    dataset: str | None,
    epsilon: float,
    confidence: float,
    certify_metrics: tuple[str, ...] | None,
    require_tau: float | None,
    score_share: float,
    allow_equal: bool,
    random_state: int | None,
    of: int | None,
    budget: float | None,
    verbose: bool,
    as_json: bool,
    **others: Any,
) -> None:
    """Certify the fairness gaps of the model in FOLDER on labelled records that it has never seen.

    The new certificate replaces the one in FOLDER, which is kept on record. Records that the model or an earlier
    certificate has used are refused by the ledger, which must have seen the training.
    """
    from fairdp._io import claimed, restore
    from fairdp.accounting.mechanisms import PrivacyBudget
    from fairdp.accounting.plan import FRESH_SIZES_SHARE
    from fairdp.accounting.spent import NOISY, PUBLIC, PUBLISHED
    from fairdp.certify.certificate import (
        EQUAL_ALLOWED,
        NOT_CHOSEN_BY_TEST,
        UNUSED,
        UNUSED_UNCHECKED,
        FreshRecords,
        claims_so_far,
    )
    from fairdp.cli.printing import print_certificate
    from fairdp.config import Preregistration
    from fairdp.data.columns import CellIssues, counts_by_column
    from fairdp.data.tables import encoded_batches
    from fairdp.errors import DataError, InputError, ParameterError, SavedModelError, finite_positive
    from fairdp.ledger.costs import pure_cost
    from fairdp.ledger.ledger import Spending
    from fairdp.parameters import METRICS, SMALLEST_EPSILON
    from fairdp.randomness import Generators
    from fairdp.records import load_for_dataset, load_saved
    from fairdp.run.certifying import ScoreTally, certify_fresh, count_decisions
    from fairdp.saved.folder import check_place, is_signed, write_model

    start, issues, warnings = time.perf_counter(), list[CellIssues](), list[str]()
    registration = Preregistration(
        confidence=confidence, metrics=certify_metrics or METRICS, require_tau=require_tau, score_share=score_share
    )
    ledger, written = taken_ledger(others), taken_format(others)
    finite_positive(epsilon=epsilon)
    PrivacyBudget(epsilon=epsilon, delta=1e-5)
    if epsilon < SMALLEST_EPSILON:
        raise ParameterError("epsilon", epsilon, f"must be at least {SMALLEST_EPSILON} for a certificate")
    if of is not None and (ledger is None or table is None):
        raise ParameterError("of", of, "needs a table of your own and a ledger, which keeps count")
    if (table is None) == (dataset is None):
        raise InputError("give either TABLE or `dataset` to certify on.")
    restore(folder)
    place = claimed(folder) if folder.is_dir() else nullcontext()
    with place, Spending(None if table is None else ledger, command="certify", budget=budget) as spending:
        if dataset is not None:
            estimator, test = load_for_dataset(folder, dataset)
            batches: Iterable[GroupedData] = [test]
        else:
            assert table is not None
            estimator, schema = load_saved(folder, written)
            batches = encoded_batches(table, schema, observe=spending.observe, on_issue=issues.append)
        # What could not be written afterwards is refused before anything is spent.
        check_place(folder, overwrite=True)
        signed = is_signed(folder)
        model, predictor, privacy = estimator.score_model_, estimator.predictor_, estimator.privacy_
        names, earlier = estimator.group_names_, claims_so_far(estimator.certificate_)
        if len(names) < 2:
            raise SavedModelError(f"the model in {str(folder)!r} knows only one group, so there is no gap to certify.")
        # A ledger that does not know the model is noticed before any of its records is looked at.
        must_know = not allow_equal or (of is not None and privacy.ledger is not None)
        known = spending.model_of(privacy, model.digest(), must_know=must_know)
        generators, tally = Generators.of(random_state), ScoreTally(model, len(names))
        counts = count_decisions(
            model, predictor, tally.passing(map(spending.note_encoded, batches)), len(names), generators.key("coins")
        )
        say_cell_issues(issues)

        # Recorded before anything is released: an interruption in between can waste a look but never gives a free one.
        spending.charge_all()
        checked, entries = spending.knows_used(known), spending.used_by(known)
        # All certificates but that of the fit were made on fresh records, and have entries beside the fit's own.
        n_fresh = len(earlier) - bool(earlier and privacy.certify_epsilons)
        if known in map(str, entries) and len(entries) - 1 < n_fresh:
            # Restored from an older copy, or others were made in another ledger: their records would pass as fresh, and
            # their places in a series would be given again.
            if not allow_equal or of is not None:
                remedy = "" if of is not None else ", or add `allow_equal`"
                raise DataError(
                    f"the ledger has fewer certificates of the model than {str(folder)!r}, so it cannot tell which "
                    f"records they used; use the ledger that has them{remedy}."
                )
            checked = False
        # The name that the model's schema declares for its table, or that of the file.
        declared = str((estimator.feature_schema_ or {}).get("table", ""))
        entry = spending.pay(
            pure_cost(epsilon, names),
            declared or ("" if table is None else table.name),
            model=known,
            fresh=not allow_equal,
            of=of,
        )

        # Anyone may know how many fresh records there are only if all sizes are public: declared ones, and those of a
        # published data set, are of another table.
        of_another_table = dataset is None and PUBLISHED in privacy.public_assumptions
        group_sizes = PUBLIC if privacy.group_sizes == PUBLIC and not of_another_table else NOISY
        certificate = certify_fresh(
            model,
            predictor,
            counts,
            tally.counts,
            group_names=names,
            registration=registration,
            epsilon=epsilon,
            records=FreshRecords(
                group_sizes=group_sizes,
                sizes_epsilon=FRESH_SIZES_SHARE * epsilon if group_sizes == NOISY else 0.0,
                earlier=earlier,
                # The data holder vouches for what was not or could not be checked; it depends on no record.
                assumed=(
                    UNUSED if checked else UNUSED_UNCHECKED,
                    *([] if dataset is None else [NOT_CHOSEN_BY_TEST]),
                    *([EQUAL_ALLOWED] if allow_equal else []),
                ),
                series=None if entry is None or entry.series is None else (entry.series.number, entry.series.of),
            ),
            generators=generators,
        )
        estimator.amend(certificate=certificate, privacy=replace(privacy, ledger=spending.later(privacy.ledger)))
        try:
            write_model(folder, estimator.fitted_)
        except OSError as error:
            raise DataError(
                f"{str(folder)!r} cannot be written: {error.strerror}; its certificate is as it was."
            ) from None
        note = spending.note()
        say_spent(spending)
    if not checked:
        warnings.append(
            "no ledger could tell whether the model has used any of these records; the certificate says so."
        )
    if signed:
        warnings.append(
            f"the signature of {str(folder)!r} was about the earlier certificate and is gone; run fairdp sign again."
        )
    report = {
        "method": estimator.method,
        "positive": str(estimator.classes_[1]),
        "n_certify": int(counts.sum()),
        "certificate": certificate,
        "warnings": warnings,
        "seconds": {"certify": time.perf_counter() - start},
        "out": str(folder),
        "ledger": None if note is None else note.to_json(),
        "treated": counts_by_column(issues),
    }
    with ignore_broken_pipe():
        print_certificate(report, as_json=as_json, verbose=verbose)
    exit_unless_met(certificate, required=require_tau)


@click.command(epilog="\b\nExamples:\n  fairdp verify model/\n  fairdp verify model/ --public-key public.pem\n")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--public-key",
    type=click.Path(path_type=Path),
    help="Check the signature too, by this Ed25519 public key in a PEM file.",
)
@json_option
def verify(folder: Path, public_key: Path | None, as_json: bool) -> None:
    """Check the saved model in FOLDER: hashes, epsilon from the recorded mechanism, tau from the recorded counts.

    Exit code 1 if anything disagrees. What is verified is that the files agree with each other and with the accounting,
    not that they come from such a run: only a signature exposes someone who rewrites all of them consistently. With
    --public-key, a changed file, a folder that was hashed again, another key and a missing signature are told apart.
    """
    from fairdp.cli.printing import print_checks
    from fairdp.saved.folder import read_public_key
    from fairdp.saved.verify import verify_folder

    checks = verify_folder(folder, None if public_key is None else read_public_key(public_key))
    print_checks(checks, as_json=as_json)
    if not all(check.passed for check in checks):
        raise click.exceptions.Exit(1)


@click.command(
    epilog="""\b
Examples:
  fairdp report model/
  fairdp report model/ --comparison frontier/ --out model.html
  fairdp report model/ --audit audit.json
  fairdp report --card-template > owner.yaml
  fairdp report model/ --card owner.yaml --profile ll144
  fairdp evaluate model/ test.csv --json > exact.json; fairdp report model/ --appendix exact.json
  fairdp report model/ --format markdown
"""
)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Output file; overwritten only if fairdp wrote it.  [default: FOLDER-report.html or .md]",
)
@click.option(
    "--format",
    type=click.Choice(["html", "markdown"]),
    help="A page for readers, or a model card.  [default: by the ending of --out, else html]",
)
@click.option("--comparison", type=click.Path(path_type=Path), help="Folder of `fairdp compare` to show beside it.")
@click.option(
    "--audit",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File of `fairdp audit --out` to show beside the model.",
)
@click.option(
    "--card",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="What only the owner can say: a YAML file; --card-template writes an empty one.",
)
@click.option(
    "--card-template",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_template,
    help="Print an empty card, and nothing else.",
)
@click.option(
    "--profile",
    metavar="NAME",
    help="Add the figures that a regulation requires: ll144, for New York City's Local Law 144; where the columns are "
    "not called sex and race, ll144:sex=COLUMN,race=COLUMN.",
)
@click.option(
    "--appendix",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File of `fairdp evaluate --json`: its exact figures go to a second file, not to be published.",
)
@json_option
def report(
    folder: Path,
    out: Path | None,
    format: str | None,
    comparison: Path | None,
    audit: Path | None,
    card: Path | None,
    profile: str | None,
    appendix: Path | None,
    as_json: bool,
) -> None:
    """Write one file about the saved model, or the comparison, in FOLDER: privacy, fairness, cards and checks.

    The model is verified first; if verification fails, the page says so at the top and the exit code is 1. The page
    needs no network. Without a comparison it contains only what may be published; the figures of a comparison are for
    the data holder's eyes only.
    """
    from fairdp.cli.printing import print_pairs
    from fairdp.report.page import run_report

    written = run_report(
        folder,
        out=out,
        format=format,
        comparison=comparison,
        audit=audit,
        card=card,
        profile=profile,
        appendix=appendix,
    )
    # A comparison promises nothing that could be verified.
    shown = {name: value for name, value in written.items() if as_json or value is not None}
    print_pairs(shown, as_json=as_json)
    if written["verified"] is False:
        raise click.exceptions.Exit(1)


@click.command(epilog="\b\nExample:\n  fairdp shift model/ --gamma .01,.05\n")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--gamma",
    type=NUMBERS,
    default=".01,.05,.1",
    show_default=True,
    help="Sizes of the shift, separated by commas: total variation between Pr(group, label) before and after.",
)
@json_option
def shift(folder: Path, gamma: tuple[float, ...], as_json: bool) -> None:
    """Bound the gaps of the model in FOLDER when the shares of groups and labels change after certification.

    Follows from the certificate's noisy counts: no records are needed, and no privacy is spent. Equal opportunity and
    equalized odds do not change under such a shift. If the people within a group and label change, nothing is promised.
    """
    from fairdp.certify.certificate import NotCertified
    from fairdp.classifier import FairDPClassifier
    from fairdp.cli.printing import METRIC_NAMES, print_json, print_table
    from fairdp.errors import ParameterError, SavedModelError
    from fairdp.parameters import NoCertificate
    from fairdp.statements.certificate import UNDER_SHIFT

    estimator = FairDPClassifier.load(folder)
    method, certificate, positive = estimator.method, estimator.certificate_, str(estimator.classes_[1])
    if isinstance(certificate, NotCertified):
        # Why there is none may say what to do already.
        advice = "" if certificate.reason is NoCertificate.RULE_MOVED else "; run fairdp certify on fresh records"
        raise SavedModelError(
            f"the model in {str(folder)!r} has no certificate, because {certificate.reason.explanation}{advice}."
        )
    for size in gamma:
        if not 0 <= size <= 1:
            raise ParameterError("gamma", size, "must be in [0, 1]")
    bounds = [certificate.under_shift(size) for size in gamma]
    if as_json:
        rows = [{"gamma": size, **bound} for size, bound in zip(gamma, bounds, strict=True)]
        about = {"method": method, "positive": positive, "confidence": certificate.confidence}
        print_json({**about, "bounds": rows, "note": UNDER_SHIFT})
        return
    print_table(
        f"{method}, certified, {100 * certificate.confidence:g} %; positive: {positive}",
        [
            (f"{size:g}", *(f"at most {bound_above(tau)}" for tau in bound.values()))
            for size, bound in zip(gamma, bounds, strict=True)
        ],
        headers=("gamma", *(METRIC_NAMES[f"{name}_difference"] for name in bounds[0])),
    )
    print(UNDER_SHIFT)


@click.command(
    epilog="\b\nExample:\n  openssl genpkey -algorithm ed25519 -out key.pem\n  fairdp sign model/ --key key.pem\n"
)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--key", type=click.Path(path_type=Path), required=True, help="Ed25519 private key, in a PEM file.")
@json_option
def sign(folder: Path, key: Path, as_json: bool) -> None:
    """Sign the saved model in FOLDER: Ed25519 over SHA256SUMS, in a file SIGNATURE beside it.

    fairdp verify with --public-key then tells a folder that was rewritten from one that is damaged. Whatever writes the
    model anew, such as fairdp certify, drops the signature.
    """
    from fairdp.cli.printing import print_pairs
    from fairdp.saved.folder import SIGNATURE, sign_folder

    public = sign_folder(folder, key)
    print_pairs({"out": str(folder / SIGNATURE), "algorithm": "Ed25519", "public_key": public}, as_json=as_json)


@click.group(cls=OrderedGroup, invoke_without_command=True, epilog="Example: fairdp ledger limit loans.csv --epsilon 3")
@_ledger_option
@json_option
@click.pass_context
def ledger(context: click.Context, path: Path | None, as_json: bool) -> None:
    """Show what was spent on your tables in total, set limits, and check the ledger; without a command, list it."""
    if context.invoked_subcommand is None:
        context.invoke(list_, path=path, table=None, as_json=as_json)
        return
    # Given before the command, they are meant for it: a limit must not go into another ledger.
    given = {"path": path, "as_json": as_json or None}
    own = {name: value for name, value in given.items() if value is not None}
    context.default_map = {context.invoked_subcommand: own}


@ledger.command("list", epilog="\b\nExample:\n  fairdp ledger list --table loans.csv\n")
@_ledger_option
@click.option("--table", help="Only the entries of this table, by its declared name or that of its file.")
@json_option
def list_(path: Path | None, table: str | None, as_json: bool) -> None:
    """List all entries and what they add up to, table by table and for the record that has spent most.

    Totals compose the mechanisms and hold for a plan that was fixed in advance; the simple sums hold in any case. The
    total of single records is for the data holder's eyes only.
    """
    from fairdp._io import to_plain
    from fairdp.cli.printing import print_json, print_ledger
    from fairdp.errors import DataError
    from fairdp.ledger.ledger import Ledger
    from fairdp.ledger.store import Entry, Limit, record_total, table_total

    if path is not None and not path.exists():
        raise DataError(f"there is no ledger {str(path)!r}; name another with --ledger.")
    path, entries, limits = _path(path), list[Entry](), dict[str, Limit]()
    # That of the user, if it is not there yet, holds nothing.
    if path.exists():
        with Ledger(path) as ledger:
            entries, limits = [*ledger.entries()], ledger.limits()
    if table is not None:
        entries = [entry for entry in entries if entry.table == table]
        if not entries:
            raise DataError(f"ledger {str(path)!r} has no entry of table {table!r}.")
        limits = {name: limit for name, limit in limits.items() if name == table}
    # That of the record that has spent most is found by comparing records; only those by declared names may be
    # published.
    total = record_total(entries)
    tables = {name: table_total(entries, name) for name in dict.fromkeys(entry.table for entry in entries)}
    if not as_json:
        print_ledger(str(path), entries, total, tables, limits)
        return
    listed = [
        {
            "entry": entry.number,
            "command": entry.command,
            "state": entry.state,
            "table": entry.table,
            "when": entry.when,
            "epsilon": entry.cost.epsilon,
            "delta": entry.cost.delta,
            "n_records": max((view.n_records for view in entry.views.values()), default=None),
            "mechanisms": to_plain(entry.cost.by_group),
            "shares_records_with": sorted({number for history in entry.histories for number in history}),
            "series": None if entry.series is None else to_plain(entry.series),
        }
        for entry in entries
    ]
    print_json({"ledger": str(path), "entries": listed, "total": total, "tables": tables, "limits": limits})


@ledger.command(epilog="\b\nExample:\n  fairdp ledger limit loans.csv --epsilon 3\n")
@click.argument("table")
@click.option("--epsilon", type=float, required=True, help="The most that may be spent on TABLE or on a record of it.")
@click.option("--delta", type=float, help="The same for delta; needed with --order.")
@click.option(
    "--order",
    type=int,
    help="Keep the limit by a Renyi filter at this order instead of by the sum of epsilons.",
)
@_ledger_option
@json_option
def limit(table: str, epsilon: float, delta: float | None, order: int | None, path: Path | None, as_json: bool) -> None:
    """Limit what may be spent on TABLE in total: commands that would exceed it are refused and spend nothing."""
    from fairdp._io import to_plain
    from fairdp.cli.printing import print_pairs
    from fairdp.ledger.ledger import Ledger
    from fairdp.ledger.store import Limit

    chosen = Limit(table=table, epsilon=epsilon, delta=delta, order=order)
    with Ledger(_path(path)) as ledger:
        ledger.set_limit(chosen)
        names = {entry.table for entry in ledger.entries()}
    if table not in names:
        say(f"nothing was spent on a table named {table!r} yet: see the names in `fairdp ledger`.")
    given = {name: value for name, value in to_plain(chosen).items() if value is not None}
    print_pairs(chosen if as_json else given, as_json=as_json)


@ledger.command(epilog="\b\nExample:\n  fairdp ledger check model/\n")
@click.argument("folders", nargs=-1, type=click.Path(path_type=Path))
@_ledger_option
@json_option
def check(folders: tuple[Path, ...], path: Path | None, as_json: bool) -> None:
    """Check that the ledger is whole, and that it has the entries of the models in FOLDERS.

    A ledger that was restored from an older copy lacks the entries of later models.
    """
    from fairdp._io import content_of, from_plain, parsed_json
    from fairdp.accounting.spent import LedgerNote
    from fairdp.cli.printing import print_pairs
    from fairdp.errors import DataError, SavedModelError
    from fairdp.ledger.ledger import Ledger, Receipt

    path = _path(path)
    if not path.exists():
        raise DataError(f"there is no ledger {str(path)!r}; name another with --ledger.")
    with Ledger(path) as ledger:
        n_entries = ledger.check()
        for folder in folders:
            # Without the model, which nobody needs here.
            try:
                note = from_plain(LedgerNote, parsed_json(content_of(folder / "privacy.json"))["ledger"])
            except (OSError, ValueError, LookupError, TypeError):
                raise SavedModelError(
                    f"{str(folder)!r} names no entry of a ledger: it is no saved model, or none was kept."
                ) from None
            ledger.entry_of(Receipt(entry=note.entry, token=note.token))
    print_pairs({"ledger": str(path), "entries": n_entries, "whole": True}, as_json=as_json)


def _path(path: Path | None) -> Path:
    from fairdp.ledger.ledger import ledger_path

    return path or ledger_path()
