"""Fits by several workers: the same model, counts and privacy as by one, for every method."""

import numpy as np
import pytest
import torch
from torch import nn

from fairdp import METHODS, FairDPClassifier, GroupedData
from fairdp.data import grouped
from fairdp.distributed import process_group
from fairdp.ledger.ledger import Ledger
from fairdp.releases import watching
from fairdp.run.certifying import _count_together
from fairdp.training import sums as shared_sums
from process_group_cases import together

pytestmark = pytest.mark.usefixtures("rough_bounds")

SETTINGS = {"epsilon": 2.0, "n_steps": 6, "sample_rate": 0.5, "random_state": 1, "max_physical_batch_size": 16}
SETTINGS["certify_metrics"] = ("demographic_parity",)


@pytest.fixture(autouse=True)
def small_shares(monkeypatch):
    """Records in batches of sixteen, so that all workers have some to count."""
    monkeypatch.setattr(grouped, "BATCH", 16)


def people(n_samples: int = 240) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    X = rng.standard_normal((n_samples, 3)).astype(np.float32)
    groups = rng.integers(2, size=n_samples)
    return X, (X[:, 0] + 0.3 * groups + 0.3 * rng.standard_normal(n_samples) > 0).astype(int), groups


def fitted(method: str = "fairdp", **changes) -> FairDPClassifier:
    X, y, groups = people()
    return FairDPClassifier(method=method, **{**SETTINGS, **changes}).fit(X, y, sensitive_features=groups)


def outcome(model: FairDPClassifier) -> tuple:
    """All that is released, to the last bit."""
    certificate = model.certificate_
    counts = np.asarray(getattr(certificate, "counts", ())), np.asarray(getattr(certificate, "scores", ()) or ())
    frontier = "" if model.frontier_ is None else repr(model.frontier_)
    numbers = model.privacy_.epsilon, model.predictor_.flips, frontier
    return model.score_model_.params.numpy().tobytes(), *(each.tolist() for each in counts), numbers


@pytest.mark.parametrize("method", METHODS)
def test_every_method_gives_the_same_for_any_number_of_workers(method):
    alone = outcome(fitted(method))
    assert [outcome(model) for model in together(3, lambda: fitted(method))] == 3 * [alone]


@pytest.mark.parametrize(
    "changes",
    [
        {"method": "fairdp", "n_members": 4},
        {"method": "fairdp", "group_optimizers": True, "noise_allocation": "per_group", "n_members": 3},
        {"method": "dp_is_sgd", "grouping": "attribute_and_label", "accountant": "rdp"},
        {"method": "fairdp_frontier", "parity": "equalized_odds", "max_gap": 0.05},
        {"method": "fairdp", "predictor": "gibbs", "n_members": 3},
    ],
)
def test_so_does_every_way_of_training(changes):
    assert [outcome(model) for model in together(2, lambda: fitted(**changes))] == 2 * [outcome(fitted(**changes))]


def test_one_worker_draws_the_noise_and_the_others_are_told():
    seen: dict[int, int] = {}

    def watched() -> None:
        def watch(release):
            seen[process_group().rank] = seen.get(process_group().rank, 0) + (release.purpose == "gradient")
            return release.noisy

        with watching(watch):
            fitted()

    together(3, watched)
    assert seen[0] == SETTINGS["n_steps"]
    assert not seen.get(1)
    assert not seen.get(2)


def test_a_worker_that_left_its_share_out_would_be_noticed(monkeypatch):
    """Negative control."""
    alone, own = outcome(fitted()), shared_sums._added

    def forgetful(block, parts, compute, n_numbers):
        return own(block, range(0) if process_group().rank else parts, compute, n_numbers)

    monkeypatch.setattr(shared_sums, "_added", forgetful)
    assert outcome(together(2, fitted)[0]) != alone


def with_dropout() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Dropout(0.3))


def test_parts_have_coins_of_their_own():
    """In which order parts are passed must not matter to what dropout drops in them."""
    model = FairDPClassifier(method="dpsgd", module=with_dropout, **SETTINGS)
    X, y, groups = people()
    first = model.fit(X, y, sensitive_features=groups).score_model_.params.clone()
    backwards = shared_sums._added

    def reversed_parts(block, parts, compute, n_numbers):
        kept = {part: compute(block, part) for part in reversed(parts)}
        return backwards(block, parts, lambda _, part: kept[part], n_numbers)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_sums, "_added", reversed_parts)
        assert torch.equal(model.fit(X, y, sensitive_features=groups).score_model_.params, first)


def test_without_a_seed_all_workers_have_the_keys_of_the_first():
    first, *others = (outcome(model) for model in together(3, lambda: fitted(random_state=None)))
    assert others == [first, first]


def test_one_fit_by_several_workers_is_one_entry(tmp_path):
    together(3, lambda: fitted(ledger=str(tmp_path / "ledger"), table="people"))
    book = Ledger(tmp_path / "ledger")
    assert [entry.state for entry in book.entries()] == ["completed"]
    book.close()


@pytest.mark.parametrize(("differs", "what"), [("record", "records"), ("setting", "options"), ("seed", "options")])
def test_workers_with_something_else_are_refused_before_any_release(differs, what):
    released = []

    def fit() -> None:
        X, y, groups = people()
        odd = process_group().rank == 1
        X[5, 0] += odd and differs == "record"
        changed = {"setting": {"n_steps": 7}, "seed": {"random_state": 2}}.get(differs, {}) if odd else {}

        def watch(release):
            released.append(release.purpose)
            return release.noisy

        with watching(watch):
            FairDPClassifier(**{**SETTINGS, **changed}).fit(X, y, sensitive_features=groups)

    with pytest.raises(AssertionError, match=what):
        together(2, fit)
    assert not released


class Undecided:
    """A rule that decides about everybody by a fair coin."""

    def chances(self, model, X, *, groups):
        return np.full(len(X), 0.5)


def test_everybody_has_the_same_coin_whoever_counts():
    X, y, groups = people(1000)
    data = GroupedData(X, y, groups, ("a", "b"))
    counted = [together(size, lambda: _count_together(None, Undecided(), data, bytes(16))) for size in (1, 2, 5)]
    assert len({counts.tobytes() for of_size in counted for counts in of_size}) == 1
