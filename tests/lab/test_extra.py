"""Commands of the laboratory without a package of the extra `lab`: one line says what is missing."""

import json
import subprocess
import sys

# Each command with a package that it lacks; all of them in one process, which loads torch once.
LACKING = [
    ("matplotlib", ["demo", "--out", "demo"]),
    ("matplotlib", ["compare", "--dataset", "synthetic", "--out", "comparison"]),
    ("matplotlib", ["reproduce", "certificate-slack", "--quick"]),
    ("matplotlib", ["bench", "--quick"]),
    # Opacus first: what was found once stays loaded.
    ("opacus", ["bench", "--quick"]),
    ("interpret", ["bench", "--quick"]),
]
RUN = """
import contextlib, io, json, sys

class Hidden:
    name = None

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == self.name:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

hidden = Hidden()
sys.meta_path.insert(0, hidden)
from fairdp.cli import main

ended = []
for hidden.name, arguments in json.loads(sys.argv[1]):
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        try:
            main(arguments)
        except SystemExit as stop:
            ended.append([stop.code, said.getvalue()])
print(json.dumps(ended))
"""


def test_each_command_that_lacks_a_package_says_in_one_line_what_to_install(tmp_path):
    command = [sys.executable, "-c", RUN, json.dumps(LACKING)]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    ended = json.loads(ran.stdout.splitlines()[-1])
    assert len(ended) == len(LACKING)
    for (package, (name, *_)), (code, said) in zip(LACKING, ended, strict=True):
        assert code == 2, said
        assert said.count("\n") == 1, said
        assert name in said
        assert "pip install 'fairdp[lab]'" in said
        assert {"interpret": "DP-EBM", "opacus": "Opacus"}.get(package, package) in said
    # What was refused has begun nothing.
    assert not list(tmp_path.rglob("*.safetensors"))
