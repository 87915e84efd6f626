"""Sizes of the groups: counted with noise over the training records, declared, or said to be public by the user."""

import functools
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from scipy import stats

from cli_cases import SCHEMA, people
from fairdp import FairDPClassifier
from fairdp.accounting.plan import SizesNoise
from fairdp.data.grouped import GroupedData
from fairdp.fitting import fit_source
from fairdp.randomness import Generators
from fairdp.records import Source
from fairdp.releases import watching
from fairdp.run.certifying import counted_sizes
from fairdp.run.fit import Progress, hold_out
from fairdp.run.plan import budget_of, checked, floored
from fairdp.saved.verify import verify_folder
from statistical import FALSE_ALARM, assert_plausible

pytestmark = pytest.mark.usefixtures("rough_bounds")

SHORT = {"method": "fairdp", "epsilon": 2.0, "n_steps": 4, "sample_rate": 0.2, "random_state": 0}
SHORT["certify_metrics"] = ("demographic_parity",)
STD = 19.9382


@functools.cache
def table(n_samples=600) -> GroupedData:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_samples, 2)).astype(np.float32)
    return GroupedData(X, (X[:, 0] > 0).astype(np.int64), np.arange(n_samples) % 3 % 2, ("m", "f"))


def parts_of(seed=0, rows=slice(None), **changes):
    chosen = checked(**FairDPClassifier(**{**SHORT, **changes}).get_params(deep=False))
    data = table().take(np.arange(600)[rows])
    return hold_out(chosen, data, budget_of(chosen, kind="logistic", n_groups=2), Generators.of(seed))


def released(purpose: str, run) -> list:
    """Releases for one purpose while something runs."""
    seen = []

    def watch(release):
        seen.append(release)
        return release.noisy

    with watching(watch):
        run()
    return [release for release in seen if release.purpose == purpose]


