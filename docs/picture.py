"""Draw what `make demo` prints first: runs the same command and saves its table as an SVG."""

import io
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

DEMO = ["demo", "--seed", "0", "--out", "demo"]
WIDTH = 88


def shown(printed: str) -> str:
    """The table and what is said of it, without the full report of one model that follows."""
    first, _, _ = printed.partition("\n\nModels: ")
    return first.rstrip()


def svg(text: str) -> str:
    """A terminal with the command and this text."""
    console = Console(record=True, width=WIDTH, file=io.StringIO())
    console.print(Text(f"$ fairdp {' '.join(DEMO)}", style="bold green"))
    console.print(Text(text))
    return console.export_svg(title="make demo")


def main(target: str) -> None:
    program = Path(sys.executable).with_name("fairdp")
    run = subprocess.run([program, *DEMO, "--overwrite"], capture_output=True, text=True, check=True)
    Path(target).write_text(svg(shown(run.stdout)), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
