"""Everything that a run draws besides sampling and training noise, from one secret key.

A run that is resumed must draw the same split, the same noise on its counts and the same coins again: drawing them anew
would release the same counts twice. So each has a stream of its own that follows from the key and its purpose, by
BLAKE2b as a keyed generator. Without the key the streams cannot be told from chance.
"""

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from numbers import Integral

import numpy as np

from fairdp._checks import ParameterError

KEY_BYTES = 32

# Uniform whole number below its argument.
RandBelow = Callable[[int], int]


def derived_key(key: bytes, purpose: str, *, n_bytes: int = 16) -> bytes:
    """A key for one purpose; it tells nothing about the key that it is derived from, or about other purposes."""
    return hashlib.blake2b(purpose.encode(), key=key, digest_size=n_bytes).digest()


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


def _bernoulli_exp(exponent: Fraction, rand_below: RandBelow) -> bool:
    """True with probability exp(−exponent), for an exponent in [0, 1] (same paper, Algorithm 1)."""
    trials = 1
    while rand_below(exponent.denominator * trials) < exponent.numerator:
        trials += 1
    return trials % 2 == 1


@dataclass(frozen=True, kw_only=True)
class Generators:
    """Sources of chance of a run, from the operating system or, for experiments, from a seed.

    ``run_key`` is the secret of everything that is drawn besides sampling, training noise and the start: the split, the
    noise on counts, the coins.
    """

    sampling: np.random.Generator
    noise: np.random.Generator
    start: np.random.Generator
    run_key: bytes = field(repr=False)
    seeded: bool

    @classmethod
    def of(cls, seed: int | None) -> "Generators":
        """Independent streams; without a seed each starts from the operating system's entropy."""
        sampling, noise, start, keys = (np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(4))
        key = secrets.token_bytes(KEY_BYTES) if seed is None else keys.bytes(KEY_BYTES)
        return cls(sampling=sampling, noise=noise, start=start, run_key=key, seeded=seed is not None)

    def below(self, purpose: str) -> RandBelow:
        """Whole numbers for one purpose, the same whenever this run asks for them."""
        return keyed_below(self.run_key, purpose)

    def key(self, purpose: str) -> bytes:
        """A key of 128 bits for one purpose."""
        return derived_key(self.run_key, purpose)


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
