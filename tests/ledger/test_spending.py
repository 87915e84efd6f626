"""From a user's table to an entry: fits, searches, certificates and estimators, as users call them."""

import json
import shutil
from dataclasses import astuple
from pathlib import Path

import dp_accounting
import numpy as np
import pandas as pd
import pytest
import yaml
from dp_accounting.pld import PLDAccountant

from fairdp import FairDPClassifier, GroupedData, tune
from fairdp.accounting.mechanisms import SampledGaussian
from fairdp.errors import InputError
from fairdp.ledger.costs import PureRelease, SearchRelease, epsilon_of
from fairdp.ledger.ledger import Ledger, ledger_path
from fairdp.ledger.records import ENCODED
from fairdp.ledger.store import Limit, table_total
from fairdp.releases import watching
from fairdp.run.checkpoint import CheckpointWriter
from fairdp.run.fit import Progress

# Sizes are declared, and so is the rate, so that nearly all fits have one plan, whose noise is looked for once.
SHORT = ("--label", "approved", "--sensitive", "sex", "--schema", "schema.yaml", "--method", "dpsgd", "--n-steps", "5")
SHORT += ("--sample-rate", "0.1", "--group-sizes", "f=500,m=500", "--certify-metrics", "demographic_parity")

IN_PYTHON = {"method": "dpsgd", "n_steps": 5, "sample_rate": 0.1, "certify_metrics": ("demographic_parity",)}
IN_PYTHON |= {"ledger": "own.sqlite", "random_state": 0}


