"""`torchrun -m fairdp fit`: real processes, one of which prints, writes and spends, and all of which stop together."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from workers.launch import HERE, TORCHRUN, by_hand, by_torchrun, environment, free_port

pytestmark = pytest.mark.more
COLUMNS = "sex,income,age,granted"


def write_table(path, n_rows: int = 600, more: str = "") -> None:
    rows = [f"{'fm'[i % 2]},{(i * 37) % 101},{20 + (i * 13) % 50},{int((i * 37) % 101 > 45)}" for i in range(n_rows)]
    path.write_text("\n".join([COLUMNS, *rows]) + "\n" + more)


SCHEMA = {
    "label": "granted",
    "positive": "1",
    "negative": "0",
    "sensitive": [{"name": "sex", "groups": ["f", "m"]}],
    "columns": [
        {"name": "income", "type": "numeric", "low": 0, "high": 100},
        {"name": "age", "type": "numeric", "low": 18, "high": 80},
    ],
}
FIT = ["fit", "table.csv", "--schema", "schema.json", "--n-steps", "30", "--sample-rate", "0.5", "--seed", "4"]
FIT += ["--certify-metrics", "demographic_parity"]


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A folder with a table, its schema, and the model of one new process, with noise as users have it."""
    folder = tmp_path_factory.mktemp("fitted")
    write_table(folder / "table.csv")
    (folder / "schema.json").write_text(json.dumps(SCHEMA))
    fit = [sys.executable, "-m", "fairdp", *FIT, "--no-ledger", "--out", "alone"]
    subprocess.run(fit, check=True, env=environment(), cwd=folder, capture_output=True)
    return folder


