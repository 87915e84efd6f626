"""The paper's tables and figures: that each has a name, works, and where it can be, agrees digit by digit."""

import json
import math
from dataclasses import replace

import pytest
from scipy.stats import t as student

from fairdp.experiments.studies import STUDIES, printed
from fairdp.experiments.studies.ablations import component_study
from fairdp.experiments.studies.differences import relative_reduction, t_test
from fairdp.experiments.studies.paper_certificate import printed_errors
from fairdp.experiments.studies.paper_tables import bound_settings, dataset_study
from fairdp.experiments.studies.paper_tradeoffs import FITTED, UNFITTED, fitted_variant, shown_settings
from fairdp.experiments.studies.protocol import (
    EPSILONS,
    N_SEEDS,
    PAPER_METHODS,
    PLAIN,
    Setting,
    Variant,
    control,
    settings_of,
    variants_of,
)
from fairdp.experiments.studies.results import Run, csv_bytes, write_results
from fairdp.experiments.sweeps.fits import GAPS, Trained
from fairdp.experiments.sweeps.populations import Population, load
from fairdp.experiments.sweeps.store import Store

PAPER = [study.name for study in STUDIES.values() if study.paper]
# The first goes the whole way in a second; it stands for the others in `make test`.
ALL = ["schedule", *PAPER, "members", "noise-allocation", "literal", "baselines"]


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("runs"))
    return Run(quick=True, seed=0, workers=1, say=lambda line: None, store=store)


def real(dataset: str) -> Run:
    return Run(quick=False, seed=0, workers=1, say=lambda line: None, datasets=(dataset,))


def test_every_table_and_figure_of_the_paper_has_a_name():
    asked = ("data sets", "trade-offs", "gain", "p-values", "tightness", "shift", "approximation error", "parameter M")
    told = " ".join(STUDIES[name].paper for name in PAPER)
    assert all(word in told for word in (*asked, "imbalance", "accuracy", "ROC-AUC", "DP-IS-SGD", "clean"))


FULL = Run(quick=False, seed=0, workers=1, say=lambda line: None)


def test_the_full_protocol_has_all_methods_budgets_and_seeds():
    own = settings_of(FULL)
    assert {setting.dataset for setting in own} == {"adult", "credit", "utkface"}
    assert N_SEEDS == {"adult": 5, "credit": 5, "utkface": 3}
    for method in PAPER_METHODS:
        budgets = {setting.epsilon for setting in own if setting.method == method}
        assert budgets == ({None} if method in ("clean", "fairsmooth") else {0.5, 1.0, 1.5, 2.0})
    for setting in own:
        chosen = dict(setting.fit(0).settings)
        assert chosen["certify_fraction"] == 0.0
        assert chosen.get("accountant") == (None if setting.epsilon is None else "rdp")


def test_fairdp_is_trained_with_every_bound_in_both_readings_of_adam():
    own = [it for it in settings_of(FULL) if (it.dataset, it.method, it.epsilon) == ("adult", "fairdp", 1.0)]
    chosen = [dict(setting.fit(0).settings) for setting in own]
    assert {(it.get("weight_bound", 1.0), it.get("group_optimizers", False)) for it in chosen} == {
        (bound, own_adam) for bound in (0.5, 0.65, 0.75, 1.0) for own_adam in (False, True)
    }
    faces = [it for it in bound_settings(FULL) if it.dataset == "utkface"]
    stated = dict(faces[-1].fit(0).settings)
    # Stated by the paper; the last step has the step size of the run's end, as everywhere on faces.
    assert (stated["learning_rate"], stated.get("sgd_learning_rate", 0.005)) == ((0.007, 0.005), 0.005)
    assert dict(faces[0].fit(0).settings)["sgd_learning_rate"] == 0.002


def test_the_same_training_is_one_whichever_study_asks():
    """M, N and the optimiser as by default are not told apart from those that are left out."""
    said = Setting(dataset="adult", method="fairdp", epsilon=1.0, changes=(("n_members", 10), *PLAIN.changes))
    assert said.fit(0) == Setting(dataset="adult", method="fairdp", epsilon=1.0).fit(0)
    other = Setting(dataset="adult", method="fairdp", epsilon=1.0, changes=Variant(bound=0.65).changes)
    assert dict(other.fit(0).settings)["weight_bound"] == 0.65
    assert replace(said, sensitive=("sex", "race")).fit(0) != said.fit(0)


