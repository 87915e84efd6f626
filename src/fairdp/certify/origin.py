"""What ties a certificate to its model and to its records."""

import math
from dataclasses import dataclass
from typing import Literal

# What the data holder vouches for about fresh records, because it was not or could not be checked.
UNUSED, UNUSED_UNCHECKED = "unused_as_far_as_equal_values_tell", "unused_unchecked"
NOT_CHOSEN_BY_TEST = "nothing_chosen_by_test_records"
EQUAL_ALLOWED = "equal_records_are_other_people"

# By group, label and decision.
NoisyCounts = tuple[tuple[tuple[int, ...], ...], ...]


@dataclass(frozen=True, kw_only=True)
class DecisionRule:
    """The rule that was certified, as `Predictor` has it; ``key_id`` names the key of its coins, which stays secret."""

    kind: str
    smoothing: float
    dilution: float
    constant: int
    flips: tuple[tuple[float, float], ...] | None
    key_id: str | None

    @property
    def tosses_coins(self) -> bool:
        """Whether two people with the same record may get different decisions."""
        return self.kind != "deterministic" or self.dilution > 0 or self.flips is not None


@dataclass(frozen=True, kw_only=True)
class HeldOutRecords:
    """Records that a keyed coin for each held out of training: which fraction, and at which look they were counted.

    Of several looks, ``met`` has the noisy counts of the earlier ones, all of which met what is required, and
    ``missed`` those of the next, which did not and ended training; None if there was none.
    """

    fraction: float
    look: int
    met: tuple[NoisyCounts, ...] = ()
    missed: NoisyCounts | None = None
    kind: Literal["held_out"] = "held_out"


@dataclass(frozen=True, kw_only=True)
class EarlierCertificate:
    """What an earlier certificate of the same model claimed."""

    confidence: float
    epsilon: float
    tau: dict[str, float]


def share_of_alpha(number: int, of: int) -> float:
    r"""The part of α that certificate k of N spends, so that all of them hold together; N = 0: there is no last one.

    :math:`1 / N`, or :math:`6 / (\pi k)^2`; all parts together are at most one.
    """
    return 1 / of if of else 6 / (math.pi * number) ** 2


@dataclass(frozen=True, kw_only=True)
class FreshRecords:
    """Records that came after training.

    Parameters
    ----------
    group_sizes
        Whether their group sizes are ``"public"``, or ``"noisy"``: counted with noise.
    sizes_epsilon
        Pure ε that these counts cost.
    earlier
        What earlier certificates claimed, oldest first: picking the best of several would void them.
    assumed
        Codes of what the data holder vouches for; nothing in them depends on records.
    series
        Which of how many certificates that hold together this is; zero for a series without end. None: one by itself.
    """

    group_sizes: str
    sizes_epsilon: float
    earlier: tuple[EarlierCertificate, ...]
    assumed: tuple[str, ...]
    series: tuple[int, int] | None = None
    kind: Literal["fresh"] = "fresh"


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The model and the records that a certificate is about.

    Parameters
    ----------
    model_sha256
        Digest of the certified parameters.
    smoothing
        How the model is smoothed over its parameters, if it is.
    noise_seeded
        Whether the noise on the counts came from a fixed seed.
    """

    model_sha256: str
    predictor: DecisionRule
    smoothing: dict[str, object] | None
    records: HeldOutRecords | FreshRecords
    noise_seeded: bool

    @property
    def earlier(self) -> tuple[EarlierCertificate, ...]:
        """Earlier certificates of the model, as far as this one names them."""
        return self.records.earlier if isinstance(self.records, FreshRecords) else ()
