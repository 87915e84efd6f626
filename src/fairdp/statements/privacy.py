"""Every sentence about privacy: the statement in full, and its short forms for the terminal and for a page."""

import math

from fairdp.accounting.mechanisms import SMALLEST_DELTA_FOR_PLD, reading_epsilon
from fairdp.accounting.spent import (
    BY_LABEL,
    CELLS,
    CENTRE,
    DECLARED,
    DIRECTION,
    EXACT,
    FITTED_BEFORE,
    FREQUENCIES,
    FRONTIER,
    LONG_GRADIENTS,
    NAMES_READ,
    NOISY,
    PUBLIC,
    PUBLISHED,
    RANKING,
    READ_FROM_TABLE,
    SOFT_PREDICTIONS,
    SOFT_PREDICTIONS_BY_LABEL,
    PrivacySpent,
    sizes_deviation,
)
from fairdp.errors import html_table, rounded_up
from fairdp.parameters import Parameters

_ASSUMPTIONS = {
    READ_FROM_TABLE: "column types, categories, ranges and group names were read from the table, because no schema "
    "was declared",
    BY_LABEL: "the number of records of each group with each label",
    NAMES_READ: "the group names were read from the records, because none were declared",
    PUBLISHED: "the data set is published, and the sizes of its groups with it",
}
# Released beside the gradient.
STATISTICS = {
    SOFT_PREDICTIONS: "a histogram of soft predictions for each group",
    SOFT_PREDICTIONS_BY_LABEL: "a histogram of soft predictions for each group and label",
    LONG_GRADIENTS: "the number of gradients in each group that exceed the clip norm (it raises the group's clip norm, "
    "and the noise with it)",
}
# Released outside the steps.
QUERIES = {
    FREQUENCIES: "how often each input occurs, by which rare ones get more weight",
    CENTRE: "the mean of the image features",
    CELLS: "the number of records of each group and label",
    DIRECTION: "positive decisions by group and label, again and again, while the prices of the groups are found",
    FRONTIER: "positive decisions by group and label at every price of fairness",
    RANKING: "records by label and predicted probability",
}
NOT_COVERED = (
    "exact metrics and record counts that commands print (for the data holder's eyes only)",
    "anything done to the data before training (scaling, selection)",
    "hyper-parameters chosen by looking at private data",
    "other models trained on the same records (epsilons add up)",
)
# How the sizes are known that training was planned with.
KNOWN_SIZES = {NOISY: "noisy counts", PUBLIC: "public sizes", DECLARED: "declared sizes", EXACT: "exact counts"}
# What a page has room for, in addition to what the statement says.
ALSO_NOT_COVERED = (
    "group names and labels that are themselves private",
    "running time, and messages about bad input",
)
NOT_PRIVATE = "this model is not private: it was trained without noise."
# About figures that commands measure, and about those of the paper.
EXACT_ON_RECORDS = "Exact figures on real records: for the data holder's eyes only, outside the privacy guarantee."
EXACT_FOR_PAPER = (
    "Exact figures of these records, without noise: for the data holder's eyes only, outside the privacy guarantee."
)
NO_LEDGER = "No ledger was kept: nothing else that was released about the records is added up."
_SEED = "while that seed is secret and used for this run alone, and a small number can be guessed."


def privacy_statement(spent: PrivacySpent) -> str:
    """The guarantee in full: unit, relation, sampling, noise, accounting, and what is not covered."""
    return "\n".join(_statement_lines(spent))


def privacy_html(spent: PrivacySpent) -> str:
    """A small table for notebooks."""
    rows = [("ε", rounded_up(spent.epsilon)), ("δ", f"{spent.delta:g}"), ("neighbours", "one record more or less")]
    rows += [(f"ε of {name}", rounded_up(value)) for name, value in spent.epsilon_by_group.items()]
    private = "In words: statement()." if spent.is_private else "Not private: trained without noise."
    return html_table("Privacy spent", rows, private)


def assumption_in_words(code: str) -> str:
    """Something treated as public; an assumption stated by a user is in words already."""
    if code.startswith(FITTED_BEFORE):
        return (
            f"what {code.removeprefix(FITTED_BEFORE)}, before the model in a pipeline, learnt from the private rows: "
            "that is outside the guarantee, and no epsilon covers it (declare the columns instead, with "
            "fairdp.SchemaEncoder or fit(..., schema=...), or scale by bounds that you know)"
        )
    return _ASSUMPTIONS.get(code, code)


