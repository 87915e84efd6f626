"""Noise on a lattice: the law is exact, where it is computed fast and where it is computed slowly."""

import mpmath
import numpy as np
import pytest
from scipy import stats

from fairdp.randomness import Stream
from fairdp.training import noise as lattice
from fairdp.training.noise import lattice_step, round_with_gaussian
from statistical import FALSE_ALARM, assert_normal, assert_plausible

KEY = bytes(range(32))
STD = 1.7


def drawn(n: int, *, std: float = STD, value: float = 0.0, key: bytes = KEY) -> np.ndarray:
    return round_with_gaussian(np.full(n, value), std, Stream(key))


def chi_square_pvalue(draws: np.ndarray, std: float, value: float, width: int) -> float:
    """Against the exact law of the lattice, in cells of this many points."""
    step = lattice_step(STD)
    numbers = np.rint(draws / step).astype(np.int64)
    edges = round(value / step) + np.arange(-9000, 9001, width)
    cells = np.searchsorted(edges, numbers, side="right")
    observed = np.bincount(cells, minlength=len(edges) + 1)
    limits = np.concatenate([[-np.inf], (edges - 0.5) * step, [np.inf]])
    expected = len(draws) * np.diff(stats.norm.cdf(limits, value, std))
    large = expected >= 10
    # The tails, with the first large cell.
    rest = [np.array([counts[~large].sum() + counts[large][0], *counts[large][1:]]) for counts in (observed, expected)]
    return float(stats.chisquare(*rest).pvalue)


@pytest.mark.parametrize("value", [0.0, 0.3, -12.345])
@pytest.mark.parametrize("width", [1, 8, 200])
def test_the_points_have_exactly_the_rounded_gaussians_law(value, width):
    """A million draws, by chi square over single points and coarser cells."""
    assert_plausible(chi_square_pvalue(drawn(1_000_000, value=value), STD, value, width), f"cells of {width}")


@pytest.mark.parametrize(("std", "value"), [(1.01 * STD, 0.0), (0.99 * STD, 0.0), (STD, 0.01 * STD)])
def test_that_check_notices_a_scale_or_a_place_one_percent_off(std, value):
    assert chi_square_pvalue(drawn(1_000_000), std, value, 200) < FALSE_ALARM


def test_each_key_has_its_own_noise_and_the_same_key_the_same():
    assert np.array_equal(drawn(100), drawn(100))
    assert not np.array_equal(drawn(100), drawn(100, key=bytes(32)))


def test_the_whole_is_normal():
    assert_normal(drawn(200_000, value=0.0), STD)


@pytest.mark.parametrize("std", [1e-9, 0.37, 1.0, 2.0, 3.999, 1e12])
def test_the_lattice_is_a_thousandth_of_the_deviation_and_exact(std):
    step = lattice_step(std)
    assert 2**-11 * std < step <= 2**-10 * std
    noisy = round_with_gaussian(np.linspace(-3, 3, 101) * std, std, Stream(KEY))
    assert np.array_equal(noisy / step, np.rint(noisy / step))
    assert np.array_equal(noisy.astype(np.float32), noisy)


@pytest.mark.parametrize("n", [1, 2, 3, 401, 1001])
def test_doubt_or_not_the_points_are_the_same(n, monkeypatch):
    """With an error bound of a whole step everything is in doubt, and computed with as many digits as it takes."""
    values = np.random.default_rng(0).normal(scale=30, size=n)
    fast = round_with_gaussian(values, STD, Stream(KEY))
    monkeypatch.setattr(lattice, "_ERROR", 1.0)
    some = slice(None) if n < 500 else slice(0, 40)
    resolved = []
    exact_point = lattice._exact_point
    monkeypatch.setattr(
        lattice, "_exact_point", lambda *given, **more: resolved.append(exact_point(*given, **more)) or resolved[-1]
    )
    if n < 500:
        assert np.array_equal(round_with_gaussian(values, STD, Stream(KEY)), fast)
        assert len(resolved) == n
    else:
        words = Stream(KEY).words(n + 1)
        pairs = (n + 1) // 2
        for i in range(n)[some]:
            more = Stream(KEY).beside(i)
            point = exact_point(
                values[i], STD, lattice_step(STD), int(words[i]), int(words[pairs + i]), more, is_sine=False
            )
            assert point * lattice_step(STD) == fast[i]


