"""Steps of the CNN on faces, in one process or several: seconds of a step, and of what the workers tell each other."""

import argparse
import json
import statistics
import time
from itertools import pairwise

import torch

from fairdp import FairDPClassifier
from fairdp.data.catalog import load_dataset
from fairdp.distributed import process_group, shares
from fairdp.run.fit import Progress
from fairdp.training.sums import summed_in_order


def seconds_of_steps(n_steps: int) -> tuple[float, int]:
    """Median seconds of a step of FairDP on faces, and its number of parameters."""
    times: list[float] = []
    model = FairDPClassifier(method="fairdp", n_steps=n_steps, random_state=0, group_sizes="public", certify_fraction=0)
    progress = Progress(observe=lambda step, n: times.append(time.perf_counter()))
    model.fit_grouped(load_dataset("utkface").train, progress=progress)
    # The first step warms up, and the last makes all the heads.
    score = model.score_model_
    return statistics.median(b - a for a, b in pairwise(times[1:-1])), score.n_extractor_params + score.head_size


def seconds_of_reduction(n_numbers: int, n_parts: int = 16) -> float:
    """Median seconds of the messages of a step: parts that are there already go to the first, and a sum comes back."""
    processes, ready, times = process_group(), torch.zeros(n_numbers), []
    for _ in range(30):
        processes.all_reduce(torch.zeros(1, dtype=torch.int64).numpy())
        start = time.perf_counter()
        total = summed_in_order([[60] * n_parts], lambda block, part: ready, n_numbers=n_numbers, processes=processes)
        processes.broadcast(total[0].float())
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    """Print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=40)
    given = parser.parse_args()
    torch.set_num_threads(1)
    step, n_numbers = seconds_of_steps(given.steps)
    reduction = seconds_of_reduction(n_numbers)
    if process_group().is_rank_zero:
        of_first = shares([1] * 16, process_group().size).count(0)
        about = {"workers": process_group().size, "step": step, "reduction": reduction, "parameters": n_numbers}
        print(json.dumps({**about, "parts_of_first": of_first}))


if __name__ == "__main__":
    main()
