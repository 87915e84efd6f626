"""The cases of the study of the default: records, targets, and what is trained beside it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fairdp.experiments.studies.rivals import (
    BOOSTING,
    DEFAULT_RATE,
    DP_EBM,
    EPSILON,
    LEARNING_RATES,
    LOGISTIC,
    REDUCTION,
    Rival,
)
from fairdp.experiments.sweeps.fits import Fit
from fairdp.experiments.sweeps.populations import Population

OURS, PLAIN, AIMING = "fairdp_frontier", "dpsgd", ("raco_dp", "dp_postprocess")
FULL, ADULT, CREDIT, FACES, SYNTHETIC = (
    Population(dataset=name) for name in ("adult_full", "adult", "credit", "utkface", "synthetic")
)
FEW = replace(FULL, n_train=4000)
NO_TARGET = {"max_gap": 1.0}
ALL, SOME = "all", "default hold-out"


@dataclass(frozen=True, kw_only=True)
class Case:
    """Records and a target, with what is trained for it.

    Parameters
    ----------
    methods
        Methods of the package.
    rivals
        Models by others.
    held_out
        Whether ours is also trained as by default, with some records held out for the certificate.
    """

    population: Population
    target: Mapping[str, object]
    methods: tuple[str, ...] = (OURS,)
    rivals: tuple[str, ...] = ()
    held_out: bool = False

    @property
    def words(self) -> str:
        """The target as the table names it."""
        if self.target == NO_TARGET:
            return "none"
        parity = str(self.target.get("parity", "demographic_parity")).replace("_", " ")
        ratio = self.target.get("min_ratio")
        return f"{parity} {self.target['max_gap']:g}" if ratio is None else f"{parity}, ratio {ratio:g}"

    @property
    def entries(self) -> list[tuple[str, str]]:
        """Methods of the package, and the records that they are trained on."""
        return [(OURS, SOME)] * self.held_out + [(method, ALL) for method in self.methods]

    def fits(self, method: str, records: str, seeds: Sequence[int]) -> list[Fit]:
        """One training for each seed."""
        target = {} if method == PLAIN else self.target
        kept = {} if records == SOME else {"certify_fraction": 0.0}
        settings = tuple({"epsilon": EPSILON, **kept, **target}.items())
        return [Fit(population=self.of_seed(s), method=method, seed=s, settings=settings) for s in seeds]

    def of_seed(self, seed: int) -> Population:
        """Where records are left out, others for every seed."""
        return self.population if self.population.n_train is None else replace(self.population, split=seed)

    def rivals_named(self, name: str, seeds: Sequence[int]) -> list[Rival]:
        """Trainings of a rival: for every seed if it or its records are random, with every learning rate it has."""
        seeds = seeds if name == DP_EBM or self.population.n_train else seeds[:1]
        rates = LEARNING_RATES if name == DP_EBM else (DEFAULT_RATE,)
        aim = float(str(self.target["max_gap"]))
        return [
            Rival(name=name, population=self.of_seed(seed), seed=seed, learning_rate=rate, max_gap=aim)
            for rate in rates
            for seed in seeds
        ]


TABLE_RIVALS = (DP_EBM, BOOSTING, LOGISTIC)
CASES = (
    *(
        Case(population=people, target=NO_TARGET, methods=(OURS, PLAIN), rivals=TABLE_RIVALS, held_out=True)
        for people in (FULL, ADULT, CREDIT, FEW, SYNTHETIC)
    ),
    Case(population=FACES, target=NO_TARGET, held_out=True),
    *(
        Case(population=FULL, target={"max_gap": gap}, methods=(OURS, *AIMING), rivals=(REDUCTION,), held_out=True)
        for gap in (0.10, 0.05, 0.02)
    ),
    *(
        Case(population=FULL, target={"max_gap": 0.02, "parity": parity})
        for parity in ("equal_opportunity", "equalized_odds")
    ),
    Case(population=replace(FULL, by_race=True), target={"max_gap": 0.05}),
    Case(population=replace(FULL, by_every_race=True), target={"max_gap": 0.05}),
    *(Case(population=people, target={"min_ratio": 0.8}) for people in (FULL, ADULT)),
    *(Case(population=replace(SYNTHETIC, bias=bias), target={"min_ratio": 0.8}) for bias in (0.5, 1.0, 1.5)),
    *(Case(population=FACES, target={"max_gap": gap}) for gap in (0.10, 0.03)),
)
QUICK = (
    Case(population=SYNTHETIC, target=NO_TARGET, methods=(OURS, PLAIN), rivals=TABLE_RIVALS, held_out=True),
    Case(population=SYNTHETIC, target={"max_gap": 0.05}, methods=(OURS, *AIMING), rivals=(REDUCTION,)),
    Case(population=SYNTHETIC, target={"min_ratio": 0.8}),
)
