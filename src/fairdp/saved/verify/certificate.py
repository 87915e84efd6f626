"""Tau of a saved model, computed again from the recorded counts.

How the failure probability is shared, how counts form arms and what a sequence of tests may claim is worked out here a
second time; only the pure bounds are shared with the code that made the certificate.
"""

import json
import math
from collections.abc import Iterator, Mapping

from fairdp._files import json_bytes, to_plain
from fairdp.accounting.account import FRESH_SIZES_SHARE
from fairdp.accounting.words import NOISY, PUBLIC, PUBLISHED
from fairdp.certify.arms import NoisyArm
from fairdp.certify.gaps import GapBound, gap_bound, uses_score_box
from fairdp.certify.gaussian import input_agnostic_bound
from fairdp.certify.origin import UNUSED, UNUSED_UNCHECKED, FreshRecords, HeldOutRecords, NoisyCounts
from fairdp.certify.record import CertificateRecord, NoCertificateRecord, certificate_record
from fairdp.data.schema import TableSchema
from fairdp.methods import METHODS
from fairdp.saved.verify.check import SAME, Check, Recorded, equal, same
from fairdp.saved.verify.counts import counts_check, epsilon_of_a_look
from fairdp.saved.verify.rule import is_moved
from fairdp.saved.verify.scores import scores_check

# Shares of the failure probability and the rates of each metric, written down a second time.
_SHARES = {"positive": 0.2, "true_positive": 0.6, "false_positive": 0.2}
_RATES = {
    "demographic_parity": ("positive",),
    "equal_opportunity": ("true_positive",),
    "equalized_odds": ("true_positive", "false_positive"),
}


def certificate_checks(recorded: Recorded, certificate: CertificateRecord) -> Iterator[Check]:
    """All checks of a certificate that makes a claim."""
    yield _certificate_epsilon(recorded, certificate)
    yield _records(recorded, certificate)
    yield counts_check(recorded, certificate)
    yield scores_check(certificate)
    yield _registration(recorded, certificate)
    yield _levels(certificate)
    yield _looks(certificate)
    yield from _taus(recorded, certificate)


def statement_check(certificate: CertificateRecord | NoCertificateRecord) -> Check:
    """That the words, and the estimates beside them, say what the numbers say."""
    written, stated = (
        json.loads(json_bytes(record)) for record in (certificate_record(certificate.certificate()), certificate)
    )
    passed = all(
        stated.get(name) == written.get(name) for name in ("statement", "estimates", "definitions", "dilution")
    )
    return Check("statement", passed, "says what was computed." if passed else "does not say what was computed.")


def _certificate_epsilon(recorded: Recorded, certificate: CertificateRecord) -> Check:
    """That certification records spent what is recorded: for held-out ones, what the privacy record says."""
    privacy, epsilons = recorded.privacy, certificate.epsilon_by_group
    held_out = isinstance(certificate.about.records, HeldOutRecords)
    wrong = [] if equal(certificate.epsilon, max(epsilons.values())) else ["the total is not the largest"]
    for group, epsilon in privacy.certify_epsilons.items():
        # A held-out record spends no more than a training record of its group, whatever was planned.
        spent = min(privacy.epsilon_by_group[cell] for cell in recorded.cells_of(group))
        if epsilon > spent * (1 + SAME):
            wrong.append(f"{group}: {epsilon:.6g} held out, {spent:.6g} in training")
    if held_out:
        planned = privacy.certify_epsilons
        wrong += [
            f"{group}: {epsilon:.6g}" for group, epsilon in epsilons.items() if not equal(planned.get(group), epsilon)
        ]
    if isinstance(certificate.about.records, HeldOutRecords):
        whose = "within what the model states"
    else:
        sizes = certificate.about.records.sizes_epsilon
        whose = f"spent by the fresh records, beside {sizes:.6g} for the sizes of groups"
    found = "; ".join(wrong) if wrong else f"pure {certificate.epsilon:.6g}, {whose}"
    return Check("certificate's epsilon", not wrong, f"{found}.")


