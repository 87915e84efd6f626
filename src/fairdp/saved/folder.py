"""Saved models: a folder of safetensors and JSON with checksums and perhaps a signature, no pickle anywhere.

What was read is used only if its parts are those of one model. A model that has a frontier can be moved along it.
"""

import copy
import hashlib
import itertools
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import torch
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key
from torch import Tensor

from fairdp._io import (
    MOST_TENSORS,
    RecordError,
    check_replaceable,
    claimed,
    content_of,
    from_plain,
    json_bytes,
    parsed_json,
    restore,
    tensors_in,
    write_file,
    write_folder,
)
from fairdp.certify.certificate import Certificate, CertifiedGap, Event, NotCertified, Origin, ScoreCounts
from fairdp.certify.rates import estimated_metrics
from fairdp.config import Preregistration, plain
from fairdp.data.schema import TableSchema
from fairdp.errors import InputError, ParameterError, SavedModelError
from fairdp.frontier.curve import Target, choose
from fairdp.frontier.verdict import Fit
from fairdp.methods import DEFAULT, METHODS
from fairdp.networks.model import (
    CELL_VALUES,
    FIXED,
    ExtractorBuilder,
    ScoreModel,
    build_model,
    mark_trained,
    tensor_bytes,
)
from fairdp.parameters import DECLARED, METRICS, NoCertificate, Parameters, check_parameters
from fairdp.run.fit import NOT_STORED, Fitted
from fairdp.run.plan import checked, train_config
from fairdp.run.predictor import Predictor
from fairdp.statements.certificate import DEFINITIONS, certificate_statement

SCHEMA_VERSION = 16
TENSORS, MARKER, PRIVACY, CERTIFICATE = "model.safetensors", "model.json", "privacy.json", "certificate.json"
FILES = (TENSORS, MARKER, PRIVACY, CERTIFICATE)
SUMS = "SHA256SUMS"
# Over the sums, so not among them; whatever writes the folder anew drops it.
SIGNATURE = "SIGNATURE"
OWN = (*FILES, SUMS, SIGNATURE)
# Parameters that are saved.
STORED = tuple(name for name in DECLARED if name not in NOT_STORED)
# What model.json holds, beside the version of its format.
_IN_MARKER = (
    "parameters",
    "classes",
    "groups",
    "feature_schema",
    "feature_names",
    "predictor",
    "notes",
    "made",
    "model",
    "shape",
    "heads",
    "smoothing",
    "frontier",
    "target",
)
_MAKE = "openssl genpkey -algorithm ed25519 makes one"
_TAKE = "openssl pkey -pubout takes it from the private one"
# Pixels of an image whose network has no number for each of them.
_MOST_PIXELS = 2**22
_MOST_LAYERS = 100
# Of a keyed BLAKE2b.
_LONGEST_KEY = 64


class FittedEstimator(Protocol):
    """A fitted estimator, as far as its folder goes."""

    fitted_: Fitted
    score_model_: ScoreModel


Estimator = TypeVar("Estimator", bound=FittedEstimator)


def write_model(folder: Path, fitted: Fitted) -> None:
    """Write a model folder whole or not at all; its certificate names the files that it speaks of by their hashes."""
    about = {name: getattr(fitted, name) for name in _IN_MARKER}
    contents = {
        TENSORS: tensor_bytes(fitted.tensors),
        MARKER: json_bytes({"schema_version": SCHEMA_VERSION, **about, "parameters": storable(fitted.parameters)}),
        PRIVACY: json_bytes(fitted.privacy),
    }
    files = {name: sha256(content) for name, content in contents.items()}
    origin = fitted.certificate.about if isinstance(fitted.certificate, Certificate) else None
    if origin is not None and origin.model_sha256 != files[TENSORS]:
        raise SavedModelError("the parameters were changed after they were certified; fit the model again.")
    contents[CERTIFICATE] = json_bytes({**certificate_record(fitted.certificate), "files": files})
    write_folder(folder, {**contents, SUMS: checksums(contents)}, own=OWN, marker=MARKER)


