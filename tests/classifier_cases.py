"""People, fitted models and their scores, for the tests of the estimator."""

import functools

import numpy as np

from fairdp import METHODS, FairDPClassifier, load_dataset
from fairdp.ledger.ledger import Spending
from fairdp.metrics import area_under_roc

# One plan for nearly all tests: the search for its noise is cached. A certificate costs more than such a run, so only
# the tests that it matters to make one, and of one metric where one shows as much as three.
SHORT = {"method": "fairdp", "epsilon": 2.0, "n_steps": 20, "sample_rate": 0.2, "certify_fraction": 0.0}
CERTIFIED = {"certify_fraction": 0.2, "certify_metrics": ("demographic_parity",)}
PRIVATE = [name for name, method in METHODS.items() if method.private]


class Watching(Spending):
    """Pays for nothing, and keeps which records each run trains on and holds out, and what it was to pay."""

    def __init__(self):
        super().__init__(None, command="fit")
        self.parts, self.spent = [], []

    def charge(self, *parts):
        self.parts.append(parts)

    def spend(self, privacy, *named, **options):
        self.spent.append(privacy)


@functools.cache
def people(n_samples=600, seed=0):
    """A learnable table: label by the first feature, groups of one third and two thirds."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, 3)).astype(np.float32)
    y = (X[:, 0] + 0.3 * rng.normal(size=n_samples) > 0).astype(int)
    return X, y, np.array(["f", "m", "m"] * (n_samples // 3))


def fitted(*, data=None, sex=None, **parameters):
    X, y, a = data or people()
    parameters = {**SHORT, "random_state": 0, **parameters}
    return FairDPClassifier(**parameters).fit(X, y, sensitive_features=a if sex is None else sex)


def scores_of(**changes):
    return fitted(**changes).decision_function(people()[0])


def auc_of(model, X, y):
    return area_under_roc(y, model.scores(X))[0]


def private_dataset_auc(name, **parameters):
    data = load_dataset(name)
    settings = {**CERTIFIED, "method": "fairdp", "epsilon": 1.0, "random_state": 0, **parameters}
    model = FairDPClassifier(**settings).fit_grouped(data.train)
    assert 0.95 <= model.privacy_.epsilon <= 1
    return auc_of(model, data.test.X, data.test.y)
