"""Studies: the command, the two files, and the parts that tests of the certificate itself do not reach."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import binom

from fairdp import __version__
from fairdp.certify.arms import NoisyArm
from fairdp.certify.concentration import conv_upper
from fairdp.certify.noise import laplace_sum, noise_quantile
from fairdp.cli import main
from fairdp.experiments.studies import STUDIES, certificate_coverage
from fairdp.experiments.studies.broken_twins import clopper_pearson_without_noise, empty_cell_misses
from fairdp.experiments.studies.certificate_coverage import TWIN, Plan, settings
from fairdp.experiments.studies.certificate_slack import ROWS, slacks, wald_misses
from fairdp.experiments.studies.known_truth import FinitePopulation, adult_population, finite_certificates
from fairdp.experiments.studies.reference_bounds import conv_lower
from fairdp.experiments.studies.results import Findings, Run
from fairdp.experiments.studies.simulation import laplace_noise
from fairdp.experiments.sweeps import rekey, store, training
from fairdp.experiments.sweeps.fits import Fit, Trained
from fairdp.experiments.sweeps.populations import Population

TINY = Plan(
    certificates=settings((2,), (40, 1_000), (4.0,), (0.6,), n_runs=1),
    many_groups=settings((3,), (300,), (4.0,), (0.6,), n_runs=1),
    truths=settings((16,), (30_000,), (1.0, 4.0), (0.6,), n_runs=3),
    n_bounds=1,
    adult_tasks=1,
    adult_certificates=1,
    twin_tasks=1,
    n_certified_twins=2,
    n_plain_twins=200,
    n_draws=20_000,
)
POPULATION = FinitePopulation(
    cells=(((4757, 74), (528, 62)), ((7467, 137), (2768, 488))),
    group_names=("Female", "Male"),
    n_samples=3_000,
    epsilon=1.0,
    n_runs=1,
)


@pytest.fixture
def reproduce(capsys, tmp_path, monkeypatch):
    """The command in this process and in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        with pytest.raises(SystemExit) as stop:
            main(["reproduce", *arguments])
        out, err = capsys.readouterr()
        return SimpleNamespace(code=stop.value.code, out=out, err=err, folder=tmp_path)

    return call


def quiet(workers=1):
    return Run(quick=True, seed=3, workers=workers, say=lambda line: None)


def test_studies_are_listed(reproduce):
    listed = json.loads(reproduce("--list", "--json").out)["studies"]
    assert [card["study"] for card in listed] == list(STUDIES)
    assert all(name in reproduce("--list").out for name in STUDIES)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("certificate-slak",), ["NAME", "'certificate-slak'", "certificate-slack"]),
        ((), ["NAME", "certificate-coverage"]),
        (("certificate-slack", "--workers", "0"), ["--workers", "0"]),
        (("certificate-slack", "--out", "file"), ["--out", "file"]),
        (("certificate-slack", "--out", "file/below"), ["--out", "file/below", "cannot be written"]),
    ],
)
def test_bad_input_is_one_line(reproduce, tmp_path, arguments, words):
    (tmp_path / "file").write_text("mine")
    result = reproduce(*arguments)
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert all(word in result.err for word in words)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_trainings_are_handed_on_to_changed_code(reproduce, tmp_path, monkeypatch):
    done = [
        Fit(population=Population(dataset=name), method="dpsgd", seed=seed)
        for name in ("synthetic", "adult")
        for seed in (0, 1)
    ]
    monkeypatch.setattr(store, "digest_of", lambda population: "records")
    monkeypatch.setattr(rekey, "digest_of", lambda population: "records")
    monkeypatch.setattr(training, "figures_of", lambda fit, **options: Trained(numbers={"auc": float(fit.seed)}))
    monkeypatch.setattr(store, "code_digest", lambda: "the code before")
    for fit in done:
        store.Store(tmp_path / "results" / "trainings").write(fit, Trained(numbers={"auc": float(fit.seed)}))
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(rekey, "digest_of", lambda population: "records")
    monkeypatch.setattr(training, "figures_of", lambda fit, **options: Trained(numbers={"auc": float(fit.seed)}))
    result = reproduce("--rekey", "--datasets", "adult", "--workers", "1")
    assert (result.code, result.out.count("\n")) == (0, 1), result.err
    assert "adult.jsonl: 2 trainings handed on, 2 of them done again and equal." in result.out
    monkeypatch.setattr(training, "figures_of", lambda fit, random_state, payment: Trained(numbers={"auc": 0.5}))
    result = reproduce("--rekey", "--workers", "1")
    assert (result.code, result.err.count("\n")) == (2, 2)
    assert "gives another auc" in result.err


def test_the_slack_study_writes_its_table(reproduce):
    result = reproduce("certificate-slack", "--quick", "--workers", "1", "--seed", "5", "--json")
    assert result.code == 0
    assert "slack: 4 of 4" in result.err
    record = json.loads((result.folder / "results" / "quick" / "certificate-slack.json").read_text())
    assert json.loads(result.out) == record
    assert record["command"] == "fairdp reproduce certificate-slack --quick --seed 5"
    assert (record["version"], record["seed"], record["study"]) == (__version__, 5, "certificate-slack")
    for row in record["slack"]:
        assert 0 < row["pair1"] < row["pair3"] < row["conv6"] < row["conv12"]
        assert row["wald"] < row["pair3"]
    text = (result.folder / "results" / "quick" / "certificate-slack.md").read_text()
    assert record["command"] in text
    assert __version__ in text
    assert "| 1 | DP 2154/4358 (0.08/0.13) | 0.0354 | 0.0299 |" in text


