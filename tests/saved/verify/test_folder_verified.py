"""Saved models that are checked again: fresh ones pass, changed ones do not, and no file makes the check fall over."""

import json
import re
import shutil

import pytest

from classifier_cases import people
from fairdp import FairDPClassifier
from fairdp.saved.verify import verify_folder
from forgeries import (
    FIRST,
    KINDS,
    TIED,
    certificate_with,
    failed,
    flip,
    forge,
    mechanism_with,
    privacy_with,
    put,
    recompute,
    reword,
    saved,
    sum_up,
    tie,
)

PARITY = "demographic_parity"
FILES = (*TIED, "certificate.json")


IN_TURN = [kind if kind in FIRST else pytest.param(kind, marks=pytest.mark.more) for kind in KINDS]


@pytest.mark.parametrize("kind", IN_TURN)
def test_a_fresh_model_is_verified_and_read_with_its_certificate(saved_as, kind):
    folder = saved_as(kind)
    checks = verify_folder(folder)
    assert [check for check in checks if not check.passed] == []
    assert {"files", "version", "certificate's model", "epsilon", "noise", "statement"} <= {c.name for c in checks}
    back = FairDPClassifier.load(folder)
    X, _, sex = people()
    groups = sex[:5] if back.predictor_.flips else None
    assert back.predict(X[:5], sensitive_features=groups).shape == (5,)
    assert back.certificate_statement() == json.loads((folder / "certificate.json").read_text())["statement"]


@pytest.mark.parametrize(
    ("kind", "ratio"), [("parity alone", r"0\.\d+ for demographic parity"), ("required and met", "none")]
)
def test_the_ratio_is_told_in_words_and_numbers(saved_as, kind, ratio):
    found = {check.name: check.found for check in verify_folder(saved_as(kind))}
    assert re.fullmatch(rf"recorded {ratio}, computed {ratio}\.", found["ratio"])


def test_a_changed_parameter_is_noticed(folder):
    flip(folder / "model.safetensors", -1)
    assert failed(folder) == {"files"}
    sum_up(folder)
    assert "certificate's model" in failed(folder)
    tie(folder)
    sum_up(folder)
    assert "certificate's model" in failed(folder)


def with_less_noise(files) -> None:
    """Less noise than there was makes narrower bounds."""
    by_group = files.certificate["epsilon_by_group"]
    by_group.update({group: 2 * epsilon for group, epsilon in by_group.items()})
    recompute(files.certificate)


FORGERIES = {
    "tau": (certificate_with(PARITY, "tau", value=0.01), "tau of demographic_parity"),
    "tau of another metric": (certificate_with("equalized_odds", "tau", value=0.01), "tau of equalized_odds"),
    "epsilon": (privacy_with(epsilon=0.5), "epsilon"),
    "epsilon by group": (privacy_with(epsilon=0.5, epsilon_by_group={"f": 0.5, "m": 0.5}), "epsilon"),
    "delta": (privacy_with(delta=1e-7), "epsilon"),
    "relation": (privacy_with(relation="replace_one"), "epsilon"),
    "more noise in the account": (mechanism_with(noise_multiplier=6.0), "noise"),
    "fewer steps in the account": (mechanism_with(n_steps=10), "noise"),
    "counts": (certificate_with("counts", 0, 0, 0, value=90), "tau of demographic_parity"),
    "confidence": (certificate_with("confidence", value=0.99), "confidence"),
    "higher failure probability": (
        certificate_with("events", "positive", "failure_probability", value=0.02),
        "confidence",
    ),
    "lower failure probability": (
        certificate_with("events", "positive", "failure_probability", value=0.005),
        "tau of demographic_parity",
    ),
    "construction": (certificate_with("events", "positive", "construction", value="score_box"), "confidence"),
    "ratio": (certificate_with(PARITY, "ratio", value=0.9), "ratio"),
    "epsilon of the certificate": (certificate_with("epsilon", value=0.5), "certificate's epsilon"),
    "noise of the certificate": (with_less_noise, "certificate's epsilon"),
    "claimed": (certificate_with(PARITY, "claimed", value=False, words=False), "statement"),
    "statement": (certificate_with("statement", value="The model is fair.", words=False), "statement"),
    "bound for all inputs": (certificate_with("input_agnostic_tau", value=0.01), "input-agnostic tau"),
    "predictor": (lambda files: files.model["predictor"].update(kind="gibbs"), "certificate's model"),
    "version": (lambda files: files.model.update(schema_version=1), "version"),
    "made": (lambda files: files.model["made"].update(date="2026-02-28T12:00"), "description"),
}


