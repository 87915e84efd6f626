"""`evaluate`: fairlearn's own table, with intervals for its gaps; and the score that a search may use."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from fairlearn.metrics import MetricFrame, demographic_parity_difference, equalized_odds_difference, true_positive_rate

from classifier_cases import SHORT, fitted, people
from fairdp import FairDPClassifier, accuracy_within_gap
from fairdp.evaluation import Evaluation
from metric_cases import sample
from statistical import assert_rate_at_most


def evaluated(n: int = 400, seed: int = 0, gap: float = 0.6, **options) -> Evaluation:
    y, scores, groups = sample(n, 2, np.random.default_rng(seed), gap)
    decisions = (scores >= 0).astype(int)
    names = np.array(["a", "b"])
    return Evaluation(
        y,
        decisions,
        scores=scores,
        groups=groups,
        group_names=("a", "b"),
        sensitive_features=names[groups],
        random_state=seed,
        **options,
    )


class TestOfModels:
    def test_it_is_fairlearns_table(self):
        X, y, sex = people()
        model = fitted()
        frame, decided = model.evaluate(X, y, sensitive_features=sex), model.predict(X)
        assert isinstance(frame, MetricFrame)
        assert frame.by_group.loc["f", "true_positive_rate"] == true_positive_rate(y[sex == "f"], decided[sex == "f"])
        assert frame.by_group["count"].sum() == len(y)
        value = frame.intervals["value"]
        assert value["demographic_parity_difference"] == pytest.approx(
            demographic_parity_difference(y, decided, sensitive_features=sex)
        )
        assert value["equalized_odds_difference"] == pytest.approx(
            equalized_odds_difference(y, decided, sensitive_features=sex)
        )
        assert frame.difference()["selection_rate"] == pytest.approx(value["demographic_parity_difference"])

    def test_every_gap_has_an_interval_around_it(self):
        X, y, sex = people()
        frame = fitted().evaluate(X, y, sensitive_features=sex)
        gaps = [name for name in frame.intervals.index if name.endswith(("difference", "ratio"))]
        assert len(gaps) == 5
        ordered = frame.intervals[["low", "value", "high"]].to_numpy()
        assert (np.diff(ordered, axis=1) >= 0).all()
        assert (ordered[:, 2] > ordered[:, 0]).all()

    def test_labels_and_groups_of_any_kind(self):
        X, y, sex = people()
        words = np.where(y == 1, "yes", "no")
        model = FairDPClassifier(**SHORT, random_state=0).fit(X, words, sensitive_features=sex)
        old = np.where(np.arange(len(y)) % 2, "old", "young")
        both = model.evaluate(X, words, sensitive_features=pd.DataFrame({"sex": sex, "age": old}))
        assert both.by_group.index.names == ["sex", "age"]
        assert both.sensitive_levels == ["sex", "age"]
        # Groups that training did not know, and none at all.
        assert set(model.evaluate(X, words, sensitive_features=old).by_group.index) == {"old", "young"}
        alone = model.evaluate(X, words)
        assert alone.intervals.loc["demographic_parity_difference"].tolist() == [0, 0, 0]
        with pytest.raises(ValueError, match=r"y holds 'maybe', but the model knows the labels 'no' and 'yes'"):
            model.evaluate(X, np.where(y == 1, "maybe", "no"), sensitive_features=sex)

    def test_frames_of_polars(self):
        X, y, sex = people()
        frame, groups = pl.DataFrame(X, schema=["x", "y", "z"]), pl.DataFrame({"sex": sex})
        model = FairDPClassifier(**SHORT, random_state=0).fit(frame, pl.Series(y), sensitive_features=groups)
        assert model.feature_names_in_.tolist() == ["x", "y", "z"]
        pandas = FairDPClassifier(**SHORT, random_state=0).fit(frame.to_pandas(), y, sensitive_features=sex)
        np.testing.assert_array_equal(model.predict(frame), pandas.predict(frame.to_pandas()))
        evaluated = model.evaluate(frame, pl.Series(y), sensitive_features=groups["sex"])
        expected = pandas.evaluate(frame.to_pandas(), y, sensitive_features=sex)
        pd.testing.assert_frame_equal(evaluated.by_group, expected.by_group)
        assert set(evaluated.by_group.index) == {"f", "m"}

    def test_a_rule_by_group_is_evaluated_by_group(self):
        X, y, sex = people()
        model = fitted(method="dp_postprocess", sample_rate=0.5)
        frame = model.evaluate(X, y, sensitive_features=sex)
        decided = model.predict(X, sensitive_features=sex)
        assert frame.by_group.loc["f", "selection_rate"] == pytest.approx(decided[sex == "f"].mean())


class TestIntervals:
    def test_ends_are_given_as_fairlearn_gives_them(self):
        frame = evaluated()
        low, high = frame.difference_ci()
        assert frame.ci_quantiles == pytest.approx([0.025, 0.975])
        assert low["selection_rate"] == pytest.approx(
            frame.intervals.loc["demographic_parity_difference", "low"], abs=0.02
        )
        assert np.isnan(low["count"])
        values = frame.difference().drop("count")
        assert (low.drop("count") <= values).all()
        assert (values <= high.drop("count")).all()
        low, high = frame.ratio_ci()
        assert low["selection_rate"] <= frame.ratio()["selection_rate"] <= high["selection_rate"]
        with pytest.raises(ValueError, match="method must be 'between_groups', got 'to_overall'"):
            frame.difference_ci("to_overall")

    @pytest.mark.more
    def test_they_cover_a_gap_of_zero_as_often_as_they_say(self):
        """200 runs notice a true rate of .16 against the .05 that is promised; a bootstrap would miss every time.

        The intervals beneath are tested in the same way, and sooner, by `test_rates.py`.
        """
        missed = sum(evaluated(seed=seed, gap=0.0).difference_ci()[0]["selection_rate"] > 0 for seed in range(200))
        assert_rate_at_most(missed, 200, 0.05)

    @pytest.mark.more
    def test_that_check_notices_intervals_of_less_confidence(self):
        missed = sum(
            evaluated(seed=seed, gap=0.0, confidence=0.5).difference_ci()[0]["selection_rate"] > 0
            for seed in range(200)
        )
        with pytest.raises(AssertionError):
            assert_rate_at_most(missed, 200, 0.05)

    def test_a_group_without_a_label_has_no_rate_and_no_gap(self):
        y, groups = np.array([0, 0, 0, 1] * 5), np.array([0, 0, 1, 1] * 5)
        frame = Evaluation(y, y, scores=y - 0.5, groups=groups, group_names=("a", "b"), sensitive_features=groups)
        assert np.isnan(frame.by_group.loc[0, "true_positive_rate"])
        assert frame.intervals.loc["equal_opportunity_difference"].isna().all()

    def test_it_shows_itself_as_tables(self):
        page = evaluated()._repr_html_()
        assert page.count("<table") == 2
        assert "Intervals at confidence 0.95" in page
        assert "demographic_parity_difference" in repr(evaluated())

    @pytest.mark.parametrize("confidence", [0, 1, 95])
    def test_a_confidence_that_is_none_is_refused(self, confidence):
        with pytest.raises(ValueError, match=r"confidence must be in \(0, 1\)"):
            evaluated(confidence=confidence)


class TestScore:
    Y, GROUPS = [0, 1, 0, 1], ["a", "a", "b", "b"]

    @pytest.mark.parametrize(
        ("decisions", "parity", "score"),
        [
            ([0, 1, 0, 1], "demographic_parity", 1.0),
            ([1, 1, 0, 0], "demographic_parity", -0.8),
            ([1, 1, 0, 1], "demographic_parity", -0.3),
            ([1, 1, 0, 1], "equal_opportunity", 0.75),
            ([1, 1, 0, 1], "equalized_odds", -0.8),
        ],
    )
    def test_it_is_the_accuracy_or_what_the_gap_has_too_much(self, decisions, parity, score):
        found = accuracy_within_gap(self.Y, decisions, sensitive_features=self.GROUPS, max_gap=0.2, parity=parity)
        assert found == pytest.approx(score)

    def test_no_evidence_counts_as_the_largest_gap(self):
        found = accuracy_within_gap(
            [0, 1, 0], [0, 1, 0], sensitive_features=["a", "a", "b"], max_gap=0.2, parity="equal_opportunity"
        )
        assert found == pytest.approx(-0.8)

    def test_three_labels_are_refused(self):
        with pytest.raises(ValueError, match="labels must be of two kinds, got 3"):
            accuracy_within_gap([0, 1, 2], [0, 1, 1], sensitive_features=["a", "a", "b"], max_gap=0.1)
