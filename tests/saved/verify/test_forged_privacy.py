"""Forgers of the privacy record or of what the model says of itself: the rest of the folder gives them away."""

import pytest

from fairdp.accounting.mechanisms import PrivacyBudget, SampledGaussian, epsilon_spent, noise_multiplier_for
from forgeries import failed, forge, mechanism_with, privacy_with, put, recompute


@pytest.mark.parametrize("epsilon", [0.5, 100.0])
@pytest.mark.parametrize("kind", ["no noise", "not private"])
def test_a_finite_epsilon_without_noise_is_noticed(saved_as, kind, epsilon):
    folder = saved_as(kind)
    forge(folder, privacy_with(epsilon=epsilon, epsilon_by_group={"f": epsilon, "m": epsilon}))
    assert "epsilon" in failed(folder)


def test_noise_that_was_accounted_but_not_recorded_in_the_mechanism_is_noticed(saved_as):
    folder = saved_as("nothing held out")
    forge(folder, lambda files: files.privacy["mechanisms"]["f"].update(noise_multiplier=0.0))
    assert "epsilon" in failed(folder)


@pytest.mark.parametrize(
    "change",
    [
        mechanism_with(sample_rate=0.02),
        lambda files: (files.privacy.update(delta=0.01), mechanism_with()(files)),
        lambda files: files.privacy["epsilon_by_group"].pop("f"),
    ],
    ids=["rarer samples than the run says", "larger delta than was asked for", "a group left out"],
)
def test_a_lower_epsilon_that_the_rest_of_the_folder_contradicts_is_noticed(saved_as, change):
    """Without a certificate, whose own epsilon would give it away."""
    folder = saved_as("nothing held out")
    forge(folder, change)
    assert failed(folder)


def rarer_samples(files) -> None:
    """A tenth of the sampling rate everywhere in the privacy record, with the little noise that it would then need."""
    privacy = files.privacy
    budget = PrivacyBudget(epsilon=files.model["parameters"]["epsilon"], delta=privacy["delta"])
    noise = noise_multiplier_for(budget, sample_rate=0.02, n_steps=privacy["n_steps"])
    privacy["noise_std"] *= noise / privacy["noise_multiplier"]
    privacy.update(sample_rate=0.02, noise_multiplier=noise)
    mechanism_with(sample_rate=0.02, noise_multiplier=noise)(files)
    mechanisms = [SampledGaussian(**mechanism) for mechanism in privacy["mechanisms"].values()]
    for name in ("rdp", "pld"):
        privacy[f"epsilon_{name}"] = max(epsilon_spent(m, privacy["delta"], accountant=name) for m in mechanisms)


def test_noise_for_rarer_samples_than_were_asked_for_is_noticed(saved_as):
    """Consistent in itself and within the budget: at the rate that was asked for it would spend five times as much."""
    folder = saved_as("nothing held out")
    forge(folder, rarer_samples)
    assert failed(folder) == {"plan"}


@pytest.mark.parametrize("everywhere", [False, True], ids=["in the record", "in the settings too"])
@pytest.mark.parametrize(("kind", "other"), [("moments accountant", "pld"), ("nothing held out", "rdp")])
def test_another_accountant_than_the_one_that_was_used_is_noticed(saved_as, kind, other, everywhere):
    """By the noise, too, if both records name it: another accountant would have asked for other noise."""

    def change(files):
        files.privacy["accountant"] = other
        if everywhere:
            files.model["parameters"]["accountant"] = other

    folder = saved_as(kind)
    forge(folder, change)
    assert {"epsilon", "plan"} <= failed(folder)


@pytest.mark.parametrize("kind", ["moments accountant", "noise and steps, by moments"])
def test_the_smaller_epsilon_of_the_other_accountant_is_noticed(saved_as, kind):
    """All figures of PLD in a folder that was planned by moments."""

    def change(files):
        by_pld = files.privacy["epsilon_pld"]
        files.privacy.update(accountant="pld", epsilon=by_pld, epsilon_by_group={"f": by_pld, "m": by_pld})

    folder = saved_as(kind)
    forge(folder, change)
    assert "plan" in failed(folder)


@pytest.mark.parametrize("name", ["epsilon_rdp", "epsilon_pld"])
def test_another_figure_beside_epsilon_is_noticed(saved_as, name):
    folder = saved_as("moments accountant")
    forge(folder, privacy_with(**{name: 0.5}))
    assert failed(folder) >= {"privacy record", "plan"}


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("noise and steps", {"noise_multiplier": 4.0}),
        ("noise and steps", {"n_steps": 10}),
        ("noise and steps", {"noise_multiplier": None, "epsilon": 0.5}),
        ("noise and epsilon", {"epsilon": 1.0}),
        ("noise and epsilon", {"noise_multiplier": 4.0}),
    ],
)
def test_other_settings_than_the_noise_came_from_are_noticed(saved_as, kind, values):
    folder = saved_as(kind)
    forge(folder, lambda files: files.model["parameters"].update(values))
    assert failed(folder)


