"""Reading files: JSON and tensors within limits, and nothing that is waited for."""

import json
import os
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pytest
from safetensors.numpy import save

from fairdp._io import RecordError, content_of, from_plain, parsed_json, tensors_in

NO_JSON = {
    "deep": "[" * 100_000,
    "a little too deep": "[" * 40 + "]" * 40,
    "a name twice": '{"a": 1, "a": 2}',
    "NaN": '{"a": NaN}',
    "infinity": "[-Infinity]",
    "an infinite number": "1e400",
    "five thousand digits": "9" * 5000,
    "more digits than a float has": "9" * 310,
    "nothing": "",
    "a zero byte": "\x00",
    "seventeen million characters": " " * (2**24 + 1),
}


@pytest.mark.parametrize("text", NO_JSON.values(), ids=NO_JSON)
def test_what_is_no_json_here(text):
    for content in (text, text.encode()):
        with pytest.raises(RecordError):
            parsed_json(content)


@pytest.mark.parametrize("value", [1, -1.5, "x", None, True, [], {}, [[[{"a": [1e300, 10**299]}]]], {"a": {"a": 1}}])
def test_other_json_is_what_it_was(value):
    assert parsed_json(json.dumps(value)) == value


GOOD = save({"a": np.zeros(4, np.float32)}, metadata={"fairdp": "{}"})


def with_header(content):
    return len(content).to_bytes(8, "little") + content + bytes(16)


def entry(**values):
    return json.dumps({"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16], **values}}).encode()


NO_TENSORS = {
    "nothing": b"",
    "a cut": GOOD[:-1],
    "one byte more": GOOD + b"\0",
    "an endless header": (2**64 - 1).to_bytes(8, "little") + GOOD[8:],
    "no JSON": with_header(b"{"),
    "a list": with_header(b"[]"),
    "a name twice": with_header(b'{"a": 1, "a": 2}'),
    "a huge shape": with_header(entry(shape=[2**62])),
    "a shape whose size is one": with_header(entry(shape=[2**32, 2**32])),
    "a negative shape": with_header(entry(shape=[-4])),
    "an unknown type": with_header(entry(dtype="X9")),
    "offsets beyond the end": with_header(entry(data_offsets=[0, 2**40])),
    "offsets backwards": with_header(entry(data_offsets=[16, 0])),
}


@pytest.mark.parametrize("framework", ["np", "pt"])
@pytest.mark.parametrize("content", NO_TENSORS.values(), ids=NO_TENSORS)
def test_what_is_no_file_of_tensors(content, framework):
    with pytest.raises(RecordError):
        tensors_in(content, framework=framework)


@pytest.mark.parametrize("framework", ["np", "pt"])
def test_a_file_of_tensors_is_read(framework):
    about, tensors = tensors_in(GOOD, framework=framework)
    assert (about, list(tensors), len(tensors["a"])) == ({"fairdp": "{}"}, ["a"], 4)


def test_pipes_folders_and_large_files_are_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"xx")
    for name, why in (
        ("pipe", "not a file"),
        (".", "Is a directory"),
        ("large", "too large"),
        ("none", "No such file"),
    ):
        with pytest.raises(OSError, match=why):
            content_of(tmp_path / name, most=1)
    assert content_of(tmp_path / "large", most=2) == b"xx"


@dataclass(frozen=True, kw_only=True)
class Small:
    """A record of some kinds of values."""

    number: float = 0.0
    pair: tuple[int, int] = (0, 0)
    word: Literal[True, "a"] = "a"


@pytest.mark.parametrize("plain", [{"pair": [1]}, {"pair": [1, 2, 3]}, {"word": 1}, {"word": 1.0}, {"number": True}])
def test_a_record_takes_no_other_length_or_type(plain):
    with pytest.raises(RecordError):
        from_plain(Small, plain)
    assert from_plain(Small, {"number": 1, "pair": [1, 2], "word": True}) == Small(number=1.0, pair=(1, 2), word=True)
