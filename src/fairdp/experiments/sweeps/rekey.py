"""Kept trainings handed on to changed code, after two of each kind were done again and came out the same."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fairdp._checks import DataError
from fairdp.experiments.sweeps.fits import Fit, Trained
from fairdp.experiments.sweeps.parallel import Say, Workers
from fairdp.experiments.sweeps.populations import Population, digest_of
from fairdp.experiments.sweeps.store import Kept, deciding_digest, kept_in, rewrite
from fairdp.experiments.sweeps.training import train_all

# Of each kind, at most so many are done again: the first and the last.
N_AGAIN = 2


@dataclass(frozen=True, kw_only=True)
class Rekeyed:
    """How many trainings of a file belong to this code now, and how many were done again to see that they may."""

    n_trainings: int
    n_again: int


def rekey(path: Path, *, workers: Workers, say: Say) -> Rekeyed:
    """Write this code's digest on the trainings of other code, or refuse and leave the file as it is.

    A kind is what is set, whatever the values: a method with certain parameters, on records changed in a certain way.
    Of several trainings that differ in their code only, the last one stays.
    """
    code = deciding_digest()
    before = list(kept_in(path))
    lasting = list({_training(kept): kept for kept in before}.values())
    stale = [kept for kept in lasting if kept.code != code]
    chosen = [kept for kind in _kinds(stale) for kept in {id(it): it for it in (kind[0], kind[-1])}.values()]
    fits = [fit_of(kept.fit) for kept in chosen]
    for kept, fit in zip(chosen, fits, strict=True):
        if digest_of(fit.population) != kept.records:
            raise DataError(
                f"{path.name}: the records of {_words(kept)} are others now; delete the file to train again."
            )
    found = train_all(fits, store=None, workers=workers, say=say)
    for kept, fit in zip(chosen, fits, strict=True):
        differs = _difference(kept.found, found[fit])
        if differs:
            raise DataError(
                f"{path.name}: {_words(kept)} gives another {differs} with this code, so nothing is handed on to it; "
                "run the studies again."
            )
    # What another command has added meanwhile stays as it is.
    since = list(kept_in(path))[len(before) :]
    rewrite(path, [*(replace(kept, code=code) for kept in lasting), *since])
    return Rekeyed(n_trainings=len(stale), n_again=len(chosen))


def fit_of(described: dict[str, Any]) -> Fit:
    """The training that a line describes."""
    about = {name: _frozen(value) for name, value in described.items()}
    settings = tuple((name, _frozen(value)) for name, value in described["settings"].items())
    population = Population(**{name: _frozen(value) for name, value in described["population"].items()})
    return Fit(**{**about, "population": population, "settings": settings})


def _frozen(value: Any) -> Any:
    """Pairs that were read from JSON, as the parameters that they were."""
    return tuple(_frozen(each) for each in value) if isinstance(value, list) else value


def _training(kept: Kept) -> str:
    return replace(kept, code="").key


def _kinds(trainings: Iterable[Kept]) -> list[list[Kept]]:
    found: dict[str, list[Kept]] = {}
    for kept in trainings:
        about = kept.fit
        kind = [about["method"], sorted(about), sorted(about["population"]), sorted(about["settings"])]
        found.setdefault(json.dumps(kind), []).append(kept)
    return list(found.values())


def _difference(before: Trained, after: Trained) -> str:
    """Name of the first figure that is not the same to its last digit; empty if there is none."""
    for first, second in ((before.numbers, after.numbers), (before.moved, after.moved)):
        for name in dict.fromkeys([*first, *second]):
            if not (name in first and name in second and _equal(first[name], second[name])):
                return name
    return ""


def _equal(first: float | Sequence[float], second: float | Sequence[float]) -> bool:
    # As text: what is not a number is the same as another such.
    return json.dumps(first) == json.dumps(second)


def _words(kept: Kept) -> str:
    settings = ", ".join(f"{name}={value}" for name, value in kept.fit["settings"].items())
    return f"{kept.fit['method']} ({settings}), seed {kept.fit['seed']}"
