"""Keyed random words, and keys that follow one another in one direction only.

Everything random in a run comes from secret keys. A stream is AES-256 in counter mode: without its key it cannot be
told from chance, and one key serves one purpose. A chain hands out the keys of one step after another; from its present
state no earlier key can be computed, so that whoever sees a checkpoint learns nothing about noise already added.
"""

import hashlib

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from numpy.typing import NDArray

KEY_BYTES = 32
# A key is never used twice, so that all streams may start their counters at zero.
_START = bytes(16)


def derived_key(key: bytes, purpose: str, *, n_bytes: int = 16) -> bytes:
    """A key for one purpose; it tells nothing about the key that it is derived from, or about other purposes."""
    return hashlib.blake2b(purpose.encode(), key=key, digest_size=n_bytes).digest()


class Stream:
    """Random words of 64 bits from a key of 32 bytes."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._cipher = Cipher(AES(key), CTR(_START)).encryptor()

    def words(self, n_words: int) -> NDArray[np.uint64]:
        """The next words."""
        return np.frombuffer(self._cipher.update(bytes(8 * n_words)), dtype="<u8")

    def uniforms(self, n_values: int) -> NDArray[np.float64]:
        """The next numbers from [0, 1), all multiples of 2⁻⁵³ with the same chance."""
        return np.multiply(self.words(n_values) >> np.uint64(11), 2.0**-53, dtype=np.float64)

    def beside(self, number: int) -> "Stream":
        """A stream of its own for whoever needs more words than most, so that all others keep theirs."""
        return Stream(derived_key(self._key, f"beside {number}", n_bytes=KEY_BYTES))


class Chain:
    """Secret keys for one step after another.

    Parameters
    ----------
    key
        The present state. A checkpoint holds it, and from it all keys to come follow, but none that went before.
    """

    def __init__(self, key: bytes) -> None:
        self.present = key

    def __repr__(self) -> str:
        return "Chain()"

    def key(self, purpose: str) -> bytes:
        """A key of 256 bits for something that is done before the next step."""
        return derived_key(self.present, f"now: {purpose}", n_bytes=KEY_BYTES)

    def step(self) -> "StepKeys":
        """The keys of one step; the chain moves on, and cannot come back."""
        keys = StepKeys(derived_key(self.present, "step", n_bytes=KEY_BYTES))
        self.present = derived_key(self.present, "next", n_bytes=KEY_BYTES)
        return keys


class StepKeys:
    """What one step draws from."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def stream(self, purpose: str) -> Stream:
        """The random words of one purpose, always the same ones."""
        return Stream(derived_key(self._key, purpose, n_bytes=KEY_BYTES))

    def seed(self, purpose: str) -> int:
        """A seed of 63 bits for a generator of torch or NumPy, for what need not be secret."""
        return int.from_bytes(derived_key(self._key, purpose)[:8], "little") >> 1
