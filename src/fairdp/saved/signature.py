"""Signatures of model folders: Ed25519 over the checksums, so that a rewritten folder is told from a damaged one."""

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from fairdp._checks import ParameterError, SavedModelError
from fairdp._files import RecordError, content_of, from_plain, json_bytes, parsed_json, write_file
from fairdp.saved.folder import SIGNATURE, SUMS, checked_contents, checksums

_MAKE = "openssl genpkey -algorithm ed25519 makes one"
_TAKE = "openssl pkey -pubout takes it from the private one"


class Signed(Enum):
    """What a signature says of a folder, to whoever knows the public key; each value is the finding in words."""

    FITS = f"fits {SUMS} and this key."
    MISSING = f"there is no {SIGNATURE}: nobody has signed this folder."
    UNREADABLE = f"{SIGNATURE} is damaged: it cannot be read."
    ANOTHER_KEY = "made with another key than this one."
    REWRITTEN = f"does not fit {SUMS}: the folder was rewritten after it was signed, or the signature was changed."
    DAMAGED = f"does not fit {SUMS}, which does not fit the files either: the folder is damaged."


@dataclass(frozen=True, kw_only=True)
class SignatureRecord:
    """What ``SIGNATURE`` holds, in hexadecimal digits; the key says whose it is, and is never trusted for itself."""

    algorithm: str
    public_key: str
    signature: str


def sign_folder(folder: Path, key: Path) -> str:
    """Sign the checksums of a folder whose files fit them; returns the public key, in hexadecimal digits."""
    private = _read_private(key)
    sums = checksums(checked_contents(folder))
    # A second line for a file would let its signer's name stand under another file too.
    if content_of(folder / SUMS) != sums:
        raise SavedModelError(f"{SUMS} in {str(folder)!r} has lines that no file needs; restore it before signing.")
    public, signature = private.public_key().public_bytes_raw().hex(), private.sign(sums).hex()
    record = SignatureRecord(algorithm="Ed25519", public_key=public, signature=signature)
    write_file(folder / SIGNATURE, json_bytes(record))
    return public


def signature_of(folder: Path, public_key: Ed25519PublicKey, *, files_fit: bool) -> Signed:
    """Whether the holder of a key has signed a folder as it is, and if not, what is wrong."""
    try:
        record = from_plain(SignatureRecord, parsed_json(content_of(folder / SIGNATURE)))
        signer, signature = bytes.fromhex(record.public_key), bytes.fromhex(record.signature)
    except FileNotFoundError:
        return Signed.MISSING
    except (OSError, RecordError, ValueError):
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
