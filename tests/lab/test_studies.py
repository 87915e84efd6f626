"""Studies: the command, their files, and the parts that tests of the certificate do not reach."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import binom

from fairdp import __version__
from fairdp.certify.bounds import NoisyBinomial, conv_upper, laplace_sum, noise_quantile
from fairdp.cli import main
from fairdp_lab.studies import coverage as certificate_coverage
from fairdp_lab.studies import tables as audit_campaign
from fairdp_lab.studies.ablations import Seen, kept_by
from fairdp_lab.studies.coverage import (
    NEGATIVE_CONTROL,
    ROWS,
    FinitePopulation,
    Plan,
    adult_population,
    clopper_pearson_without_noise,
    conv_lower,
    empty_cell_misses,
    finite_certificates,
    settings,
    slacks,
    wald_misses,
)
from fairdp_lab.studies.paper import noise_of
from fairdp_lab.studies.protocol import STUDIES, Findings, Run, laplace_noise
from fairdp_lab.studies.tables import FAILURE_PROBABILITY, TESTS, Audited, audit_once, campaign_study
from statistical import assert_rate_at_most

TINY = Plan(
    certificates=settings((2,), (40, 1_000), (4.0,), (0.6,), n_runs=1),
    many_groups=settings((3,), (300,), (4.0,), (0.6,), n_runs=1),
    truths=settings((16,), (30_000,), (1.0, 4.0), (0.6,), n_runs=3),
    n_bounds=1,
    adult_tasks=1,
    adult_certificates=1,
    control_tasks=1,
    n_certified_controls=2,
    n_plain_controls=200,
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
@pytest.mark.needs_data("adult")
def test_adult_records_play_a_population():
    population = adult_population(n_runs=1)
    assert np.sum(population.cells) == 16_281
    summary = finite_certificates(population, np.random.default_rng(0))
    assert summary.trials == 1
    assert 0 < summary.true_gaps["demographic_parity"] < summary.mean_tau["demographic_parity"] < 0.2


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
    controls = record["negative_controls"]
    assert controls["clopper_pearson_without_noise"]["caught"]
    assert controls["empty_cell_shortcut_0.1"]["caught"]
    assert controls["empty_cell_proper_0.1"]["p_value"] > 1e-6
    text = (result.folder / "here" / "certificate-coverage.md").read_text()
    assert "28 bounds" in text
    assert text.split("\n\n", 3)[3] in result.out


def test_missing_data_are_named_and_the_rest_is_done(monkeypatch):
    def missing(n_runs):
        raise OSError("adult could not be had")

    monkeypatch.setattr(certificate_coverage, "adult_population", missing)
    for part in ("_synthetic", "_implication", "_negative_controls"):
        monkeypatch.setattr(certificate_coverage, part, lambda plan, run: Findings({}, ""))
    findings = certificate_coverage.carry_out(TINY, quiet())
    assert findings.figures["adult"] == {"not_run": "adult could not be had"}
    assert "Not run: adult could not be had" in findings.text


@pytest.mark.more
def test_results_do_not_depend_on_the_number_of_workers():
    tasks = [replace(NEGATIVE_CONTROL, n_runs=n) for n in (40, 60, 80)]
    alone, shared = (quiet(n).done(clopper_pearson_without_noise, tasks, what="work") for n in (1, 2))
    assert alone == shared
    assert alone != replace(quiet(), seed=4).done(clopper_pearson_without_noise, tasks, what="work")


def test_the_lower_bound_by_its_definition():
    arm = NoisyBinomial(positive=30, negative=210, epsilon=1.0, n_noise_terms=2)
    bound = conv_lower(arm, size_failure=0.01, rate_failure=0.05)
    largest = arm.total + noise_quantile(1.0, 4, 0.01)
    positives = np.arange(largest + 1)
    chance = binom.pmf(positives, largest, bound) @ laplace_sum(1.0, 2).at_least(arm.positive - positives)
    assert chance == pytest.approx(0.05, rel=1e-6)
    assert conv_lower(replace(arm, positive=-40, negative=-40), size_failure=0.01, rate_failure=0.05) == 0.0


def test_misses_of_an_empty_cell_are_those_of_the_bound_itself():
    level, n_draws = 0.1, 4_000
    figures = empty_cell_misses(
        np.random.default_rng(1), epsilon=1.0, n_noise_terms=1, failure_probability=level, n_draws=n_draws
    )
    rng = np.random.default_rng(1)
    positive, negative = (laplace_noise(rng, epsilon=1.0, n_noise_terms=1, n_draws=n_draws) for _ in range(2))
    arms = [
        NoisyBinomial(positive=int(a), negative=int(b), epsilon=1.0, n_noise_terms=1)
        for a, b in zip(positive, negative, strict=True)
    ]
    missed = sum(conv_upper(arm, size_failure=0.1 * level, rate_failure=0.9 * level) < 1 for arm in arms)
    assert figures["proper"] == missed
    assert figures["shortcut"] > 5 * max(missed, 1)


def test_pooled_noise_is_the_smallest_and_equal_groups_make_no_difference():
    skewed, equal = noise_of((27_000, 3_000), 0.1), noise_of((3_750,) * 8, 0.1)
    assert min(skewed, key=skewed.get) == "pooled"
    assert skewed["balanced, one draw"] == pytest.approx(5 * skewed["pooled"], rel=1e-3)
    assert equal["balanced, one draw"] == pytest.approx(equal["pooled"], rel=1e-3)


def test_a_quick_run_has_a_row_for_every_kind_of_groups():
    findings = STUDIES["noise"].findings(Run(quick=True, seed=3, workers=1, say=lambda line: None))
    assert len(findings.figures["rows"]) == 6


def looks(*taus):
    numbers = {"dataset": "x", "seed": 0, "accuracy": 0.8, "positive_rate": 0.1, "test_gap": 0.0}
    return [
        Seen(look=n, certified=certified, tau_emp=tau_emp, **numbers) for n, (certified, tau_emp) in enumerate(taus, 1)
    ]


@pytest.mark.parametrize(
    ("taus", "certified", "tau_emp"),
    [
        (((0.01, 0.02), (0.03, 0.02), (0.05, 0.06), (0.04, 0.01)), 4, 2),
        (((0.01, 0.06), (0.06, 0.01), (0.01, 0.01), (0.01, 0.01)), 1, 1),
        (((0.06, 0.01), (0.01, 0.01), (0.01, 0.01), (0.01, 0.051)), 1, 3),
    ],
)
def test_the_last_look_before_the_first_above_the_target_is_kept(taus, certified, tau_emp):
    """By hand, at a target of .05: equal is not above, a first look that is above is kept, and none after it counts."""
    seen = looks(*taus)
    assert [kept_by(rule, seen, 0.05).look for rule in ("certified", "tau_emp")] == [certified, tau_emp]


def audited(lower: float) -> Audited:
    return Audited(
        method="dpsgd", epsilon=1.0, lower=dict.fromkeys(TESTS, lower), limit=dict.fromkeys(TESTS, 1.0) | {"null": 0.0}
    )


def test_an_audit_has_every_test_beside_what_it_must_not_pass():
    found = audit_once(("fairdp", 1.0), np.random.default_rng(0))
    assert set(found.lower) == set(found.limit) == set(TESTS)
    assert found.limit["one_release"] <= 1.0 < found.limit["one_run"]


def test_bounds_that_say_too_much_are_counted_and_noticed():
    few, many = ([audited(2.0)] * n + [audited(0.0)] * (1000 - n) for n in (50, 120))
    assert audit_campaign._total(few, "one_run")["p_value"] > 0.1
    assert audit_campaign._total(many, "null")["p_value"] < 1e-6
    assert audit_campaign._total(many, "one_run")["passed"] == 120


@pytest.mark.more
def test_bounds_pass_epsilon_no_more_often_than_they_say(monkeypatch):
    monkeypatch.setattr(audit_campaign, "EPSILONS", (1.0,))
    monkeypatch.setattr(audit_campaign, "N_QUICK", 3)
    figures = campaign_study(Run(quick=True, seed=1, workers=1, say=lambda line: None)).figures
    assert figures["n_runs"] == 33
    for total in figures["totals"].values():
        assert_rate_at_most(total["passed"], figures["n_runs"], FAILURE_PROBABILITY)
