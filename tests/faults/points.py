"""A command is killed, or finds the disk full, at each of its calls to files and to the ledger."""

from collections.abc import Callable, Iterator
from pathlib import Path

from faults.counts import Count, Tally, Twin
from faults.disturbing import Calls, killed, no_space, nothing
from faults.scenarios import CERTIFY, COMPARE, FIT, FIT_IN_STEPS, SCENARIOS, TUNE, Judge, Scenario, copied, run
from faults.steady import rehearse
from faults.twins import (
    WORDS,
    entry_after_release,
    folder_removed_first,
    forgetful_resuming,
    records_written_first,
)

KINDS = {"killed at every call": killed, "disk full at every call": no_space}
TWINS = {
    FIT.name: folder_removed_first,
    FIT_IN_STEPS.name: forgetful_resuming,
    CERTIFY.name: entry_after_release,
    TUNE.name: records_written_first,
    COMPARE.name: entry_after_release,
}
# A twin is disturbed from its last call backwards, until it has been noticed so often.
NOTICED = 3


def at_every_call(
    scenario: Scenario, before: Path, then: Callable[[str], None], *, stride: int = 1, twin: Twin = nothing
) -> Tally:
    """Disturb a command at each of its calls, or at some, and judge what is there afterwards."""
    whole, case = (before.with_name(name) for name in ("whole", "case"))
    rehearse(copied(before, whole), scenario.command)
    calls = _calls_of(scenario, copied(before, whole), twin)
    _calls_of(scenario, copied(before, whole), nothing)
    judge, tried = Judge(scenario, before, whole, twin=twin), Tally()
    for at in range(len(calls), 0, -stride):
        ended = run(copied(before, case), scenario.command, calls=Calls(at=at, then=then), twin=twin)
        tried.add(f"call {at}, {calls[at - 1]}", judge.complaints(case, ended))
        if twin is not nothing and tried.failed == NOTICED:
            break
    return tried


def _calls_of(scenario: Scenario, folder: Path, twin: Twin) -> tuple[str, ...]:
    """The calls of a run to its end."""
    ended = run(folder, scenario.command, twin=twin)
    assert ended.code == 0, ended.said
    return ended.calls


def count_points(
    before: Path,
    scenarios: tuple[Scenario, ...] = SCENARIOS,
    *,
    kinds: dict[str, Callable[[str], None]] = KINDS,
    stride: int = 1,
) -> Iterator[Count]:
    """All commands, killed and without space."""
    for kind, then in kinds.items():
        for scenario in scenarios:
            twin = TWINS[scenario.name]
            tried = at_every_call(scenario, before, then, stride=stride)
            noticed = at_every_call(scenario, before, then, stride=stride, twin=twin)
            yield tried.count(kind, scenario.name, twin=WORDS[twin], noticed=noticed)
