"""Torch's global generator, lent to one run at a time: modules and dropout of users draw from nothing else."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

import torch

# One for the process, as the generator is. It keeps runs in other threads away, but not code that draws from torch's
# global generator without it: with a user's own module, a seed holds only while nobody else does so.
_LOCK = RLock()


@contextmanager
def seeded_globally(seed: int) -> Iterator[None]:
    """Let torch's global generator start from a seed, and leave it afterwards as it was."""
    with _LOCK, torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield
