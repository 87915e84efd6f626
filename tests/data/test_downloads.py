"""Archives, addresses and wheels; nothing here leaves the machine."""

import io
import subprocess
import zipfile

import pytest

from fairdp.data import downloads


def zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def test_download_reads_an_address(tmp_path):
    (tmp_path / "file").write_bytes(b"content")
    assert downloads.download((tmp_path / "file").as_uri()) == b"content"
    with pytest.raises(OSError, match="No such file"):
        downloads.download((tmp_path / "none").as_uri())


def test_download_refuses_what_is_too_large(tmp_path, monkeypatch):
    monkeypatch.setattr(downloads, "MAX_BYTES", 3)
    (tmp_path / "file").write_bytes(b"content")
    with pytest.raises(ValueError, match="holds more than 3 bytes"):
        downloads.download((tmp_path / "file").as_uri())


def test_archive_files_are_found_by_name_in_any_folder():
    content = zipped({"a/b/adult.data": b"1", "adult.names": b"2", "adult.test": b"3"})
    wanted = {"adult.data", "adult.test"}.__contains__
    assert downloads.archive_files(content, wanted) == {"adult.data": b"1", "adult.test": b"3"}
    with pytest.raises(ValueError, match="not a zip archive"):
        downloads.archive_files(b"<html>", wanted)


def test_local_files_from_folder_archive_and_file(tmp_path):
    (tmp_path / "x.csv").write_bytes(b"1")
    (tmp_path / "x.txt").write_bytes(b"2")
    (tmp_path / "x.zip").write_bytes(zipped({"deep/y.csv": b"3"}))

    def is_csv(name: str) -> bool:
        return name.endswith(".csv")

    assert downloads.local_files(tmp_path, is_csv) == {"x.csv": b"1"}
    assert downloads.local_files(tmp_path / "x.zip", is_csv) == {"y.csv": b"3"}
    assert downloads.local_files(tmp_path / "x.csv", is_csv) == {"x.csv": b"1"}
    assert downloads.local_files(tmp_path / "x.txt", is_csv) == {}


def test_wheel_asks_pip_for_one_wheel_and_installs_nothing(monkeypatch):
    def run(command, **_):
        assert command[1:4] == ["-m", "pip", "download"]
        assert "--no-deps" in command
        folder = command[command.index("--dest") + 1]
        with open(f"{folder}/some-1.0-py3-none-any.whl", "wb") as file:
            file.write(b"wheel")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    assert downloads.wheel("some==1.0") == b"wheel"


def test_wheel_tells_the_last_line_of_pip(monkeypatch):
    def run(command, **_):
        return subprocess.CompletedProcess(command, 1, "", "warning\nERROR: no matching distribution\n")

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(OSError, match=r"^pip could not download some==1\.0: ERROR: no matching distribution$"):
        downloads.wheel("some==1.0")
