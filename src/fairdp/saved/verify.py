"""`fairdp verify`: everything that can be checked about a saved model, from its files alone.

Hashes and ties between files, the model, which is loaded as for a prediction and scores rows made from its schema, and
the privacy record, recomputed; the rule and the certificate are checked in `verify_checks`.
"""

import hashlib
import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fairdp._io import content_of, parsed_json, restore, to_plain
from fairdp.accounting.mechanisms import RELATION, bound_by, epsilon_spent, joint_multiplier, reading_for
from fairdp.accounting.plan import SizesNoise, counts_std_of, trial_spends
from fairdp.accounting.spent import NOISY, READ_FROM_TABLE, PrivacySpent
from fairdp.data.columns import Binned, Categorical, Column, Numeric
from fairdp.data.schema import TableSchema
from fairdp.errors import InputError, SavedModelError
from fairdp.parameters import NoCertificate
from fairdp.run.plan import declared_sizes, floored, held_out_fraction, plan_run, reason_for_no_certificate
from fairdp.saved.folder import (
    FILES,
    MARKER,
    SCHEMA_VERSION,
    SUMS,
    TENSORS,
    CertificateRecord,
    NoCertificateRecord,
    Signed,
    model_files,
    sha256,
    signature_of,
    usable_model,
)
from fairdp.saved.verify_checks import (
    SAME,
    Check,
    Recorded,
    certificate_checks,
    equal,
    is_moved,
    is_planned,
    rule_check,
    same,
    statement_check,
)

# As many rows as the longest list of probes below has.
_N_ROWS = 3
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


def _checked_records(contents: dict[str, bytes], files: Check) -> list[Check]:
    try:
        found = parsed_json(contents[MARKER]).get("schema_version")
        version = Check("version", found == SCHEMA_VERSION, f"schema version {found}, read here: {SCHEMA_VERSION}.")
        if not version.passed:
            return [files, version]
        return [files, version, *_all_checks(Recorded.of(contents))]
    except (NameError, ImportError):
        # No record leads there: the program is damaged, not the model.
        raise
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


def model_check(recorded: Recorded) -> Check:
    """That shapes, schema and rule are those of one model with finite numbers, which decides about rows."""
    record = recorded.model
    if record.model.kind == "custom":
        return Check("model", True, "has a module of its own, which is code: it is not loaded here.")
    try:
        model = usable_model(record)
        schema = None if record.feature_schema is None else TableSchema.from_dict(record.feature_schema)
        if schema is None:
            # Zeros, ones and minus ones, for a model that reads no table.
            records = np.stack([np.full(model.shape, value, dtype=np.float32) for value in (0.0, 1.0, -1.0)])
            groups = np.zeros(len(records), np.int64)
        else:
            rows = probe_rows(schema)
            records, groups = schema.encode(rows), schema.encode_groups(rows)[0]
    except InputError as error:
        return Check("model", False, str(error))
    if not is_planned(recorded):
        return Check("model", False, "its network is not the one that settings and schema lead to.")
    scores = model.scores(torch.from_numpy(records)).double().numpy()
    chances = record.predictor.chances(model, records, groups=groups, scores=scores)
    decisions = record.predictor.decisions(model, records, groups=groups, scores=scores)
    passed = np.isfinite(scores).all() and ((chances >= 0) & (chances <= 1)).all() and set(decisions) <= {0, 1}
    found = f"{model.params.numel()} finite parameters; decides about rows of its own schema"
    return Check("model", bool(passed), f"{found}." if passed else "its scores or chances are no numbers.")


def probe_rows(schema: TableSchema) -> pd.DataFrame:
    """A few rows that the schema allows: the ends of every column, and what counts as another or a missing value."""
    columns = (*schema.columns, *schema.protected)
    cells = {column.name: itertools.islice(itertools.cycle(_probes(column)), _N_ROWS) for column in columns}
    return pd.DataFrame({name: pd.Series(list(values), dtype=object) for name, values in cells.items()})


def _probes(column: Column) -> list[str]:
    if isinstance(column, Numeric):
        return [repr(column.low), repr(column.high), *([""] if column.missing != "error" else [])]
    if isinstance(column, Binned):
        return [repr(column.edges[0] - 1), repr(column.edges[-1]), repr(column.edges[0])]
    if isinstance(column, Categorical):
        undeclared = "undeclared" if "undeclared" not in column.categories else column.other
        return [column.categories[0], column.categories[-1], *([undeclared] if column.other else [])]
    return [column.value, f"not {column.value}"]


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
    found = f"{', '.join(wrong)} does not name the groups of the model." if wrong else "all files name the same groups."
    return Check("groups", not wrong, found)


