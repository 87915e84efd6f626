"""That a user's module starts without anything that an earlier run of this program has learnt.

Whatever a run starts from is treated as public. A module that was trained before would carry what it learnt, with noise
or without, into a model that says nothing of it.
"""

import hashlib
from collections.abc import Iterable
from threading import RLock
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from fairdp._checks import InputError

Digests = frozenset[bytes]


class _Start(NamedTuple):
    """The tensors of a module as a run found them, and what they held.

    The tensors themselves: while a run in another thread differentiates, others stand in their places.
    """

    tensors: tuple[Tensor, ...]
    held: Digests


_LOCK = RLock()
# Modules that runs of this process have started from.
_STARTED: "WeakKeyDictionary[nn.Module, _Start]" = WeakKeyDictionary()
# What modules of finished runs held that they had not held at their start.
_LEARNT: set[bytes] = set()


def check_built_anew(first: nn.Module, second: nn.Module) -> None:
    """Refuse a builder whose two modules have anything in common: then so have the runs that start from them."""
    if first is second or _places(_tensors(first)) & _places(_tensors(second)):
        raise InputError(
            "`module` must build a new module every time, but two calls return the same one, or share parameters or "
            "buffers; build all of them inside the function, or copy.deepcopy what is public."
        )


def check_untrained(module: nn.Module) -> None:
    """Refuse a module that has been in a run before, and one with numbers that an earlier run has learnt."""
    tensors = _tensors(module)
    with _LOCK:
        starts = list(_STARTED.values())
        used = module in _STARTED or any(_places(tensors) & _places(start.tensors) for start in starts)
        learnt = _LEARNT.union(*(_digests(start.tensors) - start.held for start in starts))
    if used or _digests(tensors) & learnt:
        raise InputError(
            "`module` was in an earlier run of this program, or starts from what one has learned, so its weights are "
            "not public; build one with new weights."
        )


def note_start(module: nn.Module) -> None:
    """Remember a module, and what it holds, before a run trains it or a saved model is read into it."""
    tensors = _tensors(module)
    with _LOCK:
        _STARTED[module] = _Start(tensors, _digests(tensors))


def note_learnt(module: nn.Module) -> None:
    """Remember what a module holds by now and did not hold at its start: a copy of it is as trained as itself.

    Only digests are kept, and only in memory.
    """
    with _LOCK:
        start = _STARTED.get(module)
        _LEARNT.update(_digests(_tensors(module)) - (start.held if start else frozenset()))


def _tensors(module: nn.Module) -> tuple[Tensor, ...]:
    """Parameters, buffers, and tensors that are plain attributes; those of lazy layers come with the first record."""
    plain = (value for layer in module.modules() for value in vars(layer).values() if isinstance(value, Tensor))
    everything = (*module.parameters(), *module.buffers(), *plain)
    return tuple(t for t in everything if not is_lazy(t) and t.layout == torch.strided and t.numel())


def _places(tensors: Iterable[Tensor]) -> set[int]:
    """Where tensors are in memory."""
    return {tensor.untyped_storage().data_ptr() for tensor in tensors}


def _digests(tensors: Iterable[Tensor]) -> Digests:
    """One for each tensor, of its shape and numbers."""
    return frozenset(_digest(tensor) for tensor in tensors)


def _digest(tensor: Tensor) -> bytes:
    digest = hashlib.blake2b(repr((tensor.shape, tensor.dtype)).encode(), digest_size=16)
    digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.digest()
