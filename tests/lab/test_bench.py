import gc
import json
import sys
from functools import reduce
from itertools import pairwise

import numpy as np
import pytest
import torch

from fairdp.data.catalog import load_dataset
from fairdp.training.noise import PoissonSampler
from fairdp_lab import bench as meters
from fairdp_lab.bench import (
    Task,
    compare,
    fairdp_step,
    fits_of,
    gradsample_step,
    in_groups,
    median_cpu_seconds,
    median_milliseconds,
    nonprivate_step,
    peak_megabytes,
)

# Four batches make an epoch, so that the loader of Opacus has to start again.
TABLE = Task(shape=(5,), n_samples=100, batch_size=25, n_rounds=3, seconds=5.0)
IMAGES = Task(shape=(1, 8, 8), n_samples=40, batch_size=10, n_rounds=2, seconds=5.0)
FITS = {"n_fits": 1, "n_records": 1000}


@pytest.fixture(scope="module")
def result():
    return compare(mlp=TABLE, cnn=IMAGES, **FITS, n_threads=1)


PROMISED = {
    "mlp": "step_vs_nonprivate speedup_vs_opacus speedup_vs_gradsample",
    "mlp.milliseconds": "fairdp fairdp_16_groups nonprivate opacus gradsample",
    "mlp.peak_megabytes": "fairdp nonprivate",
    "cnn": "step_vs_nonprivate",
    "cnn.milliseconds": "fairdp nonprivate",
    "cnn.peak_megabytes": "fairdp nonprivate",
    "whole_fits.cpu_seconds": "fairdp_frontier",
    "whole_fits.over_ours": "logistic_regression dp_ebm reduction",
    "": "groups_16_vs_2 peak_memory_vs_nonprivate",
}


@pytest.mark.more
def test_every_promised_number_is_there_and_positive(result):
    for path, names in PROMISED.items():
        found = reduce(dict.__getitem__, filter(None, path.split(".")), result)
        for name in names.split():
            assert isinstance(found[name], float)
            assert 0 < found[name] < float("inf"), (path, name)


@pytest.mark.more
def test_ratios_follow_from_the_numbers_beside_them(result):
    times = result["mlp"]["milliseconds"]
    assert result["mlp"]["step_vs_nonprivate"] == times["fairdp"] / times["nonprivate"]
    assert result["mlp"]["speedup_vs_opacus"] == times["opacus"] / times["fairdp"]
    assert result["mlp"]["speedup_vs_gradsample"] == times["gradsample"] / times["fairdp"]
    assert result["groups_16_vs_2"] == times["fairdp_16_groups"] / times["fairdp"]
    seconds = result["whole_fits"]["cpu_seconds"]
    over_ours = {name: of / seconds["fairdp_frontier"] for name, of in seconds.items() if name != "fairdp_frontier"}
    assert result["whole_fits"]["over_ours"] == over_ours
    peaks = [result[task]["peak_megabytes"] for task in ("mlp", "cnn")]
    assert result["peak_memory_vs_nonprivate"] == max(p["fairdp"] / p["nonprivate"] for p in peaks)