def _heads(recorded: Recorded) -> Check:
    """That no head is longer than the bound M that the settings fix, up to the rounding of single precision.

    A joint model has a head for each cell.
    """
    bound, (n_heads, _), n_cells = recorded.recipe.weight_bound, recorded.model.heads, recorded.model.model.n_cells
    longest = float(np.linalg.norm(recorded.heads.astype(np.float64), axis=1).max())
    found = f"longest {longest:.6g}, " + (f"allowed {bound:g}" if np.isfinite(bound) else "no bound")
    if n_cells and n_heads != n_cells:
        return Check("heads", False, f"{n_heads} for {n_cells} cells.")
    return Check("heads", longest <= bound * (1 + _ROUNDING), f"{found}.")


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


def _description(recorded: Recorded) -> Check:
    """That what the folder says of inputs, labels and training fits the model that it holds."""
    model = recorded.model
    wrong = [] if len(set(model.classes)) == len(model.classes) == 2 else ["classes"]
    if model.feature_names is not None and len(model.feature_names) != model.shape[0]:
        wrong.append("feature_names")
    # Only models of groups of their own, which are averaged, leave anything to note: one bound for each group.
    noted = {"overall_against_group_classifier"} if recorded.chosen.method == "fairsmooth" else set()
    bounds = [bound for values in model.notes.values() if isinstance(values, list) for bound in values]
    if set(model.notes) != noted or len(bounds) != len(noted) * len(model.groups):
        wrong.append("notes")
    if not model.made.is_a_day:
        wrong.append("made")
    found = f"{', '.join(wrong)} cannot be those of this model" if wrong else "matches the model"
    return Check("description", not wrong, f"{found}.")


def privacy_checks(recorded: Recorded) -> Iterator[Check]:
    """All checks of the privacy record."""
    yield _epsilon(recorded.privacy)
    yield _mechanism(recorded)
    yield _summary(recorded)
    yield _sizes(recorded.privacy)
    yield _planned(recorded)


def _epsilon(privacy: PrivacySpent) -> Check:
    """Epsilon of each group, recomputed from the recorded mechanism, and the total from those."""
    wrong, delta, selection = [], privacy.delta, privacy.selection
    for group, recorded in privacy.epsilon_by_group.items():
        computed = epsilon_spent(privacy.mechanisms[group], delta, accountant=privacy.accountant)
        if selection is not None:
            computed = selection.epsilon(group, delta)
        if not equal(recorded, computed):
            wrong.append(f"{group}: recorded {recorded}, computed {computed:.6g}")
    largest = max(privacy.epsilon_by_group.values(), default=math.inf)
    if not equal(privacy.epsilon, largest):
        wrong.append(f"total: recorded {privacy.epsilon}, computed {largest:.6g}")
    if selection is not None:
        spends = trial_spends(privacy)
        wrong += [
            f"{group}: no such trial" for group, spend in spends.items() if spend not in selection.by_group[group]
        ]
    if privacy.relation != RELATION:
        wrong.append(f"relation {privacy.relation!r}")
    found = "; ".join(wrong) if wrong else f"recomputed from the recorded mechanism: {largest:.6g} at delta {delta!r}"
    return Check("epsilon", not wrong, f"{found}.")


def _mechanism(recorded: Recorded) -> Check:
    """That no group was accounted for with more noise than was added, in the steps and in the queries beside them."""
    privacy, wrong = recorded.privacy, []
    surveyed = _surveys_multiplier(recorded)
    for group, mechanism in privacy.mechanisms.items():
        sensitivity, multiplier = privacy.sensitivities[group], mechanism.noise_multiplier
        added = privacy.noise_std / sensitivity if math.isfinite(sensitivity) else 0.0
        if privacy.statistics_multiplier and added:
            added = joint_multiplier(added, privacy.statistics_multiplier)
        if multiplier > added * (1 + SAME) or mechanism.n_steps != privacy.n_steps:
            wrong.append(f"{group}: accounted {multiplier:.6g}, added {added:.6g}")
        accounted = getattr(mechanism, "surveys_multiplier", 0.0)
        # No multiplier stands for no queries: where there are some, it would account for none of them.
        if accounted > surveyed * (1 + SAME) or (surveyed and not accounted):
            wrong.append(f"{group}: accounted {accounted:.6g} in surveys, added {surveyed:.6g}")
    if privacy.noise_std and not all(privacy.surveys.values()):
        wrong.append("surveys without noise")
    found = "accounted noise was added in every group"
    if not privacy.noise_std:
        found = "no noise was added: the model is not private, and says so"
    return Check("noise", not wrong, f"{'; '.join(wrong) or found}.")


def _surveys_multiplier(recorded: Recorded) -> float:
    """Noise multiplier of all queries together, each as often as the method looks; zero for none."""
    stds = recorded.privacy.surveys
    each = [stds.get(query.what, 0.0) for query in recorded.recipe.queries for _ in range(query.n_looks)]
    return joint_multiplier(*each) if each and all(each) else 0.0


