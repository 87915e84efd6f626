"""Memory of a training run: what one step frees is kept for the next."""

import ctypes
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, get_ident
from typing import NamedTuple

import numpy as np
import torch

# Parameters of glibc's mallopt: they can be set, but not read, and once set they no longer adapt to the program.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4
# The values they reach by themselves in a program that frees large blocks.
_USUAL = {_TRIM_THRESHOLD: 64 * 2**20, _MMAP_THRESHOLD: 32 * 2**20, _MMAP_MAX: 65536}


@contextmanager
def kept_memory() -> Iterator[None]:
    """Keep freed memory instead of giving it back to the system after every step.

    glibc maps blocks above 32 MB anew whenever they are asked for: a step on images, whose activations are that large,
    otherwise spends a third of its time in the kernel, which clears the pages. Other systems are left as they are.
    """
    if platform.libc_ver()[0] != "glibc":
        yield
        return
    libc = ctypes.CDLL(None)
    libc.mallopt(_MMAP_MAX, 0)
    libc.mallopt(_TRIM_THRESHOLD, -1)
    try:
        yield
    finally:
        for parameter, value in _USUAL.items():
            libc.mallopt(parameter, value)
        libc.malloc_trim(0)


# Numbers in a batch of images above which a second thread pays off.
_WORTH_SHARING = 200_000


@contextmanager
def torch_threads(*, for_batch: float, shape: tuple[int, ...]) -> Iterator[None]:
    """One thread for tables and for small batches of images.

    Steps on tables are many and short, or move memory more than they compute: where another process has the second
    core, sharing them costs a factor of two to three in processor time, because one thread spins until the other comes.

    More threads add in another order. So a run that starts beside others takes the number that the first of them found:
    a new thread of the caller would else inherit the one that another run has set for itself.
    """
    here, before = get_ident(), torch.get_num_threads()
    with _LOCK:
        usual = _UNDER_WAY[0].usual if _UNDER_WAY else before
        # A run that is started by another one, from the same thread, goes back to what that one has set.
        after = before if any(run.thread == here for run in _UNDER_WAY) else usual
        run = _Run(here, usual)
        _UNDER_WAY.append(run)
    shared = len(shape) > 1 and for_batch * np.prod(shape) >= _WORTH_SHARING
    torch.set_num_threads(usual if shared else 1)
    try:
        yield
    finally:
        torch.set_num_threads(after)
        with _LOCK:
            _UNDER_WAY.remove(run)


class _Run(NamedTuple):
    """A run that is under way: its thread, and the number of threads that was usual when the first of them came."""

    thread: int
    usual: int


_LOCK = Lock()
_UNDER_WAY: list[_Run] = []
