"""The privacy record of a model: the numbers and codes from which ε can be recomputed, and every sentence is made."""

import math
from dataclasses import dataclass

from fairdp._io import to_plain
from fairdp.accounting.mechanisms import Mechanism, Reading
from fairdp.accounting.selection import Selection

# How the sizes of the groups are known: counted with noise; counted exactly, because the user says they are public;
# declared by the user or with the data; or counted exactly for a model that is not private anyway.
NOISY, PUBLIC, DECLARED, EXACT = "noisy", "public", "declared", "exact"
# Treated as public; the statement says so.
READ_FROM_TABLE, BY_LABEL = "schema_read_from_table", "sizes_by_label"
NAMES_READ, PUBLISHED = "group_names_read_from_records", "published_data_set"
# What stands before the model in a pipeline and has learnt from the rows: the code, and then the names of its steps.
FITTED_BEFORE = "fitted_on_records_before: "
# What a method releases beside the gradient.
SOFT_PREDICTIONS, SOFT_PREDICTIONS_BY_LABEL = "soft_predictions_by_group", "soft_predictions_by_group_and_label"
LONG_GRADIENTS = "long_gradients_by_group"
# What is released about all training records, outside the steps.
FREQUENCIES, CENTRE, CELLS = "frequencies", "centre", "cells"
DIRECTION, FRONTIER, RANKING = "direction", "frontier", "ranking"


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


@dataclass(frozen=True, kw_only=True)
class PrivacySpent:
    """The privacy record of a model, made by `fairdp.accounting.plan.privacy_spent`.

    ``epsilon`` and ``epsilon_by_group`` come from the ``accountant``: the chosen one, but RDP where δ is too small for
    PLD. ``epsilon_rdp`` and ``epsilon_pld`` say what each of both gives; a bound that there is not is infinite, and all
    are for a run without noise. ``mechanisms`` holds what was accounted for a training record of each group and
    ``certify_epsilons`` what a certification record spent on its noisy counts, enough to recompute both. A record is
    one or the other, so its group spends the larger of the two.
    ``statistics`` and ``public_assumptions`` hold codes, for which `fairdp.statements` has the words; an assumption may
    also be a user's own text. ``group_sizes`` is a code too: how the ``planned_sizes`` are known, which everything else
    follows from. Noisy ones cost the pure ``counts_epsilon``, or have Gaussian noise of deviation ``counts_std``.
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

    @property
    def is_private(self) -> bool:
        """True if a finite epsilon is claimed."""
        return math.isfinite(self.epsilon)

    @property
    def is_pure(self) -> bool:
        """True if the guarantee holds with delta zero."""
        return self.noise_allocation == "laplace" and self.selection is None and self.reading is None

    @property
    def has_pld_bound(self) -> bool:
        """True if PLD gives a bound, which it does not for a tiny delta."""
        return math.isfinite(self.epsilon_pld)

    def statement(self) -> str:
        """The guarantee in words: unit, relation, sampling, noise, accounting, and what is not covered."""
        from fairdp.statements.privacy import privacy_statement

        return privacy_statement(self)

    def _repr_html_(self) -> str:
        from fairdp.statements.privacy import privacy_html

        return privacy_html(self)


def sizes_deviation(spent: PrivacySpent) -> float:
    """Standard deviation of the noise on group sizes, Gaussian or Laplace; zero for none."""
    return spent.counts_std or (math.sqrt(2) / spent.counts_epsilon if spent.counts_epsilon else 0.0)
