"""The one release point, and the hook that it calls."""

import threading

import numpy as np

from fairdp.releases import release, watching

NOISY = np.array([3.5])


def released() -> np.ndarray:
    return release(NOISY, purpose="look", law="laplace", scale=2.0, exact=np.array([3]))


def test_a_hook_sees_what_is_released_inside_and_nothing_else():
    seen = []
    assert released() is NOISY
    with watching(lambda release: seen.append(release.purpose) or np.zeros(1)):
        assert released() == 0
        other = []
        thread = threading.Thread(target=lambda: other.append(released()))
        thread.start()
        thread.join()
    assert other[0] is NOISY
    assert released() is NOISY
    assert seen == ["look"]


def test_a_hook_is_gone_after_an_error():
    try:
        with watching(lambda release: np.zeros(1)):
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        assert released() is NOISY
