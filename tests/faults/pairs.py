"""One command is held at each of its ledger operations and locks while another runs to its end."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fairdp.certify.certificate import Certificate
from fairdp.errors import InputError
from fairdp.saved.folder import read_model
from faults.counts import Count, NegativeControl, Tally
from faults.disturbing import LEDGER, LOCK, Calls, Ended, Hold, nothing, started
from faults.negative_controls import (
    WORDS,
    used_records_of_the_start,
    without_claims,
    without_claims_at_the_start,
    without_locks,
    without_transactions,
)
from faults.points import NOTICED
from faults.scenarios import (
    CERTIFYING,
    ENDINGS,
    FIT,
    OF_TABLE,
    copied,
    digest_of,
    entries_in,
    not_verified,
    parameters_in,
    run,
    unnoticed_use,
)
from faults.steady import rehearse

KIND = "held at every ledger operation"
# The old model has spent one; there is room for one more.
BUDGET = 2.5
OPERATIONS = (LEDGER, LOCK)


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two commands at once: the first is held, the second runs; ``most`` of them may release something."""

    name: str
    first: tuple[str, ...]
    second: tuple[str, ...]
    most: int
    control: NegativeControl

    @property
    def commands(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Both."""
        return self.first, self.second


def _certify(model: str, table: str) -> tuple[str, ...]:
    return ("certify", model, table, *CERTIFYING)


def _fit(out: str) -> tuple[str, ...]:
    return ("fit", "other.csv", *OF_TABLE, "--n-steps", "5", "--out", out, "--seed", "3", "--budget", str(BUDGET))


PAIRS = (
    Pair(
        name="two certify of the same records",
        first=_certify("model", "fresh.csv"),
        second=_certify("model", "fresh.csv"),
        most=1,
        control=without_claims_at_the_start,
    ),
    Pair(
        name="two certify of the same records, by two copies of the model",
        first=_certify("model", "fresh.csv"),
        second=_certify("copy", "fresh.csv"),
        most=1,
        control=used_records_of_the_start,
    ),
    Pair(
        name="two certify of different records of one model",
        first=_certify("model", "fresh.csv"),
        second=_certify("model", "later.csv"),
        most=2,
        control=without_claims,
    ),
    Pair(
        name="two fit with a budget for one",
        first=_fit("one"),
        second=_fit("two"),
        most=1,
        control=without_transactions,
    ),
    Pair(
        name="certify held, fit over the same model",
        first=_certify("model", "fresh.csv"),
        second=FIT.command,
        most=2,
        control=without_claims,
    ),
    Pair(
        name="fit over a model held, certify of the same model",
        first=FIT.command,
        second=_certify("model", "fresh.csv"),
        most=2,
        control=without_locks,
    ),
)


def with_copy(before: Path) -> Path:
    """The initial state, with a copy of the model."""
    folder = copied(before, before.with_name("before-pairs"))
    shutil.copytree(folder / "model", folder / "copy")
    return folder


class PairJudge:
    """Says what is wrong after two commands at once; the same state is judged once."""

    def __init__(self, pair: Pair, before: Path) -> None:
        self._pair, self._before = pair, before
        self._known: dict[str, list[str]] = {}

    def complaints(self, folder: Path, ended: tuple[Ended, Ended]) -> list[str]:
        """All that does not hold."""
        found = [f"exit code {each.code}: {each.said[-300:]}" for each in ended if each.code not in ENDINGS]
        who = [command for command, each in zip(self._pair.commands, ended, strict=True) if each.released]
        if len(who) > self._pair.most:
            found.append("both have released")
        state = f"{digest_of(folder)} {who}"
        if state not in self._known:
            self._known[state] = list(self._of_state(folder, who))
        return found + self._known[state]

    def _of_state(self, folder: Path, who: list[tuple[str, ...]]) -> Iterator[str]:
        try:
            entries = entries_in(folder)
        except InputError as error:
            yield f"the ledger: {error}"
            return
        new = len(entries) - len(entries_in(self._before))
        if new != len(who):
            yield f"{len(who)} releases have {new} entries"
        budget = BUDGET if "--budget" in self._pair.first else float("inf")
        if sum(entry.cost.epsilon for entry in entries) > budget:
            yield "the budget is exceeded"
        for path in sorted(folder.glob("*/model.json")):
            yield from self._of_model(folder, path.parent.name, who)

    def _of_model(self, folder: Path, model: str, who: list[tuple[str, ...]]) -> Iterator[str]:
        yield from not_verified(folder, model)
        if parameters_in(folder, model) != parameters_in(self._before):
            yield from unnoticed_use(folder, model, "other.csv")
            return
        if any(command[0] == "fit" and command[command.index("--out") + 1] == model for command in who):
            yield f"the model that a fit has written to {model} is gone"
        tables = [command[2] for command in who if command[:2] == ("certify", model)]
        for table in ("table.csv", *tables):
            yield from unnoticed_use(folder, model, table)
        certificate = read_model(folder / model).certificate
        assert isinstance(certificate, Certificate)
        earlier = () if certificate.about is None else certificate.about.earlier
        if len(earlier) != len(tables):
            yield f"{len(tables)} certificates were made of {model}, and {len(earlier)} are on record"


def held_at_every_operation(pair: Pair, before: Path, *, stride: int = 1, control: NegativeControl = nothing) -> Tally:
    """Hold the first command at each of its operations, or at some, while the second runs."""
    case = before.with_name("case")
    for command in pair.commands:
        rehearse(copied(before, case), command)
    alone = run(copied(before, case), pair.first, calls=Calls(kinds=OPERATIONS), control=control)
    assert alone.code == 0, alone.said
    judge, tally = PairJudge(pair, before), Tally()
    for at in range(len(alone.calls), 0, -stride):
        ended = _both(pair, copied(before, case), at, control)
        tally.add(f"operation {at}, {alone.calls[at - 1]}", judge.complaints(case, ended))
        if control is not nothing and tally.failed == NOTICED:
            break
    return tally


def _both(pair: Pair, folder: Path, at: int, control: NegativeControl) -> tuple[Ended, Ended]:
    hold = Hold()
    calls = Calls(at=at, then=hold, kinds=OPERATIONS)
    first = started(folder, list(pair.first), folder.with_name("first-notes"), calls=calls, control=control)
    hold.wait()
    second = run(folder, pair.second, control=control)
    hold.release()
    return first.end(), second


def count_pairs(before: Path, pairs: tuple[Pair, ...] = PAIRS, *, stride: int = 1) -> Iterator[Count]:
    """All pairs.

    The negative control is tried at every operation until it is noticed: it goes wrong at few of them.
    """
    before = with_copy(before)
    for pair in pairs:
        tally = held_at_every_operation(pair, before, stride=stride)
        noticed = held_at_every_operation(pair, before, control=pair.control)
        yield tally.count(KIND, pair.name, control=WORDS[pair.control], noticed=noticed)
