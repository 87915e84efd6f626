"""The privacy record: what it says, and that it survives JSON."""

import json
import math
import re
from dataclasses import replace

import pytest

from fairdp._io import from_plain, json_bytes
from fairdp.accounting.mechanisms import PrivacyBudget
from fairdp.accounting.plan import Recipe, make_plan, privacy_spent
from fairdp.accounting.spent import BY_LABEL, PrivacySpent

RECIPE = Recipe(
    group_sizes=(400.0, 1600.0),
    sample_rates=(0.1, 0.1),
    group_weights=(0.5, 0.5),
    clip_norm=1.5,
    noise_allocation="per_group",
)


def spent_by(recipe=RECIPE, *, counts_std=0.0, sizes="public", seeded=False, assumptions=(), **budget) -> PrivacySpent:
    plan = make_plan(
        recipe, PrivacyBudget(**{"epsilon": 2.0, "delta": 1e-5, **budget}), n_steps=30, counts_std=counts_std
    )
    return privacy_spent(plan, ("women", "men"), group_sizes=sizes, noise_seeded=seeded, public_assumptions=assumptions)


def test_the_statement_names_every_number_of_the_guarantee():
    spent = spent_by()
    text = spent.statement()
    stated = float(re.search(r"\(([\d.]+), 1e-05\)-differentially private", text)[1])
    assert spent.epsilon <= stated < 1.001 * spent.epsilon
    assert "adding or removing one record" in text
    for name, value in spent.epsilon_by_group.items():
        assert value <= float(re.search(rf"\b{name} ([\d.]+)", text)[1]) < 1.001 * value
    assert "30 steps" in text
    assert "probability at most 0.1 (Poisson)" in text
    assert "norm 1.5" in text
    assert f"{spent.noise_multiplier:.4g} times the sensitivity" in text
    assert "PLD" in text
    assert float(re.search(r"\(RDP\), .* gives ([\d.]+\d)", text)[1]) >= spent.epsilon_rdp
    assert "group names and the two labels are treated as public, and so are the group sizes" in text
    assert "exact metrics and record counts" in text


def test_what_does_not_hold_is_not_said():
    text = spent_by().statement()
    assert "seed" not in text
    assert "Assumed public" not in text
    assert "counted with noise" not in text
    assert "declared" not in text
    assert "NOT private" not in text


def test_noisy_group_sizes_are_paid_for():
    spent = spent_by(counts_std=20.0, sizes="noisy")
    assert "Group sizes were counted with noise of deviation 20, which epsilon above includes" in spent.statement()
    assert "no exact count of the records is in what may be published" in spent.statement()
    assert (spent.counts_std, spent.counts_epsilon) == (20.0, 0.0)
    assert spent.epsilon <= 2.0
    # The steps have to leave room for them.
    assert spent_by().noise_multiplier < spent.noise_multiplier


def test_at_a_tiny_delta_the_moments_accountant_is_stated():
    tiny, usual = spent_by(delta=1e-11), spent_by()
    assert (tiny.accountant, usual.accountant) == ("rdp", "pld")
    assert tiny.epsilon == tiny.epsilon_rdp <= 2.0
    assert "Accountant: the moments accountant (RDP)" in tiny.statement()
    assert "Accountant: PLD" in usual.statement()


def test_the_statement_says_which_accountant_was_chosen_and_what_the_other_gives():
    spent = spent_by(accountant="rdp")
    assert (spent.accountant, spent.epsilon) == ("rdp", spent.epsilon_rdp)
    assert spent.epsilon_pld < spent.epsilon_rdp
    chosen = r"Accountant: the moments accountant \(RDP\), as was chosen; PLD .* gives ([\d.]+\d)"
    told = re.search(chosen, spent.statement())
    assert spent.epsilon_pld <= float(told[1]) < spent.epsilon_rdp


def test_epsilon_is_the_worst_group_and_average_noise_protects_the_large_group_more():
    per_group = spent_by()
    average = spent_by(replace(RECIPE, noise_allocation="average"))
    assert per_group.epsilon_by_group["women"] == per_group.epsilon_by_group["men"] == per_group.epsilon
    assert average.epsilon == average.epsilon_by_group["women"] > 2 * average.epsilon_by_group["men"]
    assert 0.95 * 2 <= min(per_group.epsilon, average.epsilon) <= max(per_group.epsilon, average.epsilon) <= 2
    assert average.noise_std < per_group.noise_std
    assert per_group.epsilon < per_group.epsilon_rdp


@pytest.mark.parametrize("epsilon", [2.0, math.inf])
def test_the_record_survives_json(epsilon):
    spent = spent_by(epsilon=epsilon, seeded=True, assumptions=("a", "b"))
    text = json_bytes(spent.to_dict())
    assert from_plain(PrivacySpent, json.loads(text)) == spent


def test_no_noise_is_labelled_and_is_null_in_json():
    spent = spent_by(epsilon=math.inf)
    assert spent.statement().startswith("This model is NOT private")
    assert "differentially private" not in spent.statement()
    record = json.loads(json_bytes(spent.to_dict()))
    assert record["epsilon"] is record["epsilon_rdp"] is record["epsilon_by_group"]["men"] is None
    assert record["noise_multiplier"] == 0


def test_a_method_that_does_not_clip_survives_json():
    spent = spent_by(replace(RECIPE, clip_norm=math.inf, noise_allocation="none"))
    back = from_plain(PrivacySpent, json.loads(json_bytes(spent.to_dict())))
    assert back == spent
    assert math.isinf(back.clip_norm)


def test_a_group_by_label_certifies_with_its_smaller_epsilon():
    """Held-out records are counted by group: those of either label must pay no more than they would for training."""
    recipe = replace(
        RECIPE,
        group_sizes=(400.0, 1600.0, 300.0, 900.0),
        sample_rates=(0.1, 0.1, 0.1, 0.1),
        group_weights=(0.25,) * 4,
        noise_allocation="average",
    )
    plan = make_plan(recipe, PrivacyBudget(epsilon=2.0, delta=1e-5), n_steps=30)
    names = tuple(f"{group}, label {label}" for group in ("women", "men") for label in (0, 1))
    spent = privacy_spent(
        plan, names, certified_names=("women", "men"), group_sizes="public", noise_seeded=False, certify_fraction=0.2
    )
    epsilons = list(spent.epsilon_by_group.values())
    least = {"women": min(epsilons[:2]), "men": min(epsilons[2:])}
    assert spent.certify_epsilons == pytest.approx(least, abs=1e-8, rel=0)
    assert min(epsilons[:2]) < max(epsilons[:2])
    assert BY_LABEL in spent.public_assumptions
    assert spent.noise_multiplier == min(mechanism.noise_multiplier for mechanism in plan.mechanisms)
