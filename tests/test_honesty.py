"""A statement must be true of the model it stands beside: ways in which it once was not."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from classifier_cases import CERTIFIED, fitted, people
from fairdp import FairDPClassifier
from fairdp.cli.printing import print_plan
from fairdp.data.grouped import GroupedData
from fairdp.ledger.ledger import Claim, Ledger
from fairdp.networks.gradients import RecordByRecord, backprop_of
from fairdp.networks.model import ScoreModel
from fairdp.planning import plan_report
from fairdp.randomness import Generators, seed_of
from fairdp.releases import watching
from fairdp.run import certifying
from fairdp.run import fit as running
from fairdp.run import plan as planning
from fairdp.run.fit import Progress
from fairdp.training import noise as clipping
from ledger_cases import pure
from step_cases import clipped_sum

pytestmark = pytest.mark.usefixtures("rough_bounds")

ONE = {"certify_metrics": ("demographic_parity",)}
SETTINGS = {"method": "fairdp", "epsilon": 1.0, "n_steps": 20, "sample_rate": 0.2, "n_members": 1, **ONE}


def records(n_samples: int = 400, *, seed: int = 0, sizes: tuple[int, ...] | None = None) -> GroupedData:
    rng = np.random.default_rng(seed)
    groups = np.repeat([0, 1], sizes) if sizes else rng.integers(2, size=n_samples)
    X = rng.normal(size=(len(groups), 3)).astype(np.float32)
    return GroupedData(X, (X[:, 0] > 0).astype(np.int64), groups, ("f", "m"))


def stop_at(step: int) -> Progress:
    def observe(done: int, n_steps: int) -> None:
        if done == step:
            raise KeyboardInterrupt

    return Progress(observe=observe)


def test_groups_whose_names_read_the_same_are_all_accounted():
    """Two groups once shared a name, and the smaller one's epsilon was lost."""
    data = records(sizes=(40, 400))
    columns = np.array([["a", "b & c"], ["a & b", "c"]], dtype=object)[data.groups]
    model = FairDPClassifier(**SETTINGS, noise_allocation="average", random_state=0)
    model.fit(data.X, data.y, sensitive_features=columns)
    assert len(model.privacy_.epsilon_by_group) == 2
    assert model.privacy_.epsilon == max(model.privacy_.epsilon_by_group.values()) > 0.99


def test_groups_of_one_name_are_refused():
    with pytest.raises(ValueError, match="two groups are called 'f'"):
        dataclasses.replace(records(), group_names=("f", "f"))


def test_a_resumed_run_remembers_that_it_was_seeded(tmp_path):
    path = tmp_path / "checkpoint"
    stopped = dataclasses.replace(stop_at(8), checkpoint=path)
    with pytest.raises(KeyboardInterrupt):
        FairDPClassifier(**SETTINGS, random_state=0).fit_grouped(records(), progress=stopped)
    model = FairDPClassifier(**SETTINGS, random_state=None)
    model.fit_grouped(records(), progress=Progress(checkpoint=path, resume=True))
    assert model.privacy_.noise_seeded


