"""What the best attack on one record can reach, by the part that the record was in, and in one sentence."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairdp.accounting.mechanisms import reading_epsilon
from fairdp.accounting.spent import PrivacySpent
from fairdp.certify.certificate import Certificate, NotCertified
from fairdp.certify.origin import FreshRecords
from fairdp.report.risk import FALSE_POSITIVE_RATES, PrivacyCurve, curve_of, pure_curve, selected_curve, worst_of

# False-positive rates at which a curve is drawn: close together where it is steep.
_DRAWN = np.unique(np.concatenate([np.geomspace(1e-4, 0.02, 20), np.linspace(0.02, 1, 99)]))


@dataclass(frozen=True, kw_only=True)
class Exposure:
    """What the best attack on one kind of record can reach: bounds, never estimates.

    Parameters
    ----------
    who
        The records it is about.
    epsilon
        What such a record spent.
    true_positive_rates
        Bounds at ``FALSE_POSITIVE_RATES``.
    drawn
        Points of the bound, false-positive rate and true-positive rate, for a picture.
    """

    who: str
    epsilon: float
    advantage: float
    true_positive_rates: tuple[float, ...]
    drawn: tuple[tuple[float, float], ...]


def risk_in_a_sentence(exposures: Sequence[Exposure]) -> str:
    """The bound at the smallest false-positive rate, of the part where it is weakest, as a number of people."""
    false = FALSE_POSITIVE_RATES[0]
    found = math.ceil(1e4 * max(exposure.true_positive_rates[0] for exposure in exposures) - 1e-9) / 10
    return (
        f"at one false alarm in {1 / false:,.0f}, no attack recognises more than {found:g} of 1,000 people whose "
        f"record was used, on average, whatever it knows; blind guessing recognises {1000 * false:g}"
    )


def exposures_of(privacy: PrivacySpent, certificate: Certificate | NotCertified) -> list[Exposure]:
    """Records trained on, held out for the certificate, or counted for a later one; each record is one of these."""
    chosen = privacy.selection
    if chosen is not None:
        # Held out or trained on: the choice between the trials is accounted for both at once.
        found = [_exposure("in any trial", privacy.epsilon, [selected_curve(chosen, name) for name in chosen.by_group])]
    else:
        curves = [curve_of(mechanism) for mechanism in dict.fromkeys(privacy.mechanisms.values())]
        trained = [curve for curve in curves if curve is not None]
        if len(trained) < len(curves):
            return []
        found = [_exposure("trained on", privacy.epsilon, trained)]
        if privacy.certify_epsilons:
            spent = max(privacy.certify_epsilons.values())
            both = spent + reading_epsilon(privacy.reading, privacy.delta)
            found.append(_exposure("held out", both, [pure_curve(spent, privacy.reading)]))
    about = certificate.about if isinstance(certificate, Certificate) else None
    if isinstance(certificate, Certificate) and about is not None and isinstance(about.records, FreshRecords):
        spent = certificate.epsilon + about.records.sizes_epsilon
        found.append(_exposure("of the later certificate", spent, [pure_curve(spent)]))
    return found


def _exposure(who: str, epsilon: float, curves: list[PrivacyCurve]) -> Exposure:
    stated, drawn = (worst_of(curves, np.array(rates)) for rates in (FALSE_POSITIVE_RATES, _DRAWN))
    return Exposure(
        who=who,
        epsilon=epsilon,
        advantage=max(curve.advantage for curve in curves),
        true_positive_rates=tuple(stated.tolist()),
        drawn=((0.0, float(worst_of(curves, np.zeros(1))[0])), *zip(_DRAWN.tolist(), drawn.tolist(), strict=True)),
    )
