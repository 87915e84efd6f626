"""Studies that can be run again by name; their code is loaded only when one of them runs."""

from dataclasses import dataclass
from importlib import import_module

from fairdp.studies.results import Findings, Run


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
    """

    name: str
    shows: str
    home: str
    function: str

    def findings(self, run: Run) -> Findings:
        """Run the study."""
        return getattr(import_module(self.home), self.function)(run)


_ALL = (
    Study(
        name="certificate-slack",
        shows="How far the certified gap lies above the observed one, beside simpler bounds and one that is no bound.",
        home="fairdp.studies.certificate_slack",
        function="slack_study",
    ),
    Study(
        name="certificate-coverage",
        shows="How often certificates are wrong where the truth is known, and that broken ones are noticed.",
        home="fairdp.studies.certificate_coverage",
        function="coverage_study",
    ),
    Study(
        name="methods",
        shows="What every method reaches on Adult and Default-CCC at the same budget, with its own defaults.",
        home="fairdp.studies.methods",
        function="methods_study",
    ),
    Study(
        name="parity",
        shows="How well methods with a target for demographic parity hold it, and what it costs, at three budgets.",
        home="fairdp.studies.parity",
        function="frontier_study",
    ),
    Study(
        name="parity-notions",
        shows="The same for equal opportunity, equalized odds, and four groups.",
        home="fairdp.studies.parity",
        function="notion_study",
    ),
    Study(
        name="parity-faces",
        shows="A frontier on faces, with models without a target at the same positive rate beside it.",
        home="fairdp.studies.parity_figures",
        function="faces_study",
    ),
    Study(
        name="parity-certified",
        shows="The gap and the ratio that are certified of models that aim at a gap, on Adult.",
        home="fairdp.studies.parity_figures",
        function="certified_study",
    ),
    Study(
        name="noise",
        shows="How large a step's noise is when groups weigh by their size or equally, and are sampled alike or not.",
        home="fairdp.studies.noise",
        function="noise_study",
    ),
    Study(
        name="parity-splits",
        shows="The same on splits and populations on which no constant was chosen.",
        home="fairdp.studies.parity",
        function="split_study",
    ),
)
STUDIES: dict[str, Study] = {study.name: study for study in _ALL}
