"""Disturbed scenarios: commands on a small table, what is there before, and what must hold afterwards."""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from cli_cases import SCHEMA, people
from fairdp.errors import InputError
from fairdp.ledger.ledger import Ledger
from fairdp.ledger.store import Entry
from faults.disturbing import Calls, Ended, nothing, started

LEDGER = "ledger.sqlite"
OF_TABLE = ("--schema", "schema.json", "--ledger", LEDGER)
BRIEF = ("--certify-metrics", "demographic_parity")
IN_STEPS = ("--method", "dpsgd", "--model", "logistic", "--n-steps", "3", "--sample-rate", "0.5")
# By what a refusal is known that is about records which were used.
USED = "used before"
ENDINGS = (0, 2)


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A command in a folder with the old model, and what a whole run of it leaves.

    Parameters
    ----------
    entries
        Entries that it writes into the ledger.
    expendable
        Records that it uses: once something is released from them, they cannot certify the model in the folder.
    again
        The same command after an interruption, by what that left.
    """

    name: str
    command: tuple[str, ...]
    entries: int = 1
    expendable: str = ""
    again: Callable[[Path, tuple[str, ...]], tuple[str, ...]] = lambda folder, command: command


def resumed(folder: Path, command: tuple[str, ...]) -> tuple[str, ...]:
    """Continue where there is something to continue from."""
    return (*command, "--resume") if (folder / "run.checkpoint").exists() else command


FITTING = ("fit", "other.csv", *OF_TABLE, *BRIEF, "--out", "model", "--overwrite", "--seed", "2")
FIT = Scenario(
    name="fit",
    command=(*FITTING, "--n-steps", "5"),
)
FIT_IN_STEPS = Scenario(
    name="fit with a checkpoint",
    command=(*FITTING, *IN_STEPS, "--checkpoint", "run.checkpoint"),
    again=resumed,
)
CERTIFYING = ("--epsilon", "1", *BRIEF, "--seed", "2", "--ledger", LEDGER)
CERTIFY = Scenario(
    name="certify",
    command=("certify", "model", "fresh.csv", *CERTIFYING),
    expendable="fresh.csv",
)
TUNE = Scenario(
    name="tune",
    command=(
        # A seed with two trials.
        *("tune", "other.csv", *OF_TABLE, "--out", "model", "--overwrite", "--seed", "6"),
        *("--grid", "n_steps=4,5", "--trials", "2"),
    ),
)
COMPARE = Scenario(
    name="compare",
    command=(
        *("compare", "other.csv", *OF_TABLE, "--methods", "fairfm", "--seeds", "2"),
        *("--workers", "1", "--out", "comparison"),
    ),
    entries=2,
)
SCENARIOS = (FIT, FIT_IN_STEPS, CERTIFY, TUNE, COMPARE)


def prepared(place: Path) -> Path:
    """Tables of different people, their schema, and the old model with its entry."""
    folder = place / "before"
    folder.mkdir()
    everybody = people(1200).assign(age=range(1200))
    schema = {**SCHEMA, "table": "people", "group_sizes": {"f": 150, "m": 150}}
    schema["columns"] = [{**SCHEMA["columns"][0], "low": 0, "high": 1200}, *SCHEMA["columns"][1:]]
    (folder / "schema.json").write_text(json.dumps(schema))
    for place, name in enumerate(("table", "other", "fresh", "later")):
        everybody[300 * place : 300 * (place + 1)].to_csv(folder / f"{name}.csv", index=False)
    ended = run(folder, ("fit", "table.csv", *OF_TABLE, *BRIEF, "--out", "model", "--seed", "1"))
    assert ended.code == 0, ended.said
    return folder


def run(
    folder: Path, command: tuple[str, ...], *, calls: Calls | None = None, control: Callable[[], None] = nothing
) -> Ended:
    """Run a command to its end, in a copy of this process."""
    notes = folder.with_name(f"{folder.name}-notes")
    return started(folder, list(command), notes, calls=calls or Calls(), control=control).end()


def entries_in(folder: Path) -> list[Entry]:
    """All entries of the ledger, which must be whole."""
    with Ledger(folder / LEDGER) as ledger:
        ledger.check()
        return ledger.entries()


def digest_of(folder: Path) -> str:
    """The same for two folders whose files have the same names and bytes."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        content = path.read_bytes() if path.is_file() else b""
        digest.update(f"{path.relative_to(folder)} {len(content)} ".encode() + content)
    return digest.hexdigest()


