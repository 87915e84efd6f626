"""The parameters of an estimator as JSON can hold them, and back."""

import math
from collections.abc import Mapping
from typing import Any

from fairdp.config.parameters import Parameters
from fairdp.config.training import plain

# A module is code, a seed may be the secret that the guarantee rests on, and where the ledger is concerns its holder.
NOT_STORED = ("module", "random_state", "ledger", "table")


def storable(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as JSON can hold them."""
    kept = {name: plain(value) for name, value in parameters.items() if name not in NOT_STORED}
    lists = {name: [plain(v) for v in value] for name, value in kept.items() if isinstance(value, (tuple, list))}
    mappings = {
        name: {str(key): plain(v) for key, v in value.items()}
        for name, value in kept.items()
        if isinstance(value, Mapping)
    }
    infinite = {name: "inf" for name, v in kept.items() if isinstance(v, float) and math.isinf(v)}
    return {**kept, **lists, **mappings, **infinite}


def restored(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Inverse of `storable`."""
    values = {name: math.inf if value == "inf" else value for name, value in parameters.items()}
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    # Somebody who chose this number was refused wherever it gives way: what is saved is the default.
    return values | ({"delta": Parameters.delta} if values.get("delta") == Parameters.delta else {})
