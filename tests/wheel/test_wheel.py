"""The built wheel in an environment of its own, outside the checkout: what users install is whole, and works."""

import json
import os
import site
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from fairdp import __version__

ROOT = Path(__file__).parents[2]

# Refuses to find what the extra `lab` brings.
HIDING = """import sys

class Hiding:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("interpret", "matplotlib", "opacus"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hiding())
"""

pytestmark = pytest.mark.more


def done(*command: object, folder: Path, said: str = "") -> str:
    """Output of a command, which must succeed without the checkout on its path."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    words = [*map(str, command)]
    ended = subprocess.run(words, cwd=folder, env=environment, input=said, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    # Without isolation: the backend is installed with the other tools, so that nothing is fetched.
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    ended = subprocess.run([*build, "--wheel-dir", folder, ROOT], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def scripts(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of commands of a fresh environment with the wheel and the extra `lab` in it."""
    return installed(wheel, tmp_path_factory.mktemp("environment"))


@pytest.fixture(scope="module")
def without_extra(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same without the extra: its packages are not found, but for joblib, which scikit-learn needs too."""
    scripts = installed(wheel, tmp_path_factory.mktemp("product"))
    packages = next((scripts.parent / "lib").glob("python*")) / "site-packages"
    (packages / "hiding.py").write_text(HIDING, encoding="utf-8")
    (packages / "hiding.pth").write_text("import hiding\n", encoding="utf-8")
    return scripts


def installed(wheel: Path, folder: Path) -> Path:
    done(sys.executable, "-m", "venv", "--without-pip", folder / "venv", folder=folder)
    python = folder / "venv" / "bin" / "python"
    install = ("pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel)
    done(sys.executable, "-m", *install, folder=folder)
    # What it depends on is lent by this environment, last: an editable install here does not count there.
    packages = done(python, "-c", "import site; print(site.getsitepackages()[0])", folder=folder).strip()
    (Path(packages) / "lent.pth").write_text("\n".join(site.getsitepackages()) + "\n", encoding="utf-8")
    return python.parent


def test_every_file_of_the_package_is_in_it_and_none_beside(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    source = ROOT / "src"
    files = (path for name in ("fairdp", "fairdp_lab") for path in (source / name).rglob("*"))
    paths = (path for path in files if path.is_file() and "__pycache__" not in path.parts)
    assert held == {path.relative_to(source).as_posix() for path in paths}
    assert "fairdp/py.typed" in held
    assert any(name.startswith("fairdp/report/templates/") for name in held)


def test_the_package_that_is_imported_is_that_of_the_wheel(scripts: Path, tmp_path: Path) -> None:
    imported = done(scripts / "python", "-c", "import fairdp; print(fairdp.__file__)", folder=tmp_path)
    assert Path(imported.strip()).is_relative_to(scripts.parent)
    assert done(scripts / "fairdp", "--version", folder=tmp_path).split()[-1] == __version__


def write_people(path: Path, n_rows: int, *, first: int = 0) -> None:
    """A table whose label follows from a number; no row is equal to one of a table with another first one."""
    rows = ["income,region,sex,approved"]
    for number in range(first, first + n_rows):
        income = number * 7919 % 1000 + first / 10000
        rows.append(
            f"{income},{'north' if number % 3 else 'south'},{'fm'[number % 2]},{'yes' if income > 500 else 'no'}"
        )
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")


# Runs a list of commands in one process, which imports torch once.
IN_TURN = """import contextlib, io, json, sys
from fairdp.cli import main
said = []
for words in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            main(words)
        except SystemExit as ended:
            assert not ended.code, (words, ended.code)
    said.append(out.getvalue())
print(json.dumps(said))
"""


def test_the_product_works_without_the_extra(without_extra: Path, tmp_path: Path) -> None:
    for name, first in (("people.csv", 0), ("fresh.csv", 5000)):
        write_people(tmp_path / name, 900, first=first)
    about = ("--label", "approved", "--sensitive", "sex")
    schema = done(without_extra / "fairdp", "schema", "people.csv", *about, folder=tmp_path)
    (tmp_path / "schema.yaml").write_text(schema, encoding="utf-8")
    fit = ("fit", "people.csv", *about, "--positive", "yes", "--schema", "schema.yaml", "--epsilon", "4")
    commands = {
        "fit": (*fit, "--n-steps", "20", "--ledger", "ledger", "--out", "model", "--json"),
        "predict": ("predict", "model", "fresh.csv", "--out", "decided.csv"),
        "certify": ("certify", "model", "fresh.csv", "--epsilon", "1", "--ledger", "ledger", "--json"),
        "verify": ("verify", "model", "--json"),
        "report": ("report", "model", "--out", "report.html"),
        "ledger": ("ledger", "--ledger", "ledger"),
        "plan": ("plan", "--group-sizes", "2000,3000", "--epsilon", "1", "--json"),
        # Of the laboratory, an audit and the paper's bounds need nothing of the extra.
        "audit": ("audit", "--method", "clean"),
    }
    program = (without_extra / "python", "-c", IN_TURN)
    printed = json.loads(done(*program, folder=tmp_path, said=json.dumps([*commands.values()])).splitlines()[-1])
    said = dict(zip(commands, printed, strict=True))
    assert 3.8 <= json.loads(said["fit"])["privacy"]["epsilon"] <= 4
    assert len((tmp_path / "decided.csv").read_text(encoding="utf-8").splitlines()) == 901
    assert json.loads(said["certify"])
    assert json.loads(said["verify"])["verified"]
    assert "</html>" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "people.csv" in said["ledger"]
    assert json.loads(said["plan"])
    assert "nothing to audit" in said["audit"]


def test_a_command_of_the_laboratory_says_what_it_lacks(without_extra: Path, tmp_path: Path) -> None:
    command = [without_extra / "fairdp", "compare", "--dataset", "synthetic", "--out", "comparison"]
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ended.returncode == 2
    assert ended.stderr.splitlines() == [
        "fairdp: fairdp compare needs matplotlib, which is missing; run pip install 'fairdp[lab]'."
    ]


def test_the_laboratory_works_with_the_extra(scripts: Path, tmp_path: Path) -> None:
    fairdp = scripts / "fairdp"
    listed = json.loads(done(fairdp, "reproduce", "--list", "--json", folder=tmp_path))
    assert "claims" in {study["study"] for study in listed["studies"]}
    done(fairdp, "reproduce", "certificate-slack", "--quick", "--out", "results", folder=tmp_path)
    assert (tmp_path / "results" / "certificate-slack.json").is_file()
