"""One training on a table whose law is known, and how what was said of it compares with the truth."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from fairdp.classifier import FairDPClassifier
from fairdp.data.grouped import GroupedData
from fairdp.experiments.studies.known_law import Law, Setting, inputs, law_of, schema_of, widest
from fairdp.frontier.choice import choose
from fairdp.frontier.curve import Frontier
from fairdp.frontier.events import Events, Flags, Floats, summed

EPSILON = 1.0


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A table and what is aimed at: no gap is the default target, at the default price.

    ``certify_fraction`` None is the default; with 0 all records are trained on.
    """

    setting: Setting
    max_gap: float | None = None
    parity: str = "demographic_parity"
    certify_fraction: float | None = 0.0

    @property
    def parameters(self) -> dict[str, Any]:
        """As the estimator takes them."""
        asked = {"max_gap": self.max_gap, "certify_fraction": self.certify_fraction}
        return {name: value for name, value in asked.items() if value is not None} | {"parity": self.parity}


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A rule under the law: gap of all events, and of those that were measured or have a price."""

    accuracy: float
    gap: float
    gap_acted_on: float
    auc: float


@dataclass(frozen=True, kw_only=True)
class Looked:
    """The gap that a frontier states at one price, beside that of the same rule on the records and under the law."""

    price: float
    stated: float
    error: float
    on_records: float
    under_law: float
    sampling_error: float


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a trial came to.

    ``best`` is the accuracy of the best rule under the law with the gap of the one that was chosen; ``turned_error``
    the standard error that turned decisions have on as many records as were trained on.
    """

    trial: Trial
    plain: Rule
    chosen: Rule
    price: float
    best: float
    turned_error: float
    majority: float
    verdict: str
    learnt: str
    met: str
    n_unmeasured: int
    looked: Looked

    @property
    def excess(self) -> float:
        """Accuracy that was lost beyond the price times the gap that was closed."""
        closed = self.plain.gap_acted_on - self.chosen.gap_acted_on
        return self.plain.accuracy - self.chosen.accuracy - self.price * closed

    @property
    def shortfall(self) -> float:
        """Accuracy below that of the best rule with the same gap."""
        return self.best - self.chosen.accuracy

    def row(self) -> Mapping[str, object]:
        """Flat, for a table of all runs."""
        setting = self.trial.setting
        about = {
            "n_rows": setting.n_rows,
            "n_groups": setting.n_groups,
            "smallest_share": min(setting.shares),
            "smallest_cell": setting.smallest_cell,
            "lowest_rate": min(setting.base_rates),
            "highest_rate": max(setting.base_rates),
            "skill": setting.skill,
            **self.trial.parameters,
        }
        rules = {f"{name}_{k}": v for name in ("plain", "chosen") for k, v in asdict(getattr(self, name)).items()}
        names = ("price", "best", "turned_error", "majority", "verdict", "learnt", "met", "n_unmeasured")
        found = {name: getattr(self, name) for name in names} | {"excess": self.excess, "shortfall": self.shortfall}
        return about | rules | found | {f"looked_{k}": v for k, v in asdict(self.looked).items()}


def carried_out(trial: Trial, rng: np.random.Generator) -> Outcome:
    """Draw the records, train, and compare."""
    law = law_of(trial.setting)
    data = law.sample(trial.setting.n_rows, rng)
    model = trained(data, seed=int(rng.integers(2**31)), **trial.parameters)
    return _compared(trial, law, data, model, rng)


def trained(data: GroupedData, *, seed: int, **parameters: Any) -> FairDPClassifier:
    """The default method; sizes of groups are public."""
    model = FairDPClassifier(epsilon=EPSILON, group_sizes="public", random_state=seed, **parameters)
    return model.fit_grouped(data, feature_schema=schema_of(data.group_names).to_dict())


