"""Checks of a saved model's rule and certificate, and what all checks share: the records that they start from.

Whatever is checked is written a second time here, from the definitions, and not taken from the code that made it.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairdp._io import json_bytes, parsed_json, tensors_in, to_plain
from fairdp.accounting.mechanisms import PrivacyBudget
from fairdp.accounting.plan import FRESH_SIZES_SHARE, Recipe
from fairdp.accounting.spent import CELLS, DIRECTION, FRONTIER, NOISY, PUBLIC, PUBLISHED, RANKING, PrivacySpent
from fairdp.certify.bounds import GapBound, NoisyBinomial, gap_bound, uses_score_box
from fairdp.certify.certificate import UNUSED, UNUSED_UNCHECKED, FreshRecords, HeldOutRecords, NoisyCounts, ScoreCounts
from fairdp.certify.outlook import input_agnostic_bound
from fairdp.config import SMALLEST_BATCH, TrainConfig
from fairdp.data.schema import TableSchema
from fairdp.frontier.curve import LINE, N_BINS, RAY, Frontier, Target, choose, line_prices
from fairdp.methods import METHODS
from fairdp.networks.model import CELL_VALUES
from fairdp.parameters import Parameters
from fairdp.run.fit import Fitted
from fairdp.run.plan import budget_of, checked, network_for, train_config
from fairdp.saved.folder import (
    CERTIFICATE,
    TENSORS,
    CertificateRecord,
    NoCertificateRecord,
    certificate_record,
    fitted_in,
    read_record,
)

# What somebody who sees that a folder is verified should know.
SCOPE = (
    "This shows that the files agree with each other and with the accounting, not that they come from such a run on "
    "such records: only a signature would expose someone who rewrites all of them consistently."
)
SIGNED_SCOPE = (
    "This shows that the files agree with each other and with the accounting, and that the holder of this key signed "
    "exactly these; that they come from such a run on such records is the word of whoever signed."
)
# Numbers are recomputed from the same inputs: they may differ only by rounding.
SAME = 1e-9
# Prices of a band add up to zero, up to the rounding of a search by halving.
_ROUNDING = 1e-6
# Chance that a true folder is refused.
FALSE_REFUSAL = 1e-9
# Of each group: the split, the noise on up to two sizes, on the sum of its four counts, and on each of them; and on the
# sums of both labels, of their decisions and of their scores.
_EVENTS = 1 + 2 + 1 + 4 + 2 * 2
# Inner edges of the bins and the largest share of epsilon, written down a second time.
_EDGES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
_LARGEST_SHARE = 0.5
# Shares of the failure probability and the rates of each metric, written down a second time.
_SHARES = {"positive": 0.2, "true_positive": 0.6, "false_positive": 0.2}
_RATES = {
    "demographic_parity": ("positive",),
    "equal_opportunity": ("true_positive",),
    "equalized_odds": ("true_positive", "false_positive"),
}
# The least and the most that a number can be.
Interval = tuple[float, float]


@dataclass(frozen=True)
class Check:
    """One thing that was checked, whether it holds, and what was found."""

    name: str
    passed: bool
    found: str


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """The files of a folder, value by value; none of it is trusted yet."""

    contents: Mapping[str, bytes]
    model: Fitted
    certificate: CertificateRecord | NoCertificateRecord

    @classmethod
    def of(cls, contents: Mapping[str, bytes]) -> "Recorded":
        """Read the files; whatever is missing, unknown or of another type is an error."""
        certificate = read_record(parsed_json(contents[CERTIFICATE]))
        return cls(contents=contents, model=fitted_in(contents), certificate=certificate)

    @property
    def privacy(self) -> PrivacySpent:
        """The privacy record."""
        return self.model.privacy

    @property
    def chosen(self) -> Parameters:
        """The parameters of the run; a module and a seed are not saved, and nothing that is checked needs them."""
        return checked(**vars(self.model.parameters))

    @property
    def budget(self) -> PrivacyBudget:
        """The (ε, δ) that was chosen, or that follows."""
        return budget_of(self.chosen, kind=self.model.model.kind, n_groups=len(self.model.groups))

    @property
    def config(self) -> TrainConfig:
        """The numbers of the run that parameters and recorded sizes lead to."""
        return train_config(self.chosen, self.model.model.kind, tuple(self.privacy.planned_sizes.values()))

    @property
    def recipe(self) -> Recipe:
        """Releases of a step, and those beside the steps."""
        return METHODS[self.chosen.method].recipe(self.config, tuple(self.privacy.planned_sizes.values()))

    @property
    def tensors(self) -> dict[str, NDArray[Any]]:
        """All numbers of the model."""
        return tensors_in(self.contents[TENSORS], framework="np")[1]

    @property
    def heads(self) -> NDArray[np.float32]:
        """The heads (w, b), which are the last of the parameters, shape (n_members, head_size)."""
        n_heads, size = self.model.heads
        return self.tensors["params"][-n_heads * size :].reshape(n_heads, size)

    def cells_of(self, group: str) -> list[str]:
        """The names under which a group's training records were sampled: its own, or one for each label."""
        if self.model.parameters.grouping == "attribute":
            return [group]
        return [f"{group}, label {label}" for label in (0, 1)]

    @property
    def cells(self) -> list[str]:
        """All of these names."""
        return [cell for group in self.model.groups for cell in self.cells_of(group)]


