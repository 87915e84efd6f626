"""Keys and random words: what cannot be told from chance, and what cannot be run backwards."""

import numpy as np
import pytest
from scipy import stats

from fairdp.randomness import KEY_BYTES, Chain, StepKeys, Stream
from statistical import FALSE_ALARM, assert_plausible

KEY = bytes(range(KEY_BYTES))


def test_the_words_are_those_of_the_published_cipher():
    """AES-256 of counters under the key of FIPS 197, appendix C.3, whose block is another; against a second program."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    blocks = Cipher(algorithms.AES(KEY), modes.ECB()).encryptor()
    expected = b"".join(blocks.update(i.to_bytes(16, "big")) for i in range(5))
    assert Stream(KEY).words(10).tobytes() == expected


def test_words_go_on_where_they_stopped():
    stream = Stream(KEY)
    assert np.array_equal(np.concatenate([stream.words(3), stream.words(4)]), Stream(KEY).words(7))


def uniform_pvalue(values: np.ndarray) -> float:
    return float(stats.kstest(values, "uniform").pvalue)


def test_numbers_are_uniform_and_below_one():
    values = Stream(KEY).uniforms(100_000)
    assert values.max() < 1
    assert values.min() >= 0
    assert_plausible(uniform_pvalue(values), "uniform numbers")
    assert uniform_pvalue(values**1.02) < FALSE_ALARM


def test_every_bit_of_a_word_is_a_fair_coin():
    words = Stream(KEY).words(20_000)
    for bit in range(64):
        ones = int(((words >> np.uint64(bit)) & np.uint64(1)).sum())
        assert_plausible(stats.binomtest(ones, 20_000).pvalue, f"bit {bit}")


def test_purposes_and_steps_have_streams_of_their_own():
    chain = Chain(KEY)
    steps = [chain.step() for _ in range(2)]
    words = [keys.stream(purpose).words(4).tobytes() for keys in steps for purpose in ("noise", "block 0")]
    words += [Stream(KEY).words(4).tobytes(), Stream(KEY).beside(0).words(4).tobytes(), Chain(KEY).key("noise")]
    assert len(set(words)) == len(words)


def test_whoever_needs_more_words_has_their_own():
    assert len({Stream(KEY).beside(number).words(2).tobytes() for number in range(50)}) == 50


def test_the_chain_repeats_from_any_of_its_states():
    chain = Chain(KEY)
    chain.step()
    again = Chain(chain.present)
    assert [chain.step().seed("a") for _ in range(3)] == [again.step().seed("a") for _ in range(3)]


def test_the_state_before_is_not_next_to_the_present_one():
    """States that follow each other have nothing in common: about half of their 256 bits differ, with deviation 8."""
    chain = Chain(KEY)
    for _ in range(20):
        before = int.from_bytes(chain.present, "big")
        chain.step()
        assert 70 <= (before ^ int.from_bytes(chain.present, "big")).bit_count() <= 186


def test_a_state_holds_no_earlier_key():
    """All that a state can compute: nothing of it is among the keys of the steps before."""
    chain = Chain(KEY)
    keys = [chain.step() for _ in range(3)]
    past = {step.stream(purpose).words(4).tobytes() for step in keys for purpose in ("noise", "block 0")}
    present, future = Chain(chain.present), set()
    for _ in range(50):
        step = present.step()
        future |= {step.stream(purpose).words(4).tobytes() for purpose in ("noise", "block 0")}
    assert not past & future
    assert vars(chain) == {"present": chain.present}


def test_that_check_notices_a_generator_that_runs_backwards():
    """The state that checkpoints held before: PCG64 gives back its past."""
    rng = np.random.default_rng(0)
    past = rng.random()
    rng.bit_generator.advance(-1)
    assert rng.random() == past


@pytest.mark.parametrize("secret", [Chain(KEY), StepKeys(KEY), Stream(KEY)])
def test_nothing_secret_is_printed(secret):
    assert KEY.hex() not in repr(secret)
    assert repr(KEY) not in repr(secret)


def test_no_key_serves_two_purposes():
    """The words drawn now, those of a step, and those the chain continues with."""
    chain = Chain(KEY)
    now = [chain.key(purpose) for purpose in ("step", "next", "noise")]
    keys = [*now, chain.step()._key, chain.present, KEY]
    assert len(set(keys)) == len(keys)


def test_numbers_have_all_their_bits():
    """Multiples of 2⁻⁵³, as often odd as even: a coarser grid would round the chances that they are compared with."""
    multiples = Stream(KEY).uniforms(2000) * 2.0**53
    assert np.array_equal(multiples, np.rint(multiples))
    assert_plausible(stats.binomtest(int((multiples % 2).sum()), 2000).pvalue, "last bit")
