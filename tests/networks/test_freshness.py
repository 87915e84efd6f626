"""A module that has learnt from records never starts another run as if its weights were public."""

import copy
import functools
import gc

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import nn

from classifier_cases import fitted, people
from fairdp import FairDPClassifier, GroupedData, make_private_fair, tune
from fairdp.networks import building

REUSED = "must build a new module every time"
TRAINED = "was in an earlier run of this program, or starts from what one has learned"
OWN = {"method": "dpsgd", "epsilon": 2.0, "n_steps": 20, "sample_rate": 0.2, "certify_fraction": 0.0}


def fit(model: FairDPClassifier) -> FairDPClassifier:
    X, y, sex = people()
    return model.fit(X, y, sensitive_features=sex)


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 6), nn.Tanh())


def frozen(module: nn.Module) -> nn.Module:
    return module.requires_grad_(False)


def with_a_tensor(kept: torch.Tensor) -> nn.Module:
    module = network()
    module.kept = kept
    return module


class Remembered:
    """A builder that is copied with what it holds."""

    def __init__(self) -> None:
        self.net = network()

    def __call__(self) -> nn.Module:
        return self.net


NET, BIAS = network(), nn.Parameter(torch.zeros(6))
BUILDERS = {
    "the same module": lambda: NET,
    "inside another": lambda: nn.Sequential(NET, nn.Linear(6, 2)),
    "frozen": lambda: nn.Sequential(frozen(NET), nn.Linear(6, 2)),
    "its layer": lambda: nn.Sequential(NET[0], nn.ReLU()),
    "a buffer": lambda: with_a_tensor(torch.Tensor.detach(BIAS)),
    "a view": lambda: with_a_tensor(BIAS.detach()[:2]),
    "a partial": functools.partial(lambda module: module, NET),
    "an object": Remembered(),
}


@pytest.mark.parametrize("builder", BUILDERS.values(), ids=BUILDERS)
def test_a_builder_that_shares_anything_between_calls_is_refused_before_a_step(builder, monkeypatch):
    monkeypatch.setattr("fairdp.training.loop.Trainer.release", lambda *_: pytest.fail("something was released"))
    before = copy.deepcopy(NET.state_dict())
    with pytest.raises(ValueError, match=REUSED):
        fitted(module=builder)
    with pytest.raises(ValueError, match=REUSED):
        fit(clone(FairDPClassifier(**OWN, module=builder)))
    assert all(torch.equal(value, NET.state_dict()[name]) for name, value in before.items())


def test_no_trial_of_a_search_shares_a_module():
    X, y, sex = people()
    data = GroupedData(X, y, (sex == "m").astype(np.int64), ("f", "m"))
    parameters = {**OWN, "certify_fraction": 0.2, "random_state": 0}
    with pytest.raises(ValueError, match=REUSED):
        tune(FairDPClassifier(**parameters, module=lambda: NET), {"learning_rate": [0.1, 0.5]}, data)
    built = []
    tune(
        FairDPClassifier(**parameters, module=lambda: built.append(network()) or built[-1]),
        {"learning_rate": [0.1, 0.5]},
        data,
    )
    places = [parameter.untyped_storage().data_ptr() for net in built for parameter in net.parameters()]
    # Those that a run trains are in one vector of its own; the others were only compared with them.
    assert len(set(places)) == len(built) // 2 * (1 + 2)


@pytest.mark.parametrize("method", ["dpsgd", "clean"])
def test_copies_of_what_a_run_has_learnt_are_refused(method):
    trained = fitted(module=network, method=method).score_model_.extractor
    for build in (
        lambda: copy.deepcopy(trained),
        lambda: frozen(copy.deepcopy(trained)),
        lambda: nn.Sequential(copy.deepcopy(trained), nn.Linear(6, 2)),
        lambda: loaded(trained.state_dict()),
    ):
        with pytest.raises(ValueError, match=TRAINED):
            fitted(module=build)
        with pytest.raises(ValueError, match=TRAINED):
            make_private_fair(build(), people(), **OWN)


def loaded(state: dict[str, torch.Tensor]) -> nn.Module:
    module = network()
    module.load_state_dict(state)
    return module


def test_copies_are_refused_after_the_model_is_gone():
    copied = copy.deepcopy(fitted(module=network).score_model_.extractor)
    gc.collect()
    with pytest.raises(ValueError, match=TRAINED):
        fitted(module=lambda: copy.deepcopy(copied))


def test_networks_of_our_own_that_were_trained_are_refused_too(tmp_path):
    model = fitted(model="mlp", hidden=(6,))
    model.save(tmp_path / "model")
    for trained in (model, FairDPClassifier.load(tmp_path / "model")):
        with pytest.raises(ValueError, match=TRAINED):
            fitted(module=lambda trained=trained: copy.deepcopy(trained.score_model_.extractor))