def equal(recorded: float | None, computed: float | None) -> bool:
    """True if two numbers agree up to rounding, or both are missing."""
    if recorded is None or computed is None:
        return recorded is computed
    # Everything is within a share of infinity.
    return recorded == computed or (math.isfinite(computed) and abs(recorded - computed) <= SAME * abs(computed))


def same(recorded: object, computed: object) -> bool:
    """True if two plain values are the same all the way down, up to rounding of numbers."""
    if isinstance(recorded, dict) and isinstance(computed, dict):
        return recorded.keys() == computed.keys() and all(same(recorded[name], computed[name]) for name in computed)
    if isinstance(recorded, list) and isinstance(computed, list):
        return len(recorded) == len(computed) and all(same(*pair) for pair in zip(recorded, computed, strict=True))
    if isinstance(recorded, float) and isinstance(computed, float):
        return equal(recorded, computed)
    return type(recorded) is type(computed) and recorded == computed


def rule_check(recorded: Recorded) -> Check:
    """That what a positive decision is worth in each cell follows from the frontier; other models have neither."""
    frontier, target, values = recorded.model.frontier, recorded.model.target, recorded.tensors.get(CELL_VALUES)
    if not recorded.model.model.n_cells:
        passed = frontier is None and target is None and values is None
        return Check("rule", passed, "decides by its score." if passed else "has prices that this model does not use.")
    if frontier is None or target is None or values is None:
        return Check("rule", False, "lacks the frontier, the target or the values of cells that it follows from.")
    wrong = [*_not_released(recorded, frontier), *_ill_formed(recorded, frontier)]
    if not wrong:
        expected = frontier.values_at(choose(frontier, target).position)
        if values.shape != expected.shape or not np.allclose(values, expected, rtol=SAME, atol=SAME):
            wrong.append(CELL_VALUES)
    # A certificate on records that the run held out is about the rule that it was fitted for.
    certificate = recorded.certificate
    held_out = isinstance(certificate, CertificateRecord) and isinstance(certificate.about.records, HeldOutRecords)
    if is_moved(recorded) and held_out:
        wrong.append("target")
    found = (
        f"{', '.join(wrong)} contradicted by the rest" if wrong else f"follows from the frontier for {_said(target)}"
    )
    return Check("rule", not wrong, f"{found}.")


def is_moved(recorded: Recorded) -> bool:
    """True if the rule aims at something else than it was fitted for."""
    target = recorded.model.target
    return target is not None and target != Target.of(recorded.config)


def is_planned(recorded: Recorded) -> bool:
    """True if the network, with its public maps of the inputs, is the one that settings and schema produce."""
    model, schema = recorded.model, recorded.model.feature_schema
    if model.model.kind == "custom":
        return model.model.bias == recorded.chosen.bias
    columns = None if schema is None else TableSchema.from_dict(schema).encoded
    planned = network_for(recorded.chosen, model.shape, columns, len(model.groups))
    return same(to_plain(model.model), to_plain(planned))


