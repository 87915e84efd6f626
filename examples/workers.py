"""One model by several processes: torchrun --nproc-per-node 2 examples/workers.py.

Every process runs this file on the same records and ends up with the same model, which is also the one that a single
process makes: python examples/workers.py.
"""

import os

import numpy as np

from fairdp import FairDPClassifier

rng = np.random.default_rng(7)
n_people = 20_000
sex = rng.choice(["f", "m"], size=n_people)
X = rng.normal(size=(n_people, 8)).astype(np.float32)
repaid = X[:, 0] + 0.5 * X[:, 1] + 0.4 * (sex == "m") + rng.normal(size=n_people) > 0

model = FairDPClassifier(epsilon=1.0, max_gap=0.05, random_state=0)
model.fit(X, repaid.astype(int), sensitive_features=sex)

# Of several processes the first one writes.
model.save("workers-model", overwrite=True)
if os.environ.get("RANK", "0") == "0":
    print(f"accuracy {model.score(X, repaid.astype(int)):.4f}, epsilon {model.privacy_.epsilon:.4f}")