def _compared(trial: Trial, law: Law, data: GroupedData, model: FairDPClassifier, rng: np.random.Generator) -> Outcome:
    frontier, verdict = model.frontier_, model.verdict_
    assert frontier is not None
    assert model.target_ is not None
    assert verdict.quality is not None
    assert verdict.target is not None
    chosen = choose(frontier, model.target_)
    chances = chances_of(model, inputs())
    plain, fair = (rule_at(law, frontier, chances, position) for position in (0.0, chosen.position))
    turned = decided(frontier, chances, 0.0) != decided(frontier, chances, chosen.position)
    positive = float(law.joint[1::2].sum())
    return Outcome(
        trial=trial,
        plain=plain,
        chosen=fair,
        price=chosen.price,
        best=law.best_accuracy(fair.gap, frontier.events),
        turned_error=math.sqrt(float(law.joint.sum(0) @ turned) / model.n_train_),
        majority=max(positive, 1 - positive),
        verdict=verdict.verdict,
        learnt=verdict.quality.learnt,
        met=verdict.target.met,
        n_unmeasured=len(verdict.unmeasured),
        looked=_looked(law, frontier, chances, data, model, rng),
    )


def chances_of(model: FairDPClassifier, X: np.ndarray) -> Floats:
    """P of each cell as the model believes it."""
    return np.asarray(model.score_model_.cell_chances(torch.from_numpy(X)).numpy())


def decided(frontier: Frontier, chances: Floats, position: float) -> Flags:
    """Decisions of the rule at a position."""
    return np.asarray(summed(chances, frontier.values_at(position)) >= 0)


def rule_at(law: Law, frontier: Frontier, chances: Floats, position: float) -> Rule:
    """The rule at a position under the law."""
    decisions, events = decided(frontier, chances, position).astype(np.float64), frontier.events
    acted_on = frontier.measurable | (np.array(frontier.prices) != 0)
    return Rule(
        accuracy=law.accuracy(decisions),
        gap=law.gap(decisions, events),
        gap_acted_on=law.gap(decisions, events, among=acted_on),
        auc=law.auc(summed(chances, frontier.values_at(position))),
    )


def _looked(
    law: Law,
    frontier: Frontier,
    chances: Floats,
    data: GroupedData,
    model: FairDPClassifier,
    rng: np.random.Generator,
) -> Looked:
    """At one position, drawn from those on the side that closes the gap."""
    position = frontier.positions[int(rng.choice(frontier.outwards))]
    events, among = frontier.events, frontier.measurable
    true = law.rates(decided(frontier, chances, position).astype(np.float64), events)
    sizes = model.n_train_ * (events.members @ law.joint.sum(1))
    return Looked(
        price=frontier.at(frontier.total_prices, position),
        stated=frontier.at(frontier.gaps[0], position),
        error=frontier.at(frontier.gaps[1], position),
        on_records=widest(_counted(frontier, data, model, position), events, among=among),
        under_law=widest(true, events, among=among),
        sampling_error=_sampling_error(true, sizes, events, among),
    )


def _counted(frontier: Frontier, data: GroupedData, model: FairDPClassifier, position: float) -> Floats:
    """Rates of the events on the records, counted exactly."""
    cells, n_cells = 2 * data.groups + data.y, len(frontier.cell_sizes)
    positive = decided(frontier, chances_of(model, data.inputs), position)
    counts, sizes = (np.bincount(part, minlength=n_cells) for part in (cells[positive], cells))
    members = frontier.events.members
    return np.asarray(members @ counts / np.maximum(members @ sizes, 1))


def _sampling_error(rates: Floats, sizes: Floats, events: Events, among: Flags) -> float:
    """Standard error that the largest gap has because records are drawn: of the two rates that make it."""
    found = 0.0, 0.0
    for band in np.unique(events.bands):
        members = np.flatnonzero(among & (events.bands == band))
        ends = members[[rates[members].argmin(), rates[members].argmax()]]
        error = math.sqrt(float((rates[ends] * (1 - rates[ends]) / sizes[ends]).sum()))
        found = max(found, (float(np.ptp(rates[ends])), error))
    return found[1]