def read_model(folder: Path) -> Fitted:
    """Read a model folder after checking its checksums and version."""
    restore(folder)
    if not (folder / MARKER).is_file():
        raise SavedModelError(f"{str(folder)!r} is not a saved model: it has no {MARKER}.")
    contents = checked_contents(folder)
    try:
        version = parsed_json(contents[MARKER]).get("schema_version")
        if version != SCHEMA_VERSION:
            raise SavedModelError(
                f"{str(folder)!r} has schema version {version}, this fairdp reads {SCHEMA_VERSION}; install a matching "
                "one."
            )
        return fitted_in(contents)
    except SavedModelError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise SavedModelError(f"saved model {str(folder)!r} is damaged: a record cannot be read ({error}).") from None


def fitted_in(contents: Mapping[str, bytes]) -> Fitted:
    """The model that the files of a folder describe; a missing or unknown value, or another type, is an error."""
    about, privacy, certificate = (parsed_json(contents[name]) for name in FILES[1:])
    if wrong := sorted(about.keys() ^ {"schema_version", *_IN_MARKER}):
        raise RecordError(f"missing or unknown: {', '.join(wrong[:3])}{', …' if len(wrong) > 3 else ''}")
    del about["schema_version"]
    return from_plain(
        Fitted,
        {
            **about,
            "parameters": restored(about["parameters"]),
            "privacy": privacy,
            "certificate": read_record(certificate).certificate(),
            "tensors": tensors_in(contents[TENSORS], framework="pt")[1],
        },
    )


def paid_counts(fitted: Fitted) -> Fit:
    """The noisy releases of a fit that a verdict may use, as `judged` takes them."""
    return Fit(
        parameters=fitted.parameters,
        takes_target=METHODS[fitted.parameters.method].takes_target,
        group_names=fitted.groups,
        certificate=fitted.certificate,
        frontier=fitted.frontier,
        target=fitted.target,
        n_inputs=fitted.heads[1] - fitted.model.bias,
    )


def is_signed(folder: Path) -> bool:
    """True if a folder holds a signature, of whatever worth."""
    return (folder / SIGNATURE).exists()


def sha256(content: bytes) -> str:
    """The hash by which files of a folder are named."""
    return hashlib.sha256(content).hexdigest()


def checksums(contents: Mapping[str, bytes]) -> bytes:
    """Lines in the format of ``sha256sum``, so that anyone can check them without this program."""
    return "".join(f"{sha256(content)}  {name}\n" for name, content in sorted(contents.items())).encode()


def model_files(folder: Path) -> dict[str, bytes]:
    """Contents of the files of a model folder, by their names; too large ones are refused."""
    try:
        return {
            name: content_of(folder / name, **({"most": MOST_TENSORS} if name == TENSORS else {})) for name in FILES
        }
    except OSError as error:
        raise SavedModelError(f"saved model {str(folder)!r} cannot be read: {error.strerror}.") from None


def checked_contents(folder: Path) -> dict[str, bytes]:
    """The files of a model folder by their names, if all are there and fit the sums."""
    missing = [name for name in (*FILES, SUMS) if not (folder / name).is_file()]
    if missing:
        names = ", ".join(missing)
        raise SavedModelError(f"saved model {str(folder)!r} is incomplete: {names} is missing; copy it whole.")
    contents = model_files(folder)
    recorded = content_of(folder / SUMS).decode(errors="replace").split("\n")
    for line in checksums(contents).decode().splitlines():
        if line not in recorded:
            name = line.split()[1]
            raise SavedModelError(
                f"saved model {str(folder)!r} was changed: {name} does not match {SUMS}; restore the file."
            )
    return contents


def storable(chosen: Parameters) -> dict[str, Any]:
    """Parameters as JSON can hold them."""
    found: dict[str, Any] = {}
    for name in STORED:
        value = plain(getattr(chosen, name))
        if isinstance(value, (tuple, list)):
            value = [plain(each) for each in value]
        elif isinstance(value, Mapping):
            value = {str(key): plain(each) for key, each in value.items()}
        found[name] = "inf" if isinstance(value, float) and math.isinf(value) else value
    return found


