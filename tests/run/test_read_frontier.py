"""Releases after training: one record moves each by at most one, and the rule follows from it alone."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch

from fairdp.accounting.mechanisms import PrivacyBudget
from fairdp.accounting.plan import Plan, make_plan
from fairdp.accounting.spent import CELLS, CENTRE, DIRECTION, FREQUENCIES, FRONTIER, RANKING
from fairdp.config import TrainConfig
from fairdp.data.grouped import GroupedData
from fairdp.frontier.curve import Frontier, Target, choose
from fairdp.methods import N_QUERIES, fairdp_frontier
from fairdp.networks.model import ScoreModel
from fairdp.networks.rows import ImageRows, SplineFeatures
from fairdp.randomness import Chain, Generators
from fairdp.releases import Release, watching
from fairdp.run import certifying as reading
from fairdp.run.certifying import read_frontier
from fairdp.training.loop import FlatOptimizer, TrainingState, steps
from statistical import assert_normal

# So much that looks at these few records show something: how far a record moves a value does not depend on its noise.
BUDGET = PrivacyBudget(epsilon=60.0, delta=1e-5)
CONFIG = TrainConfig(
    sample_rate=1.0,
    n_steps=3,
    clip_norm=1.0,
    learning_rates=(20.0,),
    optimizer="sgd",
    max_gap=0.05,
    query=FREQUENCIES,
    query_share=0.02,
)


@dataclass(frozen=True)
class Case:
    """A run: how many groups, which notion, tables or images."""

    n_groups: int = 2
    parity: str = "demographic_parity"
    images: bool = False
    more: dict[str, object] = field(default_factory=dict)

    @property
    def config(self) -> TrainConfig:
        query = CENTRE if self.images else FREQUENCIES
        return replace(CONFIG, parity=self.parity, query=query, **self.more)

    def data(self, n_records: int = 90) -> GroupedData:
        rng = np.random.default_rng(0)
        X = rng.random((n_records, *((1, 16, 16) if self.images else (4,)))).astype(np.float32)
        groups = np.arange(n_records) % self.n_groups
        flat = X.reshape(n_records, -1)
        y = (flat[:, 0] + 0.3 * groups + 0.3 * rng.normal(size=n_records) > 0.7).astype(np.int64)
        return GroupedData(X, y, groups, tuple("abcd"[: self.n_groups]))

    def model(self) -> ScoreModel:
        if self.images:
            return ScoreModel(ImageRows((1, 16, 16), norm=1.0), (1, 16, 16), n_cells=2 * self.n_groups)
        layer = SplineFeatures(4, {2: 0.0, 3: 0.5}, most_squares=8.0, norm=2.0)
        return ScoreModel(layer, (4,), n_cells=2 * self.n_groups)

    def plan(self, data: GroupedData, budget: PrivacyBudget = BUDGET) -> Plan:
        sizes = tuple(float(size) for size in data.group_sizes)
        return make_plan(fairdp_frontier(self.config, sizes), budget, n_steps=CONFIG.n_steps)


CASES = {
    "two groups": Case(),
    "opportunity": Case(parity="equal_opportunity"),
    "three groups": Case(3),
    "odds": Case(2, "equalized_odds"),
    "a ratio": Case(2, more={"max_gap": 1.0, "min_ratio": 0.9}),
    "a ratio of three groups": Case(3, more={"max_gap": 1.0, "min_ratio": 0.9}),
    "a rate of everybody": Case(2, more={"positive_rate": 0.4}),
    "images": Case(2, images=True),
    "one group": Case(1),
}


def run(case: Case, data: GroupedData, plan: Plan) -> tuple[ScoreModel, Frontier]:
    """A whole run on some records, always with the same coins."""
    model, chain = case.model(), Generators.of(3).steps
    for _ in steps(TrainingState(model, FlatOptimizer("sgd"), chain), data, plan, case.config):
        pass
    return model, read_frontier(model, data, plan, case.config, chain)


def recorded(case: Case, data: GroupedData, plan: Plan) -> tuple[ScoreModel, Frontier, list[Release]]:
    seen: list[Release] = []
    with watching(lambda release: seen.append(release) or release.noisy):
        return *run(case, data, plan), seen


def without(data: GroupedData, record: int) -> GroupedData:
    kept = np.arange(data.n_samples) != record
    return GroupedData(data.X[kept], data.y[kept], data.groups[kept], data.group_names)


def moves_of(case: Case, data: GroupedData, removed: list[int]) -> dict[str, float]:
    """Largest distance between the exact values of a run and of one without a record, all earlier releases held fixed.

    In units of what is accounted: one for a query, the sensitivity of its group for a gradient.
    """
    plan, largest = case.plan(data), {}
    *_, first = recorded(case, data, plan)
    for record in removed:
        number = iter(range(len(first)))

        def replayed(release: Release, number=number, record=record) -> np.ndarray:
            before = first[next(number)]
            assert (release.purpose, release.scale) == (before.purpose, before.scale)
            scale = plan.recipe.sensitivities[data.groups[record]] if release.purpose == "gradient" else 1.0
            distance = float(np.linalg.norm(release.exact - before.exact)) / scale
            largest[release.purpose] = max(largest.get(release.purpose, 0.0), distance)
            return before.noisy

        with watching(replayed):
            run(case, without(data, record), plan)
        assert next(number, None) is None
    return largest


@pytest.mark.parametrize("name", CASES)
def test_removing_a_record_moves_every_release_by_no_more_than_is_accounted(name):
    case = CASES[name]
    data = case.data()
    data.X[7] = 1e30
    moves = moves_of(case, data, [0, 5, 7, 11])
    assert max(moves.values()) <= 1 + 1e-6
    # Bounds that are never nearly reached would hide a release that was forgotten.
    assert moves[CELLS] == moves[RANKING] == 1.0
    assert moves[FRONTIER] >= 0.5 or case.n_groups == 1
    assert moves["gradient"] >= 0.5
    assert moves[CENTRE if case.images else FREQUENCIES] >= 0.3
    if DIRECTION in moves:
        assert moves[DIRECTION] == 1.0
        # What was seen led to prices, which one record could move by itself only if they were not held fixed.
        assert any(run(case, data, case.plan(data))[1].prices)


def test_that_check_notices_a_record_that_is_counted_twice(monkeypatch):
    exact = reading.exact_ranking
    monkeypatch.setattr(reading, "exact_ranking", lambda *given: 2 * exact(*given))
    assert moves_of(CASES["two groups"], CASES["two groups"].data(), [0, 5])[RANKING] == 2.0


def test_that_check_notices_a_rule_that_follows_the_records(monkeypatch):
    """Sizes of the cells that did not pass the release point: what is taken then depends on one record."""
    case = CASES["two groups"]
    data, release = case.data(), reading._Reader._release

    def leaky(self, exact, what, *made):
        noisy = release(self, exact, what, *made)
        return np.asarray(exact, dtype=float) if what == CELLS else noisy

    moves = moves_of(case, data, list(range(0, 90, 6)))
    monkeypatch.setattr(reading._Reader, "_release", leaky)
    leaking = moves_of(case, data, list(range(0, 90, 6)))
    assert max(moves.values()) <= 1 + 1e-6
    assert max(leaking.values()) > 1.2


@pytest.mark.parametrize("name", CASES)
def test_so_much_is_released_as_is_planned(name):
    case = CASES[name]
    data = case.data()
    plan = case.plan(data)
    *_, seen = recorded(case, data, plan)
    purposes = [release.purpose for release in seen]
    expected = {query.what: query.n_looks for query in plan.recipe.queries} | {"gradient": CONFIG.n_steps}
    assert {purpose: purposes.count(purpose) for purpose in set(purposes)} == expected
    assert expected.get(DIRECTION, 0) in (0, N_QUERIES)
    for release in seen:
        planned = plan.noise_std if release.purpose == "gradient" else plan.query_stds[release.purpose]
        assert (release.scale, release.law) == (planned, "gaussian")


def test_every_release_has_noise_of_its_own():
    """All noise of queries together, each in units of its deviation; a stream used twice would show in the looks."""
    case = CASES["three groups"]
    data = case.data()
    *_, seen = recorded(case, data, case.plan(data))
    surveys = [release for release in seen if release.purpose != "gradient"]
    noise = [((release.noisy - release.exact) / release.scale).ravel() for release in surveys]
    assert_normal(np.concatenate(noise), 1.0)
    looks = np.array([part for part, release in zip(noise, surveys, strict=True) if release.purpose == DIRECTION])
    assert len(np.unique(looks[:, 0].round(6))) == N_QUERIES
    with pytest.raises(AssertionError):
        assert_normal(1.2 * np.concatenate(noise), 1.0)


@pytest.mark.parametrize("name", ["two groups", "three groups", "odds", "a rate of everybody"])
def test_without_noise_the_frontier_is_that_of_the_deployed_rules(name):
    """The model decides by the values of a position: its own scores lead to the counts that the frontier tells."""
    case = CASES[name]
    data = case.data(400)
    model, frontier = run(case, data, case.plan(data, PrivacyBudget(epsilon=float("inf"), delta=1e-5)))
    X, cells = torch.from_numpy(data.X), 2 * data.groups + data.y
    assert frontier.cell_sizes == pytest.approx(np.bincount(cells).tolist())
    for index in range(0, len(frontier.positions), 8):
        positive = (model.cell_chances(X).numpy() @ frontier.values_at(frontier.positions[index])) >= 0
        counts = np.bincount(cells[positive], minlength=2 * case.n_groups)
        # Single precision rounds the sums; a record whose score is nearly zero may go either way.
        assert frontier.counts[:, index] == pytest.approx(counts, abs=1e-2)
    if "positive_rate" in case.more:
        assert frontier.positive_rates == pytest.approx(0.4, abs=0.02)
    else:
        assert np.ptp(frontier.counts, axis=1).max() > 5


def test_the_model_decides_by_what_was_chosen():
    case = CASES["two groups"]
    data = case.data(400)
    model, frontier = run(case, data, case.plan(data))
    position = choose(frontier, Target.of(case.config)).position
    assert model.cell_values.tolist() == frontier.values_at(position).tolist()
    chances = model.cell_chances(torch.from_numpy(data.X))
    torch.testing.assert_close(model.scores(torch.from_numpy(data.X)), (chances @ model.cell_values).float())


def test_the_rule_follows_from_releases_alone():
    """Other records and the same releases: the same frontier, and the same values of cells."""
    case = CASES["three groups"]
    data = case.data()
    plan = case.plan(data)
    model, frontier, seen = recorded(case, data, plan)
    others = case.data()
    others.X[:], others.y[:] = others.X[::-1].copy(), 1 - others.y
    noisy = iter(seen)
    with watching(lambda release: next(noisy).noisy):
        again, same = run(case, others, plan)
    assert same == frontier
    assert torch.equal(model.cell_values, again.cell_values)
    assert torch.equal(model.params, again.params)


def test_a_record_that_is_not_finite_counts_for_nothing():
    case = CASES["two groups"]
    data = case.data()
    plan = case.plan(data)
    damaged = case.data()
    damaged.X[4, 0] = np.nan
    *_, seen = recorded(case, damaged, plan)
    *_, clean = recorded(case, without(data, 4), plan)
    for with_it, without_it in zip(seen, clean, strict=True):
        np.testing.assert_allclose(with_it.exact, without_it.exact, atol=1e-5)


def test_targets_are_those_of_the_configuration():
    target = Target.of(replace(CONFIG, max_gap=0.07, min_ratio=0.8, price=0.3))
    assert (target.max_gap, target.min_ratio, target.price) == (0.07, 0.8, 0.3)


def test_prices_are_on_both_sides_of_none_or_along_what_was_found():
    for name, first, last, n_points in [
        ("two groups", -0.6, 0.6, 65),
        ("three groups", 0.0, 1.0, 33),
        ("odds", 0.0, 1.0, 33),
        ("one group", 0.0, 0.0, 1),
    ]:
        case = CASES[name]
        data = case.data()
        _, frontier = run(case, data, case.plan(data))
        positions = frontier.positions
        assert (positions[0], positions[-1], len(positions)) == pytest.approx((first, last, n_points))
        assert (np.diff(positions) > 0).all()
        assert 0.0 in positions
        assert bool(frontier.looked) == (name in ("three groups", "odds"))


def test_the_chain_moves_on_with_every_release():
    case = CASES["two groups"]
    data = case.data()
    model, chain = case.model(), Chain(bytes(32))
    before = chain.present
    frontier = read_frontier(model, data, case.plan(data), case.config, chain)
    again = read_frontier(model, data, case.plan(data), case.config, chain)
    assert chain.present != before
    assert frontier.cell_sizes != again.cell_sizes
