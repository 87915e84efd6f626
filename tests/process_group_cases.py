"""Process groups whose processes are threads, for tests of what they compute together."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import Queue
from typing import Any

import numpy as np
import torch

from fairdp.distributed import ALONE, ProcessGroup, acting_as


class Exchange:
    """The exchange between threads in place of processes: everybody's value, once all have come."""

    def __init__(self, size: int) -> None:
        self.size, self.barrier = size, threading.Barrier(size, timeout=120)
        self.values: list[Any] = [None] * size
        self.sent: list[Queue] = [Queue() for _ in range(size)]

    def all(self, rank: int, value: Any) -> list[Any]:
        self.values[rank] = value
        self.barrier.wait()
        found = list(self.values)
        self.barrier.wait()
        return found


class ThreadTeam(ProcessGroup):
    """One of several threads; tells the others by memory what processes tell by torch.distributed."""

    def __init__(self, rank: int, exchange: Exchange) -> None:
        super().__init__(rank, exchange.size, None, exchange)

    def from_rank_zero(self, make):
        return self.store.all(self.rank, make() if self.is_rank_zero else None)[0]

    def broadcast(self, value):
        return self.store.all(self.rank, value)[0].clone()

    def all_reduce(self, counts):
        return np.sum(self.store.all(self.rank, counts), axis=0)

    def send_to_rank_zero(self, rows):
        self.store.sent[self.rank].put(rows)

    def received(self, rank, shape):
        rows = self.store.sent[rank].get(timeout=120)
        assert rows.shape == shape
        assert rows.dtype == torch.float64
        return rows

    def agree(self, digest, what):
        assert len(set(self.store.all(self.rank, digest))) == 1, what


def together(size: int, work: Callable[[], Any]) -> list[Any]:
    """Results of the same work in so many threads, by rank."""
    if size == 1:
        with acting_as(ALONE):
            return [work()]
    exchange = Exchange(size)

    def run(rank: int) -> Any:
        with acting_as(ThreadTeam(rank, exchange)):
            try:
                return work()
            except BaseException:
                exchange.barrier.abort()
                raise

    with ThreadPoolExecutor(size) as pool:
        futures = [pool.submit(run, rank) for rank in range(size)]
    failed = [future.exception() for future in futures if future.exception() is not None]
    # Whoever waits for one that failed fails too, but is not the reason.
    for error in sorted(failed, key=lambda error: isinstance(error, threading.BrokenBarrierError)):
        raise error
    return [future.result() for future in futures]
