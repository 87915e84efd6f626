"""Everything that a run draws besides sampling and training noise, from one secret key.

A run that is resumed must draw the same split, the same noise on its counts and the same coins again: drawing them anew
would release the same counts twice. So each has a stream of its own that follows from the key and its purpose, by
BLAKE2b as a keyed generator. Without the key the streams cannot be told from chance.
"""

import hashlib
from collections.abc import Callable

KEY_BYTES = 32

# Uniform whole number below its argument.
RandBelow = Callable[[int], int]


def derived_key(key: bytes, purpose: str, *, n_bytes: int = 16) -> bytes:
    """A key for one purpose; it tells nothing about the key that it is derived from, or about other purposes."""
    return hashlib.blake2b(purpose.encode(), key=key, digest_size=n_bytes).digest()


def keyed_below(key: bytes, purpose: str) -> RandBelow:
    """Uniform whole numbers of any size for one purpose, always the same ones, by rejection."""
    own, n_blocks, pool = derived_key(key, purpose, n_bytes=KEY_BYTES), 0, b""

    def draw(below: int) -> int:
        nonlocal n_blocks, pool
        n_bits = (below - 1).bit_length()
        n_bytes = (n_bits + 7) // 8
        while True:
            while len(pool) < n_bytes:
                pool += hashlib.blake2b(n_blocks.to_bytes(8, "little"), key=own).digest()
                n_blocks += 1
            value = int.from_bytes(pool[:n_bytes], "little") & ((1 << n_bits) - 1)
            pool = pool[n_bytes:]
            if value < below:
                return value

    return draw
