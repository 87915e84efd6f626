"""The frontier of one training beside trainings that were each made for one target."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from fairdp.data.grouped import GroupedData
from fairdp.experiments.studies.family_trials import Rule, chances_of, rule_at, trained
from fairdp.experiments.studies.known_law import Law, Setting, inputs, law_of
from fairdp.experiments.studies.results import table
from fairdp.frontier.choice import Target, choose
from fairdp.frontier.events import Events

GAPS = (0.02, 0.04, 0.06, 0.08, 0.10)
# The gap for which the one training is made.
_MADE_FOR = 0.05
_SHARES, _RATES = (0.4, 0.3, 0.2, 0.1), (0.4, 0.2, 0.3, 0.1)


@dataclass(frozen=True, kw_only=True)
class Front:
    """Rules of one training at each target, those of a training of its own for each, and the best rules there are."""

    setting: Setting
    of_one: tuple[Rule, ...]
    of_each: tuple[Rule, ...]
    best_of_one: tuple[float, ...]
    best_of_each: tuple[float, ...]

    def rows(self) -> list[dict[str, object]]:
        """One for each target."""
        both = zip(GAPS, self.of_one, self.of_each, self.best_of_one, self.best_of_each, strict=True)
        return [
            {
                "n_groups": self.setting.n_groups,
                "max_gap": gap,
                "of_one": asdict(one) | {"best": best},
                "of_each": asdict(each) | {"best": own},
            }
            for gap, one, each, best, own in both
        ]

    def text(self) -> str:
        """A table: accuracy @ gap under the law (accuracy of the best rule with that gap)."""
        lines = [
            {
                "target": f"{gap:g}",
                "one training": f"{one.accuracy:.4f} @ {one.gap:.3f} ({best:.4f})",
                "a training for each": f"{each.accuracy:.4f} @ {each.gap:.3f} ({own:.4f})",
            }
            for gap, one, each, best, own in zip(
                GAPS, self.of_one, self.of_each, self.best_of_one, self.best_of_each, strict=True
            )
        ]
        return (
            f"{self.setting.n_groups} groups, {self.setting.n_rows:,} rows, accuracy @ gap under the law (best "
            f"accuracy with that gap); the one training was made for {_MADE_FOR}:\n\n{table(lines)}"
        )


def beside_trainings(*, quick: bool) -> list[Setting]:
    """A table of two groups and one of four."""
    return [
        Setting(
            n_rows=3_000 if quick else 30_000,
            shares=tuple(np.array(_SHARES[:n_groups]) / sum(_SHARES[:n_groups])),
            base_rates=_RATES[:n_groups],
            skill=2.0,
            proxy=1.5,
            lean=0.5,
            seed=n_groups,
        )
        for n_groups in (2, 4)
    ]


def one_frontier(setting: Setting, rng: np.random.Generator) -> Front:
    """Train once, read the rules of all targets off it, and train for each."""
    law, events = law_of(setting), Events("demographic_parity", setting.n_groups)
    data = law.sample(setting.n_rows, rng)
    seeds = rng.integers(2**31, size=1 + len(GAPS))
    of_one = _rules(law, data, int(seeds[0]), _MADE_FOR, GAPS)
    of_each = [rule for g, s in zip(GAPS, seeds[1:], strict=True) for rule in _rules(law, data, int(s), g, (g,))]
    return Front(
        setting=setting,
        of_one=tuple(of_one),
        of_each=tuple(of_each),
        best_of_one=tuple(law.best_accuracy(rule.gap, events) for rule in of_one),
        best_of_each=tuple(law.best_accuracy(rule.gap, events) for rule in of_each),
    )


def _rules(law: Law, data: GroupedData, seed: int, made_for: float, gaps: Sequence[float]) -> list[Rule]:
    """Rules for several targets of one training that is made for one."""
    model = trained(data, seed=seed, max_gap=made_for, certify_fraction=0.0)
    frontier, chances = model.frontier_, chances_of(model, inputs())
    assert frontier is not None
    chosen = [choose(frontier, Target(max_gap=gap, min_ratio=0.0, price=np.inf)) for gap in gaps]
    return [rule_at(law, frontier, chances, choice.position) for choice in chosen]
