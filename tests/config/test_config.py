import math
from dataclasses import FrozenInstanceError, replace

import pytest

from fairdp.config.model import ModelConfig
from fairdp.config.training import TrainConfig

CONFIG = TrainConfig(sample_rate=0.1, n_steps=10, clip_norm=2.0, learning_rates=(0.4, 0.2))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sample_rate": 256}, r"sample_rate must be in \(0, 1\], got 256\. Did you pass a batch size\?"),
        ({"n_steps": 0}, "n_steps must be a whole number of at least 1, got 0"),
        ({"n_members": 2.5}, r"n_members must be a whole number of at least 1, got 2\.5"),
        ({"max_physical_batch_size": 0}, "max_physical_batch_size must be a whole number of at least 1, got 0"),
        ({"clip_norm": -1.0}, r"clip_norm must be positive, got -1\.0"),
        ({"weight_bound": 0.0}, r"weight_bound must be positive, got 0\.0"),
        ({"learning_rates": (0.1, -0.1)}, r"learning_rate must be positive, got -0\.1"),
        ({"learning_rates": (math.inf,)}, "learning_rate must be finite, got inf"),
        ({"learning_rates": ()}, r"learning_rate must hold at least one value, got \(\)"),
        ({"sgd_learning_rate": 0.0}, r"learning_rate must be positive, got 0\.0"),
        ({"momentum": 1.0}, r"momentum must be in \[0, 1\), got 1\.0"),
        ({"momentum": math.nan}, r"momentum must be in \[0, 1\), got nan"),
        ({"optimizer": "lbfgs"}, "optimizer must be one of adam, adam_then_sgd, sgd; got 'lbfgs'"),
        ({"schedule": "cosine"}, "schedule must be one of inverse_sqrt, piecewise; got 'cosine'"),
        ({"noise_allocation": "none"}, "noise_allocation must be one of average, per_group; got 'none'"),
    ],
)
def test_a_bad_number_is_named_with_its_value(changes, message):
    with pytest.raises(ValueError, match=message) as error:
        replace(CONFIG, **changes)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": "forest"}, "model must be one of .*; got 'forest'"),
        ({"kind": "mlp", "activation": "gelu"}, "activation must be one of relu, tanh; got 'gelu'"),
        ({"kind": "mlp", "hidden": (32, 0)}, "hidden must be a whole number of at least 1, got 0"),
        ({"kind": "mlp", "hidden": ()}, r"hidden must name at least one layer size, got \(\)"),
    ],
)
def test_a_bad_model_is_named_with_its_value(values, message):
    with pytest.raises(ValueError, match=message):
        ModelConfig(**values)


def test_configurations_are_frozen():
    with pytest.raises(FrozenInstanceError):
        CONFIG.clip_norm = 3.0


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ((0.4,), [0.4] * 10),
        ((0.4, 0.2), [0.4] * 5 + [0.2] * 5),
        # Three parts of ten steps: a step t belongs to part ⌊3t / 10⌋.
        ((3.0, 2.0, 1.0), [3.0] * 4 + [2.0] * 3 + [1.0] * 3),
    ],
)
def test_piecewise_rates_by_hand(rates, expected):
    config = replace(CONFIG, learning_rates=rates)
    assert [config.learning_rate(step, n_groups=2, noise_multiplier=1.0) for step in range(10)] == expected


def test_inverse_square_root_by_hand():
    config = replace(CONFIG, schedule="inverse_sqrt")
    # η₁ K / √(t (1 + K σ² C²)) with η₁ = .4, K = 2, σ = 1, C = 2: .8 / √(9 t), t counted from one.
    assert config.learning_rate(0, n_groups=2, noise_multiplier=1.0) == pytest.approx(0.8 / 3)
    assert config.learning_rate(3, n_groups=2, noise_multiplier=1.0) == pytest.approx(0.8 / 6)
    assert config.learning_rate(0, n_groups=1, noise_multiplier=0.0) == pytest.approx(0.4)
