"""The secret keys of a run, and exact discrete noise.

A run that is resumed must draw the same split, the same noise and the same coins again: drawing them anew would release
the same counts twice. So each has a stream of its own that follows from a key and its purpose. Without the key the
streams cannot be told from chance.
"""

import hashlib
import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from numbers import Integral

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from numpy.typing import NDArray

from fairdp.distributed import process_group
from fairdp.errors import ParameterError

KEY_BYTES = 32
# A key is never used twice, so that all streams may start their counters at zero.
_START = bytes(16)
# Uniform whole number below its argument.
RandBelow = Callable[[int], int]


@dataclass(frozen=True, kw_only=True)
class Generators:
    """Sources of chance of a run, from the operating system or, for experiments, from a seed.

    Parameters
    ----------
    lasting_key
        Secret of what stays the same for the whole run and is no noise: the split, people's coins, the start.
    steps
        Keys of everything else, sampling and all noise: they follow the steps and cannot be run backwards.
    """

    lasting_key: bytes = field(repr=False)
    steps: "Chain"
    seeded: bool

    @classmethod
    def of(cls, seed: int | None) -> "Generators":
        """Independent keys; without a seed they come from the operating system of rank zero."""
        root = (
            process_group().from_rank_zero(lambda: secrets.token_bytes(KEY_BYTES)) if seed is None else _root_of(seed)
        )
        lasting, first = (derived_key(root, purpose, n_bytes=KEY_BYTES) for purpose in ("lasting", "steps"))
        return cls(lasting_key=lasting, steps=Chain(first), seeded=seed is not None)

    def below(self, purpose: str) -> RandBelow:
        """Whole numbers for one purpose at this point of the run, the same whenever it is asked at this point."""
        return keyed_below(self.steps.key(purpose), purpose)

    def key(self, purpose: str) -> bytes:
        """A key of 128 bits for one purpose of the whole run."""
        return derived_key(self.lasting_key, purpose)

    @property
    def start_seed(self) -> int:
        """Seed of the initial weights, which are public."""
        return int.from_bytes(self.key("start")[:8], "little") >> 1


def seed_of(random_state: int | np.random.RandomState | np.random.Generator | None) -> int | None:
    """The seed that a user's random state stands for; None means the operating system's entropy."""
    if random_state is None:
        return None
    if isinstance(random_state, (np.random.RandomState, np.random.Generator)):
        # As many bits as the operating system would give: 31 could be tried one by one.
        return int.from_bytes(random_state.bytes(16), "little")
    if not isinstance(random_state, Integral) or random_state < 0:
        raise ParameterError("random_state", random_state, "must be None or a whole number of at least 0")
    return int(random_state)


def _root_of(seed: int) -> bytes:
    n_bytes = (seed.bit_length() + 7) // 8
    return hashlib.blake2b(seed.to_bytes(n_bytes, "little"), digest_size=KEY_BYTES, person=b"fairdp seed").digest()


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
    """The keys that one step draws from."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def stream(self, purpose: str) -> Stream:
        """The random words of one purpose, always the same ones."""
        return Stream(derived_key(self._key, purpose, n_bytes=KEY_BYTES))

    def seed(self, purpose: str) -> int:
        """A seed of 63 bits for a generator of torch or NumPy, for what need not be secret."""
        return int.from_bytes(derived_key(self._key, purpose)[:8], "little") >> 1


def keyed_below(key: bytes, purpose: str) -> RandBelow:
    """Uniform whole numbers of any size for one purpose, always the same ones, by rejection."""
    purpose_key, n_blocks, pool = derived_key(key, purpose, n_bytes=KEY_BYTES), 0, b""

    def draw(below: int) -> int:
        nonlocal n_blocks, pool
        n_bits = (below - 1).bit_length()
        n_bytes = (n_bits + 7) // 8
        while True:
            while len(pool) < n_bytes:
                pool += hashlib.blake2b(n_blocks.to_bytes(8, "little"), key=purpose_key).digest()
                n_blocks += 1
            value = int.from_bytes(pool[:n_bytes], "little") & ((1 << n_bits) - 1)
            pool = pool[n_bytes:]
            if value < below:
                return value

    return draw


def discrete_laplace(epsilon: float, rand_below: RandBelow) -> int:
    r"""Noise with :math:`\Pr(X = x) \propto e^{-\varepsilon |x|}`: makes a count of sensitivity one ε-private.

    Epsilon is taken at its exact binary value.

    References
    ----------
    Canonne, Kamath, Steinke (2020), The Discrete Gaussian for Differential Privacy, Algorithm 2.
    """
    rate = Fraction(epsilon)
    scale, step = rate.denominator, rate.numerator
    while True:
        remainder = rand_below(scale)
        if not _bernoulli_exp(Fraction(remainder, scale), rand_below):
            continue
        wholes = 0
        while _bernoulli_exp(Fraction(1), rand_below):
            wholes += 1
        magnitude = (remainder + scale * wholes) // step
        negative = rand_below(2) == 1
        if not (negative and magnitude == 0):
            return -magnitude if negative else magnitude


def discrete_gaussian(sigma: float, rand_below: RandBelow) -> int:
    r"""Noise with :math:`\Pr(X = x) \propto e^{-x^2 / (2 \sigma^2)}`: makes counts :math:`1 / (2 \sigma^2)`-zCDP.

    Sigma is taken at its exact binary value. A draw of discrete Laplace noise :math:`y` of rate :math:`r` is kept with
    probability :math:`e^{-(|y| - r \sigma^2)^2 / (2 \sigma^2)}`, which makes its law the wanted one for any r.

    References
    ----------
    Canonne, Kamath, Steinke (2020), The Discrete Gaussian for Differential Privacy, Algorithm 3.
    """
    variance, rate = Fraction(sigma) ** 2, 1 / (math.floor(sigma) + 1)
    while True:
        drawn = discrete_laplace(rate, rand_below)
        exponent = (abs(drawn) - Fraction(rate) * variance) ** 2 / (2 * variance)
        wholes = math.floor(exponent)
        if all(_bernoulli_exp(Fraction(1), rand_below) for _ in range(wholes)) and _bernoulli_exp(
            exponent - wholes, rand_below
        ):
            return drawn


def _bernoulli_exp(exponent: Fraction, rand_below: RandBelow) -> bool:
    """True with probability exp(−exponent), for an exponent in [0, 1] (same paper, Algorithm 1)."""
    trials = 1
    while rand_below(exponent.denominator * trials) < exponent.numerator:
        trials += 1
    return trials % 2 == 1
