"""The processes that fit one model together, as torchrun starts them: who is who, and what they tell each other.

All of them run the same program, on the same records and with the same keys. What is dear, passing records through a
model, each does for its share of the records; sums go to the first of them, which alone adds noise, spends and writes,
and tells the others what it has released. Where there is one process only, nothing is told and torch is not needed.
"""

import hashlib
import os
import platform
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import lru_cache
from importlib.metadata import version
from itertools import accumulate
from pathlib import Path
from queue import Empty, Queue
from secrets import token_hex
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar, cast

from fairdp.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

# How long one waits for another that is still there: encoding a large table takes its time.
TIMEOUT = timedelta(minutes=60)
# The same for processes that have all been met: one that is lost before it has joined must not be waited for.
_JOINING = timedelta(minutes=1)
# Where the first process names a start, and the seconds between two looks at the store.
_FIRST, _PAUSE = "fairdp first", 0.05
# Libraries whose versions all processes of a group must share.
_LIBRARIES = ("fairdp", "torch", "numpy", "scipy")
Result = TypeVar("Result")


class WorkerLost(Exception):
    """Another process of the group is gone, or does not answer."""


class Disagreement(InputError):
    """Not all processes were given the same, which all of them know at once."""


@dataclass(frozen=True, eq=False)
class ProcessGroup:
    """One of the processes that fit a model together; alone, where there is no other.

    Parameters
    ----------
    rank, size
        The number of this process, from zero, and how many there are.
    group, store
        What torch.distributed tells tensors and small things through; None alone.
    """

    rank: int = 0
    size: int = 1
    group: Any = None
    store: Any = None

    @property
    def is_rank_zero(self) -> bool:
        """True for the process that adds noise, spends, writes and prints."""
        return self.rank == 0

    def from_rank_zero(self, make: Callable[[], bytes]) -> bytes:
        """Bytes that the first process makes, for all of them."""
        if self.size == 1:
            return make()
        import torch

        content = make() if self.is_rank_zero else b""
        length = self.broadcast(torch.tensor([len(content)]))
        held = bytearray(content if self.is_rank_zero else bytes(int(length)))
        return bytes(self.broadcast(torch.frombuffer(held, dtype=torch.uint8)).numpy()) if held else b""

    def broadcast(self, value: "Tensor") -> "Tensor":
        """The first process's value of a tensor, in place of that of the others, which has the same shape."""
        if self.size > 1:
            _safely(lambda dist: dist.broadcast(value, group=self.group, group_src=0))
        return value

    def all_reduce(self, counts: "NDArray[np.int64]") -> "NDArray[np.int64]":
        """The sum of everybody's counts, for all of them; whole numbers need no order."""
        if self.size == 1:
            return counts
        import torch

        total = torch.from_numpy(counts.astype("int64"))
        _safely(lambda dist: dist.all_reduce(total, group=self.group))
        return total.numpy()

    def send_to_rank_zero(self, rows: "Tensor") -> None:
        """Hand rows to the first process, which waits for them."""
        _safely(lambda dist: dist.send(rows, group=self.group, group_dst=0))

    def received(self, rank: int, shape: tuple[int, int]) -> "Tensor":
        """The rows in double precision that another process has sent to this one, the first."""
        import torch

        rows = torch.empty(shape, dtype=torch.float64)
        _safely(lambda dist: dist.recv(rows, group=self.group, group_src=rank))
        return rows

    def local_rank_zero_first(self, make: Callable[[], Result]) -> Result:
        """The result of each process, the first of every machine before the others, which find what it has left."""
        if self.size == 1:
            return make()
        is_local_rank_zero = whole_number("LOCAL_RANK", self.rank) == 0
        found = make() if is_local_rank_zero else None
        _safely(lambda dist: dist.barrier(group=self.group))
        return make() if found is None else found

    def agree(self, digest: bytes, what: str) -> None:
        """Refuse, in every process, what is not the same in all of them; asked before anything is released."""
        if self.size == 1:
            return
        import torch

        own = torch.frombuffer(bytearray(digest), dtype=torch.uint8)
        found = [torch.empty_like(own) for _ in range(self.size)]
        _safely(lambda dist: dist.all_gather(found, own, group=self.group))
        others = [rank for rank, theirs in enumerate(found) if not torch.equal(theirs, found[0])]
        if others:
            raise Disagreement(f"worker {others[0]} has {what} than worker 0; start all {self.size} with the same.")

    def speaks(self) -> bool:
        """True for the process that is to say why all of them end: the first that asks."""
        if self.size == 1:
            return True
        with suppress(Exception):
            return bool(self.store.add("said why", 1) == 1)
        # Whoever kept the store is gone, and cannot say it.
        return True


