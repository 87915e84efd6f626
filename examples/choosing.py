"""Choosing settings: with a search that ε covers, and with scikit-learn's, which it does not."""

import numpy as np
from sklearn import config_context
from sklearn.model_selection import GridSearchCV

from fairdp import FairDPClassifier, gap_scorer, synthetic_population, tune

population = synthetic_population(bias=0.5)
rng = np.random.default_rng(0)
records, public = population.sample(12_000, rng), population.sample(2_000, rng)

# On private records: a random number of trials, one epsilon for the whole search.
chosen = tune(
    FairDPClassifier(epsilon=2.0, certify_metrics=("demographic_parity",)),
    {"max_gap": [0.02, 0.05], "learning_rate": [2.0, 7.0]},
    records,
    max_gap=0.06,
    expected_trials=3,
)
print(f"chosen: max_gap={chosen.max_gap}, learning_rate={chosen.learning_rate}")
print(f"epsilon of the whole search: {chosen.privacy_.epsilon:.4f}; of one trial: {chosen.epsilon:.4f}")

# On public records a search costs nothing, so scikit-learn's will do; on private ones no ε would cover it.
names = np.array(public.group_names)[public.groups]
with config_context(enable_metadata_routing=True):
    model = FairDPClassifier(epsilon=2.0, certify_fraction=0.0).set_fit_request(sensitive_features=True)
    search = GridSearchCV(model, {"max_gap": [0.02, 0.05]}, scoring=gap_scorer(0.06), cv=2)
    search.fit(public.X, public.y, sensitive_features=names)
print(f"on public records: {search.best_params_}")
