"""Folders, schemas, checkpoints, tables, keys and arguments that somebody has forged; what is verified must predict."""

import csv
import functools
import hashlib
import json
import shutil
from collections.abc import Callable
from contextlib import chdir, suppress
from pathlib import Path
from random import Random
from unittest.mock import patch

import yaml

from checkpoint_forgeries import DIGEST_BYTES, seal
from cli_cases import SCHEMA, people
from faults.forging import changed, changed_bytes, changed_json, changed_tensors, changed_text, nasty
from faults.tables import changed_csv, changed_parquet
from faults.trials import Run, Trials, complaints, run_cases, run_command
from forgeries import TIED, sum_up, tie

FIT = ("fit", "people.csv", "--schema", "schema.yaml", "--no-ledger", "--epsilon", "5", "--n-steps", "3")
PLAIN = ("--certify-fraction", "0")
MODELS = {
    "frontier": PLAIN,
    "certified": ("--method", "fairdp", "--certify-metrics", "demographic_parity", "--seed", "0"),
    "postprocessed": ("--method", "dp_postprocess", *PLAIN),
    "smoothed": ("--method", "dpsgd_smooth", "--n-draws", "4", *PLAIN),
    "several heads": ("--method", "fairdp", "--predictor", "gibbs", "--n-members", "3", *PLAIN),
}
CHECKPOINT = (*FIT, "--method", "fairdp", "--out", "new", "--checkpoint", "run.ckpt", *PLAIN)
FILES = (*TIED, "certificate.json")
Forgery = Callable[[Random, Path, Run], list[str]]


def prepared(place: Path) -> Path:
    """A folder with a table, its schema, models, a checkpoint, keys and an audit, which every case has a copy of."""
    base = prepared_run(place)
    with chdir(base):
        people(240).to_parquet("people.parquet", index=False)
        people(6, seed=1).to_csv("small.csv", index=False)
        people(120, seed=2).to_csv("fresh.csv", index=False)
        for name, options in MODELS.items():
            _must(run_command(*FIT, "--out", name, *options))
        _keys()
    return base


def prepared_run(place: Path) -> Path:
    """A folder with a table, its schema, and the checkpoint of a run that was interrupted."""
    base = place / "base"
    base.mkdir()
    with chdir(base):
        people(240).to_csv("people.csv", index=False)
        Path("schema.yaml").write_text(yaml.safe_dump(SCHEMA))
        _interrupted()
    return base


def _must(ended: tuple[int, str]) -> None:
    assert ended[0] == 0, ended


def _interrupted() -> None:
    from fairdp.training.loop import Trainer

    with patch.object(Trainer, "settle", side_effect=[None, KeyboardInterrupt]):
        code, said = run_command(*CHECKPOINT)
    assert code == 130, said


def _keys() -> None:
    from cryptography.hazmat.primitives import serialization as forms
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    pem, plain = forms.Encoding.PEM, forms.NoEncryption()
    Path("key.pem").write_bytes(key.private_bytes(pem, forms.PrivateFormat.PKCS8, plain))
    Path("public.pem").write_bytes(key.public_key().public_bytes(pem, forms.PublicFormat.SubjectPublicKeyInfo))
    _must(run_command("sign", "certified", "--key", "key.pem"))


def _checked(run: Run, *arguments: object) -> list[str]:
    return complaints(*run(*arguments))


def _hash_again(folder: Path) -> None:
    # Where its certificate is no record any more, only the sums can follow.
    with suppress(ValueError, TypeError, KeyError, RecursionError):
        tie(folder)
    sum_up(folder)


def _folder(rng: Random, here: Path, run: Run) -> list[str]:
    """One or two files of a model, mostly hashed again; what is verified must predict."""
    name = rng.choice(tuple(MODELS))
    for file in rng.sample((*FILES, "model.json", "SHA256SUMS"), rng.choice((1, 1, 2))):
        path = here / name / file
        change = (
            changed_tensors
            if file.endswith("safetensors")
            else changed_json
            if file.endswith("json")
            else changed_bytes
        )
        path.write_bytes(change(rng, path.read_bytes()))
    if rng.randrange(10):
        _hash_again(here / name)
    code, said = run("verify", name)
    wrong = complaints(code, said)
    if code == 0:
        write_table_of(here / name, here / "small.csv")
    predicted, why = run("predict", name, "small.csv", "--out", "o.csv")
    wrong += complaints(predicted, why)
    if code == 0 and predicted != 0:
        wrong.append(f"verified, but it does not predict: {why[:200]!r}")
    return wrong


