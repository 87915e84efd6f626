"""Sentences are pinned once, on pages that a person reads in a diff; elsewhere tests ask for codes and fields."""

import json
import os
import re
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "golden"
# A file to which titles and texts are noted instead of being compared.
NOTED = "FAIRDP_GOLDEN_NOTED"
TITLE = "=== "
_MASKS = (
    (re.compile(r"/[^ '\"]*/fairdp-pool-\w+/\w+(\.draft)?"), "POOL"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "<sha256>"),
    (re.compile(r"\b20\d\d-\d\d-\d\d\b"), "<date>"),
    (re.compile(r"\b(fairdp|torch|numpy|Python) \d+\.\d+(\.\d+)*(\+\w+)?"), r"\1 <version>"),
)
# What follows from training may differ in its last digits from processor to processor.
_FIGURE = re.compile(r"\d+\.\d{2,}(e-?\d+)?")


def masked(text: str, place: Path, *, figures: bool = True) -> str:
    """A text without what differs from day to day or machine to machine, and without figures if a fit made them."""
    text = text.replace(str(place), "PLACE")
    for pattern, mask in _MASKS:
        text = pattern.sub(mask, text)
    text = text if figures else _FIGURE.sub("#", text)
    return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n")


@cache
def page(name: str) -> dict[str, str]:
    """The texts of a page by their titles."""
    _, *parts = (FOLDER / f"{name}.txt").read_text(encoding="utf-8").split(f"\n{TITLE}")
    return {title: text.strip("\n") for title, _, text in (part.partition("\n") for part in parts)}


def compare(name: str, title: str, text: str) -> None:
    """Fail unless the page has this text under its title."""
    if noted := os.environ.get(NOTED):
        with open(noted, "a", encoding="utf-8") as file:
            file.write(json.dumps([name, title, text]) + "\n")
        return
    assert text == page(name).get(title), f"{name}.txt says otherwise; if this is better, run `make pages`"


def written(name: str, texts: dict[str, str]) -> str:
    """A page of these texts."""
    head = f"{name}: what users are told, written by tests/golden/write.py. A changed sentence shows here alone.\n"
    return head + "".join(f"\n{TITLE}{title}\n{text}\n" for title, text in texts.items())