def test_the_reading_that_fits_is_the_closest_to_the_printed_gaps():
    """Adult's .014 at ε = .5 and .025 at ε = 2; on Default-CCC a gain of 78 % over DP-IS-SGD at ε = .5."""
    rates = dict.fromkeys(("positive_rate", "auc", "accuracy"), 0.5)
    runs = {}
    for dataset in ("adult", "credit"):
        for number, variant in enumerate(variants_of(FULL, dataset)):
            for epsilon in EPSILONS:
                setting = Setting(dataset=dataset, method="fairdp", epsilon=epsilon, changes=variant.changes)
                gap = 0.01 * number if dataset == "adult" else 0.1 - 0.01 * number
                runs[setting] = [Trained(numbers={**rates, **dict.fromkeys(GAPS, gap)})] * 2
                runs[setting.beside("dp_is_sgd")] = [Trained(numbers={**rates, **dict.fromkeys(GAPS, 0.2)})] * 2
    # Gaps of .02 are .006 and .005 away, those of .01 .004 and .015; the smallest gap on the other is .03, 85 % less.
    assert fitted_variant("adult", runs, FULL) == variants_of(FULL, "adult")[2]
    assert fitted_variant("credit", runs, FULL) == variants_of(FULL, "credit")[6]
    shown = shown_settings(runs, replace(FULL, datasets=("adult",)))
    assert {(dict(it.changes)["weight_bound"], words) for it, words in shown.items()} == {
        (1.0, UNFITTED),
        (0.65, FITTED),
    }


@pytest.mark.parametrize("name", [ALL[0], *(pytest.param(own, marks=pytest.mark.more) for own in ALL[1:])])
def test_a_quick_run_writes_its_files(name, quick, tmp_path):
    findings = STUDIES[name].findings(quick)
    record = {"study": name, "shows": "", "command": "", "version": "", "seed": 0, "quick": True, **findings.figures}
    paths = write_results(record, findings, tmp_path)
    assert all(path.stat().st_size for path in paths)
    read = json.loads((tmp_path / f"{name}.json").read_text(), parse_constant=pytest.fail)
    assert read["study"] == name
    for end in findings.drawings:
        assert (tmp_path / f"{name}{end}.svg").exists()
        assert f"{name}{end}.svg" in (tmp_path / f"{name}.md").read_text()


@pytest.mark.more
def test_the_control_is_in_every_figure_of_trade_offs(quick):
    findings = STUDIES["tradeoffs"].findings(quick)
    assert {row["epsilon"] for row in findings.figures["controls"]} == {0.5, 1.0, 2.0}
    for figure in findings.drawings.values():
        words = [text.get_text() for text in figure.legends[0].get_texts()]
        assert words.count("DP-SGD at FairDP's positive rate (M fitted)") == 1
        assert "M fitted: M = 1, one Adam" in " ".join(text.get_text() for text in figure.texts)
        assert len(figure.axes) == len(GAPS)
        assert all(":" in [line.get_linestyle() for line in axes.lines] for axes in figure.axes)


def test_a_control_is_moved_to_the_rate_of_each_seed():
    own = Setting(dataset="adult", method="fairdp", epsilon=1.0, changes=PLAIN.changes)
    curves = {"positive_rate": [0.0, 1.0], "accuracy": [0.0, 1.0], **{name: [0.0, 0.5] for name in GAPS}}
    steep = {**curves, "accuracy": [0.0, 2.0]}
    plain = [Trained(numbers={"auc": 0.8}, moved=moved) for moved in (curves, steep)]
    runs = {
        own: [Trained(numbers={"positive_rate": rate}) for rate in (0.2, 0.4)],
        Setting(dataset="adult", method="dpsgd", epsilon=1.0): plain,
    }
    row = control(own, runs)
    # .2 of the first and .4 of the second, which is twice as steep.
    assert row.mean["accuracy"] == pytest.approx((0.2 + 0.8) / 2)
    assert row.mean[GAPS[0]] == pytest.approx(0.15)
    assert [row.named[name] for name in ("method", "at", "n_runs")] == ["dpsgd", "fairdp", 2]


@pytest.mark.parametrize("dataset", [pytest.param(name, marks=pytest.mark.needs_data(name)) for name in printed.ERRORS])
def test_monte_carlo_errors_have_the_printed_digits(dataset):
    """Less than one unit of the last printed digit: some are cut off, and 6.046e-4 was rounded twice, to 6.1e-4."""
    errors = printed_errors(load(Population(dataset=dataset)).test)
    for error, digits in zip(errors.values(), printed.ERRORS[dataset], strict=True):
        mantissa, exponent = digits.split("e")
        unit = 10.0 ** (int(exponent) - len(mantissa.partition(".")[2]))
        assert abs(error - float(digits)) < unit, (error, digits)


@pytest.mark.parametrize("dataset", [pytest.param(name, marks=pytest.mark.needs_data(name)) for name in printed.SIZES])
def test_data_sets_have_the_printed_sizes(dataset):
    """But for UTKFace, where the paper counts 90 records and 10 positives more than its source has."""
    (row,) = dataset_study(real(dataset)).figures["rows"]
    found = (row["records"], row["features"], row["positive"])
    assert found == ((23_705, "48 × 48 × 1", 8_598) if dataset == "utkface" else printed.SIZES[dataset])