def test_computed_normals_are_within_the_stated_error():
    """Against 60 digits, where the words are not in doubt; most of the bound is for the width of their cells."""
    words = Stream(KEY).words(2 * 600)
    normals, radii = lattice._scaled_normals(words, 1.0)
    with mpmath.workdps(60):
        for i in range(600):
            u, turn = ((mpmath.mpf(int(words[k])) + 0.5) / 2**64 for k in (i, 600 + i))
            radius = mpmath.sqrt(-2 * mpmath.log(u))
            for found, wave in ((normals[i], mpmath.cos), (normals[600 + i], mpmath.sin)):
                assert abs(radius * wave(2 * mpmath.pi * turn) - found) < lattice._ERROR / 100
    assert radii.min() > 0


@pytest.mark.parametrize("word", [0, 1, 2**39, 2**64 - 1, 2**64 - 2**40])
def test_words_at_the_ends_are_computed_slowly(word, monkeypatch):
    """The tail and the origin, where the first bits of a uniform number say little."""

    class Ends:
        def words(self, n_words):
            return np.full(n_words, word, dtype=np.uint64)

        def beside(self, number):
            return Stream(KEY)

    resolved = []
    exact_point = lattice._exact_point
    monkeypatch.setattr(
        lattice, "_exact_point", lambda *given, **more: resolved.append(exact_point(*given, **more)) or resolved[-1]
    )
    noisy = round_with_gaussian(np.zeros(2), 1.0, Ends())
    assert len(resolved) == 2
    assert np.isfinite(noisy).all()
    assert np.abs(noisy).max() <= 14


def test_a_tie_is_settled_by_further_bits():
    """A value placed in the middle between two points, as seen with 64 bits, goes to one or the other by the rest."""
    words = Stream(KEY).words(2)
    with mpmath.workdps(60):
        u, turn = ((mpmath.mpf(int(word)) + 0.5) / 2**64 for word in words)
        normal = mpmath.sqrt(-2 * mpmath.log(u)) * mpmath.cos(2 * mpmath.pi * turn)
    step = lattice_step(1.0)
    value = float((mpmath.floor(normal / step) + 0.5) * step - normal)
    points = {
        lattice._exact_point(value, 1.0, step, int(words[0]), int(words[1]), Stream(bytes([i]) * 32), is_sine=False)
        for i in range(30)
    }
    assert len(points) == 2
    assert max(points) - min(points) == 1


def test_an_independent_sampler_agrees():
    """The discrete law by inversion of the normal's distribution function from another generator's numbers."""
    rng = np.random.default_rng(0)
    other = np.rint(stats.norm.ppf(rng.random(200_000)) * STD / lattice_step(STD)) * lattice_step(STD)
    assert_plausible(float(stats.ks_2samp(drawn(200_000), other).pvalue), "two samplers")
    assert stats.ks_2samp(drawn(200_000), 1.04 * other).pvalue < FALSE_ALARM


@pytest.mark.parametrize(("n", "lag"), [(101, 51), (20_001, 4096), (20_001, 8192), (20_001, 1)])
def test_no_two_coordinates_share_their_noise(n, lag):
    """Cosine and sine of a pair, in short and in long vectors; chunk after chunk; one after the other."""
    noise = drawn(n)
    assert np.mean(noise[lag:] == noise[:-lag]) < 0.1
    assert abs(np.corrcoef(noise[lag:], noise[:-lag])[0, 1]) < 6 / np.sqrt(n - lag)


@pytest.fixture
def settled(monkeypatch):
    """The points that were in doubt, with all that they were settled by; each is set to 12345."""
    calls = []
    monkeypatch.setattr(lattice, "_exact_point", lambda *given, **more: calls.append((*given, more)) or 12345.0)
    return calls


