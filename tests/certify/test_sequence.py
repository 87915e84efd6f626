"""Metrics tested one after the other against a required bound, and what else may be made of a certificate."""

import functools
import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtri

from fairdp._io import json_bytes
from fairdp.certify.certificate import (
    METRICS,
    CertifiedGap,
    DecisionRule,
    HeldOutRecords,
    NotCertified,
    Origin,
    _in_sequence,
    certify,
)
from fairdp.config import Preregistration
from fairdp.parameters import NoCertificate
from fairdp.saved.folder import certificate_record, read_record
from statistical import assert_rate_at_most

REQUIRED = 0.1
COUNTS = np.array([[[1700, 160], [230, 60]], [[3000, 400], [640, 310]]])
SETTINGS = {"epsilon": 1.0, "group_names": ("f", "m"), "expected_sizes": (2150.0, 4350.0)}
PAIR = ("demographic_parity", "equal_opportunity")
ORIGIN = Origin(
    model_sha256="0" * 64,
    predictor=DecisionRule(kind="gibbs", smoothing=1.0, flips=((0.0, 0.9),), key_id="k"),
    smoothing={"deviation": 0.1, "n_draws": 3, "seed": 2**63 + 1},
    records=HeldOutRecords(fraction=0.2, look=1),
    noise_seeded=True,
)


def gaps_of(*taus, ratio=0.5):
    own = (ratio, None, None)
    return {m: CertifiedGap(tau=t, pair=("f", "m"), ratio=r) for m, t, r in zip(METRICS, taus, own, strict=False)}


def claims_of(*taus):
    claims = _in_sequence(gaps_of(*taus), REQUIRED)
    return [claim.tau for claim in claims.values()], [claim.claimed for claim in claims.values()]


@functools.cache
def certificate(**changes):
    return certify(COUNTS, **SETTINGS, **changes)


class TestClaims:
    @pytest.mark.parametrize(
        ("taus", "claims", "claimed"),
        [
            ((0.05, 0.02, 0.09), (0.09, 0.09, 0.09), (True, True, True)),
            ((0.05, 0.1, 0.1), (0.1, 0.1, 0.1), (True, True, True)),
            ((0.2, 0.02, 0.03), (0.2, 1.0, 1.0), (True, False, False)),
            ((0.05, 0.3, 0.03), (0.1, 0.3, 1.0), (True, True, False)),
            ((0.05, 0.02, 0.4), (0.1, 0.1, 0.4), (True, True, True)),
            ((0.2, 0.3, 0.4), (0.2, 1.0, 1.0), (True, False, False)),
        ],
    )
    def test_passed_at_the_threshold_first_failed_at_its_bound_the_rest_not(self, taus, claims, claimed):
        assert claims_of(*taus) == (list(claims), list(claimed))

    def test_a_ratio_stands_only_where_no_other_metric_follows(self):
        ratios = [
            _in_sequence(gaps_of(*taus), REQUIRED)["demographic_parity"].ratio
            for taus in ((0.05,), (0.2,), (0.05, 0.06), (0.05, 0.3, 0.03), (0.05, 0.02, 0.4))
        ]
        assert ratios == [0.5, 0.5, None, None, None]

    def test_a_certificate_tests_in_the_fixed_order_whatever_order_is_given(self):
        forwards, backwards = (certificate(metrics=m, require_tau=0.06) for m in (PAIR, PAIR[::-1]))
        assert forwards == backwards
        assert tuple(forwards.gaps) == forwards.registration.metrics == PAIR
        assert Preregistration(metrics=METRICS[::-1], require_tau=0.1).metrics == METRICS

    def test_each_metric_is_tested_at_the_full_level(self):
        alone = certificate(metrics=("demographic_parity",)).gaps["demographic_parity"]
        failed = certificate(metrics=PAIR, require_tau=0.06)
        assert failed.gaps["demographic_parity"].tau == alone.tau > 0.06
        assert (failed.gaps["equal_opportunity"].claimed, failed.met) == (False, False)
        passed = certificate(metrics=PAIR, require_tau=0.3)
        assert passed.met
        assert passed.gaps["demographic_parity"].tau == passed.gaps["equal_opportunity"].tau < 0.3
        assert passed.gaps["equal_opportunity"].tau < certificate().gaps["equal_opportunity"].tau

    def test_a_requirement_is_met_by_all_metrics_or_not_at_all(self):
        made = certificate(metrics=PAIR, require_tau=0.06)
        first, second = made.gaps.values()
        for taus, met in (((0.05, 0.06), True), ((0.05, 0.07), False), ((0.07, 0.05), False)):
            gaps = dict(zip(PAIR, (replace(g, tau=t) for g, t in zip((first, second), taus, strict=True)), strict=True))
            assert replace(made, gaps=gaps).met is met

    def test_looks_share_epsilon_and_are_tested_at_the_full_level(self):
        """Other claims of a look have their share of the level."""
        registered = Preregistration(confidence=0.9, require_tau=0.1, n_looks=4)
        assert registered.levels() == dict.fromkeys(("positive", "true_positive", "false_positive"), pytest.approx(0.1))
        assert registered.failure_probability == pytest.approx(0.025)
        assert sum(Preregistration(confidence=0.9, n_looks=4).levels().values()) == pytest.approx(0.025)
        settings = {**SETTINGS, "metrics": PAIR[:1], "require_tau": 0.01}
        of_two = certify(COUNTS, **{**settings, "epsilon": 2.0}, n_looks=2).gaps["demographic_parity"]
        alone = certify(COUNTS, **settings).gaps["demographic_parity"]
        assert (of_two.tau, alone.ratio is None, of_two.ratio) == (alone.tau, False, None)

    @pytest.mark.parametrize(
        ("taus", "claims", "claimed"),
        [
            ((0.05, 0.02, 0.09), (0.1, 0.1, 0.1), (True, True, True)),
            ((0.05,), (0.1,), (True,)),
            ((0.05, 0.3, 0.03), (0.1, 0.3, 1.0), (True, True, False)),
            ((0.2,), (0.2,), (True,)),
        ],
    )
    def test_a_look_that_may_be_followed_by_another_claims_the_threshold_and_no_ratio(self, taus, claims, claimed):
        found = _in_sequence(gaps_of(*taus), REQUIRED, 4).values()
        assert [claim.tau for claim in found] == list(claims)
        assert [claim.claimed for claim in found] == list(claimed)
        assert [claim.ratio for claim in found] == [None] * len(taus)