@pytest.fixture
def place(fitted, tmp_path, monkeypatch):
    shutil.copytree(fitted, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def model_in(folder) -> tuple[bytes, str]:
    """The parameters, and all that the certificate was made from."""
    certificate = json.loads((folder / "certificate.json").read_text())
    return (folder / "model.safetensors").read_bytes(), repr((certificate["counts"], certificate["scores"]))


def entries(ledger) -> int:
    from fairdp.ledger.ledger import Ledger

    book = Ledger(ledger)
    try:
        return len(book.entries())
    finally:
        book.close()


def test_two_processes_make_the_model_of_one_and_one_of_them_prints(place):
    ended = by_torchrun(2, ["-m", "fairdp", *FIT, "--ledger", "ledger", "--out", "model"], cwd=place)
    assert ended.code == 0, ended.err
    assert model_in(place / "model") == model_in(place / "alone")
    assert ended.out.count("Model written to") == 1
    assert entries(place / "ledger") == 1


def test_a_killed_worker_ends_all_with_one_line_and_torchrun_goes_on_from_there(place):
    """By the static rendezvous; those that are lost elsewhere below have the other one."""
    killing = [str(HERE / "killed.py"), "1", "17", "note"]
    fit = [*FIT, "--ledger", "ledger", "--checkpoint", "run", "--out", "model"]
    ended = by_torchrun(2, [*killing, *fit], restarts=1, static=True, cwd=place, seconds=120)
    assert ended.code == 0, ended.err
    assert len(ended.lines) == 1, ended.err
    assert "a worker was lost" in ended.lines[0] or "terminated" in ended.lines[0]
    assert model_in(place / "model") == model_in(place / "alone")
    assert entries(place / "ledger") == 1
    assert not (place / "run").exists()


def test_survivors_stop_by_themselves_and_a_later_resume_goes_on(place):
    """Without torchrun nobody ends the others; the first is lost, and with it the store."""
    fit = [*FIT, "--ledger", "ledger", "--checkpoint", "run", "--out", "model"]
    killed, *others = by_hand(3 * [[str(HERE / "killed.py"), "0", "9", "note", *fit]], cwd=place, seconds=90)
    assert killed.code == -9
    assert [other.code for other in others] == [2, 2]
    assert all(len(other.lines) <= 1 and "Traceback" not in other.err for other in others)
    assert any("--resume" in line for other in others for line in other.lines)
    again = by_torchrun(2, ["-m", "fairdp", *fit, "--resume"], cwd=place)
    assert again.code == 0, again.err
    assert model_in(place / "model") == model_in(place / "alone")
    assert entries(place / "ledger") == 1


@pytest.mark.parametrize("differs", ["records", "options"])
def test_workers_that_were_given_something_else_are_refused_before_anything_is_spent(place, differs):
    (place / "other").mkdir()
    write_table(place / "other" / "table.csv", more="f,3,40,1\n" if differs == "records" else "")
    fit = ["-m", "fairdp", *FIT, "--ledger", "ledger", "--out", "model"]
    second = [word.replace("table.csv", "other/table.csv") for word in fit]
    if differs == "options":
        second[second.index("30")] = "31"
    ended = by_hand([fit, second], cwd=place, seconds=90)
    assert [each.code for each in ended] == [2, 2]
    said = [line for each in ended for line in each.lines]
    assert len(said) == 1
    assert ("another 'table.csv', or none," if differs == "records" else "other options") in said[0]
    assert not (place / "model").exists()
    assert not (place / "ledger").exists() or entries(place / "ledger") == 0


def test_a_wrong_option_is_said_once_and_other_commands_are_refused(place):
    ended = by_torchrun(2, ["-m", "fairdp", "fit", "table.csv", "--label", "grated", "--sensitive", "sex"], cwd=place)
    assert ended.lines == ["fairdp: the table has no column 'grated'; did you mean 'granted'?"]
    refused = by_torchrun(2, ["-m", "fairdp", "compare", "table.csv"], cwd=place)
    assert len(refused.lines) == 1
    assert "torchrun is for fit, and sweeps take --scheduler" in refused.lines[0]


def test_the_example_makes_the_same_model_with_and_without_torchrun(place):
    """Python's interface: the script is the same, and so is what it prints."""
    example = str(Path(__file__).parents[2] / "examples" / "workers.py")
    ended = by_torchrun(2, [example], cwd=place)
    assert ended.code == 0, ended.err
    together = (place / "workers-model" / "model.safetensors").read_bytes()
    alone = subprocess.run([sys.executable, example], capture_output=True, text=True, check=True, env=environment())
    assert ended.out == alone.stdout
    assert (place / "workers-model" / "model.safetensors").read_bytes() == together


def test_the_two_commands_of_the_page_run(place):
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "large-data.md").read_text()
    block = page.split("```bash\n")[1].split("```")[0]
    (place / "loans").mkdir()
    pd.read_csv(place / "table.csv").to_parquet(place / "loans" / "part-0.parquet")
    (place / "loans.yaml").write_text(json.dumps(SCHEMA))
    for line in block.splitlines():
        first, *words = line.split()
        assert first in ("fairdp", "torchrun")
        known = [sys.executable, "-m", "fairdp"] if first == "fairdp" else [TORCHRUN]
        settings = environment(FAIRDP_LEDGER=str(place / "ledger"))
        subprocess.run([*known, *words, "--n-steps", "20"], check=True, env=settings, cwd=place, capture_output=True)
    assert sorted(path.name for path in place.glob("*/model.safetensors")) == 3 * ["model.safetensors"]
    assert len(list((place / "encoded").iterdir())) == 1


def test_a_process_that_waits_for_others_can_be_ended(place):
    """They never come: whoever waits inside torch must hear a signal all the same."""
    waiting = environment(WORLD_SIZE="2", RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    command = [sys.executable, "-m", "fairdp", *FIT, "--no-ledger"]
    process = subprocess.Popen(command, env=waiting, cwd=place, stderr=subprocess.PIPE, text=True)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=8)
    process.terminate()
    _, err = process.communicate(timeout=30)
    assert process.returncode == 143
    assert err.splitlines()[-1].startswith("fairdp: terminated")


def test_a_missed_target_is_not_trained_again(place):
    """To torchrun, exit code 1 looks like a worker that was lost; nothing is repeated, with a folder or without."""
    fit = [*FIT, "--ledger", "ledger", "--require-tau", "0.0001"]
    for more in (["--checkpoint", "one"], ["--checkpoint", "two", "--out", "model", "--overwrite"]):
        before = entries(place / "ledger") if (place / "ledger").exists() else 0
        ended = by_torchrun(1, ["-m", "fairdp", *fit, *more], restarts=1, cwd=place)
        assert ended.code == 1
        assert entries(place / "ledger") == before + 1


