"""The rule that a run deploys, and its certificate on records that training has not seen.

After the last step `read_frontier` and `post_processed` make the rule, and `certified` bounds its gaps; `breached`
takes the looks in between.

Also the types of a run (`Run`, `TrainHoldoutSplit`, `Trial`), the noisy counting of group sizes, and `certify_fresh`
for records that came after training.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fairdp._io import joined
from fairdp.accounting.plan import Plan, SizesNoise
from fairdp.accounting.selection import Selection
from fairdp.accounting.spent import CELLS, DIRECTION, FRONTIER, RANKING, PrivacySpent
from fairdp.certify.bounds import release_counts
from fairdp.certify.certificate import (
    Certificate,
    FreshRecords,
    HeldOutRecords,
    NotCertified,
    Origin,
    binned,
    certify,
    in_series,
    release_scores,
)
from fairdp.config import ModelConfig, Preregistration, TrainConfig
from fairdp.data.grouped import GroupedData
from fairdp.distributed import process_group
from fairdp.errors import ParameterError
from fairdp.frontier.curve import (
    LINE,
    RAY,
    Direction,
    Events,
    Floats,
    Frontier,
    Target,
    changes_of,
    choose,
    exact_ranking,
    find_direction,
    line_prices,
    parts_of,
    plain_values,
    sketch_of,
    summed,
)
from fairdp.methods.functional import fair_flips
from fairdp.metrics import decision_counts
from fairdp.networks.model import ScoreModel
from fairdp.parameters import SMALLEST_EPSILON, Parameters
from fairdp.randomness import (
    KEY_BYTES,
    Chain,
    Generators,
    RandBelow,
    Stream,
    derived_key,
    discrete_gaussian,
    discrete_laplace,
)
from fairdp.releases import release
from fairdp.run.checkpoint import Checkpoint, due_steps
from fairdp.run.plan import reason_for_no_certificate
from fairdp.run.predictor import Predictor
from fairdp.training.loop import InterimResults, Trainer
from fairdp.training.sums import as_tensor, released


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Marks a run as one of several, of which the best will be kept.

    Parameters
    ----------
    split_key
        Secret of the coins that hold records out, the same for all trials.
    sizes
        Sizes of the groups that all trials are planned with, counted once.
    selection
        What the choice spends.
    """

    split_key: bytes = field(repr=False)
    sizes: tuple[float, ...]
    selection: Selection


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainHoldoutSplit:
    """The records of a run, those to train on and those to certify on, and the sizes that the former are planned with.

    Records to train on may be in finer groups, by label too, if that is how they are sampled.
    """

    train: GroupedData
    held_out: GroupedData
    fraction: float
    sizes: tuple[float, ...]

    @property
    def expected_held_out(self) -> tuple[float, ...]:
        """Expected number of held-out records of each group."""
        by_group = np.reshape(self.sizes, (self.held_out.n_groups, -1)).sum(1)
        return tuple((by_group * self.fraction / (1 - self.fraction)).tolist())


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """A run that is planned and paid for: which records it trains on, how, with what noise, and what is promised.

    The model is trained in place. The predictor is the rule that will decide. The fingerprint is that of its
    checkpoints; empty if none are written.
    """

    chosen: Parameters
    registration: Preregistration
    parts: TrainHoldoutSplit
    generators: Generators
    config: TrainConfig
    plan: Plan
    privacy: PrivacySpent
    network: ModelConfig
    model: ScoreModel
    predictor: Predictor
    resumed: Checkpoint | None
    fingerprint: str


def counted_sizes(exact: NDArray[np.int64], noise: SizesNoise, rand_below: RandBelow) -> NDArray[np.int64]:
    """Numbers of records with exact discrete noise; a record is in one of them and moves it by one."""
    if noise.std:
        drawn = np.array([discrete_gaussian(noise.std, rand_below) for _ in exact], dtype=np.int64)
        return release(exact + drawn, purpose="sizes", law="discrete_gaussian", scale=noise.std, exact=exact)
    drawn = np.array([discrete_laplace(noise.epsilon, rand_below) for _ in exact], dtype=np.int64)
    return release(exact + drawn, purpose="sizes", law="laplace", scale=1 / noise.epsilon, exact=exact)


