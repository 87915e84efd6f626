"""Forgers of the certificate who make every word anew: what the numbers still give away, and what they cannot."""

import json

import numpy as np
import pytest

from fairdp import FairDPClassifier
from fairdp.certify.bounds import arms_of
from fairdp.certify.certificate import NotCertified
from fairdp.certify.outlook import input_agnostic_bound
from fairdp.parameters import NoCertificate
from fairdp.saved.folder import certificate_record
from forgeries import certificate_with, failed, forge, mechanism_with, recompute, reword
from pool import remembered_bound

PARITY = "demographic_parity"


def certificate_in(folder) -> dict:
    return json.loads((folder / "certificate.json").read_text())


def test_a_forger_who_makes_counts_bounds_and_words_anew_is_not_noticed(folder):
    """The limit of any check without a signature or the records."""

    def change(files):
        files.certificate["counts"] = [[[18, 4], [4, 18]], [[36, 8], [8, 36]]]
        recompute(files.certificate)

    before = certificate_in(folder)[PARITY]["tau"]
    forge(folder, change)
    assert certificate_in(folder)[PARITY]["tau"] < before
    assert failed(folder) == set()


def test_other_expected_sizes_which_would_choose_another_construction_are_noticed(saved_as):
    """The sum, which is all that DP-SGD's noise depends on, is the same."""

    def change(files):
        sizes = files.certificate["expected_sizes"]
        files.certificate["expected_sizes"] = [5.0, sum(sizes) - 5.0]
        recompute(files.certificate)

    folder = saved_as("method dpsgd")
    forge(folder, change)
    assert "certificate's records" in failed(folder)


def test_a_certificate_that_was_left_out_is_noticed(saved_as):
    def change(files):
        kept = {name: files.certificate[name] for name in ("files",)}
        none = certificate_record(NotCertified(NoCertificate.NO_RECORDS_HELD_OUT))
        files.certificate.clear()
        files.certificate.update(none, **kept)

    folder = saved_as("parity alone")
    forge(folder, change)
    assert failed(folder) == {"certificate"}


def test_a_group_left_out_of_the_certificate_is_noticed(saved_as):
    def change(files):
        record = files.certificate
        outlier = record[PARITY]["pair"][0]
        index = record["group_names"].index(outlier)
        for name in ("group_names", "counts", "expected_sizes"):
            del record[name][index]
        del record["epsilon_by_group"][outlier]
        recompute(record)

    folder = saved_as("three groups")
    before = certificate_in(folder)[PARITY]["tau"]
    forge(folder, change)
    assert certificate_in(folder)[PARITY]["tau"] < before
    assert failed(folder)


@pytest.mark.parametrize("metric", ["equal_opportunity", "equalized_odds"])
def test_a_ratio_that_nobody_computed_is_noticed(folder, metric):
    forge(folder, certificate_with(metric, "ratio", value=1.0))
    assert failed(folder)


def test_a_pair_that_does_not_set_the_bound_is_noticed(folder):
    forge(folder, certificate_with(PARITY, "pair", value=certificate_in(folder)[PARITY]["pair"][::-1]))
    assert failed(folder)


def test_a_bound_for_all_inputs_of_a_rule_that_has_none_is_noticed(folder):
    """The head of a deterministic model may be short, but its decisions jump from zero to one."""
    head = FairDPClassifier.load(folder).score_model_.heads.mean(0).double().numpy()

    def change(files):
        cap = input_agnostic_bound(head, smoothing=1.0, nonnegative=False)
        files.certificate["input_agnostic_tau"] = cap
        for metric in files.certificate["metrics"]:
            files.certificate[metric]["tau"] = min(cap, files.certificate[metric]["tau"])
        reword(files.certificate)

    forge(folder, change)
    assert failed(folder)