def _not_released(recorded: Recorded, frontier: Frontier) -> Iterator[str]:
    """Parts that are not as the privacy record and the settings say."""
    surveys, config = recorded.privacy.surveys, recorded.config
    stds = {"cells_std": CELLS, "sketch_std": FRONTIER, "ranking_std": RANKING}
    yield from (name for name, code in stds.items() if not equal(getattr(frontier, name), surveys.get(code)))
    if frontier.parity != config.parity:
        yield "parity"
    if frontier.cost_ratio != config.cost_ratio:
        yield "cost_ratio"
    if (DIRECTION in surveys) != bool(frontier.looked):
        yield "looked"


def _ill_formed(recorded: Recorded, frontier: Frontier) -> Iterator[str]:
    """Parts that no frontier of a model with these groups can have."""
    n_cells = 2 * len(recorded.model.groups)
    if not len(frontier.cell_sizes) == recorded.model.model.n_cells == n_cells:
        yield "cell_sizes"
        return
    n_events, positions = len(frontier.events.members), np.array(frontier.positions)
    min_ratio = recorded.config.min_ratio
    if len(frontier.prices) != n_events or (not frontier.looked and frontier.prices != _fixed(frontier, min_ratio)):
        yield "prices"
        return
    if frontier.shift and recorded.config.positive_rate is None:
        yield "shift"
    if frontier.looked and len(frontier.looked) != n_events:
        yield "looked"
    if frontier.positions not in ((0.0,), LINE, RAY):
        yield "positions"
    # A ratio raises low rates more than it lowers high ones.
    weights = [price * min_ratio if price < 0 and min_ratio else price for price in frontier.prices]
    if any(abs(sum_of) > _ROUNDING for sum_of in np.bincount(frontier.events.bands, weights=weights)):
        yield "prices"
    if frontier.looked and any(error <= 0 for _, error in frontier.looked) and frontier.sketch_std:
        yield "looked"
    if np.shape(frontier.sketch) != (n_cells, len(positions)):
        yield "sketch"
    if np.shape(frontier.ranking) != (2, N_BINS):
        yield "ranking"
    numbers = (frontier.cell_sizes, frontier.prices, frontier.positions, *frontier.sketch, *frontier.ranking)
    if not all(np.isfinite(row).all() for row in numbers):
        yield "frontier"


def _fixed(frontier: Frontier, min_ratio: float) -> tuple[float, ...]:
    """Prices at position 1 where no looks were needed to find them."""
    return tuple(line_prices(frontier.sizes, min_ratio)) if len(frontier.sizes) == 4 else (0.0,)


def _said(target: Target) -> str:
    limit = (
        f"a gap of at most {target.value:g}" if target.kind == "max_gap" else f"a ratio of at least {target.value:g}"
    )
    return limit if math.isinf(target.price) else f"{limit} at a price of at most {target.price:g}"


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
    passed = all(stated.get(name) == written.get(name) for name in ("statement", "estimates", "definitions"))
    return Check("statement", passed, "says what was computed." if passed else "does not say what was computed.")


def _certificate_epsilon(recorded: Recorded, certificate: CertificateRecord) -> Check:
    """That certification records spent what is recorded: for held-out ones, what the privacy record says."""
    privacy, epsilons, records = recorded.privacy, certificate.epsilon_by_group, certificate.about.records
    wrong = [] if equal(certificate.epsilon, max(epsilons.values())) else ["the total is not the largest"]
    for group, epsilon in privacy.certify_epsilons.items():
        # A held-out record spends no more than a training record of its group, whatever was planned.
        spent = min(privacy.epsilon_by_group[cell] for cell in recorded.cells_of(group))
        if epsilon > spent * (1 + SAME):
            wrong.append(f"{group}: {epsilon:.6g} held out, {spent:.6g} in training")
    if isinstance(records, HeldOutRecords):
        whose, planned = "within what the model states", privacy.certify_epsilons
        wrong += [
            f"{group}: {epsilon:.6g}" for group, epsilon in epsilons.items() if not equal(planned.get(group), epsilon)
        ]
    else:
        whose = f"spent by the fresh records, beside {records.sizes_epsilon:.6g} for the sizes of groups"
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