def test_a_module_of_an_own_loop_is_trained_once_and_its_copies_never():
    module = network()
    private = make_private_fair(module, people(), **OWN)
    private.backward()
    with torch.no_grad():
        for own in private.parameters():
            own.add_(own.grad)
    # Half way, and without an end.
    for build in (lambda: module, lambda: copy.deepcopy(module), lambda: nn.Sequential(module)):
        with pytest.raises(ValueError, match=TRAINED):
            make_private_fair(build(), people(), **OWN)
    model = private.finish()
    for again in (model, clone(model)):
        with pytest.raises(ValueError, match=TRAINED):
            fit(again)


def test_parameters_of_a_fitted_estimator_start_no_own_loop():
    trained = fitted(module=network).score_model_.extractor
    module = network()
    module[0].weight = trained[0].weight
    with pytest.raises(ValueError, match=TRAINED):
        make_private_fair(module, people(), **OWN)


def test_a_model_is_read_into_a_module_of_its_own(tmp_path):
    """Two models in one module would decide alike."""
    fitted(module=network).save(tmp_path / "model")
    with pytest.raises(ValueError, match=REUSED):
        FairDPClassifier.load(tmp_path / "model", module=lambda: NET)
    # All its numbers come from the file, so that it does not matter what was there before.
    trained = FairDPClassifier.load(tmp_path / "model", module=network)
    state = trained.score_model_.extractor.state_dict()
    again = FairDPClassifier.load(tmp_path / "model", module=lambda: loaded(state))
    np.testing.assert_array_equal(again.decision_function(people()[0]), trained.decision_function(people()[0]))


def test_public_weights_may_start_any_number_of_runs():
    """The twin: what is refused is what was learnt, not equal weights, zeros, or a frozen part."""
    public = network()

    def start() -> nn.Module:
        head = nn.Linear(6, 4)
        nn.init.zeros_(head.bias)
        return nn.Sequential(frozen(copy.deepcopy(public)), head, copy.deepcopy(nn.Linear(4, 4)))

    first, second = (fitted(module=start).decision_function(people()[0]) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    trainable = [fitted(module=lambda: copy.deepcopy(public), random_state=seed) for seed in (0, 1)]
    assert not torch.equal(*(model.score_model_.params for model in trainable))


def test_without_the_checks_a_second_run_starts_where_the_first_ended(monkeypatch):
    """What they are for: the second model, of another seed, says nothing of the first run that it continues."""
    for name in ("check_built_anew", "check_untrained"):
        monkeypatch.setattr(building, name, lambda *_: None)
    net = network()
    start = copy.deepcopy(net.state_dict())
    first = fitted(module=lambda: net, random_state=0).score_model_.extractor
    ended = {name: value.clone() for name, value in first.state_dict().items()}
    assert not any(torch.equal(start[name], value) for name, value in ended.items())
    # Frozen by the first run, they now pass for public.
    second = fitted(module=lambda: net, random_state=1).score_model_
    assert all(torch.equal(ended[name], value) for name, value in second.fixed_state().items())


def _tied() -> nn.Module:
    first, second = nn.Linear(3, 3), nn.Linear(3, 3)
    second.weight = first.weight
    return nn.Sequential(first, nn.Tanh(), second)


def _twice() -> nn.Module:
    layer = nn.Linear(3, 3)
    return nn.Sequential(layer, nn.Tanh(), layer)


@pytest.mark.parametrize("build", [_tied, _twice])
def test_tied_layers_are_refused_before_anything_is_released(build, monkeypatch):
    monkeypatch.setattr("fairdp.training.loop.Trainer.release", lambda *_: pytest.fail("something was released"))
    message = r"uses one parameter at two places, '0.weight' and '2.weight'; give each layer its own"
    with pytest.raises(ValueError, match=message):
        fitted(module=build)
    with pytest.raises(ValueError, match=message):
        make_private_fair(build(), people(), **OWN)


def test_tied_layers_that_are_frozen_are_saved_and_read(tmp_path):
    def build() -> nn.Module:
        torch.manual_seed(3)
        return nn.Sequential(frozen(_tied()), nn.Linear(3, 4))

    model = fitted(module=build)
    model.save(tmp_path / "model")
    again = FairDPClassifier.load(tmp_path / "model", module=build)
    np.testing.assert_array_equal(again.predict(people()[0]), model.predict(people()[0]))


def test_what_builds_no_module_is_refused():
    with pytest.raises(ValueError, match=r"module must return a torch.nn.Module, got int"):
        fitted(module=lambda: 3)
