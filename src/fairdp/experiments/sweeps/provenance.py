"""Where results come from: versions, command, hardware, records and code."""

import os
import platform
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from fairdp.experiments.sweeps.populations import Population, digest_of
from fairdp.experiments.sweeps.store import code_digest

PACKAGES = ("fairdp", "torch", "numpy", "scipy", "scikit-learn", "dp-accounting", "joblib")


def provenance(command: str, populations: Iterable[Population], *, seconds: float) -> dict[str, Any]:
    """What somebody needs to make the same results again, and on what they were made.

    Parameters
    ----------
    seconds
        Work of all trainings, those from earlier runs included.
    """
    return {
        "command": command,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
        "code_sha256": code_digest(),
        "records_sha256": {str(own): digest_of(own) for own in populations},
        "hardware": {"system": platform.platform(), "machine": platform.machine(), "processors": os.cpu_count()},
        "training_seconds": round(seconds, 1),
    }
