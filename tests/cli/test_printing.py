"""Results as JSON and as text."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from answer_cases import METRICS, PRIVACY, fit_report
from fairdp.certify.certificate import certify
from fairdp.certify.claims import CertifiedGap
from fairdp.cli.plan_table import print_plan
from fairdp.cli.printing import print_cards, print_evaluation, print_fit, print_pairs
from fairdp.commands.plan import ExpectedWidths, PlannedPaperBounds, PlanReport, Theorem2, UtilityCeiling
from fairdp.commands.plan_answer import TauAnswer
from fairdp.commands.saved_models import EvaluationReport


def test_a_run_as_json_is_one_object_with_null_for_no_evidence(capsys):
    print_fit(fit_report(), as_json=True)
    out, err = capsys.readouterr()
    report = json.loads(out, parse_constant=pytest.fail)
    assert report["metrics"]["demographic_parity_ratio"] is None
    assert report["warnings"] == ["mind the gap"]
    assert err == ""


def test_a_run_as_text_says_the_same_and_warns_on_stderr(capsys):
    print_fit(fit_report(), as_json=False, verbose=True)
    out, err = capsys.readouterr()
    for words in ("people.csv", "0.9877 at delta 1e-05", "0.8123", "no evidence"):
        assert words in out
    assert "1,200 training, 300 test records" in out
    assert "f 0.2500, m 0.3500" in out
    assert "The model is private." in out
    assert "not certified, because there is only one group" in out
    assert "Model written to model." in out
    assert err == "warning: mind the gap\n"


def test_statements_are_for_those_who_ask(capsys):
    print_fit(fit_report(), as_json=False)
    out = capsys.readouterr().out
    assert "The model is private." not in out
    assert "noise multiplier" not in out
    assert "Model written to model, with statements" in out


def test_of_many_groups_the_lowest_and_the_highest_rate_are_shown(capsys):
    rates = {"a": 0.3, "b": math.nan, "c": 0.1, "d": 0.2, "e": 0.4}
    report = fit_report(metrics={**METRICS, "positive_rate_by_group": rates})
    print_fit(report, as_json=False)
    out = capsys.readouterr().out
    assert "positive rate, 5 groups" in out
    assert "c 0.1000 to e 0.4000" in out
    # Two lines are folded at most: answer and table fit a screen.
    assert len(out.splitlines()) <= 24
    print_fit(report, as_json=False, verbose=True)
    assert "d 0.2000" in capsys.readouterr().out


def test_bounds_stand_beside_what_was_measured_and_are_rounded_to_the_safe_side(capsys):
    counts = np.array([[[40, 10], [10, 40]], [[80, 20], [20, 80]]])
    sized = {"epsilon": 1.0, "group_names": ("f", "m"), "expected_sizes": (100.0, 200.0)}
    gaps = {
        "demographic_parity": CertifiedGap(tau=0.12341, pair=("f", "m"), ratio=0.43219),
        "equal_opportunity": CertifiedGap(tau=1.0, pair=("f", "m"), claimed=False),
    }
    certificate = replace(certify(counts, **sized), gaps=gaps)
    print_fit(fit_report(n_certify=250, certificate=certificate), as_json=False, verbose=True)
    out = capsys.readouterr().out
    assert "1,200 training, 250 certification, 300 test records" in out
    assert "certified, 95 %" in out
    assert "at most 0.1235" in out
    assert "at least 0.4321" in out
    assert out.count("at most") == 3  # In the answer, in the table and in the statement.


def test_a_model_that_was_not_saved_is_not_said_to_be(capsys):
    print_fit(fit_report(out=None, warnings=()), as_json=False)
    out, err = capsys.readouterr()
    assert "written" not in out
    assert err == ""


def test_an_infinite_epsilon_is_a_word(capsys):
    print_fit(fit_report(privacy=replace(PRIVACY, epsilon=math.inf)), as_json=False, verbose=True)
    assert "infinite at delta" in capsys.readouterr().out


@pytest.mark.parametrize("as_json", [False, True])
def test_an_evaluation_shows_intervals(capsys, as_json):
    report = EvaluationReport(
        method="fairdp",
        positive="yes",
        n_test=300,
        metrics=METRICS,
        confidence=0.9,
        intervals={"auc": (0.8, 0.83), "demographic_parity_ratio": (math.nan, math.nan)},
        warnings=(),
        treated={},
    )
    print_evaluation(report, as_json=as_json)
    out = capsys.readouterr().out
    if as_json:
        assert json.loads(out)["intervals"] == {"auc": [0.8, 0.83], "demographic_parity_ratio": [None, None]}
    else:
        assert "0.8000 to 0.8300" in out
        assert "90 % interval" in out
        assert "nan" not in out
        assert "outside the privacy guarantee" in out


def plan_report(**changes):
    report = PlanReport(
        method="fairdp",
        group_sizes=(1000, 20000),
        expected_batch_sizes=(10.0, 200.0),
        sensitivities=(0.1, 0.005),
        privacy=PRIVACY,
        certificate=None,
        paper=None,
        utility_ceiling=UtilityCeiling(input_agnostic_tau=0.1, accuracy=0.775),
    )
    return replace(report, **changes)


def test_a_plan_as_text(capsys):
    print_plan(plan_report(), as_json=False)
    out = capsys.readouterr().out
    assert "1,000, 20,000" in out
    assert "10.0, 200.0" in out
    assert "0.01 per coordinate" in out
    assert "certificate none" in " ".join(out.split())
    assert "0.7750 under a bound of 0.1 for all inputs" in " ".join(out.split())
    assert "Theorem" not in out


@pytest.mark.parametrize(("fraction", "words"), [(0.35, "0.35 of the records"), (None, "not with these records")])
def test_a_plan_as_text_says_what_the_certificate_would_be_worth(capsys, fraction, words):
    certificate = ExpectedWidths(
        fraction=0.2,
        confidence=0.95,
        n_looks=4,
        epsilon_of_a_look=0.25,
        positive_rate=0.1,
        label_rate=0.25,
        expected_widths={"demographic_parity": 0.01234, "equal_opportunity": 0.05678},
        target_width=0.03,
        fraction_for_target_width=fraction,
    )
    paper = PlannedPaperBounds(
        learning_rate=0.005,
        optimizer="adam",
        theorem_2=Theorem2(printed=0.1234, corrected=1.0, deployed=0.5),
        theorem_2_at_zero=Theorem2(printed=0.1111, corrected=0.9, deployed=0.4),
        monte_carlo_error=0.5,
    )
    print_plan(plan_report(certificate=certificate, paper=paper), as_json=False)
    out = " ".join(capsys.readouterr().out.split())
    assert "0.2 of the records, confidence 0.95; 0.1 positive decisions, 0.25 positive labels" in out
    assert "expected slack, equal opportunity 0.0568 above the observed gap" in out
    assert "4 looks at the held-out records, each with 0.25 of their epsilon" in out
    assert "for a slack of 0.03" in out
    assert words in out
    assert "0.1234 as printed, 1.0000 corrected, 0.5000 as deployed; a diagnostic, not for this model" in out
    assert "as if Adam's last step were Gaussian" in out
    assert "the same with M = 0 0.1111 as printed, 0.9000 corrected, 0.4000 as deployed; η and C cancel" in out


def test_cards_and_pairs(capsys):
    print_cards("things", [{"name": "a", "good": True, "parts": {"x": 1}, "none": {}}], as_json=False)
    assert capsys.readouterr().out == "a\n  good: yes\n  parts: x 1\n  none: none\n\n"
    print_cards("things", [{"name": "a"}], as_json=True)
    assert json.loads(capsys.readouterr().out) == {"things": [{"name": "a"}]}
    print_pairs({"n_rows": 3, "rate": 0.5}, as_json=False)
    out = capsys.readouterr().out
    assert "n_rows" in out
    assert "0.5000" in out


def test_text_in_brackets_is_printed_as_it_is(capsys):
    """Names come from the user's table; they are no markup for the terminal."""
    print_pairs({"out": "[bold]x[/bold]"}, as_json=False)
    assert "[bold]x[/bold]" in capsys.readouterr().out
    print_fit(fit_report(metrics={**METRICS, "positive_rate_by_group": {"[/red] 18-25": 0.1}}), as_json=False)
    assert "[/red] 18-25" in capsys.readouterr().out