def write_table_of(folder: Path, path: Path) -> None:
    """Rows that the schema of a model declares, whatever it declares."""
    schema = json.loads((folder / "model.json").read_bytes())["feature_schema"]
    columns = {entry["name"]: entry["groups"] for entry in schema["sensitive"]}
    for entry in schema["columns"]:
        kinds = {"categorical": "categories", "binned": "edges"}
        kind = kinds.get(entry["type"])
        numbers = [entry["low"], (entry["low"] + entry["high"]) / 2, entry["high"]] if "low" in entry else ["x"]
        columns[entry["name"]] = entry[kind] if kind else numbers
    n_rows = max(map(len, columns.values()))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows([values[row % len(values)] for values in columns.values()] for row in range(n_rows))


def _other_commands(rng: Random, here: Path, run: Run) -> list[str]:
    """The same, through the commands that read models beside these two."""
    name = rng.choice(tuple(MODELS))
    path = here / name / rng.choice(FILES)
    path.write_bytes((changed_tensors if path.suffix == ".safetensors" else changed_json)(rng, path.read_bytes()))
    _hash_again(here / name)
    commands = (
        ("evaluate", name, "small.csv", "--seed", "0"),
        ("shift", name, "--gamma", "0.1"),
        ("retarget", name, "--max-gap", "0.1", "--out", "moved"),
        ("report", name, "--out", "r.html"),
        ("sign", name, "--key", "key.pem"),
        ("ledger", "check", name, "--ledger", "none.sqlite"),
    )
    return _checked(run, *rng.choice(commands))


def _schema(rng: Random, here: Path, run: Run) -> list[str]:
    """A schema with other values or another text; one that is accepted trains, and its model predicts."""
    path = here / "schema.yaml"
    how = rng.randrange(4)
    if how < 2:
        path.write_text(yaml.safe_dump(changed(rng, SCHEMA), allow_unicode=True))
    elif how == 2:
        path.write_text(_with_yaml(rng, path.read_text()))
    else:
        path.write_bytes(changed_bytes(rng, path.read_bytes()))
    code, said = run(*FIT, "--out", "new", "--method", "dpsgd", *PLAIN)
    wrong = complaints(code, said)
    if code == 0:
        predicted, why = run("predict", "new", "people.csv", "--out", "o.csv")
        wrong += complaints(predicted, why)
        wrong += [f"fitted, but it does not predict: {why[:200]!r}"] if predicted else []
    return wrong


YAML = (
    *("a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c]", "? [a]\n: b", "!!python/object:os.system x"),
    *("- " * 5000, "<<: {a: 1}", "2020-13-45", "!!timestamp x", "!!binary x", "!!set {a}", "!!int ''", "!!float x"),
    *("1:60:60", "---\n---", "0b" + "1" * 3000, "0x" + "f" * 3000, ".nan", ".inf", "&a *a", "%YAML 9.9", "\t- x"),
    *("{" * 300, "key: >\n  x", "@", "`"),
)


def _with_yaml(rng: Random, text: str) -> str:
    lines = text.splitlines()
    lines.insert(rng.randrange(len(lines) + 1), rng.choice(YAML))
    return "\n".join(lines) if rng.randrange(2) else changed_text(rng, text)


def _checkpoint(rng: Random, here: Path, run: Run) -> list[str]:
    """A checkpoint that was changed and hashed again, or what stands beside it."""
    path = here / "run.ckpt"
    how = rng.randrange(10)
    if how < 7:
        content = path.read_bytes()[:-DIGEST_BYTES]
        seal(path, _changed_record(rng, content) if how < 4 else changed_tensors(rng, content))
    elif how < 9:
        path.write_bytes(changed_bytes(rng, path.read_bytes()))
    else:
        beside = here / "run.ckpt.key"
        beside.write_bytes(changed_bytes(rng, beside.read_bytes()))
    return _checked(run, *CHECKPOINT, "--resume")


def _changed_record(rng: Random, content: bytes) -> bytes:
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    about = header["__metadata__"]
    about["fairdp"] = changed_json(rng, about["fairdp"].encode()).decode(errors="replace")
    made = json.dumps(header).encode()
    return len(made).to_bytes(8, "little") + made + content[8 + size :]


def _beside(rng: Random, here: Path, run: Run) -> list[str]:
    """Signatures and keys."""
    if rng.randrange(3) == 0:
        path = here / "certified" / "SIGNATURE"
        path.write_bytes(changed_json(rng, path.read_bytes()))
    else:
        path = here / rng.choice(("key.pem", "public.pem"))
        path.write_bytes(changed_bytes(rng, path.read_bytes()))
    if path.name == "key.pem":
        return _checked(run, "sign", "certified", "--key", "key.pem")
    return _checked(run, "verify", "certified", "--public-key", "public.pem")