def _records(recorded: Recorded, certificate: CertificateRecord) -> Check:
    """That records are labelled correctly: held out by the run, or fresh with every earlier certificate listed."""
    records = certificate.about.records
    if isinstance(records, HeldOutRecords):
        passed = _held_out_as_planned(recorded, certificate, records)
        found = "held out by a keyed coin for each record"
    else:
        passed, found = _fresh_as_stated(recorded, certificate.epsilon, records), "fresh records"
    return Check("certificate's records", passed, f"{found}{'' if passed else ': contradicted'}.")


def _held_out_as_planned(recorded: Recorded, certificate: CertificateRecord, records: HeldOutRecords) -> bool:
    """Also that the expected sizes, which chose the constructions, follow from the recorded sizes."""
    privacy, fraction = recorded.privacy, recorded.privacy.certify_fraction
    share, cells = fraction / (1 - fraction), privacy.planned_sizes
    expected = [share * math.fsum(cells[cell] for cell in recorded.cells_of(group)) for group in recorded.model.groups]
    return (
        records.fraction == fraction != 0
        and certificate.about.noise_seeded == privacy.noise_seeded
        and same(list(certificate.expected_sizes), expected)
    )


def _fresh_as_stated(recorded: Recorded, epsilon: float, records: FreshRecords) -> bool:
    privacy = recorded.privacy
    first = records.earlier[0] if records.earlier else None
    remembered = first is not None and equal(first.epsilon, max(privacy.certify_epsilons.values(), default=0.0))
    may_be = {PUBLIC} if privacy.group_sizes == PUBLIC else {NOISY}
    # The fresh records of a model of a published data set may be those of anybody.
    may_be |= {NOISY} if PUBLISHED in privacy.public_assumptions else set()
    spent = epsilon * FRESH_SIZES_SHARE / (1 - FRESH_SIZES_SHARE) if records.group_sizes == NOISY else 0.0
    return (
        # What was certified before a rule was moved was not about this one.
        (remembered or not privacy.certify_fraction or is_moved(recorded))
        and records.group_sizes in may_be
        and equal(records.sizes_epsilon, spent)
        and (records.series is None or 1 <= records.series[0] <= (records.series[1] or records.series[0]))
        # One or the other is always vouched for: that the records are fresh could at most be checked by equal values.
        and len({UNUSED, UNUSED_UNCHECKED} & {*records.assumed}) == 1
    )


def _registration(recorded: Recorded, certificate: CertificateRecord) -> Check:
    """That a certificate on held-out records claims what was fixed before training, no more and no less."""
    model, chosen, rule = recorded.model, recorded.model.parameters, recorded.model.predictor
    in_order = tuple(metric for metric in _RATES if metric in certificate.metrics)
    wrong = [] if certificate.metrics == in_order == tuple(certificate.gaps) else ["metrics"]
    if (rule.kind, rule.smoothing) != (chosen["predictor"], chosen["smoothing"]):
        wrong.append("predictor")
    method = METHODS[chosen["method"]]
    if (rule.flips is not None, model.smoothing is not None) != (method.post_processes, method.smooths):
        wrong.append("method")
    if model.smoothing is not None:
        drawn = (model.smoothing.deviation, model.smoothing.n_draws)
        wrong += [] if drawn == (chosen["parameter_noise"], chosen["n_draws"]) else ["smoothing"]
    if not is_planned(recorded):
        wrong.append("model")
    if isinstance(certificate.about.records, HeldOutRecords):
        wrong += _not_as_fixed(recorded, certificate)
    found = f"{', '.join(wrong)} is not what was fixed" if wrong else "claims what was fixed beforehand"
    return Check("registration", not wrong, f"{found}.")