def test_relative_reductions_and_their_errors():
    """3 ± 1 against 4 ± 0: a quarter less, ± a quarter; 3 ± 0 against 4 ± 1: ± 3/16; as pairs they may cancel."""
    assert relative_reduction([2.0, 4.0], [4.0, 4.0]) == (pytest.approx(0.25), pytest.approx(0.25))
    assert relative_reduction([3.0, 3.0], [3.0, 5.0]) == (pytest.approx(0.25), pytest.approx(3 / 16))
    paired = relative_reduction([3.0, 6.0], [4.0, 8.0], paired=True)
    assert paired == (pytest.approx(0.25), pytest.approx(0.0, abs=1e-9))
    assert all(math.isnan(value) for value in relative_reduction([1.0, 1.0], [0.0, 0.0]))


def test_the_test_is_welchs_and_two_tailed():
    """By hand: of variances 1 and 50 and sizes 3 and 2, t = −6 / √(1/3 + 25) with 1.03 degrees of freedom."""
    found = t_test([1.0, 2.0, 3.0], [3.0, 13.0])
    assert found["difference"] == pytest.approx(-6.0)
    freedom = (1 / 3 + 25) ** 2 / ((1 / 3) ** 2 / 2 + 25**2)
    assert found["p_value"] == pytest.approx(2 * student.sf(6 / math.sqrt(1 / 3 + 25), freedom))
    assert t_test([1.0, 1.0], [2.0, 2.0])["p_value"] == 0.0


def test_pairs_are_tested_as_pairs():
    """By hand: differences −1, −1, −2 have mean −4/3 and error 1/3: t = −4 with two degrees of freedom."""
    found = t_test([1.0, 5.0, 9.0], [2.0, 6.0, 11.0], paired=True)
    assert found["p_value"] == pytest.approx(2 * student.sf(4, 2))
    assert t_test([0.1, 0.2], [0.1, 0.2], paired=True) == {"difference": 0.0, "p_value": 1.0}


def test_rows_may_lack_what_others_have():
    assert csv_bytes([{"a": 0.1234567, "b": None}, {"a": 1.0, "c": "x"}]) == b"a,b,c\n0.123457,,\n1,,x\n"


@pytest.mark.more
def test_gains_compare_with_the_same_budget_and_say_both_rates(quick):
    """Against what the runs themselves say."""
    rows = STUDIES["tradeoffs"].findings(quick).figures["rows"]
    plain = [row for row in rows if (row.get("weight_bound", 1.0), row.get("group_optimizers", False)) == (1.0, False)]
    mean = {(row["method"], row["epsilon"]): row["mean"] for row in plain}
    gains = STUDIES["gains"].findings(quick).figures["gains"]
    assert len(gains["dp_is_sgd"]) == 9
    for row in gains["dp_is_sgd"]:
        if row["variant"] != PLAIN.words:
            continue
        ours, other = mean["fairdp", row["epsilon"]], mean["dp_is_sgd", row["epsilon"]]
        assert row["gains"][GAPS[0]][0] == pytest.approx(1 - ours[GAPS[0]] / other[GAPS[0]])
        assert row["drops"]["accuracy"][0] == pytest.approx(1 - ours["accuracy"] / other["accuracy"])
        assert row["positive_rates"] == pytest.approx([ours["positive_rate"], other["positive_rate"]])
    for row in gains["clean"]:
        assert row["positive_rates"][1] == pytest.approx(mean["clean", None]["positive_rate"])
    for row in gains["dpsgd_at_same_rate"]:
        assert row["positive_rates"][0] == pytest.approx(row["positive_rates"][1])


@pytest.mark.more
def test_runs_whose_gap_is_above_a_certificate_are_counted(quick, monkeypatch):
    from fairdp.experiments.studies import paper_certificate

    honest = paper_certificate.train

    def lowered(settings, run):
        runs = honest(settings, run)
        for setting, found in runs.items():
            if setting.method == "fairdp":
                lower = {"paper_demographic_parity": -1.0, "certified_equal_opportunity": -1.0}
                runs[setting] = [replace(own, numbers={**own.numbers, **lower}) for own in found]
        return runs

    monkeypatch.setattr(paper_certificate, "train", lowered)
    rows = paper_certificate.tightness_study(quick).figures["rows"]
    counted = {(row["metric"], row["paper_tau_too_small"], row["certified_tau_too_small"]) for row in rows}
    assert counted == {("demographic_parity", 2, 0), ("equal_opportunity", 0, 2), ("equalized_odds", 0, 0)}


@pytest.mark.more
def test_components_go_from_dp_sgd_to_fairdp(quick):
    """The last with one Adam is FairDP itself, the first DP-SGD itself, and only ensembles have an error of heads."""
    rows = component_study(quick).figures["rows"]
    trained = STUDIES["tradeoffs"].findings(quick).figures["rows"]
    whole = next(row for row in rows if (row["Adam"], row["parts"]) == ("one", "+ DP-MC"))
    ours = next(
        row for row in trained if (row["method"], row["epsilon"], row.get("weight_bound")) == ("fairdp", 1.0, 1.0)
    )
    assert whole["mean"] == ours["mean"]
    assert rows[0]["mean"] == next(row for row in trained if (row["method"], row["epsilon"]) == ("dpsgd", 1.0))["mean"]
    assert {row["N"] for row in rows if "heads_error_demographic_parity" in row["mean"]} == {"10"}
