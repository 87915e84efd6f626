"""The privacy record of a model: numbers from which ε can be recomputed, and the statement made from them."""

import math
from dataclasses import dataclass

from fairdp._format import html_table, rounded_up
from fairdp._io import to_plain
from fairdp.accounting.mechanisms import SMALLEST_DELTA_FOR_PLD, Mechanism, Reading, reading_epsilon
from fairdp.accounting.selection import Selection
from fairdp.parameters import Parameters

# How the sizes of the groups are known: counted with noise; counted exactly, because the user says they are public;
# declared by the user or with the data; or counted exactly for a model that is not private anyway.
NOISY, PUBLIC, DECLARED, EXACT = "noisy", "public", "declared", "exact"
# Treated as public; the statement says so.
READ_FROM_TABLE, BY_LABEL = "schema_read_from_table", "sizes_by_label"
NAMES_READ, PUBLISHED = "group_names_read_from_records", "published_data_set"
_ASSUMPTIONS = {
    READ_FROM_TABLE: "column types, categories, ranges and group names were read from the table, because no schema "
    "was declared",
    BY_LABEL: "the number of records of each group with each label",
    NAMES_READ: "the group names were read from the records, because none were declared",
    PUBLISHED: "the data set is published, and the sizes of its groups with it",
}
# What stands before the model in a pipeline and has learnt from the rows: the code, and then the names of its steps.
FITTED_BEFORE = "fitted_on_records_before: "
# What a method releases beside the gradient.
SOFT_PREDICTIONS, SOFT_PREDICTIONS_BY_LABEL = "soft_predictions_by_group", "soft_predictions_by_group_and_label"
LONG_GRADIENTS = "long_gradients_by_group"
_STATISTICS = {
    SOFT_PREDICTIONS: "a histogram of soft predictions for each group",
    SOFT_PREDICTIONS_BY_LABEL: "a histogram of soft predictions for each group and label",
    LONG_GRADIENTS: "the number of gradients in each group that exceed the clip norm (it raises the group's clip norm, "
    "and the noise with it)",
}
# What is released about all training records, outside the steps.
FREQUENCIES, CENTRE, CELLS = "frequencies", "centre", "cells"
DIRECTION, FRONTIER, RANKING = "direction", "frontier", "ranking"
_SURVEYS = {
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


@dataclass(frozen=True, kw_only=True)
class LedgerNote:
    """A model's entry in a ledger, and the spending of all entries of the table together by the last writing.

    Nothing here depends on a record. The ``token`` is random and stands in the entry too, so that a ledger that was
    restored from an older copy is noticed. ``epsilon`` composes the mechanisms, at the sum of their deltas; it holds
    for a plan that was fixed in advance, and ``epsilon_sum`` in any case.
    """

    entry: int
    token: str
    table: str
    epsilon: float
    delta: float
    epsilon_sum: float

    def to_json(self) -> dict[str, object]:
        """Under the names users see; the token is for the folder."""
        return {
            "entry": self.entry,
            "table": self.table,
            "epsilon_total": self.epsilon,
            "delta_total": self.delta,
            "epsilon_sum": self.epsilon_sum,
        }


def query_in_words(code: str) -> str:
    """A release outside the steps."""
    return _SURVEYS[code]


def assumption_in_words(code: str) -> str:
    """Something treated as public; an assumption stated by a user is in words already."""
    if code.startswith(FITTED_BEFORE):
        return (
            f"what {code.removeprefix(FITTED_BEFORE)}, before the model in a pipeline, learnt from the private rows: "
            "that is outside the guarantee, and no epsilon covers it (declare the columns instead, with "
            "fairdp.SchemaEncoder or fit(..., schema=...), or scale by bounds that you know)"
        )
    return _ASSUMPTIONS.get(code, code)


def statistics_in_words(code: str) -> str:
    """Statistics released beside the gradient."""
    return _STATISTICS[code]


@dataclass(frozen=True, kw_only=True)
class PrivacySpent:
    """The privacy record of a model, made by `fairdp.accounting.plan.privacy_spent`.

    ``epsilon`` and ``epsilon_by_group`` come from the ``accountant``: the chosen one, but RDP where δ is too small for
    PLD. ``epsilon_rdp`` and ``epsilon_pld`` say what each of both gives; a bound that there is not is infinite, and all
    are for a run without noise. ``mechanisms`` holds what was accounted for a training record of each group and
    ``certify_epsilons`` what a certification record spent on its noisy counts, enough to recompute both. A record is
    one or the other, so its group spends the larger of the two.
    ``statistics`` and ``public_assumptions`` hold codes, which `fairdp.accounting.spent` puts into words; an assumption
    may also be a user's own text. ``group_sizes`` is a code too: how the ``planned_sizes`` are known, which everything
    else follows from. Noisy ones cost the pure ``counts_epsilon``, or have Gaussian noise of deviation ``counts_std``.
    ``n_steps`` counts all noisy steps, of which ``look_steps`` are not trained on but make the ensemble of a look.
    ``noise_std`` is the deviation of the noise on what a step releases, ``mean_noise_std`` that on the averaged
    gradient: another one only where ``group_optimizers`` made a step release the sum of every group.
    ``surveys`` has the deviation of the noise on each release outside the steps, by its code. ``reading`` says how the
    columns of a table were read with noise, if nobody declared them: from all records, held out or not.
    For a model that was kept as the best of several trials, ``selection`` says what all candidates might have spent,
    and ``epsilon`` covers the whole search. ``ledger`` says what else was spent on the table, if that was added up.
    """

    epsilon: float
    delta: float
    epsilon_by_group: dict[str, float]
    accountant: str
    epsilon_rdp: float
    epsilon_pld: float
    noise_multiplier: float
    noise_allocation: str
    noise_std: float
    mean_noise_std: float
    group_optimizers: bool
    planned_sizes: dict[str, float]
    sensitivities: dict[str, float]
    sample_rate: float
    n_steps: int
    look_steps: int
    clip_norm: float
    relation: str
    group_sizes: str
    counts_epsilon: float
    counts_std: float
    noise_seeded: bool
    public_assumptions: tuple[str, ...]
    mechanisms: dict[str, Mechanism]
    statistics: str
    statistics_multiplier: float
    surveys: dict[str, float]
    histogram_epsilon: float
    certify_fraction: float
    certify_epsilons: dict[str, float]
    reading: Reading | None = None
    selection: Selection | None = None
    ledger: LedgerNote | None = None

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        return dict(to_plain(self))

    def statement(self) -> str:
        """The guarantee in words: unit, relation, sampling, noise, accounting, and what is not covered."""
        return "\n".join(_statement_lines(self))

    def _repr_html_(self) -> str:
        rows = [("ε", rounded_up(self.epsilon)), ("δ", f"{self.delta:g}"), ("neighbours", "one record more or less")]
        rows += [(f"ε of {name}", rounded_up(value)) for name, value in self.epsilon_by_group.items()]
        private = "Not private: trained without noise." if math.isinf(self.epsilon) else "In words: statement()."
        return html_table("Privacy spent", rows, private)


def _statement_lines(spent: PrivacySpent) -> list[str]:
    if math.isinf(spent.epsilon):
        return ["This model is NOT private: it was trained without noise, and epsilon is infinite."]
    is_laplace, reading = spent.noise_allocation == "laplace", spent.reading
    is_pure = is_laplace and spent.selection is None and reading is None
    epsilon = rounded_up(spent.epsilon)
    by_group = ", ".join(f"{name} {rounded_up(value)}" for name, value in spent.epsilon_by_group.items())
    lines = [
        f"The model is {epsilon if is_pure else f'({epsilon}, {spent.delta!r})'}-differentially private for adding or "
        "removing one record.",
        f"Epsilon by group: {by_group}.",
    ]
    n_samples = sum(spent.planned_sizes.values()) / (1 - spent.certify_fraction)
    # Said where the default would not do for so many.
    if not is_laplace and Parameters.delta * n_samples >= 1:
        lines.append(f"Delta is below one over the number of records ({spent.group_sizes}: {n_samples:.2g}).")
    lines += [_laplace_line(spent)] if is_laplace else _gaussian_lines(spent)
    if spent.surveys:
        each = "; ".join(f"{query_in_words(code)} (deviation {std:.4g})" for code, std in spent.surveys.items())
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
        lines.append("No ledger was kept: nothing else that was released about the records is added up.")
    lines.append(f"Not covered: {', '.join(not_covered(spent)[:-1])}, and {NOT_COVERED[-1]}.")
    lines += [f"Assumed public: {assumption_in_words(code)}." for code in spent.public_assumptions]
    if spent.noise_seeded:
        lines.append(
            "The noise came from a fixed seed: the guarantee holds only while that seed is secret and used for this "
            "run alone, and a small number can be guessed."
        )
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
            f"Beside the gradient each step releases {statistics_in_words(spent.statistics)}, with noise of "
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
        gives = rounded_up(spent.epsilon_pld) if math.isfinite(spent.epsilon_pld) else "no bound for so little noise"
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


def sizes_deviation(spent: PrivacySpent) -> float:
    """Standard deviation of the noise on group sizes, Gaussian or Laplace; zero for none."""
    return spent.counts_std or (math.sqrt(2) / spent.counts_epsilon if spent.counts_epsilon else 0.0)


def not_covered(spent: PrivacySpent) -> list[str]:
    """Leaks that no ε here covers; a choice made by a search that was accounted for is covered, any other is not."""
    other = " otherwise" if spent.selection else ""
    return [f"{words}{other if words.startswith('hyper-parameters') else ''}" for words in NOT_COVERED]