def restored(stored: Mapping[str, Any]) -> Parameters:
    """Inverse of `storable`; a `RecordError` if it names other parameters."""
    if set(stored) != set(STORED):
        raise RecordError("parameters are not those of this version")
    values: dict[str, Any] = {name: math.inf if value == "inf" else value for name, value in stored.items()}
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    # Identity is not saved. Whoever chose this number was refused wherever it adapts, so it stands for the default.
    default = {"delta": Parameters.delta} if values["delta"] == Parameters.delta else {}
    return Parameters(**{**values, **default})


@contextmanager
def place_for_model(out: Path, *, overwrite: bool) -> Iterator[None]:
    """Hold the place where a model will be written, or refuse it before any work is done."""
    check_place(out, overwrite=overwrite)
    with claimed(out):
        # Another command may have ended just before.
        check_place(out, overwrite=overwrite)
        yield


def check_place(out: Path, *, overwrite: bool) -> None:
    """Refuse a folder that cannot be written, holds something else, or a model that nobody said to replace."""
    check_replaceable(out, own=OWN, marker=MARKER)
    if not overwrite and (out / MARKER).exists():
        raise SavedModelError(
            f"output folder {str(out)!r} holds a model already; choose another folder, or add `overwrite` to replace "
            "it."
        )


class Signed(Enum):
    """Findings about a signature, for whoever knows the public key; each value is the finding in words."""

    FITS = f"fits {SUMS} and this key."
    MISSING = f"there is no {SIGNATURE}: nobody has signed this folder."
    UNREADABLE = f"{SIGNATURE} is damaged: it cannot be read."
    ANOTHER_KEY = "made with another key than this one."
    REWRITTEN = f"does not fit {SUMS}: the folder was rewritten after it was signed, or the signature was changed."
    DAMAGED = f"does not fit {SUMS}, which does not fit the files either: the folder is damaged."


def sign_folder(folder: Path, key: Path) -> str:
    """Sign the checksums of a folder whose files fit them; returns the public key, in hexadecimal digits."""
    private = _read_private(key)
    sums = checksums(checked_contents(folder))
    # A second line for a file would let its signer's name stand under another file too.
    if content_of(folder / SUMS) != sums:
        raise SavedModelError(f"{SUMS} in {str(folder)!r} has lines that no file needs; restore it before signing.")
    public, signature = private.public_key().public_bytes_raw().hex(), private.sign(sums).hex()
    # In hexadecimal digits. The key says whose it is, and is never trusted for itself.
    record = {"algorithm": "Ed25519", "public_key": public, "signature": signature}
    write_file(folder / SIGNATURE, json_bytes(record))
    return public


def signature_of(folder: Path, public_key: Ed25519PublicKey, *, files_fit: bool) -> Signed:
    """Find out if the holder of a key has signed a folder as it is, and if not, what is wrong."""
    try:
        record = parsed_json(content_of(folder / SIGNATURE))
        if record.keys() != {"algorithm", "public_key", "signature"} or not isinstance(record["algorithm"], str):
            return Signed.UNREADABLE
        signer, signature = bytes.fromhex(record["public_key"]), bytes.fromhex(record["signature"])
    except FileNotFoundError:
        return Signed.MISSING
    except (OSError, AttributeError, LookupError, TypeError, ValueError):
        return Signed.UNREADABLE
    try:
        public_key.verify(signature, content_of(folder / SUMS))
    except InvalidSignature:
        if signer != public_key.public_bytes_raw():
            return Signed.ANOTHER_KEY
        return Signed.REWRITTEN if files_fit else Signed.DAMAGED
    except OSError:
        return Signed.DAMAGED
    return Signed.FITS


def read_public_key(path: Path) -> Ed25519PublicKey:
    """The public key in a PEM file."""
    content = _content("public_key", path)
    try:
        key = load_pem_public_key(content)
    except (ValueError, UnsupportedAlgorithm):
        raise ParameterError("public_key", str(path), "is no public key in a PEM file", _TAKE) from None
    if not isinstance(key, Ed25519PublicKey):
        raise ParameterError("public_key", str(path), "is not an Ed25519 key", _TAKE)
    return key


