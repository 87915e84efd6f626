"""Studies that can be run again by name; their code is loaded only when one of them runs."""

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairdp.experiments.studies.results import Findings, Run


@dataclass(frozen=True, kw_only=True)
class Study:
    """A named study: what it shows, and the function that runs it.

    Parameters
    ----------
    name
        As it is typed.
    shows
        What the results say, in one line.
    home, function
        Where the code is: a module, and a function in it that makes `Findings` from a `Run`.
    paper
        The table or figure of the paper that it makes again; empty: beyond the paper.
    """

    name: str
    shows: str
    home: str
    function: str
    paper: str = ""

    def findings(self, run: "Run") -> "Findings":
        """Run the study."""
        made: Findings = getattr(import_module(self.home), self.function)(run)
        return made


_PAPER = (
    Study(
        name="datasets",
        shows="Records, features, positives and groups of the three data sets.",
        home="fairdp.experiments.studies.paper_tables",
        function="dataset_study",
        paper="Table 1, data sets",
    ),
    Study(
        name="tradeoffs",
        shows="Utility against the three gaps for every method and budget, with DP-SGD at FairDP's positive rate.",
        home="fairdp.experiments.studies.paper_tradeoffs",
        function="tradeoff_study",
        paper="figures of the trade-offs, for accuracy and for ROC-AUC",
    ),
    Study(
        name="gains",
        shows="How much smaller FairDP's gaps are than those of DP-IS-SGD and clean training, and what it costs.",
        home="fairdp.experiments.studies.paper_tradeoffs",
        function="gain_study",
        paper="figures of fairness gain and utility drop, against DP-IS-SGD and against clean training",
    ),
    Study(
        name="t-tests",
        shows="Two-tailed t-tests between methods, over seeds.",
        home="fairdp.experiments.studies.paper_tradeoffs",
        function="t_test_study",
        paper="the p-values in the text",
    ),
    Study(
        name="certificate-tightness",
        shows="Observed gaps under shifts of Pr(a, y), the paper's certificate and the one that holds.",
        home="fairdp.experiments.studies.paper_certificate",
        function="tightness_study",
        paper="figures of the tightness of the certificate and of its behaviour under shift",
    ),
    Study(
        name="mc-error",
        shows="The error of an ensemble of ten heads, as the paper prints it.",
        home="fairdp.experiments.studies.paper_certificate",
        function="mc_error_study",
        paper="table of the DP-MC approximation error",
    ),
    Study(
        name="impact-of-m",
        shows="What the bound M on the head does to utility and gaps, beside DP-SGD at the same positive rate.",
        home="fairdp.experiments.studies.paper_tables",
        function="bound_study",
        paper="table of the hyper-parameter M",
    ),
    Study(
        name="imbalance",
        shows="FairDP where the largest group is cut to ρ times the smallest.",
        home="fairdp.experiments.studies.paper_tables",
        function="imbalance_study",
        paper="figures of the imbalance ρ, for accuracy and for ROC-AUC",
    ),
    Study(
        name="members",
        shows="FairDP with one to twenty heads.",
        home="fairdp.experiments.studies.paper_tables",
        function="member_study",
    ),
    Study(
        name="noise-allocation",
        shows="FairDP with noise for every group, or once on their average.",
        home="fairdp.experiments.studies.paper_tables",
        function="allocation_study",
    ),
    Study(
        name="schedule",
        shows="FairDP with the step sizes of Theorem 4, a constant one, and the paper's Adam.",
        home="fairdp.experiments.studies.paper_tables",
        function="schedule_study",
    ),
)
_FURTHER = (
    Study(
        name="certificate-slack",
        shows="How far the certified gap lies above the observed one, beside simpler bounds and one that is no bound.",
        home="fairdp.experiments.studies.certificate_slack",
        function="slack_study",
    ),
    Study(
        name="certificate-coverage",
        shows="How often certificates are wrong where the truth is known, and that broken ones are noticed.",
        home="fairdp.experiments.studies.certificate_coverage",
        function="coverage_study",
    ),
    Study(
        name="methods",
        shows="What every method reaches on Adult and Default-CCC at the same budget, with its own defaults.",
        home="fairdp.experiments.studies.methods",
        function="methods_study",
    ),
    Study(
        name="parity",
        shows="How well methods with a target for demographic parity hold it, and what it costs, at three budgets.",
        home="fairdp.experiments.studies.parity",
        function="frontier_study",
    ),
    Study(
        name="parity-notions",
        shows="The same for equal opportunity, equalized odds, and four groups.",
        home="fairdp.experiments.studies.parity",
        function="notion_study",
    ),
    Study(
        name="parity-faces",
        shows="A frontier on faces, with models without a target at the same positive rate beside it.",
        home="fairdp.experiments.studies.parity_figures",
        function="faces_study",
    ),
    Study(
        name="parity-certified",
        shows="The gap and the ratio that are certified of models that aim at a gap, on Adult.",
        home="fairdp.experiments.studies.parity_figures",
        function="certified_study",
    ),
    Study(
        name="noise",
        shows="How large a step's noise is when groups weigh by their size or equally, and are sampled alike or not.",
        home="fairdp.experiments.studies.noise",
        function="noise_study",
    ),
    Study(
        name="parity-splits",
        shows="The same on splits and populations on which no constant was chosen.",
        home="fairdp.experiments.studies.parity",
        function="split_study",
    ),
)
STUDIES: dict[str, Study] = {study.name: study for study in (*_PAPER, *_FURTHER)}