def test_the_normal_approximation_breaks_its_promise_and_more_so_without_the_noise():
    """Small cells of rare decisions: 20,000 draws give a deviation of .05 to the ratio of rates near one."""
    misses = wald_misses(replace(ROWS[4], rates=(0.03, 0.01)), 20_000, np.random.default_rng(0))
    assert misses["wald_miss_over_nominal"] > 3
    assert misses["wald_without_noise_miss_over_nominal"] > 6
    usual = wald_misses(ROWS[1], 20_000, np.random.default_rng(0))
    assert 0.7 < usual["wald_miss_over_nominal"] < 1.2


def test_slacks_are_wider_with_more_noise():
    few, much = (slacks(replace(ROWS[5], epsilon=epsilon)) for epsilon in (4.0, 0.5))
    assert all(few[name] < much[name] for name in few)


@pytest.mark.more
def test_the_coverage_study_writes_all_parts(reproduce, monkeypatch):
    monkeypatch.setattr(certificate_coverage, "QUICK", TINY)
    monkeypatch.setattr(certificate_coverage, "adult_population", lambda n_runs: replace(POPULATION, n_runs=n_runs))
    result = reproduce("certificate-coverage", "--quick", "--workers", "1", "--out", "here")
    assert result.code == 0, result.err
    record = json.loads((result.folder / "here" / "certificate-coverage.json").read_text())
    assert record["seed"] == 0
    assert record["synthetic"]["all"]["trials"] == 3
    assert record["synthetic"]["by_n_samples"].keys() == {"40", "300", "1000"}
    assert record["synthetic"]["truth_rejected_16_groups"]["trials"] == 6
    assert (record["implication"]["bounds"], record["implication"]["broken"]) == (28, 0)
    assert record["adult"]["trials"] == 1
    assert record["adult"]["mean_tau"].keys() == record["adult"]["true_gaps"].keys()
    twins = record["broken_twins"]
    assert twins["clopper_pearson_without_noise"]["caught"]
    assert twins["empty_cell_shortcut_0.1"]["caught"]
    assert twins["empty_cell_proper_0.1"]["p_value"] > 1e-6
    text = (result.folder / "here" / "certificate-coverage.md").read_text()
    assert "28 bounds" in text
    assert text.split("\n\n", 3)[3] in result.out


def test_missing_data_are_named_and_the_rest_is_done(monkeypatch):
    def missing(n_runs):
        raise OSError("adult could not be had")

    monkeypatch.setattr(certificate_coverage, "adult_population", missing)
    for part in ("_synthetic", "_implication", "_twins"):
        monkeypatch.setattr(certificate_coverage, part, lambda plan, run: Findings({}, ""))
    findings = certificate_coverage.carry_out(TINY, quiet())
    assert findings.figures["adult"] == {"not_run": "adult could not be had"}
    assert "Not run: adult could not be had" in findings.text


@pytest.mark.needs_data("adult")
def test_adult_records_play_a_population():
    population = adult_population(n_runs=1)
    assert np.sum(population.cells) == 16_281
    summary = finite_certificates(population, np.random.default_rng(0))
    assert summary.trials == 1
    assert 0 < summary.true_gaps["demographic_parity"] < summary.mean_tau["demographic_parity"] < 0.2


@pytest.mark.more
def test_results_do_not_depend_on_the_number_of_workers():
    tasks = [replace(TWIN, n_runs=n) for n in (40, 60, 80)]
    alone, shared = (quiet(n).done(clopper_pearson_without_noise, tasks, what="work") for n in (1, 2))
    assert alone == shared
    assert alone != replace(quiet(), seed=4).done(clopper_pearson_without_noise, tasks, what="work")


def test_the_lower_bound_by_its_definition():
    arm = NoisyArm(positive=30, negative=210, epsilon=1.0, folds=2)
    bound = conv_lower(arm, size_failure=0.01, rate_failure=0.05)
    largest = arm.total + noise_quantile(1.0, 4, 0.01)
    positives = np.arange(largest + 1)
    chance = binom.pmf(positives, largest, bound) @ laplace_sum(1.0, 2).at_least(arm.positive - positives)
    assert chance == pytest.approx(0.05, rel=1e-6)
    assert conv_lower(replace(arm, positive=-40, negative=-40), size_failure=0.01, rate_failure=0.05) == 0.0


def test_misses_of_an_empty_cell_are_those_of_the_bound_itself():
    level, n_draws = 0.1, 4_000
    figures = empty_cell_misses(
        np.random.default_rng(1), epsilon=1.0, folds=1, failure_probability=level, n_draws=n_draws
    )
    rng = np.random.default_rng(1)
    positive, negative = (laplace_noise(rng, epsilon=1.0, folds=1, n_draws=n_draws) for _ in range(2))
    arms = [
        NoisyArm(positive=int(a), negative=int(b), epsilon=1.0, folds=1)
        for a, b in zip(positive, negative, strict=True)
    ]
    missed = sum(conv_upper(arm, size_failure=0.1 * level, rate_failure=0.9 * level) < 1 for arm in arms)
    assert figures["proper"] == missed
    assert figures["shortcut"] > 5 * max(missed, 1)
