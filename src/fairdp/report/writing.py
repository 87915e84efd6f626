"""`fairdp report`: from a folder to one file."""

from dataclasses import dataclass
from pathlib import Path

from fairdp._checks import InputError, ParameterError
from fairdp._files import write_out
from fairdp.report.appendix import read_appendix
from fairdp.report.audit import read_audit
from fairdp.report.comparison import is_comparison, read_comparison
from fairdp.report.ll144 import ll144
from fairdp.report.model import read_model_report
from fairdp.report.owner import NO_CARD, read_card
from fairdp.report.rendering import FORMATS, Beside, render_appendix, render_comparison, render_model

# Ends every page, in HTML and in Markdown alike: what it ends can be written again, and nothing else is replaced.
STAMP = b"\n<!-- written by fairdp report -->\n"


@dataclass(frozen=True, kw_only=True)
class WrittenReport:
    """The file that was written; ``verified`` is None where there is nothing to verify.

    ``appendix`` is the file with exact figures that belongs to it, None if none was asked for.
    """

    out: str
    format: str
    verified: bool | None
    bytes: int
    appendix: str | None = None


def run_report(
    folder: Path,
    *,
    out: Path | None = None,
    format: str | None = None,
    comparison: Path | None = None,
    audit: Path | None = None,
    card: Path | None = None,
    profile: str | None = None,
    appendix: Path | None = None,
) -> WrittenReport:
    """Write the report of a saved model, or of a comparison.

    Parameters
    ----------
    out
        The file; by default named like the folder and beside it, because the folder itself is covered by checksums.
    format
        One of ``FORMATS``; by default that of the file's ending, else HTML.
    comparison
        A folder of `fairdp compare` to show beside the model.
    audit
        A file of `fairdp audit` to show beside the model.
    card
        A file with what only the owner can say.
    profile
        The rules whose figures to show too, such as ``"ll144"``.
    appendix
        A file of `fairdp evaluate --json`: its exact figures are written to a file of their own, for the data holder.
    """
    if not folder.is_dir():
        raise InputError(f"{str(folder)!r} is not a folder; name the folder of a saved model or of a comparison.")
    format = format or ("markdown" if out is not None and out.suffix.lower() == ".md" else "html")
    out = out or _beside(folder, FORMATS[format])
    if out.resolve().parent == folder.resolve():
        raise ParameterError("out", str(out), "lies in the folder that it reports on", "choose a file outside of it")
    _refuse_foreign(out)
    if is_comparison(folder):
        _refuse_beside_comparison(
            folder, comparison=comparison, audit=audit, card=card, profile=profile, appendix=appendix
        )
        content = render_comparison(read_comparison(folder), format=format) + STAMP
        write_out(out, content)
        return WrittenReport(out=str(out), format=format, verified=None, bytes=len(content))
    own = out.with_name(f"{out.stem}-appendix{out.suffix}") if appendix is not None else None
    if own is not None:
        _refuse_foreign(own)
    said = NO_CARD if card is None else read_card(card)
    compared = None if comparison is None else read_comparison(comparison)
    report = read_model_report(folder)
    beside = Beside(
        card=said,
        compared=compared,
        audit=None if audit is None else read_audit(audit, report.method_name),
        profile=None if profile is None else ll144(report, profile),
    )
    content = render_model(report, beside, format=format) + STAMP
    exact = None if appendix is None else render_appendix(report, read_appendix(appendix, report), format=format)
    write_out(out, content)
    if exact is not None and own is not None:
        write_out(own, exact + STAMP)
    return WrittenReport(
        out=str(out),
        format=format,
        verified=report.verified,
        bytes=len(content),
        appendix=None if own is None else str(own),
    )


def _refuse_beside_comparison(folder: Path, *, comparison: Path | None, **others: Path | str | None) -> None:
    """What is about one model cannot stand beside a comparison of many."""
    if comparison is not None:
        raise InputError(f"{str(folder)!r} is itself a comparison; leave out `comparison` or name a saved model.")
    for name, value in others.items():
        if value is not None:
            raise ParameterError(name, str(value), "is about one model", "leave it out, or name a saved model")


def _refuse_foreign(out: Path) -> None:
    """Refuse to replace a file that is no page of ours."""
    if out.is_file() and out.stat().st_size and not out.read_bytes().endswith(STAMP):
        raise ParameterError("out", str(out), "exists and was not written by fairdp report", "choose another file")


def _beside(folder: Path, ending: str) -> Path:
    """A file named like the folder, beside it."""
    known = folder if folder.name not in ("", "..") else folder.resolve()
    return known.with_name(f"{known.name}-report{ending}")
