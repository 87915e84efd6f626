"""The secret key of the coins that send rows of a table to the test records, and where it is kept.

A key that anybody knows would let whoever collects the rows choose which of them are tested. So it is drawn anew for
every run, stays with the data holder, in the register beside the model, and makes the same split again.
"""

from pathlib import Path

from fairdp._checks import InputError
from fairdp._files import read_key, write_key
from fairdp.randomness import Generators
from fairdp.run.checkpoint import read_checkpoint
from fairdp.team import the_team

KEY_BYTES = 16


def new_split_key(seed: int | None = None) -> bytes:
    """A key from the operating system's entropy or, for experiments, from a seed."""
    return Generators.of(seed).key("test split")


def keep_split_key(checkpoint: Path, key: bytes) -> None:
    """Write the key beside the checkpoint of a run, whose training records must be the same when it is continued."""
    write_key(split_key_path(checkpoint), key)


def kept_split_key(checkpoint: Path) -> bytes:
    """The key of the run that a checkpoint belongs to."""
    read_checkpoint(checkpoint)
    return the_team().from_first(lambda: _kept(split_key_path(checkpoint)))


def _kept(path: Path) -> bytes:
    key = read_key(path, KEY_BYTES)
    if key is None:
        raise InputError(
            f"the key of the test split is not in {str(path)!r}, so that the run cannot be continued with the same "
            "records; restore the file, or start the run again."
        )
    return key


def split_key_path(checkpoint: Path) -> Path:
    """Where the key is kept until the model, and the register with it, is written."""
    return checkpoint.with_name(f"{checkpoint.name}.key")
