"""The pool of fitted folders: each is made once, whole, and is the same for every process of a run."""

import json
import multiprocessing

import pytest

import pool


def _counted(place):
    with (place.parent / "made.txt").open("a") as file:
        file.write("x")
    (place / "content").write_text("whole")


def _asked(_: int) -> str:
    return str(pool.made_once(_counted, "counted"))


@pytest.fixture
def own_pool(tmp_path, monkeypatch):
    monkeypatch.setattr(pool, "_place", lambda: tmp_path)
    return tmp_path


def test_processes_that_ask_at_once_get_one_folder_that_was_made_once(own_pool):
    with multiprocessing.get_context("fork").Pool(4) as processes:
        places = processes.map(_asked, range(12))
    assert len(set(places)) == 1
    assert (own_pool / "made.txt").read_text() == "x"


def test_what_could_not_be_made_is_not_taken_for_made_and_keys_are_told_apart(own_pool):
    def fails(place):
        (place / "content").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pool.made_once(fails, "one")
    assert (pool.made_once(_counted, "one") / "content").read_text() == "whole"
    assert pool.made_once(_counted, "two") != pool.made_once(_counted, "one")


def test_a_workplace_has_a_model_with_its_ledger_and_a_copy_is_ones_own(taken):
    place = taken()
    assert pool.run_in(place, "verify", "model")[0] == 0
    assert json.loads(pool.run_in(place, "ledger", "--json")[1])
    (place / "people.csv").unlink()
    assert (pool.fitted_place() / "people.csv").exists()
    assert json.loads((place / "answer.json").read_text())["report"]["n_train"] > 0
