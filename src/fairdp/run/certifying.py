"""The certificate of a trained model on records that it has not seen."""

from collections.abc import Iterable
from dataclasses import asdict, replace

import numpy as np
from numpy.typing import NDArray

from fairdp.accounting.spent import PrivacySpent
from fairdp.certify.certificate import Certificate, NotCertified, certify
from fairdp.certify.origin import HeldOutRecords, Origin
from fairdp.certify.release import release_counts
from fairdp.config.certificate import SMALLEST_EPSILON, Registration
from fairdp.config.training import TrainConfig
from fairdp.data.grouped import GroupedData
from fairdp.methods import METHODS
from fairdp.methods.postprocessing import fair_flips
from fairdp.metrics.rates import decision_counts
from fairdp.networks.models import ScoreModel
from fairdp.randomness import Generators, RandBelow
from fairdp.run.hold_out import Parts
from fairdp.run.predictor import Predictor
from fairdp.run.settings import RunSettings


def count_decisions(
    model: ScoreModel, predictor: Predictor, batches: Iterable[GroupedData], n_groups: int, coin_key: bytes
) -> NDArray[np.int64]:
    """Records per group, label and decision, exactly: still private.

    Each record has a coin of its own, even where two are equal: that is what makes the counts binomial. Unlike the
    predictor's, the key of these coins stays secret: with a known key, the removal of one record would be seen in the
    coins of all that come after it.
    """
    coins = np.random.default_rng(int.from_bytes(coin_key, "little"))
    counts = np.zeros((n_groups, 2, 2), dtype=np.int64)
    for batch in batches:
        decisions = (coins.random(batch.n_samples) < predictor.chances(model, batch.X, groups=batch.groups)).astype(
            np.int64
        )
        counts += decision_counts(batch.y, decisions, batch.groups, n_groups)
    return counts


def release_certificate(
    counts: NDArray[np.int64],
    *,
    group_names: tuple[str, ...],
    registration: Registration,
    epsilons: tuple[float, ...],
    expected_sizes: tuple[float, ...],
    rand_below: RandBelow,
) -> Certificate:
    """Add noise to the counts of one look and bound the gaps.

    Parameters
    ----------
    counts
        Decisions on records that neither training nor an earlier certificate has seen.
    epsilons
        Pure ε that a record of each group may spend over all the looks that were registered.
    """
    own = tuple(epsilon / registration.n_looks for epsilon in epsilons)
    return certify(
        release_counts(counts, epsilon=own, rand_below=rand_below),
        epsilon=epsilons,
        group_names=group_names,
        expected_sizes=expected_sizes,
        **asdict(registration),
    )


class Looks:
    """The looks at the held-out records: one at the end, or several while training goes on, all paid for."""

    def __init__(
        self,
        model: ScoreModel,
        settings: RunSettings,
        parts: Parts,
        privacy: PrivacySpent,
        generators: Generators,
    ) -> None:
        self.model, self.settings, self.parts, self.privacy = model, settings, parts, privacy
        self.generators = generators
        self.certificate: Certificate | None = None
        self.look = 0
        self.predictor = settings.predictor
        tosses = self.predictor.tosses_coins or settings.certification.target_tau is not None
        if tosses or METHODS[settings.method].post_processes:
            self.predictor = replace(self.predictor, key=generators.key("people").hex())

    def post_process(self, epsilon: float, config: TrainConfig) -> None:
        """Change decisions by group so that the rates agree, from a noisy count of those about the training records."""
        train = self.parts.train
        coins = self.generators.key("coins of the histogram")
        counts = count_decisions(self.model, self.predictor, [train], train.n_groups, coins)
        if epsilon:
            # As with the looks: a seed that is used again meets other counts with other noise.
            noise = self.generators.below(f"histogram of {counts.tolist()}")
            counts = release_counts(counts, epsilon=epsilon, rand_below=noise)
        flips = fair_flips(
            counts,
            parity=config.parity,
            max_gap=config.max_gap,
            min_ratio=config.min_ratio,
            positive_rate=config.positive_rate,
        )
        self.predictor = replace(self.predictor, flips=tuple((no, yes) for no, yes in flips.tolist()))

    def enough(self, step: int) -> bool:
        """Look at the model in mid-training, where a look was registered; true if the required bound is met.

        Training records do not depend on the held-out ones, so every look but the one that ends training finds the
        model that it would have found anyway, and the failure probabilities of the looks add up.
        """
        n_looks, n_steps = self.settings.certification.registration.n_looks, self.privacy.n_steps
        steps = {n_steps * look // n_looks: look for look in range(1, n_looks)}
        if step not in steps or not self.parts.fraction:
            return False
        certificate = self._look(steps[step])
        if certificate.met:
            self.certificate = certificate
        return certificate.met

    def result(self) -> tuple[Predictor, Certificate | NotCertified]:
        """The rule to deploy and its certificate, diluted to the target if one was set."""
        reason = self.settings.reason_for_no_certificate(self.parts.held_out.n_groups)
        if reason:
            return self.predictor, NotCertified(reason)
        registration, target = self.settings.certification.registration, self.settings.certification.target_tau
        certificate = self.certificate or self._look(registration.n_looks)
        predictor = self.predictor
        if target is not None:
            certificate = certificate.diluted(target)
            assert certificate.dilution is not None
            predictor = replace(predictor, dilution=certificate.dilution.share, constant=certificate.dilution.constant)
        about = Origin(
            model_sha256=self.model.digest(),
            predictor=predictor.described(),
            smoothing=self.model.described_smoothing(),
            records=HeldOutRecords(fraction=self.parts.fraction, look=self.look),
            noise_seeded=self.generators.seeded,
        )
        return predictor, replace(certificate, about=about)

    def _look(self, look: int) -> Certificate:
        names = self.parts.held_out.group_names
        coins, epsilons = self.generators.key("coins"), tuple(self.privacy.certify_epsilons[name] for name in names)
        counts = count_decisions(self.model, self.predictor, [self.parts.held_out], len(names), coins)
        certificate = release_certificate(
            counts,
            group_names=names,
            registration=self.settings.certification.registration,
            epsilons=epsilons,
            expected_sizes=self.parts.expected_held_out,
            # Noise that follows from the counts too: a seed that is used again meets other counts with other noise.
            rand_below=self.generators.below(f"look {look} at {counts.tolist()} with {epsilons}"),
        )
        self.look = look
        return certificate.capped(self.predictor.input_agnostic_tau(self.model))


def check_certifiable(privacy: PrivacySpent, *, n_looks: int) -> None:
    """Refuse, before training, a group whose certification records may spend next to nothing on a look."""
    for name, epsilon in privacy.certify_epsilons.items():
        if epsilon / n_looks < SMALLEST_EPSILON:
            raise ValueError(
                f"group {name!r} spends an epsilon of {epsilon:.2g} only, too little to be certified with; use "
                "noise_allocation='per_group', or certify_fraction=0 for no certificate."
            )
