"""Comparisons as `fairdp compare` writes them, with names that a page must escape."""

import json
from pathlib import Path


def row(method: str, epsilon: float | None, accuracy: float, gap: float, **more: str) -> dict:
    """A row of a comparison as `fairdp compare` writes it."""
    names = ("demographic_parity", "equal_opportunity", "equalized_odds")
    mean = {"auc": accuracy + 0.1, "accuracy": accuracy, "positive_rate": 0.2, "demographic_parity_ratio": None}
    mean |= {f"{name}_difference": gap for name in names}
    error = dict.fromkeys(mean, 0.01) | {"demographic_parity_ratio": None}
    return {
        "dataset": "people <i>",
        "method": method,
        "epsilon": epsilon,
        "n_runs": 2,
        "mean": mean,
        "standard_error": error,
        **more,
    }


def write_comparison(folder: Path, rows: list[dict], controls: list[dict]) -> Path:
    folder.mkdir(exist_ok=True)
    cost = {"statement": "people <i>: 4 private runs on the same training records. ε = 3 in all."}
    origin = {"command": "fairdp compare <x>", "finished": "2026-01-01T00:00:00+00:00", "versions": {"fairdp": "0.1.0"}}
    origin |= {"code_sha256": "c0de", "records": {"people <i>": "commitment da7a"}, "hardware": {"processors": 2}}
    summary = {"rows": rows, "controls": controls, "privacy": [cost], "warnings": ["clean <i>: nearly everybody."]}
    (folder / "summary.json").write_text(json.dumps(summary))
    (folder / "provenance.json").write_text(json.dumps(origin))
    return folder