ASKED = TauAnswer(tau=0.05, gap=0.02, expected=0.06, reached=False, records=59000.0, epsilon=None, fraction=0.357)
WIDTHS = ExpectedWidths(
    fraction=0.2,
    confidence=0.95,
    n_looks=1,
    epsilon_of_a_look=1.0,
    positive_rate=0.1,
    label_rate=0.25,
    expected_widths={"demographic_parity": 0.04},
    target_width=None,
    fraction_for_target_width=None,
)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (ASKED, "answer no: 21,000 records at epsilon 0.9877 would certify about 0.060, not 0.05 enough is 59,000"),
        (ASKED, "59,000 records in all, or --certify-fraction 0.357; a larger epsilon alone is not if the model's gap"),
        (replace(ASKED, reached=True, epsilon=0.5), "answer yes: 21,000 records at epsilon 0.9877 would certify about"),
        (replace(ASKED, epsilon=2.5), "records in all, or epsilon 2.5 with these records, or --certify-fraction"),
        (None, "answer 21,000 records at epsilon 0.9877 certify about this much above each gap: demographic parity"),
        (None, "next --for-tau T says how many records"),
        (None, "besides records for testing: fit takes them from a table first, by default 20 %"),
    ],
)
def test_a_plan_answers_first(capsys, asked, said):
    print_plan(plan_report(certificate=WIDTHS, for_tau=asked), as_json=False)
    assert said in " ".join(capsys.readouterr().out.split())
