"""Whether a certificate's counts of scores are such as its share of epsilon, its bins and its other counts explain."""

from collections.abc import Iterator

from fairdp.certify.record import CertificateRecord
from fairdp.certify.scores import ScoreCounts
from fairdp.saved.verify.check import Check, equal
from fairdp.saved.verify.counts import epsilon_of_a_look, laplace_reach, log_of_refusal

# Inner edges of the bins and the largest share of epsilon, written down a second time.
_EDGES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
_LARGEST_SHARE = 0.5


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
