"""`fairdp audit` as it is typed: what it prints and writes, and when it fails."""

import json

import pytest

from fairdp.training import loop
from fairdp.training.noise import add_gaussian_noise
from fairdp_lab.audit import command
from fairdp_lab.audit.replay import ReplayReport, Violation

SMALL = ("--draws", 2000, "--canaries", 200, "--seed", 0)
ATTACK = ("audit", "--only", "attack", *SMALL)


FOUND = Violation(
    method="dpsgd",
    route="closed form",
    neighbour="one record removed",
    release="gradient 3",
    found="moved by 1.2 times what is accounted",
)


def replayed(**found):
    return ReplayReport(releases=1234, neighbours=5, files=6, **found)


@pytest.fixture
def replays(monkeypatch):
    """A stand-in for the replay, which reports what it is told to."""

    def set_report(report):
        monkeypatch.setattr(command, "_replay", lambda *, quick: lambda method, *, seed, observe: report)

    return set_report


def halved(bounded, noise_std, *, accounted_multipliers, **options):
    return add_gaussian_noise(bounded, noise_std / 2, accounted_multipliers=accounted_multipliers / 2, **options)


def test_both_parts_as_json(answer, replays):
    replays(replayed())
    found = answer("audit", "--method", "dpsgd", *SMALL)
    assert found["passed"] is True
    assert found["seeded"] is True
    assert found["false_alarm"] == 1e-3
    assert [test["test"].split(",")[0] for test in found["releases"]] == [
        "noisy count",
        "noisy group size",
        "noisy polynomial",
        "Gaussian release",
    ]
    of_method = found["methods"]["dpsgd"]
    assert of_method["replay"] == {
        "releases": 1234,
        "neighbours": 5,
        "files": 6,
        "untested": [],
        "violations": [],
    }
    assert 0 <= of_method["attack"]["epsilon_lower"] <= of_method["attack"]["epsilon"] <= 1
    # All tests share one thousandth.
    tests = [*found["releases"], *of_method["attack"]["tests"]]
    assert len(tests) == found["n_tests"]
    assert sum(test["failure_probability"] for test in tests) == pytest.approx(1e-3)


def test_a_table_for_people(run, replays):
    replays(replayed())
    found = run("audit", "--method", "fairdp", *SMALL)
    assert found.code == 0
    assert "noisy count, two worlds" in found.out
    assert "1,234" in found.out
    assert "Nothing contradicts what is stated." in found.out
    assert max(map(len, found.out.splitlines())) <= 80


def test_a_method_that_is_not_private_is_left_alone(run, answer):
    found = run("audit", "--method", "clean")
    assert (found.code, found.err) == (0, "")
    assert "clean: not private, nothing to audit." in found.out
    assert answer("audit", "--method", "fairsmooth")["methods"] == {"fairsmooth": {"private": False}}


def test_a_release_that_moved_too_far_fails(run, replays):
    replays(replayed(violations=(FOUND,)))
    found = run("audit", "--only", "replay", "--method", "dpsgd")
    assert found.code == 1
    assert "VIOLATION: dpsgd, closed form, one record removed, gradient 3: moved by 1.2 times" in found.out
    assert "NOT as stated." in found.out


def test_a_route_that_tested_nothing_is_named_and_no_alarm(run, answer, replays):
    made = frozenset({("images", "statistics"), ("file", "statistics")})
    replays(replayed(made=made, met=frozenset({("file", "statistics")})))
    found = run("audit", "--only", "replay", "--method", "dpsgd")
    assert found.code == 0
    assert "dpsgd: no neighbour moved any statistics on the route 'images'" in found.out
    told = answer("audit", "--only", "replay", "--method", "dpsgd")["methods"]["dpsgd"]["replay"]
    assert told["untested"] == [{"route": "images", "release": "statistics"}]


def test_a_bound_that_passes_epsilon_fails(run, monkeypatch, tmp_path):
    monkeypatch.setattr(loop, "add_gaussian_noise", halved)
    found = run(*ATTACK, "--method", "dpsgd", "--epsilon", 4, "--draws", 10_000, "--out", tmp_path / "audit.json")
    assert found.code == 1
    assert "VIOLATION: dpsgd: one step, two worlds: ε is at least" in found.out
    written = json.loads((tmp_path / "audit.json").read_text())
    assert written["passed"] is False
    assert "replay" not in written["methods"]["dpsgd"]


def test_a_file_is_replaced_only_on_request(run, refused, tmp_path):
    path = tmp_path / "audit.json"
    path.write_text("of somebody else")
    # Nothing to audit, so that nothing takes time.
    task = ("audit", "--method", "clean", "--out", path)
    refused(*task)
    assert run(*task, "--overwrite").code == 0
    assert json.loads(path.read_text())["passed"] is True


@pytest.mark.parametrize(
    "arguments",
    [("--method", "fairest"), ("--delta", 0.1), ("--epsilon", "inf"), ("--canaries", 2), ("--out", "no/audit.json")],
    ids=lambda value: value[0],
)
def test_bad_input_is_refused_before_any_work(refused, arguments):
    refused("audit", *arguments)
