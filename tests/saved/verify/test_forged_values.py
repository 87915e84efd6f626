"""Every value and any bit of a record, changed one at a time."""

import json
import math
import shutil

import numpy as np
import pytest

from fairdp.saved.verify import verify_folder
from forgeries import failed, flip, forge, put, reword

RECORDS = ("privacy", "certificate")


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
def test_every_value_of_a_record_is_checked(saved_as, tmp_path, name):
    folder = saved_as("parity alone, names declared")
    unnoticed = set()
    for path, value in leaves(json.loads((folder / f"{name}.json").read_text())):
        own = shutil.copytree(folder, tmp_path / "own", dirs_exist_ok=True)
        try:
            forge(own, lambda files, path=path, value=value: changed(files, name, path, another(value)))
        except (ValueError, TypeError, LookupError):  # Such a value has no words.
            continue
        if path[0] != "files" and not failed(own):
            unnoticed.add(".".join(part for part in path if isinstance(part, str)))
    # What a user assumes is in words of their own, which nothing contradicts.
    assert unnoticed <= {"public_assumptions"}


def changed(files, name, path, value) -> None:
    put(getattr(files, name), path, value)
    if name == "certificate" and path[0] != "statement":
        reword(files.certificate)


def promises(folder) -> dict:
    """Values that a reader relies on."""
    certificate, privacy = (json.loads((folder / f"{name}.json").read_text()) for name in ("certificate", "privacy"))
    return {
        **{name: certificate[name] for name in ("certified", "statement", "metrics", "epsilon", "group_names")},
        **{name: privacy[name] for name in ("delta", "relation", "mechanisms")},
        "tau": certificate["demographic_parity"]["tau"],
        "total": privacy["epsilon"],
        "by_group": privacy["epsilon_by_group"],
    }


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_no_flipped_bit_makes_the_check_fall_over_or_goes_unnoticed_in_a_promise(saved_as, reseal, tmp_path, name):
    folder, rng = saved_as("parity alone"), np.random.default_rng(0)
    before, size = promises(folder), (folder / f"{name}.json").stat().st_size
    for position in rng.choice(size, 50, replace=False).tolist():
        own = shutil.copytree(folder, tmp_path / "own", dirs_exist_ok=True)
        flip(own / f"{name}.json", position, int(rng.integers(7)))
        reseal(own, f"{name}.json")
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
