"""A claim of the paper beside what runs show of it, and a verdict by a rule that is stated."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

from fairdp.experiments.studies.differences import t_test
from fairdp.experiments.studies.paper_tradeoffs import Gain, gains_over, mean_of
from fairdp.experiments.studies.protocol import Runs, Setting, Variant, datasets_of, variants_of
from fairdp.experiments.studies.results import Run
from fairdp.experiments.sweeps.fits import Trained


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What the paper says, what was found, and for which data sets the rule is met."""

    where: str
    says: str
    ours: str
    rule: str
    holds: Mapping[str, bool]

    @property
    def verdict(self) -> str:
        """In words."""
        kept, broken = ([name for name, value in self.holds.items() if value is wanted] for wanted in (True, False))
        if not broken or not kept:
            return "**holds**" if not broken else "**does not hold**"
        return f"**holds** on {', '.join(kept)}; **not** on {', '.join(broken)}"

    def to_json(self) -> dict[str, object]:
        """Plain values."""
        return {**asdict(self), "verdict": self.verdict}

    def line(self) -> dict[str, str]:
        """A line of the table."""
        return {
            "where": self.where,
            "the paper": self.says,
            "ours": self.ours,
            "verdict": self.verdict,
            "it holds if": self.rule,
        }


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What one reading of FairDP shows on a data set; among readings the one with the largest ``merit`` counts."""

    text: str
    holds: bool
    merit: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """All runs that claims are judged by."""

    runs: Runs
    run: Run

    def datasets(self, *names: str) -> tuple[str, ...]:
        """Those that a claim is about and that were run; none named: all."""
        known = datasets_of(self.run)
        return known if self.run.quick or not names else tuple(name for name in known if name in names)

    def fairdp(self, dataset: str, variant: Variant) -> list[Setting]:
        """FairDP in one reading on all records, by growing ε."""
        return self.of(dataset, "fairdp", variant.changes)

    def of(self, dataset: str, method: str, changes: tuple[tuple[str, object], ...] = ()) -> list[Setting]:
        """A method on all records, by growing ε."""
        about = (dataset, method, changes, None)
        found = [it for it in self.runs if (it.dataset, it.method, it.changes, it.ratio) == about]
        return sorted(found, key=lambda it: it.epsilon or 0.0)

    def at(self, dataset: str, variant: Variant, epsilon: float) -> Setting:
        """FairDP in one reading at one ε."""
        return Setting(dataset=dataset, method="fairdp", epsilon=epsilon, changes=variant.changes)

    def gains(self, settings: Sequence[Setting], method: str, *, at_same_rate: bool = False) -> list[Gain]:
        """Of FairDP over another method, for each setting."""
        needed = [*settings, *(setting.beside(method) for setting in settings)]
        found = gains_over({it: self.runs[it] for it in needed}, method=method, at_same_rate=at_same_rate)
        return [found[setting] for setting in settings]

    def mean(self, setting: Setting, name: str) -> float:
        """Over the seeds of a setting."""
        return mean_of(self.runs[setting], name)

    def means(self, settings: Sequence[Setting], name: str) -> list[float]:
        """Over the seeds of each."""
        return [self.mean(setting, name) for setting in settings]

    def tested(self, first: Setting, second: Setting, name: str) -> dict[str, float]:
        """Whether two settings differ in a number, over seeds."""
        return t_test(*([it[name] for it in self.runs[setting]] for setting in (first, second)))

    def found(self, settings: Sequence[Setting]) -> list[Trained]:
        """All runs of some settings."""
        return [it for setting in settings for it in self.runs[setting]]

    def best(self, judge: Callable[[str, Variant], Judged], *names: str) -> tuple[str, dict[str, bool]]:
        """Each data set in the reading of FairDP that serves the claim best: what it shows, and whether it holds."""
        texts, holds = [], {}
        for dataset in self.datasets(*names):
            judged = {variant: judge(dataset, variant) for variant in variants_of(self.run, dataset)}
            variant = max(judged, key=lambda it: (judged[it].holds, judged[it].merit))
            texts.append(f"{dataset} ({variant.words}): {judged[variant].text}")
            holds[dataset] = judged[variant].holds
        return "; ".join(texts), holds


def percent(value: float) -> str:
    """A fraction as a whole percentage; a dash where there is none, such as a gain over no gap at all.

    >>> percent(-0.634)
    '−63 %'
    """
    return "–" if math.isnan(value) else f"{100 * value:.0f} %".replace("-", "−")


def listed(values: Sequence[float], digits: int = 3) -> str:
    """Numbers in a row.

    >>> listed([0.5, 0.25], 2)
    '0.50, 0.25'
    """
    return ", ".join(f"{value:.{digits}f}" for value in values)


def change(values: Sequence[float], digits: int = 3) -> str:
    """From the first to the last.

    >>> change([0.025, 0.014])
    '0.025 → 0.014'
    """
    return f"{values[0]:.{digits}f} → {values[-1]:.{digits}f}"
