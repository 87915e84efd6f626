"""Checking a saved model without trusting what made it: hashes, epsilon and tau, all computed again."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

from fairdp.saved.folder import MARKER, SCHEMA_VERSION, SUMS, TENSORS
from fairdp.saved.verify.certificate import certificate_checks, statement_check
from fairdp.saved.verify.check import Check, Record, cells_of, settings_of
from fairdp.saved.verify.privacy import privacy_checks

FILES = (TENSORS, MARKER, "privacy.json", "certificate.json")


def verify_folder(folder: Path) -> list[Check]:
    """Check everything that can be checked about a saved model; the first broken file ends the list."""
    if not folder.is_dir():
        raise ValueError(f"{str(folder)!r} is not a folder; name the folder of a saved model.")
    contents, files = _read(folder)
    if not files.passed:
        return [files]
    try:
        model, privacy, certificate = (json.loads(contents[name]) for name in FILES[1:])
        return [files, *_all_checks(contents, model, privacy, certificate)]
    except Exception as error:  # Whatever a damaged record makes of the computation, it is not verified.
        return [files, Check("records", False, f"a record is damaged: {type(error).__name__}: {error}.")]


def _all_checks(contents: Record, model: Record, privacy: Record, certificate: Record) -> Iterator[Check]:
    yield _version(model)
    yield _ties(contents, model, certificate)
    yield _groups(model, privacy, certificate)
    yield from privacy_checks(model, privacy)
    if not certificate["certified"]:
        yield _uncertified(model, certificate)
    else:
        yield from certificate_checks(contents, model, privacy, certificate)
    yield statement_check(certificate)


def _uncertified(model: Record, certificate: Record) -> Check:
    """That no bound is claimed because none could be: a bad certificate may not be left out."""
    passed = certificate["reason"] == settings_of(model).reason_for_no_certificate(len(model["groups"]))
    return Check("certificate", passed, f"no bound is claimed, because {certificate['reason']}.")


def _read(folder: Path) -> tuple[dict[str, bytes], Check]:
    missing = [name for name in (*FILES, SUMS) if not (folder / name).is_file()]
    if len(missing) == len(FILES) + 1:
        raise ValueError(f"{str(folder)!r} holds no saved model; name the folder that fit or save wrote.")
    if missing:
        return {}, Check("files", False, f"missing: {', '.join(missing)}.")
    contents = {name: (folder / name).read_bytes() for name in FILES}
    lines = (folder / SUMS).read_text(errors="replace").splitlines()
    recorded = {line[66:]: line[:64] for line in lines}
    changed = [name for name, content in contents.items() if recorded.get(name) != _sha256(content)]
    if changed:
        return contents, Check("files", False, f"{', '.join(changed)} does not match {SUMS}.")
    return contents, Check("files", True, f"{len(FILES)} files match {SUMS}.")


def _version(model: Record) -> Check:
    version = model.get("schema_version")
    return Check("version", version == SCHEMA_VERSION, f"schema version {version}, read here: {SCHEMA_VERSION}.")


def _ties(contents: Record, model: Record, certificate: Record) -> Check:
    """That the certificate speaks of this model, this rule and this privacy record."""
    broken = [name for name in FILES[:3] if certificate["files"].get(name) != _sha256(contents[name])]
    if certificate["certified"]:
        about, rule = certificate["about"], dict(model["predictor"])
        if about["model_sha256"] != _sha256(contents[TENSORS]):
            broken.append(f"{TENSORS} (as certified)")
        key = rule.pop("key")
        rule["key_id"] = hashlib.sha256(key.encode()).hexdigest()[:16] if key else None
        if about["predictor"] != rule:
            broken.append("predictor")
        diluted = certificate["dilution"]
        if diluted and (diluted["share"], diluted["constant"]) != (rule["dilution"], rule["constant"]):
            broken.append("dilution")
        if about["smoothing"] != model["smoothing"]:
            broken.append("smoothing")
    found = f"belongs to another {', '.join(broken)}." if broken else "belongs to this model and this privacy record."
    return Check("certificate's model", not broken, found)


def _groups(model: Record, privacy: Record, certificate: Record) -> Check:
    """That every record speaks of all the groups that the model knows."""
    sampled = [cell for group in model["groups"] for cell in cells_of(model, group)]
    named = {field: privacy[field] for field in ("planned_sizes", "epsilon_by_group", "mechanisms", "sensitivities")}
    wrong = [field for field, names in named.items() if sorted(names) != sorted(sampled)]
    named = {"certify_epsilons": privacy["certify_epsilons"]} if privacy["certify_fraction"] else {}
    if certificate["certified"]:
        named |= {"group_names": certificate["group_names"], "certificate": certificate["epsilon_by_group"]}
    wrong += [field for field, names in named.items() if sorted(names) != sorted(model["groups"])]
    found = f"{', '.join(wrong)} names other groups than the model." if wrong else "every record names all groups."
    return Check("groups", not wrong, found)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