class TestFamilyWiseFailure:
    """Bounds that each miss their truth with a probability of .3 exactly, however they depend on each other.

    4 000 draws notice a rate of .36, at a false-alarm rate of 1e-6.
    """

    LEVEL, N_DRAWS = 0.3, 4000
    # True gaps and spread of their bounds: all met with room, all met, the second not, the third not, the first not.
    TRUTHS = (
        ((0.05, 0.06, 0.07), 0.01),
        ((0.05, 0.06, 0.08), 0.1),
        ((0.05, 0.2, 0.2), 0.1),
        ((0.06, 0.07, 0.25), 0.1),
        ((0.15, 0.05, 0.2), 0.1),
    )

    @classmethod
    def ranks(cls, dependence):
        """Rank of each bound among its possible values, one row a draw: a bound is missed where it is below .3."""
        rng = np.random.default_rng(8)
        if dependence == "independent":
            return rng.random((cls.N_DRAWS, 3))
        shift = {"together": 0.0, "never together": cls.LEVEL, "in turn": 1 - cls.LEVEL}[dependence]
        return (rng.random((cls.N_DRAWS, 1)) + shift * np.arange(3)) % 1

    @classmethod
    def outcomes(cls, truths, spread, dependence, claims_of):
        """Number of draws with any wrong claim, and of those in which all metrics passed.

        The ratio is read off the same region as the first bound; here it is missed together with it.
        """
        ranks, wrong, passed = cls.ranks(dependence), 0, 0
        bounds = np.clip(truths + spread * (ndtri(ranks) - ndtri(cls.LEVEL)), 0, 1)
        for row, missed_ratio in zip(bounds, ranks[:, 0] < cls.LEVEL, strict=True):
            claims = claims_of(gaps_of(*row, ratio=0.9 if missed_ratio else 0.1), REQUIRED)
            wrong += has_wrong_claim(claims, truths)
            passed += max(row) <= REQUIRED
        return wrong, passed

    @pytest.mark.parametrize(("truths", "spread"), TRUTHS, ids=str)
    @pytest.mark.parametrize("dependence", ["independent", "together", "never together", "in turn"])
    def test_any_wrong_claim_is_no_more_likely_than_stated(self, truths, spread, dependence):
        wrong, _ = self.outcomes(truths, spread, dependence, _in_sequence)
        assert_rate_at_most(wrong, self.N_DRAWS, self.LEVEL)

    def test_both_branches_happen_and_the_level_is_used(self):
        counts = [self.outcomes(*setting, "together", _in_sequence) for setting in self.TRUTHS]
        assert any(0.05 < passed / self.N_DRAWS < 0.95 for _, passed in counts)
        assert max(wrong for wrong, _ in counts) > 0.27 * self.N_DRAWS

    @pytest.mark.parametrize("dependence", ["independent", "never together"])
    def test_that_check_notices_passed_metrics_claimed_at_their_own_bounds(self, dependence):
        def at_own_bounds(gaps, threshold):
            claims = _in_sequence(gaps, threshold)
            return {name: replace(claim, tau=min(claim.tau, gaps[name].tau)) for name, claim in claims.items()}

        wrong, _ = self.outcomes(*self.TRUTHS[0], dependence, at_own_bounds)
        with pytest.raises(AssertionError):
            assert_rate_at_most(wrong, self.N_DRAWS, self.LEVEL)

    def test_the_ratio_is_no_second_chance_to_fail(self):
        """Two events of probability .3 that do not meet: the first region misses the ratio, the second bound its gap.

        Each metric alone is within its level, and the first gap, .05, is never missed.
        """
        cases = [
            (0.3, gaps_of(0.2, 0.9, 0.9, ratio=0.9)),
            (0.3, gaps_of(0.08, 0.07, 0.9, ratio=0.1)),
            (0.4, gaps_of(0.2, 0.9, 0.9, ratio=0.1)),
        ]
        wrong = sum(chance for chance, gaps in cases if has_wrong_claim(_in_sequence(gaps, REQUIRED), (0.05, 0.5, 0.5)))
        assert wrong <= self.LEVEL


