"""The figures of small fits of every method stay what they were, within what processors differ by.

The cases are those of `tools/run_figures.py`, which also says how to write `figures.json` anew where results are meant
to change. `tools/compare_versions.py` compares two versions on one machine, bit for bit.
"""

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

TOOL = Path(__file__).parent.parent / "tools" / "run_figures.py"
KEPT = json.loads(Path(__file__).with_name("figures.json").read_text(encoding="utf-8"))

# Sums in another order (other instructions, more threads) move parameters by some 1e-6 within these few steps. A score
# at its threshold may then decide otherwise, which moves a count by one and a bound by that one's share of its group.
TOLERANCES: dict[str, dict[str, float]] = {
    "n_params": {"abs": 0},
    "epsilon": {"rel": 1e-5},
    "noise_std": {"rel": 1e-5},
    "head": {"rel": 1e-3, "abs": 1e-4},
    "counts": {"abs": 2},
    "tau": {"abs": 0.02},
    "positive_decisions": {"abs": 3},
    "chosen": {"abs": 0},
    "intervals": {"abs": 0.05},
    "metrics": {"abs": 0.05},
}


def loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("run_figures", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


run_figures = loaded()
CASES = dict(run_figures.cases())


def numbers(value: Any) -> list[Any]:
    """The leaves of a figure, in order."""
    if isinstance(value, dict):
        return [leaf for name in sorted(value) for leaf in (name, *numbers(value[name]))]
    if isinstance(value, list):
        return [leaf for own in value for leaf in numbers(own)]
    return [value]


def assert_as_kept(found: dict[str, Any], kept: dict[str, Any]) -> None:
    assert found.keys() == kept.keys(), found
    for name in kept.keys() - {"error"}:
        ours, theirs = numbers(found[name]), numbers(kept[name])
        assert len(ours) == len(theirs), name
        for own, expected in zip(ours, theirs, strict=True):
            is_number = isinstance(expected, int | float)
            assert own == (pytest.approx(expected, **TOLERANCES[name], nan_ok=True) if is_number else expected), name


# One method of each kind in `make test`; the others, more records, options and ways to a model in `make test-more`.
FIRST = re.compile(r"table method=(dpsgd|dpsgd_f|fairdp|fairdp_frontier|fairfm|dp_postprocess)")


@pytest.mark.parametrize(
    "name", [name if FIRST.fullmatch(name) else pytest.param(name, marks=pytest.mark.more) for name in CASES]
)
def test_figures_are_as_kept(name):
    assert_as_kept(run_figures.lasting(run_figures.run(CASES[name])), KEPT[name])


def test_every_case_is_kept_and_no_other():
    assert list(KEPT) == list(CASES), "see tests/README.md: tools/run_figures.py --only 'method=NAME' --lasting"


@pytest.mark.parametrize(
    ("figure", "changed"),
    [
        ("epsilon", lambda epsilon: 1.0001 * epsilon),
        ("noise_std", lambda std: 1.001 * std),
        ("head", lambda head: [head[0] + 0.01, *head[1:]]),
        ("counts", lambda counts: [[[counts[0][0][0] + 3, *counts[0][0][1:]], *counts[0][1:]], *counts[1:]]),
        ("tau", lambda tau: {**tau, "demographic_parity": tau["demographic_parity"] - 0.03}),
        ("tau", lambda tau: {**tau, "another": 0.1}),
        ("positive_decisions", lambda decisions: decisions + 4),
        ("n_params", lambda n_params: n_params + 1),
    ],
)
def test_that_check_notices_another_figure(figure, changed):
    kept = KEPT["table method=fairdp"]
    assert_as_kept(kept, kept)
    with pytest.raises(AssertionError):
        assert_as_kept({**kept, figure: changed(kept[figure])}, kept)


@pytest.mark.parametrize("change", [{"clip_norm": 1.02}, {"n_steps": 31}, {"random_state": 1}], ids=str)
def test_that_check_notices_another_training(change):
    """The norm is one by default: two hundredths more move the noise by as much."""
    case = run_figures.partial(run_figures.fit, "table", {"method": "dpsgd", **change})
    with pytest.raises(AssertionError):
        assert_as_kept(run_figures.lasting(run_figures.run(case)), KEPT["table method=dpsgd"])
