"""Models: the weights they start from, joint scores, and that nothing learnt starts another run."""

import copy
import functools
import gc

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import Tensor, nn
from torch.nn import functional

from classifier_cases import fitted, people
from fairdp import FairDPClassifier, GroupedData, make_private_fair, tune
from fairdp.accounting.plan import BatchView
from fairdp.config import ModelConfig
from fairdp.methods import JointLoss
from fairdp.networks import model as building
from fairdp.networks.gradients import Backprop, HeadOnly, RecordByRecord, SparseHead, backprop_of
from fairdp.networks.layers import Passed
from fairdp.networks.model import ScoreModel, build_model, cnn, mlp, plain_values
from fairdp.networks.rows import SplineFeatures
from score_models import Scale

SHAPES = {"logistic": (5,), "mlp": (5,), "cnn": (1, 16, 16)}


@pytest.mark.parametrize("kind", SHAPES)
def test_built_in_networks_start_as_torch_starts_them(kind):
    """The same numbers as torch draws for the same layers from the same seed: hence the same laws."""
    model = build_model(ModelConfig(kind=kind), SHAPES[kind], None, 7)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        for layer in model.extractor.modules():
            if isinstance(layer, (nn.Linear, nn.Conv2d)):
                own, bias = layer.weight.clone(), layer.bias.clone()
                layer.reset_parameters()
                torch.testing.assert_close(own, layer.weight)
                torch.testing.assert_close(bias, layer.bias)
        head = nn.init.uniform_(torch.empty(model.width + 1), -(model.width**-0.5), model.width**-0.5)
    torch.testing.assert_close(model.heads[0], head)


@pytest.mark.parametrize("kind", SHAPES)
def test_the_global_generator_is_neither_asked_nor_moved(kind):
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    first = build_model(ModelConfig(kind=kind), SHAPES[kind], None, 7)
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(2)
    assert torch.equal(build_model(ModelConfig(kind=kind), SHAPES[kind], None, 7).params, first.params)
    assert not torch.equal(build_model(ModelConfig(kind=kind), SHAPES[kind], None, 8).params, first.params)


def test_a_users_module_follows_the_seed_and_its_head_is_independent_of_it():
    def build() -> nn.Module:
        return nn.Linear(4, 4)

    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    first, same, other = (build_model(ModelConfig(kind="custom"), (4,), build, seed) for seed in (7, 7, 8))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(first.params, same.params)
    assert not torch.equal(first.params, other.params)
    # Both are uniform within 1/2; from one stream the first five numbers would be the same.
    assert not torch.isclose(first.params[:5], first.heads[0]).any()


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
    """Negative control: what is refused is what was learnt, not equal weights, zeros, or a frozen part."""
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
    """Their purpose: the second model, of another seed, says nothing of the first run that it continues."""
    for name in ("check_fresh_weights", "check_untrained"):
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


def model() -> ScoreModel:
    torch.manual_seed(0)
    return ScoreModel(mlp(4, (5,)), (4,))


def test_they_come_back_whatever_happens():
    own = model()
    before = own.params.clone()
    with own.moved_to(before + 1):
        assert torch.equal(own.params, before + 1)
    assert torch.equal(own.params, before)
    with pytest.raises(ZeroDivisionError), own.moved_to(before + 1):
        raise ZeroDivisionError
    assert torch.equal(own.params, before)


N_CELLS = 6
EXTRACTORS = {
    "mlp": (lambda: mlp(5, (4, 3)), (5,), "LinearStack"),
    "layers": (lambda: nn.Sequential(nn.Linear(5, 4), nn.LayerNorm(4), nn.Tanh()), (5,), "Hooked"),
    "cnn": (lambda: cnn((1, 16, 16)), (1, 16, 16), "Hooked"),
    "own module": (lambda: nn.Sequential(nn.Linear(5, 3), Scale()), (5,), "RecordByRecord"),
    "splines": (lambda: SplineFeatures(5, {3: 0.0, 4: 0.3}, most_squares=9.0, norm=2.0), (5,), "SparseHead"),
}


def build(name: str) -> ScoreModel:
    extractor, shape, _ = EXTRACTORS[name]
    torch.manual_seed(1)
    model = ScoreModel(extractor(), shape, n_cells=N_CELLS)
    # Heads start at zero, where nothing comes back through them.
    model.heads.copy_(0.7 * torch.randn(model.heads.shape))
    return model


