"""The coverage study as Markdown."""

from collections.abc import Mapping
from typing import Any

from fairdp.experiments.studies.results import markdown_table

_HEADERS = ["", "wrong", "of", "rate", "promised", "p-value"]


def coverage_text(figures: Mapping[str, Any]) -> str:
    """All parts, one section each."""
    parts = (
        _synthetic_text(figures["synthetic"], figures["confidence"]),
        _implication_text(figures["implication"]),
        _adult_text(figures["adult"]),
        _twins_text(figures["broken_twins"]),
    )
    return "\n".join(parts)


def _row(label: str, tally: Mapping[str, Any]) -> list[object]:
    numbers = ("rate", "promised", "p_value")
    return [label, f"{tally['events']:,}", f"{tally['trials']:,}", *(float(tally[name]) for name in numbers)]


def _synthetic_text(figures: Mapping[str, Any], confidence: float) -> str:
    labels = {"by_n_groups": "groups", "by_n_samples": "records", "by_epsilon": "= ε"}
    rows = [_row("all certificates", figures["all"])]
    for key, label in labels.items():
        rows += [_row(f"{value} {label}", own) for value, own in figures[key].items()]
    rows.append(_row("16 groups, truth rejected", figures["truth_rejected_16_groups"]))
    claims = ", ".join(f"{claim} {count}" for claim, count in figures["by_claim"].items())
    return (
        "## Certificates of fixed linear rules on the synthetic population\n\n"
        f"A certificate claims all three gaps and a ratio together, with confidence {confidence}; it is wrong if any "
        "claim is. The p-value is the chance of so many wrong ones if the promise is just kept. The last line checks "
        "instead that the true rates are not rejected, which is all that a certificate rests on.\n\n"
        f"{markdown_table(_HEADERS, rows)}\nWrong claims: {claims}.\n"
    )


def _implication_text(figures: Mapping[str, Any]) -> str:
    rows = [
        [*_row(f"truth rejected, level {key.removeprefix('level_')}", own["rejected"]), own["missed"], own["broken"]]
        for key, own in figures.items()
        if key.startswith("level_")
    ]
    return (
        "## A truth that is not rejected lies within the bound\n\n"
        f"{figures['bounds']:,} bounds on difference and ratio, with empty cells, rates of zero and one, and groups of "
        f"three: {figures['broken']} broken implications (there may be none).\n\n"
        f"{markdown_table([*_HEADERS, 'bounds below the truth', 'broken'], rows)}"
    )


def _adult_text(figures: Mapping[str, Any]) -> str:
    title = "## Adult records that the model never saw, as the population\n\n"
    if "not_run" in figures:
        return f"{title}Not run: {figures['not_run']}\n"
    rows = [[name, gap, figures["mean_tau"][name]] for name, gap in figures["true_gaps"].items()]
    sample = f"Samples of {figures['n_samples']:,} with replacement, ε = {figures['epsilon']:g}.\n\n"
    taus = markdown_table(["metric", "true gap", "mean certified τ"], rows)
    return f"{title}{sample}{markdown_table(_HEADERS, [_row('certificates', figures)])}\n{taus}"


def _twins_text(figures: Mapping[str, Any]) -> str:
    rows = [
        [*_row(name.replace("_", " "), own), {True: "yes", False: "no"}.get(own.get("caught"), "–")]
        for name, own in figures.items()
    ]
    return (
        "## Certificates with a mistake, which must be caught\n\n"
        "The first two take noisy counts for exact ones (ε = 0.1). The others bound the rate of a group without "
        "anybody (ε = 4): the shortcut raises its least possible size to one, the proper bound does not.\n\n"
        f"{markdown_table([*_HEADERS, 'caught'], rows)}"
    )
