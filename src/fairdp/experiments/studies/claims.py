"""Every claim of the paper's evaluation beside what the runs show, with a verdict by a stated rule."""

from fairdp.experiments.studies.claims_of_certificate import certificate_claims
from fairdp.experiments.studies.claims_of_gains import gain_claims
from fairdp.experiments.studies.claims_of_methods import method_claims
from fairdp.experiments.studies.judging import Evidence
from fairdp.experiments.studies.paper_tables import bound_settings, imbalance_settings
from fairdp.experiments.studies.protocol import PAPER_METHODS, settings_of, train
from fairdp.experiments.studies.results import Findings, Run, table


def claim_study(run: Run) -> Findings:
    """All claims, from the trainings of the other studies."""
    asked = [*settings_of(run, PAPER_METHODS), *bound_settings(run), *imbalance_settings(run)]
    evidence = Evidence(runs=train(dict.fromkeys(asked), run), run=run)
    claims = [*gain_claims(evidence), *method_claims(evidence), *certificate_claims(evidence)]
    text = (
        "A claim about FairDP is judged, on each data set, in the reading (M, and one Adam or one for every group) "
        "that serves it best among those that were trained; the reading is in brackets. A rule that is met says that "
        "the numbers are as the paper says, not that they mean what the paper says: read the positive rates beside "
        "them. Means over seeds on one set of test records; p-values are Welch's over seeds.\n\n"
    )
    figures = {"claims": [claim.to_json() for claim in claims]}
    return Findings(figures, text + table([claim.line() for claim in claims]))