def counts_check(recorded: Recorded, certificate: CertificateRecord) -> Check:
    """That the counts of every group, at every look, are such as its size, its share and the noise explain."""
    log, wrong = log_of_refusal(certificate), []
    for index, name in enumerate(certificate.group_names):
        epsilon = epsilon_of_a_look(certificate, name)
        low, high = _counted(recorded, certificate, index, log)
        one = laplace_reach(epsilon, 1, log)
        for look in looks_of(certificate):
            counts = [count for row in look[index] for count in row]
            every = laplace_reach(epsilon, len(counts), log)
            together = low - every <= sum(counts) <= high + every
            if not (together and all(-one <= count <= high + one for count in counts)):
                wrong.append(f"{name}: {counts}, which add up to {sum(counts)}")
    found = "; ".join(wrong) + " cannot come from the recorded sizes" if wrong else "such as the recorded sizes explain"
    return Check("certificate's counts", not wrong, f"{found}.")


def log_of_refusal(certificate: CertificateRecord) -> float:
    """Logarithm of one over the chance that each interval has to be missed by a true folder."""
    # The best of several trials, or a look that ended training, is one of several draws that might have been kept.
    draws = certificate.n_looks * certificate.expected_trials
    return math.log(2 * _EVENTS * len(certificate.group_names) * draws / FALSE_REFUSAL)


def epsilon_of_a_look(certificate: CertificateRecord, group: str) -> float:
    """The ε that a record of a group spends on each look: its epsilon without the share that is kept for scores."""
    epsilon = certificate.epsilon_by_group[group]
    return (epsilon - certificate.score_share * epsilon) / certificate.n_looks


def looks_of(certificate: CertificateRecord) -> list[NoisyCounts]:
    """The counts of all looks that a certificate tells of."""
    records = certificate.about.records
    if isinstance(records, FreshRecords):
        return [certificate.counts]
    return [*records.met, certificate.counts, *([] if records.missed is None else [records.missed])]


def _counted(recorded: Recorded, certificate: CertificateRecord, index: int, log: float) -> Interval:
    """The number of records of a group that can have been counted."""
    records, privacy = certificate.about.records, recorded.privacy
    if isinstance(records, FreshRecords):
        return _around([certificate.expected_sizes[index]], epsilon=records.sizes_epsilon, std=0.0, log=log)
    if privacy.group_sizes == "declared":
        # Declared by the user, who may be wrong.
        return 0.0, math.inf
    sizes = [privacy.planned_sizes[cell] for cell in recorded.cells_of(certificate.group_names[index])]
    epsilon, std = privacy.counts_epsilon, _deviation(privacy)
    fraction = privacy.certify_fraction
    if not epsilon and not std:
        total = math.fsum(sizes) / (1 - fraction)
        return held_out_of((total, total), fraction, log)
    trained = _around(sizes, epsilon=epsilon, std=std, log=log)
    return held_out_of(split_from(trained, fraction, log), fraction, log)


def _deviation(privacy: PrivacySpent) -> float:
    """Deviation of Gaussian noise on group sizes, where there is such noise."""
    recorded = (getattr(mechanism, "counts_std", 0.0) for mechanism in privacy.mechanisms.values())
    return max(getattr(privacy, "counts_std", 0.0), *recorded)


def _around(sizes: list[float], *, epsilon: float, std: float, log: float) -> Interval:
    """The true number behind noisy sizes; those that were raised to be large enough for a plan say less."""
    reach = laplace_reach(epsilon, 1, log) if epsilon else std * math.sqrt(2 * log)
    deviation = math.sqrt(2) / epsilon if epsilon else std
    if not reach:
        return math.fsum(sizes), math.fsum(sizes)
    least = max(2 * deviation, float(SMALLEST_BATCH))
    low = math.fsum(max(0.0, size - reach) for size in sizes if size > least)
    return low, math.fsum(size + reach for size in sizes)


def laplace_reach(epsilon: float, n_terms: int, log: float) -> float:
    r"""Reach of the sum of independent discrete Laplace draws around zero, but for a chance of :math:`2 e^{-\ell}`.

    A draw has :math:`E e^{\lambda X} = (\cosh\varepsilon - 1) / (\cosh\varepsilon - \cosh\lambda) \le
    1 / (1 - \lambda^2/\varepsilon^2)`, because :math:`(\cosh x - 1) / x^2` grows. With
    :math:`\lambda = .8\,\varepsilon` and Markov's inequality the sum of m draws exceeds
    :math:`(\ell - m \ln .36) / (.8\,\varepsilon)` with probability at most :math:`e^{-\ell}`, on either side.
    """
    return (log - n_terms * math.log(0.36)) / (0.8 * epsilon)


