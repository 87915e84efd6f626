"""Fixtures of all tests: a ledger of their own, the pool, commands in this process, golden pages, and real data."""

import functools
import itertools
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import Phase, settings

import golden_pages
import pool
from fairdp.certify import rates
from fairdp.cli import main
from fairdp.data import catalog as sources
from fairdp.errors import InputError
from figure_records import noise_of_any_processor

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


@pytest.fixture(autouse=True, scope="session")
def noise_is_that_of_any_processor() -> Iterator[None]:
    with noise_of_any_processor():
        yield


@pytest.fixture(autouse=True, scope="session")
def bounds_are_computed_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fairdp.certify.certificate.gap_bound", pool.remembered_bound)
        patch.setattr("fairdp.saved.verify_checks.gap_bound", pool.remembered_bound)
        # Rates of a report: many pages are about the same counts.
        patch.setattr(rates, "score_box_bound", functools.cache(rates.score_box_bound))
        yield


@pytest.fixture(scope="module")
def rough_bounds() -> Iterator[None]:
    """For tests of what is trained, counted, spent and saved: bounds, which are most of a short fit, take no time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fairdp.certify.certificate.gap_bound", pool.rough_bound)
        patch.setattr("fairdp.saved.verify_checks.gap_bound", pool.rough_bound)
        yield


@pytest.fixture
def taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """A fitted workplace of the pool, copied to where the test then is, with the ledger that saw its training."""

    def take(*options: object, **given: Any) -> Path:
        pool.copied(pool.fitted_place(*options, **given), tmp_path)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("FAIRDP_LEDGER", str(tmp_path / "ledger.sqlite"))
        return tmp_path

    return take


@pytest.fixture
def golden(tmp_path: Path) -> Callable[..., None]:
    """Compare a text with that of a golden page: ``golden(page, title, text)``, without figures if a fit made them."""

    def compare(page: str, title: str, text: str, *, figures: bool = True) -> None:
        golden_pages.compare(page, title, golden_pages.masked(text, tmp_path, figures=figures))

    return compare


@pytest.fixture
def refuses(golden: Callable[..., None], request: pytest.FixtureRequest) -> Callable[..., None]:
    """A call that raises an `InputError` of one line, which is on the golden page, about one of these parameters."""
    case, numbers = getattr(request.node, "callspec", None), itertools.count(1)
    name = case.id if case else request.node.name.removeprefix("test_").replace("_", " ")
    title = f"{request.path.stem.removeprefix('test_')}: {name}"

    def call(action: Callable[[], object], *parameters: str) -> None:
        with pytest.raises(InputError) as caught:
            action()
        assert "\n" not in str(caught.value)
        assert not parameters or getattr(caught.value, "parameter", parameters[0]) in parameters
        number = next(numbers)
        golden("errors", title if number == 1 else f"{title} ({number})", str(caught.value))

    return call


@pytest.fixture
def run(capsys):
    """A command in this process: exit code, stdout, stderr, and what it says there of the ledger."""

    def call(*arguments):
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        lines = err.splitlines(keepends=True)
        ledger = "".join(line for line in lines if line.startswith("ledger: "))
        others = "".join(line for line in lines if not line.startswith("ledger: "))
        return SimpleNamespace(code=stop.value.code, out=out, err=others, ledger=ledger)

    return call


@pytest.fixture
def answer(run):
    """The one JSON object of a command that must succeed without a word on stderr but of small groups and odd cells."""

    def call(*arguments):
        result = run(*arguments, "--json")
        said = [line for line in result.err.splitlines() if not line.startswith(("before training: ", "column '"))]
        assert (result.code, said) == (0, [])
        return json.loads(result.out, parse_constant=pytest.fail)

    return call


@pytest.fixture
def refused(run, golden, request, tmp_path):
    """A command that ends with one line on stderr, prints and writes nothing; its line is on the golden page."""
    case, numbers = getattr(request.node, "callspec", None), itertools.count(1)
    name = case.id if case else request.node.name.removeprefix("test_").replace("_", " ")
    title = f"{request.path.stem.removeprefix('test_')}: {name}"

    def everything():
        return {path: path.read_bytes() if path.is_file() else None for path in tmp_path.rglob("*")}

    def call(*arguments, code=2):
        before, result = everything(), run(*arguments)
        assert (result.code, result.out) == (code, ""), result.err
        assert (result.err[:8], result.err[-1], result.err.count("\n")) == ("fairdp: ", "\n", 1)
        assert ("internal error" in result.err) == (code == 3)
        assert not [word for word in ("Traceback", "Errno") if word in result.err]
        assert everything() == before
        number = next(numbers)
        golden("refusals", title if number == 1 else f"{title} ({number})", result.err)
        return result

    return call


def pytest_configure(config: pytest.Config) -> None:
    """One pool of fitted folders for all processes of this run; those that xdist starts inherit where it is."""
    if not hasattr(config, "workerinput"):
        os.environ[pool.PLACE] = tempfile.mkdtemp(prefix="fairdp-pool-")


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput") and pool.PLACE in os.environ:
        shutil.rmtree(os.environ.pop(pool.PLACE), ignore_errors=True)


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