@pytest.mark.parametrize(("change", "check"), FORGERIES.values(), ids=FORGERIES)
def test_a_changed_number_is_noticed_even_with_new_checksums(folder, change, check):
    forge(folder, change, sums=False)
    assert failed(folder) == {"files"}
    sum_up(folder)
    assert check in failed(folder)


def test_the_same_records_written_again_are_verified(folder):
    """Negative control: it is the number that is noticed, not the writing."""
    forge(folder, lambda files: reword(files.certificate))
    assert failed(folder) == set()


def test_the_certificate_of_another_model_is_noticed(folder, tmp_path):
    other = saved("random head", tmp_path / "other")
    shutil.copy(other / "certificate.json", folder)
    assert failed(folder) == {"files"}
    sum_up(folder)
    assert "certificate's model" in failed(folder)
    tie(folder)
    sum_up(folder)
    assert "certificate's model" in failed(folder)


def test_what_is_no_folder_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"nowhere' is not a folder; name the folder of a saved model\.$"):
        verify_folder(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"holds no saved model; name the folder that fit or save wrote\.$"):
        verify_folder(tmp_path)


@pytest.mark.parametrize("name", [*FILES, "SHA256SUMS"])
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    (check,) = verify_folder(folder)
    assert (check.passed, check.found) == (False, f"missing: {name}.")


@pytest.mark.parametrize("kind", ["deterministic", "smoothed with a small head"])
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_a_truncated_file_fails_with_and_without_new_checksums(saved_as, reseal, kind, name, share):
    folder = saved_as(kind)
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: int(share * len(content))])
    assert failed(folder) == {"files"}
    reseal(folder, name)
    assert failed(folder)


@pytest.mark.parametrize("sums", ["", "\n", "\xff", "a" * 64 + "  certificate.json\n"])
def test_sums_that_say_nothing_fail(folder, sums):
    (folder / "SHA256SUMS").write_bytes(sums.encode("latin1"))
    assert failed(folder) == {"files"}


@pytest.mark.parametrize("name", ["model.json", "privacy.json", "certificate.json"])
@pytest.mark.parametrize(
    "text",
    ["no JSON", "[1, 2]", "{}", "null", "3", '"text"', '{"certified": true}', "[" * 100_000, "\xff"],
    ids=["words", "list", "empty", "null", "number", "text", "little", "deep", "no UTF-8"],
)
def test_what_is_no_record_fails(folder, reseal, name, text):
    (folder / name).write_bytes(text.encode("latin1"))
    reseal(folder, name)
    assert failed(folder)


def test_a_certificate_without_one_of_its_keys_fails(saved_as):
    record = json.loads((saved_as("parity alone") / "certificate.json").read_text())
    unneeded = {"estimates", "definitions"}
    for key in record.keys() - unneeded:
        folder = saved_as("parity alone")
        forge(folder, lambda files, key=key: files.certificate.pop(key))
        if key != "files":
            assert failed(folder), key


def test_a_privacy_record_without_one_of_its_keys_fails(saved_as):
    needed = ("epsilon", "delta", "epsilon_by_group", "mechanisms", "relation", "sensitivities", "noise_std", "n_steps")
    for key in (*needed, "counts_epsilon", "certify_epsilons"):
        folder = saved_as("parity alone")
        forge(folder, lambda files, key=key: files.privacy.pop(key))
        assert failed(folder), key


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("value", [0, -1, 1e-300, 1e300, None, "0.5", True, [], {}, float("inf"), float("nan")])
@pytest.mark.parametrize(
    "path",
    [
        ("certificate", "n_looks"),
        ("certificate", "confidence"),
        ("certificate", "epsilon_by_group", "f"),
        ("certificate", "counts", 0, 0, 0),
        ("certificate", "expected_sizes", 0),
        ("certificate", PARITY, "tau"),
        ("privacy", "noise_std"),
        ("privacy", "sensitivities", "f"),
        ("privacy", "mechanisms", "f", "noise_multiplier"),
    ],
    ids=lambda path: ".".join(map(str, path)),
)
def test_no_value_makes_the_check_fall_over(saved_as, reseal, path, value):
    folder = saved_as("parity alone")
    name = f"{path[0]}.json"
    record = json.loads((folder / name).read_text())
    put(record, path[1:], value)
    # Python writes NaN and Infinity as JSON does not know them, and reads them again.
    (folder / name).write_text(json.dumps(record))
    reseal(folder, name)
    assert all(isinstance(check.passed, bool) for check in verify_folder(folder))


def test_a_mistake_of_the_program_is_not_blamed_on_the_model(folder, monkeypatch):
    def broken(recorded):
        raise NameError("name 'CERTIFIABLE' is not defined")

    monkeypatch.setattr("fairdp.saved.verify.rule_check", broken)
    with pytest.raises(NameError):
        verify_folder(folder)
