"""Studies that can be run again by name; their code is loaded only when one of them runs."""

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairdp.experiments.studies.results import Findings, Run


@dataclass(frozen=True)
class Study:
    """A named study: what it shows, and the function that runs it.

    Parameters
    ----------
    name
        As it is typed.
    home
        Where the code is: a module here, and a function in it that makes `Findings` from a `Run`.
    shows
        What the results say, in one line.
    paper
        The table or figure of the paper that it makes again; empty: beyond the paper.
    """

    name: str
    home: str
    shows: str
    paper: str = ""

    def findings(self, run: "Run") -> "Findings":
        """Run the study."""
        module, function = self.home.split(".")
        made: Findings = getattr(import_module(f"{__name__}.{module}"), function)(run)
        return made


_ALL = (
    Study(
        "datasets",
        "paper_tables.dataset_study",
        "Records, features, positives and groups of the three data sets.",
        "Table 1, data sets",
    ),
    Study(
        "tradeoffs",
        "paper_tradeoffs.tradeoff_study",
        "Utility against the three gaps for every method and budget, with DP-SGD at FairDP's positive rate.",
        "figures of the trade-offs, for accuracy and for ROC-AUC",
    ),
    Study(
        "gains",
        "paper_tradeoffs.gain_study",
        "How much smaller FairDP's gaps are than those of DP-IS-SGD and clean training, and what it costs.",
        "figures of fairness gain and utility drop, against DP-IS-SGD and against clean training",
    ),
    Study(
        "t-tests",
        "paper_tradeoffs.t_test_study",
        "Two-tailed t-tests between methods, over seeds.",
        "the p-values in the text",
    ),
    Study(
        "certificate-tightness",
        "paper_certificate.tightness_study",
        "Observed gaps under shifts of Pr(a, y), the paper's certificate and the one that holds.",
        "figures of the tightness of the certificate and of its behaviour under shift",
    ),
    Study(
        "halting",
        "halting.halting_study",
        "When training would halt by a certificate that holds, and by the paper's τ_emp, and which model each keeps.",
        "Remark 2 and section V, in the text",
    ),
    Study(
        "mc-error",
        "paper_certificate.mc_error_study",
        "The error of an ensemble of ten heads, as the paper prints it.",
        "table of the DP-MC approximation error",
    ),
    Study(
        "impact-of-m",
        "paper_tables.bound_study",
        "What the bound M on the head does to utility and gaps, beside DP-SGD at the same positive rate.",
        "table of the hyper-parameter M",
    ),
    Study(
        "imbalance",
        "paper_tables.imbalance_study",
        "FairDP where the largest group is cut to ρ times the smallest.",
        "figures of the imbalance ρ, for accuracy and for ROC-AUC",
    ),
    Study(
        "claims",
        "claims.claim_study",
        "Every claim of the paper's evaluation, with a verdict by a stated rule.",
        "the claims of abstract and text",
    ),
    Study("members", "ablations.member_study", "FairDP with one to twenty heads."),
    Study(
        "noise-allocation",
        "ablations.allocation_study",
        "FairDP with noise for every group, or once on their average.",
    ),
    Study(
        "schedule",
        "ablations.schedule_study",
        "FairDP with the step sizes of Theorem 4, a constant one, and the paper's Adam with its hand-over to SGD.",
    ),
    Study(
        "components",
        "ablations.component_study",
        "From DP-SGD to FairDP part by part: balanced groups, the bound M, DP-MC and its error, with both Adams.",
        "the contribution of each component, promised in section VI",
    ),
    Study(
        "literal",
        "literal.literal_study",
        "Algorithms 1 and 2 to the letter, which is not private, beside ours at the same noise.",
    ),
    Study(
        "baselines",
        "ablations.baseline_study",
        "DP-IS-SGD with its authors' grouping, and smoothing with several deviations.",
    ),
    Study(
        "intersections",
        "ablations.intersection_study",
        "FairDP on Adult's groups of sex and race.",
        "several protected attributes, section II",
    ),
    Study(
        "convergence",
        "convergence.convergence_study",
        "Excess risk of the last iterate against the number of steps, at fixed noise and at fixed ε: Theorem 4's rate.",
    ),
    Study(
        "certificate-slack",
        "certificate_slack.slack_study",
        "How far the certified gap lies above the observed one, beside simpler bounds and one that is no bound.",
    ),
    Study(
        "certificate-coverage",
        "certificate_coverage.coverage_study",
        "How often certificates are wrong where the truth is known, and that broken ones are noticed.",
    ),
    Study(
        "methods",
        "methods.methods_study",
        "What every method reaches on Adult and Default-CCC at the same budget, with its own defaults.",
    ),
    Study(
        "tables",
        "tables.tables_study",
        "What the default reaches on tables and images, with and without targets, beside its rivals.",
    ),
    Study(
        "frontier-family",
        "frontier_family.family_study",
        "What the default promises, on tables whose law is known: prices, targets, verdicts, and its frontier.",
    ),
    Study(
        "noise",
        "noise.noise_study",
        "How large a step's noise is when groups weigh by their size or equally, and are sampled alike or not.",
    ),
    Study(
        "audit-campaign",
        "audit_campaign.campaign_study",
        "How often lower bounds on ε from attacks pass the ε that is stated, over a thousand small audits.",
    ),
)
STUDIES: dict[str, Study] = {study.name: study for study in _ALL}
