"""`fairdp sign` and `fairdp verify --public-key`: damage, forgery, another key and no signature are told apart."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization as pem
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fairdp.saved.folder import FILES
from forgeries import flip, saved, sum_up, tie

UNPROTECTED = pem.NoEncryption()


def write_keys(key, name, encryption=UNPROTECTED):
    """As openssl writes them: PKCS #8, and the public key beside it."""
    private = key.private_bytes(pem.Encoding.PEM, pem.PrivateFormat.PKCS8, encryption)
    public = key.public_key().public_bytes(pem.Encoding.PEM, pem.PublicFormat.SubjectPublicKeyInfo)
    Path(f"{name}.pem").write_bytes(private)
    Path(f"{name}.pub").write_bytes(public)


@pytest.fixture(scope="module")
def unsigned(tmp_path_factory):
    return saved("parity alone", tmp_path_factory.mktemp("signing") / "model")


@pytest.fixture(autouse=True)
def workplace(unsigned, tmp_path, monkeypatch):
    shutil.copytree(unsigned, tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    write_keys(Ed25519PrivateKey.generate(), "mine")
    write_keys(Ed25519PrivateKey.generate(), "other")


@pytest.fixture
def signed(run):
    assert run("sign", "model", "--key", "mine.pem").code == 0


@pytest.fixture
def verified(run):
    """Exit code of verify, what it found of files and signature, and its scope."""

    def call(key="mine.pub"):
        result = run("verify", "model", "--public-key", key, "--json")
        assert result.err == ""
        answer = json.loads(result.out)
        found = {check["name"]: (check["passed"], check["found"]) for check in answer["checks"]}
        assert answer["verified"] is (result.code == 0) is all(passed for passed, _ in found.values())
        return result.code, found["files"], found["signature"], answer["scope"]

    return call


def forge():
    """Write a file anew and make everything consistent again, as somebody with the folder but not the key would."""
    path = Path("model/model.json")
    path.write_text(json.dumps(json.loads(path.read_bytes()), indent=4))
    signature = Path("model/SIGNATURE").read_bytes()
    Path("model/SIGNATURE").unlink()
    tie(Path("model"))
    sum_up(Path("model"))
    Path("model/SIGNATURE").write_bytes(signature)


@pytest.mark.usefixtures("signed")
def test_a_signed_folder_is_verified_and_says_what_that_means(verified, golden):
    code, files, signature, scope = verified()
    assert (code, files[0], signature[0]) == (0, True, True)
    golden("models", "verify, signed", f"{signature[1]}\n{scope}")


@pytest.mark.usefixtures("signed")
def test_the_signature_is_not_among_the_sums_and_changes_nothing_else(unsigned):
    assert "SIGNATURE" not in Path("model/SHA256SUMS").read_text()
    assert all(Path("model", name).read_bytes() == (unsigned / name).read_bytes() for name in (*FILES, "SHA256SUMS"))


@pytest.mark.usefixtures("signed")
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("where", [0.0, 1.0])
def test_one_changed_byte_is_damage_and_the_signature_still_fits(verified, name, where):
    path = Path("model", name)
    flip(path, round(where * (path.stat().st_size - 1)))
    code, files, signature, scope = verified()
    assert (code, files[0], signature[0]) == (1, False, True)
    assert name in files[1]
    assert "Verified" not in scope


@pytest.mark.usefixtures("signed")
def test_a_folder_that_was_hashed_again_is_called_rewritten_although_all_its_files_agree(verified, run, golden):
    forge()
    assert run("verify", "model").code == 0
    code, files, signature, scope = verified()
    assert (code, files[0], signature[0]) == (1, True, False)
    golden("models", "verify, rewritten after signing", f"{signature[1]}\n{scope}")


@pytest.mark.usefixtures("signed")
def test_changed_sums_are_damage(verified, golden):
    flip(Path("model/SHA256SUMS"), 3)
    code, files, signature, _ = verified()
    assert (code, files[0], signature[0]) == (1, False, False)
    golden("models", "verify, changed sums", signature[1])


def test_a_missing_signature_is_called_missing(verified, golden):
    code, files, signature, _ = verified()
    assert (code, files[0], signature[0]) == (1, True, False)
    golden("models", "verify, not signed", signature[1])


@pytest.mark.usefixtures("signed")
def test_another_key_is_called_another_key(verified):
    assert verified("other.pub")[2] == (False, "made with another key than this one.")
    assert verified("other.pub")[0] == 1


def test_whoever_rewrites_a_folder_cannot_sign_for_the_holder_of_the_key(run, verified):
    """Signed by another key that says it is ours: the key in the file is not believed."""
    run("sign", "model", "--key", "other.pem")
    assert verified()[2] == (False, "made with another key than this one.")
    record = json.loads(Path("model/SIGNATURE").read_bytes())
    run("sign", "model", "--key", "mine.pem")
    mine = json.loads(Path("model/SIGNATURE").read_bytes())["public_key"]
    Path("model/SIGNATURE").write_text(json.dumps({**record, "public_key": mine}))
    code, _, signature, _ = verified()
    assert (code, signature[0]) == (1, False)
    assert "does not fit" in signature[1]


@pytest.mark.usefixtures("signed")
def test_not_one_changed_byte_of_the_signature_passes_as_another_signature(verified, monkeypatch):
    """All bytes of the signature itself; those of the key's name may only ever make it another key."""
    from fairdp.saved import verify as verification

    monkeypatch.setattr(verification, "_checked_records", lambda contents, files: [files])
    path = Path("model/SIGNATURE")
    good = path.read_bytes()
    start = good.index(b'"signature": "') + len(b'"signature": "')
    for position in range(start, start + 128):
        flip(path, position)
        assert verified()[0] == 1, position
        path.write_bytes(good)
    assert verified()[0] == 0


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"algorithm": "Ed25519"}', b"\xff", b'{"a": 1, "a": 2}', b"[" * 100_000]
)
def test_what_is_no_signature_is_called_damaged(verified, content):
    Path("model/SIGNATURE").write_bytes(content)
    assert verified()[2] == (False, "SIGNATURE is damaged: it cannot be read.")


