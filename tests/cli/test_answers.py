"""Printed results of commands, as text and as JSON; the sentences are on the golden page `answers`."""

import json
import math
from dataclasses import replace

import click
import numpy as np
import pytest

from answer_cases import MET, METRICS, PRIVACY, QUALITY, TARGET, fit_report, verdict
from fairdp.accounting.spent import LedgerNote
from fairdp.certify.bounds import GapBound
from fairdp.certify.certificate import CertifiedGap, NotCertified, certify
from fairdp.cli.printing import (
    certificate_answer,
    fit_answer,
    print_answer,
    print_cards,
    print_evaluation,
    print_fit,
    print_frontier,
    print_pairs,
    print_plan,
    print_verdict,
)
from fairdp.cli.terminal import exit_unless_good
from fairdp.frontier.curve import FrontierPoint
from fairdp.frontier.verdict import GroupOutlook
from fairdp.parameters import NoCertificate
from fairdp.statements.privacy import EXACT_ON_RECORDS
from fairdp.statements.verdict import outlook_warning

COUNTS = np.array([[[4000, 1000], [1000, 4000]], [[8000, 2000], [2000, 8000]]])
NOTE = LedgerNote(entry=3, token="", table="people", epsilon=0.98765, delta=1e-5, epsilon_sum=0.98765)


@pytest.fixture(autouse=True)
def given_bounds(monkeypatch):
    """Bounds that take no time: nothing is certified of a few records."""
    found = GapBound(tau=0.01504, pair=(0, 1), ratio=0.9713)
    none = GapBound(tau=1.0, pair=(0, 1), ratio=None)
    bound = "fairdp.certify.certificate.gap_bound"
    monkeypatch.setattr(bound, lambda arms, **level: found if arms[0].positive > 100 else none)


def certified(scale: float = 1.0, **chosen):
    """A certificate of these counts, or of a part of them."""
    counts, sized = (COUNTS * scale).astype(np.int64) + 1, {"epsilon": 1.0, "group_names": ("f", "m")}
    return certify(counts, **sized, expected_sizes=(1e4, 2e4), **chosen)


def privacy(**changes):
    return {"privacy": replace(PRIVACY, **changes)}


def judged(word, **about):
    return {"verdict": verdict(word, **about)}


FITS = {
    "good": lambda: {},
    "a data set known by name": lambda: {"label": None, "positive": "income above 50"},
    "target missed": lambda: judged("missed"),
    "weak": lambda: judged("weak", quality=replace(QUALITY, learnt="no")),
    "collapsed to no": lambda: judged("collapsed", positive_rate=0.001),
    "collapsed to yes": lambda: judged("collapsed", positive_rate=0.999),
    "target undecided": lambda: judged("undecided", target=replace(TARGET, met="undecided")),
    "learning undecided": lambda: judged("undecided", quality=replace(QUALITY, learnt="undecided")),
    "good as a ranking": lambda: judged("good", quality=replace(QUALITY, accuracy=0.7), target=MET),
    "nothing counted": lambda: judged("undecided", quality=None, target=None, counted_on=None),
    "requirement missed": lambda: {"certificate": certified(require_tau=1e-3)},
    "requirement and target missed": lambda: {"certificate": certified(require_tau=1e-3), **judged("missed")},
    "requirement met": lambda: {"certificate": certified(require_tau=0.5)},
    "no target": lambda: judged("good", target=None),
    "not certified": lambda: {"certificate": NotCertified(NoCertificate.NO_RECORDS_HELD_OUT)},
    "few records": lambda: {"certificate": certified(0.0)},
    "a ratio": lambda: judged("good", target=replace(MET, kind="min_ratio", value=0.8, estimate=0.9)),
    "hidden groups": lambda: judged("undecided", target=replace(MET, unmeasured=tuple("abcde"), explicit=False)),
    "another metric": lambda: {"certificate": certified(metrics=("equal_opportunity",))},
    "first in the ledger": lambda: privacy(ledger=NOTE, certify_epsilons={"f": 0.9}),
    "third in the ledger": lambda: privacy(ledger=replace(NOTE, epsilon_sum=3.5)),
    "with a seed": lambda: privacy(ledger=NOTE, noise_seeded=True),
    "not private": lambda: privacy(epsilon=math.inf),
    "not kept": lambda: {"out": None},
    "not kept and missed": lambda: {"out": None, **judged("missed")},
}


@pytest.mark.parametrize("case", FITS)
def test_a_fit_is_five_lines_of_which_the_last_says_what_to_run_next(golden, case):
    plain = {"certificate": certified(), "verdict": verdict("good", target=MET), "label": "default"}
    report, usual = fit_report(**plain | FITS[case]()), dict(fit_answer(fit_report(**plain)))
    said = dict(fit_answer(report))
    assert list(said) == ["result", "privacy", "fairness", "useful", "next"]
    assert "`" not in "".join(said.values())
    # Every further run on private records costs.
    assert ("another run adds its epsilon" in said["next"]) == (report.verdict.verdict != "good" and bool(report.out))
    other = [name for name in said if case == "good" or said[name] != usual[name]]
    golden("answers", f"fit: {case}", "\n".join(f"{name:10}{said[name]}" for name in other))


