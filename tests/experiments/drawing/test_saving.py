"""Files of figures."""

import xml.etree.ElementTree as ET

import pytest

from fairdp.experiments.drawing import gain_figure, save_figure, tradeoff_figure


@pytest.fixture
def few(rows):
    return [row for row in rows if row["dataset"] == "adult" and row["method"] in ("dpsgd", "fairdp", "clean")]


def test_the_same_rows_make_the_same_files(few, tmp_path):
    paths = [save_figure(tradeoff_figure(few, utility="accuracy"), tmp_path, name) for name in ("one", "two")]
    assert [path.name for path in paths[0]] == ["one.png", "one.svg"]
    for one, two in zip(*paths, strict=True):
        assert one.read_bytes() == two.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.png", "one.svg", "two.png", "two.svg"]


def test_that_comparison_notices_other_rows(few, tmp_path):
    for name in ("one", "two"):
        save_figure(tradeoff_figure(few, utility="accuracy"), tmp_path, name)
        few[0]["mean"]["accuracy"] += 0.002
    for kind in ("png", "svg"):
        assert (tmp_path / f"one.{kind}").read_bytes() != (tmp_path / f"two.{kind}").read_bytes()


def test_the_drawing_has_a_title_and_its_text_is_text(gain_rows, tmp_path):
    _, path = save_figure(gain_figure(gain_rows, against="DP-SGD"), tmp_path, "gains")
    root = ET.fromstring(path.read_bytes())
    space = "{http://www.w3.org/2000/svg}"
    assert root.find(f"{space}title").text == "What FairDP gains and costs against DP-SGD"
    words = {"".join(text.itertext()).strip() for text in root.iter(f"{space}text")}
    assert {"demographic parity", "AUC", "Adult"} <= words
    assert b"bars: one standard error" in path.read_bytes().split(b"</metadata>")[0]


def test_nothing_in_the_files_tells_when_or_with_what_they_were_made(gain_rows, tmp_path):
    for path in save_figure(gain_figure(gain_rows, against="DP-SGD"), tmp_path, "gains"):
        content = path.read_bytes()
        assert b"atplotlib" not in content.split(b"<defs>")[0]
        assert b"dc:date" not in content


def test_the_picture_has_160_dots_per_inch(gain_rows, tmp_path):
    figure = gain_figure(gain_rows, against="DP-SGD")
    path, _ = save_figure(figure, tmp_path, "gains")
    width, height = (int.from_bytes(path.read_bytes()[at : at + 4], "big") for at in (16, 20))
    assert (width, height) == tuple(int(160 * inches) for inches in figure.get_size_inches())
