"""Fit a fixed list of small cases through fairdp's public names alone, and write every figure that came out, as JSON.

Two versions of the package give the same figures, bit for bit, if nothing but the place of its code has changed; see
`compare_versions.py`. Nothing below ``fairdp.`` is imported, so that modules may move. What hardly differs between
processors is kept in `tests/figures.json`, for `tests/test_figures.py`; where results are meant to change, write it
anew by ``python tools/run_figures.py --lasting --out tests/figures.json`` and say why in the commit.
"""

import argparse
import contextlib
import hashlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

import fairdp
from figure_records import (
    N_COLUMNS,
    SCHEMA,
    SEED,
    SMALL,
    Residual,
    convolutions,
    frozen,
    noise_of_any_processor,
    normalised,
    people,
    records_of,
    with_dropout,
)

Figures = dict[str, Any]
Case = Callable[[], Figures]


def fitted(data: str, *, weighted: bool = False, **parameters: Any) -> fairdp.FairDPClassifier:
    """An estimator with these parameters, fitted to the training records."""
    train = records_of(data).train
    weights = {"sample_weight": np.random.default_rng(SEED).uniform(0, 2, len(train.y))} if weighted else {}
    estimator = fairdp.FairDPClassifier(**{**SMALL, **parameters})
    return estimator.fit(train.X, train.y, sensitive_features=train.groups, **weights)


def figures_of(model: fairdp.FairDPClassifier, data: str) -> Figures:
    """Everything about a fitted model that must not change, with its decisions about the test records."""
    test = records_of(data).test
    decisions = model.predict(test.X, sensitive_features=test.groups)
    return {
        **parameters_of(model),
        **promises_of(model.privacy_.to_dict(), model.certificate_.to_dict()),
        "predictor": model.predictor_.to_dict(),
        "decisions": digest(decisions.astype(np.int64)),
        "positive_decisions": int(decisions.sum()),
        "scores": digest(model.decision_function(test.X)),
    }


def parameters_of(model: fairdp.FairDPClassifier) -> Figures:
    """A digest of all parameters, and a few of them to see how far apart two versions are."""
    params = model.score_model_.params.numpy().astype(np.float32)
    return {"params": digest(params), "n_params": len(params), "head": params[-4:].tolist()}


def promises_of(privacy: Figures, certificate: Figures) -> Figures:
    """Privacy spent and bounds certified."""
    spent = {name: privacy[name] for name in ("epsilon", "epsilon_by_group", "epsilon_rdp", "noise_std")}
    if not certificate["certified"]:
        return {**spent, "counts": None, "tau": None}
    tau = {metric: certificate[metric]["tau"] for metric in certificate["metrics"]}
    return {**spent, "counts": certificate["counts"], "tau": tau}


def digest(values: NDArray[Any]) -> str:
    """SHA-256 of the bytes of an array."""
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()


def fit(data: str, parameters: dict[str, Any]) -> Figures:
    """Figures of a plain fit."""
    return figures_of(fitted(data, **parameters), data)


def own_loop(method: str) -> Figures:
    """Figures of a module that torch's SGD trained with private gradients."""
    train = records_of("table").train
    module = nn.Sequential(nn.Linear(N_COLUMNS, 8), nn.Tanh())
    private = fairdp.make_private_fair(module, (train.X, train.y, train.groups), **SMALL, method=method)
    optimizer = torch.optim.SGD(private.parameters(), lr=0.5)
    for _ in range(private.n_steps):
        private.backward()
        optimizer.step()
    return figures_of(private.finish(), "table")


def tuned() -> Figures:
    """Figures of the best of a few trials, and which it was."""
    train = records_of("population").train
    names, codes = np.unique(train.groups, return_inverse=True)
    data = fairdp.GroupedData(train.X, train.y, codes.astype(np.int64), tuple(names.tolist()))
    estimator = fairdp.FairDPClassifier(**{**SMALL, "n_steps": 20, "method": "dpsgd"})
    grid: dict[str, list[Any]] = {"learning_rate": [0.01, 0.1], "hidden": [(8,), (16,)]}
    best = fairdp.tune(estimator, grid, data, max_gap=0.5, expected_trials=4)
    return {**figures_of(best, "population"), "chosen": {name: getattr(best, name) for name in grid}}