def _read_private(path: Path) -> Ed25519PrivateKey:
    content = _content("key", path)
    try:
        key = load_pem_private_key(content, password=None)
    except TypeError:
        raise ParameterError("key", str(path), "needs a passphrase", "openssl pkey takes it off") from None
    except (ValueError, UnsupportedAlgorithm):
        raise ParameterError("key", str(path), "is no private key in a PEM file", _MAKE) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise ParameterError("key", str(path), "is not an Ed25519 key", _MAKE)
    return key


def _content(parameter: str, path: Path) -> bytes:
    try:
        return content_of(path)
    except OSError as error:
        raise ParameterError(parameter, str(path), f"cannot be read: {error.strerror}") from None


def usable_model(fitted: Fitted, module: ExtractorBuilder | None = None) -> ScoreModel:
    """The model of a saved folder, ready to score; a module is code, so its builder must be given again.

    Raises
    ------
    SavedModelError
        With one line, if the parts of the folder are not those of one model.
    """
    if fitted.model.kind == "custom" and module is None:
        raise SavedModelError("the model was trained with your own module; pass its builder as `module`=.")
    try:
        wrong = next(_contradictions(fitted), None)
        if wrong is None and module is None:
            wrong = next(_wrong_sizes(fitted, fitted.tensors["params"].numel()), None)
        if wrong is not None:
            raise _damaged(wrong)
        model = build_model(fitted.model, fitted.shape, module, 0, will_be_replaced=True)
    except InputError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        if module is not None:
            raise
        raise _damaged("description") from error
    _fill(model, fitted)
    mark_trained(model.extractor)
    return model


def _damaged(wrong: str) -> SavedModelError:
    return SavedModelError(f"the saved model is damaged: its {wrong} cannot be that of such a model.")


def _fill(model: ScoreModel, fitted: Fitted) -> None:
    """Put all numbers of a folder into a model that was built for them."""
    heads, tensors = fitted.heads, dict(fitted.tensors)
    params, values = tensors.pop("params"), tensors.pop(CELL_VALUES, None)
    if heads[1] != model.head_size or params.numel() != model.n_extractor_params + heads[0] * heads[1]:
        raise _damaged("number of parameters")
    n_cells = None if values is None else len(values)
    if n_cells != (model.n_cells or None):
        raise _damaged("number of cells")
    fixed = {name.removeprefix(FIXED): value for name, value in tensors.items()}
    own = model.fixed_state()
    if {name: _form(value) for name, value in fixed.items()} != {name: _form(value) for name, value in own.items()}:
        raise _damaged("fixed layers")
    model.replace_params(params)
    model.cell_values = values
    model.load_fixed_state(fixed)
    model.smoothing = fitted.smoothing


def _form(value: Tensor) -> tuple[tuple[int, ...], torch.dtype]:
    return tuple(value.shape), value.dtype


def _contradictions(fitted: Fitted) -> Iterator[str]:
    """Parts that no model can have, whatever its network."""
    tensors, kinds = fitted.tensors, {"params": torch.float32, CELL_VALUES: torch.float64}
    for name, kind in kinds.items():
        value = tensors.get(name)
        if (value is None and name == "params") or (value is not None and (value.dtype, value.ndim) != (kind, 1)):
            yield name
    yield from (name for name, value in tensors.items() if not value.isfinite().all())
    checked(**vars(fitted.parameters))
    smoothing = fitted.smoothing
    if smoothing is not None and (smoothing.n_draws != fitted.parameters.n_draws or smoothing.seed < 0):
        yield "smoothing"
    if not fitted.groups or len(set(fitted.groups)) < len(fitted.groups):
        yield "list of groups"
    if not _is_rule(fitted.predictor, n_groups=len(fitted.groups)):
        yield "decision rule"
    if fitted.feature_schema is None:
        return
    schema = TableSchema.from_dict(fitted.feature_schema)
    if fitted.shape != (schema.n_features,):
        yield "number of inputs"
    if fitted.groups != schema.group_names:
        yield "list of groups"
    # Codes, if records were encoded before the fit.
    if fitted.classes not in ((schema.negative, schema.positive), (0, 1)):
        yield "list of labels"


