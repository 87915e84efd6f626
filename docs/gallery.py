"""Make the pictures of reports in docs/tutorials/first-report.md: `python docs/gallery.py` trains and photographs them.

Needs Chromium (or Chrome) on the path, or its path in CHROMIUM, and the data sets adult and credit.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

PICTURES = Path(__file__).parent / "tutorials" / "gallery"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
# The head of a report, as a laptop shows it.
SIZE = "1100,1400"
LARGEST = 150_000
# A target that is missed, or a bound that is, ends with 1, and may be what a picture shows.
DONE = (0, 1)


@dataclass(frozen=True)
class Example:
    """One report: the name of its picture, and the options that made its model."""

    name: str
    options: str

    @property
    def command(self) -> str:
        """As a reader would type it."""
        return f"fairdp fit {self.options} --seed 0 --out {self.name}/"


EXAMPLES = (
    Example("adult", "--dataset adult --epsilon 1 --max-gap .12"),
    Example("hidden", "--dataset credit --epsilon .2 --parity equalized_odds --max-gap .01 --price .01"),
)


def browser() -> str:
    """The browser to photograph with."""
    asked = os.environ.get("CHROMIUM")
    found = asked or next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        sys.exit(f"no browser: install one of {', '.join(BROWSERS)}, or name it in CHROMIUM")
    return found


def photograph(html: Path, png: Path, program: str) -> None:
    """The head of a page as a picture, with few enough colours to be small."""
    with tempfile.TemporaryDirectory() as profile:
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={profile}"]
        shot = Path(profile) / "shot.png"
        command = [program, *options, f"--window-size={SIZE}", f"--screenshot={shot}", html.resolve().as_uri()]
        subprocess.run(command, check=True, capture_output=True, timeout=300)
        _shrink(shot, png)


def _shrink(shot: Path, png: Path) -> None:
    from PIL import Image

    picture = Image.open(shot).convert("RGB")
    for colours in (64, 32, 16):
        picture.quantize(colours, dither=Image.Dither.NONE).save(png, optimize=True)
        if png.stat().st_size <= LARGEST:
            return
    sys.exit(f"{png} has {png.stat().st_size} bytes, more than {LARGEST}")


def make(example: Example, folder: Path, program: str) -> None:
    """Train, report and photograph one model."""
    fairdp = [sys.executable, "-m", "fairdp"]
    model, html = folder / example.name, folder / f"{example.name}.html"
    trained = subprocess.run([*fairdp, *example.command.split()[1:-1], str(model)], capture_output=True, text=True)
    if trained.returncode not in DONE:
        sys.exit(f"{example.command}: {trained.stderr}")
    subprocess.run([*fairdp, "report", str(model), "--out", str(html)], check=True, capture_output=True)
    photograph(html, PICTURES / f"{example.name}.png", program)
    print(f"{example.name}: {trained.stdout.splitlines()[0]}")


def main() -> None:
    program = browser()
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for example in EXAMPLES:
            make(example, Path(folder), program)


if __name__ == "__main__":
    main()
