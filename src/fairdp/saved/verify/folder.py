"""Checking a saved model without trusting what made it: hashes, epsilon and tau, all recomputed."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fairdp._checks import SavedModelError
from fairdp._files import content_of, parsed_json, to_plain
from fairdp._folders import restore
from fairdp.accounting.words import READ_FROM_TABLE
from fairdp.certify.record import CertificateRecord, NoCertificateRecord
from fairdp.config.certificate import NoCertificate
from fairdp.data.schema import TableSchema
from fairdp.saved.folder import FILES, MARKER, SCHEMA_VERSION, SUMS, TENSORS, model_files, sha256
from fairdp.saved.signature import Signed, signature_of
from fairdp.saved.verify.certificate import certificate_checks, statement_check
from fairdp.saved.verify.check import Check, Recorded
from fairdp.saved.verify.model import model_check
from fairdp.saved.verify.privacy import privacy_checks
from fairdp.saved.verify.rule import is_moved, rule_check

# Projection and averages of heads are in single precision.
_ROUNDING = 1e-4


def verify_folder(folder: Path, public_key: Ed25519PublicKey | None = None) -> list[Check]:
    """Check everything that can be checked about a saved model, with a key its signature too.

    The first broken file ends the list: nothing is computed from it.
    """
    restore(folder)
    if not folder.is_dir():
        raise SavedModelError(f"{str(folder)!r} is not a folder; name the folder of a saved model.")
    contents, files = _read(folder)
    checks = _checked_records(contents, files) if files.passed else [files]
    if public_key is None:
        return checks
    signed = signature_of(folder, public_key, files_fit=files.passed)
    return [*checks, Check("signature", signed is Signed.FITS, signed.value)]


def _checked_records(contents: dict[str, bytes], files: Check) -> list[Check]:
    try:
        version = _version(contents)
        if not version.passed:
            return [files, version]
        return [files, version, *_all_checks(Recorded.of(contents))]
    except Exception as error:  # Whatever a damaged record makes of the computation, it is not verified.
        return [files, Check("records", False, f"a record is damaged: {type(error).__name__}: {error}.")]


def _all_checks(recorded: Recorded) -> Iterator[Check]:
    model = model_check(recorded)
    yield model
    yield _ties(recorded)
    if not model.passed:
        # From what is no model nothing else is computed.
        return
    yield _groups(recorded)
    yield _heads(recorded)
    yield rule_check(recorded)
    yield _assumptions(recorded)
    yield _description(recorded)
    yield from privacy_checks(recorded)
    if isinstance(recorded.certificate, NoCertificateRecord):
        yield _uncertified(recorded, recorded.certificate)
    else:
        yield from certificate_checks(recorded, recorded.certificate)
    yield statement_check(recorded.certificate)


def _uncertified(recorded: Recorded, certificate: NoCertificateRecord) -> Check:
    """That no bound is claimed because none was possible: a bad certificate must not be left out."""
    reasons = {recorded.settings.reason_for_no_certificate(len(recorded.model.groups))}
    # Of another rule than the one that was fitted, whatever was certified before says nothing.
    reasons |= {NoCertificate.RULE_MOVED} if is_moved(recorded) else set()
    passed = certificate.reason in reasons
    found = f"no bound is claimed, because {certificate.certificate().explanation}."
    return Check("certificate", passed, found)


def _read(folder: Path) -> tuple[dict[str, bytes], Check]:
    missing = [name for name in (*FILES, SUMS) if not (folder / name).is_file()]
    if len(missing) == len(FILES) + 1:
        raise SavedModelError(f"{str(folder)!r} holds no saved model; name the folder that fit or save wrote.")
    if missing:
        return {}, Check("files", False, f"missing: {', '.join(missing)}.")
    contents = model_files(folder)
    lines = content_of(folder / SUMS).decode(errors="replace").splitlines()
    recorded = {line[66:]: line[:64] for line in lines}
    changed = [name for name, content in contents.items() if recorded.get(name) != sha256(content)]
    if changed:
        return contents, Check("files", False, f"{', '.join(changed)} does not match {SUMS}.")
    return contents, Check("files", True, f"{len(FILES)} files match {SUMS}.")


def _version(contents: dict[str, bytes]) -> Check:
    version = parsed_json(contents[MARKER]).get("schema_version")
    return Check("version", version == SCHEMA_VERSION, f"schema version {version}, read here: {SCHEMA_VERSION}.")


def _ties(recorded: Recorded) -> Check:
    """That the certificate is about this model, this rule and this privacy record."""
    contents, model, certificate = recorded.contents, recorded.model, recorded.certificate
    broken = [name for name in FILES[:3] if certificate.files.get(name) != sha256(contents[name])]
    if isinstance(certificate, CertificateRecord):
        about, rule = certificate.about, to_plain(model.predictor)
        if about.model_sha256 != sha256(contents[TENSORS]):
            broken.append(f"{TENSORS} (as certified)")
        key = rule.pop("key")
        rule["key_id"] = hashlib.sha256(key.encode()).hexdigest()[:16] if key else None
        if to_plain(about.predictor) != rule:
            broken.append("predictor")
        diluted = certificate.dilution
        if diluted and (diluted.share, diluted.constant) != (model.predictor.dilution, model.predictor.constant):
            broken.append("dilution")
        if about.smoothing != to_plain(model.smoothing):
            broken.append("smoothing")
    found = f"belongs to another {', '.join(broken)}." if broken else "belongs to this model and this privacy record."
    return Check("certificate's model", not broken, found)


def _groups(recorded: Recorded) -> Check:
    """That every record covers all groups of the model."""
    privacy, certificate = recorded.privacy, recorded.certificate
    sampled = {
        "planned_sizes": list(privacy.planned_sizes),
        "epsilon_by_group": list(privacy.epsilon_by_group),
        "mechanisms": list(privacy.mechanisms),
        "sensitivities": list(privacy.sensitivities),
    }
    wrong = [field for field, names in sampled.items() if sorted(names) != sorted(recorded.cells)]
    counted = {"certify_epsilons": list(privacy.certify_epsilons)} if privacy.certify_fraction else {}
    if isinstance(certificate, CertificateRecord):
        counted |= {"group_names": list(certificate.group_names), "certificate": list(certificate.epsilon_by_group)}
    wrong += [field for field, names in counted.items() if sorted(names) != sorted(recorded.model.groups)]
    found = f"{', '.join(wrong)} does not name the groups of the model." if wrong else "every record names all groups."
    return Check("groups", not wrong, found)


def _heads(recorded: Recorded) -> Check:
    """That no head is longer than the bound M that the settings fix, up to the rounding of single precision.

    A joint model has a head for each cell.
    """
    bound, (n_heads, _), n_cells = recorded.recipe.weight_bound, recorded.model.heads, recorded.model.model.n_cells
    longest = float(np.linalg.norm(recorded.heads.astype(np.float64), axis=1).max())
    found = f"longest {longest:.6g}, allowed {bound:g}"
    if n_cells and n_heads != n_cells:
        return Check("heads", False, f"{n_heads} for {n_cells} cells.")
    return Check("heads", longest <= bound * (1 + _ROUNDING), f"{found}.")


def _description(recorded: Recorded) -> Check:
    """That what the folder says of inputs, labels and training fits the model that it holds."""
    model = recorded.model
    wrong = [] if len(set(model.classes)) == len(model.classes) == 2 else ["classes"]
    if model.feature_names is not None and len(model.feature_names) != model.shape[0]:
        wrong.append("feature_names")
    # Only models of groups of their own, which are averaged, leave anything to note: one bound for each group.
    noted = {"overall_against_group_classifier"} if recorded.settings.method == "fairsmooth" else set()
    bounds = [bound for values in model.notes.values() if isinstance(values, list) for bound in values]
    if set(model.notes) != noted or len(bounds) != len(noted) * len(model.groups):
        wrong.append("notes")
    if not model.made.is_a_day:
        wrong.append("made")
    found = f"{', '.join(wrong)} cannot be those of this model" if wrong else "such as the model has"
    return Check("description", not wrong, f"{found}.")


def _assumptions(recorded: Recorded) -> Check:
    """That columns which nobody declared were paid for, all of them, or are among what is treated as public."""
    plain, privacy = recorded.model.feature_schema, recorded.privacy
    schema = None if plain is None else TableSchema.from_dict(plain)
    declared = schema is None or schema.declared
    named = 0 if schema is None else len(schema.columns) + len(schema.sensitive) + 1
    if privacy.reading is not None:
        passed = not declared and named <= privacy.reading.n_columns
    else:
        passed = declared or READ_FROM_TABLE in privacy.public_assumptions
    found = "say what is treated as public" if passed else "do not say how the schema was read from the table"
    return Check("assumptions", passed, f"{found}.")