def people(n_people: int, *, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    income = rng.normal(3.0, 1.0, n_people).round(6)
    # An own number for everybody, so that nobody equals another by chance.
    number = rng.integers(1, 2**40, n_people)
    approved = np.where(income > 3, "yes", "no")
    return pd.DataFrame(
        {"number": number, "income": income, "sex": rng.choice(["f", "m"], n_people), "approved": approved}
    )


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    schema = {
        "label": "approved",
        "positive": "yes",
        "negative": "no",
        "sensitive": [{"name": "sex", "groups": ["f", "m"]}],
        "columns": [{"name": "income", "type": "numeric", "low": -5, "high": 11}],
        "table": "loans",
    }
    Path("schema.yaml").write_text(yaml.safe_dump(schema))
    january = people(1200, seed=0)
    january.to_csv("january.csv", index=False)
    pd.concat([january, people(300, seed=1)]).to_parquet("february.parquet", index=False)
    people(600, seed=2).to_csv("fresh.csv", index=False)


def entries():
    with Ledger(ledger_path()) as ledger:
        assert ledger.check() == len(ledger.entries())
        return ledger.entries()


def test_a_retrain_is_added_up_and_the_third_fit_is_refused_before_training(run):
    first = json.loads(run("fit", "january.csv", *SHORT, "--epsilon", 1, "--out", "model", "--json"))
    assert first["ledger"].keys() == {"entry", "table", "epsilon_total", "delta_total", "epsilon_sum"}
    assert (first["ledger"]["entry"], first["ledger"]["table"]) == (1, "loans")
    assert first["ledger"]["epsilon_total"] == first["privacy"]["epsilon"]
    second = json.loads(run("fit", "february.parquet", *SHORT, "--epsilon", 1, "--json"))
    assert second["ledger"]["epsilon_sum"] == pytest.approx(2.0, abs=0.01)
    assert second["ledger"]["delta_total"] == pytest.approx(2e-5)
    assert "(entry 2), all releases about table 'loans'" in second["statement"]
    refused = run("fit", "january.csv", *SHORT, "--epsilon", 1, "--budget", 2.5, code=2)
    assert "is left; use --epsilon 0.5" in refused
    assert refused.count("\n") == 1
    assert [(entry.command, entry.state) for entry in entries()] == [("fit", "completed")] * 2
    # Rows of January that are not test records of either were used by both.
    assert entries()[1].histories == ((1,),)


def test_only_records_that_are_trained_on_or_held_out_are_charged(run):
    fitted = json.loads(run("fit", "january.csv", *SHORT, "--epsilon", 1, "--test-fraction", 0.5, "--json"))
    (entry,) = entries()
    assert {view.columns for view in entry.views.values()} == {
        ("approved", "income", "number", "sex"),
        ("approved", "income", "sex"),
        ENCODED,
    }
    (n_records,) = {view.n_records for view in entry.views.values()}
    assert n_records == fitted["n_train"] + fitted["n_certify"] == 1200 - fitted["n_test"]
    trained, held_out = entry.cost.by_group["f"]
    assert epsilon_of(trained, 1e-5) == pytest.approx(entry.cost.epsilon, abs=1e-9)
    assert isinstance(held_out, PureRelease)


def test_which_records_are_charged_follows_from_the_table(run):
    """Those that a certificate refuses because they were used are those that the ledger has."""
    run("fit", "january.csv", *SHORT, "--epsilon", 1, "--test-fraction", 0.5, "--out", "model")
    table, used = pd.read_csv("january.csv")[:40], []
    for place in range(40):
        table[place : place + 1].to_csv("one.csv", index=False)
        used.append("used to fit the model" in run("evaluate", "model", "one.csv", "--json"))
    assert 10 < sum(used) < 30
    for place in np.flatnonzero(used)[:2]:
        table[place : place + 1].to_csv("one.csv", index=False)
        run("certify", "model", "one.csv", "--epsilon", 1, code=2)
    table[~np.array(used)].to_csv("others.csv", index=False)
    run("certify", "model", "others.csv", "--epsilon", 1, "--certify-metrics", "demographic_parity")


def test_a_search_is_one_entry(run):
    grid = ("--grid", "n_steps=3,5", "--epsilon", 2)
    tuned = json.loads(run("tune", "january.csv", *SHORT[:8], *SHORT[10:], *grid, "--json"))
    (entry,) = entries()
    assert (entry.command, entry.state) == ("tune", "completed")
    searched, held_out = entry.cost.by_group["f"]
    assert isinstance(searched, SearchRelease)
    # Once for each of the two looks that the choice costs a held-out record (Papernot and Steinke, 2022).
    trials = [trial for trials in tuned["privacy"]["selection"]["by_group"].values() for trial in trials]
    assert held_out.epsilon == 2 * max(trial["held_out_epsilon"] for trial in trials)
    assert max(epsilon_of(searched, 1e-5), held_out.epsilon) == pytest.approx(entry.cost.epsilon, abs=1e-9)


def test_certificates_are_entries_in_a_series_and_use_no_record_twice(run):
    run("fit", "january.csv", *SHORT, "--epsilon", 1, "--out", "model")
    certify = ("certify", "model", "fresh.csv", "--epsilon", 0.5, "--certify-metrics", "demographic_parity", "--of")
    made = json.loads(run(*certify, 12, "--json"))
    assert made["certificate"]["confidence"] == pytest.approx(1 - 0.05 / 12)
    assert made["ledger"]["epsilon_sum"] == pytest.approx(1.5, abs=0.01)
    # The folder says so too, and still names the entry of its model.
    kept = json.loads(Path("model/privacy.json").read_text())["ledger"]
    assert (kept["entry"], kept["epsilon_sum"]) == (1, made["ledger"]["epsilon_sum"])
    assert (
        "number 1 of 12 certificates of the model that hold all together with confidence 95 %"
        in run("report", "model", "--out", "r.html") + Path("model/certificate.json").read_text()
    )
    run("verify", "model")
    assert "in entry 2 of the ledger" in run(*certify, 12, code=2)
    people(600, seed=3).to_csv("fresh.csv", index=False)
    assert "series of 12; repeat that --of" in run(*certify, 3, code=2)
    assert [entry.command for entry in entries()] == ["fit", "certify"]


def test_a_restored_ledger_is_noticed_by_the_model(run):
    run("fit", "january.csv", *SHORT, "--epsilon", 1)
    shutil.copy(ledger_path(), "yesterday")
    run("fit", "january.csv", *SHORT, "--epsilon", 1, "--out", "model")
    run("ledger", "check", "model")
    shutil.copy("yesterday", ledger_path())
    for command in (("ledger", "check", "model"), ("certify", "model", "fresh.csv", "--epsilon", 1)):
        assert "does not have entry 2 of this model" in run(*command, code=2)
    assert "names no entry of a ledger" in run("ledger", "check", "elsewhere", code=2)


def test_what_no_ledger_adds_up_says_so(run):
    said = run("fit", "january.csv", *SHORT, "--epsilon", 1, "--no-ledger")
    assert "no ledger was kept" in " ".join(said.split())
    assert (
        json.loads(run("fit", "--dataset", "synthetic", *SHORT[6:10], "--certify-fraction", 0, "--json"))["ledger"]
        is None
    )
    assert not ledger_path().exists()
    assert "--budget=1.0 needs a table" in run("fit", "january.csv", *SHORT, "--no-ledger", "--budget", 1, code=2)
    assert "not both" in run("fit", "january.csv", *SHORT, "--no-ledger", "--ledger", "a", code=2)
    assert "--of=3 needs" in run("certify", "model", "fresh.csv", "--epsilon", 1, "--of", 3, "--no-ledger", code=2)


def test_a_ledger_that_cannot_be_used_refuses_everything(run, monkeypatch):
    Path("broken").write_text("this is no ledger, and longer than a header of one" * 20)
    monkeypatch.setenv("FAIRDP_LEDGER", "broken")
    for command in (("fit", "january.csv", *SHORT), ("ledger",), ("ledger", "check")):
        refused = run(*command, code=2)
        assert "broken" in refused
        assert refused.count("\n") == 1


@pytest.fixture
def cut_short(run, monkeypatch):
    """A fit that ends after the first checkpoint."""
    write = CheckpointWriter.write_if_due

    def interrupted(writer, state):
        write(writer, state)
        raise KeyboardInterrupt

    def call(*arguments):
        with monkeypatch.context() as patched:
            patched.setattr(CheckpointWriter, "write_if_due", interrupted)
            run("fit", *arguments, code=130)

    return call


KEPT = (*SHORT, "--epsilon", 1, "--checkpoint", "run", "--out", "model")


def test_a_resumed_run_continues_its_entry(run, cut_short):
    cut_short("january.csv", *KEPT)
    assert [entry.state for entry in entries()] == ["spent"]
    resumed = json.loads(run("fit", "january.csv", *KEPT, "--resume", "--json"))
    assert resumed["ledger"]["entry"] == 1
    assert [entry.state for entry in entries()] == ["completed"]
    assert not list(Path().glob("run*"))


def test_a_receipt_that_an_earlier_run_left_pays_for_no_other_records(run, cut_short):
    cut_short("january.csv", *KEPT)
    Path("run").unlink()
    cut_short("fresh.csv", *KEPT, "--no-ledger")
    assert json.loads(run("fit", "fresh.csv", *KEPT, "--resume", "--json"))["ledger"]["entry"] == 2
    assert [entry.state for entry in entries()] == ["spent", "completed"]
    assert not Path("run.entry").exists()


def test_nor_for_another_run_on_the_same_records(run, cut_short):
    """Keys, and so noise, of its own: whoever compares both runs has seen two releases."""
    cut_short("january.csv", *KEPT, "--test-fraction", 0)
    Path("run").unlink()
    cut_short("january.csv", *KEPT, "--test-fraction", 0, "--no-ledger")
    run("fit", "january.csv", *KEPT, "--test-fraction", 0, "--resume")
    assert [entry.state for entry in entries()] == ["spent", "completed"]


def test_a_run_that_is_done_but_not_saved_is_saved_without_being_paid_again(run):
    run("fit", "january.csv", *KEPT[:-2])
    assert Path("run").exists()
    run("fit", "january.csv", *KEPT, "--resume")
    assert [entry.state for entry in entries()] == ["completed"]
    assert not list(Path().glob("run*"))


def test_the_ledger_is_listed_limited_and_checked(run):
    assert json.loads(run("ledger", "--json"))["entries"] == []
    run("ledger", "limit", "loans", "--epsilon", 1.5)
    run("fit", "january.csv", *SHORT, "--epsilon", 1)
    assert "limit of 1.5 on table 'loans'" in run("fit", "january.csv", *SHORT, "--epsilon", 1, code=2)
    report = json.loads(run("ledger", "list", "--table", "loans", "--json"))
    (entry,) = report["entries"]
    assert {"command", "state", "epsilon", "delta", "mechanisms"} <= entry.keys()
    assert report["total"] == {"epsilon": entry["epsilon"], "delta": 1e-5, "epsilon_sum": entry["epsilon"]}
    assert "limit on table loans: epsilon 1.5, by the sum" in run("ledger")
    assert json.loads(run("ledger", "check", "--json"))["entries"] == 1
    assert "--order=8 needs --delta" in run("ledger", "limit", "loans", "--epsilon", 1, "--order", 8, code=2)
    assert "no entry of table 'none'" in run("ledger", "list", "--table", "none", code=2)


def test_an_estimator_adds_up_in_the_ledger_that_it_is_given(tmp_path):
    table = people(600, seed=0)
    settings = {**IN_PYTHON, "group_sizes": {"f": 300.0, "m": 300.0}, "table": "loans"}
    for _ in range(2):
        model = FairDPClassifier(**settings).fit(table[["income"]], table.approved, sensitive_features=table.sex)
    assert model.privacy_.ledger.entry == 2
    assert "(entry 2), all releases about table 'loans'" in model.privacy_statement()
    with Ledger("own.sqlite") as ledger:
        assert [entry.state for entry in ledger.entries()] == ["completed"] * 2
        assert ledger.entries()[1].histories == ((1,),)
        # Those to certify on as well as those to train on.
        assert {view.n_records for view in ledger.entries()[0].views.values()} == {len(table)}
    model.save("model")
    assert "own.sqlite" not in "".join(path.read_text(errors="replace") for path in Path("model").iterdir())
    assert FairDPClassifier.load("model").privacy_.ledger == model.privacy_.ledger


def test_images_and_lists_are_records_too():
    rng = np.random.default_rng(0)
    images, labels = rng.random((60, 1, 8, 8), dtype=np.float32), [0, 1] * 30
    settings = {**IN_PYTHON, "delta": 1e-3, "certify_fraction": 0, "group_sizes": {"a": 20.0, "b": 20.0}}
    for part in (slice(0, 60), slice(30, 60)):
        FairDPClassifier(**settings).fit(
            images[part], labels[part], sensitive_features=(["a", "b", "b", "a"] * 15)[part]
        )
    with Ledger("own.sqlite") as ledger:
        assert [entry.histories for entry in ledger.entries()] == [((),), ((1,),)]
        assert ledger.entries()[0].columns == ("sensitive_feature_0", "x0", "y0")


def encoded(table: pd.DataFrame) -> GroupedData:
    X, y = table[["income"]].to_numpy(np.float32), (table.approved == "yes").to_numpy(np.int64)
    return GroupedData(X, y, (table.sex == "m").to_numpy(np.int64), ("f", "m"))


def states_at_releases(train) -> list[tuple[str, list[str]]]:
    """Releases of a training, each with the states of the entries that the ledger has by then."""
    seen = []

    def hook(release):
        with Ledger("own.sqlite") as ledger:
            seen.append((release.purpose, [entry.state for entry in ledger.entries()]))
        return release.noisy

    with watching(hook):
        train()
    return seen


def test_encoded_records_and_searches_in_python_are_entries_before_anything_is_shown():
    data = encoded(people(600, seed=0))
    settings = {**IN_PYTHON, "table": "loans"}
    models = []
    seen = states_at_releases(lambda: models.append(FairDPClassifier(**settings).fit_grouped(data)))
    # Sizes are counted for the plan; the first value that anybody sees is a gradient.
    assert [states for purpose, states in seen if purpose != "sizes"] == [["spent"]] * (len(seen) - 1)
    grid = {"learning_rate": [0.1, 1.0]}
    searched = states_at_releases(
        lambda: models.append(tune(FairDPClassifier(**settings), grid, data, expected_trials=2))
    )
    assert all(states == ["completed", "spent"] for purpose, states in searched if purpose != "sizes")
    assert [model.privacy_.ledger.entry for model in models] == [1, 2]
    assert "all releases about table 'loans'" in models[1].privacy_statement()
    with Ledger("own.sqlite") as ledger:
        found = ledger.entries()
    assert [(entry.command, entry.state, entry.views) for entry in found] == [
        ("fit", "completed", {}),
        ("tune", "completed", {}),
    ]
    # Nobody can tell encoded records apart, so all of the table are taken for shared.
    assert found[1].histories == ((1,),)


def test_python_and_the_command_add_up_to_the_same(run):
    grid = {"learning_rate": [0.1, 1.0]}
    settings = {**IN_PYTHON, "group_sizes": {"f": 500.0, "m": 500.0}, "table": "loans"}
    data = encoded(pd.read_csv("january.csv"))
    FairDPClassifier(**settings, epsilon=1.0).fit_grouped(data)
    tune(FairDPClassifier(**settings, epsilon=1.0), grid, data)
    same = (*SHORT, "--epsilon", 1)
    run("fit", "january.csv", *same)
    run("tune", "january.csv", *same, "--grid", "learning_rate=0.1,1")
    with Ledger("own.sqlite") as ledger:
        in_python = ledger.entries()
    # Declared sizes are those of the whole table here and of its training part there, so rates differ by rounding.
    for one, other in zip(in_python, entries(), strict=True):
        assert (one.command, one.table, one.state) == (other.command, other.table, other.state)
        assert [type(release) for release in one.cost.mechanisms] == [
            type(release) for release in other.cost.mechanisms
        ]
    totals = [table_total(found, "loans") for found in (in_python, entries())]
    assert astuple(totals[0]) == pytest.approx(astuple(totals[1]), rel=1e-6)
    assert totals[0].epsilon_sum > 1.9


def test_a_run_of_python_that_is_resumed_continues_its_entry():
    def interrupted(step: int, n_steps: int) -> None:
        if step == 2:
            raise KeyboardInterrupt

    data = encoded(people(600, seed=0))
    progress = Progress(checkpoint=Path("run"), observe=interrupted)
    with pytest.raises(KeyboardInterrupt):
        FairDPClassifier(**IN_PYTHON).fit_grouped(data, progress=progress)
    resumed = Progress(checkpoint=Path("run"), resume=True)
    assert FairDPClassifier(**IN_PYTHON).fit_grouped(data, progress=resumed).privacy_.ledger.entry == 1


def test_a_refused_budget_is_refused_before_a_search_trains_anything():
    data = encoded(people(600, seed=0))
    with Ledger("own.sqlite") as ledger:
        ledger.set_limit(Limit(table="records", epsilon=0.5))
    estimator = FairDPClassifier(**IN_PYTHON)

    def search() -> None:
        with pytest.raises(InputError, match=r"would pass the limit of 0\.5"):
            tune(estimator, {"learning_rate": [0.1, 1.0]}, data)

    assert {purpose for purpose, _ in states_at_releases(search)} <= {"sizes"}


def test_an_own_loop_is_an_entry_too():
    import torch

    from fairdp import make_private_fair

    table = people(600, seed=0)
    records = (table[["income"]], table.approved, table.sex)
    private = make_private_fair(torch.nn.Linear(1, 4), records, n_steps=2, ledger="own.sqlite", table="loans")
    with Ledger("own.sqlite") as ledger:
        assert [entry.state for entry in ledger.entries()] == ["spent"]
    optimizer = torch.optim.SGD(private.parameters(), lr=0.1)
    for _ in range(private.n_steps):
        private.backward()
        optimizer.step()
    assert private.finish().privacy_.ledger.entry == 1
    with Ledger("own.sqlite") as ledger:
        assert [entry.state for entry in ledger.entries()] == ["completed"]
        assert ledger.entries()[0].views


def by_hand(releases: list[SampledGaussian | float], delta: float) -> float:
    """dp-accounting's composition of sampled steps, and of certificates by their ε."""
    account = PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    for release in releases:
        if isinstance(release, float):
            account.compose(dp_accounting.dp_event.DiscreteLaplaceDpEvent(release, 1))
        else:
            step = dp_accounting.GaussianDpEvent(release.noise_multiplier)
            sampled = dp_accounting.PoissonSampledDpEvent(release.sample_rate, step)
            account.compose(dp_accounting.SelfComposedDpEvent(sampled, release.n_steps))
    return account.get_epsilon(delta)


@pytest.mark.more
def test_three_fits_and_a_certificate_of_overlapping_tables_cost_what_composition_by_hand_says(run, monkeypatch):
    """January; January with new people; these with others; and a certificate of the first model on the others.

    `test_limits.py` has the same of costs that are given, to 1e-6.
    """
    both, others = pd.read_parquet("february.parquet"), people(400, seed=4)
    pd.concat([both[1200:], others]).to_csv("march.csv", index=False)
    others.to_csv("others.csv", index=False)
    settings = (*SHORT[:8], "--certify-fraction", 0, "--group-sizes", "f=500,m=500", "--delta", 1e-6)
    plans = [("january.csv", 0.05, 40, 1.0), ("february.parquet", 0.1, 20, 0.7), ("march.csv", 0.2, 10, 0.5)]
    for table, rate, n_steps, epsilon in plans:
        own = ("--sample-rate", rate, "--n-steps", n_steps, "--epsilon", epsilon, "--out", Path(table).stem)
        run("fit", table, *settings, *own)
    run("certify", "january", "others.csv", "--epsilon", 0.3)

    fits = []
    for table, rate, n_steps, _ in plans:
        spent = json.loads((Path(Path(table).stem) / "privacy.json").read_text())
        noise = {mechanism["noise_multiplier"] for mechanism in spent["mechanisms"].values()}
        fits.append(SampledGaussian(sample_rate=rate, noise_multiplier=noise.pop(), n_steps=n_steps))
        assert not noise
    said = json.loads(run("ledger", "--json"))
    table, most = said["tables"]["loans"], said["total"]
    assert table["epsilon"] == pytest.approx(by_hand([*fits, 0.3], 3e-6), abs=1e-4)
    assert table["delta"] == pytest.approx(3e-6)
    assert table["epsilon_sum"] == pytest.approx(2.5, abs=0.01)
    # People of January were in the first two, the new ones in the next two, the others in the last fit and counted.
    shared = max(by_hand([*fits[:2]], 2e-6), by_hand([*fits[1:]], 2e-6), by_hand([fits[2], 0.3], 1e-6))
    assert most["epsilon"] == pytest.approx(shared, abs=1e-4)
    assert shared < table["epsilon"] - 0.1

    run("ledger", "limit", "loans", "--epsilon", 2.6)
    monkeypatch.setattr("fairdp.run.fit.train_model", lambda *_, **__: pytest.fail("trained"))
    refused = run("fit", "january.csv", *settings, "--n-steps", 5, "--epsilon", 0.2, code=2)
    assert "would pass the limit of 2.6 on table 'loans'" in refused
    assert len(entries()) == 4
