"""`fairdp compare`: its files, what it says, and that it continues."""

import json
import math
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fairdp.data.schema import FORMAT_KEYS
from fairdp_lab.cli import _populations
from fairdp_lab.sweeps import compare as training
from fairdp_lab.sweeps.compare import control_rows, privacy_cost
from fairdp_lab.sweeps.fits import Fit, Population, Trained, key_of, random_state_of

QUICK = ("--grid", "n_steps=20", "--grid", "sample_rate=.1", "--workers", 1)
SMALL = ("compare", "--dataset", "synthetic", "--seeds", 2, *QUICK)
FILES = {"results.parquet", "results.csv", "summary.json", "provenance.json"}
FILES |= {f"tradeoff-{utility}.{kind}" for utility in ("accuracy", "auc") for kind in ("png", "svg")}


@pytest.fixture
def compare(run, tmp_path):
    """A comparison into a folder of its own; what it prints as JSON."""

    def call(*arguments):
        result = run(*SMALL, *arguments, "--out", tmp_path / "out", "--json")
        assert result.code == 0, result.err
        return json.loads(result.out, parse_constant=pytest.fail)

    return call


@pytest.mark.more
def test_files_rows_and_provenance(compare, tmp_path):
    report = compare("--methods", "clean,dpsgd,fairdp", "--epsilons", ".5,2")
    assert {path.name for path in (tmp_path / "out").iterdir()} == FILES | {"trainings"}
    assert set(report["files"]) == FILES
    frame = pd.read_parquet(tmp_path / "out" / "results.parquet")
    # Two budgets for private methods, one row for the other, two seeds each.
    assert frame.groupby("method").size().to_dict() == {"clean": 2, "dpsgd": 4, "fairdp": 4}
    assert (frame["epsilon_spent"][frame["method"] != "clean"] <= frame["epsilon"][frame["method"] != "clean"]).all()
    pd.testing.assert_frame_equal(frame, pd.read_csv(tmp_path / "out" / "results.csv"), check_exact=False)
    kept = (tmp_path / "out" / "trainings" / "synthetic.jsonl").read_text().splitlines()
    assert len(kept) == len(frame) == report["n_runs"]
    row = next(row for row in report["rows"] if (row["method"], row["epsilon"]) == ("dpsgd", 2.0))
    own = frame[(frame["method"] == "dpsgd") & (frame["epsilon"] == 2.0)]["accuracy"]
    assert row["mean"]["accuracy"] == pytest.approx(own.mean())
    assert row["standard_error"]["accuracy"] == pytest.approx(own.std() / 2**0.5)
    assert [(row["at"], row["epsilon"]) for row in report["controls"]] == [("fairdp", 0.5), ("fairdp", 2.0)]
    origin = json.loads((tmp_path / "out" / "provenance.json").read_text())
    assert origin.keys() >= {"command", "versions", "hardware", "code_sha256", "records"}
    assert origin["records"].keys() == {"synthetic"}
    assert origin["records"]["synthetic"].startswith("SHA-256 ")


def test_the_privacy_of_a_sweep_is_the_sum_over_its_runs(compare):
    report = compare("--methods", "clean,dpsgd", "--epsilons", "1,2")
    (cost,) = report["privacy"]
    assert (cost["n_private_runs"], cost["n_other_runs"]) == (4, 2)
    spent = [2 * row["mean"]["epsilon"] for row in report["rows"] if row["method"] == "dpsgd"]
    assert cost["epsilon"] == pytest.approx(sum(spent))
    assert 5.8 < cost["epsilon"] <= 6.0
    assert cost["delta"] == pytest.approx(4e-5)
    assert "and δ = 4e-05 in all" in cost["statement"]
    assert "seeds that are secret" in cost["statement"]
    # What another command left in the folder is as visible as the rest.
    (more,) = compare("--methods", "fairdp", "--epsilons", "1")["privacy"]
    assert (more["n_private_runs"], more["n_other_runs"]) == (6, 2)
    assert more["epsilon"] > cost["epsilon"] + 1.9


