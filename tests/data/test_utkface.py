"""UTKFace: packing made-up images, duplicates, and counts of the real file."""

import builtins

import numpy as np
import pytest
from PIL import Image

from fairdp.data import sources, utkface


def save_image(path, shade: int) -> None:
    path.parent.mkdir(exist_ok=True)
    Image.new("RGB", (200, 200), (shade, shade, shade)).save(path)


@pytest.fixture
def folder(tmp_path):
    save_image(tmp_path / "35_0_0_20170116174525125.jpg.chip.jpg", 0)
    save_image(tmp_path / "36_1_0_20170116174525126.jpg", 255)
    save_image(tmp_path / "part2" / "80_1_4_20170116174525127.jpg.chip.jpg", 100)
    save_image(tmp_path / "61_1_20170109150557335.jpg.chip.jpg", 9)
    save_image(tmp_path / "61_1_7_20170109150557335.jpg", 9)
    return tmp_path


@pytest.fixture(scope="module")
def real():
    return utkface.read_utkface(sources.find("utkface") or sources.fetch("utkface"))


def test_packing_reads_names_and_pixels_and_reports_malformed_names(folder):
    faces, malformed = utkface.pack_utkface(folder)
    assert faces.age.tolist() == [35, 36, 80]
    assert faces.gender.tolist() == [0, 1, 1]
    assert faces.race.tolist() == [0, 0, 4]
    assert faces.pixels.shape == (3, 48, 48)
    assert faces.pixels.dtype == np.uint8
    assert [int(image.max()) for image in faces.pixels] == [0, 255, 100]
    assert sorted(malformed) == ["61_1_20170109150557335.jpg.chip.jpg", "61_1_7_20170109150557335.jpg"]
    assert faces.counts == {"images": 3, "age > 35": 2, "white": 2}
    assert repr(faces) == "Faces(3 images)"


def test_grouped_faces_by_hand(folder):
    faces, _ = utkface.pack_utkface(folder)
    data = utkface.grouped_faces(faces, np.array([1, 2]))
    assert data.X.shape == (2, 1, 48, 48)
    assert data.X.dtype == np.float32
    assert data.X[:, 0, 5, 5].tolist() == [1.0, np.float32(100 / 255)]
    assert data.y.tolist() == [1, 1]
    assert [data.group_names[code] for code in data.groups] == ["white", "non-white"]


def test_age_35_is_negative(folder):
    faces, _ = utkface.pack_utkface(folder)
    assert faces.labels.tolist() == [0, 1, 1]


def test_folder_without_faces_or_with_a_broken_image_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"holds no file named like \[age\]_\[gender\]_\[race\]_\[date\]\.jpg\.$"):
        utkface.pack_utkface(tmp_path)
    (tmp_path / "1_0_0_1.jpg").write_text("no image")
    with pytest.raises(ValueError, match=r"1_0_0_1\.jpg' is not an image that can be read\.$"):
        utkface.pack_utkface(tmp_path)


def test_without_pillow_packing_says_what_to_install(folder, monkeypatch):
    original = builtins.__import__

    def without_pillow(name, *arguments, **named):
        if name == "PIL":
            raise ImportError(name)
        return original(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", without_pillow)
    with pytest.raises(ValueError, match=r"needs pillow; run pip install 'fairdp\[images\]'\.$"):
        utkface.pack_utkface(folder)


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 broken"])
def test_damaged_file_is_refused(tmp_path, content):
    (tmp_path / "utkface48.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"^utkface48\.npz is damaged or another file; get the data set again\.$"):
        utkface.read_utkface(tmp_path)


def test_file_with_other_arrays_is_refused(tmp_path):
    np.savez(tmp_path / "utkface48.npz", pixels=np.zeros((2, 48, 48), dtype=np.uint8))
    with pytest.raises(ValueError, match="is damaged or another file"):
        utkface.read_utkface(tmp_path)


def test_duplicates_share_a_code():
    pixels = np.zeros((4, 48, 48), dtype=np.uint8)
    pixels[1, 0, 0] = 1
    assert utkface.duplicate_clusters(pixels).tolist() == [0, 1, 0, 0]


@pytest.mark.needs_data("utkface")
def test_counts_of_the_real_file(real):
    assert real.counts == {"images": 23_705, "age > 35": 8_598, "white": 10_078}
    cells = np.bincount(2 * real.groups + real.labels)
    assert cells.tolist() == [5_239, 4_839, 9_868, 3_759]


@pytest.mark.needs_data("utkface")
def test_duplicates_of_the_real_file(real):
    sizes = np.bincount(utkface.duplicate_clusters(real.pixels))
    assert len(sizes) == 23_315
    assert sizes[sizes > 1].sum() == 765


@pytest.mark.needs_data("utkface")
def test_real_names_follow_the_pattern_and_agree_with_the_arrays(real):
    matches = [utkface.FILE_NAME.fullmatch(str(name)) for name in real.img_name]
    assert all(matches)
    assert [int(match["age"]) for match in matches] == real.age.tolist()
    assert [int(match["race"]) for match in matches] == real.race.tolist()
