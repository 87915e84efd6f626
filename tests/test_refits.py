"""A fit that fails, wherever it does, leaves the earlier fit of the estimator whole, to the last bit."""

from types import SimpleNamespace

import numpy as np
import pytest

from fairdp import FairDPClassifier, GroupedData, tune
from fairdp.accounting.spent import PrivacySpent
from fairdp.errors import SavedModelError
from fairdp.ledger.ledger import Ledger
from fairdp.ledger.store import Limit
from fairdp.releases import watching
from fairdp.run.fit import Progress

pytestmark = pytest.mark.usefixtures("rough_bounds")

SETTINGS = {"epsilon": 2.0, "n_steps": 3, "sample_rate": 0.3, "certify_metrics": ("demographic_parity",)}


def people(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 2)).astype(np.float32)
    return X, np.where(X[:, 0] > 0, "yes", "no"), rng.choice(["f", "m"], size=300)


def encoded(seed: int) -> GroupedData:
    X, y, sex = people(seed)
    return GroupedData(X, (y == "yes").astype(np.int64), (sex == "m").astype(np.int64), ("f", "m"))


def fitted(method: str, **changes) -> FairDPClassifier:
    X, y, sex = people(0)
    return FairDPClassifier(**SETTINGS, method=method, random_state=0, **changes).fit(X, y, sensitive_features=sex)


class Fault(Exception):
    """The failure raised in a test."""


def everything(model: FairDPClassifier, folder) -> dict[str, object]:
    """All that a fit has left: files, decisions, scores, statements, and which attributes there are."""
    model.save(folder, overwrite=True)
    X = people(9)[0]
    return {
        "files": {path.name: path.read_bytes() for path in folder.iterdir()},
        "decided": model.predict(X).tolist(),
        "scores": model.decision_function(X).tobytes(),
        "said": (model.privacy_statement(), model.certificate_statement(), str(model.verdict_), model._repr_html_()),
        "fitted": {name: id(value) for name, value in vars(model).items() if name.endswith("_")},
    }


def refit(model: FairDPClassifier, way: str, **options) -> None:
    """Another fit, of other records in another way with other settings, that would change everything."""
    model.set_params(epsilon=1.0, random_state=1)
    if way == "fit":
        X, y, sex = people(1)
        model.fit(X[:, :1], np.where(y == "yes", "b", "a"), sensitive_features=np.where(sex == "m", "x", "w"))
    else:
        model.fit_grouped(encoded(1), **options)


def stops_at(number: int):
    """An interruption at one of the releases of a run."""
    left = iter(range(number))

    def hook(release):
        if next(left, None) is None:
            raise KeyboardInterrupt
        return release.noisy

    return hook


def faults(monkeypatch):
    """Each a place where a fit may fail, with what makes it fail there."""

    def broken(*_, **__):
        raise Fault

    for place in (
        "fairdp.data.grouped.binary_codes",
        "fairdp.run.fit.begin",
        "fairdp.run.fit.certified",
        "fairdp.run.fit.mark_trained",
        "fairdp.ledger.ledger.Spending.complete",
    ):
        monkeypatch.setattr(place, broken)
        yield place
        monkeypatch.undo()
    fails_half_way(monkeypatch)
    yield "fitted_"


def fails_half_way(monkeypatch):
    """A fit that fails when it has set some of the attributes."""

    def broken(model, value):
        raise Fault

    attribute = property(lambda model: vars(model)["fitted_"], broken)
    monkeypatch.setattr(FairDPClassifier, "fitted_", attribute, raising=False)


@pytest.mark.parametrize(("method", "way"), [("dpsgd", "fit"), ("fairdp_frontier", "fit_grouped")])
def test_an_interruption_at_any_release_leaves_the_earlier_fit_whole(method, way, tmp_path):
    model = fitted(method)
    before, number = everything(model, tmp_path / "model"), 0
    while True:
        try:
            with watching(stops_at(number)):
                refit(model, way)
            break
        except KeyboardInterrupt:
            number += 1
        assert everything(model, tmp_path / "model") == before
    # Sizes, three gradients and the counts at least; and the fit that came through did change everything.
    assert number >= 5
    fitted_now = {name: id(value) for name, value in vars(model).items() if name.endswith("_")}
    assert before["fitted"].keys() == fitted_now.keys()
    unchanged = {name for name in fitted_now if fitted_now[name] == before["fitted"][name]}
    assert unchanged <= {"feature_schema_", "frontier_", "target_", "n_features_in_", "n_train_", "n_certify_"}


