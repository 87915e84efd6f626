"""Private gradients for an own loop: the estimator's, one by one, with its budget and its certificate."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from classifier_cases import CERTIFIED, people
from fairdp import FairDPClassifier, GroupedData, make_private_fair
from fairdp.accounting.mechanisms import epsilon_spent
from fairdp.saved.verify import verify_folder
from fairdp.training.loop import PrivacyBudgetExceeded

pytestmark = pytest.mark.usefixtures("rough_bounds")

SETTINGS = {"method": "dpsgd", "epsilon": 2.0, "n_steps": 20, "sample_rate": 0.2, "random_state": 0, **CERTIFIED}


def network(width: int = 6) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return nn.Sequential(nn.Linear(3, width), nn.Tanh())


def trained(n_steps: int | None = None, **changes):
    private = make_private_fair(network(), people(), **{**SETTINGS, **changes})
    optimizer = torch.optim.SGD(private.parameters(), lr=0.5)
    for _ in range(private.n_steps if n_steps is None else n_steps):
        private.backward()
        optimizer.step()
    return private


def test_a_head_without_bias_is_one_weight_for_each_embedded_number():
    *_, head = make_private_fair(network(), people(), **SETTINGS, bias=False).parameters()
    assert head.shape == (6,)
    model = trained(bias=False).finish()
    assert model.score_model_.heads.shape == (1, 6)


@pytest.mark.parametrize("method", ["dpsgd", "dpsgd_f", "fairdp", "raco_dp", "dp_postprocess"])
def test_an_own_loop_of_the_same_steps_is_the_estimators_training(method):
    X, y, sex = people()
    mine = trained(method=method).finish()
    ours = FairDPClassifier(
        **{**SETTINGS, "method": method},
        n_members=1,
        module=lambda: copy.deepcopy(network()),
        optimizer="sgd",
        momentum=0.0,
        learning_rate=0.5,
    ).fit(X, y, sensitive_features=sex)
    np.testing.assert_allclose(mine.decision_function(X), ours.decision_function(X), rtol=1e-4, atol=1e-6)
    assert mine.privacy_ == ours.privacy_
    assert mine.certificate_.to_dict()["demographic_parity"] == ours.certificate_.to_dict()["demographic_parity"]


def test_a_step_beyond_the_plan_is_refused():
    private = trained()
    with pytest.raises(PrivacyBudgetExceeded, match="all 20 planned steps have been taken"):
        private.backward()


def test_what_is_spent_grows_to_what_was_planned():
    private = make_private_fair(network(), people(), **{**SETTINGS, "n_steps": 3})
    # The sizes of the groups were counted.
    spent = [private.epsilon_spent]
    assert 0 < spent[0] < 0.2
    for _ in range(private.n_steps):
        private.backward()
        spent.append(private.epsilon_spent)
    assert spent == sorted(spent)
    assert spent[0] < spent[-1] <= 2.0
    assert private.finish().privacy_.epsilon == spent[-1]


def test_every_parameter_gets_a_gradient_and_only_noise_changes_between_runs():
    gradients = []
    for seed in (0, 0, 1):
        private = make_private_fair(network(), people(), **{**SETTINGS, "random_state": seed})
        private.backward()
        gradients.append(torch.cat([own.grad.flatten() for own in private.parameters()]))
    assert len(gradients[0]) == 3 * 6 + 6 + 6 + 1
    assert torch.equal(gradients[0], gradients[1])
    assert not torch.equal(gradients[0], gradients[2])


def test_the_gradient_has_the_noise_that_is_accounted_for():
    """Spread over seeds of coordinates with no signal; 4,800 draws notice a deviation 8 % off."""
    X, y, sex = people()
    draws = []
    for seed in range(8):
        settings = {**SETTINGS, "group_sizes": "public", "random_state": seed}
        private = make_private_fair(network(200), (0 * X, y, sex), **settings)
        private.backward()
        # The first layer's weights see inputs of zero only.
        draws.append(next(iter(private.parameters())).grad.flatten())
    planned = private._run.plan.noise_std
    found = float(torch.stack(draws).std())
    assert found == pytest.approx(planned, rel=0.08)


def test_the_result_is_a_model_like_any_other(tmp_path):
    X, y, sex = people()
    words = np.where(y == 1, "yes", "no")
    private = make_private_fair(network(), (X, words, sex), **SETTINGS)
    private.backward()
    model = private.finish()
    assert set(model.predict(X)) <= {"yes", "no"}
    model.save(tmp_path / "model")
    again = FairDPClassifier.load(tmp_path / "model", module=network)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert all(check.passed for check in verify_folder(tmp_path / "model"))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))


def test_grouped_data_will_do():
    X, y, sex = people()
    data = GroupedData(X, y, (sex == "m").astype(np.int64), ("f", "m"))
    mine = make_private_fair(network(), data, **SETTINGS)
    tupled = make_private_fair(network(), (X, y, sex), **SETTINGS)
    for private in (mine, tupled):
        private.backward()
    for own, other in zip(mine.parameters(), tupled.parameters(), strict=True):
        assert torch.equal(own.grad, other.grad)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "fairsmooth"}, "method='fairsmooth' is not trained by single steps"),
        ({"method": "fairfm"}, "fairfm"),
        ({"n_members": 5}, "n_members must be 1 in your own loop, got 5"),
        ({"n_looks": 3, "require_tau": 0.1}, "n_looks is above 1"),
        ({"method": "fairdp", "group_optimizers": True}, "group_optimizers=True is not for your own loop, whose optim"),
    ],
)
def test_what_has_no_single_steps_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        make_private_fair(network(), people(), **{**SETTINGS, **changes})


def test_layers_that_mix_records_are_refused():
    with pytest.raises(ValueError, match="BatchNorm1d"):
        make_private_fair(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)), people(), **SETTINGS)


def test_a_finished_run_goes_no_further():
    private = trained(n_steps=2)
    private.finish()
    for call in (private.backward, private.finish):
        with pytest.raises(ValueError, match="this run is finished"):
            call()


def test_an_error_never_makes_a_release_free():
    """A loop that catches errors and goes on would else see as many noisy gradients as it likes."""
    private = make_private_fair(network(), people(), **SETTINGS)
    seen = set()
    with torch.no_grad():
        list(private.parameters())[1].fill_(-np.inf)
    for _ in range(100):
        with pytest.raises(ValueError, match=r"parameter '0.bias' is no longer finite"):
            private.backward()
        seen |= {own.grad for own in private.parameters() if own.grad is not None}
    assert not seen


def test_a_release_that_fails_half_way_is_counted(monkeypatch):
    private = make_private_fair(network(), people(), **SETTINGS)
    monkeypatch.setattr(private._trainer.sums, "clipped_gradients", lambda *_: 1 / 0)
    for _ in range(20):
        with pytest.raises(ZeroDivisionError):
            private.backward()
    with pytest.raises(PrivacyBudgetExceeded):
        private.backward()
    assert private.epsilon_spent == pytest.approx(2.0, rel=0.01)


@pytest.mark.parametrize("replace", [lambda own: own.data - own.grad, lambda own: own.data.double()])
def test_parameters_that_were_replaced_are_refused(replace):
    """Else the certificate would be about another model than the one that is saved."""
    private = make_private_fair(network(), people(), **SETTINGS)
    private.backward()
    own = next(iter(private.parameters()))
    own.data = replace(own)
    for call in (private.backward, private.finish):
        with pytest.raises(ValueError, match=r"parameter '0.weight' was replaced; change it in place"):
            call()


def test_a_module_is_prepared_once():
    module = network()
    make_private_fair(module, people(), **SETTINGS)
    with pytest.raises(ValueError, match="module was in an earlier run of this program"):
        make_private_fair(module, people(), **SETTINGS)


def test_what_the_caller_does_after_the_end_does_not_change_the_model():
    X = people()[0]
    private = trained(n_steps=3)
    model = private.finish()
    before = model.decision_function(X)
    with torch.no_grad():
        for own in private.parameters():
            own.add_(1.0)
    np.testing.assert_array_equal(model.decision_function(X), before)


def test_a_module_that_remembers_records_is_refused_at_the_end():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 4)
            self.register_buffer("seen", torch.zeros(1))

        def forward(self, records):
            return self.layer(records)

    module = Counting()
    private = make_private_fair(module, people(), **SETTINGS)
    private.backward()
    module.seen.add_(1)
    with pytest.raises(ValueError, match="changed its own buffers"):
        private.finish()


def test_other_data_are_refused_by_name():
    with pytest.raises(ValueError, match=r"data must be GroupedData or a tuple \(X, y, sensitive_features\), got list"):
        make_private_fair(network(), [1, 2], **SETTINGS)


def test_an_update_after_the_last_release_does_not_escape_the_bound():
    private = make_private_fair(network(), people(), **{**SETTINGS, "method": "fairdp", "weight_bound": 0.5})
    for _ in range(private.n_steps):
        private.backward()
    with pytest.raises(PrivacyBudgetExceeded):
        private.backward()
    with torch.no_grad():
        list(private.parameters())[-1].fill_(3.0)
    assert float(private.finish().score_model_.heads.norm()) <= 0.5 * (1 + 1e-6)


def test_what_is_spent_is_that_of_the_most_exposed_group():
    X, y, sex = people()
    sex = np.where(np.arange(len(sex)) % 5 == 0, "f", "m")
    private = make_private_fair(
        network(),
        (X, y, sex),
        **{**SETTINGS, "method": "fairdp", "noise_allocation": "average", "group_sizes": "public"},
    )
    private.backward()
    plan = private._run.plan
    spent = [epsilon_spent(replace(mechanism, n_steps=1), plan.budget.delta) for mechanism in plan.mechanisms]
    assert private.epsilon_spent == max(spent) > min(spent)


def test_what_is_spent_is_told_by_the_chosen_accountant():
    """Before the first step too, when only sizes have been counted; by PLD it is less, whatever was chosen."""
    X, y, sex = people()
    told = {}
    for accountant in ("pld", "rdp"):
        given = {**SETTINGS, "epsilon": None, "noise_multiplier": 3.0, "accountant": accountant}
        private = make_private_fair(network(), (X, y, sex), **given)
        before = private.epsilon_spent
        private.backward()
        told[accountant] = (before, private.epsilon_spent)
    assert 0 < told["pld"][0] < told["rdp"][0]
    assert told["pld"][1] < told["rdp"][1]


def test_a_run_that_ends_early_deploys_the_average_and_states_the_whole_plan():
    X = people()[0]
    private = trained(n_steps=12, method="fairdp_frontier")
    average = private._trainer.state.average.clone()
    model = private.finish()
    # The update after the last release is the caller's, and is averaged too.
    assert not torch.equal(model.score_model_.params, average)
    torch.testing.assert_close(model.score_model_.params, private._trainer.state.average)
    assert model.privacy_.n_steps == 20
    assert np.isfinite(model.decision_function(X)).all()


def test_a_last_release_that_fails_leaves_the_average_deployed(monkeypatch):
    private = make_private_fair(network(), people(), **{**SETTINGS, "method": "fairdp_frontier", "n_steps": 4})
    optimizer = torch.optim.SGD(private.parameters(), lr=0.5)
    for _ in range(3):
        private.backward()
        optimizer.step()
    monkeypatch.setattr(private._trainer.sums, "clipped_gradients", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        private.backward()
    model = private.finish()
    assert torch.equal(model.score_model_.params, private._trainer.state.average)