def saved() -> Figures:
    """Figures of a model that was written to a folder and read again."""
    with tempfile.TemporaryDirectory() as folder:
        fitted("table", method="raco_dp").save(Path(folder) / "model")
        return figures_of(fairdp.FairDPClassifier.load(Path(folder) / "model"), "table")


def evaluated() -> Figures:
    """Metrics with their intervals, and the score that searches go by."""
    test, model = records_of("table").test, fitted("table", method="dpsgd", model="logistic")
    found = model.evaluate(test.X, test.y, sensitive_features=test.groups)
    decisions = model.predict(test.X)
    score = fairdp.accuracy_within_gap(test.y, decisions, sensitive_features=test.groups, max_gap=0.2)
    return {"intervals": found.intervals.T.to_dict("list"), "accuracy_within_gap": score}


def command(*, with_schema: bool) -> Figures:
    """Figures that `fairdp fit` prints about a table, and those of the model that it saves."""
    with tempfile.TemporaryDirectory() as folder:
        people().to_csv(Path(folder) / "people.csv", index=False)
        (Path(folder) / "schema.json").write_text(json.dumps(SCHEMA), encoding="utf-8")
        source = ["--schema", "schema.json"] if with_schema else ["--label", "approved", "--sensitive", "region"]
        options = ["--n-steps", "40", "--seed", str(SEED), "--json", "--out", "model"]
        call = [sys.executable, "-m", "fairdp", "fit", "people.csv", *source, *options]
        done = subprocess.run(call, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"exit code {done.returncode}: {done.stderr.strip()}")
        report = json.loads(done.stdout)
        model = fairdp.FairDPClassifier.load(Path(folder) / "model")
        sizes = {name: report[name] for name in ("n_train", "n_certify", "n_test")}
        promises = promises_of(report["privacy"], report["certificate"])
        return {**parameters_of(model), **promises, **sizes, "metrics": report["metrics"]}


IMAGE_METHODS = ("clean", "dpsgd", "dpsgd_f", "fairsmooth", "dp_is_sgd", "dpsgd_smooth", "fairdp")
TARGET_METHODS = ("raco_dp", "dp_postprocess")
# That raco_dp refuses a positive rate is a figure too.
TARGETS: tuple[dict[str, Any], ...] = (
    {"parity": "equal_opportunity"},
    {"parity": "equalized_odds"},
    {"min_ratio": 0.8},
    {"positive_rate": 0.3},
)
ON_IMAGES: dict[str, Any] = {"model": "auto", "learning_rate": (0.02, 0.01)}
IN_PARTS = ("dpsgd_f", "raco_dp", "dp_fermi", "fairdp")

# Each with the records it is fitted to, where these are not the table.
OPTIONS: tuple[dict[str, Any], ...] = (
    *({"method": method, **target} for method in TARGET_METHODS for target in TARGETS),
    *({"method": method, "max_physical_batch_size": 16} for method in IN_PARTS),
    {"method": "fairdp", "max_physical_batch_size": 16, "data": "images", **ON_IMAGES},
    {"method": "fairdp", "noise_allocation": "average"},
    {"method": "fairdp", "group_sizes": "public"},
    {"method": "dpsgd", "group_sizes": "public"},
    {"method": "dpsgd", "n_looks": 3, "require_tau": 0.05},
    {"method": "fairdp", "n_looks": 3, "require_tau": 0.9},
    {"method": "fairdp", "predictor": "gibbs"},
    {"method": "fairdp", "predictor": "smoothed", "smoothing": 0.5},
    {"method": "dpsgd", "optimizer": "adam_then_sgd"},
    {"method": "dpsgd", "optimizer": "sgd", "momentum": 0.9, "learning_rate": 0.1},
    {"method": "fairdp", "optimizer": "adam_then_sgd", "adam_share": 0.5},
    *({"method": method, "schedule": "shamir_zhang"} for method in ("dpsgd", "fairdp")),
    {"method": "fairdp", "schedule": "theorem_4_printed"},
    {"method": "dp_is_sgd", "grouping": "attribute_and_label"},
    {"method": "dpsgd", "epsilon": float("inf")},
    *({"method": method, "sample_rate": None, "n_steps": None} for method in ("dpsgd", "raco_dp")),
    {"method": "fairdp", "hidden": (12, 8), "activation": "tanh"},
    *({"method": method, "weighted": True, "max_sample_weight": 2.0} for method in ("dpsgd", "raco_dp")),
    *({"method": method, "module": with_dropout} for method in ("dpsgd", "fairdp")),
    *({"method": method, "module": Residual} for method in ("dpsgd", "raco_dp")),
    {"method": "fairdp", "module": normalised},
    {"method": "dpsgd", "module": convolutions, "data": "images"},
    {"method": "raco_dp", "module": convolutions, "data": "images"},
    *({"method": method, "module": frozen} for method in ("dpsgd", "raco_dp")),
)


