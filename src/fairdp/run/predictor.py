"""From scores to decisions: deterministic, or by a coin that always falls the same way for the same person."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairdp._checks import InputError
from fairdp.certify.gaussian import input_agnostic_bound, smoothed_probability
from fairdp.certify.origin import DecisionRule
from fairdp.config.parameters import check_parameters
from fairdp.networks.models import ScoreModel


@dataclass(frozen=True, kw_only=True)
class Predictor:
    r"""The rule that is deployed and certified.

    Parameters
    ----------
    kind
        ``"deterministic"``: positive if the mean score of the heads is at least zero. ``"gibbs"``: a head drawn at
        random for each person decides. ``"smoothed"``: positive with probability
        :math:`\Phi(z / (s \sqrt{\|\xi\|^2 + 1}))`, as if the head were drawn with deviation s for each person; a head
        without a bias has no 1, and where ξ is zero the decision is positive.
    smoothing
        The deviation s; used by ``"smoothed"``.
    dilution, constant
        Share of the decisions that follow a constant instead, and that constant.
    flips
        Chance of a positive decision for each group and for each decision of the kind above, negative first; None:
        decisions stay as they are. With it a decision needs the person's group.
    key
        Secret of the coins, in hexadecimal; drawn without looking at the data.
    """

    kind: str = "deterministic"
    smoothing: float = 1.0
    dilution: float = 0.0
    constant: int = 0
    flips: tuple[tuple[float, float], ...] | None = None
    key: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        check_parameters(predictor=self.kind, smoothing=self.smoothing)
        if not 0 <= self.dilution <= 1 or self.constant not in (0, 1):
            raise ValueError(
                f"dilution must be in [0, 1] and constant 0 or 1, got {self.dilution!r}, {self.constant!r}."
            )
        if self.flips is not None:
            # As JSON returns them.
            object.__setattr__(self, "flips", tuple((float(no), float(yes)) for no, yes in self.flips))

    @property
    def tosses_coins(self) -> bool:
        """Whether two people with the same record may get different decisions."""
        return self.described().tosses_coins

    def chances(
        self,
        model: ScoreModel,
        X: NDArray[np.float32],
        *,
        groups: NDArray[np.int64] | None = None,
        scores: NDArray[np.float64] | None = None,
    ) -> NDArray[np.float64]:
        """Probability of a positive decision for each record, over the coins; groups matter to a rule that flips.

        ``scores`` are the model's of these records, where they are known already.
        """
        records = torch.from_numpy(np.require(X, np.float32, ["C", "W"]))
        chances = _CHANCES[self.kind](model, records, self.smoothing, scores)
        if self.flips is not None:
            if groups is None and len(self.flips) == 1:
                groups = np.zeros(len(records), dtype=np.int64)
            if groups is None:
                raise InputError("this model decides by group; give the group of every record in `sensitive_features`.")
            no, yes = np.array(self.flips).T
            chances = (1 - chances) * no[groups] + chances * yes[groups]
        return (1 - self.dilution) * chances + self.dilution * self.constant

    def decisions(
        self,
        model: ScoreModel,
        X: NDArray[np.float32],
        person_ids: Sequence[Any] | None = None,
        *,
        groups: NDArray[np.int64] | None = None,
        scores: NDArray[np.float64] | None = None,
    ) -> NDArray[np.int64]:
        """Decision for each record; the coin of a person is a keyed hash of their id, or else of their record."""
        if person_ids is not None and len(person_ids) != len(X):
            raise InputError(f"`person_ids` has {len(person_ids)} entries, but X has {len(X)} records.")
        chances = self.chances(model, X, groups=groups, scores=scores)
        if not self.tosses_coins:
            return chances.astype(np.int64)
        return (self._coins(X, person_ids) < chances).astype(np.int64)

    def input_agnostic_tau(self, model: ScoreModel) -> float | None:
        """Bound on every gap that needs no data; None if there is none below one."""
        if self.kind == "smoothed":
            head = model.heads.mean(0).double().numpy()
            tau = input_agnostic_bound(head, smoothing=self.smoothing, nonnegative=False, bias=model.bias)
        else:
            tau = 1.0
        tau *= 1 - self.dilution
        return tau if tau < 1 else None

    def to_dict(self) -> dict[str, object]:
        """Plain values, with the key: what a copy of the predictor needs."""
        return asdict(self)

    def described(self) -> DecisionRule:
        """The rule with a name for its key instead of the key."""
        return DecisionRule(
            kind=self.kind,
            smoothing=self.smoothing,
            dilution=self.dilution,
            constant=self.constant,
            flips=self.flips,
            key_id=hashlib.sha256(self.key.encode()).hexdigest()[:16] if self.key else None,
        )

    def _coins(self, X: NDArray[np.float32], person_ids: Sequence[Any] | None) -> NDArray[np.float64]:
        if not self.key:
            raise ValueError("a predictor that tosses coins needs a key.")
        # Adding zero turns negative zero into zero: equal records have equal coins.
        key, rows = bytes.fromhex(self.key), np.ascontiguousarray(X) + np.float32(0)
        names = (row.tobytes() for row in rows) if person_ids is None else (str(i).encode() for i in person_ids)
        digests = b"".join(hashlib.blake2b(name, key=key, digest_size=8).digest() for name in names)
        # The 53 upper bits make a double below one exactly.
        return np.multiply(np.frombuffer(digests, dtype="<u8") >> np.uint64(11), 2.0**-53, dtype=np.float64)


def _deterministic(
    model: ScoreModel, records: Tensor, smoothing: float, scores: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    return (_scores(model, records, scores) >= 0).astype(np.float64)


def _gibbs(
    model: ScoreModel, records: Tensor, smoothing: float, scores: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    weights, biases = model.split(model.heads)
    parts = [(xi @ weights.T + biases >= 0).double().mean(1) for xi in model.embeddings(records)]
    return torch.cat(parts).numpy() if parts else np.empty(0)


def _smoothed(
    model: ScoreModel, records: Tensor, smoothing: float, scores: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    norms = [torch.linalg.vector_norm(xi, dim=1).double().numpy() for xi in model.embeddings(records)]
    lengths = np.concatenate(norms) if norms else np.empty(0)
    return smoothed_probability(_scores(model, records, scores), lengths, smoothing=smoothing, bias=model.bias)


def _scores(model: ScoreModel, records: Tensor, known: NDArray[np.float64] | None) -> NDArray[np.float64]:
    return model.scores(records).double().numpy() if known is None else known


_CHANCES: dict[str, Callable[[ScoreModel, Tensor, float, NDArray[np.float64] | None], NDArray[np.float64]]] = {
    "deterministic": _deterministic,
    "gibbs": _gibbs,
    "smoothed": _smoothed,
}
