"""Tables read in batches take memory that does not grow with them."""

import gzip
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

PEAK = """
import sys
from fairdp.data.tables import read_table, table_batches
read_table(sys.argv[1]) if sys.argv[2] == "whole" else sum(map(len, table_batches(sys.argv[1], rows=2000)))
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def peak_memory(path, how: str) -> int:
    """Kibibytes that a fresh process needs to read a table; getrusage would count those of the test run itself."""
    return int(subprocess.run([sys.executable, "-c", PEAK, str(path), how], capture_output=True, check=True).stdout)


def numbers_in(path, n_rows: int):
    """A table of 8 columns, random in Parquet, where equal numbers would take no room."""
    names = [f"x{i}" for i in range(8)]
    if path.name.endswith((".csv", ".gz")):
        text = ",".join(names) + "\n" + "0.5,1.5,2.5,3.5,4.5,5.5,6.5,7.5\n" * n_rows
        path.write_bytes(gzip.compress(text.encode(), 1) if path.suffix == ".gz" else text.encode())
        return path
    table = pa.table(dict(zip(names, np.random.default_rng(0).random((8, n_rows)), strict=True)))
    if path.suffix == ".parts":
        path.mkdir()
        for start in range(0, n_rows, 50_000):
            pq.write_table(table.slice(start, 50_000), path / f"{start:07d}.parquet")
    else:
        pyarrow.feather.write_feather(table, path) if path.suffix == ".feather" else pq.write_table(table, path)
    return path


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the memory of a process from /proc")
@pytest.mark.parametrize(
    ("ending", "few", "many"),
    [
        ("csv", 4_000, 400_000),
        *(
            pytest.param(ending, *sizes, marks=pytest.mark.more)
            for ending, *sizes in (
                ("csv.gz", 4_000, 400_000),
                ("parquet", 200_000, 800_000),
                ("parts", 200_000, 800_000),
                ("feather", 200_000, 800_000),
            )
        ),
    ],
)
def test_memory_does_not_grow_with_the_rows_unless_all_are_read(tmp_path, ending, few, many):
    short, long = (numbers_in(tmp_path / f"{n_rows}.{ending}", n_rows) for n_rows in (few, many))
    # The additional numbers are 25 000 KiB or more. A page of each Parquet column is in memory even in short tables.
    assert peak_memory(long, "batches") - peak_memory(short, "batches") < 10_000
    assert peak_memory(long, "whole") - peak_memory(short, "whole") > 20_000
