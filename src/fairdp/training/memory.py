"""Memory of a training: what a step frees is kept for the next one."""

import ctypes
import platform
from collections.abc import Iterator
from contextlib import contextmanager

# Parameters of glibc's mallopt, and their defaults: the program can set them, but not read them.
_TRIM_THRESHOLD, _DEFAULT_TRIM_THRESHOLD = -1, 128 * 1024
_MMAP_MAX, _DEFAULT_MMAP_MAX = -4, 65536


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
        libc.mallopt(_MMAP_MAX, _DEFAULT_MMAP_MAX)
        libc.mallopt(_TRIM_THRESHOLD, _DEFAULT_TRIM_THRESHOLD)
        libc.malloc_trim(0)
