"""Real data for tests: fetched where it can be had, and named at the end of the run where it cannot."""

import os
import shutil
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from fairdp.data import sources

# The same examples in every run; HYPOTHESIS_PROFILE=fresh looks for others.
settings.register_profile("fixed", derandomize=True)
settings.register_profile("fresh")
# For mutants, of which only whether they are noticed matters: no simpler example is looked for.
settings.register_profile("first", derandomize=True, phases=(Phase.explicit, Phase.generate))
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


@pytest.fixture(autouse=True, scope="module")
def module_ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Commands that tests run add up in a file of their own, never in the user's: here, those that share a model."""
    path = tmp_path_factory.mktemp("ledger") / "ledger.sqlite"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FAIRDP_LEDGER", str(path))
        yield path


@pytest.fixture(autouse=True)
def own_ledger(module_ledger: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Each test goes on from there by itself: what another one spent or certified is not in its way."""
    path = tmp_path_factory.mktemp("ledger") / "ledger.sqlite"
    if module_ledger.exists():
        shutil.copy(module_ledger, path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FAIRDP_LEDGER", str(path))
        yield


@lru_cache
def reason_missing(name: str) -> str | None:
    """Why a data set cannot be had on this machine; None if it can."""
    try:
        sources.fetch(name)
    except (OSError, ValueError) as error:
        return str(error)
    return None


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("needs_data"):
        reason = reason_missing(mark.args[0])
        # Whoever names a folder with the data means to test on them: there a gap is a failure.
        if reason and os.environ.get("FAIRDP_DATA"):
            pytest.fail(f"FAIRDP_DATA is set, but {mark.args[0]} is not there: {reason}", pytrace=False)
        if reason:
            pytest.skip(f"needs {mark.args[0]}: {reason}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name every test that needed data which could not be had: a gap must be seen, not hidden in a count."""
    skipped = [r for r in terminalreporter.stats.get("skipped", []) if "needs " in str(r.longrepr)]
    if not skipped:
        terminalreporter.write_line("All tests on real data ran.")
        return
    terminalreporter.section("tests on real data that could not run", sep="-")
    for report in skipped:
        terminalreporter.write_line(f"{report.nodeid}: {report.longrepr[2].removeprefix('Skipped: ')}")