def check_certifiable(privacy: PrivacySpent, *, n_looks: int) -> None:
    """Before training, refuse a group whose certification records may spend next to nothing on a look."""
    for name, epsilon in privacy.certify_epsilons.items():
        if epsilon / n_looks < SMALLEST_EPSILON:
            raise ParameterError(
                "epsilon",
                float(f"{epsilon:.2g}"),
                f"is all that group {name!r} has, too small to certify",
                "use `noise_allocation`='per_group', or `certify_fraction`=0 for no certificate",
            )


def breached(run: Run, trainer: Trainer) -> bool:
    """Take the look that is due at this step, if one is, and say whether it ends training."""
    if not is_due(run, trainer.state.step):
        return False
    with all_heads(trainer):
        return not look(run, trainer.state.interim, run.predictor).met


def is_due(run: Run, step: int) -> bool:
    """True if there is a look after this step; the last is at the finished model, and not among these."""
    n_looks, n_steps = run.registration.n_looks, run.plan.n_steps
    return bool(run.parts.fraction) and step in due_steps(n_steps, n_looks)


@contextmanager
def all_heads(trainer: Trainer) -> Iterator[None]:
    """Have the model as it would be deployed now.

    A model with several heads does not exist before the last step: a release of its own makes the one that is looked
    at, and training goes on from the single head.
    """
    model, trained = trainer.state.model, trainer.state.model.params
    if trainer.plan.recipe.n_members > 1:
        model.replace_params(trainer.ensemble())
    try:
        yield
    finally:
        model.replace_params(trained)


def look(run: Run, interim: InterimResults, predictor: Predictor) -> Certificate:
    """The next look at the held-out records: count the decisions of the current model, add noise, and bound the gaps.

    The model is kept if it meets what is required, or if this is the first look.
    """
    held_out, generators = run.parts.held_out, run.generators
    names, number = held_out.group_names, len(interim.counts) + 1
    epsilons = tuple(run.privacy.certify_epsilons[name] for name in names)
    counts = _count_together(run.model, predictor, held_out, generators.key("coins"))
    certificate = release_certificate(
        counts,
        group_names=names,
        registration=run.registration,
        epsilons=epsilons,
        expected_sizes=run.parts.expected_held_out,
        # The noise depends on the counts too: with a reused seed, other counts get other noise.
        rand_below=generators.below(f"look {number} at {counts.tolist()} with {epsilons}"),
    )
    if certificate.met or number == 1:
        interim.kept = run.model.params.clone()
    interim.counts.append(certificate.counts)
    interim.missed = not certificate.met
    return certificate


def read_frontier(model: ScoreModel, data: GroupedData, plan: Plan, config: TrainConfig, chain: Chain) -> Frontier:
    """Release what the target needs to be met, and set what a positive decision is worth in each cell."""
    frontier = _Reader(model, data, plan, config, chain).frontier()
    model.cell_values = torch.from_numpy(frontier.values_at(choose(frontier, Target.of(config)).position))
    return frontier


