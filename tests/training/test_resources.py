"""Freed memory is kept while a model trains, and given back afterwards; measured in a process of its own."""

import json
import platform
import subprocess
import sys

import pytest

MEASURE = """
import json
import resource
from pathlib import Path

import torch

from fairdp.training.resources import kept_memory


def pages_cleared():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(8):
        torch.ones(BLOCK, dtype=torch.uint8)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


BLOCK = 64 * 2**20
pages_cleared()
usual, before = pages_cleared(), resident()
with kept_memory():
    pages_cleared()  # The first steps ask for aligned blocks that fit no gap yet.
    kept, inside = pages_cleared(), resident()
blocks = [(resident_bytes - before) / BLOCK for resident_bytes in (inside, resident())]
print(json.dumps({"usual": usual, "kept": kept, "blocks_inside": blocks[0], "blocks_after": blocks[1]}))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc's allocator is told anything")
def test_blocks_are_used_again_and_given_back_at_the_end():
    done = subprocess.run([sys.executable, "-c", MEASURE], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["kept"] < found["usual"] / 3
    assert found["blocks_after"] < 0.5 < found["blocks_inside"]