@pytest.mark.parametrize("required", [None, 1e-3])
def test_a_new_certificate_is_an_answer_too(golden, required):
    made = {"method": "fairdp", "n_certify": 30000, "out": "model", "positive": "yes"}
    report = {**made, "certificate": certified(require_tau=required)}
    golden("answers", f"certify: required {required}", "\n".join(map(": ".join, certificate_answer(report))))


def test_long_lines_are_folded_under_their_heading(capsys):
    print_answer([("next", "try --certify-fraction .3 " * 10)])
    first, *others = capsys.readouterr().out.splitlines()
    assert first.startswith("next      try --certify-fraction")
    assert others
    assert all(line.startswith(" " * 10) and line[10] != " " for line in others)
    assert max(map(len, (first, *others))) < 80


VERDICTS = {
    "good": verdict("good", target=MET),
    "good without a target": verdict("good", target=None),
    "missed": verdict("missed"),
    "missed, no price pays": verdict("missed", target=replace(TARGET, rest=None)),
    "missed ratio": verdict("missed", target=replace(TARGET, kind="min_ratio", value=0.8, estimate=0.6, rest=None)),
    "missed although paid": verdict("missed", target=replace(TARGET, rest=(0.1, 0.0))),
    "missed by default, groups hidden": verdict(
        "missed", target=replace(TARGET, explicit=False, unmeasured=("Other", "<b>"))
    ),
    "weak": verdict("weak", quality=replace(QUALITY, learnt="no")),
    "collapsed": verdict("collapsed", positive_rate=0.001, base_rate=0.03),
    "collapsed and weak": verdict("collapsed", positive_rate=0.001, quality=replace(QUALITY, learnt="no")),
    "collapsed without prices": verdict("collapsed", positive_rate=0.001, has_prices=False),
    "undecided target": verdict("undecided", target=replace(TARGET, met="undecided")),
    "nothing counted": verdict("undecided", quality=None, target=None, counted_on=None),
    "target without evidence": verdict(
        "undecided",
        quality=None,
        counted_on=None,
        target=replace(TARGET, estimate=None, error=None, met="undecided", rest=None, price=None),
    ),
}


@pytest.mark.parametrize("case", VERDICTS)
def test_a_verdict_says_first_why_and_what_to_try(golden, case, capsys):
    print_verdict(VERDICTS[case])
    out = capsys.readouterr().out
    assert out.startswith(f"{VERDICTS[case].verdict}: ")
    assert "`" not in out
    golden("answers", f"verdict: {case}", out)


def code_of(found, *, strict=False):
    try:
        exit_unless_good(found, strict=strict)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    return 0


@pytest.mark.parametrize("explicit", [True, False])
def test_only_a_stated_target_that_is_missed_fails(explicit, capsys, golden):
    assert code_of(verdict("missed", target=replace(TARGET, explicit=explicit))) == int(explicit)
    golden("answers", f"exit: missed, {explicit=}", capsys.readouterr().err)


@pytest.mark.parametrize("word", ["yes", "undecided"])
def test_a_stated_target_that_is_not_certainly_missed_passes(word):
    assert code_of(verdict("undecided", target=replace(TARGET, met=word))) == 0


@pytest.mark.parametrize("word", ["good", "missed", "weak", "collapsed", "undecided"])
def test_strict_passes_a_good_verdict_alone(word, capsys):
    found = verdict(word, target=replace(TARGET, explicit=False))
    assert code_of(found, strict=True) == int(word != "good")
    assert bool(capsys.readouterr().err) == (word != "good")


def test_a_few_rules_of_a_frontier_are_shown_with_the_chosen_one(capsys, golden):
    common = {"gap_standard_error": 0.006, "positive_rate": 0.2}
    points = [
        FrontierPoint(price=0.01 * k, gap=0.2 - 0.0065 * k, accuracy=0.86 - 0.001 * k, **common) for k in range(31)
    ]
    print_frontier(points, replace(points[15], price=0.153))
    golden("answers", "frontier", capsys.readouterr().out)


def test_a_rate_that_is_not_seen_has_no_error_beyond_what_a_rate_can_have(golden):
    known = {"records": 9.0, "measurable": False, "records_needed": 900.0, "epsilon_needed": 30.0}
    golden(
        "answers",
        "outlook",
        outlook_warning([GroupOutlook(group="x", standard_error=e, **known) for e in (4.79, 0.24)]),
    )


def test_a_run_as_json_is_one_object_with_null_for_no_evidence(capsys):
    print_fit(fit_report(), as_json=True)
    out, err = capsys.readouterr()
    report = json.loads(out, parse_constant=pytest.fail)
    assert report["metrics"]["demographic_parity_ratio"] is None
    assert report["warnings"] == ["mind the gap"]
    assert err == ""