@pytest.mark.more
def test_the_result_says_what_was_run_and_is_json(result):
    assert result["threads"] == 1
    assert result["rounds"] == {"mlp": TABLE.n_rounds, "cnn": IMAGES.n_rounds, "fits": FITS["n_fits"]}
    assert result["whole_fits"]["data"] == "synthetic"
    assert result["versions"]["torch"] == torch.__version__
    beside = {"fairlearn", "interpret-core", "numpy", "opacus", "scikit-learn", "torch"}
    assert set(result["versions"]) == {"fairdp", "python"} | beside
    assert json.loads(json.dumps(result)) == result


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("other_step", [nonprivate_step, gradsample_step])
def test_other_contestants_see_our_batches(monkeypatch, other_step):
    drawn = []
    draw = PoissonSampler.draw
    monkeypatch.setattr(PoissonSampler, "draw", lambda self, keys: drawn.append(draw(self, keys)) or drawn[-1])
    data = TABLE.data()
    ours, other = fairdp_step(TABLE, data), other_step(TABLE, data)
    for step in [ours] * 4 + [other] * 4:
        step()
    assert len(drawn) == 8
    for mine, theirs in zip(drawn[:4], drawn[4:], strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert not np.array_equal(drawn[0], drawn[1])


@pytest.mark.parametrize("task", [TABLE, IMAGES])
def test_the_plain_model_has_as_many_parameters_as_ours(task):
    ours = fairdp_step(task, task.data()).__self__.state.model.params
    assert ours.numel() == sum(parameter.numel() for parameter in task.classifier().parameters())


def test_our_step_is_private_and_projects():
    trainer = fairdp_step(TABLE, in_groups(TABLE.data(), n_groups=16)).__self__
    assert trainer.plan.recipe.noise_allocation == "per_group"
    assert trainer.plan.noise_std > 0
    assert np.isfinite(trainer.plan.recipe.weight_bound)
    assert len(trainer.plan.recipe.sensitivities) == 16
    before = trainer.state.model.params.clone()
    trainer.step()
    assert not torch.equal(before, trainer.state.model.params)


class Clock:
    """Time that passes only when a step says so."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr(meters.time, "perf_counter", lambda: self.now)

    def step_taking(self, *milliseconds):
        """A step whose timed calls take these times in turn; the warm-up takes longer, the untimed calls none."""
        left = [time for timed in [50.0] * meters.WARM_UP_ROUNDS + list(milliseconds) for time in (0.0, timed)]

        def step():
            self.now += left.pop(0) / 1e3

        return step


def test_times_are_medians_without_the_warm_up(monkeypatch):
    clock = Clock(monkeypatch)
    steps = {"a": clock.step_taking(2, 9, 4), "b": clock.step_taking(6, 5, 30)}
    times, n_rounds = median_milliseconds(steps, n_rounds=3, seconds=1e9)
    assert n_rounds == 3
    assert times == pytest.approx({"a": 4, "b": 6})


def test_no_round_starts_after_the_deadline_but_one_always_does(monkeypatch):
    clock = Clock(monkeypatch)
    assert median_milliseconds({"a": clock.step_taking(3)}, n_rounds=9, seconds=0.0)[1] == 1
    warm_up = 0.05 * meters.WARM_UP_ROUNDS
    step = clock.step_taking(10, 10, 10)
    assert median_milliseconds({"a": step}, n_rounds=9, seconds=warm_up + 0.025)[1] == 3


def test_fits_are_timed_by_the_processor_without_the_first_round_and_take_turns(monkeypatch):
    now, calls = [0.0], []
    monkeypatch.setattr(meters.time, "process_time", lambda: now[0])

    def taking(name, *seconds):
        left = list(seconds)

        def fit():
            calls.append(name)
            now[0] += left.pop(0)

        return fit

    fits = {"a": taking("a", 50, 2, 9, 4), "b": taking("b", 50, 6, 5, 30)}
    assert median_cpu_seconds(fits, n_rounds=3) == pytest.approx({"a": 4, "b": 6})
    rounds = [calls[i : i + 2] for i in range(0, len(calls), 2)]
    assert [sorted(names) for names in rounds] == [["a", "b"]] * 4
    assert len({tuple(names) for names in rounds}) == 2


@pytest.mark.more
def test_our_whole_fit_is_private_aims_at_the_gap_and_is_certified():
    fitted = fits_of(load_dataset("synthetic"), FITS["n_records"])["fairdp_frontier"]()
    assert fitted.privacy_.epsilon <= 1
    assert (fitted.method, fitted.max_gap) == ("fairdp_frontier", 0.05)
    assert fitted.certificate_.gaps


def test_contestants_take_turns_and_everyone_follows_everyone():
    calls = []
    steps = {name: lambda name=name: calls.append(name) for name in "abc"}
    median_milliseconds(steps, n_rounds=40, seconds=60.0)
    assert calls[::2] == calls[1::2]  # an untimed step, then the timed one of the same contestant
    rounds = [calls[i : i + 6 : 2] for i in range(0, len(calls), 6)]
    assert len(rounds) == 40 + meters.WARM_UP_ROUNDS
    assert all(sorted(names) == ["a", "b", "c"] for names in rounds)
    followers = {pair for names in rounds for pair in pairwise(names)}
    assert len(followers) == 6


def test_garbage_collection_rests_while_timing_and_resumes():
    states = []
    median_milliseconds({"a": lambda: states.append(gc.isenabled())}, n_rounds=2, seconds=60.0)
    assert states[: 2 * meters.WARM_UP_ROUNDS] == [True] * 2 * meters.WARM_UP_ROUNDS
    assert states[2 * meters.WARM_UP_ROUNDS :] == [False] * 4
    assert gc.isenabled()


def test_memory_meter_reads_the_peak_of_tensors_not_their_sum():
    held = torch.zeros(10**6)

    def step():
        first = torch.zeros(250_000)
        second = torch.zeros(500_000)
        del first
        third = torch.zeros(125_000)
        del second, third
        held.add_(1)

    # Together 3.5 MB are allocated, but never more than 3 MB at a time.
    assert peak_megabytes(step) == pytest.approx(3.0, abs=0.01)


def test_memory_meter_sees_temporaries_inside_an_operation():
    scores, labels = torch.ones(1000, 250), torch.zeros(1000, dtype=torch.int64)
    # Their log-softmax is as large as the scores and gone when the loss, one number, is returned.
    assert peak_megabytes(lambda: torch.nn.functional.cross_entropy(scores, labels)) == pytest.approx(1.0, abs=0.01)


def test_memory_meter_sees_what_numpy_allocates():
    assert peak_megabytes(lambda: torch.from_numpy(np.zeros(250_000)).sum()) == pytest.approx(2.0, abs=0.01)


def test_memory_meter_counts_a_gradient_once_although_it_outlives_the_step():
    layer, X = torch.nn.Linear(1000, 1000, bias=False), torch.ones(1, 1000)

    def step():
        layer.zero_grad(set_to_none=True)
        layer(X).sum().backward()

    assert peak_megabytes(step) == pytest.approx(4.0, abs=0.02)


@pytest.mark.parametrize(("package", "title"), [("opacus", "Opacus"), ("interpret", "DP-EBM")])
def test_without_a_rival_the_error_names_the_remedy_and_leaves_no_trace(monkeypatch, package, title):
    monkeypatch.setitem(sys.modules, package, None)
    before = torch.get_num_threads()
    with pytest.raises(ValueError, match=rf"{title}.* pip install 'fairdp\[lab\]'") as error:
        compare(mlp=TABLE, cnn=IMAGES, **FITS, n_threads=before + 1)
    assert "\n" not in str(error.value)
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("n_threads", [0, -1, 1.5])
def test_a_strange_number_of_threads_is_refused(n_threads):
    with pytest.raises(ValueError, match="n_threads"):
        compare(mlp=TABLE, cnn=IMAGES, **FITS, n_threads=n_threads)
