"""Build information of a model: a day of the calendar and versions, the same for two runs that are compared."""

from dataclasses import asdict, replace
from datetime import UTC, datetime

import pytest
import torch

import fairdp
from classifier_cases import fitted
from fairdp import FairDPClassifier
from fairdp.run import plan as plan


def test_a_model_keeps_its_day_and_versions_when_it_is_saved_and_loaded(tmp_path):
    before, model, after = datetime.now(UTC).date(), fitted(), datetime.now(UTC).date()
    assert before.isoformat() <= model.fitted_.made.date <= after.isoformat()
    assert model.fitted_.made.versions.startswith(
        f"fairdp {fairdp.__version__}, torch {torch.__version__.split('+')[0]}"
    )
    model.amend(made=replace(model.fitted_.made, date="2001-02-03"))
    model.save(tmp_path / "model")
    FairDPClassifier.load(tmp_path / "model").save(tmp_path / "again")
    for name in ("model", "again"):
        assert asdict(FairDPClassifier.load(tmp_path / name).fitted_.made) == asdict(model.fitted_.made)


def test_what_is_compared_is_made_on_one_day(monkeypatch):
    days = iter(["2001-02-03", "2001-02-04", "2001-02-05"])
    monkeypatch.setattr(plan, "_today", lambda: next(days))
    with plan.on_one_day():
        assert plan.build_info().date == plan.build_info().date == "2001-02-03"
    assert plan.build_info().date == "2001-02-04"


@pytest.mark.parametrize(
    ("date", "passed"),
    [("2026-02-28", True), ("2026-02-30", False), ("2026-02-28T12:00", False), ("20260228", False), ("", False)],
)
def test_only_a_day_of_the_calendar_is_a_date(date, passed):
    assert replace(plan.build_info(), date=date).is_a_day is passed
