"""What the codes of a privacy record mean, for people who read its statement."""

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
DECISIONS, DECISIONS_BY_LABEL = "decisions_by_group", "decisions_by_group_and_label"
SOFT_PREDICTIONS, SOFT_PREDICTIONS_BY_LABEL = "soft_predictions_by_group", "soft_predictions_by_group_and_label"
LONG_GRADIENTS = "long_gradients_by_group"

_STATISTICS = {
    DECISIONS: "per-group counts of the current model's positive and negative decisions",
    DECISIONS_BY_LABEL: "counts by group and label of the current model's positive and negative decisions",
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


def survey_in_words(code: str) -> str:
    """What is released outside the steps."""
    return _SURVEYS[code]


def assumption_in_words(code: str) -> str:
    """What is treated as public; an assumption stated by a user is in words already."""
    if code.startswith(FITTED_BEFORE):
        return (
            f"what {code.removeprefix(FITTED_BEFORE)}, before the model in a pipeline, learnt from the private rows: "
            "that is outside the guarantee, and no epsilon covers it (declare the columns instead, with "
            "fairdp.SchemaEncoder or fit(..., schema=...), or scale by bounds that you know)"
        )
    return _ASSUMPTIONS.get(code, code)


def statistics_in_words(code: str) -> str:
    """What is released beside the gradient."""
    return _STATISTICS[code]
