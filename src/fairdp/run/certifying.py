"""The certificate of a trained model, on records it has not seen."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace

import numpy as np
import torch
from numpy.typing import NDArray

from fairdp.certify.certificate import Certificate, NotCertified, certify
from fairdp.certify.origin import HeldOutRecords, Origin
from fairdp.certify.release import release_counts
from fairdp.certify.scores import binned, release_scores
from fairdp.config.preregistration import Preregistration
from fairdp.data.grouped import GroupedData
from fairdp.methods.postprocessing import fair_flips
from fairdp.metrics.rates import decision_counts
from fairdp.networks.models import ScoreModel
from fairdp.randomness import RandBelow
from fairdp.run.predictor import Predictor
from fairdp.run.prepared import PreparedRun
from fairdp.streams import KEY_BYTES, Stream, derived_key
from fairdp.team import the_team
from fairdp.training.state import Looked


def count_decisions(
    model: ScoreModel,
    predictor: Predictor,
    batches: Iterable[GroupedData],
    n_groups: int,
    coin_key: bytes,
    *,
    n_before: int = 0,
) -> NDArray[np.int64]:
    """Exact numbers of records by group, label and decision: still private.

    ``n_before`` records before these have had their coins.

    Each record has a coin of its own, even where two are equal: that is what makes the counts binomial. Unlike the
    predictor's, the key of these coins stays secret: with a known key, the removal of one record would be seen in the
    coins of all that come after it.
    """
    coins = Stream(derived_key(coin_key, "decisions", n_bytes=KEY_BYTES))
    coins.words(n_before)
    counts = np.zeros((n_groups, 2, 2), dtype=np.int64)
    for batch in batches:
        chances = predictor.chances(model, batch.inputs, groups=batch.groups)
        decisions = (coins.uniforms(batch.n_samples) < chances).astype(np.int64)
        counts += decision_counts(batch.y, decisions, batch.groups, n_groups)
    return counts


def _count_together(model: ScoreModel, predictor: Predictor, data: GroupedData, coin_key: bytes) -> NDArray[np.int64]:
    """The same for all of these records, of which each process of a team counts its share."""
    team, n_groups = the_team(), len(data.group_names)
    if team.size == 1:
        return count_decisions(model, predictor, data.batches(), n_groups, coin_key)
    here = data.share(team.rank, team.size)
    counts = count_decisions(model, predictor, data.take(here).batches(), n_groups, coin_key, n_before=here.start)
    return team.added(counts)


class ScoreTally:
    """Exact numbers of records by group, label and bin of the model's score, counted as batches pass: still private."""

    def __init__(self, model: ScoreModel, n_groups: int) -> None:
        self._model = model
        none = np.empty(0, dtype=np.int64)
        self.counts = binned(np.empty(0), none, none, n_groups)

    def passing(self, batches: Iterable[GroupedData]) -> Iterator[GroupedData]:
        """The same batches; each is counted when it is asked for, so that records need to be read only once."""
        for batch in batches:
            scores = self._model.probabilities(
                torch.from_numpy(np.require(batch.inputs, np.float32, ["C", "W"]))
            ).numpy()
            self.counts += binned(scores, batch.y, batch.groups, len(self.counts))
            yield batch