ALONE = ProcessGroup()
_ACTING: ContextVar[ProcessGroup | None] = ContextVar("process group", default=None)


def process_group() -> ProcessGroup:
    """The process that this is, among those that a launcher has started together; alone, if none has."""
    return _ACTING.get() or (ALONE if world_size() <= 1 else _joined())


@contextmanager
def acting_as(processes: ProcessGroup) -> Iterator[None]:
    """Be one of a process group of another making: for tests, whose processes are threads."""
    token = _ACTING.set(processes)
    try:
        yield
    finally:
        _ACTING.reset(token)


def shares(sizes: Sequence[int], n_workers: int) -> list[int]:
    """Who does each of some tasks of these sizes: neighbours are done by the same worker, and all have as much to do.

    >>> shares([4, 4, 4, 2], 2), shares([7], 4)
    ([0, 0, 1, 1], [2])
    """
    whole, middles = max(1, sum(sizes)), (end - size / 2 for end, size in zip(accumulate(sizes), sizes, strict=True))
    return [min(int(middle * n_workers / whole), n_workers - 1) for middle in middles]


def world_size() -> int:
    """The number of processes, as launchers say it; one if nobody does."""
    return whole_number("WORLD_SIZE", 1)


def starts_again() -> bool:
    """True if torchrun will start all processes again if this one fails."""
    return whole_number("TORCHELASTIC_RESTART_COUNT", 0) < whole_number("TORCHELASTIC_MAX_RESTARTS", 0)


def note(name: str, value: str) -> None:
    """Leave something for later starts of this launch, if there may be any."""
    store = _lasting_store()
    if store is not None:
        # Whoever kept the store is gone, and starts nobody again.
        with suppress(RuntimeError, OSError):
            store.set(name, value)


def noted(name: str) -> str | None:
    """The note of an earlier start of this launch; None if it has left nothing, or there was none."""
    store = _lasting_store()
    with suppress(RuntimeError, OSError):
        if store is not None and store.check([name]):
            return str(store.get(name).decode())
    return None


@lru_cache(maxsize=1)
def _lasting_store() -> Any:
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return None
    import torch.distributed as distributed

    dist: Any = distributed
    host, port = os.environ.get("MASTER_ADDR", ""), whole_number("MASTER_PORT", 0)
    try:
        store = dist.TCPStore(host, port, is_master=False, timeout=timedelta(seconds=30))
    except (RuntimeError, OSError):
        raise InputError(f"torchrun's store at {host}:{port} does not answer; start again.") from None
    return dist.PrefixStore("fairdp launch", store)


def whole_number(name: str, usual: int) -> int:
    """The number in a variable of the environment."""
    text = os.environ.get(name, "")
    if text and not text.isdecimal():
        raise InputError(f"the environment says {name}={text!r}, which is not an integer; unset it.")
    return int(text or usual)


@lru_cache(maxsize=1)
def _joined() -> ProcessGroup:
    import torch.distributed as dist

    def join(dist: Any) -> ProcessGroup:
        if dist.is_initialized():
            # Somebody's own group, perhaps of another backend, which takes no tensors in main memory.
            group = dist.new_group(backend="gloo", timeout=TIMEOUT)
            processes = ProcessGroup(dist.get_rank(), dist.get_world_size(), group)
            start = processes.from_rank_zero(lambda: token_hex().encode()).decode()
            return replace(processes, store=dist.PrefixStore(start, dist.distributed_c10d._get_default_store()))
        store, rank, size = next(dist.rendezvous("env://", timeout=TIMEOUT))
        store = dist.PrefixStore(rendezvous(store, rank, size), store)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=_JOINING)
        return ProcessGroup(rank, size, dist.new_group(backend="gloo", timeout=TIMEOUT), store)

    missing = [name for name in ("RANK", "MASTER_ADDR", "MASTER_PORT") if not os.environ.get(name)]
    if missing and not dist.is_initialized():
        raise InputError(
            f"the environment says WORLD_SIZE={world_size()}, but not {missing[0]}; start with torchrun, or unset it."
        )
    if not dist.is_initialized() and not whole_number("RANK", 0) < world_size():
        raise InputError(f"RANK={os.environ['RANK']} must be below WORLD_SIZE={world_size()}; ranks begin at zero.")
    return _while_signals_are_heard(lambda: _safely(join))