@dataclass(frozen=True, eq=False)
class _Reader:
    """The records of a run, and the ways out of them that are left after the last step.

    In a process group, each process counts its share of the records; whole numbers add up to the same in any order.
    """

    model: ScoreModel
    data: GroupedData
    plan: Plan
    config: TrainConfig
    chain: Chain

    def frontier(self) -> Frontier:
        chances, cells = self._finite()
        n_cells, events = chances.shape[1], Events(self.config.parity, self.data.n_groups)
        sizes = self._release(np.bincount(cells, minlength=n_cells), CELLS)
        ranked = (exact_ranking(some[:, 1::2].sum(1), own % 2) for some, own in parts_of(chances, cells))
        ranking = self._release(np.asarray(sum(ranked)), RANKING)
        looked = self._direction(chances, cells, events, np.maximum(sizes, 1.0))
        prices, positions = self._ray(events, looked, np.maximum(sizes, 1.0))
        shift = 0.0 if looked is None else looked.shift
        values = plain_values(n_cells, self.config.cost_ratio) + shift
        pulls = events.pulls(prices, np.maximum(sizes, 1.0))
        changes = (
            changes_of(summed(some, values), summed(some, pulls), own, n_cells, np.array(positions))
            for some, own in parts_of(chances, cells)
        )
        sketch = self._release(np.asarray(sum(changes)), FRONTIER, sketch_of)
        stds = self.plan.query_stds
        return Frontier(
            parity=self.config.parity,
            cost_ratio=self.config.cost_ratio,
            cell_sizes=tuple(sizes.tolist()),
            cells_std=stds[CELLS],
            prices=tuple(prices.tolist()),
            shift=shift,
            positions=positions,
            sketch=tuple(map(tuple, sketch.tolist())),
            sketch_std=stds[FRONTIER],
            looked=() if looked is None else tuple(zip(looked.rates.tolist(), looked.errors.tolist(), strict=True)),
            ranking=tuple(map(tuple, ranking.tolist())),
            ranking_std=stds[RANKING],
        )

    def _finite(self) -> tuple[Floats, NDArray[Any]]:
        """Chances of the cells for each record, and its cell; a record that has none counts for nothing."""
        found: list[NDArray[np.bool_]] = [np.empty(0, dtype=bool)]
        data = self.data.take(self.data.share(process_group().rank, process_group().size))

        def believed() -> Iterator[Floats]:
            for part in data.batches():
                chances = self.model.cell_chances(as_tensor(part.inputs)).numpy()
                finite = np.isfinite(chances).all(1)
                found.append(finite)
                yield chances[finite]

        shape = (data.n_samples, self.model.n_cells)
        chances = joined(believed(), np.float64, shape)
        return chances, data.cells[np.concatenate(found)]

    def _direction(self, chances: Floats, cells: NDArray[Any], events: Events, sizes: Floats) -> Direction | None:
        query = next((query for query in self.plan.recipe.queries if query.what == DIRECTION), None)
        if query is None:
            return None
        return find_direction(
            chances,
            cells,
            events,
            sizes,
            gap=self.config.max_gap,
            min_ratio=self.config.min_ratio,
            cost_ratio=self.config.cost_ratio,
            most=self.config.price,
            positive_rate=self.config.positive_rate,
            look=lambda exact: self._release(exact, DIRECTION),
            std=self.plan.query_stds[DIRECTION],
            n_looks=query.n_looks,
        )

    def _ray(self, events: Events, looked: Direction | None, sizes: Floats) -> tuple[Floats, tuple[float, ...]]:
        """Prices at position 1, and the positions: zero for one group, both signs without a direction, else 0 to 1."""
        if self.data.n_groups == 1:
            return np.zeros(len(events.members)), (0.0,)
        if looked is None:
            return line_prices(sizes, self.config.min_ratio), LINE
        return looked.prices, RAY

    def _release(self, counts: NDArray[Any], what: str, made: Callable[[Floats], Floats] = np.asarray) -> Floats:
        """The noisy value of what is ``made`` of counts over all records."""
        exact = made(process_group().all_reduce(counts.astype(np.int64)).astype(np.float64))
        flat = torch.from_numpy(np.ascontiguousarray(exact, dtype=np.float64).ravel())
        return released(flat, self.plan, what, self.chain).double().numpy().reshape(np.shape(exact))


def post_processed(run: Run) -> Predictor:
    """The rule that changes decisions by group until the rates agree, from noisy counts of the training records."""
    train, generators, config = run.parts.train, run.generators, run.config
    if train.n_groups == 1 and config.positive_rate is None:
        # Nobody to agree with: decisions stay as they are, and nothing is counted.
        return replace(run.predictor, flips=((0.0, 1.0),))
    coins, epsilon = generators.key("coins of the histogram"), run.privacy.histogram_epsilon
    counts = _count_together(run.model, run.predictor, train, coins)
    if epsilon:
        # As with a look: with a reused seed, other counts get other noise.
        noise = generators.below(f"histogram of {counts.tolist()}")
        counts = release_counts(counts, epsilon=epsilon, rand_below=noise, purpose="histogram")
    flips = fair_flips(
        counts,
        parity=config.parity,
        max_gap=config.max_gap,
        min_ratio=config.min_ratio,
        positive_rate=config.positive_rate,
    )
    return replace(run.predictor, flips=tuple((no, yes) for no, yes in flips.tolist()))