def test_what_was_spent_is_rounded_up():
    cost = privacy_cost("people", [0.99971] * 14 + [math.inf], delta=1e-5)
    assert "ε = 14 and δ = 0.00014 in all" in cost["statement"]
    assert (cost["n_private_runs"], cost["n_other_runs"]) == (14, 1)
    assert privacy_cost("a", [1.0, 1.0], delta=1e-6)["epsilon"] == 2.0
    read = privacy_cost("a", [1.0, 1.0], delta=1e-6, read=(0.25, 1e-6))
    assert (read["epsilon"], read["delta"]) == (2.25, 3e-6)


def test_nothing_exact_of_the_training_records_is_in_the_tables(compare, tmp_path):
    report = compare("--methods", "dpsgd")
    frame = pd.read_csv(tmp_path / "out" / "results.csv")
    assert not [name for name in frame if "train" in name]
    assert not [name for row in report["rows"] for name in row["mean"] if "train" in name]


def made_up(method: str, seed: int, epsilon: float, rate: float, slope: float) -> tuple[Fit, Trained]:
    fit = Fit(
        population=Population(dataset="synthetic"),
        method=method,
        seed=seed,
        settings=(("epsilon", epsilon),),
        is_control=method == "dpsgd",
        is_experiment=False,
    )
    curves = {"positive_rate": [0.0, 1.0], "accuracy": [0.0, slope]}
    return fit, Trained(numbers={"positive_rate": rate, "auc": 0.8}, moved=curves, seconds=1.0)


def test_a_control_has_the_seed_and_the_budget_of_its_run():
    """Four runs, and four curves of DP-SGD that all differ: each must meet its own."""
    cases = [(0, 1.0, 0.1, 1.0), (1, 1.0, 0.2, 2.0), (0, 2.0, 0.3, 3.0), (1, 2.0, 0.4, 4.0)]
    found = dict(made_up(method, *case) for method in ("dpsgd", "fairdp") for case in cases)
    rows = control_rows(found, at="fairdp")
    assert [row.named["epsilon"] for row in rows] == [1.0, 2.0]
    assert [row.mean["accuracy"] for row in rows] == pytest.approx([(0.1 + 0.4) / 2, (0.9 + 1.6) / 2])


@pytest.mark.more
def test_a_finished_comparison_is_free_and_a_larger_one_trains_what_is_new(compare, monkeypatch):
    first = compare("--methods", "dpsgd")
    trained = []
    honest = training.figures_of
    monkeypatch.setattr(training, "figures_of", lambda fit, **own: trained.append(fit) or honest(fit, **own))
    assert compare("--methods", "dpsgd") == first
    assert not trained
    compare("--methods", "dpsgd,fairdp")
    assert {fit.method for fit in trained} == {"fairdp"}


@pytest.mark.more
def test_a_grid_is_a_row_for_each_value_and_targets_go_where_they_are_taken(compare):
    report = compare("--methods", "dpsgd,raco_dp", "--grid", "max_gap=.02,.2")
    rows = [(row["method"], row.get("variant")) for row in report["rows"]]
    assert rows == [("dpsgd", None), ("raco_dp", "max_gap=0.02"), ("raco_dp", "max_gap=0.2")]


@pytest.mark.more
def test_values_of_a_grid_are_numbers_lists_and_words(compare):
    grid = ("learning_rate=1e-2", "hidden=[8],[4,4]", "activation=tanh", "bias=false", "clip_norm=None")
    report = compare("--methods", "dpsgd", *(part for own in grid for part in ("--grid", own)))
    assert [row["variant"] for row in report["rows"]] == ["hidden=(8,)", "hidden=(4, 4)"]


@pytest.mark.more
def test_values_given_twice_for_one_parameter_are_all_trained(compare):
    report = compare("--methods", "fairdp", "--grid", "weight_bound=.5", "--grid", "weight_bound=1")
    assert [row["variant"] for row in report["rows"]] == ["weight_bound=0.5", "weight_bound=1"]


@pytest.mark.more
def test_a_parameter_of_another_method_is_not_trained_twice(compare):
    report = compare("--methods", "dpsgd,fairdp", "--grid", "weight_bound=.5,1")
    assert [(row["method"], row.get("variant")) for row in report["rows"]] == [
        ("dpsgd", None),
        ("fairdp", "weight_bound=0.5"),
        ("fairdp", "weight_bound=1"),
    ]
    assert len(report["controls"]) == 2


