"""Forgers who make every checksum and every word anew: what the numbers still give away, and what they cannot."""

import json
import math
import shutil

import numpy as np
import pytest

from fairdp import FairDPClassifier
from fairdp.accounting import PrivacyBudget, SampledGaussian, epsilon_spent, noise_multiplier_for
from fairdp.certify.certificate import NotCertified
from fairdp.certify.gaussian import input_agnostic_bound
from fairdp.certify.record import certificate_record
from fairdp.certify.release import arms_of
from fairdp.verification import verify_folder
from forgeries import (
    certificate_with,
    failed,
    flip,
    forge,
    mechanism_with,
    privacy_with,
    put,
    recompute,
    remembered_bound,
    reword,
    saved,
    sum_up,
    tie,
)

PARITY = "demographic_parity"
RECORDS = ("privacy", "certificate")


def certificate_in(folder) -> dict:
    return json.loads((folder / "certificate.json").read_text())


def test_a_forger_who_makes_counts_bounds_and_words_anew_is_not_noticed(folder):
    """The limit of any check without a signature or the records."""

    def change(files):
        files.certificate["counts"] = [[[40, 10], [10, 40]], [[80, 20], [20, 80]]]
        recompute(files.certificate)

    before = certificate_in(folder)[PARITY]["tau"]
    forge(folder, change)
    assert certificate_in(folder)[PARITY]["tau"] < before
    assert failed(folder) == set()


@pytest.mark.parametrize("epsilon", [0.5, 100.0])
@pytest.mark.parametrize("kind", ["no noise", "not private"])
def test_a_finite_epsilon_without_noise_is_noticed(tmp_path, kind, epsilon):
    folder = saved(kind, tmp_path / "model")
    forge(folder, privacy_with(epsilon=epsilon, epsilon_by_group={"f": epsilon, "m": epsilon}))
    assert "epsilon" in failed(folder)


def test_noise_that_was_accounted_but_not_recorded_in_the_mechanism_is_noticed(tmp_path):
    folder = saved("nothing held out", tmp_path / "model")
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
def test_a_lower_epsilon_that_the_rest_of_the_folder_contradicts_is_noticed(tmp_path, change):
    """Without a certificate, whose own epsilon would give it away."""
    folder = saved("nothing held out", tmp_path / "model")
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
    privacy["epsilon_rdp"] = max(epsilon_spent(m, privacy["delta"], accountant="rdp") for m in mechanisms)


def test_noise_for_rarer_samples_than_were_asked_for_is_noticed(tmp_path):
    """Consistent in itself and within the budget: at the rate that was asked for it would spend five times as much."""
    folder = saved("nothing held out", tmp_path / "model")
    forge(folder, rarer_samples)
    assert failed(folder) == {"plan"}


@pytest.mark.parametrize("left", [(), ("f",)])
def test_an_epsilon_of_certification_that_the_privacy_record_keeps_silent_about_is_noticed(tmp_path, left):
    def change(files):
        kept = {name: files.privacy["certify_epsilons"][name] for name in left}
        files.privacy["certify_epsilons"] = kept
        files.certificate["epsilon_by_group"] = {"f": 50.0, "m": 50.0} | kept
        recompute(files.certificate)

    folder = saved("parity alone", tmp_path / "model")
    forge(folder, change)
    assert "groups" in failed(folder)


def test_other_expected_sizes_which_would_choose_another_construction_are_noticed(tmp_path):
    """The sum, which is all that DP-SGD's noise depends on, is the same."""

    def change(files):
        sizes = files.certificate["expected_sizes"]
        files.certificate["expected_sizes"] = [5.0, sum(sizes) - 5.0]
        recompute(files.certificate)

    folder = saved("method dpsgd", tmp_path / "model")
    forge(folder, change)
    assert "certificate's records" in failed(folder)


def swapped(record: dict) -> dict:
    return dict(zip(reversed(record), record.values(), strict=True))


def test_a_large_epsilon_of_certification_in_the_place_of_a_small_one_is_noticed(tmp_path):
    """Groups that spend different epsilons in training: the order of the sizes may not decide who spent what."""

    def change(files):
        files.privacy["planned_sizes"] = dict(reversed(files.privacy["planned_sizes"].items()))
        files.privacy["certify_epsilons"] = swapped(files.privacy["certify_epsilons"])
        files.certificate["epsilon_by_group"] = swapped(files.certificate["epsilon_by_group"])
        recompute(files.certificate)

    folder = saved("average noise", tmp_path / "model")
    forge(folder, change)
    assert {"plan", "certificate's epsilon"} <= failed(folder)