def _table(rng: Random, here: Path, run: Run) -> list[str]:
    """A table that a model is asked about, certified on, or that a schema is proposed for."""
    name = "people.csv" if rng.randrange(2) else "people.parquet"
    path = here / name
    path.write_bytes((changed_csv if name.endswith("csv") else changed_parquet)(rng, path.read_bytes()))
    commands = (
        *(("predict", "frontier", name, "--out", "o.csv"), ("predict", "postprocessed", name, "--out", "o.parquet")),
        *(("evaluate", "several heads", name, "--seed", "0"), ("schema", name, "--label", "y", "--sensitive", "sex")),
        ("certify", "frontier", name, "--epsilon", "1", "--no-ledger", "--allow-equal"),
    )
    return _checked(run, *rng.choice(commands))


ARGUMENTS = {
    "fit": (
        "epsilon delta n-steps sample-rate clip-norm learning-rate confidence label certify-fraction "
        "sensitive positive hidden test-fraction seed group-sizes max-gap min-ratio method n-members "
        "noise-multiplier out schema checkpoint"
    ),
    "predict": "out id",
    "evaluate": "confidence seed dataset",
    "certify": "epsilon confidence of seed budget require-tau",
    "plan": "epsilon delta n-steps sample-rate group-sizes confidence noise-multiplier",
    "shift": "gamma",
    "retarget": "max-gap min-ratio price out",
    "verify": "public-key",
    "sign": "key",
    "report": "out audit comparison card profile appendix",
    "schema": "label sensitive positive",
}
GIVEN = {
    "fit": (*FIT[1:], "--method", "dpsgd"),
    "predict": ("frontier", "small.csv", "--out", "o.csv"),
    "evaluate": ("frontier", "small.csv"),
    "certify": ("frontier", "fresh.csv", "--no-ledger", "--allow-equal", "--epsilon", "1"),
    "plan": ("--group-sizes", "100,100", "--epsilon", "1"),
    "shift": ("certified", "--gamma", "0.1"),
    "retarget": ("frontier", "--max-gap", "0.1", "--out", "moved"),
    "verify": ("certified",),
    "sign": ("certified", "--key", "key.pem"),
    "report": ("frontier", "--out", "r.html"),
    "schema": ("people.csv", "--label", "y", "--sensitive", "sex"),
}


def _arguments(rng: Random, here: Path, run: Run) -> list[str]:
    """A command with an argument that is something else."""
    command = rng.choice(tuple(ARGUMENTS))
    given = list(GIVEN[command])
    if rng.randrange(3):
        value = rng.choice(
            (nasty(rng), rng.choice(("people.csv", "certified", ".", "/dev/null", "a,b", "=", "f=1,m=0")))
        )
        given += [f"--{rng.choice(ARGUMENTS[command].split())}", "" if value is None else value]
    else:
        given[rng.randrange(len(given))] = str(nasty(rng))
    # What no process can be given is no argument.
    return _checked(run, command, *(str(value).replace("\x00", "\\0") for value in given))


KINDS: dict[str, tuple[Forgery, int]] = {
    "model folders": (_folder, 30),
    "model folders through other commands": (_other_commands, 15),
    "schemas": (_schema, 15),
    "checkpoints": (_checkpoint, 15),
    "used records, signatures and keys": (_beside, 5),
    "tables": (_table, 12),
    "arguments": (_arguments, 8),
}


def case_of(base: Path, name: str) -> Callable[[Path, Run], list[str]]:
    """The case of a name, ``kind: number``, always the same one."""
    forge = KINDS[name.partition(":")[0]][0]

    def case(here: Path, run: Run) -> list[str]:
        shutil.copytree(base, here, dirs_exist_ok=True)
        seed = hashlib.sha256(name.encode()).digest()
        return forge(Random(int.from_bytes(seed, "little")), here, run)

    return case


def names_of(n_cases: int) -> list[str]:
    """So many cases, shared by the kinds."""
    total = sum(share for _, share in KINDS.values())
    return [f"{kind}: {i}" for kind, (_, share) in KINDS.items() for i in range(round(n_cases * share / total))]


def forged(place: Path, n_cases: int = 10_000, *, batch: int = 50) -> Trials:
    """Run so many forgeries of all kinds."""
    base = prepared(place)
    return run_cases(names_of(n_cases), functools.partial(case_of, base), place, batch=batch)


def with_a_crash(place: Path, n_cases: int = 40) -> Trials:
    """Negative control: reading a schema fails as no reader should, and every such case must be counted."""
    base = prepared(place)
    with patch("fairdp.data.schema.read_plain", side_effect=ZeroDivisionError):
        return run_cases([f"schemas: {i}" for i in range(n_cases)], functools.partial(case_of, base), place)