def tie(index: int) -> mpmath.mpf:
    """The value that, with the noise of a pair's cosine or sine, is in the middle between two points; deviation one."""
    words = Stream(KEY).words(2)
    with mpmath.workdps(60):
        u, turn = ((mpmath.mpf(int(word)) + 0.5) / 2**64 for word in words)
        wave = (mpmath.cos, mpmath.sin)[index](2 * mpmath.pi * turn)
        normal = mpmath.sqrt(-2 * mpmath.log(u)) * wave
        step = lattice_step(1.0)
        return (mpmath.floor(normal / step) + 0.5) * step - normal


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("side", [-1, 1])
def test_points_in_doubt_are_those_with_more_digits(index, side, settled):
    """Just below and just above the middle, by less than the stated error; and not where it is far."""
    values = np.zeros(2)
    values[index] = float(tie(index) + side * 2.0**-45)
    points = round_with_gaussian(values, 1.0, Stream(KEY)) / lattice_step(1.0)
    assert points[index] == 12345
    assert points[1 - index] != 12345
    assert [call[-1]["is_sine"] for call in settled] == [index == 1]
    values[index] = float(tie(index) + side * 2.0**-30)
    round_with_gaussian(values, 1.0, Stream(KEY))
    assert len(settled) == 1


def test_points_of_large_values_are_in_doubt_by_their_rounding(settled):
    """At 2³⁰ deviations a sum is rounded to 2⁻¹² steps: one in sixteen values may be on either side of a middle."""
    round_with_gaussian(2.0**30 + np.arange(4096) * 2.0**-22, 1.0, Stream(KEY))
    assert 100 < len(settled) < 1000


def test_points_in_doubt_have_bits_of_their_own(settled, monkeypatch):
    monkeypatch.setattr(lattice, "_ERROR", 1.0)
    drawn(20)
    streams = [call[5].words(2).tobytes() for call in settled]
    # Cosine and sine are made from the same numbers, so that these must go on alike.
    assert streams[:10] == streams[10:]
    assert len(set(streams)) == 10


def test_a_point_in_doubt_moves_no_other_noise(monkeypatch):
    monkeypatch.setattr(lattice, "_ERROR", 1.0)
    stream = Stream(KEY)
    round_with_gaussian(np.zeros(4), 1.0, stream)
    assert np.array_equal(stream.words(3), Stream(KEY).words(7)[4:])


def test_a_point_is_settled_only_when_all_that_it_may_be_agrees():
    """Further bits that end so near to the middle that they leave it open: more are asked for."""
    words, value, step = Stream(KEY).words(2), float(tie(0)), lattice_step(1.0)
    with mpmath.workdps(80):
        turn = mpmath.mpf(int(words[1])) / 2**64
        # The turn differs from that of `tie` by half a word, which the cell of the first number makes up for.
        middle = (mpmath.nint((value + _normal(words)) / step - 0.5) + 0.5) * step
        radius = (middle - value) / mpmath.cos(2 * mpmath.pi * turn)
        u = mpmath.exp(-(radius**2) / 2)
        extra = int(mpmath.floor(u * 2**128)) - (int(words[0]) << 64)

    class More:
        asked = 0

        def words(self, n_words: int) -> np.ndarray:
            self.asked += 1
            return np.array([extra, 0] if self.asked == 1 else [2**63, 2**63], dtype=np.uint64)

    assert 0 <= extra < 2**64
    more = More()
    lattice._exact_point(value, 1.0, step, int(words[0]), int(words[1]), more, is_sine=False)
    assert more.asked > 1


def _normal(words: np.ndarray) -> mpmath.mpf:
    u, turn = ((mpmath.mpf(int(word)) + 0.5) / 2**64 for word in words)
    return mpmath.sqrt(-2 * mpmath.log(u)) * mpmath.cos(2 * mpmath.pi * turn)
