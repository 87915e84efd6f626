"""The methods in words, for readers who do not know their registered names."""

# What a method is, in a few words; its registered name stands beside it where there is room.
IN_WORDS = {
    "clean": "No privacy, no fairness",
    "dpsgd": "DP-SGD: private only",
    "dpsgd_f": "DPSGD-F: clips groups differently",
    "dp_is_sgd": "DP-IS-SGD: samples groups differently",
    "fairsmooth": "FairSmooth: averaged group models, not private",
    "dpsgd_smooth": "DP-SGD, smoothed",
    "fairfm": "FairFM: one noisy polynomial",
    "fairfm_smooth": "FairFM, smoothed",
    "dp_fermi": "DP-FERMI: penalty on dependence",
    "dp_postprocess": "DP-SGD, decisions changed by group",
    "raco_dp": "RaCO-DP: constraints on rates",
    "fairdp": "FairDP: the paper's",
    "fairdp_parity": "FairDP with a parity target",
    "fairdp_frontier": "FairDP frontier: our default",
}


def in_words(method: str) -> str:
    """A method in words, or by its own name if we do not know it.

    >>> in_words("dpsgd"), in_words("mine")
    ('DP-SGD: private only', 'mine')
    """
    return IN_WORDS.get(method, method)
