"""Draw what `make demo` prints: runs the same command and saves its output as an SVG."""

import io
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

DEMO = ["fit", "--dataset", "adult", "--epsilon", "1", "--seed", "0"]


def main(target: str) -> None:
    program = Path(sys.executable).with_name("fairdp")
    run = subprocess.run([program, *DEMO], capture_output=True, text=True, check=True)
    console = Console(record=True, width=100, file=io.StringIO())
    console.print(Text(f"$ fairdp {' '.join(DEMO)}", style="bold green"))
    console.print(Text(run.stdout.rstrip()))
    console.save_svg(target, title="make demo")


if __name__ == "__main__":
    main(sys.argv[1])
