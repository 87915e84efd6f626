"""Integer noise for counts, sampled exactly: no floating point between the random bits and the result."""

from fractions import Fraction

from fairdp.keys import RandBelow


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