@pytest.mark.parametrize("left", [(), ("f",)])
def test_an_epsilon_of_certification_that_the_privacy_record_keeps_silent_about_is_noticed(saved_as, left):
    def change(files):
        kept = {name: files.privacy["certify_epsilons"][name] for name in left}
        files.privacy["certify_epsilons"] = kept
        files.certificate["epsilon_by_group"] = {"f": 50.0, "m": 50.0} | kept
        recompute(files.certificate)

    folder = saved_as("parity alone")
    forge(folder, change)
    assert "groups" in failed(folder)


def swapped(record: dict) -> dict:
    return dict(zip(reversed(record), record.values(), strict=True))


def test_a_large_epsilon_of_certification_in_the_place_of_a_small_one_is_noticed(saved_as):
    """Groups that spend different epsilons in training: the order of the sizes may not decide who spent what."""

    def change(files):
        files.privacy["planned_sizes"] = dict(reversed(files.privacy["planned_sizes"].items()))
        files.privacy["certify_epsilons"] = swapped(files.privacy["certify_epsilons"])
        files.certificate["epsilon_by_group"] = swapped(files.certificate["epsilon_by_group"])
        recompute(files.certificate)

    folder = saved_as("average noise")
    forge(folder, change)
    assert {"plan", "certificate's epsilon"} <= failed(folder)


def test_the_order_of_groups_in_a_file_does_not_matter(saved_as):
    def change(files):
        for name in ("planned_sizes", "epsilon_by_group", "mechanisms", "sensitivities", "certify_epsilons"):
            files.privacy[name] = dict(reversed(files.privacy[name].items()))

    folder = saved_as("average noise")
    forge(folder, change)
    assert failed(folder) == set()


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("method dpsgd_smooth", ("smoothing", "deviation"), 5.0),
        ("method dpsgd_smooth", ("smoothing", "n_draws"), 1),
        ("method dpsgd_smooth", ("smoothing", "seed"), 7),
        ("method fairfm", ("model", "n_active"), 1),
        ("method raco_dp", ("model", "numeric"), [0]),
        ("method dp_postprocess", ("predictor", "flips"), [[0.0, 0.5], [0.0, 1.0]]),
    ],
)
def test_another_rule_than_the_certified_one_is_noticed(saved_as, kind, path, value):
    folder = saved_as(kind)
    forge(folder, lambda files: put(files.model, path, value))
    assert failed(folder)


def test_an_assumption_that_was_dropped_is_noticed(saved_as):
    folder = saved_as("labels sampled alike, public sizes")
    forge(folder, lambda files: files.privacy["public_assumptions"].remove("sizes_by_label"))
    assert failed(folder) == {"plan"}


@pytest.mark.parametrize("std", [0.0, 10.0, 40.0])
def test_other_noise_on_the_sizes_than_was_planned_is_noticed(saved_as, std):
    """In the record alone, and in the mechanisms too with the epsilon that these would spend."""
    folder = saved_as("nothing held out")
    forge(folder, privacy_with(counts_std=std))
    assert failed(folder) >= {"privacy record", "plan"}
    forge(folder, lambda files: (files.privacy.update(counts_std=std), mechanism_with(counts_std=std)(files)))
    assert "plan" in failed(folder)


@pytest.mark.parametrize("code", ["public", "declared", "exact"])
def test_noisy_sizes_that_are_called_something_else_are_noticed(saved_as, code):
    folder = saved_as("nothing held out")
    forge(folder, privacy_with(group_sizes=code))
    assert failed(folder) == {"plan"}


def test_other_sizes_than_were_declared_are_noticed(saved_as):
    folder = saved_as("declared sizes")
    forge(folder, lambda files: files.model["parameters"].update(group_sizes={"f": 300, "m": 390.5}))
    assert "plan" in failed(folder)


def test_the_check_of_the_noise_stands_alone(saved_as):
    """Less noise than was accounted, in a record that says nothing else about it."""
    folder = saved_as("nothing held out")
    forge(folder, lambda files: files.privacy.update(noise_std=files.privacy["noise_std"] / 2))
    assert "noise" in failed(folder)


def test_the_check_of_epsilon_stands_alone(saved_as):
    """A lower one for every group and in all, as if nobody planned again."""
    folder = saved_as("nothing held out")
    forge(folder, privacy_with(epsilon=0.5, epsilon_by_group={"f": 0.5, "m": 0.5}))
    assert "epsilon" in failed(folder)


def test_less_epsilon_of_certification_than_was_planned_is_noticed(saved_as):
    """The counts had less noise than they would have had at half of it."""

    def change(files):
        halved = {name: epsilon / 2 for name, epsilon in files.certificate["epsilon_by_group"].items()}
        files.certificate["epsilon_by_group"] = halved
        files.certificate["epsilon"] = max(halved.values())
        recompute(files.certificate)

    folder = saved_as("parity alone")
    forge(folder, change)
    assert "certificate's epsilon" in failed(folder)
