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

pytestmark = pytest.mark.more


def done(*command: object, folder: Path) -> str:
    """What a command prints, which must succeed without the checkout on its path."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    ended = subprocess.run([*map(str, command)], cwd=folder, env=environment, capture_output=True, text=True)
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
    """The folder of commands of a fresh environment with the wheel in it."""
    folder = tmp_path_factory.mktemp("environment")
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
    paths = (path for path in (source / "fairdp").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    assert held == {path.relative_to(source).as_posix() for path in paths}
    assert "fairdp/py.typed" in held
    assert any(name.startswith("fairdp/report/templates/") for name in held)


def test_the_package_that_is_imported_is_that_of_the_wheel(scripts: Path, tmp_path: Path) -> None:
    imported = done(scripts / "python", "-c", "import fairdp; print(fairdp.__file__)", folder=tmp_path)
    assert Path(imported.strip()).is_relative_to(scripts.parent)
    assert done(scripts / "fairdp", "--version", folder=tmp_path).split()[-1] == __version__


def test_a_model_is_fitted_verified_and_reported(scripts: Path, tmp_path: Path) -> None:
    fairdp = scripts / "fairdp"
    fit = ("fit", "--dataset", "synthetic", "--epsilon", 1, "--n-steps", 20, "--out", "model", "--json")
    fitted = json.loads(done(fairdp, *fit, folder=tmp_path))
    assert 0.95 <= fitted["privacy"]["epsilon"] <= 1
    assert json.loads(done(fairdp, "verify", "model", "--json", folder=tmp_path))["verified"]
    done(fairdp, "report", "model", "--out", "report.html", folder=tmp_path)
    assert "</html>" in (tmp_path / "report.html").read_text(encoding="utf-8")
