"""The split of a table into training and test records: by a key that nobody knows but the data holder."""

import numpy as np
import pytest

from cli_cases import people
from fairdp import fitting
from fairdp.data.grouped import _chosen_by_own_coin
from fairdp.data.tables import load_table
from fairdp.fitting import FitReport, fit_source
from fairdp.records import load_records, new_split_key, record_hashes
from fairdp.run.checkpoint import CheckpointWriter
from statistical import assert_binomial

SETTINGS = {"epsilon": 2.0, "n_steps": 20, "sample_rate": 0.2, "certify_metrics": ("demographic_parity",)}


def fitted(source, out=None, *, checkpoint=None, resume=False, **parameters) -> FitReport:
    return fit_source(source, {**SETTINGS, **parameters}, out=out, checkpoint=checkpoint, resume=resume)


def sides_of(records) -> list[list[tuple]]:
    return [sorted(map(tuple, np.column_stack([s.X, s.y, s.groups]).tolist())) for s in (records.train, records.test)]


@pytest.fixture
def keys(monkeypatch) -> list[bytes]:
    """The keys that fits split by."""
    found: list[bytes] = []

    def kept(source, *, split_key, **options):
        found.append(split_key)
        return load_records(source, split_key=split_key, **options)

    monkeypatch.setattr(fitting, "load_records", kept)
    return found


def test_the_test_records_are_chosen_by_a_secret_key_that_nothing_keeps(declared, tmp_path, keys):
    for name in ("one", "two"):
        report = fitted(declared, tmp_path / name, random_state=None, certify_fraction=0.0)
        parts = [load_records(declared, split_key=keys[-1]) for _ in range(2)]
        assert (report.n_train, report.n_test) == (parts[0].train.n_samples, parts[0].test.n_samples)
        # The very same records are on the same side.
        assert record_hashes(parts[0].train).tolist() == record_hashes(parts[1].train).tolist()
        written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
        assert keys[-1] not in written
        assert keys[-1].hex().encode() not in written
    assert len(set(keys)) == 2
    assert sides_of(load_records(declared)) != sides_of(load_records(declared))


def test_a_seed_makes_the_same_split_again(declared, keys):
    for seed in (1, 1, 2):
        fitted(declared, random_state=seed, certify_fraction=0.0)
    assert keys[0] == keys[1] != keys[2]
    assert keys[0] == new_split_key(1)


def test_rows_that_were_chosen_by_a_known_key_are_tested_no_more_often_than_others(declared):
    """Somebody who knew the key could decide, by what they hand in, who is trained on and who is tested.

    The coin of every row here says "test" under the key that once was a constant. Five splits notice a rate of .22.
    """
    crowd = people(20_000, seed=3).assign(age=np.random.default_rng(4).uniform(18, 90, 20_000))
    crowd.to_csv(declared.table, index=False)
    data = load_table(declared.table, label="y", sensitive=("sex",), schema_path=declared.schema).data
    crowd[_chosen_by_own_coin(data, seed=0, share=0.2)][:3000].to_csv(declared.table, index=False)
    counted = [load_records(declared).test.n_samples for _ in range(5)]
    assert_binomial(np.array(counted), 3000, 0.2)
    # Negative control: with the constant, all of them are test records.
    constant = load_records(declared, split_key=bytes(16)).test.n_samples
    assert constant == 3000
    with pytest.raises(AssertionError):
        assert_binomial(np.array([constant]), 3000, 0.2)


def test_a_run_that_was_stopped_continues_with_the_same_split(declared, tmp_path, monkeypatch, keys):
    options = {"out": tmp_path / "model", "checkpoint": tmp_path / "run.ckpt", "random_state": None}
    with monkeypatch.context() as patched:
        patched.setattr(CheckpointWriter, "write_if_due", stopped_after(3, CheckpointWriter.write_if_due))
        with pytest.raises(KeyboardInterrupt):
            fitted(declared, **options)
    kept = tmp_path / "run.ckpt.key"
    assert kept.stat().st_mode & 0o777 == 0o600
    key = kept.read_text()
    kept.unlink()
    with pytest.raises(ValueError, match=r"the key of the test split is not in '.*run\.ckpt\.key'"):
        fitted(declared, resume=True, **options)
    kept.write_text(key)
    fitted(declared, resume=True, **options)
    assert [each.hex() for each in (keys[0], keys[-1])] == [key, key]
    assert sorted(path.name for path in tmp_path.glob("run*")) == []


def stopped_after(n_steps: int, write):
    def written(self, state):
        write(self, state)
        if state.step == n_steps:
            raise KeyboardInterrupt

    return written
