"""Fits by all methods, in one process or in several that were started together: prints what each has released."""

import argparse
import hashlib
import json

from fairdp import METHODS, FairDPClassifier
from fairdp.data.catalog import load_dataset
from fairdp.distributed import process_group


def digest(value: object) -> str:
    """A few characters for all bits of a value."""
    content = value if isinstance(value, bytes) else json.dumps(value, default=repr).encode()
    return hashlib.sha256(content).hexdigest()[:16]


def released(model: FairDPClassifier) -> dict[str, object]:
    """Parameters, noisy counts and epsilon of a fit."""
    certificate, frontier = model.certificate_, model.frontier_
    counts = [getattr(certificate, name, None) for name in ("counts", "scores")]
    return {
        "parameters": digest(model.score_model_.params.numpy().tobytes()),
        "counts": digest([repr(counts), repr(frontier), repr(model.predictor_.flips)]),
        "epsilon": model.privacy_.epsilon,
        "certificate": digest(repr(model.certificate_)),
    }


def main() -> None:
    """Fit by each method and print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="adult")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--methods", default=",".join(METHODS))
    given = parser.parse_args()
    data, found = load_dataset(given.dataset).train, {}
    for method in given.methods.split(","):
        model = FairDPClassifier(method=method, n_steps=given.steps, random_state=0, group_sizes="public")
        found[method] = released(model.fit_grouped(data))
    if process_group().is_rank_zero:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
