"""Released counts: noise of their own for all cells, and arms that know of it."""

import numpy as np

from fairdp.certify.certificate import certify
from fairdp.certify.release import arms_of, release_counts
from fairdp.randomness import keyed_below
from fairdp.releases import watching

EXACT = np.full((2, 2, 2), 100)


def test_every_cell_has_noise_of_its_own():
    """Of scale 20 and 50: eight equal draws have a chance below 1e-10."""
    seen = []
    with watching(lambda release: seen.append(release) or release.noisy):
        noisy = release_counts(EXACT, epsilon=(0.05, 0.02), rand_below=keyed_below(bytes(32), "noise"))
    noise = noisy - EXACT
    assert all(len(set(cells.ravel().tolist())) > 2 for cells in noise)
    (release,) = seen
    assert release.scale.tolist() == [[[20.0] * 2] * 2, [[50.0] * 2] * 2]
    assert np.array_equal(release.exact, EXACT)
    assert np.array_equal(release.noisy, noisy)


def test_arms_know_the_noise_in_their_counts():
    """A group adds up the cells of its two labels, each with a draw of noise; a label alone has one."""
    counts = np.arange(8).reshape(2, 2, 2)
    assert [(a.positive, a.negative, a.folds) for a in arms_of(counts, "positive", (1.0, 2.0))] == [
        (4, 2, 2),
        (12, 10, 2),
    ]
    assert [(a.positive, a.folds, a.epsilon) for a in arms_of(counts, "true_positive", (1.0, 2.0))] == [
        (3, 1, 1.0),
        (7, 1, 2.0),
    ]
    assert [a.positive for a in arms_of(counts, "false_positive", (1.0, 2.0))] == [1, 5]


def test_a_certificate_states_the_largest_epsilon():
    made = certify(
        EXACT,
        epsilon=(0.5, 2.0),
        metrics=("demographic_parity",),
        group_names=("a", "b"),
        expected_sizes=(400.0, 400.0),
    )
    assert made.epsilon == 2.0