def _is_rule(predictor: Predictor, *, n_groups: int) -> bool:
    """True if a rule can decide: it has chances for every group, and a key where there are coins."""
    if predictor.flips is not None:
        chances = [chance for pair in predictor.flips for chance in pair]
        if len(predictor.flips) != n_groups or not all(0 <= chance <= 1 for chance in chances):
            return False
    try:
        key = bytes.fromhex(predictor.key)
    except ValueError:
        return False
    return len(key) <= _LONGEST_KEY and (bool(key) or not predictor.tosses_coins)


def _wrong_sizes(fitted: Fitted, n_params: int) -> Iterator[str]:
    """Parts that would need far more memory than the parameters that are there, before they are built."""
    config, n_inputs, (n_heads, head_size) = fitted.model, math.prod(fitted.shape), fitted.heads
    if not (fitted.shape and all(1 <= side <= _MOST_PIXELS for side in fitted.shape)):
        yield "shape"
    if not (n_heads >= 1 and head_size >= 1 and n_heads * head_size <= n_params):
        yield "number of heads"
    if n_inputs > (n_params if config.kind in ("logistic", "mlp") else _MOST_PIXELS):
        yield "shape"
    widths = (n_inputs, *config.hidden) if config.kind == "mlp" else (n_inputs,)
    layers = [inner * outer for inner, outer in itertools.pairwise(widths)]
    if len(layers) > _MOST_LAYERS or sum(layers) > n_params:
        yield "hidden layers"
    if not 0 <= config.n_cells <= n_params or config.n_cells % 2 or config.n_active < 0:
        yield "number of cells"
    places = config.numeric
    if len(config.zeros) != len(places) or len(set(places)) < len(places) or not set(places) <= set(range(n_inputs)):
        yield "list of numbers"
    sizes = (*config.zeros, config.most_squares, config.row_norm)
    if not all(map(math.isfinite, sizes)) or config.most_squares <= 0 or config.row_norm <= 0:
        yield "network"


def retargeted(
    estimator: Estimator,
    *,
    max_gap: float | None = None,
    min_ratio: float | None = None,
    price: float | None = None,
) -> Estimator:
    """A copy of a fitted estimator whose rule is the one that its frontier has for another target.

    What was released already is all that is needed, so it costs no privacy. A certificate was about the old rule: the
    copy has none. The parameters stay those of the fit.
    """
    fitted = estimator.fitted_
    frontier, present = fitted.frontier, fitted.target
    if frontier is None:
        raise SavedModelError(
            f"a model of `method`={fitted.parameters.method!r} has no frontier to move along; fit one with "
            f"`method`={DEFAULT!r}."
        )
    if len(fitted.groups) < 2:
        raise SavedModelError("the model knows only one group, so there is no gap to aim at; fit one with groups.")
    assert present is not None
    target = _target(present, max_gap=max_gap, min_ratio=min_ratio, price=price)
    if target == present:
        raise InputError("the rule aims at this target already; use the model as it is, or state another target.")
    # That there was no certificate before stays the reason.
    before = fitted.certificate
    void = before if isinstance(before, NotCertified) else NotCertified(NoCertificate.RULE_MOVED)
    if void.reason == NoCertificate.RULE_MOVED and target == _fitted_for(fitted):
        # Else a certificate could be lost by moving there and back.
        raise InputError("the model was fitted for this target; use it as the fit left it, with its certificate.")
    moved = copy.copy(estimator)
    moved.score_model_ = copy.deepcopy(estimator.score_model_)
    moved.score_model_.cell_values = torch.from_numpy(frontier.values_at(choose(frontier, target).position))
    moved.fitted_ = replace(fitted, target=target, certificate=void, tensors=moved.score_model_.tensors())
    return moved


