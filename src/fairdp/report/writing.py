"""`fairdp report`: from a folder to one file."""

from pathlib import Path
from typing import Any

from fairdp._files import write_file
from fairdp.report.comparison import is_comparison, read_comparison
from fairdp.report.model import read_model_report
from fairdp.report.rendering import FORMATS, render_comparison, render_model


def run_report(
    folder: Path, *, out: Path | None = None, format: str | None = None, comparison: Path | None = None
) -> dict[str, Any]:
    """Write the report of a saved model, or of a comparison; ``verified`` is None where there is nothing to verify.

    Parameters
    ----------
    out
        The file; by default named like the folder and beside it, because the folder itself is covered by checksums.
    format
        One of ``FORMATS``; by default that of the file's ending, else HTML.
    comparison
        A folder of `fairdp compare` to show beside the model.
    """
    if not folder.is_dir():
        raise ValueError(f"{str(folder)!r} is not a folder; name the folder of a saved model or of a comparison.")
    format = format or ("markdown" if out is not None and out.suffix.lower() == ".md" else "html")
    out = out or _beside(folder, FORMATS[format])
    if out.resolve().parent == folder.resolve():
        raise ValueError(f"--out {str(out)!r} lies in the folder that it reports on; choose a file outside of it.")
    if is_comparison(folder):
        if comparison is not None:
            raise ValueError(f"{str(folder)!r} is itself a comparison; leave out --comparison or name a saved model.")
        verified, content = None, render_comparison(read_comparison(folder), format=format)
    else:
        compared = None if comparison is None else read_comparison(comparison)
        report = read_model_report(folder)
        verified, content = report.verified, render_model(report, compared, format=format)
    try:
        write_file(out, content)
    except OSError as error:
        raise ValueError(f"--out {str(out)!r} cannot be written: {error.strerror}.") from None
    return {"out": str(out), "format": format, "verified": verified, "bytes": len(content)}


def _beside(folder: Path, ending: str) -> Path:
    """A file named like the folder, beside it."""
    known = folder if folder.name not in ("", "..") else folder.resolve()
    return known.with_name(f"{known.name}-report{ending}")
