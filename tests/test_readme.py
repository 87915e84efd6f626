"""Every command in the README is run as it stands, on a table like the one it speaks of."""

import re
import runpy
import shlex
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from fairdp import cli
from fairdp.run import plan as planned

DOCS = Path(__file__).parent.parent / "docs"
README = (DOCS.parent / "README.md").read_text()
FENCED = re.findall(r"^```(\w*)\n(.*?)^```$", README, flags=re.DOTALL | re.MULTILINE)
BLOCKS = [block for language, block in FENCED if not language and "fairdp " in block]
# The table of commands goes on where the first block ends.
TABLE = "".join(f"{command}\n" for command in re.findall(r"^\| \[`(fairdp [^`]+)`\]", README, flags=re.MULTILINE))
BLOCKS[0] += TABLE
ANSWER = next(block for language, block in FENCED if language == "text")


def loans(n_rows: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    # As fine as no two people share: a record that equals a used one is not fresh.
    income = rng.gamma(4, 10, n_rows).round(6)
    repaid = np.where(income + 10 * rng.normal(size=n_rows) > 30, "yes", "no")
    return pd.DataFrame(
        {
            "sex": rng.choice(["f", "m"], n_rows),
            "region": rng.choice(["north", "south"], n_rows),
            "income": income,
            "purpose": rng.choice(["car", "house", "other"], n_rows),
            "repaid": repaid,
        }
    )


def commands(block: str) -> list[list[str]]:
    return [shlex.split(line, comments=True) for line in block.splitlines() if line.startswith("fairdp ")]


def test_the_readme_shows_commands():
    assert sum(len(commands(block)) for block in BLOCKS) >= 15
    # Three of them are all that a newcomer needs.
    assert [line[1] for line in commands(BLOCKS[0])[:3]] == ["schema", "fit", "report"]


def test_the_table_names_every_command_of_the_product():
    laboratory = {"audit", "bench", "compare", "demo", "paper-bounds", "reproduce"}
    assert set(cli.fairdp.every_command()) - {line[1] for line in commands(TABLE)} == {"schema", "report", *laboratory}


def test_the_readme_is_short():
    assert len(README.splitlines()) <= 150


def test_the_answer_that_is_shown_is_the_one_of_the_tutorial():
    """Which is run, and compared with what it shows, by the tests of the site; there with a seed."""
    answers = SimpleNamespace(**runpy.run_path(str(DOCS / "answers.py")))
    tutorial = (DOCS / f"{answers.FIRST}.md").read_text()
    (block,) = (block for _, block in answers.FENCES.findall(tutorial) if block.startswith("result "))
    assert answers.in_readme(block) == ANSWER
    assert [line.split()[0] for line in ANSWER.splitlines() if not line.startswith(" ")] == [
        "result",
        "privacy",
        "fairness",
        "useful",
        "next",
    ]


def test_the_accuracy_that_is_shown_is_that_of_the_benchmarks():
    ours, dpsgd, ebm, boosting = re.findall(r"(?<= )\.\d{3}", README.split("## How it compares")[1].split("##")[0])
    row = f"| adult_full | {ours} | .863 | {dpsgd} | {ebm} | .854 | {boosting} | "
    assert row in (DOCS / "explanation" / "benchmarks.md").read_text()


@pytest.mark.parametrize("line", [line for block in BLOCKS for line in commands(block)], ids=" ".join)
def test_every_command_of_the_readme_is_understood(line, tmp_path, monkeypatch):
    """Its options and their values, without running it."""
    monkeypatch.chdir(tmp_path)
    for name in ("loans.csv", "new.csv", "labelled.csv", "fresh.csv"):
        (tmp_path / name).touch()
    name, *words = line[1 : line.index(">")] if ">" in line else line[1:]
    command = cli.fairdp.every_command()[name]
    with command.make_context(name, words, **cli.fairdp.context_settings) as context:
        # A group has its command among what is left to parse.
        assert context.params or set(words) & set(getattr(command, "commands", ()))


@pytest.mark.more
@pytest.mark.needs_data("adult")
@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.split()[1])
def test_commands_of_the_readme_run(block, tmp_path, monkeypatch, capsys):
    for name, seed in (("loans", 0), ("new", 1), ("labelled", 2), ("fresh", 3)):
        loans(1600, seed).to_csv(tmp_path / f"{name}.csv", index=False)
    monkeypatch.chdir(tmp_path)
    key = Ed25519PrivateKey.generate()
    Path("key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    # Far fewer steps: what is tested is that every line is a command that works on what the lines before it left.
    monkeypatch.setattr(planned, "default_n_steps", lambda own, sample_rate: 20)
    for _, *words in commands(block):
        redirected = words[words.index(">") + 1] if ">" in words else None
        arguments = words[: words.index(">")] if redirected else words
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main(arguments)
        printed = capsys.readouterr()
        assert ended.value.code == 0, (words, printed.err)
        if redirected:
            Path(redirected).write_text(printed.out)
