"""The split of a table into training and test records: by a key that nobody knows but the data holder."""

from dataclasses import replace

import numpy as np
import pytest

from cli_cases import people
from fairdp.commands.fit import run_fit
from fairdp.commands.fit_task import FitTask
from fairdp.commands.records import load_records
from fairdp.commands.split_keys import new_split_key
from fairdp.data.splits import _chosen_by_own_coin
from fairdp.data.tables import load_table
from fairdp.run.checkpoint import CheckpointWriter
from fairdp.saved.used_records import fingerprints, read_used_records
from statistical import assert_binomial

SETTINGS = {"epsilon": 2.0, "n_steps": 20, "sample_rate": 0.2}


def task_of(source, out=None, **parameters) -> FitTask:
    return FitTask(source=source, parameters={**SETTINGS, **parameters}, checkpoint=None, resume=False, out=out)


def sides_of(records) -> list[list[tuple]]:
    return [sorted(map(tuple, np.column_stack([s.X, s.y, s.groups]).tolist())) for s in (records.train, records.test)]


def test_the_test_records_are_chosen_by_a_secret_key_that_the_data_holder_keeps(declared, tmp_path):
    unseeded = {"random_state": None, "certify_fraction": 0.0}
    keys = []
    for name in ("one", "two"):
        report = run_fit(task_of(declared, tmp_path / name, **unseeded))
        used = read_used_records(tmp_path / f"{name}.register")
        again = load_records(declared, split_key=used.split_key)
        assert (report.n_train, report.n_test) == (again.train.n_samples, again.test.n_samples)
        # The very same records are on the same side.
        assert used.overlaps(fingerprints(again.train, used.key))["training"] == again.train.n_samples
        keys.append(used.split_key)
        written = b"".join(path.read_bytes() for path in (tmp_path / name).iterdir())
        assert used.split_key not in written
        assert used.split_key.hex().encode() not in written
    assert len(set(keys)) == 2
    assert sides_of(load_records(declared)) != sides_of(load_records(declared))


def test_a_seed_makes_the_same_split_again(declared, tmp_path):
    keys = []
    for name, seed in (("one", 1), ("same", 1), ("other", 2)):
        run_fit(task_of(declared, tmp_path / name, random_state=seed, certify_fraction=0.0))
        keys.append(read_used_records(tmp_path / f"{name}.register").split_key)
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
    # The twin: with the constant, all of them are test records.
    constant = load_records(declared, split_key=bytes(16)).test.n_samples
    assert constant == 3000
    with pytest.raises(AssertionError):
        assert_binomial(np.array([constant]), 3000, 0.2)


def test_a_run_that_was_stopped_continues_with_the_same_split(declared, tmp_path, monkeypatch):
    task = replace(task_of(declared, tmp_path / "model", random_state=None), checkpoint=tmp_path / "run.ckpt")
    with monkeypatch.context() as patched:
        patched.setattr(CheckpointWriter, "write_if_due", stopped_after(3, CheckpointWriter.write_if_due))
        with pytest.raises(KeyboardInterrupt):
            run_fit(task)
    kept = tmp_path / "run.ckpt.key"
    assert kept.stat().st_mode & 0o777 == 0o600
    key = kept.read_text()
    kept.unlink()
    with pytest.raises(ValueError, match=r"the key of the test split is not in '.*run\.ckpt\.key'"):
        run_fit(replace(task, resume=True))
    kept.write_text(key)
    run_fit(replace(task, resume=True))
    assert read_used_records(tmp_path / "model.register").split_key.hex() == key
    assert sorted(path.name for path in tmp_path.glob("run*")) == []


def stopped_after(n_steps: int, write):
    def written(self, state):
        write(self, state)
        if state.step == n_steps:
            raise KeyboardInterrupt

    return written