def some_people(model: ScoreModel, n_records: int = 6) -> tuple[Tensor, Tensor, Tensor]:
    rng = torch.Generator().manual_seed(2)
    X = torch.rand(n_records, *model.shape, generator=rng)
    labels = torch.randint(2, (n_records,), generator=rng).float()
    return X, labels, torch.randint(N_CELLS // 2, (n_records,), generator=rng)


def naive_gradients(model: ScoreModel, X: Tensor, y: Tensor, groups: Tensor) -> Tensor:
    """Gradient of every record's cross-entropy of its cell, one at a time with autograd."""
    rows = []
    for features, label, group in zip(X, y, groups, strict=True):
        params = {name: p.detach().clone().requires_grad_() for name, p in model.extractor.named_parameters()}
        heads = model.heads.clone().requires_grad_()
        embedding = torch.func.functional_call(model.extractor, params, (features[None],)).flatten()
        scores = heads[:, :-1] @ embedding + heads[:, -1]
        loss = functional.cross_entropy(scores[None], (2 * group + label.long())[None])
        grads = torch.autograd.grad(loss, [*params.values(), heads])
        rows.append(torch.cat([grad.flatten() for grad in grads]))
    return torch.stack(rows)


def assert_right(route: Backprop, model: ScoreModel, X: Tensor, y: Tensor, groups: Tensor) -> None:
    rows = model.extractor.sparse(X) if isinstance(route, SparseHead) else X
    passed = route.forward(rows)
    assert passed.scores.shape == (len(X), N_CELLS)
    terms = passed.backward(JointLoss().score_gradient(BatchView(passed.scores, y, groups), {}))
    norms = torch.stack([term.squared_norms() for term in terms]).sum(0)
    weights, total = torch.linspace(0.2, 1.7, len(X)), torch.zeros_like(model.params)
    with torch.inference_mode():
        for term in terms:
            term.add_weighted_sum(weights, total)
    naive = naive_gradients(model, X, y, groups)
    torch.testing.assert_close(norms.float(), naive.square().sum(1), rtol=3e-4, atol=1e-6)
    torch.testing.assert_close(total, weights @ naive, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", EXTRACTORS)
def test_every_route_equals_one_record_at_a_time(name):
    model = build(name)
    route = SparseHead(model) if name == "splines" else backprop_of(model)
    assert type(route).__name__ == EXTRACTORS[name][2]
    assert_right(route, model, *some_people(model))
    assert_right(RecordByRecord(model), model, *some_people(model))


def test_heads_alone_are_right_too():
    model = build("splines")
    X, y, groups = some_people(model)
    embedded = model.embed_fixed(X)
    naive = naive_gradients(model, X, y, groups)
    passed = HeadOnly(model).forward(embedded)
    (term,) = passed.backward(JointLoss().score_gradient(BatchView(passed.scores, y, groups), {}))
    torch.testing.assert_close(term.squared_norms(), naive.square().sum(1), rtol=3e-4, atol=1e-6)


class Inexact:
    """A route that sees the records a little larger than they are."""

    def __init__(self, model: ScoreModel) -> None:
        self.route = backprop_of(model)

    def forward(self, X: Tensor) -> Passed:
        return self.route.forward(1.001 * X)


def test_that_check_notices_a_wrong_gradient():
    model = build("mlp")
    with pytest.raises(AssertionError):
        assert_right(Inexact(model), model, *some_people(model))


def test_the_loss_is_the_cross_entropy_of_the_cell_by_finite_differences():
    """Central differences of −ln P_c in double precision; cell 2 a + y."""
    rng = torch.Generator().manual_seed(0)
    scores = torch.randn(5, N_CELLS, generator=rng, dtype=torch.float64)
    labels, groups = torch.tensor([0.0, 1, 1, 0, 1]), torch.tensor([0, 0, 1, 2, 2])
    cells = torch.tensor([0, 1, 3, 4, 5])

    def loss(at: Tensor) -> Tensor:
        return -at.log_softmax(1)[torch.arange(5), cells]

    found, width = JointLoss().score_gradient(BatchView(scores.clone(), labels, groups), {}), 1e-6
    for cell in range(N_CELLS):
        step = width * functional.one_hot(torch.tensor(cell), N_CELLS)
        slope = (loss(scores + step) - loss(scores - step)) / (2 * width)
        torch.testing.assert_close(found[:, cell], slope, rtol=0, atol=1e-8)
    assert JointLoss().auxiliary_release is None


@pytest.mark.parametrize("name", EXTRACTORS)
def test_scores_are_the_values_of_cells_times_their_chances(name):
    model = build(name)
    X, *_ = some_people(model)
    embeddings = model.embed_fixed(X).double()
    heads = model.heads.double()
    chances = (embeddings @ heads[:, :-1].T + heads[:, -1]).softmax(1)
    torch.testing.assert_close(model.cell_chances(X), chances, rtol=1e-5, atol=1e-6)
    assert torch.equal(model.cell_values, plain_values(N_CELLS))
    torch.testing.assert_close(model.probabilities(X), chances[:, 1::2].sum(1), rtol=1e-5, atol=1e-6)
    # Without prices a positive decision is worth 2 P(1) − 1.
    torch.testing.assert_close(model.scores(X).double(), 2 * chances[:, 1::2].sum(1) - 1, rtol=1e-5, atol=1e-5)
    before = model.probabilities(X)
    model.cell_values = torch.tensor([0.3, -1.0, 2.0, 0.0, 0.5, -0.2], dtype=torch.float64)
    torch.testing.assert_close(model.scores(X).double(), chances @ model.cell_values, rtol=1e-5, atol=1e-5)
    # What the model believes does not depend on what is decided.
    assert torch.equal(model.probabilities(X), before)


def test_nobody_has_no_scores():
    for name in ("mlp", "splines", "cnn"):
        model = build(name)
        assert model.scores(torch.zeros(0, *model.shape)).shape == (0,)
        assert model.cell_chances(torch.zeros(0, *model.shape)).shape == (0, N_CELLS)


def test_a_joint_model_starts_without_preferences():
    model = ScoreModel(mlp(5, (4,)), (5,), n_cells=4)
    X = torch.randn(7, 5)
    assert model.cell_chances(X).tolist() == [[0.25] * 4] * 7
    assert model.scores(X).tolist() == [0.0] * 7


def test_an_ordinary_model_has_probabilities_by_its_score():
    model = ScoreModel(mlp(5, (4,)), (5,))
    X = torch.randn(7, 5)
    assert model.cell_values is None
    np.testing.assert_allclose(model.probabilities(X).numpy(), model.scores(X).double().sigmoid().numpy())


def test_values_of_cells_are_saved_and_part_of_the_digest():
    model = build("mlp")
    digest = model.digest()
    assert "cell_values" in model.tensors()
    model.cell_values = 2 * model.cell_values
    assert model.digest() != digest
