"""What one check found, what it starts from, and how numbers that are computed twice are compared."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairdp._files import from_plain, parsed_json, tensors_in
from fairdp.accounting.recipe import Recipe
from fairdp.accounting.spent import PrivacySpent
from fairdp.certify.record import CertificateRecord, NoCertificateRecord, read_record
from fairdp.config.defaults import train_config
from fairdp.config.training import TrainConfig
from fairdp.methods import METHODS
from fairdp.run.settings import RunSettings
from fairdp.saved.folder import FILES, TENSORS, ModelRecord
from fairdp.saved.parameters import restored

# What somebody who sees that a folder is verified should know.
SCOPE = (
    "This shows that the files agree with each other and with the accounting, not that they come from such a run on "
    "such records: only a signature would expose someone who rewrites all of them consistently."
)
SIGNED_SCOPE = (
    "This shows that the files agree with each other and with the accounting, and that the holder of this key signed "
    "exactly these; that they come from such a run on such records is the word of whoever signed."
)

# Numbers are recomputed from the same inputs: they may differ only by rounding.
SAME = 1e-9


@dataclass(frozen=True)
class Check:
    """One thing that was checked, whether it holds, and what was found."""

    name: str
    passed: bool
    found: str


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """What the files of a folder say, value by value; none of it is trusted yet."""

    contents: Mapping[str, bytes]
    model: ModelRecord
    privacy: PrivacySpent
    certificate: CertificateRecord | NoCertificateRecord

    @classmethod
    def of(cls, contents: Mapping[str, bytes]) -> "Recorded":
        """Read the files; whatever is missing, unknown or of another type is an error."""
        model, privacy, certificate = (parsed_json(contents[name]) for name in FILES[1:])
        return cls(
            contents=contents,
            model=from_plain(ModelRecord, model),
            privacy=from_plain(PrivacySpent, privacy),
            certificate=read_record(certificate),
        )

    @property
    def settings(self) -> RunSettings:
        """What was chosen about the run; a module and a seed are not saved, and nothing that is checked needs them."""
        chosen = RunSettings.of(**restored(self.model.parameters), module=None, random_state=None)
        return chosen.with_budget(self.model.model.kind, len(self.model.groups))

    @property
    def config(self) -> TrainConfig:
        """The numbers of the run that settings and recorded sizes lead to."""
        settings, sizes = self.settings, tuple(self.privacy.planned_sizes.values())
        return train_config(self.model.model.kind, settings.method, sizes, **settings.training)

    @property
    def recipe(self) -> Recipe:
        """What a step releases, and what is released beside the steps."""
        return METHODS[self.settings.method].recipe(self.config, tuple(self.privacy.planned_sizes.values()))

    @property
    def tensors(self) -> dict[str, NDArray[Any]]:
        """All numbers of the model."""
        return tensors_in(self.contents[TENSORS], framework="np")[1]

    @property
    def heads(self) -> NDArray[np.float32]:
        """The heads (w, b), which are the last of the parameters, shape (n_members, head_size)."""
        n_heads, size = self.model.heads
        return self.tensors["params"][-n_heads * size :].reshape(n_heads, size)

    def cells_of(self, group: str) -> list[str]:
        """The names under which a group's training records were sampled: its own, or one for each label."""
        if self.model.parameters["grouping"] == "attribute":
            return [group]
        return [f"{group}, label {label}" for label in (0, 1)]

    @property
    def cells(self) -> list[str]:
        """All of these names."""
        return [cell for group in self.model.groups for cell in self.cells_of(group)]


def equal(recorded: float | None, computed: float | None) -> bool:
    """Whether two numbers agree up to rounding, or both are missing."""
    if recorded is None or computed is None:
        return recorded is computed
    # Everything is within a share of infinity.
    return recorded == computed or (math.isfinite(computed) and abs(recorded - computed) <= SAME * abs(computed))


def same(recorded: object, computed: object) -> bool:
    """Whether two plain values are the same all the way down, up to rounding of numbers."""
    if isinstance(recorded, dict) and isinstance(computed, dict):
        return recorded.keys() == computed.keys() and all(same(recorded[name], computed[name]) for name in computed)
    if isinstance(recorded, list) and isinstance(computed, list):
        return len(recorded) == len(computed) and all(same(*pair) for pair in zip(recorded, computed, strict=True))
    if isinstance(recorded, float) and isinstance(computed, float):
        return equal(recorded, computed)
    return type(recorded) is type(computed) and recorded == computed