class TestNoise:
    def errors(self, n_runs=300, **changes) -> np.ndarray:
        parts = [parts_of(seed=seed, **changes) for seed in range(n_runs)]
        return np.array([np.subtract(own.sizes, own.train.group_sizes) for own in parts]).ravel()

    def scale_is(self, std: float, errors: np.ndarray) -> float:
        statistic = float(np.sum((errors / std) ** 2))
        return 2 * min(stats.chi2.cdf(statistic, errors.size), stats.chi2.sf(statistic, errors.size))

    def test_sizes_are_those_of_the_training_records_with_the_stated_noise(self):
        """False-alarm rate 1e-6 on the scale of 600 draws; the negative control notices a deviation 20 % off."""
        errors = self.errors()
        assert_plausible(self.scale_is(STD, errors), "deviation of the noise on sizes")
        assert_plausible(stats.ttest_1samp(errors, 0).pvalue, "mean of the noise on sizes")
        assert self.scale_is(1.2 * STD, errors) < FALSE_ALARM
        assert self.scale_is(STD / 1.2, errors) < FALSE_ALARM

    def test_they_leave_by_the_release_point_once(self):
        (sizes,) = released("sizes", lambda: parts_of())
        assert (sizes.law, sizes.scale) == ("discrete_gaussian", STD)
        assert sizes.exact.tolist() == parts_of().train.group_sizes.tolist()
        (pure,) = released("sizes", lambda: parts_of(method="fairfm"))
        assert (pure.law, pure.scale) == ("laplace", pytest.approx(1 / 0.02))
        (cells,) = released("sizes", lambda: parts_of(method="dp_is_sgd", grouping="attribute_and_label"))
        assert cells.exact.shape == (4,)

    @pytest.mark.parametrize(
        "changes",
        [{"group_sizes": "public"}, {"group_sizes": {"f": 1, "m": 2}}, {"epsilon": np.inf}, {"method": "clean"}],
        ids=str,
    )
    def test_nothing_is_counted_with_noise_where_that_would_buy_nothing(self, changes):
        assert not released("sizes", lambda: parts_of(**changes))

    def test_a_group_that_noise_hides_is_planned_with_two_deviations(self):
        assert floored(np.array([-30, 5, 39, 40, 1000]), SizesNoise(std=20.0)) == (40.0, 40.0, 40.0, 40.0, 1000.0)
        assert floored(np.array([-30, 17]), SizesNoise(std=1.0)) == (16.0, 17.0)
        assert floored(np.array([3]), SizesNoise(epsilon=0.02)) == (pytest.approx(141.42, abs=0.01),)

    @pytest.mark.parametrize("noise", [SizesNoise(std=40.0), SizesNoise(epsilon=0.02)], ids=["gaussian", "laplace"])
    def test_every_size_has_noise_of_its_own(self, noise):
        """Of deviation 40 and 71: eight draws that are equal, or all within three of zero, have a chance below 1e-8."""
        drawn = counted_sizes(np.full(8, 500), noise, Generators.of(0).below("sizes")) - 500
        assert len(set(drawn.tolist())) > 2
        assert np.abs(drawn).max() > 3

    def test_other_sizes_meet_other_noise(self):
        """With the same noise on both, the difference of two tables would be exact; other people, other sizes."""
        noise = []
        for n_rows in (600, 500):
            (sizes,) = released("sizes", lambda n_rows=n_rows: parts_of(rows=slice(n_rows)))
            noise.append((sizes.noisy - sizes.exact).tolist())
        assert noise[0] != noise[1]

    def test_they_are_paid_for(self):
        counted, public = (
            FairDPClassifier(**SHORT, group_sizes=sizes).fit_grouped(table()).privacy_ for sizes in (None, "public")
        )
        assert {mechanism.counts_std for mechanism in counted.mechanisms.values()} == {STD}
        assert counted.counts_std == STD
        assert counted.noise_multiplier > public.noise_multiplier
        assert counted.epsilon <= 2.0

    def test_an_audit_may_hold_them_fixed(self):
        with watching(lambda release: np.array([77, 88])):
            drawn = counted_sizes(np.array([1, 2]), SizesNoise(std=5.0), Generators.of(0).below("sizes"))
        assert drawn.tolist() == [77, 88]


class TestDeclared:
    def test_they_are_the_normalisers_and_nothing_else_is_looked_at(self):
        """Far from the truth, and private all the same: noise follows from them and so does the bound on a record."""
        parts = parts_of(group_sizes={"f": 5000, "m": 1000.0})
        assert parts.sizes == (800.0, 4000.0)
        model = FairDPClassifier(**SHORT, group_sizes={"f": 5000, "m": 1000.0}).fit_grouped(table())
        assert model.privacy_.sensitivities == pytest.approx({"m": 0.5 / (0.2 * 800), "f": 0.5 / (0.2 * 4000)})
        assert model.privacy_.group_sizes == "declared"

    @pytest.mark.parametrize("sizes", [{"f": 1}, {"f": 1, "m": 2, "x": 3}, {"f": 1, "M": 2}])
    def test_they_name_exactly_the_groups(self, sizes):
        with pytest.raises(
            ValueError, match=r"^group_sizes must name the groups 'm', 'f', all of them and no other, got"
        ):
            parts_of(group_sizes=sizes)

    def test_declared_names_need_no_record(self):
        """An empty group trains, is certified with a bound that says nothing, saves and verifies."""
        data, y = table(), table().y
        names = np.array(data.group_names)[data.groups]
        model = FairDPClassifier(**SHORT, groups=("x", "f", "m")).fit(data.X, y, sensitive_features=names)
        assert model.group_names_ == ("x", "f", "m")
        assert model.privacy_.public_assumptions == ()
        assert model.certificate_.gaps["demographic_parity"].tau >= 0.5
        assert "read from the records" not in model.privacy_statement()

    def test_names_that_are_read_from_the_records_are_said_to_be(self):
        data = table()
        names = np.array(data.group_names)[data.groups]
        read = FairDPClassifier(**SHORT).fit(data.X, data.y, sensitive_features=names)
        assert "Assumed public: the group names were read from the records" in read.privacy_statement()
        sizes = {"f": 200, "m": 400}
        declared = FairDPClassifier(**SHORT, group_sizes=sizes).fit(data.X, data.y, sensitive_features=names)
        assert declared.privacy_.public_assumptions == ()
        with pytest.raises(
            ValueError, match=r"^groups must be the groups of the data, \('m', 'f'\), got \('f', 'm'\)\.$"
        ):
            FairDPClassifier(**SHORT, groups=("f", "m")).fit_grouped(data)

    def test_a_saved_model_remembers_them(self, tmp_path):
        sizes = {"f": np.int64(210), "m": np.float64(390.5)}
        model = FairDPClassifier(**SHORT, group_sizes=sizes, groups=("m", "f")).fit_grouped(table())
        model.save(tmp_path / "model")
        assert all(check.passed for check in verify_folder(tmp_path / "model"))
        loaded = FairDPClassifier.load(tmp_path / "model")
        assert loaded.group_sizes == {"f": 210, "m": 390.5}
        assert loaded.groups == ("m", "f")


