"""`fairdp fit` as an audit calls it: from a file to a folder, and to all that may be shown of it."""

import math

from fairdp._files import json_bytes
from fairdp.audit.folders import Files
from fairdp.audit.tables import LABEL, SENSITIVE
from fairdp.audit.ways import EXPECTED_TRIALS, TEST_FRACTION, FileTask
from fairdp.commands.fit import run_fit
from fairdp.commands.fit_task import FitTask, Search
from fairdp.commands.records import Source

# Of a report with private metrics, which may be published whole, what the clock and the place decide.
_NOT_COMPARED = ("seconds", "out")


def fit_as_command(task: FileTask) -> Files:
    """Read, split, train, certify and save as the command does; returns what it prints for everybody."""
    source = Source(
        table=task.table,
        dataset=None,
        label=LABEL,
        positive=None,
        sensitive=(SENSITIVE,),
        schema=task.schema,
        test_fraction=TEST_FRACTION,
    )
    search = None
    if task.grid is not None:
        grid = {name: list(values) for name, values in task.grid.items()}
        search = Search(grid=grid, within_gap=1.0, expected_trials=EXPECTED_TRIALS)
    certified = bool(task.settings["certify_fraction"]) and math.isfinite(task.settings["epsilon"])
    report = run_fit(
        FitTask(
            source=source,
            parameters=dict(task.settings),
            checkpoint=None,
            resume=False,
            out=task.out,
            private_metrics=certified,
            search=search,
        )
    )
    if not certified:
        # Without private metrics the report holds exact ones, for the data holder only.
        return {}
    shown = {name: value for name, value in report.to_json().items() if name not in _NOT_COMPARED}
    return {"printed.json": json_bytes(shown)}