@pytest.mark.more
def test_other_groups_of_a_data_set_are_told_apart_by_name():
    of_table = {"label": None, "positive": None, "sensitive": ("sex", "race"), "schema": None, "test_fraction": 0.2}
    of_table |= dict.fromkeys(FORMAT_KEYS)
    (crossed,) = _populations(("adult",), None, dict(of_table), None)
    (plain,) = _populations(("adult",), None, of_table | {"sensitive": None}, None)
    assert (crossed.dataset, plain.dataset) == ("adult by sex and race", "adult")
    assert crossed.source.sensitive == ("sex", "race")


def test_a_collapsed_model_carries_a_warning(compare):
    report = compare("--methods", "fairdp", "--grid", "weight_bound=.01")
    assert any("fairdp at ε = 1" in text for text in report["warnings"])


@pytest.fixture
def own_table(run, tmp_path):
    """A comparison on a user's own table, into the folder that is named."""
    rng = np.random.default_rng(0)
    age, sex = rng.integers(18, 90, 4000), rng.choice(["f", "m"], 4000)
    loans = pd.DataFrame({"age": age, "sex": sex, "approved": np.where(age + rng.normal(0, 9, 4000) > 54, "yes", "no")})
    loans.to_csv(tmp_path / "loans.csv", index=False)
    columns = ("--label", "approved", "--sensitive", "sex")

    def call(out, *arguments):
        result = run(
            "compare", tmp_path / "loans.csv", *columns, "--methods", "dpsgd", *QUICK, *arguments, "--out", out
        )
        assert result.code == 0, result.err
        return result

    return call


def test_a_users_own_table(own_table, tmp_path):
    result = own_table(tmp_path / "out")
    assert "loans.csv: mean ± standard error over 3 seeds" in result.out
    # What was read from private rows is said, as it is by fit, and written down.
    assert "were read from the table once, with noise" in result.err
    summary = (tmp_path / "out" / "summary.json").read_text()
    assert "were read from the table once" in summary
    assert "DP-SGD" in result.out
    # Whoever sees the folder sees the schema too.
    (cost,) = json.loads(summary)["privacy"]
    budgets = pd.read_csv(tmp_path / "out" / "results.csv")["epsilon"]
    assert cost["epsilon"] > budgets.sum() + 0.01