def certified(run: Run, predictor: Predictor, interim: InterimResults) -> Certificate | NotCertified:
    """The certificate of the rule to deploy."""
    parts = run.parts
    if not parts.fraction:
        names, epsilon = parts.held_out.group_names, run.plan.budget.epsilon
        reason = reason_for_no_certificate(run.chosen, n_groups=len(names), epsilon=epsilon)
        assert reason is not None
        return NotCertified(reason)
    number, certificate = _deployed_look(run, predictor, interim)
    certificate = _with_scores(run, certificate)
    about = Origin(
        model_sha256=run.model.digest(),
        predictor=predictor.described(),
        smoothing=run.model.described_smoothing(),
        records=HeldOutRecords(
            fraction=parts.fraction,
            look=number,
            met=tuple(interim.counts[: number - 1]),
            missed=next(iter(interim.counts[number:]), None),
        ),
        noise_seeded=run.generators.seeded,
    )
    return replace(certificate, about=about)


def _deployed_look(run: Run, predictor: Predictor, interim: InterimResults) -> tuple[int, Certificate]:
    """Take the last look unless one has missed; returns the number and certificate of the look that is deployed.

    The model becomes that of the last look that met what is required, or of the first if that did not.
    """
    registration = run.registration
    certificate = None if interim.missed else look(run, interim, predictor)
    number = max(1, len(interim.counts) - interim.missed)
    if certificate is None or number < len(interim.counts):
        assert interim.kept is not None
        run.model.replace_params(interim.kept)
        names = run.parts.held_out.group_names
        certificate = certify(
            np.array(interim.counts[number - 1]),
            epsilon=tuple(run.privacy.certify_epsilons[name] for name in names),
            group_names=names,
            expected_sizes=run.parts.expected_held_out,
            **asdict(registration),
        )
    return number, certificate.capped(predictor.input_agnostic_tau(run.model))


def _with_scores(run: Run, certificate: Certificate) -> Certificate:
    """The certificate with counts of the deployed model's scores, released once, after the last look."""
    if not certificate.registration.score_share:
        return certificate
    tally = ScoreTally(run.model, len(certificate.group_names))
    held_out = run.parts.held_out
    for _ in tally.passing(held_out.take(held_out.share(process_group().rank, process_group().size)).batches()):
        pass
    counts = process_group().all_reduce(tally.counts)
    epsilons = certificate.registration.for_scores(certificate.epsilons)
    # As with a look: with a reused seed, other counts get other noise.
    noise = run.generators.below(f"scores {counts.tolist()} with {epsilons}")
    return replace(certificate, scores=release_scores(counts, epsilons=epsilons, rand_below=noise))


def release_certificate(
    counts: NDArray[np.int64],
    *,
    group_names: tuple[str, ...],
    registration: Preregistration,
    epsilons: tuple[float, ...],
    expected_sizes: tuple[float, ...],
    rand_below: RandBelow,
) -> Certificate:
    """Add noise to the counts of one look and bound the gaps.

    Parameters
    ----------
    counts
        Decisions on records that neither training nor an earlier certificate has seen.
    epsilons
        Pure ε that a record of each group may spend in all: over the looks that were registered, and on scores.
    """
    return certify(
        release_counts(counts, epsilon=registration.per_look(epsilons), rand_below=rand_below),
        epsilon=epsilons,
        group_names=group_names,
        expected_sizes=expected_sizes,
        **asdict(registration),
    )


