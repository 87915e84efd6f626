"""Memory of a training: what a step frees is kept for the next one."""

import ctypes
import platform
from collections.abc import Iterator
from contextlib import contextmanager

# Parameters of glibc's mallopt: they can be set, but not read, and once set they no longer adapt to the program.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4
# What they come to by themselves in a program that frees large blocks.
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