def test_the_order_of_groups_in_a_file_does_not_matter(tmp_path):
    def change(files):
        for name in ("planned_sizes", "epsilon_by_group", "mechanisms", "sensitivities", "certify_epsilons"):
            files.privacy[name] = dict(reversed(files.privacy[name].items()))

    folder = saved("average noise", tmp_path / "model")
    forge(folder, change)
    assert failed(folder) == set()


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("method dpsgd_smooth", ("smoothing", "deviation"), 5.0),
        ("method dpsgd_smooth", ("smoothing", "n_draws"), 1),
        ("method dpsgd_smooth", ("smoothing", "seed"), 7),
        ("method fairfm", ("model", "n_active"), 1),
        ("method fairdp_parity", ("model", "numeric"), [0]),
        ("method fairdp_parity", ("model", "normalize_inputs"), False),
        ("method dp_postprocess", ("predictor", "flips"), [[0.0, 0.5], [0.0, 1.0]]),
    ],
)
def test_another_rule_than_the_certified_one_is_noticed(tmp_path, kind, path, value):
    folder = saved(kind, tmp_path / "model")
    forge(folder, lambda files: put(files.model, path, value))
    assert failed(folder)


def test_an_assumption_that_was_dropped_is_noticed(tmp_path):
    folder = saved("labels sampled alike", tmp_path / "model")
    forge(folder, lambda files: files.privacy["public_assumptions"].clear())
    assert failed(folder) == {"plan"}


def test_a_certificate_that_was_left_out_is_noticed(tmp_path):
    def change(files):
        kept = {name: files.certificate[name] for name in ("files",)}
        none = certificate_record(NotCertified("no records were held out for it (certify_fraction=0)"))
        files.certificate.clear()
        files.certificate.update(none, **kept)

    folder = saved("parity alone", tmp_path / "model")
    forge(folder, change)
    assert failed(folder) == {"certificate"}


def test_a_group_left_out_of_the_certificate_is_noticed(tmp_path):
    def change(files):
        record = files.certificate
        outlier = record[PARITY]["pair"][0]
        index = record["group_names"].index(outlier)
        for name in ("group_names", "counts", "expected_sizes"):
            del record[name][index]
        del record["epsilon_by_group"][outlier]
        recompute(record)

    folder = saved("three groups", tmp_path / "model")
    before = certificate_in(folder)[PARITY]["tau"]
    forge(folder, change)
    assert certificate_in(folder)[PARITY]["tau"] < before
    assert failed(folder)


@pytest.mark.parametrize("metric", ["equal_opportunity", "equalized_odds"])
def test_a_ratio_that_nobody_computed_is_noticed(folder, metric):
    forge(folder, certificate_with(metric, "ratio", value=1.0))
    assert failed(folder)


def test_a_pair_that_does_not_set_the_bound_is_noticed(folder):
    forge(folder, certificate_with(PARITY, "pair", value=certificate_in(folder)[PARITY]["pair"][::-1]))
    assert failed(folder)


@pytest.mark.parametrize("name", ["share", "target_tau"])
def test_a_dilution_that_the_model_does_not_apply_is_noticed(tmp_path, name):
    def change(files):
        dilution, gap = files.certificate["dilution"], files.certificate[PARITY]
        if name == "share":
            gap["tau"] *= (1 - 0.99) / (1 - dilution["share"])
            dilution["share"] = 0.99
        else:
            gap["tau"] = dilution["target_tau"] = 0.001
        reword(files.certificate)

    folder = saved("diluted", tmp_path / "model")
    forge(folder, change)
    # Not because the record of any diluted model were refused.
    assert failed(folder) not in (set(), {"records"})


def test_a_bound_for_all_inputs_of_a_rule_that_has_none_is_noticed(folder):
    """The head of a deterministic model may be short, but its decisions jump from zero to one."""
    head = FairDPClassifier.load(folder).score_model_.heads.mean(0).double().numpy()

    def change(files):
        cap = input_agnostic_bound(head, smoothing=1.0, nonnegative=False)
        files.certificate["input_agnostic_tau"] = cap
        for metric in files.certificate["metrics"]:
            files.certificate[metric]["tau"] = min(cap, files.certificate[metric]["tau"])
        reword(files.certificate)

    forge(folder, change)
    assert failed(folder)