def certify_fresh(
    model: ScoreModel,
    predictor: Predictor,
    counts: NDArray[np.int64],
    scores: NDArray[np.int64],
    *,
    group_names: tuple[str, ...],
    registration: Preregistration,
    epsilon: float,
    records: FreshRecords,
    generators: Generators,
) -> Certificate:
    """The certificate of a released model on records that came after training.

    Parameters
    ----------
    counts, scores
        Exact decisions and scores of the records, by `count_decisions` and `ScoreTally`.
    registration
        Of one certificate by itself; one of a series spends its part of the failure probability.
    epsilon
        Pure ε that each of the records spends in all, on noisy group sizes too.
    """
    # The difference of two releases with the same noise is exact: a reused seed must not repeat the noise.
    purpose, sizes = f"certificate {len(records.earlier) + 1}", counts.sum((1, 2))
    if records.sizes_epsilon:
        count_noise = generators.below(f"{purpose}, group sizes {sizes.tolist()} at {epsilon}")
        sizes = np.maximum(counted_sizes(sizes, SizesNoise(epsilon=records.sizes_epsilon), count_noise), 1)
    certificate = release_certificate(
        counts,
        group_names=group_names,
        registration=in_series(registration, records.series),
        epsilons=(epsilon - records.sizes_epsilon,) * len(group_names),
        expected_sizes=tuple(float(size) for size in sizes),
        rand_below=generators.below(f"{purpose}, counts {counts.tolist()} at {epsilon}"),
    )
    shares = certificate.registration.for_scores(certificate.epsilons)
    score_noise = generators.below(f"{purpose}, scores {scores.tolist()} at {epsilon}")
    about = Origin(
        model_sha256=model.digest(),
        predictor=predictor.described(),
        smoothing=model.described_smoothing(),
        records=records,
        noise_seeded=generators.seeded,
    )
    capped = certificate.capped(predictor.input_agnostic_tau(model))
    return replace(capped, about=about, scores=release_scores(scores, epsilons=shares, rand_below=score_noise))


def count_decisions(
    model: ScoreModel,
    predictor: Predictor,
    batches: Iterable[GroupedData],
    n_groups: int,
    coin_key: bytes,
    *,
    n_before: int = 0,
) -> NDArray[np.int64]:
    """Exact numbers of records by group, label and decision: still private.

    ``n_before`` records before these have had their coins.

    Each record has a coin of its own, even where two are equal: that is what makes the counts binomial. Unlike the
    predictor's, the key of these coins stays secret: with a known key, the removal of one record would be seen in the
    coins of all that come after it.
    """
    coins = Stream(derived_key(coin_key, "decisions", n_bytes=KEY_BYTES))
    coins.words(n_before)
    counts = np.zeros((n_groups, 2, 2), dtype=np.int64)
    for batch in batches:
        chances = predictor.chances(model, batch.inputs, groups=batch.groups)
        decisions = (coins.uniforms(batch.n_samples) < chances).astype(np.int64)
        counts += decision_counts(batch.y, decisions, batch.groups, n_groups)
    return counts


def _count_together(model: ScoreModel, predictor: Predictor, data: GroupedData, coin_key: bytes) -> NDArray[np.int64]:
    """`count_decisions` of all these records, of which each process of a process group counts its share."""
    processes, n_groups = process_group(), len(data.group_names)
    if processes.size == 1:
        return count_decisions(model, predictor, data.batches(), n_groups, coin_key)
    here = data.share(processes.rank, processes.size)
    counts = count_decisions(model, predictor, data.take(here).batches(), n_groups, coin_key, n_before=here.start)
    return processes.all_reduce(counts)


class ScoreTally:
    """Exact numbers of records by group, label and bin of the model's score, counted as batches pass: still private."""

    def __init__(self, model: ScoreModel, n_groups: int) -> None:
        self._model = model
        none = np.empty(0, dtype=np.int64)
        self.counts = binned(np.empty(0), none, none, n_groups)

    def passing(self, batches: Iterable[GroupedData]) -> Iterator[GroupedData]:
        """The same batches; each is counted when it is asked for, so that records need to be read only once."""
        for batch in batches:
            scores = self._model.probabilities(
                torch.from_numpy(np.require(batch.inputs, np.float32, ["C", "W"]))
            ).numpy()
            self.counts += binned(scores, batch.y, batch.groups, len(self.counts))
            yield batch
