import math
from dataclasses import FrozenInstanceError, replace

import pytest

from fairdp._checks import ParameterError
from fairdp.config.defaults import train_config
from fairdp.config.model import ModelConfig
from fairdp.config.training import TrainConfig

CONFIG = TrainConfig(sample_rate=0.1, n_steps=10, clip_norm=2.0, learning_rates=(0.4, 0.2))
NOISE = {"n_groups": 2, "n_params": 20, "noise_multiplier": 3.0, "noise_std": 0.5}


def configured(method: str, kind: str, **choices) -> TrainConfig:
    """What a run of 1,000 and 2,000 records would be trained with."""
    unsaid = dict.fromkeys(("sample_rate", "n_steps", "clip_norm", "learning_rate"))
    return train_config(kind, method, (1_000.0, 2_000.0), **{**unsaid, **choices})


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
        ({"diameter": 0.0}, r"diameter must be positive, got 0\.0"),
        ({"diameter": math.inf}, "diameter must be finite, got inf"),
        ({"adam_share": 1.1}, r"adam_share must be in \[0, 1\], such as 0\.9, got 1\.1"),
        ({"momentum": 1.0}, r"momentum must be in \[0, 1\), got 1\.0"),
        ({"momentum": math.nan}, r"momentum must be in \[0, 1\), got nan"),
        ({"optimizer": "lbfgs"}, "optimizer must be one of adam, adam_then_sgd, sgd; got 'lbfgs'"),
        ({"schedule": "cosine"}, "schedule must be one of piecewise, shamir_zhang, theorem_4_printed; got 'cosine'"),
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
    assert [config.learning_rate(step, **NOISE) for step in range(10)] == expected


def test_shamir_and_zhangs_rates_by_hand():
    # Q / √(t (C² + r s²)) with Q = 6, C = 2, r = 20, s = ½: 6 / (3 √t), t counted from one.
    config = replace(CONFIG, schedule="shamir_zhang", diameter=6.0)
    assert [config.learning_rate(step, **NOISE) for step in (0, 3)] == pytest.approx([2, 1])


def test_the_printed_rates_by_hand():
    # K / √(t (C² + K σ² C² r)) with K = 2, C = 2, σ = 3, r = 20: 1 / √(361 t), whatever the diameter and s.
    config = replace(CONFIG, schedule="theorem_4_printed", diameter=6.0)
    assert [config.learning_rate(step, **NOISE) for step in (0, 3)] == pytest.approx([1 / 19, 1 / 38])


def test_a_decay_chooses_plain_sgd_and_leaves_the_size_of_its_steps_alone():
    config = configured("fairdp_frontier", "logistic", schedule="shamir_zhang")
    assert (config.optimizer, config.momentum, config.largest_noise_step) == ("sgd", 0.0, math.inf)
    assert configured("fairdp_frontier", "logistic").momentum == 0.8
    assert configured("fairdp", "mlp", schedule="theorem_4_printed").optimizer == "sgd"
    assert configured("fairdp", "mlp", schedule="shamir_zhang", momentum=0.3).momentum == 0.3
    assert configured("fairdp", "mlp").optimizer == "adam"


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        (
            {"schedule": "shamir_zhang", "optimizer": "adam_then_sgd"},
            "optimizer='adam_then_sgd' has no schedule='shamir_zhang'; use optimizer='sgd'.",
        ),
        (
            {"schedule": "theorem_4_printed", "learning_rate": 0.1},
            "learning_rate=0.1 is for schedule='piecewise', not 'theorem_4_printed'; leave it out, or scale the steps "
            "of 'shamir_zhang' by diameter.",
        ),
        (
            {"schedule": "cosine", "optimizer": "adam"},
            "schedule must be one of piecewise, shamir_zhang, theorem_4_printed; got 'cosine'.",
        ),
    ],
)
def test_what_a_decay_would_pass_over_is_refused(choices, message):
    with pytest.raises(ParameterError) as error:
        configured("fairdp", "mlp", **choices)
    assert str(error.value) == message