def test_failure_probabilities_that_were_shared_after_a_look_are_noticed(folder):
    """Their sum is what the confidence leaves, but who gets more was fixed before the counts."""

    def change(files):
        record = files.certificate
        for kind, level in (("positive", 0.04), ("true_positive", 0.005), ("false_positive", 0.005)):
            record["events"][kind]["failure_probability"] = level
        counts, epsilons = np.array(record["counts"]), tuple(record["epsilon_by_group"].values())
        bounds = {
            kind: remembered_bound(
                arms_of(counts, kind, epsilons),
                failure_probability=event["failure_probability"],
                score_box=event["construction"] == "score_box",
            )
            for kind, event in record["events"].items()
        }
        record[PARITY].update(tau=bounds["positive"].tau, ratio=bounds["positive"].ratio)
        record["equal_opportunity"]["tau"] = bounds["true_positive"].tau
        record["equalized_odds"]["tau"] = max(bounds["true_positive"].tau, bounds["false_positive"].tau)
        reword(record)

    before = certificate_in(folder)[PARITY]["tau"]
    forge(folder, change)
    assert certificate_in(folder)[PARITY]["tau"] < before
    assert failed(folder)


def leaves(value, path=()):
    """Every plain value of a record with its path."""
    if isinstance(value, (dict, list)) and value:
        for name, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(item, (*path, name))
    else:
        yield path, value


def another(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return 0.9 * value - 0.001
    return f"{value}x" if isinstance(value, str) else 0.5


@pytest.mark.parametrize("name", RECORDS)
def test_every_value_of_a_record_is_checked(tmp_path, name):
    folder = saved("parity alone", tmp_path / "model")
    unnoticed = set()
    for path, value in leaves(json.loads((folder / f"{name}.json").read_text())):
        own = shutil.copytree(folder, tmp_path / "own", dirs_exist_ok=True)
        try:
            forge(own, lambda files, path=path, value=value: changed(files, name, path, another(value)))
        except (ValueError, TypeError, LookupError):  # Such a value has no words.
            continue
        if path[0] != "files" and not failed(own):
            unnoticed.add(".".join(part for part in path if isinstance(part, str)))
    assert unnoticed == set()


def changed(files, name, path, value) -> None:
    put(getattr(files, name), path, value)
    if name == "certificate" and path[0] != "statement":
        reword(files.certificate)


def promises(folder) -> dict:
    """What a reader relies on."""
    certificate, privacy = (json.loads((folder / f"{name}.json").read_text()) for name in ("certificate", "privacy"))
    return {
        **{name: certificate[name] for name in ("certified", "statement", "metrics", "epsilon", "group_names")},
        **{name: privacy[name] for name in ("delta", "relation", "mechanisms")},
        "tau": certificate[PARITY]["tau"],
        "total": privacy["epsilon"],
        "by_group": privacy["epsilon_by_group"],
    }


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_no_flipped_bit_makes_the_check_fall_over_or_goes_unnoticed_in_a_promise(tmp_path, name):
    folder, rng = saved("parity alone", tmp_path / "model"), np.random.default_rng(0)
    before, size = promises(folder), (folder / f"{name}.json").stat().st_size
    for position in rng.choice(size, 50, replace=False).tolist():
        own = shutil.copytree(folder, tmp_path / "own", dirs_exist_ok=True)
        flip(own / f"{name}.json", position, int(rng.integers(7)))
        if name != "certificate":
            tie(own)
        sum_up(own)
        if all(check.passed for check in verify_folder(own)):
            after = promises(own)
            assert differences(before, after) < 1e-8, position


def differences(before: dict, after: dict) -> float:
    """Largest difference of two numbers at the same place; infinite if anything else differs."""
    if before.keys() != after.keys():
        return math.inf
    first, second = dict(leaves(before)), dict(leaves(after))
    if first.keys() != second.keys():
        return math.inf
    return max(
        0.0 if value == second[path] else abs(value - second[path]) if isinstance(value, float) else math.inf
        for path, value in first.items()
    )