class Judge:
    """Says what is wrong after a command was disturbed, if anything is.

    Two disturbances that leave the same bytes behind are judged once.
    """

    def __init__(self, scenario: Scenario, before: Path, whole: Path, *, control: Callable[[], None] = nothing) -> None:
        self.scenario, self._control = scenario, control
        self._before, self._expected = entries_in(before), entries_in(whole)
        self._old, self._new = (parameters_in(folder) for folder in (before, whole))
        self._kept = {path.name for path in whole.iterdir()}
        self._known: dict[str, list[str]] = {}

    def complaints(self, folder: Path, ended: Ended) -> list[str]:
        """All that does not hold."""
        found = [f"exit code {ended.code}: {ended.said[-300:]}"] if ended.code not in (*ENDINGS, -9) else []
        if ended.code == 0 and parameters_in(folder) != self._new:
            found.append("it says that all is done, but the model is not the new one")
        released = min(len(ended.released), self.scenario.entries)
        state = f"{digest_of(folder)} {released}"
        if state not in self._known:
            self._known[state] = list(self._of_state(folder, released))
        return found + self._known[state]

    def _of_state(self, folder: Path, released: int) -> Iterator[str]:
        yield from self._of_ledger(folder, released)
        yield from self._of_model(folder, released)
        yield from self._of_another_run(folder)

    def _of_ledger(self, folder: Path, released: int) -> Iterator[str]:
        try:
            new = entries_in(folder)[len(self._before) :]
        except InputError as error:
            yield f"the ledger: {error}"
            return
        if len(new) < released:
            yield f"{released} releases have {len(new)} entries"
        for entry, expected in zip(new, self._expected[len(self._before) :], strict=False):
            if entry.cost != expected.cost:
                yield f"entry {entry.number} has another cost"

    def _of_model(self, folder: Path, released: int) -> Iterator[str]:
        found = list(not_verified(folder, "model"))
        if found:
            yield from found
            return
        seen = {self._old: "table.csv", self._new: "table.csv" if self._old == self._new else "other.csv"}
        tables = [seen.get(parameters_in(folder), "")]
        if not tables[0]:
            yield "the model is neither the old one nor the new one"
        if self.scenario.expendable and released:
            tables.append(self.scenario.expendable)
        for table in filter(None, tables):
            yield from unnoticed_use(folder, "model", table)

    def _of_another_run(self, folder: Path) -> Iterator[str]:
        """The command again: it ends, with the same model and nothing left over, or refuses records that were used."""
        command = self.scenario.again(folder, self.scenario.command)
        spent = len(entries_in(folder))
        again = run(folder, command, control=self._control)
        if again.code == 2 and USED in again.said and self.scenario.expendable:
            return
        if again.code:
            yield f"the same command afterwards: {again.said[-300:]}"
        elif parameters_in(folder) != self._new:
            yield "the same command afterwards makes another model"
        if "--resume" in command and len(entries_in(folder)) != spent:
            yield "a run that was continued has paid twice"
        left = {path.name for path in folder.iterdir()} - self._kept
        if left:
            yield f"left behind: {', '.join(sorted(left))}"


def not_verified(folder: Path, model: str) -> Iterator[str]:
    """The checks that fail in `fairdp verify`."""
    verified = run(folder, ("verify", model))
    if verified.code:
        yield f"verify: {verified.said[-300:]}"


def unnoticed_use(folder: Path, model: str, table: str) -> Iterator[str]:
    """True if records can certify a model that has used them."""
    refused = run(folder, ("certify", model, table, "--epsilon", "1", "--ledger", LEDGER))
    if refused.code != 2 or USED not in refused.said:
        yield f"{table} certifies a model that has used it: {refused.said[-300:]}"


def parameters_in(folder: Path, model: str = "model") -> str:
    """By what models are told apart; empty where there is none."""
    path = folder / model / "model.safetensors"
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def copied(source: Path, target: Path) -> Path:
    """A copy of a folder to disturb a command in."""
    shutil.rmtree(target, ignore_errors=True)
    return Path(shutil.copytree(source, target))
