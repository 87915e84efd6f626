"""Checkpoints that somebody has changed and hashed again."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors.torch import save
from torch import Tensor

from fairdp._io import tensors_in

DIGEST_BYTES = 32


def forge(path: Path, change: Callable[[dict[str, Any], dict[str, Tensor]], object]) -> None:
    """Change what a checkpoint says and its tensors, in place, and let its checksum fit."""
    about, tensors = tensors_in(path.read_bytes()[:-DIGEST_BYTES], framework="pt")
    record = json.loads(about["fairdp"])
    change(record, tensors)
    seal(path, save(tensors, metadata={"fairdp": json.dumps(record)}))


def seal(path: Path, content: bytes) -> None:
    """Write any content with its checksum."""
    path.write_bytes(content + hashlib.sha256(content).digest())
