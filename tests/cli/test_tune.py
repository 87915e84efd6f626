"""`fairdp tune`: one command from a table to the best of several models, with one epsilon; wrong input in one line."""

import json

import pytest

from fairdp import cli

ONE = ["--certify-metrics", "demographic_parity"]
TABLE = ["--dataset", "synthetic", *ONE, "--n-steps", "20", "--sample-rate", "0.2", "--seed", "0"]
GRID = ["--grid", "max_gap=.05,.2", "--trials", "2"]


@pytest.fixture
def tune(capsys):
    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            cli.main(["tune", *arguments])
        printed = capsys.readouterr()
        return ended.value.code, printed.out, printed.err

    return run


def test_the_winner_is_saved_with_the_epsilon_of_the_search(tune, tmp_path):
    code, out, _ = tune(*TABLE, *GRID, "--epsilon", "2", "--out", str(tmp_path / "model"), "--json")
    report = json.loads(out)
    assert code == 0
    assert report["privacy"]["epsilon"] <= 2
    assert report["tuned"]["chosen"]["max_gap"] in (0.05, 0.2)
    assert report["tuned"]["epsilon_of_one_trial"] <= 1
    assert report["tuned"]["expected_trials"] == 2
    # Nothing that tells how many there were.
    assert set(report["tuned"]) == {"chosen", "expected_trials", "epsilon_of_one_trial"}
    assert report["seconds"]["total"] == pytest.approx(report["seconds"]["train"] + report["seconds"]["certify"])
    with pytest.raises(SystemExit) as verified:
        cli.main(["verify", str(tmp_path / "model")])
    assert verified.value.code == 0


def test_words_name_the_choice_and_the_whole_search(tune, golden):
    code, out, _ = tune(*TABLE, *GRID, "--private-metrics", "--verbose")
    assert code == 0
    golden("models", "tune, verbose", out, figures=False)


@pytest.mark.parametrize(
    "arguments",
    [
        *([], ["--grid", "learning_rate=1"], ["--grid", "learning_rat=1,2"], ["--grid", "epsilon=1,2"]),
        *(["--grid", "max_gap=.1,2"], [*GRID[:2], "--trials", "1"], [*GRID, "--within-gap", "5"]),
        [*GRID, "--method", "clean"],
    ],
    ids=" ".join,
)
def test_wrong_input_is_one_line(refused, arguments):
    refused("tune", *TABLE, *arguments)
