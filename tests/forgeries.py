"""Saved models of every kind, and the changes that someone who wants to mislead would make to them."""

import hashlib
import json
import math
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from classifier_cases import CERTIFIED
from fairdp import METHODS
from fairdp._io import json_bytes
from fairdp.accounting.mechanisms import SampledGaussian, epsilon_spent
from fairdp.certify.certificate import certify
from fairdp.saved import verify as verification
from fairdp.saved.folder import certificate_record, read_record
from fairdp.statements.certificate import certificate_statement
from pool import copied, saved_model

ONE = {"certify_metrics": ("demographic_parity",)}
ALL = {"certify_metrics": ("demographic_parity", "equal_opportunity", "equalized_odds")}
KINDS = {
    "deterministic": ALL,
    "parity alone": ONE,
    "no scores": {**ONE, "score_share": 0.0},
    "one conditional gap": {"certify_metrics": ("equal_opportunity",)},
    "equalized odds alone": {"certify_metrics": ("equalized_odds",)},
    "random head": {**ONE, "predictor": "gibbs"},
    "smoothed with a small head": {**ONE, "predictor": "smoothed", "smoothing": 2.0, "weight_bound": 0.05},
    "required and met": {**ALL, "require_tau": 0.9},
    "required and missed": {**ALL, "require_tau": 0.01},
    "looks that are met": {**ONE, "require_tau": 0.9, "n_looks": 3},
    "a look that is missed": {**ONE, "require_tau": 0.01, "n_looks": 2},
    "looks at one head": {**ONE, "require_tau": 0.9, "n_looks": 2, "n_members": 1},
    "looks, noise and steps": {
        **ONE,
        **{"require_tau": 0.9, "n_looks": 3, "epsilon": None, "noise_multiplier": 3.0},
    },
    "looks, noise and epsilon": {
        **ONE,
        **{"require_tau": 0.9, "n_looks": 3, "n_steps": None, "noise_multiplier": 3.0},
    },
    "no noise": {"epsilon": math.inf},
    "not private": {**ONE, "method": "clean"},
    "one group": {"sex": ("all",) * 600},
    "three groups": {**ONE, "sex": ("f", "m", "x") * 200},
    "nothing held out": {"certify_fraction": 0.0},
    "parity alone, names declared": {**ONE, "groups": ("f", "m")},
    "public sizes": {**ONE, "group_sizes": "public"},
    "declared sizes": {**ONE, "group_sizes": {"f": 210, "m": 390.5}},
    "tiny delta": {**ONE, "delta": 1e-11},
    "moments accountant": {**ONE, "accountant": "rdp"},
    "noise and steps": {**ONE, "epsilon": None, "noise_multiplier": 3.0},
    "noise and steps, by moments": {**ONE, "epsilon": None, "noise_multiplier": 3.0, "accountant": "rdp"},
    "noise and epsilon": {**ONE, "n_steps": None, "noise_multiplier": 3.0},
    "joint, noise and steps": {**ONE, "method": "fairdp_frontier", "epsilon": None, "noise_multiplier": 6.0},
    "average noise": {**ONE, "noise_allocation": "average", "group_sizes": "public"},
    "unbounded head": {**ONE, "weight_bound": math.inf},
    "default rate": {**ONE, "sample_rate": None},
    "labels sampled alike": {**ONE, "method": "dp_is_sgd", "grouping": "attribute_and_label"},
    "labels sampled alike, public sizes": {
        **ONE,
        "method": "dp_is_sgd",
        "grouping": "attribute_and_label",
        "group_sizes": "public",
    },
    "joint, three groups": {**ONE, "method": "fairdp_frontier", "sex": ("f", "m", "x") * 200},
    "joint, ratio": {**ONE, "method": "fairdp_frontier", "min_ratio": 0.8},
    "joint, ratio of three groups": {
        **ONE,
        "method": "fairdp_frontier",
        "min_ratio": 0.8,
        "sex": ("f", "m", "x") * 200,
    },
    "joint, one group": {"method": "fairdp_frontier", "sex": ("all",) * 600},
    "joint, no noise": {"method": "fairdp_frontier", "epsilon": math.inf},
    "joint, nothing held out": {"method": "fairdp_frontier", "certify_fraction": 0.0},
    **{f"method {name}": {**ONE, "method": name} for name in METHODS},
}
# What verification is tried on whenever anything is tested; the other kinds differ from one of these in one setting.
FIRST = (
    *(
        "deterministic",
        "random head",
        "smoothed with a small head",
        "required and met",
        "required and missed",
    ),
    *("looks that are met", "a look that is missed", "no noise", "not private", "one group", "nothing held out"),
    *("parity alone, names declared", "declared sizes", "moments accountant", "noise and steps", "noise and epsilon"),
    *("joint, nothing held out", "average noise", "no scores"),
    *(
        f"method {name}"
        for name in ("dpsgd", "dp_postprocess", "fairfm", "fairdp_frontier", "dpsgd_smooth", "fairsmooth")
    ),
)
DOCUMENTS = {"model": "model.json", "privacy": "privacy.json", "certificate": "certificate.json"}
TIED = ("model.safetensors", "model.json", "privacy.json")


