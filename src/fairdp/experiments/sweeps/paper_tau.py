"""The paper's empirical certificate of a trained ensemble: a figure to compare with, not a bound for that model."""

import numpy as np
import torch

from fairdp.certify.gaussian import smoothed_probability
from fairdp.certify.paper import monte_carlo_error_printed, proposition_3
from fairdp.classifier import FairDPClassifier
from fairdp.data.grouped import GroupedData


def paper_taus(model: FairDPClassifier, train: GroupedData) -> dict[str, float]:
    r"""Proposition 3 for the three metrics, at confidence .95, on the training records, as the paper has it.

    Where it departs: the head before the noise of the last step is not kept, and must not be, so the mean of the N
    heads stands for it, whose noise is smaller by :math:`\sqrt N`; the deviation is that of one head, Nσ₀, since each
    sees an N-th of the batch; records held out for our certificate count too; and the paper's Laplace noise of ε' = .1
    on rates between zero and one is left out, as its deviation of 14 would bury them. Equalized odds takes the larger
    of its two conditional statements.
    """
    score_model = model.score_model_
    n_members = len(score_model.heads)
    deviation = model.sgd_learning_rate * n_members * model.privacy_.mean_noise_std
    weights, bias = score_model.split(score_model.heads.mean(0))
    with torch.inference_mode():
        embedded = list(score_model.embeddings(torch.from_numpy(train.X)))
        scores = torch.cat([part @ weights + bias for part in embedded]).double().numpy()
        norms = torch.cat([part.norm(dim=1) for part in embedded]).double().numpy()
    chances = (scores >= 0).astype(np.float64)
    if deviation:
        chances = smoothed_probability(scores, norms, smoothing=deviation, bias=score_model.bias)
    events = {
        "demographic_parity": [train.y >= 0],
        "equal_opportunity": [train.y == 1],
        "equalized_odds": [train.y == 1, train.y == 0],
    }
    return {
        name: max(_tau(chances, train, event, n_members) for event in metric_events)
        for name, metric_events in events.items()
    }


def _tau(chances: np.ndarray, train: GroupedData, event: np.ndarray, n_members: int) -> float:
    cells = [event & (train.groups == group) for group in range(train.n_groups)]
    sizes = [int(cell.sum()) for cell in cells]
    rates = [float(chances[cell].mean()) for cell in cells]
    error = monte_carlo_error_printed(sizes, n_members=n_members)
    return proposition_3(rates, sizes=sizes, confidence=0.95, monte_carlo=error)
