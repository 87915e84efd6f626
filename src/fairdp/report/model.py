"""Everything that a report says about one saved model, gathered from its folder; only released values."""

import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairdp._checks import SavedModelError
from fairdp.accounting.spent import PrivacySpent
from fairdp.certify.certificate import Certificate, NotCertified
from fairdp.certify.estimates import estimated_metrics
from fairdp.data.schema import TableSchema
from fairdp.frontier.points import FrontierPoint, chosen_point, frontier_points
from fairdp.frontier.verdict import Verdict, judged
from fairdp.methods import METHODS, Method
from fairdp.report.exposure import Exposure, exposures_of
from fairdp.report.groups import FOUR_FIFTHS, GroupFigures, group_figures
from fairdp.saved.fitted import paid_counts
from fairdp.saved.folder import FILES, SUMS, ModelRecord, SavedModel, read_model, sha256
from fairdp.saved.verify.check import Check
from fairdp.saved.verify.folder import verify_folder


@dataclass(frozen=True, kw_only=True)
class ModelReport:
    """A saved model as its report shows it."""

    name: str
    about: ModelRecord
    schema: TableSchema | None
    n_parameters: int
    privacy: PrivacySpent
    certificate: Certificate | NotCertified
    checks: tuple[Check, ...]
    files: dict[str, str]
    exposures: tuple[Exposure, ...]
    groups: GroupFigures | None
    estimates: Mapping[str, Any]
    verdict: Verdict
    frontier: tuple[FrontierPoint, ...] = ()
    chosen: FrontierPoint | None = None

    @property
    def inferred(self) -> bool:
        """Whether anything about the columns was read from the rows and is not paid for."""
        return self.schema is not None and not self.schema.declared and self.privacy.reading is None

    @property
    def verified(self) -> bool:
        """Whether everything that `fairdp verify` checks agrees."""
        return all(check.passed for check in self.checks)

    @property
    def command_name(self) -> str:
        """The folder's name as a shell reads it."""
        return shlex.quote(f"{self.name}/")

    @property
    def private(self) -> bool:
        """Whether an epsilon is claimed at all."""
        return math.isfinite(self.privacy.epsilon)

    @property
    def pure(self) -> bool:
        """Whether the guarantee holds with delta zero."""
        privacy = self.privacy
        return privacy.noise_allocation == "laplace" and privacy.selection is None and privacy.reading is None

    @property
    def pld_bounds(self) -> bool:
        """Whether PLD gives a bound, which it does not for a tiny delta."""
        return math.isfinite(self.privacy.epsilon_pld)

    @property
    def method_name(self) -> str:
        """The method by its registered name."""
        return str(self.about.parameters["method"])

    @property
    def method(self) -> Method:
        """What the method promises, and where it comes from."""
        return METHODS[self.method_name]

    @property
    def label(self) -> str | None:
        """The column that is predicted, if it has a name."""
        return None if self.schema is None else self.schema.label

    @property
    def four_fifths(self) -> float:
        """Four fifths of the highest estimated rate; NaN without one."""
        rows = () if self.groups is None else self.groups.rows
        known = [row.selection_rate.estimate for row in rows if not math.isnan(row.selection_rate.estimate)]
        return FOUR_FIFTHS * max(known, default=math.nan)


def read_model_report(folder: Path) -> ModelReport:
    """The report on the saved model in a folder. Its hashes must match; its claims are checked and may fail."""
    saved = read_model(folder)
    checks = tuple(verify_folder(folder))
    try:
        return _report(folder, saved, checks)
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, ArithmeticError) as error:
        kind = type(error).__name__
        raise SavedModelError(
            f"saved model {str(folder)!r} is damaged: a record cannot be read ({kind}: {error})."
        ) from None


def _report(folder: Path, saved: SavedModel, checks: tuple[Check, ...]) -> ModelReport:
    certified = saved.certificate if isinstance(saved.certificate, Certificate) else None
    schema = saved.model.feature_schema
    return ModelReport(
        name=folder.resolve().name,
        about=saved.model,
        schema=None if schema is None else TableSchema.from_dict(schema),
        n_parameters=saved.tensors["params"].numel(),
        privacy=saved.privacy,
        certificate=saved.certificate,
        checks=checks,
        files={name: sha256((folder / name).read_bytes()) for name in (*FILES, SUMS)},
        exposures=tuple(exposures_of(saved.privacy, saved.certificate)),
        groups=None if certified is None else group_figures(certified),
        estimates={} if certified is None else estimated_metrics(certified),
        verdict=judged(paid_counts(saved)),
        frontier=() if saved.model.frontier is None else tuple(frontier_points(saved.model.frontier)),
        chosen=_chosen(saved.model),
    )


def _chosen(about: ModelRecord) -> FrontierPoint | None:
    return None if about.frontier is None or about.target is None else chosen_point(about.frontier, about.target)