def test_a_refusal_is_not_overruled_by_a_second_start(place):
    """The checkpoint of another run is refused; started again, nobody goes on with it, and nobody begins."""
    other = [*FIT, "--ledger", "ledger", "--checkpoint", "run", "--out", "other"]
    killed = by_torchrun(2, [str(HERE / "killed.py"), "1", "9", "note", *other], cwd=place)
    assert (killed.code, (place / "run").exists()) == (1, True)
    before = (place / "run").read_bytes()
    for size in (1, 2):
        fit = [*FIT, "--ledger", "ledger", "--checkpoint", "run", "--out", f"model{size}"]
        ended = by_torchrun(size, ["-m", "fairdp", *fit], restarts=1, cwd=place, seconds=120)
        assert len(ended.lines) == 1, ended.err
        assert "exists already" in ended.lines[0]
        assert not (place / f"model{size}").exists()
    assert (place / "run").read_bytes() == before
    assert entries(place / "ledger") == 1


def test_a_worker_without_the_test_file_is_noticed_before_columns_are_paid_for(place):
    write_table(place / "test.csv", n_rows=50)
    plain = ["-m", "fairdp", "fit", "table.csv", "--label", "granted", "--sensitive", "sex", "--n-steps", "5"]
    fit = [*plain, "--ledger", "ledger", "--out", "model", "--test", "test.csv"]
    second = [*fit[:-1], "nothere.csv"]
    ended = by_hand([fit, second], cwd=place, seconds=90)
    assert [each.code for each in ended] == [2, 2]
    said = [line for each in ended for line in each.lines]
    assert len(said) == 1, said
    assert "or none, than worker 0" in said[0]
    assert not (place / "ledger").exists() or entries(place / "ledger") == 0


@pytest.mark.parametrize("moment", ["fairdp.fitting:measured", "after:fairdp.fitting:write_model"])
def test_what_is_left_to_do_after_training_is_done_by_the_next_start(place, moment):
    """The first worker is lost before it has written the model, over an older one; or before it has cleared up."""
    shutil.copytree(place / "alone", place / "model")
    (place / "model" / "model.safetensors").touch()
    fit = [*FIT, "--ledger", "ledger", "--checkpoint", "run", "--out", "model", "--overwrite"]
    killing = [str(HERE / "killed.py"), "0", moment, "note"]
    ended = by_torchrun(2, [*killing, *fit], restarts=1, cwd=place, seconds=120)
    assert ended.code == 0, ended.err
    assert len(ended.lines) == 1, ended.err
    assert model_in(place / "model") == model_in(place / "alone")
    assert entries(place / "ledger") == 1
    assert sorted(path.name for path in place.glob("run*")) == []


def test_a_worker_that_is_lost_before_anything_began_is_started_again(place):
    """With a model of old in the place, and while a checkpoint is read: neither is a reason to refuse."""
    shutil.copytree(place / "alone", place / "model")
    fit = [*FIT, "--ledger", "ledger", "--checkpoint", "run", "--out", "model", "--overwrite"]
    killing = [str(HERE / "killed.py"), "1", "fairdp.fitting:load_records", "note"]
    ended = by_torchrun(2, [*killing, *fit], restarts=1, cwd=place, seconds=120)
    assert ended.code == 0, ended.err
    assert entries(place / "ledger") == 1
    stopped = by_torchrun(2, [str(HERE / "killed.py"), "1", "12", "note", *fit], cwd=place)
    assert (stopped.code, (place / "run").exists()) == (1, True)
    killing[2] = "fairdp.records:read_checkpoint"
    ended = by_torchrun(2, [*killing, *fit, "--resume"], restarts=1, cwd=place, seconds=120)
    assert ended.code == 0, ended.err
    assert model_in(place / "model") == model_in(place / "alone")
    assert entries(place / "ledger") == 2
