"""Tables as files."""

import pytest


@pytest.fixture
def write(tmp_path):
    """Write a file and return its path."""

    def write_file(content: str | bytes, name: str = "table.csv"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file
