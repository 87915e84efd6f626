"""A command is killed, or finds the disk full, at each of its calls to files and to the ledger."""

from collections.abc import Callable, Iterator
from pathlib import Path

from faults.counts import Count, NegativeControl, Tally
from faults.disturbing import Calls, killed, no_space, nothing
from faults.negative_controls import (
    WORDS,
    entry_after_release,
    folder_removed_first,
    forgetful_resuming,
)
from faults.scenarios import CERTIFY, COMPARE, FIT, FIT_IN_STEPS, SCENARIOS, TUNE, Judge, Scenario, copied, run
from faults.steady import rehearse

KINDS = {"killed at every call": killed, "disk full at every call": no_space}
NEGATIVE_CONTROLS = {
    FIT.name: folder_removed_first,
    FIT_IN_STEPS.name: forgetful_resuming,
    CERTIFY.name: entry_after_release,
    TUNE.name: entry_after_release,
    COMPARE.name: entry_after_release,
}
# A negative control is disturbed from its last call backwards, until it has been noticed so often.
NOTICED = 3


def at_every_call(
    scenario: Scenario,
    before: Path,
    then: Callable[[str], None],
    *,
    stride: int = 1,
    control: NegativeControl = nothing,
) -> Tally:
    """Disturb a command at each of its calls, or at some, and judge what is there afterwards."""
    whole, case = (before.with_name(name) for name in ("whole", "case"))
    rehearse(copied(before, whole), scenario.command)
    calls = _calls_of(scenario, copied(before, whole), control)
    _calls_of(scenario, copied(before, whole), nothing)
    judge, tried = Judge(scenario, before, whole, control=control), Tally()
    for at in range(len(calls), 0, -stride):
        ended = run(copied(before, case), scenario.command, calls=Calls(at=at, then=then), control=control)
        tried.add(f"call {at}, {calls[at - 1]}", judge.complaints(case, ended))
        if control is not nothing and tried.failed == NOTICED:
            break
    return tried


def _calls_of(scenario: Scenario, folder: Path, control: NegativeControl) -> tuple[str, ...]:
    """The calls of a run to its end."""
    ended = run(folder, scenario.command, control=control)
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
            control = NEGATIVE_CONTROLS[scenario.name]
            tried = at_every_call(scenario, before, then, stride=stride)
            noticed = at_every_call(scenario, before, then, stride=stride, control=control)
            yield tried.count(kind, scenario.name, control=WORDS[control], noticed=noticed)