def _not_as_fixed(recorded: Recorded, certificate: CertificateRecord) -> Iterator[str]:
    """What a certificate on held-out records changed from what was chosen before training."""
    chosen, selection = recorded.model.parameters, recorded.privacy.selection
    metrics = chosen["certify_metrics"] or list(_RATES)
    fixed = {
        "confidence": chosen["confidence"],
        "metrics": tuple(metric for metric in _RATES if metric in metrics),
        "require_tau": chosen["require_tau"],
        "n_looks": chosen["n_looks"],
        "score_share": chosen["score_share"],
        "expected_trials": selection.expected_trials if selection else 1.0,
    }
    yield from (name for name, value in fixed.items() if getattr(certificate, name) != value)
    if (certificate.dilution.target_tau if certificate.dilution else None) != chosen["target_tau"]:
        yield "target_tau"


def is_planned(recorded: Recorded) -> bool:
    """Whether the network, with its public maps of the inputs, is the one that settings and schema produce."""
    model, schema = recorded.model, recorded.model.feature_schema
    if model.model.kind == "custom":
        return model.model.bias == recorded.settings.bias
    columns = None if schema is None else TableSchema.from_dict(schema).encoded
    return same(
        to_plain(model.model), to_plain(recorded.settings.model_config(model.shape, columns, len(model.groups)))
    )


def _levels(certificate: CertificateRecord) -> Check:
    """That the events that may fail share exactly the failure probability that the confidence allows."""
    required = certificate.require_tau is not None
    # Looks for a required bound are tested in their order until one misses it: they share nothing.
    allowed = (1 - certificate.confidence) / certificate.expected_trials / (1 if required else certificate.n_looks)
    levels = [event.failure_probability for event in certificate.events.values()]
    # In a sequence, and for equalized odds alone, only one event can make a claim wrong.
    alone = required or certificate.metrics == ("equalized_odds",)
    spent = max(levels) if alone else math.fsum(levels)
    small = all(
        event.construction == ("score_box" if _is_small(certificate, kind) else "pair")
        for kind, event in certificate.events.items()
    )
    shares = {kind: 1.0 if alone else _SHARES[kind] for kind in certificate.events}
    total = 1.0 if alone else math.fsum(shares.values())
    planned = all(equal(level, allowed * share / total) for level, share in zip(levels, shares.values(), strict=True))
    passed = planned and small
    return Check("confidence", passed, f"events fail with probability {spent:.6g} of {allowed:.6g} allowed.")


def _is_small(certificate: CertificateRecord, kind: str) -> bool:
    sizes, share = certificate.expected_sizes, 1.0 if kind == "positive" else 0.1
    epsilons = [epsilon_of_a_look(certificate, group) for group in certificate.group_names]
    return any(uses_score_box(epsilon, share * size) for epsilon, size in zip(epsilons, sizes, strict=True))


def _looks(certificate: CertificateRecord) -> Check:
    """That looks went on while they met what is required, and the last of these is certified, or the first of all."""
    records, n_looks = certificate.about.records, certificate.n_looks
    if isinstance(records, FreshRecords):
        return Check("looks", n_looks == 1, f"{n_looks} at fresh records, which may be looked at once.")
    order, is_first = len(records.met) + 1 == records.look <= n_looks, records.look == 1
    kept = n_looks == 1 or _meets(certificate, certificate.counts)
    ended = records.look == n_looks or (is_first and not kept)
    if records.missed is not None:
        ended = kept and records.look < n_looks and not _meets(certificate, records.missed)
    passed = order and ended and (kept or is_first) and all(_meets(certificate, counts) for counts in records.met)
    found = f"look {records.look} of {n_looks}{'' if passed else ' is not the one that a fixed order keeps'}"
    return Check("looks", passed, f"{found}.")


def _meets(certificate: CertificateRecord, counts: NoisyCounts) -> bool:
    """Whether these counts meet what is required, of every metric."""
    required = certificate.require_tau
    return required is None or max(_bound(certificate, kind, counts).tau for kind in certificate.events) <= required


