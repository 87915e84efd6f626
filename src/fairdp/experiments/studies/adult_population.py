"""Adult records that a model never saw, with its decisions: a population whose true gaps are known."""

import numpy as np

from fairdp.experiments.studies.known_truth import FinitePopulation
from fairdp.metrics.rates import decision_counts

N_SAMPLES = 3_000
EPSILON = 1.0


def adult_population(*, n_runs: int) -> FinitePopulation:
    """Train on the official training records and count decisions on all test records."""
    from fairdp.classifier import FairDPClassifier
    from fairdp.data.catalog import load_dataset

    data = load_dataset("adult")
    model = FairDPClassifier(method="fairdp", epsilon=1.0, random_state=0)
    model.fit(data.train.X, data.train.y, sensitive_features=data.train.groups)
    decisions = np.asarray(model.predict(data.test.X)).astype(np.int64)
    counts = decision_counts(data.test.y, decisions, data.test.groups, data.test.n_groups)
    return FinitePopulation(
        cells=tuple(tuple(tuple(int(n) for n in row) for row in group) for group in counts),
        group_names=data.test.group_names,
        n_samples=N_SAMPLES,
        epsilon=EPSILON,
        n_runs=n_runs,
    )