def _statement_lines(spent: PrivacySpent) -> list[str]:
    if not spent.is_private:
        return ["This model is NOT private: it was trained without noise, and epsilon is infinite."]
    is_laplace, reading = spent.noise_allocation == "laplace", spent.reading
    epsilon = rounded_up(spent.epsilon)
    promised = epsilon if spent.is_pure else f"({epsilon}, {spent.delta!r})"
    by_group = ", ".join(f"{name} {rounded_up(value)}" for name, value in spent.epsilon_by_group.items())
    lines = [
        f"The model is {promised}-differentially private for adding or removing one record.",
        f"Epsilon by group: {by_group}.",
    ]
    n_samples = sum(spent.planned_sizes.values()) / (1 - spent.certify_fraction)
    # Said where the default would not do for so many.
    if not is_laplace and Parameters.delta * n_samples >= 1:
        lines.append(f"Delta is below one over the number of records ({spent.group_sizes}: {n_samples:.2g}).")
    lines += [_laplace_line(spent)] if is_laplace else _gaussian_lines(spent)
    if spent.surveys:
        each = "; ".join(f"{QUERIES[code]} (deviation {std:.4g})" for code, std in spent.surveys.items())
        lines.append(
            "Outside the steps, Gaussian noise was added to these numbers about all training records, of which one "
            f"record moves each release by at most one, and epsilon above includes them: {each}."
        )
    if spent.histogram_epsilon:
        lines.append(
            "Decisions about the training records were counted by group and label with Laplace noise, for a pure "
            f"epsilon of {rounded_up(spent.histogram_epsilon)}, included above."
        )
    if reading is not None:
        lines.append(
            f"The {reading.n_columns} columns of the table were read with noise, from all records: types, ranges, "
            "categories and groups follow from counts with discrete Gaussian noise of deviation "
            f"{reading.std:.4g}, and a value is named only if its noisy count is at least {reading.threshold} (delta "
            f"{reading.delta:.2g}). Epsilon above includes it; alone it is "
            f"{rounded_up(reading_epsilon(reading, spent.delta))}."
        )
    if spent.certify_epsilons:
        lines.append(
            f"A fraction of {spent.certify_fraction:g} of the records, chosen by a coin for each, was not trained on "
            "but counted with noise for the fairness certificate, at a pure epsilon of at most "
            f"{rounded_up(max(spent.certify_epsilons.values()))}{' beside the reading' if reading else ''}. A record "
            "is either trained on or held out, so the guarantee is the larger of the two epsilons, not their sum."
        )
    if spent.selection is not None:
        lines.append(
            f"The model is the best of a random number of trials, {spent.selection.expected_trials:g} on average; "
            "nothing else about the trials may be shown, not even how many there were. Epsilon covers the whole "
            "search, by Renyi divergences (Papernot and Steinke, 2022, with the logarithmic distribution); the figures "
            "of the mechanism are those of one trial."
        )
    lines.append(_group_sizes_line(spent))
    if (note := spent.ledger) is not None:
        lines.append(
            f"By the ledger (entry {note.entry}), all releases about table {note.table!r} until this was written "
            f"spend ({rounded_up(note.epsilon)}, {note.delta:.4g}) together if they were planned in advance, and "
            f"epsilon {rounded_up(note.epsilon_sum)}, the simple sum, in any case."
        )
    elif PUBLISHED not in spent.public_assumptions:
        lines.append(NO_LEDGER)
    lines.append(f"Not covered: {', '.join(not_covered(spent)[:-1])}, and {NOT_COVERED[-1]}.")
    lines += [f"Assumed public: {assumption_in_words(code)}." for code in spent.public_assumptions]
    if spent.noise_seeded:
        lines.append(f"The noise came from a fixed seed: the guarantee holds only {_SEED}")
    return lines


def _laplace_line(spent: PrivacySpent) -> str:
    return (
        "Mechanism: the coefficients of each group's approximate loss are released once, with Laplace noise whose "
        f"scale is {spent.noise_multiplier:.4g} times what one record can change in the L1 norm (functional "
        "mechanism). "
        f"{'' if spent.selection or spent.reading else 'The guarantee is pure: it holds with delta zero. '}Training "
        "uses no group size."
    )