def cases() -> Iterator[tuple[str, Case]]:
    """All cases by name: every method on two kinds of records, images, options, and other ways to a model."""
    for method in fairdp.METHODS:
        for data in ("population", "table"):
            yield f"{data} method={method}", partial(fit, data, {"method": method})
    for method in IMAGE_METHODS:
        yield f"images method={method}", partial(fit, "images", {"method": method, **ON_IMAGES})
    for option in OPTIONS:
        parameters = {name: value for name, value in option.items() if name != "data"}
        data = option.get("data", "table")
        yield f"{data} {named(parameters)}", partial(fit, data, parameters)
    for method in ("dpsgd", "raco_dp"):
        yield f"own loop method={method}", partial(own_loop, method)
    yield from (("tune", tuned), ("save and load", saved), ("evaluate", evaluated))
    yield "command with schema", partial(command, with_schema=True)
    yield "command without schema", partial(command, with_schema=False)


def named(parameters: dict[str, Any]) -> str:
    """Parameters as a name, modules by theirs."""
    return " ".join(f"{name}={getattr(value, '__name__', value)}" for name, value in parameters.items())


def run(case: Case) -> Figures:
    """The figures of a case, or the error that it ended with."""
    # So that a case alone gives what it gives after others.
    torch.manual_seed(SEED)
    try:
        return case()
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


# Figures that a test can hold on any machine, within tolerances.
LASTING = frozenset(
    (
        "n_params",
        "head",
        "epsilon",
        "noise_std",
        "counts",
        "tau",
        "positive_decisions",
        "chosen",
        "intervals",
        "metrics",
    )
)


def lasting(figures: Figures) -> Figures:
    """The figures without digests and with six digits of every number; of an error only that there was one.

    A command is a process of its own, whose noise on counts is that of this processor (`noise_of_any_processor`).
    """
    if "error" in figures:
        return {"error": True}
    names = LASTING - {"counts", "tau"} if "n_train" in figures else LASTING
    return {name: shortened(value) for name, value in figures.items() if name in names}


def shortened(value: Any) -> Any:
    """A value with six digits of every number in it."""
    if isinstance(value, dict):
        return {name: shortened(own) for name, own in value.items()}
    if isinstance(value, list | tuple):
        return [shortened(own) for own in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def written(found: dict[str, Figures]) -> str:
    """All figures as JSON, a line for each case."""
    lines = (f"{json.dumps(name)}: {json.dumps(figures)}" for name, figures in found.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main() -> None:
    """Run all cases, or those whose name matches, and write their figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", metavar="PATTERN", default="", help="regular expression that names must hold")
    parser.add_argument("--out", metavar="FILE", type=Path, help="where to write; standard output if left out")
    parser.add_argument("--lasting", action="store_true", help="only what hardly differs between processors")
    arguments = parser.parse_args()
    chosen = {name: case for name, case in cases() if re.search(arguments.only, name)}
    if not chosen:
        parser.error(f"no case matches {arguments.only!r}")
    with noise_of_any_processor() if arguments.lasting else contextlib.nullcontext():
        figures = {name: run(case) for name, case in chosen.items()}
    found = written({name: lasting(own) for name, own in figures.items()} if arguments.lasting else figures)
    if arguments.out is None:
        sys.stdout.write(found)
    else:
        arguments.out.write_text(found, encoding="utf-8")


if __name__ == "__main__":
    main()