def test_an_error_at_any_place_leaves_the_earlier_fit_whole(monkeypatch, tmp_path):
    model = fitted("dpsgd")
    before, seen = everything(model, tmp_path / "model"), []
    for way in ("fit", "fit_grouped"):
        for place in faults(monkeypatch):
            if (way, place) == ("fit_grouped", "fairdp.data.grouped.binary_codes"):
                # Its labels are codes already.
                continue
            with pytest.raises(Fault):
                refit(model, way)
            monkeypatch.undo()
            assert everything(model, tmp_path / "model") == before, place
            seen.append(place)
    assert len(seen) == 11


def test_that_check_would_notice_a_fit_that_writes_as_it_goes(monkeypatch, tmp_path):
    model = fitted("dpsgd")
    monkeypatch.setattr("fairdp.classifier.copy", SimpleNamespace(copy=lambda estimator: estimator))
    fails_half_way(monkeypatch)
    with pytest.raises(Fault):
        refit(model, "fit_grouped")
    monkeypatch.undo()
    with pytest.raises(SavedModelError, match="changed after they were certified"):
        everything(model, tmp_path / "model")


def test_bad_input_full_disks_and_refused_budgets_leave_the_earlier_fit_whole(monkeypatch, tmp_path):
    ledger = tmp_path / "ledger.sqlite"
    model = fitted("dpsgd", ledger=str(ledger), table="people")
    before = everything(model, tmp_path / "model")
    X, y, sex = people(1)

    def refuses(message: str, call) -> None:
        with pytest.raises((ValueError, OSError), match=message):
            call()
        assert everything(model, tmp_path / "model") == before

    refuses("NaN", lambda: model.fit(np.full_like(X, np.nan), y, sensitive_features=sex))
    refuses("class", lambda: model.fit(X, np.zeros(300), sensitive_features=sex))
    refuses("sensitive_features", lambda: model.fit(X, y, sensitive_features=sex[:5]))
    refuses("n_steps", lambda: model.set_params(n_steps=-1).fit(X, y, sensitive_features=sex))
    model.set_params(n_steps=3)
    with Ledger(ledger) as opened:
        opened.set_limit(Limit(table="people", epsilon=3.0))
    refuses("would pass the limit", lambda: model.fit(X, y, sensitive_features=sex))
    refuses("would pass the limit", lambda: model.fit_grouped(encoded(1)))

    def full(path, content, **_):
        if content:
            raise OSError(28, "No space left on device")
        path.touch()

    model.set_params(ledger=None)
    monkeypatch.setattr("fairdp.run.checkpoint.write_file", full)
    progress = Progress(checkpoint=tmp_path / "checkpoint", seconds_between_checkpoints=0.0)
    refuses("No space left", lambda: model.fit_grouped(encoded(1), progress=progress))
    with Ledger(ledger) as opened:
        assert len(opened.entries()) == 1


def test_a_search_leaves_the_estimator_that_it_starts_from_alone(tmp_path):
    model = fitted("dpsgd")
    before = everything(model, tmp_path / "model")
    for number in range(3):
        with pytest.raises(KeyboardInterrupt), watching(stops_at(number)):
            tune(model, {"learning_rate": [0.1, 1.0]}, encoded(1), expected_trials=2)
        assert everything(model, tmp_path / "model") == before
    found = tune(model, {"learning_rate": [0.1, 1.0]}, encoded(1), expected_trials=2)
    assert isinstance(found.privacy_, PrivacySpent)
    assert everything(model, tmp_path / "model") == before


def test_a_loop_that_fails_leaves_what_an_earlier_one_has_finished():
    import torch

    from fairdp import make_private_fair

    def loop():
        private = make_private_fair(torch.nn.Linear(2, 4), people(0), **SETTINGS, method="dpsgd", random_state=0)
        optimizer = torch.optim.SGD(private.parameters(), lr=0.1)
        for _ in range(private.n_steps):
            private.backward()
            optimizer.step()
        return private, optimizer

    private, optimizer = loop()
    model = private.finish()
    X = people(9)[0]
    before = (model.decision_function(X).tobytes(), model.privacy_, model.certificate_)
    # The optimiser still holds the parameters of the loop, and another loop fails at its certificate.
    optimizer.step()
    with pytest.raises(KeyboardInterrupt), watching(stops_at(4)):
        loop()[0].finish()
    assert (model.decision_function(X).tobytes(), model.privacy_, model.certificate_) == before
