"""Tau of a saved model, computed again from the recorded counts.

How the failure probability is shared, how counts form arms and what a sequence of tests may claim is worked out here a
second time; only the pure bounds are shared with the code that made the certificate.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict

from safetensors.numpy import load

from fairdp._files import json_bytes
from fairdp.certify.arms import NoisyArm
from fairdp.certify.certificate import FRESH, HELD_OUT, SIZES, certificate_from
from fairdp.certify.gaps import GapBound, gap_bound, uses_score_box
from fairdp.certify.gaussian import input_agnostic_bound
from fairdp.certify.record import certificate_record
from fairdp.data.schema import TableSchema
from fairdp.methods import METHODS
from fairdp.run.hold_out import COUNTS_SHARE
from fairdp.saved.folder import MARKER, TENSORS
from fairdp.saved.verify.check import SAME, Check, Record, cells_of, equal, number, same, settings_of

# Shares of the failure probability and the rates of each metric, written down a second time.
_SHARES = {"positive": 0.2, "true_positive": 0.6, "false_positive": 0.2}
_RATES = {
    "demographic_parity": ("positive",),
    "equal_opportunity": ("true_positive",),
    "equalized_odds": ("true_positive", "false_positive"),
}


def certificate_checks(contents: Record, model: Record, privacy: Record, certificate: Record) -> Iterator[Check]:
    """Everything about a certificate that claims something."""
    yield _certificate_epsilon(model, privacy, certificate)
    yield _records(model, privacy, certificate)
    yield _registration(model, privacy, certificate)
    yield _levels(certificate)
    yield from _taus(contents, certificate)


def statement_check(certificate: Record) -> Check:
    """That the words, and the estimates beside them, say what the numbers say."""
    again = certificate_record(certificate_from(dict(certificate)))
    written = json.loads(json_bytes(again))
    passed = all(certificate.get(name) == written.get(name) for name in ("statement", "estimates", "definitions"))
    return Check("statement", passed, "says what was computed." if passed else "does not say what was computed.")


def _certificate_epsilon(model: Record, privacy: Record, certificate: Record) -> Check:
    """That certification records spent what is recorded: held-out ones what the privacy record says, no more."""
    own, held_out = certificate["epsilon_by_group"], certificate["about"]["records"] == HELD_OUT
    wrong = [] if equal(certificate["epsilon"], max(own.values())) else ["the total is not the largest"]
    for group, epsilon in privacy["certify_epsilons"].items():
        # A held-out record spends no more than a training record of its group, whatever was planned.
        spent = min(number(privacy["epsilon_by_group"][cell]) for cell in cells_of(model, group))
        if epsilon + privacy["counts_epsilon"] > spent * (1 + SAME):
            wrong.append(f"{group}: {epsilon:.6g} held out, {spent:.6g} in training")
    if held_out:
        planned = privacy["certify_epsilons"]
        wrong += [f"{group}: {epsilon:.6g}" for group, epsilon in own.items() if not equal(planned.get(group), epsilon)]
    whose = "within what the model states" if held_out else "spent by the fresh records"
    found = "; ".join(wrong) if wrong else f"pure {certificate['epsilon']:.6g}, {whose}"
    return Check("certificate's epsilon", not wrong, f"{found}.")


def _records(model: Record, privacy: Record, certificate: Record) -> Check:
    """That records are called what they are: held out as the run did, or fresh with every earlier certificate named."""
    about, fraction = certificate["about"], privacy["certify_fraction"]
    if about["records"] == HELD_OUT:
        passed = (
            about["fraction"] == fraction != 0
            and about["noise_seeded"] == privacy["noise_seeded"]
            and about["look"] in range(1, certificate["n_looks"] + 1)
            and same(certificate["expected_sizes"], _expected_sizes(model, privacy))
        )
    else:
        first = about["earlier"][0] if about["earlier"] else None
        remembered = first is not None and equal(first["epsilon"], max(privacy["certify_epsilons"].values(), default=0))
        hidden = privacy["group_sizes"] == "private"
        spent = certificate["epsilon"] * COUNTS_SHARE / (1 - COUNTS_SHARE) if hidden else 0.0
        passed = (
            about["records"] == FRESH
            and "fraction" not in about
            and (remembered or not fraction)
            and (about["sizes"], equal(about["sizes_epsilon"], spent)) == (SIZES[hidden], True)
        )
    return Check("certificate's records", passed, f"{about['records']}{'' if passed else ': contradicted'}.")


def _expected_sizes(model: Record, privacy: Record) -> list[float]:
    """How many records of each group the coins were expected to hold out, which chose the constructions."""
    share = privacy["certify_fraction"] / (1 - privacy["certify_fraction"])
    cells = privacy["planned_sizes"]
    return [share * math.fsum(cells[cell] for cell in cells_of(model, group)) for group in model["groups"]]


def _registration(model: Record, privacy: Record, certificate: Record) -> Check:
    """That a certificate on held-out records claims what was fixed before training, no more and no less."""
    chosen, rule = model["parameters"], model["predictor"]
    wrong = [] if certificate["metrics"] == [m for m in _RATES if m in certificate["metrics"]] else ["order of metrics"]
    if (rule["kind"], rule["smoothing"]) != (chosen["predictor"], chosen["smoothing"]):
        wrong.append("predictor")
    method = METHODS[chosen["method"]]
    if (rule["flips"] is not None, model["smoothing"] is not None) != (method.post_processes, method.smooths):
        wrong.append("method")
    if model["smoothing"] is not None:
        drawn = (model["smoothing"]["deviation"], model["smoothing"]["n_draws"])
        wrong += [] if drawn == (chosen["parameter_noise"], chosen["n_draws"]) else ["smoothing"]
    if not _is_planned(model):
        wrong.append("model")
    if certificate["about"]["records"] == HELD_OUT:
        metrics = chosen["certify_metrics"] or list(_RATES)
        fixed = {
            "confidence": chosen["confidence"],
            "metrics": [metric for metric in _RATES if metric in metrics],
            "require_tau": chosen["require_tau"],
            "n_looks": chosen["n_looks"],
            "expected_trials": privacy["selection"]["expected_trials"] if privacy["selection"] else 1.0,
        }
        wrong += [name for name, value in fixed.items() if certificate[name] != value]
        dilution = certificate["dilution"]
        if (dilution["target_tau"] if dilution else None) != chosen["target_tau"]:
            wrong.append("target_tau")
    found = f"{', '.join(wrong)} is not what was fixed" if wrong else "claims what was fixed beforehand"
    return Check("registration", not wrong, f"{found}.")


def _is_planned(model: Record) -> bool:
    """Whether the network, with its public maps of the inputs, is the one that settings and schema make."""
    if model["model"]["kind"] == "custom":
        return True
    schema = model["feature_schema"]
    columns = None if schema is None else TableSchema.from_dict(schema).encoded
    planned = asdict(settings_of(model).model_config(tuple(model["shape"]), columns))
    return same(model["model"], json.loads(json_bytes(planned)))


def _levels(certificate: Record) -> Check:
    """That the events which may fail have, together, the failure probability that the confidence leaves."""
    allowed = (1 - certificate["confidence"]) / certificate["n_looks"] / certificate["expected_trials"]
    levels = [event["failure_probability"] for event in certificate["events"].values()]
    # In a sequence, and for equalized odds alone, only one event can make a claim wrong.
    alone = certificate["require_tau"] is not None or certificate["metrics"] == ["equalized_odds"]
    spent = max(levels) if alone else math.fsum(levels)
    small = all(
        event["construction"] == ("score_box" if _is_small(certificate, kind) else "pair")
        for kind, event in certificate["events"].items()
    )
    shares = {kind: 1.0 if alone else _SHARES[kind] for kind in certificate["events"]}
    total = 1.0 if alone else math.fsum(shares.values())
    planned = all(equal(level, allowed * share / total) for level, share in zip(levels, shares.values(), strict=True))
    passed = planned and small
    return Check("confidence", passed, f"events fail with probability {spent:.6g} of {allowed:.6g} allowed.")


def _is_small(certificate: Record, kind: str) -> bool:
    sizes, share = certificate["expected_sizes"], 1.0 if kind == "positive" else 0.1
    epsilons = [certificate["epsilon_by_group"][group] / certificate["n_looks"] for group in certificate["group_names"]]
    return any(uses_score_box(epsilon, share * size) for epsilon, size in zip(epsilons, sizes, strict=True))


def _taus(contents: Record, certificate: Record) -> Iterator[Check]:
    bounds = {kind: _bound(certificate, kind) for kind in certificate["events"]}
    computed = {
        "demographic_parity": lambda: bounds["positive"].tau,
        "equal_opportunity": lambda: bounds["true_positive"].tau,
        "equalized_odds": lambda: max(bounds["true_positive"].tau, bounds["false_positive"].tau),
    }
    taus = {metric: computed[metric]() for metric in certificate["metrics"]}
    ratio = bounds["positive"].ratio if "positive" in bounds else None
    if certificate["require_tau"] is not None:
        taus, ratio = _sequence(taus, ratio, certificate["require_tau"])
    cap, diluted = certificate["input_agnostic_tau"], certificate["dilution"]
    if cap is not None:
        yield _cap(contents, cap, diluted=diluted is not None)
    for metric, tau in taus.items():
        claimed, tau = math.isfinite(tau), min(tau, 1.0 if cap is None else cap)
        tau = (1 - diluted["share"]) * tau if diluted else tau
        recorded = certificate[metric]["tau"]
        found = f"recorded {recorded:.6g}, computed from the counts {tau:.6g}."
        passed = abs(recorded - tau) <= SAME and certificate[metric]["claimed"] == claimed
        yield Check(f"tau of {metric}", passed, found)
        worst = max((bounds[kind] for kind in _RATES[metric]), key=lambda bound: bound.tau)
        pair, recorded = [certificate["group_names"][group] for group in worst.pair], certificate[metric]["pair"]
        yield Check(f"pair of {metric}", recorded == pair, f"recorded {recorded}, computed {pair}.")
    ratios = {metric: ratio if metric == "demographic_parity" else None for metric in taus}
    stated = {metric: certificate[metric]["ratio"] for metric in taus}
    passed = all(equal(stated[metric], own, missing=-1.0) for metric, own in ratios.items())
    yield Check("ratio", passed, f"recorded {_in_words(stated)}, computed {_in_words(ratios)}.")


def _in_words(ratios: Mapping[str, float | None]) -> str:
    claimed = (f"{ratio:.6g} for {metric.replace('_', ' ')}" for metric, ratio in ratios.items() if ratio is not None)
    return " and ".join(claimed) or "none"


def _bound(certificate: Record, kind: str) -> GapBound:
    arms = []
    for group, cells in zip(certificate["group_names"], certificate["counts"], strict=True):
        epsilon = certificate["epsilon_by_group"][group] / certificate["n_looks"]
        (tn, fp), (fn, tp) = cells
        positive, negative = {"positive": (tp + fp, tn + fn), "true_positive": (tp, fn), "false_positive": (fp, tn)}[
            kind
        ]
        folds = 2 if kind == "positive" else 1
        arms.append(NoisyArm(positive=positive, negative=negative, epsilon=epsilon, folds=folds))
    event = certificate["events"][kind]
    return gap_bound(
        arms, failure_probability=event["failure_probability"], score_box=event["construction"] == "score_box"
    )


def _sequence(taus: dict[str, float], ratio: float | None, threshold: float) -> tuple[dict[str, float], float | None]:
    """What tests at the full level may claim: the threshold until one fails, that one's own bound, nothing after."""
    failed = next((metric for metric, tau in taus.items() if tau > threshold), None)
    if failed is None:
        return dict.fromkeys(taus, max(taus.values())), ratio if len(taus) == 1 else None
    order = list(taus)
    claims = {metric: threshold if order.index(metric) < order.index(failed) else math.inf for metric in order}
    return {**claims, failed: taus[failed]}, ratio if len(taus) == 1 else None


def _cap(contents: Record, cap: float, *, diluted: bool) -> Check:
    """The bound that follows from the head of a smoothed predictor alone; the heads are the last of the parameters."""
    model = json.loads(contents[MARKER])
    n_heads, width = model["heads"]
    heads = load(contents[TENSORS])["params"][-n_heads * width :].reshape(n_heads, width)
    rule, head = model["predictor"], heads.mean(0).astype(float)
    smoothed = rule["kind"] == "smoothed"
    computed = input_agnostic_bound(head, smoothing=rule["smoothing"], nonnegative=False) if smoothed else 1.0
    # A dilution that the certificate itself records came after the cap, any other before.
    computed *= 1.0 if diluted else 1 - rule["dilution"]
    return Check("input-agnostic tau", abs(computed - cap) <= 1e-6, f"recorded {cap:.6g}, computed {computed:.6g}.")
