"""The five lines that `fairdp fit`, `retarget` and `certify` print first."""

import contextlib
import io
import math
from dataclasses import replace

import numpy as np
import pytest

from answer_cases import MET, PRIVACY, QUALITY, TARGET, fit_report, verdict
from fairdp.accounting.ledger_note import LedgerNote
from fairdp.certify.certificate import NotCertified, certify
from fairdp.cli.answer import certificate_answer, fit_answer, print_answer
from fairdp.commands.certify import CertificateReport
from fairdp.config.certificate import NoCertificate

COUNTS = np.array([[[4000, 1000], [1000, 4000]], [[8000, 2000], [2000, 8000]]])
SIZED = {"epsilon": 1.0, "group_names": ("f", "m"), "expected_sizes": (1e4, 2e4)}
CERTIFICATE = certify(COUNTS, **SIZED)
NOTE = LedgerNote(entry=3, token="", table="people", epsilon=0.98765, delta=1e-5, epsilon_sum=0.98765)


def answered(**changes) -> dict[str, str]:
    known = {"certificate": CERTIFICATE, "verdict": verdict("good", target=MET), "label": "default"} | changes
    return dict(fit_answer(fit_report(**known)))


def test_a_good_model_is_five_lines_that_say_what_to_run_next():
    said = answered()
    assert list(said) == ["result", "privacy", "fairness", "useful", "next"]
    assert said["result"].replace("\N{NO-BREAK SPACE}", " ") == (
        "good: fairdp on people.csv; a positive decision says: default = yes"
    )
    assert said["privacy"].startswith("epsilon 0.9877 at delta 1e-05, for model; no ledger was kept")
    tau = CERTIFICATE.gaps["demographic_parity"].tau
    found = f"certified: at most {math.ceil(1e4 * tau) / 1e4:.4f} (95 %)"
    assert said["fairness"] == f"target met: demographic parity gap about 0.020, at most 0.03 asked for; {found}"
    assert said["useful"] == "yes: accuracy about 0.840, majority class 0.760"
    assert said["next"] == "fairdp report model writes a page for your reviewer"


def test_a_data_set_that_is_known_by_name_says_what_its_label_means():
    assert answered(label=None, positive="income above 50")["result"].endswith(" decision says: income above 50")


@pytest.mark.parametrize(
    ("found", "first", "useful"),
    [
        (verdict("missed"), "target missed: ", "yes: "),
        (verdict("weak", quality=replace(QUALITY, learnt="no")), "not usable, next to nothing was learnt: ", "no: "),
        (
            verdict("collapsed", positive_rate=0.001),
            "not usable, nearly everybody gets the same decision: ",
            "no: almost nobody is accepted (positive rate 0.001, of the labels 0.240)",
        ),
        (verdict("collapsed", positive_rate=0.999), "not usable, nearly ", "no: almost everybody is accepted"),
        (verdict("undecided", target=replace(TARGET, met="undecided")), "not known to be good: ", "yes: "),
        (verdict("undecided", quality=replace(QUALITY, learnt="undecided")), "not known to be good: ", "not known: "),
        (verdict("good", quality=replace(QUALITY, accuracy=0.7), target=MET), "good: ", "yes, as a ranking; "),
        (verdict("undecided", quality=None, target=None, counted_on=None), "not known", "not known from paid counts; "),
    ],
)
def test_a_bad_result_says_so_first_and_what_to_change_last(found, first, useful):
    said = answered(verdict=found)
    assert said["result"].startswith(first)
    assert said["useful"].startswith(useful)
    assert (said["next"].startswith("try ")) == (found.verdict != "good")
    assert "`" not in "".join(said.values())
    # Every further run on private records costs.
    assert ("another run adds its epsilon" in said["next"]) == (found.verdict != "good")


