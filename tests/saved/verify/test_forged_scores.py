"""Counts of scores that their share of epsilon, their bins or the decisions contradict."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from fairdp.certify.certificate import ScoreCounts
from fairdp.parameters import SCORE_EDGES
from fairdp.randomness import discrete_laplace, keyed_below
from fairdp.saved.verify_checks import scores_check
from forgeries import failed, forge, recompute, reword


def changed(**values):
    return lambda record: record["scores"].update(values)


def other_share(share):
    def change(record):
        record["score_share"] = share
        recompute(record)

    return change


def without_scores(record):
    record["scores"] = None
    reword(record)


def no_share(record):
    record.update(score_share=0.0, scores=None)
    recompute(record)


def more_people(record):
    record["scores"]["counts"][1][0][5] += 5000


def a_bin_less(record):
    del record["scores"]["counts"][0][1][0]


def a_group_less(record):
    del record["scores"]["counts"][1]


def spent_twice(record):
    record["scores"]["epsilons"] = [2 * epsilon for epsilon in record["scores"]["epsilons"]]


def moved_far(record):
    """As many people as before, and fewer than nobody in a bin."""
    cells = record["scores"]["counts"][0][1]
    cells[0], cells[1] = cells[0] - 100_000, cells[1] + 100_000


CHANGES = {
    "fewer than nobody": (moved_far, "scores"),
    "none where a share was kept": (without_scores, "scores"),
    "another share than was chosen": (other_share(0.2), "registration"),
    "no share at all": (no_share, "registration"),
    "more than half": (lambda record: record.update(score_share=0.6), "records"),
    "other bins": (changed(edges=[0.06, *SCORE_EDGES[1:]]), "scores"),
    "a bin less": (a_bin_less, "scores"),
    "a group less": (a_group_less, "scores"),
    "other people": (more_people, "scores"),
    "twice the epsilon": (spent_twice, "scores"),
    "an epsilon less": (changed(epsilons=[0.1]), "scores"),
}


@pytest.mark.parametrize(("change", "check"), CHANGES.values(), ids=CHANGES)
def test_what_the_rest_of_the_record_contradicts_is_noticed(saved_as, change, check):
    folder = saved_as("parity alone")
    forge(folder, lambda files: change(files.certificate))
    assert check in failed(folder)


def test_a_model_without_them_is_verified(saved_as):
    folder = saved_as("no scores")
    assert failed(folder) == set()
    forge(folder, lambda files: files.certificate.update(scores=RECORDED))
    assert "scores" in failed(folder)


RECORDED = {"epsilons": [0.1, 0.1], "edges": SCORE_EDGES, "counts": [[[1] * 12] * 2] * 2}


def drawn(rng, draw, *, epsilon, share, size, more=0):
    """The records of a true folder about one group, as `scores_check` reads it; ``more`` people in the scores."""
    labels = rng.multinomial(size, (0.3, 0.7))
    decided = [[int(n) + discrete_laplace(epsilon * (1 - share), draw) for n in (k // 3, k - k // 3)] for k in labels]
    cells = [rng.multinomial(k + more, np.full(12, 1 / 12)) for k in labels]
    scored = tuple(tuple(int(n) + discrete_laplace(epsilon * share, draw) for n in row) for row in cells)
    return SimpleNamespace(
        score_share=share,
        n_looks=1,
        expected_trials=1.0,
        group_names=("f",),
        epsilon_by_group={"f": epsilon},
        counts=(decided,),
        scores=ScoreCounts(epsilons=(epsilon * share,), edges=SCORE_EDGES, counts=(scored,)),
    )


def test_true_folders_are_not_refused():
    """Of 400 draws none may be: the chance of one is at most 4e-7."""
    rng, draw = np.random.default_rng(0), keyed_below(bytes(32), "scores")
    cases = [(epsilon, share, size) for epsilon in (0.1, 2.0) for share in (0.05, 0.5) for size in (0, 900)]
    for epsilon, share, size in cases * 50:
        check = scores_check(drawn(rng, draw, epsilon=epsilon, share=share, size=size))
        assert check.passed, check.found


def test_a_share_above_one_half_is_refused_by_the_check_itself():
    rng, draw = np.random.default_rng(0), keyed_below(bytes(32), "scores")
    found = [scores_check(drawn(rng, draw, epsilon=2.0, share=share, size=900)).passed for share in (0.5, 0.51)]
    assert found == [True, False]


def test_that_check_notices_people_whom_noise_does_not_explain():
    rng, draw = np.random.default_rng(0), keyed_below(bytes(32), "scores")
    check = scores_check(drawn(rng, draw, epsilon=2.0, share=0.1, size=900, more=math.ceil(300 / 0.2)))
    assert not check.passed
    assert "label 0" in check.found