def fit_table(folder: Path, name: str, *, out: str, **changes) -> None:
    source = Source(
        table=folder / name,
        dataset=None,
        label=None,
        positive=None,
        sensitive=(),
        schema=folder / "schema.yaml",
        test_fraction=0.2,
    )
    one = ("demographic_parity",)
    short = {"epsilon": 2.0, "n_steps": 4, "sample_rate": 0.2, "certify_metrics": one, "random_state": 0}
    fit_source(source, {**short, **changes}, out=folder / out)


def written(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def neighbours(folder: Path, row: int, **changes) -> list[dict[str, bytes]]:
    """Folders of two fits whose tables differ by one row; the second is handed what the first has released."""
    (folder / "schema.yaml").write_text(yaml.safe_dump(SCHEMA))
    rows = people()
    rows.to_csv(folder / "whole.csv", index=False)
    rows.drop(index=row).to_csv(folder / "without.csv", index=False)
    left = []

    def note(release):
        left.append(release.noisy)
        return release.noisy

    with watching(note):
        fit_table(folder, "whole.csv", out="whole", **changes)
    again = iter(left)
    with watching(lambda release: next(again)):
        fit_table(folder, "without.csv", out="without", **changes)
    assert next(again, None) is None
    return [written(folder / "whole"), written(folder / "without")]


class TestNeighbours:
    @pytest.mark.parametrize("row", [0, 3])
    def test_with_the_same_releases_their_folders_are_the_same_to_the_byte(self, tmp_path, row):
        """So nothing in them comes from the records but what was released: no count, no hash, no order."""
        whole, without = neighbours(tmp_path, row)
        assert whole == without

    def test_that_check_notices_exact_sizes(self, tmp_path):
        whole, without = neighbours(tmp_path, 0, group_sizes="public")
        assert whole["privacy.json"] != without["privacy.json"]


def test_a_run_that_is_resumed_does_not_count_again(tmp_path):
    path = tmp_path / "c"

    def stop(step, n_steps):
        if step == 2:
            raise KeyboardInterrupt

    first = Progress(observe=stop, checkpoint=path, seconds_between_checkpoints=0.0)
    with pytest.raises(KeyboardInterrupt):
        FairDPClassifier(**SHORT).fit_grouped(table(), progress=first)
    resumed = Progress(checkpoint=path, resume=True)
    models = []
    assert not released(
        "sizes", lambda: models.append(FairDPClassifier(**SHORT).fit_grouped(table(), progress=resumed))
    )
    whole = FairDPClassifier(**SHORT).fit_grouped(table())
    assert torch.equal(models[0].score_model_.params, whole.score_model_.params)
