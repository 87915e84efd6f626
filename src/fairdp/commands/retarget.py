"""`fairdp retarget`: a saved model with its rule moved along its frontier, in a folder of its own."""

from dataclasses import dataclass, replace
from pathlib import Path

from fairdp._checks import ParameterError, SavedModelError
from fairdp._files import to_plain
from fairdp.classifier import FairDPClassifier
from fairdp.frontier.points import FrontierPoint, frontier_points
from fairdp.frontier.verdict import Verdict
from fairdp.networks.models import ScoreModel
from fairdp.saved.fitted import saved_form
from fairdp.saved.folder import MARKER, is_signed, read_model, write_model
from fairdp.saved.place import place_for_model, with_used_records
from fairdp.saved.retarget import retargeted
from fairdp.saved.used_records import used_records_of, used_records_path


@dataclass(frozen=True, kw_only=True)
class RetargetReport:
    """Where the rule was moved to, where else it could be, and where it was written."""

    verdict: Verdict
    frontier: list[FrontierPoint]
    certificate_statement: str
    positive: str
    warnings: tuple[str, ...]
    out: str

    def to_json(self) -> dict[str, object]:
        """Plain values under the names users see."""
        return {
            "target": None if self.verdict.target is None else self.verdict.target.to_dict(),
            "verdict": self.verdict.verdict,
            "frontier": to_plain(self.frontier),
            "certificate_statement": self.certificate_statement,
            "positive": self.positive,
            "warnings": list(self.warnings),
            "out": self.out,
        }


def retarget_saved(
    folder: Path,
    out: Path,
    *,
    max_gap: float | None = None,
    min_ratio: float | None = None,
    price: float | None = None,
) -> RetargetReport:
    """Write the model in a folder, with its rule moved to another target, to a new folder; no record is needed."""
    if read_model(folder).model.model.kind == "custom":
        raise SavedModelError(
            f"the model in {str(folder)!r} was trained with your own module, which is code; move it in Python: "
            "FairDPClassifier.load(folder, module=...).retarget(...).save(out)."
        )
    estimator: FairDPClassifier = FairDPClassifier.load(folder)
    moved = retargeted(estimator, max_gap=max_gap, min_ratio=min_ratio, price=price)
    if (out / MARKER).exists():
        raise ParameterError("out", str(out), "holds a model already", "choose a new folder")
    with place_for_model(out, overwrite=False):
        warnings = _save(moved, folder, out, before=estimator.score_model_)
    if is_signed(folder):
        warnings.append(f"the signature of {str(folder)!r} does not cover {str(out)!r}; run fairdp sign on it.")
    assert moved.frontier_ is not None
    return RetargetReport(
        verdict=moved.verdict_,
        frontier=frontier_points(moved.frontier_),
        certificate_statement=moved.certificate_statement(),
        positive=str(moved.classes_[1]),
        warnings=tuple(warnings),
        out=str(out),
    )


def _save(moved: FairDPClassifier, folder: Path, out: Path, *, before: ScoreModel) -> list[str]:
    """Write the model and the records that it has used; says what the user should know of it."""
    used = used_records_of(folder, before.digest())
    known = used is not None and used.model_sha256 in ("", before.digest())
    try:
        if used is not None and known:
            # The records of every use go with it: a target may have been chosen by what a certificate said of them.
            with with_used_records(out, replace(used, model_sha256=moved.score_model_.digest())):
                write_model(out, saved_form(moved))
        else:
            write_model(out, saved_form(moved))
    except OSError as error:
        raise ParameterError("out", str(out), f"cannot be written: {error.strerror}") from None
    if known:
        return []
    return [
        f"the records that the model has used are not listed in {str(used_records_path(folder))!r}: "
        "fairdp certify will not know them."
    ]