def _taus(recorded: Recorded, certificate: CertificateRecord) -> Iterator[Check]:
    bounds = {kind: _bound(certificate, kind, certificate.counts) for kind in certificate.events}
    worst = {
        metric: max((bounds[kind] for kind in _RATES[metric]), key=lambda bound: bound.tau)
        for metric in certificate.metrics
    }
    taus = {metric: bound.tau for metric, bound in worst.items()}
    ratio = bounds["positive"].ratio if "positive" in bounds else None
    if certificate.require_tau is not None:
        taus = _sequence(taus, certificate.require_tau, n_looks=certificate.n_looks)
        ratio = ratio if len(taus) == certificate.n_looks == 1 else None
    cap, diluted = certificate.input_agnostic_tau, certificate.dilution
    if cap is not None:
        yield _cap(recorded, cap, diluted=diluted is not None)
    for metric, tau in taus.items():
        gap, claimed, tau = certificate.gaps[metric], math.isfinite(tau), min(tau, 1.0 if cap is None else cap)
        tau = (1 - diluted.share) * tau if diluted else tau
        passed = abs(gap.tau - tau) <= SAME and gap.claimed == claimed
        yield Check(f"tau of {metric}", passed, f"recorded {gap.tau:.6g}, computed from the counts {tau:.6g}.")
        pair = tuple(certificate.group_names[group] for group in worst[metric].pair)
        yield Check(f"pair of {metric}", gap.pair == pair, f"recorded {list(gap.pair)}, computed {list(pair)}.")
    ratios = {metric: ratio if metric == "demographic_parity" else None for metric in taus}
    stated = {metric: certificate.gaps[metric].ratio for metric in taus}
    passed = all(equal(stated[metric], computed) for metric, computed in ratios.items())
    yield Check("ratio", passed, f"recorded {_in_words(stated)}, computed {_in_words(ratios)}.")


def _in_words(ratios: Mapping[str, float | None]) -> str:
    claimed = (f"{ratio:.6g} for {metric.replace('_', ' ')}" for metric, ratio in ratios.items() if ratio is not None)
    return " and ".join(claimed) or "none"


def _bound(certificate: CertificateRecord, kind: str, counts: NoisyCounts) -> GapBound:
    arms = []
    for group, cells in zip(certificate.group_names, counts, strict=True):
        epsilon = epsilon_of_a_look(certificate, group)
        (tn, fp), (fn, tp) = cells
        by_kind = {"positive": (tp + fp, tn + fn), "true_positive": (tp, fn), "false_positive": (fp, tn)}
        positive, negative = by_kind[kind]
        folds = 2 if kind == "positive" else 1
        arms.append(NoisyArm(positive=positive, negative=negative, epsilon=epsilon, folds=folds))
    event = certificate.events[kind]
    return gap_bound(arms, failure_probability=event.failure_probability, score_box=event.construction == "score_box")


def _sequence(taus: dict[str, float], threshold: float, *, n_looks: int) -> dict[str, float]:
    """What tests at the full level may claim: the threshold until one fails, that one's own bound, nothing after.

    Where none failed, their largest bound, if no look could follow.
    """
    failed = next((metric for metric, tau in taus.items() if tau > threshold), None)
    if failed is None:
        return dict.fromkeys(taus, threshold if n_looks > 1 else max(taus.values()))
    order = list(taus)
    claims = {metric: threshold if order.index(metric) < order.index(failed) else math.inf for metric in order}
    return {**claims, failed: taus[failed]}


def _cap(recorded: Recorded, cap: float, *, diluted: bool) -> Check:
    """The bound that follows from the head of a smoothed predictor alone."""
    rule, computed = recorded.model.predictor, 1.0
    if rule.kind == "smoothed":
        computed = input_agnostic_bound(
            recorded.heads.mean(0).astype(float),
            smoothing=rule.smoothing,
            nonnegative=False,
            bias=recorded.model.model.bias,
        )
    # A dilution that the certificate itself records came after the cap, any other before.
    computed *= 1.0 if diluted else 1 - rule.dilution
    return Check("input-agnostic tau", abs(computed - cap) <= 1e-6, f"recorded {cap:.6g}, computed {computed:.6g}.")