def split_reach(n_records: float, fraction: float, log: float) -> float:
    r"""Reach of a binomial number around its mean, but for a chance of :math:`2 e^{-\ell}`.

    Bernstein (1946): :math:`t = \ell/3 + \sqrt{\ell^2/9 + 2 n \rho (1 - \rho) \ell}`.
    """
    return log / 3 + math.sqrt(log**2 / 9 + 2 * n_records * fraction * (1 - fraction) * log)


def split_from(trained: Interval, fraction: float, log: float) -> Interval:
    r"""All records of a group, from how many of them were not held out.

    With :math:`c = 1 - \rho` and :math:`t(n)` of `split_reach`, :math:`c\,n - t(n) \le T \le c\,n + t(n)`; both sides
    are solved for n, where the square root is one root of a quadratic.
    """
    rest, drift = 1 - fraction, fraction * log
    least, most = trained
    high = drift + math.sqrt(drift**2 + log**2 / 9 + 2 * drift * (log / 3 + most))
    inner = drift**2 + log**2 / 9 + 2 * drift * (least - log / 3)
    low = -drift + math.sqrt(inner) if inner > 0 else math.inf
    return max(0.0, (least - log / 3 - low) / rest), (high + log / 3 + most) / rest


def held_out_of(total: Interval, fraction: float, log: float) -> Interval:
    """The number of a group that is held out: the mean, as far as the same coins can be from it."""
    low, high = total
    least = fraction * low - split_reach(low, fraction, log)
    return max(0.0, least), fraction * high + split_reach(high, fraction, log)


def scores_check(certificate: CertificateRecord) -> Check:
    """That scores were counted only if a share was kept for them: in these bins, at that epsilon, of these people."""
    share, scores = certificate.score_share, certificate.scores
    if not 0 <= share <= _LARGEST_SHARE:
        return Check("scores", False, f"a share of {share:.6g} of epsilon, allowed is up to {_LARGEST_SHARE:g}.")
    if scores is None or not share:
        passed = scores is None and not share
        return Check(
            "scores", passed, f"a share of {share:.6g} of epsilon and {'no' if scores is None else 'some'} counts."
        )
    wrong = list(_wrong(certificate, scores))
    right = f"a share of {share:.6g} of epsilon, of as many people as the decisions"
    return Check("scores", not wrong, f"{'; '.join(wrong) if wrong else right}.")


def _wrong(certificate: CertificateRecord, scores: ScoreCounts) -> Iterator[str]:
    names, shape = certificate.group_names, (2, len(_EDGES) + 1)
    if scores.edges != _EDGES:
        yield "other bins than those that were fixed"
    elif len(scores.counts) != len(names) or any(_shape(group) != shape for group in scores.counts):
        yield f"not {len(names)} groups of {shape[0]} labels and {shape[1]} bins"
    elif len(scores.epsilons) != len(names):
        yield f"{len(scores.epsilons)} epsilons for {len(names)} groups"
    else:
        for group, name in enumerate(names):
            planned = certificate.score_share * certificate.epsilon_by_group[name]
            if not equal(scores.epsilons[group], planned):
                yield f"{name}: epsilon {scores.epsilons[group]:.6g}, the share of it is {planned:.6g}"
            yield from _other_people(certificate, scores, group)


def _shape(counts: tuple[tuple[int, ...], ...]) -> tuple[int, int]:
    """Labels and bins of a group; no bins if its labels have different numbers of them."""
    n_bins = {len(label) for label in counts}
    return len(counts), n_bins.pop() if len(n_bins) == 1 else 0


def _other_people(certificate: CertificateRecord, scores: ScoreCounts, group: int) -> Iterator[str]:
    """A bin with fewer than nobody, or a label with other people than its decisions, beyond what noise explains."""
    name, log = certificate.group_names[group], log_of_refusal(certificate)
    fewest = min(min(label) for label in scores.counts[group])
    if fewest < -laplace_reach(scores.epsilons[group], 1, log):
        yield f"{name}: {fewest} scores in a bin, which no noise explains"
    for label, (decided, scored) in enumerate(zip(certificate.counts[group], scores.counts[group], strict=True)):
        reach = laplace_reach(epsilon_of_a_look(certificate, name), len(decided), log)
        reach += laplace_reach(scores.epsilons[group], len(scored), log)
        if abs(sum(decided) - sum(scored)) > reach:
            yield f"{name}, label {label}: {sum(scored)} scores and {sum(decided)} decisions"