def _gaussian_lines(spent: PrivacySpent) -> list[str]:
    apart = "on every group's own sum, each of which is released, for the optimiser of its group"
    noise = {
        "per_group": f"independent Gaussian noise {apart if spent.group_optimizers else 'for every group'}, "
        "accounted by parallel composition over the groups",
        "average": "one draw of Gaussian noise on the average over the groups, accounted "
        + ("for every group as for the most exposed" if spent.group_sizes == NOISY else "at each group's own exposure"),
    }[spent.noise_allocation]
    gradient = spent.noise_multiplier
    if spent.statistics_multiplier:
        gradient = (gradient**-2 - spent.statistics_multiplier**-2) ** -0.5
    lines = [
        f"Mechanism: {spent.n_steps} steps; each samples every record independently with probability at most "
        f"{spent.sample_rate:.4g} (Poisson), clips its gradient to norm {spent.clip_norm:g} and adds noise of "
        f"{gradient:.4g} times the sensitivity: {noise}."
    ]
    if spent.look_steps:
        lines.append(
            f"Of these steps {spent.look_steps} are for looks during training: each makes the heads that are looked "
            "at, and training goes on without it."
        )
    if spent.statistics_multiplier:
        lines.append(
            f"Beside the gradient each step releases {STATISTICS[spent.statistics]}, with noise of "
            f"{spent.statistics_multiplier:.4g} times the sensitivity; both come from one sample and are accounted as "
            f"one query, with a noise multiplier of {spent.noise_multiplier:.4g}."
        )
    return lines if spent.selection else [*lines, _accountant_line(spent)]


def _accountant_line(spent: PrivacySpent) -> str:
    if spent.accountant == "rdp" and spent.delta < SMALLEST_DELTA_FOR_PLD:
        return (
            "Accountant: the moments accountant (RDP); PLD, usually tighter, is not exact enough for so small a delta."
        )
    if spent.accountant == "rdp":
        gives = rounded_up(spent.epsilon_pld) if spent.has_pld_bound else "no bound for so little noise"
        return (
            f"Accountant: the moments accountant (RDP), as was chosen; PLD (privacy loss distribution), usually a "
            f"tighter bound on the same mechanism, gives {gives}."
        )
    return (
        f"Accountant: PLD (privacy loss distribution); the moments accountant (RDP), a looser bound on "
        f"the same mechanism, gives {rounded_up(spent.epsilon_rdp)}."
    )


def _group_sizes_line(spent: PrivacySpent) -> str:
    names = "The group names and the two labels are treated as public"
    if spent.reading is not None:
        names = "The group names and the two labels are among what was read with noise"
    if spent.group_sizes == NOISY:
        return (
            f"{names}. Group sizes were counted with noise of deviation {sizes_deviation(spent):.4g}, which epsilon "
            "above includes: no exact count of the records is in what may be published."
        )
    if spent.group_sizes == DECLARED:
        return (
            f"{names}. Group sizes were declared, not counted: this costs nothing as long as they were not taken from "
            "the private records."
        )
    public = "Group sizes are treated as public" if spent.reading is not None else "and so are the group sizes"
    return f"{names}{'.' if spent.reading else ','} {public}: their exact numbers are in what may be published."


def not_covered(spent: PrivacySpent) -> list[str]:
    """Leaks that no ε here covers; a choice made by a search that was accounted for is covered, any other is not."""
    other = " otherwise" if spent.selection else ""
    return [f"{words}{other if words.startswith('hyper-parameters') else ''}" for words in NOT_COVERED]


def privacy_answer(spent: PrivacySpent) -> str:
    """The level, what it covers, and what else was spent, in one line."""
    if not spent.is_private:
        return "none: the model was trained without noise"
    covered = ["model"]
    covered += ["search"] if spent.selection else []
    covered += ["reading of the columns"] if spent.reading else []
    covered += ["certificate"] if spent.certify_epsilons else []
    together = f"{', '.join(covered[:-1])} and {covered[-1]}" if len(covered) > 1 else covered[0]
    level = f"epsilon {rounded_up(spent.epsilon)}{'' if spent.is_pure else f' at delta {spent.delta:g}'}"
    seeded = "; keep the seed secret" if spent.noise_seeded else ""
    return f"{level}, for {together}{_in_all(spent)}{seeded}"