def _target(present: Target, *, max_gap: float | None, min_ratio: float | None, price: float | None) -> Target:
    """As for a fit: a stated target may cost any price, and a ratio alone allows any gap; a price alone keeps it."""
    check_parameters(max_gap=max_gap, min_ratio=min_ratio, price=price)
    if max_gap is None and min_ratio is None:
        if price is None:
            raise InputError("say what the rule should aim at: `max_gap`, `min_ratio` or `price`.")
        return replace(present, price=float(price))
    return Target(
        max_gap=1.0 if max_gap is None else float(max_gap),
        min_ratio=0.0 if min_ratio is None else float(min_ratio),
        price=math.inf if price is None else float(price),
    )


def _fitted_for(fitted: Fitted) -> Target:
    """The target of the fit, whatever was done since."""
    sizes = tuple(fitted.privacy.planned_sizes.values())
    return Target.of(train_config(checked(**vars(fitted.parameters)), fitted.model.kind, sizes))


@dataclass(frozen=True, kw_only=True)
class CertificateRecord:
    """Every value of a certificate's record as it stands, whether or not it agrees with the others.

    ``epsilon``, ``events``, ``estimates``, ``definitions`` and ``statement`` follow from the rest; ``files`` are the
    hashes of the files that the certificate speaks of.
    """

    certified: Literal[True]
    confidence: float
    metrics: tuple[str, ...]
    require_tau: float | None
    n_looks: int
    expected_trials: float
    score_share: float
    epsilon: float
    epsilon_by_group: dict[str, float]
    demographic_parity: CertifiedGap | None = None
    equal_opportunity: CertifiedGap | None = None
    equalized_odds: CertifiedGap | None = None
    events: dict[str, Event]
    input_agnostic_tau: float | None
    group_names: tuple[str, ...]
    expected_sizes: tuple[float, ...]
    counts: tuple[tuple[tuple[int, ...], ...], ...]
    scores: ScoreCounts | None
    about: Origin
    statement: str
    estimates: dict[str, object] = field(default_factory=dict)
    definitions: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)

    @property
    def gaps(self) -> dict[str, CertifiedGap]:
        """The claim about each metric."""
        found: dict[str, CertifiedGap | None] = {metric: getattr(self, metric) for metric in METRICS}
        return {metric: gap for metric, gap in found.items() if gap is not None}

    def certificate(self) -> Certificate:
        """The certificate; its bounds are taken as they stand."""
        registration = Preregistration(
            confidence=self.confidence,
            metrics=self.metrics,
            require_tau=self.require_tau,
            n_looks=self.n_looks,
            expected_trials=self.expected_trials,
            score_share=self.score_share,
        )
        return Certificate(
            registration=registration,
            epsilons=tuple(self.epsilon_by_group[name] for name in self.group_names),
            group_names=self.group_names,
            expected_sizes=self.expected_sizes,
            counts=self.counts,
            gaps={name: self.gaps[name] for name in self.metrics},
            input_agnostic_tau=self.input_agnostic_tau,
            scores=self.scores,
            about=self.about,
        )


@dataclass(frozen=True, kw_only=True)
class NoCertificateRecord:
    """The record of a model without a certificate."""

    certified: Literal[False]
    reason: NoCertificate
    statement: str
    files: dict[str, str] = field(default_factory=dict)

    def certificate(self) -> NotCertified:
        """That there is no certificate, and why."""
        return NotCertified(self.reason)


def certificate_record(certificate: Certificate | NotCertified) -> dict[str, object]:
    """Everything that a reader needs to use the certificate and to compute it again, in plain values."""
    record = {**certificate.to_dict(), "statement": certificate_statement(certificate)}
    if isinstance(certificate, NotCertified):
        return record
    return {**record, "estimates": estimated_metrics(certificate), "definitions": DEFINITIONS}


def read_record(plain: object) -> CertificateRecord | NoCertificateRecord:
    """A record from the plain values of a file; a `RecordError` says what is wrong with them."""
    certified = isinstance(plain, dict) and plain.get("certified") is True
    return from_plain(CertificateRecord, plain) if certified else from_plain(NoCertificateRecord, plain)