def files_in(folder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_nothing_in_the_folder_identifies_a_users_records_without_the_key(own_table, tmp_path, monkeypatch):
    """The same rows and command in two folders: whoever guesses the rows finds their hash in neither."""
    named, keys = [], []
    for name in ("one", "two"):
        own_table(tmp_path / name, "--seeds", 1)
        key = tmp_path / f"{name}.key"
        assert key.stat().st_mode & 0o777 == 0o600
        keys.append(key.read_text())
        (run,) = (tmp_path / name / "trainings").iterdir()
        origin = json.loads((tmp_path / name / "provenance.json").read_text())["records"]["loans.csv"]
        assert origin == f"commitment {json.loads(run.read_text())['records']}"
        named.append((run.read_text(), origin))
        secret = bytes.fromhex(keys[-1])
        for content in files_in(tmp_path / name).values():
            assert keys[-1].encode() not in content
            assert secret not in content
            assert repr(secret).encode() not in content
    assert len(set(keys)) == 2
    assert all(first != second for first, second in zip(*named, strict=True))
    # The same command again finds its key, and with it what is done.
    monkeypatch.setattr(training, "figures_of", lambda *_, **__: pytest.fail("trained again"))
    own_table(tmp_path / "one", "--seeds", 1)
    (tmp_path / "one.key").write_text("abc")
    with pytest.raises(AssertionError, match="holds no key of a comparison"):
        own_table(tmp_path / "one", "--seeds", 1)


def test_the_noise_on_a_users_own_table_does_not_follow_from_the_folder():
    one, other = (
        Fit(population=Population(dataset="synthetic", key=bytes([i] * 32)), method="dpsgd", seed=0) for i in (1, 2)
    )
    assert random_state_of(one) != random_state_of(other)
    assert f"{random_state_of(one):x}"[:16] not in key_of(one)
    assert random_state_of(one) == random_state_of(one)
    public = Fit(population=Population(dataset="synthetic"), method="dpsgd", seed=0, is_experiment=False)
    assert f"{random_state_of(public):016x}" == key_of(public)[:16]


@pytest.mark.parametrize(
    "arguments",
    [
        *(("--dataset", "adlut"), ("--methods", "dpsdg"), ("--grid", "m=1"), ("--grid", "weight_bound")),
        *(("--grid", "n_steps=0"), ("--grid", "epsilon=1"), ("--epsilons", "one"), ("--seeds", "0"), ("--label", "x")),
        *(("--grid", "momentum=fast"), ("--grid", "hidden=32"), ("--backend", "dask")),
        ("--backend", "local", "--scheduler", "tcp://127.0.0.1:9"),
        ("--scheduler", "tcp://127.0.0.1:9"),
    ],
    ids=" ".join,
)
def test_bad_input_is_one_line_and_writes_nothing(refused, tmp_path, monkeypatch, arguments):
    monkeypatch.setattr("fairdp_lab.sweeps.workers.ANSWER", 0.2)
    dataset = () if "--dataset" in arguments else ("--dataset", "synthetic")
    refused("compare", *dataset, *arguments, "--out", tmp_path / "out")


def started(out, *more) -> subprocess.Popen:
    settings = ("--methods", "dpsgd,fairdp", "--grid", "n_steps=250", "--workers", 1, "--seeds", 3, *more)
    return subprocess.Popen(
        [sys.executable, "-m", "fairdp", *map(str, ("compare", "--dataset", "synthetic", *settings, "--out", out))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


@pytest.mark.more
@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT])
def test_a_comparison_that_was_ended_continues_without_loss(tmp_path, ending):
    runs, process = tmp_path / "out" / "trainings" / "synthetic.jsonl", started(tmp_path / "out")
    limit = time.monotonic() + 120
    while not (runs.exists() and b"\n" in runs.read_bytes()):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < limit
        time.sleep(0.01)
    process.send_signal(ending)
    _, err = process.communicate(timeout=60)
    if ending == signal.SIGINT:
        assert process.returncode == 130
        assert "finished training runs are kept in" in err
        assert "run the same command again to continue" in err
    kept = [line for line in runs.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
    assert 0 < len(kept) < 6
    again = started(tmp_path / "out", "--json")
    out, err = again.communicate(timeout=300)
    assert again.returncode == 0, err
    assert json.loads(out)["n_runs"] == 6
    after = runs.read_bytes().splitlines(keepends=True)
    assert after[: len(kept)] == kept
    assert len([line for line in after if line.endswith(b"}\n")]) == 6


def descendants(process: int) -> set[int]:
    """All processes below one, by the system's list."""
    above = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            _, fields = path.read_text().rsplit(")", 1)
        except (FileNotFoundError, ProcessLookupError):
            continue
        above[int(path.parent.name)] = int(fields.split()[1])
    found = {process}
    while new := {child for child, parent in above.items() if parent in found} - found:
        found |= new
    return found - {process}


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are listed by /proc")
def test_sigterm_of_a_comparison_ends_its_workers_too(tmp_path):
    process = started(tmp_path / "out", "--workers", 2, "--seeds", 40)
    limit = time.monotonic() + 300
    # Workers are at work once one training has been stored.
    runs = tmp_path / "out" / "trainings" / "synthetic.jsonl"
    while not (runs.exists() and runs.stat().st_size):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < limit
        time.sleep(0.01)
    workers = descendants(process.pid)
    assert len(workers) >= 2
    process.send_signal(signal.SIGTERM)
    out_text, err = process.communicate(timeout=60)
    assert (process.returncode, out_text) == (143, ""), err
    last = err.splitlines()[-1]
    assert last.startswith("fairdp: terminated: ")
    assert "finished training runs are kept in" in last
    assert "Traceback" not in err
    limit = time.monotonic() + 5
    while any(map(is_alive, workers)) and time.monotonic() < limit:
        time.sleep(0.01)
    assert not [worker for worker in workers if is_alive(worker)]