MANY = {"a": 0.3, "b": math.nan, "c": 0.1, "d": 0.2, "e": 0.4}
GAPS = {
    # Bounds are rounded to the safe side.
    "demographic_parity": CertifiedGap(tau=0.12341, pair=("f", "m"), ratio=0.43219),
    "equal_opportunity": CertifiedGap(tau=1.0, pair=("f", "m"), claimed=False),
}
SHOWN = {
    "plain": lambda: {},
    "many groups": lambda: {"metrics": {**METRICS, "positive_rate_by_group": MANY}},
    "bounds": lambda: {"n_certify": 250, "certificate": replace(certified(), gaps=GAPS)},
    "not kept": lambda: {"out": None, "warnings": ()},
    "no noise": lambda: privacy(epsilon=math.inf),
    # Names come from the user's table; they are no markup for the terminal.
    "markup": lambda: {"metrics": {**METRICS, "positive_rate_by_group": {"[/red] 18-25": 0.1}}},
}


@pytest.mark.parametrize("verbose", [False, True], ids=["short", "verbose"])
@pytest.mark.parametrize("case", SHOWN)
def test_a_run_as_text_fits_a_screen_and_warns_on_stderr(golden, capsys, case, verbose):
    print_fit(fit_report(**SHOWN[case]()), as_json=False, verbose=verbose)
    out, err = capsys.readouterr()
    assert verbose or len(out.splitlines()) <= 24
    golden("answers", f"printed fit: {case}, {verbose=}", out + err)


@pytest.mark.parametrize("as_json", [False, True])
def test_an_evaluation_shows_intervals(golden, capsys, as_json):
    report = {
        **{"method": "fairdp", "positive": "yes", "n_test": 300, "metrics": METRICS, "confidence": 0.9},
        **{"warnings": (), "note": EXACT_ON_RECORDS},
        "intervals": {"auc": (0.8, 0.83), "demographic_parity_ratio": (math.nan, math.nan)},
    }
    print_evaluation(report, as_json=as_json)
    out = capsys.readouterr().out
    if as_json:
        assert json.loads(out)["intervals"] == {"auc": [0.8, 0.83], "demographic_parity_ratio": [None, None]}
    else:
        golden("answers", "printed evaluation", out)


WIDTHS = {
    **{"fraction": 0.2, "confidence": 0.95, "n_looks": 1, "epsilon_of_a_look": 1.0, "positive_rate": 0.1},
    **{"label_rate": 0.25, "expected_widths": {"demographic_parity": 0.04}},
    **{"target_width": None, "fraction_for_target_width": None, "score_share": 0.0, "cost_in_tau": {}},
}
LOOKS = WIDTHS | {"n_looks": 4, "epsilon_of_a_look": 0.25, "target_width": 0.03}
PAPER = {
    "optimizer": "adam",
    "theorem_2": {"printed": 0.1234, "corrected": 1.0, "deployed": 0.5},
    "theorem_2_at_zero": {"printed": 0.1111, "corrected": 0.9, "deployed": 0.4},
}
ASKED = {"tau": 0.05, "gap": 0.02, "expected": 0.06, "reached": False}
ASKED |= {"records": 59000.0, "epsilon": None, "fraction": 0.357}
PLANS = {
    "plain": {},
    "looks and a width": {"certificate": LOOKS | {"fraction_for_target_width": 0.35}, "paper": PAPER},
    "a width out of reach": {"certificate": LOOKS, "paper": PAPER},
    "a bound out of reach": {"certificate": WIDTHS, "for_tau": ASKED},
    "a bound within reach": {"certificate": WIDTHS, "for_tau": ASKED | {"reached": True, "epsilon": 0.5}},
    "a bound for more epsilon": {"certificate": WIDTHS, "for_tau": ASKED | {"epsilon": 2.5}},
    "no bound asked for": {"certificate": WIDTHS, "for_tau": None},
}


@pytest.mark.parametrize("case", PLANS)
def test_a_plan_as_text_answers_first(golden, capsys, case):
    report = {
        **{"method": "fairdp", "group_sizes": (1000, 20000), "expected_batch_sizes": (10.0, 200.0)},
        **{"privacy": PRIVACY, "certificate": None, "paper": None, "outlook": None, "for_tau": None},
        "utility_ceiling": {"input_agnostic_tau": 0.1, "accuracy": 0.775},
    }
    print_plan(report | PLANS[case], as_json=False)
    golden("answers", f"printed plan: {case}", capsys.readouterr().out)


def test_cards_and_pairs(capsys):
    print_cards("things", [{"name": "a", "good": True, "parts": {"x": 1}, "none": {}}], as_json=False)
    assert capsys.readouterr().out == "a\n  good: yes\n  parts: x 1\n  none: none\n\n"
    print_cards("things", [{"name": "a"}], as_json=True)
    assert json.loads(capsys.readouterr().out) == {"things": [{"name": "a"}]}
    print_pairs({"n_rows": 3, "rate": 0.5, "out": "[bold]x[/bold]"}, as_json=False)
    out = capsys.readouterr().out
    assert all(text in out for text in ("n_rows", "0.5000", "[bold]x[/bold]"))