def folder_of(kind: str) -> Path:
    """The saved model of this kind, which nobody may change."""
    return saved_model(**{**CERTIFIED, **KINDS[kind]})


def saved(kind: str, folder: Path) -> Path:
    """A copy of a saved model of this kind."""
    shutil.rmtree(folder, ignore_errors=True)
    return copied(folder_of(kind), folder)


def failed(folder: Path) -> set[str]:
    return {check.name for check in verification.verify_folder(folder) if not check.passed}


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def flip(path: Path, position: int, bit: int = 0) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1 << bit
    path.write_bytes(content)


def tie(folder: Path) -> None:
    """Let the certificate name the files that are there now."""
    certificate = json.loads((folder / "certificate.json").read_bytes())
    certificate["files"] = {name: sha256(folder / name) for name in TIED}
    (folder / "certificate.json").write_bytes(json_bytes(certificate))


def sum_up(folder: Path) -> None:
    names = sorted(path.name for path in folder.iterdir() if path.name != "SHA256SUMS")
    (folder / "SHA256SUMS").write_text("".join(f"{sha256(folder / name)}  {name}\n" for name in names))


def forge(folder: Path, change, *, sums: bool = True) -> None:
    """Apply a change to the three records of a folder, and make all hashes agree with it."""
    files = SimpleNamespace(**{name: json.loads((folder / file).read_bytes()) for name, file in DOCUMENTS.items()})
    change(files)
    for name, file in DOCUMENTS.items():
        (folder / file).write_bytes(json_bytes(getattr(files, name)))
    tie(folder)
    if sums:
        sum_up(folder)


def put(record, path, value) -> None:
    *above, last = path
    for name in above:
        record = record[name]
    record[last] = value


def certificate_with(*path, value, words: bool = True):
    """A change of one value of the certificate, and of the words that follow from it."""

    def change(files):
        put(files.certificate, path, value)
        if words:
            reword(files.certificate)

    return change


def privacy_with(**values):
    return lambda files: files.privacy.update(values)


def mechanism_with(**numbers):
    """A change of what was accounted, with the epsilon that follows from it."""

    def change(files):
        for group, mechanism in files.privacy["mechanisms"].items():
            mechanism.update(numbers)
            files.privacy["epsilon_by_group"][group] = epsilon_of(mechanism, files.privacy["delta"])
        files.privacy["epsilon"] = max(files.privacy["epsilon_by_group"].values())

    return change


def epsilon_of(mechanism: dict, delta: float) -> float:
    return epsilon_spent(SampledGaussian(**mechanism), delta)


def reword(certificate: dict) -> None:
    """Let the words say what the record says now."""
    certificate["statement"] = certificate_statement(read_record(certificate).certificate())


def recompute(certificate: dict) -> None:
    """Let bounds, estimates and words follow from the counts, groups, epsilons and confidence of the record."""
    made = certify(
        np.array(certificate["counts"]),
        epsilon=[certificate["epsilon_by_group"][name] for name in certificate["group_names"]],
        group_names=tuple(certificate["group_names"]),
        expected_sizes=tuple(certificate["expected_sizes"]),
        metrics=tuple(certificate["metrics"]),
        **{name: certificate[name] for name in ("confidence", "require_tau", "n_looks", "score_share")},
    )
    certificate.update({**certificate_record(made), "about": certificate["about"], "scores": certificate["scores"]})
    reword(certificate)
