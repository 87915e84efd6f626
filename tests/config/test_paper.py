"""The paper's FairDP as parameters."""

import pytest

from fairdp import FairDPClassifier, paper_settings
from fairdp.accounting.mechanisms import SampledGaussian, epsilon_spent
from fairdp.config.paper import ASSUMED, STATED
from fairdp.config.parameters import DECLARED
from fairdp.run.settings import RunSettings

OTHER = {
    "method": "dpsgd",
    "optimizer": "sgd",
    "learning_rate": 0.007,
    "schedule": "inverse_sqrt",
    "accountant": "pld",
    "noise_allocation": "average",
    "n_members": 11,
    "bias": True,
}


def test_everything_that_the_paper_states_may_be_repeated_but_not_contradicted():
    assert OTHER.keys() == STATED.keys()
    for name, value in STATED.items():
        assert paper_settings(**{name: value}) == paper_settings()
        with pytest.raises(ValueError, match=rf"^{name}=.* contradicts the paper, which has .*; leave it out\.$"):
            paper_settings(**{name: OTHER[name]})


def test_what_the_paper_leaves_open_may_be_chosen_and_other_parameters_given():
    chosen = {name: not value if value is True else 2 * value for name, value in ASSUMED.items()}
    settings = paper_settings(epsilon=0.5, certify_fraction=0.0, **chosen)
    assert {name: settings[name] for name in ASSUMED} == chosen
    assert (settings["epsilon"], settings["certify_fraction"]) == (0.5, 0.0)
    assert not ASSUMED.keys() & STATED.keys()
    assert ASSUMED.keys() | STATED.keys() <= DECLARED.keys()


# σ by ε in the authors' earlier code for Adult: that our q and T explain all of them is why they were chosen.
PUBLISHED = {0.5: 3.55, 1.0: 1.98, 3.0: 0.982, 5.0: 0.794}


@pytest.mark.parametrize(("epsilon", "noise"), PUBLISHED.items())
def test_rate_and_length_explain_the_noise_of_the_authors_earlier_code(epsilon, noise):
    settings = paper_settings()
    mechanism = SampledGaussian(
        sample_rate=settings["sample_rate"], noise_multiplier=noise, n_steps=settings["n_steps"]
    )
    assert epsilon_spent(mechanism, 1e-5, accountant=settings["accountant"]) == pytest.approx(epsilon, rel=0.011)


def test_the_estimator_takes_them():
    chosen = RunSettings.of(**FairDPClassifier(**paper_settings(epsilon=2.0)).get_params(deep=False))
    config = chosen.train_config((41,), (10_771.0, 21_790.0))
    assert (config.sample_rate, config.n_steps, config.clip_norm, config.weight_bound) == (0.01, 2000, 1.0, 0.75)
    assert config.learning_rates == (0.007, 0.005)
    assert (chosen.method, chosen.goal.accountant, config.optimizer, config.n_members) == ("fairdp", "rdp", "adam", 10)
    assert config.group_optimizers
    assert not chosen.model_config((41,), None, 2).bias
