"""Every bit of a checkpoint flipped and every cut of it, one at a time: all are refused in one line."""

import functools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import patch

from faults.forged import CHECKPOINT, prepared_run
from faults.trials import Run, Trials, complaints, run_cases

# So many flips and cuts are one case, and every so many go through the command itself.
PER_CASE, PER_COMMAND = 2000, 500


def flips(place: Path, *, stride: int = 1) -> Trials:
    """All flips and cuts of a small checkpoint, or of every so many cases one; ``n`` counts flips and cuts."""
    base = prepared_run(place)
    n_all = n_damages((base / "run.ckpt").read_bytes())
    names = [f"flips and cuts: {first}" for first in range(0, n_all, PER_CASE * stride)]
    done = run_cases(names, functools.partial(case_of, base), place, batch=4)
    n_done = sum(min(PER_CASE, n_all - int(name.partition(": ")[2])) for name in names)
    return Trials(**{**vars(done), "n": n_done})


def without_a_checksum(place: Path, *, stride: int = 4) -> Trials:
    """Negative control: nobody compares the checksum, and flips in the numbers go unnoticed."""
    with patch("fairdp.run.checkpoint._fits", return_value=True):
        return flips(place, stride=stride)


def n_damages(content: bytes) -> int:
    """All single bits, and all cuts."""
    return 9 * len(content)


def damages(content: bytes, first: int, last: int) -> Iterator[tuple[str, bytes]]:
    """Flips of single bits and then cuts, numbered from the first bit to the last cut."""
    n_bits = 8 * len(content)
    for number in range(first, last):
        if number < n_bits:
            place, bit = divmod(number, 8)
            yield f"bit {number}", content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :]
        else:
            yield f"cut after {number - n_bits} bytes", content[: number - n_bits]


def case_of(base: Path, name: str) -> Callable[[Path, Run], list[str]]:
    """Some damages of a checkpoint, read as a run reads it that goes on."""
    first = int(name.partition(": ")[2])

    def case(here: Path, run: Run) -> list[str]:
        shutil.copytree(base, here, dirs_exist_ok=True)
        path, wrong = here / "run.ckpt", []
        content = path.read_bytes()
        last = min(first + PER_CASE, n_damages(content))
        for number, (where, damaged) in enumerate(damages(content, first, last)):
            path.write_bytes(damaged)
            wrong += [f"{where}: {found}" for found in _read(path)]
            if not number % PER_COMMAND:
                code, said = run(*CHECKPOINT, "--resume")
                wrong += complaints(code, said) or ([] if code == 2 else [f"{where}: exit {code}"])
        return wrong[:3]

    return case


def _read(path: Path) -> list[str]:
    from fairdp.errors import ParameterError
    from fairdp.run.checkpoint import read_checkpoint

    try:
        read_checkpoint(path)
    except ParameterError as error:
        return ["more than one line"] if "\n" in str(error) else []
    except Exception as error:
        return [type(error).__name__]
    return ["is read"]