def has_wrong_claim(claims, truths, ratio=0.5):
    """True if a gap is above, or the ratio of the rates below, its claimed bound."""
    claimed = claims["demographic_parity"].ratio
    return any(claims[m].tau < t for m, t in zip(METRICS, truths, strict=True)) or (claimed or 0) > ratio


class TestDerivedCertificates:
    @pytest.mark.parametrize(
        "made",
        [
            lambda: certificate(metrics=PAIR),
            lambda: certificate(metrics=PAIR, require_tau=0.06),
            lambda: certificate(metrics=PAIR).capped(0.1),
        ],
        ids=["plain", "sequence", "capped"],
    )
    def test_a_certificate_is_the_same_after_json(self, made):
        certificate = replace(made(), about=ORIGIN)
        assert read_record(json.loads(json_bytes(certificate_record(certificate)))).certificate() == certificate

    def test_so_is_its_absence(self):
        absent = NotCertified(NoCertificate.ONE_GROUP)
        assert read_record(json.loads(json_bytes(certificate_record(absent)))).certificate() == absent
        assert (absent["certified"], absent.met) == (False, False)

    def test_a_bound_from_the_predictor_alone_lowers_those_above_it(self):
        plain = certificate(metrics=PAIR)
        first, second = (plain.gaps[metric].tau for metric in PAIR)
        between = plain.capped((first + second) / 2)
        assert [gap.tau for gap in between.gaps.values()] == [min(t, (first + second) / 2) for t in (first, second)]
        assert between.input_agnostic_tau == (first + second) / 2
        assert between.gaps["demographic_parity"].ratio == plain.gaps["demographic_parity"].ratio
        assert plain.capped(None) is plain

    def test_a_shift_widens_demographic_parity_and_nothing_else(self):
        plain = certificate()
        still, moved = plain.under_shift(0.0), plain.under_shift(0.1)
        assert plain.gaps["demographic_parity"].tau <= still["demographic_parity"] < moved["demographic_parity"] <= 1
        bound = plain._shift_bound()
        along = [bound.at(shift) for shift in np.linspace(0, 1, 21)]
        assert along == sorted(along)
        assert along[2] == pytest.approx(moved["demographic_parity"])
        for metric in METRICS[1:]:
            assert still[metric] == moved[metric] == plain.gaps[metric].tau

    def test_a_sequence_has_no_bound_under_shift(self):
        with pytest.raises(
            ValueError, match=r"^require_tau=0\.06 leaves a sequence of tests no level [^\n]*; certify without it\.$"
        ):
            certificate(metrics=PAIR, require_tau=0.06).under_shift(0.1)