def test_a_requirement_that_is_missed_stands_before_a_good_verdict():
    missed = certify(COUNTS, **SIZED, require_tau=1e-3)
    assert answered(certificate=missed)["result"].startswith("required tau missed: ")
    both = answered(certificate=missed, verdict=verdict("missed"))["result"]
    assert both.startswith("required tau missed, target missed: ")
    assert answered(certificate=certify(COUNTS, **SIZED, require_tau=0.5))["result"].startswith("good: ")


def test_fairness_names_what_is_certified_and_what_is_not():
    assert answered(verdict=verdict("good", target=None))["fairness"].startswith(
        "no target was asked for; certified: demographic parity gap at most 0."
    )
    held = NotCertified(NoCertificate.NO_RECORDS_HELD_OUT)
    assert answered(certificate=held)["fairness"].endswith(
        "not certified: no records were held out for it (--certify-fraction=0)"
    )
    few = certify(np.ones_like(COUNTS), **SIZED)
    assert answered(certificate=few)["fairness"].endswith("certified: nothing, with so few records (95 %)")
    ratio = verdict("good", target=replace(MET, kind="min_ratio", value=0.8, estimate=0.9))
    said = answered(verdict=ratio)["fairness"]
    assert "demographic parity ratio about 0.900, at least 0.8 asked for; certified: at least 0." in said
    hidden = replace(MET, unmeasured=("a", "b", "c", "d", "e"), explicit=False)
    said = answered(verdict=verdict("undecided", target=hidden))["fairness"]
    assert "at most 0.03 by default; not in it, hidden by noise: a, b, c and 2 more; " in said
    other = certify(COUNTS, **SIZED, metrics=("equal_opportunity",))
    assert "only gaps other than the target's" in answered(certificate=other)["fairness"]


def test_privacy_names_what_epsilon_covers_and_what_else_was_spent():
    def said(**changes) -> str:
        return answered(privacy=replace(PRIVACY, **changes))["privacy"]

    assert "for model and certificate; the first release about people in the ledger" in said(
        ledger=NOTE, certify_epsilons={"f": 0.9}
    )
    assert said(ledger=replace(NOTE, epsilon_sum=3.5)).endswith("with all releases about people in the ledger 3.5")
    assert said(ledger=NOTE, noise_seeded=True).endswith("; keep the seed secret")
    unprotected = answered(privacy=replace(PRIVACY, epsilon=math.inf))
    assert unprotected["result"].startswith("not private, good: ")
    assert unprotected["privacy"] == "none: the model was trained without noise"


def test_a_model_that_was_not_kept_is_said_to_be_gone():
    assert answered(out=None)["next"] == (
        "the model was not kept, though its epsilon is spent: add --out model/ to keep one"
    )
    assert "--price 0.28" in answered(out=None, verdict=verdict("missed"))["next"]


def test_a_new_certificate_is_an_answer_too():
    made = {"method": "fairdp", "n_certify": 30000, "warnings": (), "seconds": {}, "out": "model"}
    made |= {"positive": "yes", "ledger": None, "treated": None}
    said = dict(certificate_answer(CertificateReport(certificate=CERTIFICATE, **made)))
    assert said["result"] == "certified: fairdp on 30,000 fresh records; a positive decision says: yes"
    assert said["privacy"].startswith("epsilon 1 of the fresh records")
    assert said["fairness"].count(" at most 0.") == 3
    missed = certify(COUNTS, **SIZED, require_tau=1e-3)
    said = dict(certificate_answer(CertificateReport(certificate=missed, **made)))
    assert said["result"].startswith("required tau 0.001 missed: ")
    assert "not bounded, because an earlier bound was missed" in said["fairness"]


def test_long_lines_are_folded_under_their_heading():
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        print_answer([("next", "try --certify-fraction .3 " * 10)])
    first, *others = shown.getvalue().splitlines()
    assert first.startswith("next      try --certify-fraction")
    assert others
    assert all(line.startswith(" " * 10) and line[10] != " " for line in others)
    assert max(map(len, (first, *others))) < 80
