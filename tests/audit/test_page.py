"""The page about audits: its program runs, and prints what the text says of it."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "audit.md"


def test_the_testing_interface_works_as_the_page_shows(capsys):
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    exec(compile(block, "audit.md", "exec"), {})
    assert capsys.readouterr().out.splitlines() == [
        "10 True",
        "['gradient', 'gradient'] (4,)",
        "torch.Size([4]) True",
    ]
