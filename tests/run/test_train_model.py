"""The parts of a run: generators, planning sizes, checks of groups, starting models."""

import pytest

from fairdp.config import check_groups
from fairdp.randomness import Generators
from fairdp.run.checkpoint import resumed_checkpoint


def test_a_seed_gives_independent_streams_that_can_be_repeated():
    first, again = Generators.of(3), Generators.of(3)
    assert first.start_seed == again.start_seed
    steps = [[g.steps.step().stream(purpose).words(2).tolist() for g in (first, again)] for purpose in ("a", "a", "b")]
    assert all(words == again for words, again in steps)
    assert len({tuple(words) for words, _ in steps}) == 3
    below = [[g.below("look 1")(1000) for _ in range(2)] for g in (first, again)]
    assert below[0] == below[1]
    keys = [first.key("a"), first.key("b")]
    assert keys == [again.key("a"), again.key("b")]
    assert len({*keys, Generators.of(4).key("a")}) == 3
    assert first.seeded


def test_without_a_seed_the_operating_system_is_asked():
    first, again = Generators.of(None), Generators.of(None)
    assert not first.seeded
    assert first.lasting_key != again.lasting_key
    assert first.steps.present != again.steps.present
    assert len(first.lasting_key) == len(first.steps.present) == 32


@pytest.mark.parametrize(
    ("sizes", "rate", "message"),
    [
        ((0, 50), None, r"names 2 groups, but group 0 \('f'\) has no training record; leave it out or merge it"),
        ((50, 15), None, r"^group 'm' has 15 records, fewer than one batch \(16\); merge it with another group"),
        ((50, 9), 0.1, r"^group 'm' has 9 records, fewer than one per batch at sample_rate=0\.1; .* at least 0\.11"),
    ],
)
def test_groups_too_small_to_train_on_are_refused(sizes, rate, message):
    with pytest.raises(ValueError, match=message):
        check_groups(("f", "m"), sizes, rate)


@pytest.mark.parametrize(("sizes", "rate"), [((16, 50), None), ((10, 50), 0.1), ((1, 1), 1.0)])
def test_groups_just_large_enough_are_accepted(sizes, rate):
    check_groups(("f", "m"), sizes, rate)


def test_one_group_may_be_small():
    check_groups(("all",), (5,), None)


def test_resuming_needs_a_checkpoint(tmp_path):
    assert resumed_checkpoint(None, resume=False) is None
    assert resumed_checkpoint(tmp_path / "c", resume=False) is None
    with pytest.raises(ValueError, match=r"^resume needs a checkpoint file; give checkpoint as well\.$"):
        resumed_checkpoint(None, resume=True)
    with pytest.raises(ValueError, match=r"c' does not exist; leave out resume to start a new run\.$"):
        resumed_checkpoint(tmp_path / "c", resume=True)


def test_without_a_seed_the_operating_system_is_asked_for_the_whole_key(monkeypatch):
    asked = []
    monkeypatch.setattr("fairdp.randomness.secrets.token_bytes", lambda n: asked.append(n) or bytes(n))
    Generators.of(None)
    assert asked == [32]


def test_noise_on_counts_cannot_be_drawn_again_after_a_step():
    """It follows the chain: what a checkpoint holds, the lasting key among it, says nothing of noise that was added."""
    generators = Generators.of(3)
    before = [generators.below("sizes")(10**9) for _ in range(2)]
    generators.steps.step()
    assert before[0] == before[1] != generators.below("sizes")(10**9)


@pytest.mark.parametrize("bit", [0, 31, 63, 64, 127, 200])
def test_every_bit_of_a_seed_counts(bit):
    assert Generators.of(5).lasting_key != Generators.of(5 ^ 2**bit).lasting_key


@pytest.mark.parametrize("seed", [None, 3])
def test_what_lasts_and_what_moves_on_have_keys_of_their_own(seed):
    """A checkpoint holds the lasting key for good: from it no step may follow."""
    generators = Generators.of(seed)
    assert generators.lasting_key != generators.steps.present
