"""From a table to a certified model: declare what is public, fit, read what is promised, look at what it does."""

import numpy as np
import pandas as pd

from fairdp import FairDPClassifier

rng = np.random.default_rng(0)
n = 40_000
sex, region = rng.choice(["f", "m"], n), rng.choice(["north", "south"], n)
income = rng.gamma(4, 10, n) + 4 * (sex == "m")
loans = pd.DataFrame({"income": income, "debt": rng.gamma(2, 8, n), "years": rng.integers(0, 40, n)})
repaid = (loans["income"] - loans["debt"] + 10 * rng.normal(size=n) > 25).astype(int)

# Centres and spreads that are known without the table: scaling by what the table holds would leak.
X = (loans - pd.Series({"income": 40, "debt": 16, "years": 20})) / pd.Series({"income": 25, "debt": 12, "years": 12})
groups = pd.DataFrame({"sex": sex, "region": region})
train, test = slice(0, 30_000), slice(30_000, None)

model = FairDPClassifier(epsilon=1.0, max_gap=0.05, require_tau=0.2, certify_metrics=("demographic_parity",))
model.fit(X[train], repaid[train], sensitive_features=groups[train])
print(model.privacy_statement(), model.certificate_statement(), sep="\n\n")

# Only for the data holder: exact figures, with an interval for every gap.
evaluation = model.evaluate(X[test], repaid[test], sensitive_features=groups[test])
print(evaluation.by_group.round(3).to_string(), evaluation.intervals.round(3), sep="\n\n")

if not model.certificate_.met:
    raise SystemExit("the required gap of .2 is not certified: do not deploy.")
model.save("loans-model", overwrite=True)
print("saved; next: fairdp verify loans-model && fairdp report loans-model")
