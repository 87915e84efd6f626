"""The testing interface: one training on given records, with sizes, start and chance under control, seen from the door.

It runs what `FairDPClassifier.fit` runs. Only the sizes differ: they are declared, so that worlds which differ by some
records are planned alike, as they are for whoever declares group sizes. A certificate is not made: it sees only records
that training does not, and its counts are a release of their own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fairdp.accounting.plan import Plan
from fairdp.accounting.spent import PrivacySpent
from fairdp.data.grouped import GroupedData
from fairdp.networks.models import ScoreModel
from fairdp.releases import Release, watching
from fairdp.run.fit import fit_run
from fairdp.run.predictor import Predictor
from fairdp.run.prepared import PreparedRun, prepare_run
from fairdp.run.progress import Progress
from fairdp.run.settings import RunSettings


@dataclass(frozen=True, kw_only=True, eq=False)
class WatchedRun:
    """A finished training and all that has left the records on the way.

    Parameters
    ----------
    plan, privacy
        What was planned, and what is stated.
    releases
        Every release in its order; the values before noise, in ``exact``, are for checks and not for attacks.
    model, predictor
        The final model and the rule that decides by it.
    """

    plan: Plan
    privacy: PrivacySpent
    releases: tuple[Release, ...]
    model: ScoreModel
    predictor: Predictor

    def noisy(self, purpose: str) -> list[NDArray[Any]]:
        """The released values of one purpose, in their order."""
        return [release.noisy for release in self.releases if release.purpose == purpose]

    def gradients(self) -> list[Release]:
        """The noisy gradients of all steps, each with its noise."""
        return [release for release in self.releases if release.purpose == "gradient"]


def watched_run(
    data: GroupedData,
    *,
    sizes: Sequence[int],
    seed: int | None = None,
    start: NDArray[np.floating] | None = None,
    **parameters: Any,
) -> WatchedRun:
    """Train once and keep every release.

    Parameters
    ----------
    data
        The records of this world; a group may be empty.
    sizes
        Declared size of every group, the same in all worlds; with ``grouping="attribute_and_label"`` labels are
        declared to be equally frequent.
    seed
        Of all chance in the run; None takes the operating system's.
    start
        Parameters before the first step, flat, the head with its bias last; None starts as a fit does.
    parameters
        Any of `FairDPClassifier` but those of the certificate: ``method``, ``epsilon``, ``n_steps`` and so on.
    """
    prepared = _prepared(data, sizes, {**parameters, "random_state": seed, "certify_fraction": 0.0})
    if start is not None:
        prepared.model.replace_params(torch.from_numpy(np.array(start, dtype=np.float32)))
    releases: list[Release] = []

    def keep(release: Release) -> NDArray[Any]:
        # What leaves may be changed in place later on.
        releases.append(replace(release, noisy=np.array(release.noisy), exact=np.array(release.exact)))
        return release.noisy

    with watching(keep):
        fitted = fit_run(prepared, Progress())
    return WatchedRun(
        plan=prepared.plan,
        privacy=prepared.privacy,
        releases=tuple(releases),
        model=fitted.model,
        predictor=fitted.predictor,
    )


def _prepared(data: GroupedData, sizes: Sequence[int], parameters: dict[str, Any]) -> PreparedRun:
    """A run that is planned for the declared sizes and takes its steps on the records."""
    finer = parameters.get("grouping") == "attribute_and_label"
    each = [size / (1 + finer) for size in sizes for _ in range(1 + finer)]
    names = (data.by_label() if finer else data).group_names
    settings = RunSettings.of(**parameters, group_sizes=dict(zip(names, each, strict=True)))
    return prepare_run(settings, data, Progress())
