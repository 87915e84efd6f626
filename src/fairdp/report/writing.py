"""`fairdp report`: from a folder to one file."""

from dataclasses import dataclass
from pathlib import Path

from fairdp._checks import InputError, ParameterError
from fairdp._files import write_out
from fairdp.report.audit import read_audit
from fairdp.report.comparison import is_comparison, read_comparison
from fairdp.report.model import read_model_report
from fairdp.report.rendering import FORMATS, render_comparison, render_model

# Ends every page, in HTML and in Markdown alike: what it ends can be written again, and nothing else is replaced.
STAMP = b"\n<!-- written by fairdp report -->\n"


@dataclass(frozen=True, kw_only=True)
class WrittenReport:
    """The file that was written; ``verified`` is None where there is nothing to verify."""

    out: str
    format: str
    verified: bool | None
    bytes: int


def run_report(
    folder: Path,
    *,
    out: Path | None = None,
    format: str | None = None,
    comparison: Path | None = None,
    audit: Path | None = None,
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
    """
    if not folder.is_dir():
        raise InputError(f"{str(folder)!r} is not a folder; name the folder of a saved model or of a comparison.")
    format = format or ("markdown" if out is not None and out.suffix.lower() == ".md" else "html")
    out = out or _beside(folder, FORMATS[format])
    if out.resolve().parent == folder.resolve():
        raise ParameterError("out", str(out), "lies in the folder that it reports on", "choose a file outside of it")
    _refuse_foreign(out)
    if is_comparison(folder):
        if audit is not None:
            raise ParameterError("audit", str(audit), "is about a method", "leave it out, or name a saved model")
        if comparison is not None:
            raise InputError(f"{str(folder)!r} is itself a comparison; leave out `comparison` or name a saved model.")
        verified, content = None, render_comparison(read_comparison(folder), format=format)
    else:
        compared = None if comparison is None else read_comparison(comparison)
        report = read_model_report(folder)
        audited = None if audit is None else read_audit(audit, report.method_name)
        verified, content = report.verified, render_model(report, compared, format=format, audit=audited)
    content += STAMP
    write_out(out, content)
    return WrittenReport(out=str(out), format=format, verified=verified, bytes=len(content))


def _refuse_foreign(out: Path) -> None:
    """Refuse to replace a file that is no page of ours."""
    if out.is_file() and out.stat().st_size and not out.read_bytes().endswith(STAMP):
        raise ParameterError("out", str(out), "exists and was not written by fairdp report", "choose another file")


def _beside(folder: Path, ending: str) -> Path:
    """A file named like the folder, beside it."""
    known = folder if folder.name not in ("", "..") else folder.resolve()
    return known.with_name(f"{known.name}-report{ending}")