class DividesByTheLargest(nn.Module):
    """Mixes records only when one of them is large: no probe of small values sees it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, X: Tensor) -> Tensor:
        return self.linear(X / X.abs().amax().clamp(min=1.0))


class Remembers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.register_buffer("peak", torch.ones(()))

    def forward(self, X: Tensor) -> Tensor:
        self.peak = torch.maximum(self.peak, X.abs().amax().detach())
        return self.linear(X)


def test_an_own_forward_is_taken_record_by_record():
    model = ScoreModel(DividesByTheLargest(), (3,))
    route = backprop_of(model)
    assert isinstance(route, RecordByRecord)
    X = torch.tensor([[1000.0, 0.0, 0.0], [0.5, 0.5, 0.5]])
    together = route.forward(X).backward(torch.ones(2))
    alone = route.forward(X[1:]).backward(torch.ones(1))
    for both, one in zip(together, alone, strict=True):
        assert both.squared_norms()[1] == pytest.approx(float(one.squared_norms()[0]))


def test_what_a_module_remembers_is_never_saved(tmp_path):
    data = records()
    data.X[7] = 123.456
    model = FairDPClassifier(**SETTINGS, module=Remembers, random_state=0).fit_grouped(data)
    model.predict(data.X)
    model.save(tmp_path / "model")
    assert float(load_file(tmp_path / "model" / "model.safetensors")["extractor.peak"]) == 1.0


def test_another_forward_cannot_continue_with_the_same_noise(tmp_path):
    def network(sign: float):
        class Signed(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.linear = nn.Linear(3, 2)

            def forward(self, X: Tensor) -> Tensor:
                return torch.tanh(self.linear(sign * X))

        return Signed

    path = tmp_path / "checkpoint"
    stopped = dataclasses.replace(stop_at(8), checkpoint=path)
    with pytest.raises(KeyboardInterrupt):
        FairDPClassifier(**SETTINGS, module=network(1.0), random_state=0).fit_grouped(records(), progress=stopped)
    resumed = Progress(checkpoint=path, resume=True)
    with pytest.raises(ValueError, match="belongs to another run"):
        FairDPClassifier(**SETTINGS, module=network(-1.0), random_state=0).fit_grouped(records(), progress=resumed)
    FairDPClassifier(**SETTINGS, module=network(1.0), random_state=0).fit_grouped(records(), progress=resumed)


def test_private_sizes_are_the_only_ones_that_plans_see(monkeypatch):
    """Rate, checks and normalisers follow the noisy counts, never the real ones."""
    monkeypatch.setattr(running, "counted_sizes", lambda *_: np.array([9_010, 9_500]))
    plans = []
    original = planning.make_plan
    monkeypatch.setattr(planning, "make_plan", lambda *a, **k: plans.append(original(*a, **k)) or plans[-1])
    data = records(sizes=(10, 500))
    model = FairDPClassifier(method="fairdp", epsilon=1.0, n_steps=5, random_state=0)
    model.fit_grouped(data)
    assert plans[0].recipe.group_sizes == (9_010, 9_500)
    # A fifth was held out; how many those are in truth is not looked at.
    assert model.certificate_.expected_sizes == pytest.approx((9_010 / 4, 9_500 / 4))
    assert plans[0].recipe.sample_rates == (0.01, 0.01)


def test_a_statement_rounds_up():
    model = FairDPClassifier(**{**SETTINGS, "delta": 1.24e-5}, random_state=0).fit_grouped(records())
    assert "1.24e-05)" in model.privacy_statement()


def test_a_generator_as_random_state_gives_a_seed_that_cannot_be_tried_out():
    seeds = [seed_of(np.random.default_rng(3)), seed_of(np.random.RandomState(3))]
    assert all(seed.bit_length() > 100 for seed in seeds)


def largest_move(n: int, value: float, clip_norm: float) -> float:
    """Of the sum of nearly parallel gradients when one record goes, over what is accounted.

    Without the first record all others are added up in other parts.
    """
    from fairdp.accounting.mechanisms import PrivacyBudget
    from fairdp.accounting.plan import make_plan
    from fairdp.config import TrainConfig
    from fairdp.methods import METHODS
    from fairdp.networks.model import logistic
    from fairdp.parameters import LARGEST_PHYSICAL_BATCH
    from fairdp.training.loop import FlatOptimizer, Trainer, TrainingState

    X = (value * np.random.default_rng(2).uniform(0.7, 1.3, (n, 3))).astype(np.float32)
    data = GroupedData(X, np.ones(n, np.int64), np.zeros(n, np.int64), ("all",))
    config = TrainConfig(sample_rate=1.0, n_steps=1, clip_norm=clip_norm, learning_rates=(0.1,), n_members=1)
    config = dataclasses.replace(config, max_physical_batch_size=LARGEST_PHYSICAL_BATCH)
    plan = make_plan(METHODS["dpsgd"].recipe(config, (float(n),)), PrivacyBudget(epsilon=1.0, delta=1e-8), n_steps=1)
    state = TrainingState(ScoreModel(logistic(), (3,)), FlatOptimizer("sgd"), Generators.of(0).steps)
    trainer = Trainer(state, data, plan, config)
    whole = clipped_sum(trainer, torch.arange(n)).total
    rests = (torch.arange(n - 1), torch.arange(1, n))
    return (
        max(float((whole - clipped_sum(trainer, rest).total).norm()) for rest in rests) / plan.recipe.sensitivities[0]
    )


@pytest.mark.parametrize("clip_norm", [0.1, 0.5, 1.0, 4.0])
@pytest.mark.parametrize("value", [0.0, 0.37, 5.0, 100.0])
@pytest.mark.parametrize("n", [1_000, 4_096, 60_000])
def test_long_sums_stay_below_the_bound(n, value, clip_norm):
    """Clipped to the bound itself, sums in single precision would round past it."""
    assert largest_move(n, value, clip_norm) <= 1.0


def test_that_check_notices_gradients_clipped_to_the_bound_itself(monkeypatch):
    monkeypatch.setattr(clipping, "MARGIN", 1.0)
    assert max(largest_move(60_000, value, 0.1) for value in (0.0, 0.37, 5.0)) > 1.0


@pytest.mark.more
def test_very_long_sums_stay_below_the_bound():
    """Three million records, the largest batch that docs/explanation/privacy.md speaks of."""
    assert max(largest_move(3_000_000, value, 1.0) for value in (0.37, 5.0, 100.0)) <= 1.0


def test_no_table_shows_less_epsilon_than_was_accounted(capsys):
    """To the nearest, .99974 would read .9997."""
    privacy = FairDPClassifier(**SETTINGS, random_state=0).fit_grouped(records()).privacy_
    spent = dataclasses.replace(privacy, epsilon=0.99974, epsilon_by_group={"f": 0.99974, "m": 0.123421})
    settings = {name: value for name, value in SETTINGS.items() if name not in ONE}
    settings |= {"delta": 1e-5, "clip_norm": None, "weight_bound": 1.0, "noise_allocation": "average"}
    report = plan_report(group_sizes=(200, 200), **settings)
    print_plan({**report, "privacy": spent}, as_json=False)
    shown = capsys.readouterr().out
    assert "0.9998" in shown
    assert "m 0.1235" in shown
    assert "0.9997 " not in shown


def test_a_model_that_is_loaded_and_saved_again_still_reads_tables(tmp_path):
    outcome = {"label": "y", "positive": "1", "negative": "0", "declared": True}
    number = {"type": "numeric", "low": 0, "high": 1, "missing": "error", "transform": "linear"}
    schema = {
        **outcome,
        "sensitive": [{"name": "sex", "groups": ["f", "m"]}],
        "columns": [{**number, "name": name} for name in "abc"],
    }
    FairDPClassifier(**SETTINGS, random_state=0).fit_grouped(records(), feature_schema=schema).save(tmp_path / "first")
    FairDPClassifier.load(tmp_path / "first").save(tmp_path / "second")
    assert FairDPClassifier.load(tmp_path / "second").feature_schema_ == schema


def test_a_seed_that_is_used_again_does_not_repeat_the_noise_on_other_counts(monkeypatch):
    """Two models of one seed: were their noise the same, the difference of their released counts would be exact."""
    exact, original = [], certifying.count_decisions
    monkeypatch.setattr(certifying, "count_decisions", lambda *given: exact.append(original(*given)) or exact[-1])
    models = [fitted(**CERTIFIED, epsilon=0.1, hidden=hidden) for hidden in ((4,), (8,), (4,))]
    noise = [np.array(model.certificate_.counts) - counts for model, counts in zip(models, exact, strict=True)]
    assert (exact[0] != exact[1]).any()
    assert (noise[0] != noise[1]).any()
    assert (noise[0] == noise[2]).all()


def test_not_one_used_record_passes_as_fresh(tmp_path):
    """A test of whether chance explains the matches let a few pass, and among coarse values nearly all."""

    def spend(model: str, *rows: np.ndarray) -> None:
        hasher = ledger.hasher()
        hasher.add(pd.DataFrame({"a": np.concatenate(rows)}))
        about = {"model": model, "fresh": bool(model)}
        ledger.spend(Claim(command="certify", table="t", cost=pure(0.1), records=hasher.hashed(), **about))

    fine = np.random.default_rng(1).integers(2**50, size=(2, 5000))
    coarse = np.random.default_rng(0).integers(64, size=(2, 5000))
    with Ledger(tmp_path / "ledger") as ledger:
        spend("", fine[0])
        spend("1", fine[1][:10])
        with pytest.raises(
            ValueError, match=r"of 4991 records some equal records that were used before \(1 in entry 1 of the ledger\)"
        ):
            spend("1", fine[1][10:], fine[0][[7]])
        with pytest.raises(ValueError, match=r"\(2 in entry 1 of the ledger, 10 in entry 2 of the ledger\)"):
            spend("1", fine[1], fine[0][[7, 7]])
        spend("1", fine[1][10:])
        spend("", coarse[0])
        with pytest.raises(ValueError, match="5000 in entry 4 of the ledger"):
            spend("4", coarse[1])


def test_a_seed_that_is_used_again_does_not_repeat_the_noise_on_other_polynomials():
    """The functional mechanism: with the same noise on both, the difference of two tables would be exact."""
    X, y, sex = people()
    groups, noise = (sex == "m").astype(np.int64), []
    for rows in (np.arange(600), np.arange(599)):
        seen = []
        with watching(lambda release, seen=seen: seen.append(release) or release.noisy):
            data = GroupedData(X[rows], y[rows], groups[rows], ("f", "m"))
            FairDPClassifier(method="fairfm", epsilon=1.0, random_state=0).fit_grouped(data)
        noise.append([r.noisy - r.exact for r in seen if r.purpose == "polynomial"])
    assert len(noise[0]) == 2
    assert not any(np.array_equal(first, other) for first, other in zip(*noise, strict=True))
