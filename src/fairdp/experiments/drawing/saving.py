"""Figures as files that are the same, byte for byte, whenever they are drawn from the same rows."""

import io
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from fairdp._files import write_file
from fairdp.experiments.drawing.grid import DPI
from fairdp.report.style import house_style


def save_figure(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write ``NAME.png`` and ``NAME.svg``; their paths."""
    title, words = (
        " ".join(t.get_text() for t in figure.texts if t.get_gid() == gid) for gid in ("headline", "caption")
    )
    # A date or a version would differ from run to run or from machine to machine.
    described: dict[str, dict[str, Any]] = {
        "png": {"Software": None, "Title": title, "Description": words},
        "svg": {"Date": None, "Creator": None, "Title": title, "Description": words},
    }
    paths = []
    for kind, metadata in described.items():
        stream = io.BytesIO()
        with house_style():
            figure.savefig(stream, format=kind, dpi=DPI, metadata=metadata)
        paths.append(folder / f"{name}.{kind}")
        write_file(paths[-1], stream.getvalue())
    return paths
