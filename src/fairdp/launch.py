"""What a launcher says to the processes that it starts, and what they leave for those that it starts after them.

torchrun keeps one store for all starts of a launch: what it holds may be of processes that are gone, which is why a
start has a name of its own, and what is noted there is known to later starts and to no other launch.
"""

import os
import time
from contextlib import suppress
from datetime import timedelta
from functools import lru_cache
from secrets import token_hex
from typing import Any

from fairdp._checks import InputError

# How long one waits for another that is still there: encoding a large table takes its time.
PATIENCE = timedelta(minutes=60)
# Where the first process names a start, and the seconds between two looks at the store.
_FIRST, _PAUSE = "fairdp first", 0.05


def whole_number(name: str, usual: int) -> int:
    """What a variable of the environment says."""
    text = os.environ.get(name, "")
    if text and not text.isdecimal():
        raise InputError(f"the environment says {name}={text!r}, which is no whole number; unset it.")
    return int(text or usual)


def world_size() -> int:
    """How many processes there are, as launchers say it; one if nobody does."""
    return whole_number("WORLD_SIZE", 1)


def starts_again() -> bool:
    """Whether torchrun will start all processes again if this one fails."""
    return whole_number("TORCHELASTIC_RESTART_COUNT", 0) < whole_number("TORCHELASTIC_MAX_RESTARTS", 0)


def note(name: str, value: str) -> None:
    """Leave something for later starts of this launch, if there may be any."""
    store = _lasting_store()
    if store is not None:
        # Whoever kept the store is gone, and starts nobody again.
        with suppress(RuntimeError, OSError):
            store.set(name, value)


def noted(name: str) -> str | None:
    """What an earlier start of this launch has left; None if it has left nothing, or there was none."""
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


def met(store: Any, rank: int, size: int) -> str:
    """What tells this start of all processes from earlier ones, known to each once it has heard of the first process.

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
    answered, deadline = "", time.monotonic() + PATIENCE.total_seconds()
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