def _summary(recorded: Recorded) -> Check:
    """That the numbers beside the mechanisms match them."""
    privacy = recorded.privacy
    mechanisms = privacy.mechanisms.values()
    stated = [
        ("sample_rate", privacy.sample_rate, max(mechanism.sample_rate for mechanism in mechanisms)),
        ("noise_multiplier", privacy.noise_multiplier, min(mechanism.noise_multiplier for mechanism in mechanisms)),
        (
            "counts_epsilon",
            privacy.counts_epsilon,
            max(mechanism.counts_epsilon for mechanism in mechanisms) - privacy.histogram_epsilon,
        ),
        ("counts_std", privacy.counts_std, counts_std_of(mechanisms, privacy.selection)),
        ("surveys", _surveys_multiplier(recorded), min(getattr(m, "surveys_multiplier", 0.0) for m in mechanisms)),
    ]
    if privacy.selection is None:
        for name, written in (("rdp", privacy.epsilon_rdp), ("pld", privacy.epsilon_pld)):
            bound = max(bound_by(name, mechanism, privacy.delta) for mechanism in mechanisms)
            stated.append((f"epsilon_{name}", written, bound))
    names = [name for name, written, computed in stated if not equal(written, computed)]
    note = privacy.ledger
    # One of the entries that it adds up is this model's.
    if note is not None and not privacy.epsilon <= note.epsilon_sum * (1 + SAME) >= note.epsilon:
        names.append("ledger")
    wrong = ", ".join(names)
    found = f"{wrong} does not match the mechanisms." if wrong else "its figures match the mechanisms."
    return Check("privacy record", not wrong, found)


def _sizes(privacy: PrivacySpent) -> Check:
    """That sizes said to be counted with noise are whole numbers, or what small ones are raised to."""
    wrong = []
    noise = SizesNoise(epsilon=privacy.counts_epsilon, std=privacy.counts_std)
    if privacy.group_sizes == NOISY and not (noise.epsilon or noise.std):
        wrong = ["sizes without any noise"]
    elif privacy.group_sizes == NOISY:
        (least,) = floored(np.zeros(1, dtype=np.int64), noise)
        wrong = [f"{name}: {n:g}" for name, n in privacy.planned_sizes.items() if n < least or (n != least and n % 1)]
    found = f"{', '.join(wrong)} cannot have been counted" if wrong else f"{privacy.group_sizes}"
    return Check("group sizes", not wrong, f"{found}.")


def _planned(recorded: Recorded) -> Check:
    """That every number of the record follows from the settings and the recorded sizes, planned again here.

    Sizes that were declared are among the settings, so the recorded ones must follow from them.
    """
    chosen, model, privacy, budget = recorded.chosen, recorded.model, recorded.privacy, recorded.budget
    fraction = held_out_fraction(chosen, n_groups=len(model.groups), epsilon=budget.epsilon)
    sizes = {cell: privacy.planned_sizes[cell] for cell in recorded.cells}
    declared = [(1 - fraction) * size for size in declared_sizes(chosen.group_sizes, tuple(sizes))]
    _, _, again = plan_run(
        chosen,
        kind=model.model.kind,
        budget=budget,
        sizes=sizes,
        groups=model.groups,
        certify_fraction=fraction,
        noise_seeded=privacy.noise_seeded,
        public_assumptions=privacy.public_assumptions,
        reading=reading_for(budget, privacy.reading.n_columns) if privacy.reading else None,
        selection=privacy.selection,
    )
    # What a ledger adds up is not planned.
    planned, stated = to_plain(again), to_plain(replace(privacy, ledger=None))
    wrong = [name for name in planned if not same(stated[name], planned[name])]
    if declared and not same(list(sizes.values()), declared):
        wrong.append("planned_sizes")
    # Sizes that were counted once for a whole search have the noise that the search says, but they have some.
    if privacy.group_sizes == NOISY and not (privacy.counts_std or privacy.counts_epsilon):
        wrong.append("counts_std")
    found = f"{', '.join(wrong)} is not that of the settings" if wrong else f"as planned for delta {privacy.delta!r}"
    return Check("plan", not wrong, f"{found}.")


def _uncertified(recorded: Recorded, certificate: NoCertificateRecord) -> Check:
    """That no bound is claimed because none was possible: a bad certificate must not be left out."""
    n_groups, epsilon = len(recorded.model.groups), recorded.budget.epsilon
    reasons = {reason_for_no_certificate(recorded.chosen, n_groups=n_groups, epsilon=epsilon)}
    # Of another rule than the one that was fitted, whatever was certified before says nothing.
    reasons |= {NoCertificate.RULE_MOVED} if is_moved(recorded) else set()
    passed = certificate.reason in reasons
    found = f"no bound is claimed, because {certificate.certificate().explanation}."
    return Check("certificate", passed, found)