def _in_all(spent: PrivacySpent) -> str:
    """The ledger's total of the table."""
    note = spent.ledger
    if note is None:
        return "" if PUBLISHED in spent.public_assumptions else "; no ledger was kept of what else is released"
    if note.epsilon_sum <= spent.epsilon * (1 + 1e-6):
        return f"; the first release about {note.table} in the ledger"
    return f"; with all releases about {note.table} in the ledger {rounded_up(note.epsilon_sum)}"


def privacy_level(spent: PrivacySpent) -> str:
    """The privacy level, rounded up."""
    if not spent.is_private:
        return "not private"
    epsilon = rounded_up(spent.epsilon)
    if spent.is_pure:
        return f"ε = {epsilon} for adding or removing one record"
    return f"ε = {epsilon} at δ = {spent.delta:g} for adding or removing one record"


def privacy_cautions(spent: PrivacySpent, *, read_from_rows: bool) -> list[str]:
    """Warnings about the guarantee; ``read_from_rows`` if anything about the columns was, and is not paid for."""
    found = []
    if not spent.is_private:
        found.append("Not private: the model was trained without noise, and epsilon is infinite.")
    if spent.is_private and spent.noise_seeded:
        found.append(f"Seeded noise: the noise came from a fixed seed. The guarantee holds only {_SEED}")
    if read_from_rows:
        found.append(
            "Schema read from the table: column types, categories, ranges and group names were read from the private "
            "rows and are treated as public. What they reveal is not accounted for."
        )
    return found


def spent_in_all(spent: PrivacySpent) -> str:
    """The ledger's total of the declared table, or that there is none."""
    note = spent.ledger
    if note is not None:
        return (
            f"By the ledger (entry {note.entry}), all releases about table {note.table!r} until this one spend "
            f"ε = {rounded_up(note.epsilon)} at δ = {note.delta:.4g} together if they were planned in advance, and "
            f"ε = {rounded_up(note.epsilon_sum)}, the simple sum, in any case."
        )
    if PUBLISHED in spent.public_assumptions:
        return "A published data set: no ledger is kept of it."
    return NO_LEDGER


def how_private(spent: PrivacySpent, risk: str) -> str:
    """The level and what it means; ``risk`` is a sentence, empty if no bound on attacks follows."""
    if not spent.is_private:
        return "Not private: the model was trained without noise, and may reveal whose records it was trained on."
    in_one_sentence = f" In one sentence: {risk}." if risk else ""
    return f"Differential privacy with {privacy_level(spent)}.{in_one_sentence}"


def risk_in_a_sentence(true_positive_rate: float, false_positive_rate: float) -> str:
    """A bound on any attack, as a number of people."""
    found = math.ceil(1e4 * true_positive_rate - 1e-9) / 10
    return (
        f"at one false alarm in {1 / false_positive_rate:,.0f}, no attack recognises more than {found:g} of 1,000 "
        "people whose record was used, on average, whatever it knows; blind guessing recognises "
        f"{1000 * false_positive_rate:g}"
    )


def mechanism_in_short(spent: PrivacySpent) -> str:
    """The mechanism, in a few words."""
    if not spent.is_private:
        return "None: no noise was added."
    if spent.noise_allocation == "laplace":
        return "Laplace noise on the coefficients of the loss, once (functional mechanism)."
    return "Poisson sampling, clipped gradients, Gaussian noise."


def accounting_in_short(spent: PrivacySpent) -> str:
    """The composition of the releases, in a few words."""
    if not spent.is_private:
        return "There is nothing to account for."
    if spent.selection is not None:
        return "Renyi divergences, of one trial and of the choice between trials; recomputed by the checks."
    if spent.is_pure:
        return "One release whose pure epsilon follows from its noise; recomputed by the checks."
    if spent.accountant == "pld":
        return "Privacy loss distributions, with the moments accountant for comparison; recomputed by the checks."
    beside = ", with privacy loss distributions for comparison" if spent.has_pld_bound else ""
    return f"The moments accountant{beside}; recomputed by the checks."