def release_certificate(
    counts: NDArray[np.int64],
    *,
    group_names: tuple[str, ...],
    registration: Preregistration,
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
        Pure ε that a record of each group may spend in all: over the looks that were registered, and on scores.
    """
    return certify(
        release_counts(counts, epsilon=registration.per_look(epsilons), rand_below=rand_below),
        epsilon=epsilons,
        group_names=group_names,
        expected_sizes=expected_sizes,
        **asdict(registration),
    )


def look(prepared: PreparedRun, looked: Looked, predictor: Predictor) -> Certificate:
    """The next look at the held-out records: count the decisions of the current model, add noise, and bound the gaps.

    The model is kept if it meets what is required, and if it is the first.
    """
    held_out, generators = prepared.parts.held_out, prepared.generators
    names, number = held_out.group_names, len(looked.counts) + 1
    epsilons = tuple(prepared.privacy.certify_epsilons[name] for name in names)
    counts = _count_together(prepared.model, predictor, held_out, generators.key("coins"))
    certificate = release_certificate(
        counts,
        group_names=names,
        registration=prepared.settings.certification.registration,
        epsilons=epsilons,
        expected_sizes=prepared.parts.expected_held_out,
        # The noise depends on the counts too: with a reused seed, other counts get other noise.
        rand_below=generators.below(f"look {number} at {counts.tolist()} with {epsilons}"),
    )
    if certificate.met or number == 1:
        looked.kept = prepared.model.params.clone()
    looked.counts.append(certificate.counts)
    looked.missed = not certificate.met
    return certificate


def _last_kept(prepared: PreparedRun, predictor: Predictor, looked: Looked) -> tuple[int, Certificate]:
    """Number and certificate of the look whose model is deployed, which the model becomes; a last one if none missed.

    That is the last look that met what is required, or the first if that did not.
    """
    registration = prepared.settings.certification.registration
    certificate = None if looked.missed else look(prepared, looked, predictor)
    number = max(1, len(looked.counts) - looked.missed)
    if certificate is None or number < len(looked.counts):
        assert looked.kept is not None
        prepared.model.replace_params(looked.kept)
        names = prepared.parts.held_out.group_names
        certificate = certify(
            np.array(looked.counts[number - 1]),
            epsilon=tuple(prepared.privacy.certify_epsilons[name] for name in names),
            group_names=names,
            expected_sizes=prepared.parts.expected_held_out,
            **asdict(registration),
        )
    return number, certificate.capped(predictor.input_agnostic_tau(prepared.model))


def _with_scores(prepared: PreparedRun, certificate: Certificate) -> Certificate:
    """The certificate with counts of the deployed model's scores, released once, after the last look."""
    if not certificate.registration.score_share:
        return certificate
    tally = ScoreTally(prepared.model, len(certificate.group_names))
    held_out = prepared.parts.held_out
    for _ in tally.passing(held_out.take(held_out.share(the_team().rank, the_team().size)).batches()):
        pass
    counts = the_team().added(tally.counts)
    epsilons = certificate.registration.for_scores(certificate.epsilons)
    # As with a look: with a reused seed, other counts get other noise.
    noise = prepared.generators.below(f"scores {counts.tolist()} with {epsilons}")
    return replace(certificate, scores=release_scores(counts, epsilons=epsilons, rand_below=noise))


def post_processed(prepared: PreparedRun) -> Predictor:
    """The rule that changes decisions by group until the rates agree, from noisy counts of the training records."""
    train, generators, config = prepared.parts.train, prepared.generators, prepared.config
    if train.n_groups == 1 and config.positive_rate is None:
        # Nobody to agree with: decisions stay as they are, and nothing is counted.
        return replace(prepared.predictor, flips=((0.0, 1.0),))
    coins, epsilon = generators.key("coins of the histogram"), prepared.privacy.histogram_epsilon
    counts = _count_together(prepared.model, prepared.predictor, train, coins)
    if epsilon:
        # As with a look: with a reused seed, other counts get other noise.
        noise = generators.below(f"histogram of {counts.tolist()}")
        counts = release_counts(counts, epsilon=epsilon, rand_below=noise, purpose="histogram")
    flips = fair_flips(
        counts,
        parity=config.parity,
        max_gap=config.max_gap,
        min_ratio=config.min_ratio,
        positive_rate=config.positive_rate,
    )
    return replace(prepared.predictor, flips=tuple((no, yes) for no, yes in flips.tolist()))


def certified(
    prepared: PreparedRun, predictor: Predictor, looked: Looked
) -> tuple[Predictor, Certificate | NotCertified]:
    """The rule to deploy, diluted to the target if one was set, and its certificate."""
    settings, parts = prepared.settings, prepared.parts
    reason = settings.reason_for_no_certificate(parts.held_out.n_groups)
    if reason:
        return predictor, NotCertified(reason)
    number, certificate = _last_kept(prepared, predictor, looked)
    certificate = _with_scores(prepared, certificate)
    if settings.certification.target_tau is not None:
        certificate = certificate.diluted(settings.certification.target_tau)
        assert certificate.dilution is not None
        predictor = replace(predictor, dilution=certificate.dilution.share, constant=certificate.dilution.constant)
    about = Origin(
        model_sha256=prepared.model.digest(),
        predictor=predictor.described(),
        smoothing=prepared.model.described_smoothing(),
        records=HeldOutRecords(
            fraction=parts.fraction,
            look=number,
            met=tuple(looked.counts[: number - 1]),
            missed=next(iter(looked.counts[number:]), None),
        ),
        noise_seeded=prepared.generators.seeded,
    )
    return predictor, replace(certificate, about=about)
