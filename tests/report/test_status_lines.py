"""The three lines at the head: each has its own answer, and only a bound reaches a guarantee."""

from dataclasses import replace

import pytest

from fairdp.frontier.verdict import TargetMet
from fairdp.report.cards import status_lines


def states(report) -> dict[str, str]:
    return {line.name: line.state for line in status_lines(report)}


def with_target(report, *, tau: float, met: str = "yes", kind: str = "max_gap", value: float = 0.1, ratio=None):
    """The report with this bound on demographic parity, and an explicit target."""
    gap = replace(report.certificate.gaps["demographic_parity"], tau=tau, ratio=ratio)
    certificate = replace(report.certificate, gaps={"demographic_parity": gap})
    target = TARGET | {"met": met, "kind": kind, "value": value}
    return replace(report, certificate=certificate, verdict=replace(report.verdict, target=TargetMet(**target)))


TARGET = {"metric": "demographic_parity", "estimate": 0.05, "error": 0.01, "explicit": True}


def test_what_holds_of_each_kind_of_model(report_of):
    """Verified and useless, verified and useful: no line follows from another."""
    assert states(report_of("certified")) == {
        "Arithmetic checked": "yes",
        "Guarantee asked for reached": "not asked for",
        "Model useful": "yes",
    }
    assert states(report_of("missed"))["Guarantee asked for reached"] == "no"
    assert states(report_of("met"))["Guarantee asked for reached"] == "yes"
    uncertified = states(report_of("not certified"))
    assert (uncertified["Arithmetic checked"], uncertified["Model useful"]) == ("yes", "undecided")
    assert set(states(report_of("forged")).values()) <= {"no", "undecided", "not asked for"}
    assert states(report_of("forged"))["Arithmetic checked"] == "no"


@pytest.mark.parametrize(
    ("known", "state"),
    [
        ({"tau": 0.1}, "yes"),
        ({"tau": 0.11, "met": "yes"}, "undecided"),
        ({"tau": 0.11, "met": "undecided"}, "undecided"),
        ({"tau": 0.5, "met": "no"}, "no"),
        ({"tau": 0.5, "kind": "min_ratio", "value": 0.8, "ratio": 0.8}, "yes"),
        ({"tau": 0.5, "kind": "min_ratio", "value": 0.8, "ratio": 0.79, "met": "yes"}, "undecided"),
        ({"tau": 0.5, "kind": "min_ratio", "value": 0.8, "ratio": 0.1, "met": "no"}, "no"),
    ],
)
def test_a_target_is_guaranteed_by_the_certified_bound_alone(report_of, known, state):
    """An estimate that says yes is not a guarantee."""
    assert states(with_target(report_of("certified"), **known))["Guarantee asked for reached"] == state


def test_a_default_target_was_not_asked_for(report_of):
    report = with_target(report_of("certified"), tau=0.05)
    unasked = replace(report.verdict, target=replace(report.verdict.target, explicit=False))
    assert states(replace(report, verdict=unasked))["Guarantee asked for reached"] == "not asked for"


@pytest.mark.parametrize("learnt", ["yes", "no", "undecided"])
def test_use_is_what_was_learnt_unless_everybody_gets_one_decision(report_of, learnt):
    report = report_of("certified")
    verdict = replace(report.verdict, quality=replace(report.verdict.quality, learnt=learnt))
    assert states(replace(report, verdict=verdict))["Model useful"] == learnt
    collapsed = replace(verdict, verdict="collapsed")
    assert states(replace(report, verdict=collapsed))["Model useful"] == "no"


def test_a_model_that_ranks_but_decides_worse_than_a_constant_says_so_in_its_head_line(report_of):
    report = report_of("certified")

    def state(accuracy: float) -> str:
        quality = replace(report.verdict.quality, learnt="yes", accuracy=accuracy, majority_accuracy=0.75)
        return states(replace(report, verdict=replace(report.verdict, quality=quality)))["Model useful"]

    assert state(0.74) == "yes, as a ranking; its decisions are less accurate than the majority class"
    assert state(0.75) == state(0.76) == "yes"


def test_states_are_words_on_the_page(page_of):
    head = page_of("missed").split("</header>")[0]
    for name, state in (("Arithmetic checked", "yes"), ("Guarantee asked for reached", "no"), ("Model useful", "yes")):
        assert f'{name}: <span class="state">{state}</span>' in head
