"""Epsilons that tests need and are not about: computed once, and shared by all workers and runs through files.

Most of the time of a short fit goes into the search for its noise. The result depends on its arguments, the code and
the versions of the packages beneath it alone, and these name the file. Tests of accounting itself take
`real_accounting`, which reads nothing.
"""

import hashlib
import inspect
import os
from collections.abc import Callable
from functools import cache, wraps
from importlib.metadata import version
from pathlib import Path

from fairdp.accounting import mechanisms

ORIGINAL = mechanisms._sampled_gaussian_epsilon


def remembering(folder: Path, computed: Callable[..., float] = ORIGINAL) -> Callable[..., float]:
    """The same function, which looks into a folder before it computes."""
    beneath = [f"{name} {version(name)}" for name in ("dp-accounting", "numpy", "scipy")]
    code = Path(inspect.getfile(inspect.unwrap(computed))).read_text(encoding="utf-8")
    known = folder / hashlib.sha256("\n".join([*beneath, code]).encode()).hexdigest()[:16]
    known.mkdir(parents=True, exist_ok=True)

    @cache
    @wraps(computed)
    def remembered(*arguments: float | str) -> float:
        path = known / hashlib.sha256(repr(arguments).encode()).hexdigest()[:32]
        if path.exists():
            return float.fromhex(path.read_text())
        found = computed(*arguments)
        # Whole or not at all: another worker may read or write the same.
        own = path.with_suffix(f".{os.getpid()}")
        own.write_text(found.hex())
        own.replace(path)
        return found

    return remembered