def test_a_damaged_folder_is_not_signed(refused):
    flip(Path("model/privacy.json"), 5)
    refused("sign", "model", "--key", "mine.pem")


def test_sums_that_also_fit_another_file_are_not_signed(refused):
    """With a second line, the other file could be put in after signing."""
    with Path("model/SHA256SUMS").open("a") as sums:
        sums.write(f"{'0' * 64}  model.json\n")
    refused("sign", "model", "--key", "mine.pem")


KEYS = {
    "missing": "none",
    "a folder": "model",
    "no key": "model/privacy.json",
    "another kind": "curve.{}",
    "the other half": "mine.{}",
}


@pytest.mark.parametrize("case", KEYS)
def test_a_key_that_cannot_be_used_is_refused_in_one_line(refused, case):
    write_keys(generate_private_key(SECP256R1()), "curve")
    ends = ("pub", "pem") if case == "the other half" else ("pem", "pub")
    for end, command in zip(ends, ("sign --key", "verify --public-key"), strict=True):
        verb, flag = command.split()
        refused(verb, "model", flag, KEYS[case].format(end))


def test_a_key_with_a_passphrase_is_refused_in_one_line(refused):
    write_keys(Ed25519PrivateKey.generate(), "locked", pem.BestAvailableEncryption(b"secret"))
    refused("sign", "model", "--key", "locked.pem")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl program")
def test_keys_are_those_of_openssl_and_it_accepts_the_signature(run, verified):
    """The command given in the help makes a key, and anyone can check the signature without this program."""
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", "o.pem"], check=True)
    subprocess.run(["openssl", "pkey", "-in", "o.pem", "-pubout", "-out", "o.pub"], check=True)
    assert run("sign", "model", "--key", "o.pem").code == 0
    assert verified("o.pub")[0] == 0
    Path("raw").write_bytes(bytes.fromhex(json.loads(Path("model/SIGNATURE").read_bytes())["signature"]))
    check = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", "o.pub", "-rawin", "-in", "model/SHA256SUMS"]
    assert subprocess.run([*check, "-sigfile", "raw"], capture_output=True).returncode == 0
    flip(Path("raw"), 7)
    assert subprocess.run([*check, "-sigfile", "raw"], capture_output=True).returncode != 0
