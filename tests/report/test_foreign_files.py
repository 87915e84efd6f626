"""Files that `fairdp report` may replace."""

import pytest

from classifier_cases import fitted
from fairdp.errors import ParameterError
from fairdp.report.page import run_report


@pytest.mark.parametrize("name", ["page.html", "card.md"])
def test_a_page_is_written_again_and_nothing_else_is_replaced(name, tmp_path):
    fitted().save(tmp_path / "model")
    out = tmp_path / name
    run_report(tmp_path / "model", out=out)
    page = out.read_bytes()
    run_report(tmp_path / "model", out=out)
    assert out.read_bytes() == page
    for mine in (b"my notes on fairdp report", page + b"my notes"):
        out.write_bytes(mine)
        with pytest.raises(ParameterError, match="was not written by fairdp report"):
            run_report(tmp_path / "model", out=out)
        assert out.read_bytes() == mine
