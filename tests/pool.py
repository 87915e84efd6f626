"""Fitted folders that tests share: each is made once in a test run, by whichever process needs it first."""

import atexit
import contextlib
import fcntl
import functools
import hashlib
import io
import itertools
import json
import math
import os
import pickle
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pandas as pd
import pytest
import yaml

from classifier_cases import fitted
from cli_cases import SCHEMA, people
from fairdp.certify.bounds import GapBound, NoisyBinomial, gap_bound, hoeffding_radius, noise_variance

# Set by conftest, so that all processes of a run share one pool; a run never sees the pool of another.
PLACE = "FAIRDP_TEST_POOL"
SHORT = ("--n-steps", "20", "--sample-rate", "0.2", "--seed", "0")


@functools.cache
def _own_place() -> Path:
    """For whoever needs a model without a test run."""
    place = tempfile.mkdtemp(prefix="fairdp-pool-")
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return Path(place)


def _place() -> Path:
    return Path(os.environ[PLACE]) if PLACE in os.environ else _own_place()


def made_once(make: Callable[[Path], object], *key: object) -> Path:
    """The folder that ``make`` fills, which nobody may change; ``key`` is all that its content follows from."""
    place = _place() / hashlib.sha256(repr(key).encode()).hexdigest()[:20]
    with place.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            draft = place.with_suffix(".draft")
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir()
            make(draft)
            draft.rename(place)
    return place


@functools.cache
def _bound(arms: tuple, failure_probability: float, score_box: bool) -> GapBound:
    def make(place: Path) -> None:
        found = gap_bound(arms, failure_probability=failure_probability, score_box=score_box)
        (place / "bound").write_bytes(pickle.dumps(found))

    return pickle.loads((made_once(make, "bound", arms, failure_probability, score_box) / "bound").read_bytes())


def remembered_bound(arms: Iterable, *, failure_probability: float, score_box: bool = False) -> GapBound:
    """The pure and slow `gap_bound`, computed once in a test run: by who certifies or by who verifies."""
    return _bound(tuple(arms), failure_probability, score_box)


def rough_bound(arms: Iterable[NoisyBinomial], *, failure_probability: float, score_box: bool = False) -> GapBound:
    """A wider bound that takes no time: by Hoeffding, and by three deviations of the noise."""
    highs, lows = [], []
    for arm in arms:
        size = max(arm.total, 1)
        noise = 3 * math.sqrt(arm.n_noise_terms * noise_variance(arm.epsilon)) / size
        radius = hoeffding_radius(size, failure_probability=failure_probability) + noise
        highs.append(min(max(arm.positive / size, 0.0) + radius, 1.0))
        lows.append(max(min(arm.positive / size, 1.0) - radius, 0.0))
    pairs = list(itertools.permutations(range(len(highs)), 2)) or [(0, 0)]
    pair = max(pairs, key=lambda pair: highs[pair[0]] - lows[pair[1]])
    return GapBound(tau=highs[pair[0]] - lows[pair[1]], ratio=min(lows[v] / highs[u] for u, v in pairs), pair=pair)


def saved_model(**parameters: object) -> Path:
    """A model of the people of `classifier_cases`, saved by the estimator."""
    key = sorted((name, repr(value)) for name, value in parameters.items())
    return made_once(lambda place: fitted(**parameters).save(place / "model"), "estimator", key) / "model"


def fitted_place(*options: object, table: pd.DataFrame | None = None, schema: dict | None = None) -> Path:
    """A workplace after ``fairdp fit people.csv``: table, schema, ``model``, its ledger and its answer.

    Without options the fit is short; ``schema`` is that of `cli_cases` unless it is given, and ``{}`` is none.
    """
    rows, declared = people() if table is None else table, SCHEMA if schema is None else schema
    text, given = rows.to_csv(index=False), [str(option) for option in (options or SHORT)]

    def make(place: Path) -> None:
        (place / "people.csv").write_text(text)
        (place / "schema.yaml").write_text(yaml.safe_dump(declared, sort_keys=False))
        by_schema = ("--schema", "schema.yaml") if declared else ()
        code, out, err = run_in(place, "fit", "people.csv", *by_schema, *given, "--out", "model", "--json")
        assert (place / "model").exists(), (code, err)
        (place / "answer.json").write_text(json.dumps({"code": code, "err": err, "report": json.loads(out)}))

    return made_once(make, "command", given, text, declared)


def run_in(place: Path, *arguments: object) -> tuple[int, str, str]:
    """A command in this process, with the place as its folder and the ledger of the place: code, stdout and stderr."""
    from fairdp.cli import main

    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patch.chdir(place)
        patch.setenv("FAIRDP_LEDGER", "ledger.sqlite")
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
    return int(stop.value.code or 0), out.getvalue(), err.getvalue()


def copied(place: Path, to: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(place, to, dirs_exist_ok=True))