def _registration(recorded: Recorded, certificate: CertificateRecord) -> Check:
    """That a certificate on held-out records claims what was fixed before training, no more and no less."""
    model, chosen, rule = recorded.model, recorded.model.parameters, recorded.model.predictor
    in_order = tuple(metric for metric in _RATES if metric in certificate.metrics)
    wrong = [] if certificate.metrics == in_order == tuple(certificate.gaps) else ["metrics"]
    if (rule.kind, rule.smoothing) != (chosen.predictor, chosen.smoothing):
        wrong.append("predictor")
    method = METHODS[chosen.method]
    if (rule.flips is not None, model.smoothing is not None) != (method.post_processes, method.smooths):
        wrong.append("method")
    if model.smoothing is not None:
        drawn = (model.smoothing.deviation, model.smoothing.n_draws)
        wrong += [] if drawn == (chosen.parameter_noise, chosen.n_draws) else ["smoothing"]
    if not is_planned(recorded):
        wrong.append("model")
    if isinstance(certificate.about.records, HeldOutRecords):
        wrong += _not_as_fixed(recorded, certificate)
    found = f"{', '.join(wrong)} is not what was fixed" if wrong else "claims match the pre-registered tests"
    return Check("registration", not wrong, f"{found}.")


def _not_as_fixed(recorded: Recorded, certificate: CertificateRecord) -> Iterator[str]:
    """Fields of a certificate on held-out records that differ from what was chosen before training."""
    chosen, selection = recorded.model.parameters, recorded.privacy.selection
    metrics = chosen.certify_metrics or list(_RATES)
    fixed = {
        "confidence": chosen.confidence,
        "metrics": tuple(metric for metric in _RATES if metric in metrics),
        "require_tau": chosen.require_tau,
        "n_looks": chosen.n_looks,
        "score_share": chosen.score_share,
        "expected_trials": selection.expected_trials if selection else 1.0,
    }
    yield from (name for name, value in fixed.items() if getattr(certificate, name) != value)


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
    return Check("confidence", passed, f"failure probability {spent:.6g}, allowed {allowed:.6g}.")


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
    """True if these counts meet what is required, of every metric."""
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
    cap = certificate.input_agnostic_tau
    if cap is not None:
        yield _cap(recorded, cap)
    for metric, tau in taus.items():
        gap, claimed, tau = certificate.gaps[metric], math.isfinite(tau), min(tau, 1.0 if cap is None else cap)
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
        n_noise_terms = 2 if kind == "positive" else 1
        arms.append(NoisyBinomial(positive=positive, negative=negative, epsilon=epsilon, n_noise_terms=n_noise_terms))
    event = certificate.events[kind]
    return gap_bound(arms, failure_probability=event.failure_probability, score_box=event.construction == "score_box")


def _sequence(taus: dict[str, float], threshold: float, *, n_looks: int) -> dict[str, float]:
    """Claims of tests at the full level: the threshold until one fails, that one's own bound, nothing after.

    Where none failed, their largest bound, if no look could follow.
    """
    failed = next((metric for metric, tau in taus.items() if tau > threshold), None)
    if failed is None:
        return dict.fromkeys(taus, threshold if n_looks > 1 else max(taus.values()))
    order = list(taus)
    claims = {metric: threshold if order.index(metric) < order.index(failed) else math.inf for metric in order}
    return {**claims, failed: taus[failed]}


def _cap(recorded: Recorded, cap: float) -> Check:
    """The bound that follows from the head of a smoothed predictor alone."""
    rule, computed = recorded.model.predictor, 1.0
    if rule.kind == "smoothed":
        computed = input_agnostic_bound(
            recorded.heads.mean(0).astype(float),
            smoothing=rule.smoothing,
            nonnegative=False,
            bias=recorded.model.model.bias,
        )
    return Check("input-agnostic tau", abs(computed - cap) <= 1e-6, f"recorded {cap:.6g}, computed {computed:.6g}.")
