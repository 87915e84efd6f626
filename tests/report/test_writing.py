"""The command: where the file goes, what it answers, and what it refuses in one line."""

import json

import pytest
from click.testing import CliRunner

from fairdp.cli.check import report
from fairdp.report.page import run_report
from forgeries import flip, sum_up


def answer(*arguments) -> dict:
    done = CliRunner().invoke(report, [*map(str, arguments), "--json"], catch_exceptions=False)
    assert done.exit_code == 0
    return json.loads(done.stdout)


def test_file_is_named_like_the_folder_and_beside_it(copy_of):
    folder = copy_of("no noise")
    found = answer(folder)
    out = folder.parent / "copy-report.html"
    written = {"out": str(out), "format": "html", "verified": True, "bytes": out.stat().st_size}
    assert found == written | {"appendix": None}
    assert answer(f"{folder}/", "--format", "markdown")["out"] == str(folder.parent / "copy-report.md")
    assert sorted(path.name for path in folder.parent.iterdir()) == ["copy", "copy-report.html", "copy-report.md"]


def test_current_folder_has_a_name_too(copy_of, monkeypatch):
    folder = copy_of("no noise")
    monkeypatch.chdir(folder)
    assert answer(".")["out"] == str(folder.parent / "copy-report.html")


def test_ending_decides_the_format_unless_it_is_given(copy_of, tmp_path):
    folder = copy_of("no noise")
    assert answer(folder, "--out", tmp_path / "card.md")["format"] == "markdown"
    assert answer(folder, "--out", tmp_path / "card.md", "--format", "html")["format"] == "html"


def test_words_for_people_say_whether_it_was_verified(copy_of, comparison):
    folder = copy_of("no noise")
    assert "verified   yes" in CliRunner().invoke(report, [str(folder)]).stdout
    assert "verified" not in CliRunner().invoke(report, [str(comparison)]).stdout


def test_a_changed_byte_is_refused_and_with_new_sums_not_verified(copy_of):
    folder = copy_of("odd")
    flip(folder / "model.safetensors", -1)
    with pytest.raises(ValueError, match=r"was changed: model\.safetensors does not match SHA256SUMS"):
        run_report(folder)
    sum_up(folder)
    refused = CliRunner().invoke(report, [str(folder), "--json"])
    assert (refused.exit_code, json.loads(refused.stdout)["verified"]) == (1, False)
    assert "belongs to another model.safetensors" in (folder.parent / "copy-report.html").read_text()


def test_what_is_no_model_is_refused(tmp_path, copy_of, comparison):
    folder = copy_of("no noise")
    (tmp_path / "empty").mkdir()
    for arguments, words in (
        ({"folder": tmp_path / "none"}, "is not a folder"),
        ({"folder": tmp_path / "empty"}, "is not a saved model"),
        ({"folder": folder, "comparison": tmp_path / "empty"}, "is not a comparison"),
        ({"folder": comparison, "comparison": comparison}, "is itself a comparison"),
        ({"folder": folder, "out": folder / "report.html"}, "lies in the folder that it reports on"),
        ({"folder": folder, "out": tmp_path / "no" / "report.html"}, "cannot be written"),
        ({"folder": folder, "out": tmp_path / "empty"}, "cannot be written"),
    ):
        with pytest.raises(ValueError, match=words) as found:
            run_report(**arguments)
        assert "\n" not in str(found.value)


@pytest.mark.parametrize("content", ["{", "{}", '{"rows": 1, "controls": [], "privacy": []}'])
def test_damaged_comparison_is_refused(comparison, content):
    (comparison / "summary.json").write_text(content)
    with pytest.raises(ValueError, match="is damaged"):
        run_report(comparison)


def test_damaged_record_is_refused(copy_of):
    folder = copy_of("no noise")
    (folder / "privacy.json").write_text("{}")
    sum_up(folder)
    with pytest.raises(ValueError, match="is damaged: a record cannot be read"):
        run_report(folder)
