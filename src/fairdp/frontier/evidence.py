"""What paid counts say about a deployed rule, with all their errors: those of a certificate, or those of a sketch."""

import math
from dataclasses import dataclass, replace

import numpy as np

from fairdp.certify.certificate import Certificate
from fairdp.certify.noise import noise_variance
from fairdp.frontier.curve import Frontier
from fairdp.frontier.events import Events, Floats
from fairdp.frontier.ranking import Chance, Estimate

NO_CHANCE = Chance(auc=0.5, gain=0.0)
HELD_OUT, TRAINING = "held-out records", "training records"


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """Estimates about one rule; errors hold the noise and the draw of the records.

    Parameters
    ----------
    counted_on
        Which records were counted.
    rates, errors
        Rate of each event that is compared, and its standard error, shape (n_events,).
    gains
        Accuracy less that of deciding always no, and always yes.
    separation
        Ranking by the decisions alone, (1 + true-positive rate - false-positive rate) / 2: a coin has one half.
    auc
        Ranking by the probabilities, counted on training records; None where it was not counted.
    chance
        What the model would seem to be worth on its training records, were their labels drawn at random.
    n_claims
        How many models were looked at before this one was kept, on average.
    """

    counted_on: str
    events: Events
    rates: Floats
    errors: Floats
    accuracy: Estimate
    gains: tuple[Estimate, Estimate]
    separation: Estimate
    base_rate: float
    positive_rate: float
    auc: Estimate | None
    chance: Chance = NO_CHANCE
    n_claims: float = 1.0

    @property
    def majority_accuracy(self) -> float:
        """Accuracy of the better constant decision."""
        return max(self.base_rate, 1 - self.base_rate)


@dataclass(frozen=True, eq=False)
class _Cells:
    """Positive and negative decisions of each cell, 2 a + y, and the variance of their noise."""

    positive: Floats
    negative: Floats
    positive_noise: Floats
    negative_noise: Floats

    def of(self, members: Floats) -> tuple[Floats, Floats]:
        """Rate of each row of members, and its standard error by noise and sampling."""
        yes, no = np.maximum(members @ self.positive, 0.0), np.maximum(members @ self.negative, 0.0)
        noise_yes, noise_no = members @ self.positive_noise, members @ self.negative_noise
        size = np.maximum(yes + no, 1.0)
        rate = yes / size
        # Two more of each decision, as Agresti and Coull (1998): no rate is certain because it is zero.
        fuller = (yes + 2) / (size + 4)
        noise = ((1 - rate) ** 2 * noise_yes + rate**2 * noise_no) / size**2
        return rate, np.sqrt(fuller * (1 - fuller) / (size + 4) + noise)

    def gain(self, decision: int) -> Estimate:
        """Accuracy less that of a constant decision: only those who are decided otherwise count."""
        other, noise = (self.positive, self.positive_noise) if decision == 0 else (self.negative, self.negative_noise)
        right, wrong = float(other[1 - decision :: 2].sum()), float(other[decision::2].sum())
        size = max(float((self.positive + self.negative).sum()), 1.0)
        value = (right - wrong) / size
        spread = max(right, 0.0) + max(wrong, 0.0) + 1.0 + float(noise.sum())
        return Estimate(value, math.sqrt(max(spread - value**2 * size, 1.0)) / size)

    def evidence(self, counted_on: str, events: Events, auc: Estimate | None, n_claims: float) -> Evidence:
        rates, errors = self.of(events.members)
        n_cells = len(self.positive)
        label = np.arange(n_cells) % 2
        (false, true), (false_error, true_error) = self.of(np.vstack([label == 0, label == 1]).astype(np.float64))
        # Right and wrong decisions in place of positive and negative ones.
        right = _Cells(
            np.where(label == 1, self.positive, self.negative),
            np.where(label == 1, self.negative, self.positive),
            np.where(label == 1, self.positive_noise, self.negative_noise),
            np.where(label == 1, self.negative_noise, self.positive_noise),
        )
        everybody = np.ones((1, n_cells))
        (accuracy,), (accuracy_error,) = right.of(everybody)
        (positive_rate,), _ = self.of(everybody)
        sizes = np.maximum(self.positive + self.negative, 0.0)
        return Evidence(
            counted_on=counted_on,
            events=events,
            rates=rates,
            errors=errors,
            accuracy=Estimate(float(accuracy), float(accuracy_error)),
            gains=(self.gain(0), self.gain(1)),
            separation=Estimate(float(1 + true - false) / 2, math.hypot(true_error, false_error) / 2),
            base_rate=float(sizes[1::2].sum() / max(sizes.sum(), 1.0)),
            positive_rate=float(positive_rate),
            auc=auc,
            n_claims=n_claims,
        )


def certified_evidence(certificate: Certificate, parity: str, auc: Estimate | None = None) -> Evidence:
    """What a certificate's counts of held-out records say."""
    counts, looks = np.array(certificate.counts, dtype=np.float64), certificate.registration.n_looks
    negative, positive = counts[..., 0].ravel(), counts[..., 1].ravel()
    noise = np.repeat([noise_variance(epsilon) for epsilon in certificate.epsilons_of_a_look], 2)
    if certificate.dilution is not None:
        share, constant = certificate.dilution.share, certificate.dilution.constant
        total = positive + negative
        positive = (1 - share) * positive + share * constant * total
        negative = total - positive
    cells = _Cells(positive, negative, noise, noise)
    n_claims = looks * certificate.registration.expected_trials
    return cells.evidence(HELD_OUT, Events(parity, len(counts)), auc, n_claims)


def sketched_evidence(frontier: Frontier, position: float) -> Evidence:
    """What a frontier says of the rule at a position: the training records, counted with noise."""
    positive = np.array([frontier.at(row, position) for row in frontier.counts])
    noise = np.full(len(positive), frontier.at(frontier.count_variances, position))
    # Negative decisions are what is left of the sizes, which are noisy too.
    cells = _Cells(positive, frontier.sizes - positive, noise, noise + frontier.cells_std**2)
    plain = cells.evidence(TRAINING, frontier.events, frontier.auc, 1.0)
    rates = np.array([frontier.at(row, position) for row in frontier.compared])
    errors = np.array([frontier.at(row, position) for row in frontier.rates[1]])
    sizes = frontier.events.sizes(frontier.sizes)
    likely = ((rates.clip(0, 1) * sizes + 2) / (sizes + 4)).clip(0, 1)
    return replace(plain, rates=rates, errors=np.sqrt(errors**2 + likely * (1 - likely) / (sizes + 4)))