def rendezvous(store: Any, rank: int, size: int) -> str:
    """The name of this start of all processes, known to each once it has heard of the first process.

    The store may still hold the addresses of processes that are gone, and no count of starts is the same on all hosts.
    So the first process names the start, the others answer with a name of their own, and whoever finds its own name
    among the answers that the first has read knows that it was this start's.
    """
    own = token_hex()
    if rank == 0:
        store.set(_FIRST, own)
        answers = [store.get(f"{own} {other}").decode() for other in range(1, size)]
        store.set(f"{own} heard", " ".join(answers))
        return own
    answered, deadline = "", time.monotonic() + TIMEOUT.total_seconds()
    while time.monotonic() < deadline:
        # Until the first process has come, this is the name of an earlier start.
        start = store.get(_FIRST).decode()
        if start != answered:
            store.set(f"{start} {rank}", own)
            answered = start
        if store.check([f"{start} heard"]) and own in store.get(f"{start} heard").decode().split():
            return start
        time.sleep(_PAUSE)
    raise TimeoutError("the first of them did not come")


def _while_signals_are_heard(wait: Callable[[], Result]) -> Result:
    """The result of something that may wait for long in torch, which would let neither Ctrl-C nor SIGTERM through."""
    found: Queue[tuple[Result | None, BaseException | None]] = Queue()

    def run() -> None:
        try:
            found.put((wait(), None))
        except BaseException as error:
            found.put((None, error))

    Thread(target=run, daemon=True).start()
    while True:
        with suppress(Empty):
            result, error = found.get(timeout=0.2)
            if error is not None:
                raise error
            return cast(Result, result)


def _safely(tell: Callable[[Any], Result]) -> Result:
    """The answer of torch.distributed; where there is none, somebody is lost."""
    import torch.distributed as dist

    try:
        return tell(dist)
    except (RuntimeError, ValueError, OSError) as error:
        # Of what gloo says, the first sentence, without the line of its source.
        reason = re.sub(r"^\[[^]]*\] ", "", " ".join(str(error).split())).split(". ")[0]
        raise WorkerLost(f"a worker was lost, so that all of them end ({reason[:160]}).") from None


def agree_on_program(options: object = None) -> None:
    """The same versions, on processors that round alike, and the same options, by their ``repr``."""
    processes = process_group()
    if processes.size == 1:
        return
    import torch

    # Other instructions add in another order, and models would drift apart.
    processor = (platform.machine(), torch.backends.cpu.get_cpu_capability())
    versions = (platform.python_version_tuple()[:2], [version(name) for name in _LIBRARIES])
    for value, what in (
        (versions, "other versions of Python, fairdp or its libraries"),
        (processor, "a processor with other instructions (see ATEN_CPU_CAPABILITY)"),
        (options, "other options"),
    ):
        processes.agree(hashlib.sha256(repr(value).encode()).digest(), what)


def agree_on_files(path: Path) -> None:
    """The same file, or the same files of a folder; before anything is read, or paid for, one that is not there too."""
    processes = process_group()
    if processes.size > 1:
        # In a folder, names are values and the order of the rows.
        found = sorted(path.rglob("*")) if path.is_dir() else [path]
        digest = hashlib.sha256()
        for file in found:
            if file.is_file():
                digest.update(file.relative_to(path).as_posix().encode())
                with file.open("rb") as stream:
                    digest.update(hashlib.file_digest(stream, "sha256").digest())
        processes.agree(digest.digest(), f"another {path.name!r}, or none,")