def test_failure_probabilities_that_were_shared_after_a_look_are_noticed(folder):
    """Their sum is what the confidence leaves, but who gets more was fixed before the counts."""

    def change(files):
        record = files.certificate
        for kind, level in (("positive", 0.04), ("true_positive", 0.005), ("false_positive", 0.005)):
            record["events"][kind]["failure_probability"] = level
        counts, epsilons = np.array(record["counts"]), tuple(record["epsilon_by_group"].values())
        bounds = {
            kind: remembered_bound(
                arms_of(counts, kind, epsilons),
                failure_probability=event["failure_probability"],
                score_box=event["construction"] == "score_box",
            )
            for kind, event in record["events"].items()
        }
        record[PARITY].update(tau=bounds["positive"].tau, ratio=bounds["positive"].ratio)
        record["equal_opportunity"]["tau"] = bounds["true_positive"].tau
        record["equalized_odds"]["tau"] = max(bounds["true_positive"].tau, bounds["false_positive"].tau)
        reword(record)

    before = certificate_in(folder)[PARITY]["tau"]
    forge(folder, change)
    assert certificate_in(folder)[PARITY]["tau"] < before
    assert "confidence" in failed(folder)


class TestLooks:
    """A model whose three looks met .9: it is that of the last, and claims .9."""

    @staticmethod
    def found(saved_as, change, kind="looks that are met"):
        folder = saved_as(kind)

        def rewritten(files):
            change(files.certificate, files.certificate["about"]["records"])
            reword(files.certificate)

        forge(folder, rewritten)
        return failed(folder)

    def test_a_bound_below_the_one_required_is_noticed(self, saved_as):
        """Even the one that the look found: it was kept because it met the requirement."""

        def own_bound(record, records):
            epsilons = [record["epsilon_by_group"][name] / 3 for name in record["group_names"]]
            arms = arms_of(np.array(record["counts"]), "positive", epsilons)
            small = record["events"]["positive"]["construction"] == "score_box"
            record[PARITY]["tau"] = remembered_bound(arms, failure_probability=0.05, score_box=small).tau

        assert self.found(saved_as, own_bound) == {f"tau of {PARITY}"}

    def test_a_ratio_beside_it_is_noticed(self, saved_as):
        assert self.found(saved_as, lambda record, records: record[PARITY].update(ratio=0.1)) == {"ratio"}

    @pytest.mark.parametrize(
        "change",
        [
            lambda record, records: records.update(look=2),
            lambda record, records: records.update(look=2, met=records["met"][:1]),
            lambda record, records: records.update(met=[]),
            lambda record, records: records.update(look=4, met=[*records["met"], records["met"][0]]),
            lambda record, records: records.update(missed=records["met"][0]),
            lambda record, records: records.update(look=2, met=records["met"][:1], missed=records["met"][0]),
            lambda record, records: records["met"].__setitem__(0, UNLIKE),
        ],
        ids=["number", "ended for nothing", "none before", "one more", "after the last", "met", "one that missed"],
    )
    def test_another_look_than_the_order_keeps_is_noticed(self, saved_as, change):
        assert "looks" in self.found(saved_as, change)

    def test_a_look_that_ended_training_may_follow(self, saved_as):
        """Whoever rewrites all of it is not found out; the counts must still be such as the sizes explain."""

        def ended(record, records):
            records.update(look=2, met=records["met"][:1], missed=UNLIKE)

        assert self.found(saved_as, ended) == set()

    def test_counts_of_another_look_that_no_sizes_explain_are_noticed(self, saved_as):
        def larger(record, records):
            records["met"][0] = [[[100 * max(n, 1) for n in row] for row in group] for group in record["counts"]]

        assert "certificate's counts" in self.found(saved_as, larger)

    def test_a_look_that_missed_may_only_be_the_first(self, saved_as):
        """With the bound that it found, which is what a first look may claim."""
        folder = saved_as("looks that are met")

        def missed(files):
            files.certificate["counts"] = UNLIKE
            recompute(files.certificate)

        forge(folder, missed)
        assert certificate_in(folder)[PARITY]["tau"] > 0.9
        assert failed(folder) == {"looks"}
        assert self.found(saved_as, lambda record, records: None, "a look that is missed") == set()

    def test_steps_of_looks_that_were_left_out_of_the_account_are_noticed(self, saved_as):
        folder = saved_as("looks that are met")

        def fewer(files):
            mechanism_with(n_steps=20)(files)
            files.privacy.update(n_steps=20, look_steps=0)

        forge(folder, fewer)
        assert "plan" in failed(folder)


# Counts of 40 and 80 people of whom all of one group are accepted, and none of the other.
UNLIKE = [[[20, 0], [20, 0]], [[0, 40], [0, 40]]]
