"""Results of made-up trainings, as commands print them."""

import math
from dataclasses import replace

from fairdp.accounting.mechanisms import PrivacyBudget
from fairdp.certify.certificate import NotCertified
from fairdp.fitting import FitReport
from fairdp.frontier.verdict import Quality, TargetMet, Verdict
from fairdp.parameters import NoCertificate, Parameters
from fairdp.run.plan import plan_run

_, _, PLANNED = plan_run(
    Parameters(method="fairdp", sample_rate=0.01, n_steps=200, clip_norm=1.0, group_sizes="public"),
    kind="mlp",
    budget=PrivacyBudget(epsilon=1.0, delta=1e-5),
    sizes={"f": 1000.0, "m": 20000.0},
    groups=("f", "m"),
    certify_fraction=0.0,
)
PRIVACY = replace(
    PLANNED,
    epsilon=0.98765,
    epsilon_by_group={"f": 0.98765, "m": 0.5},
    noise_allocation="average",
    mean_noise_std=0.01,
)
METRICS = {
    "auc": 0.81234,
    "accuracy": 0.7,
    "majority_accuracy": 0.6,
    "positive_rate": 0.3,
    "positive_rate_by_group": {"f": 0.25, "m": 0.35},
    "demographic_parity_difference": 0.1,
    "demographic_parity_ratio": math.nan,
    "equal_opportunity_difference": 0.2,
    "equalized_odds_difference": 0.21,
    "false_positive_rate_difference": 0.05,
}


def fit_report(**changes):
    report = FitReport(
        method="fairdp",
        dataset="people.csv",
        n_train=1200,
        n_certify=0,
        n_test=300,
        privacy=PRIVACY,
        metrics=METRICS,
        certificate=NotCertified(NoCertificate.ONE_GROUP),
        notes={},
        warnings=("mind the gap",),
        seconds={"train": 1.0, "certify": 0.0, "total": 2.0},
        out="model",
        statement="The model is private.",
        verdict=Verdict(verdict="undecided", quality=None, target=None),
        frontier=None,
        chosen=None,
        positive="yes",
    )
    return replace(report, **changes)


QUALITY = Quality(accuracy=0.84, accuracy_error=0.004, majority_accuracy=0.76, auc=0.9, auc_error=0.01, learnt="yes")
TARGET = TargetMet(
    metric="demographic_parity",
    kind="max_gap",
    value=0.03,
    estimate=0.12,
    error=0.01,
    met="no",
    price=0.1,
    price_bound=0.1,
    rest=(0.28, 0.021),
)


def verdict(word, *, quality=QUALITY, target=TARGET, **more):
    known = {"base_rate": 0.24, "positive_rate": 0.17, "counted_on": "held-out records", "has_prices": True} | more
    return Verdict(verdict=word, quality=quality, target=target, **known)


MET = replace(TARGET, estimate=0.02, met="yes")
