"""The data holder's secret about a comparison on their own table, in a file beside its folder.

The folder may be shown to others. A plain hash of the rows in it would let anybody who guesses a table check the guess;
under a key that stays here it says nothing, and still tells other records apart.
"""

import secrets
from pathlib import Path

from fairdp._checks import InputError
from fairdp._files import read_key, write_key

KEY_BYTES = 32


def holder_key_path(folder: Path) -> Path:
    """Where the key is: beside the folder, however that is named."""
    folder = folder.resolve()
    return folder.with_name(f"{folder.name}.key")


def holder_key(folder: Path) -> bytes:
    """The key of the comparison in a folder, so that it continues; a new one if there is none."""
    path = holder_key_path(folder)
    if not path.exists():
        return secrets.token_bytes(KEY_BYTES)
    key = read_key(path, KEY_BYTES)
    if key is None:
        raise InputError(
            f"{str(path)!r} holds no key of a comparison; restore it from a copy, or choose another `out`."
        )
    return key


def keep_holder_key(folder: Path, key: bytes) -> None:
    """Write the key, for its owner only."""
    write_key(holder_key_path(folder), key)
