"""Run the pages that show what commands and code print, and write the figures: `python docs/answers.py [PAGE…]`.

With `--check` nothing is written, and it is an error where a page shows something else. Words have to be the same
anywhere; digits on the kind of processor that is noted on the page, because another kind rounds otherwise.
"""

import contextlib
import io
import os
import platform
import re
import shlex
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

DOCS = Path(__file__).resolve().parent
README = DOCS.parent / "README.md"
# The sources beside these pages, whatever is installed.
sys.path.insert(0, str(DOCS.parent / "src"))
# Its first answer is in the README, too, without what only the seed of a page makes it say.
FIRST = "tutorials/first-report"
PAGES = (
    FIRST,
    "how-to/reach-a-target",
    "how-to/own-networks",
    "explanation/certificate",
    "lab/compare-and-reproduce",
    "lab/errata",
)
FENCES = re.compile(r"^```(python|sh|text)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
NOTE_LINE = "\n<!-- Figures by `python docs/answers.py` on {} -->\n"
NOTE = re.compile(r"\n<!-- Figures by `python docs/answers.py` on (.*) -->\n")
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e-?\d+)?")
_SEED = re.compile(r";\s+keep\s+the\s+seed\s+secret")


def processor() -> str:
    """Facts that decide how sums are rounded: maker and instructions of the processor, and the version of torch."""
    import torch

    info = Path("/proc/cpuinfo")
    maker = re.search(r"vendor_id\s*: (\w+)", info.read_text() if info.exists() else "")
    instructions = torch.backends.cpu.get_cpu_capability()
    return f"{platform.machine()} {maker[1] if maker else '?'} {instructions}, torch {torch.__version__.split('+')[0]}"


def printed(run: Callable[[], object]) -> str:
    """Output of a piece of the page; warnings are for people here."""
    stdout = io.StringIO()
    with contextlib.redirect_stdout(stdout), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run()
    return stdout.getvalue()


def run_line(line: str) -> str:
    """One line of a shell block; ours in this process, because starting it anew would load torch again."""
    command, _, target = line.split("  #")[0].partition(" > ")
    if not command.startswith("fairdp "):
        return subprocess.run(["bash", "-ec", line], capture_output=True, text=True, check=True).stdout

    def ours() -> None:
        from fairdp.cli import main

        try:
            main(shlex.split(command)[1:])
        except SystemExit as stop:
            if stop.code:
                raise RuntimeError(f"{line}: exit code {stop.code}") from None

    found = printed(ours)
    if target:
        Path(target.strip()).write_text(found)
    return found


def answers(text: str) -> list[tuple[str, str]]:
    """Every block of a page that shows what was printed, with what the block before it prints, run where we are."""
    names: dict[str, object] = {"__name__": "page"}
    found, output = [], ""
    for language, block in FENCES.findall(text):
        if language == "python":
            code = compile(block, "page", "exec")
            output = printed(lambda code=code: exec(code, names))
        elif language == "sh":
            commands = [line for line in block.replace("\\\n", "").splitlines() if line and not line.startswith("#")]
            output = "".join(run_line(line) for line in commands)
        else:
            found.append((block, output))
    return found


def lines_of(text: str, *, digits: bool) -> list[str]:
    """The lines without layout, and with every number as one sign unless digits count."""
    shown = text if digits else _NUMBER.sub("#", text)
    return [" ".join(line.split()) for line in shown.splitlines()]


def _fits(line: str, own: str) -> bool:
    """True if a printed line is one that a page shows; "…" stands for the rest of it."""
    return own.startswith(line[:-1]) if line.endswith("…") else own == line


def not_printed(shown: str, output: str, *, digits: bool) -> list[str]:
    """Lines that a page shows and that did not come out; "…" alone stands for lines."""
    found = lines_of(output, digits=digits)
    lines = lines_of(shown, digits=digits)
    return [line for line in lines if line != "…" and not any(_fits(line, own) for own in found)]


def rewritten(shown: str, output: str) -> str:
    """Text of a page, with the numbers that came out; its words have to have come out already."""
    shapes, own, place = lines_of(output, digits=False), output.splitlines(), 0
    made = []
    for line, shape in zip(shown.splitlines(), lines_of(shown, digits=False), strict=True):
        after = [i for i in range(len(shapes)) if _fits(shape, shapes[i])]
        if shape != "…" and after:
            place = next((i for i in after if i >= place), after[0])
            numbers = iter(_NUMBER.findall(own[place]))
            line = _NUMBER.sub(lambda _, numbers=numbers: next(numbers), line)
            place += 1
        made.append(f"{line}\n")
    return "".join(made)


def in_readme(block: str) -> str:
    """The first answer of the tutorial as the README has it."""
    return _SEED.sub("", block)


def differences(name: str) -> list[str]:
    """Lines that a page shows and does not print."""
    text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    noted = NOTE.search(text)
    digits = noted is not None and noted[1] == processor()
    return [line for shown, output in answers(text) for line in not_printed(shown, output, digits=digits)]


def write(name: str) -> list[str]:
    """The page again, with the numbers that come out here; lines whose words did not come out are for a person."""
    path = DOCS / f"{name}.md"
    text = path.read_text(encoding="utf-8")
    wrong = []
    for shown, output in answers(text):
        wrong += not_printed(shown, output, digits=False)
        text = text.replace(f"```text\n{shown}```", f"```text\n{rewritten(shown, output)}```")
    title, _, rest = NOTE.sub("", text).partition("\n")
    path.write_text(f"{title}\n{NOTE_LINE.format(processor())}{rest}", encoding="utf-8")
    if name == FIRST:
        answer = next(block for _, block in FENCES.findall(text) if block.startswith("result "))
        readme = README.read_text(encoding="utf-8")
        (shown,) = (block for _, block in FENCES.findall(readme) if block.startswith("result "))
        README.write_text(readme.replace(shown, rewritten(shown, in_readme(answer))), encoding="utf-8")
    return wrong


def main(arguments: list[str]) -> int:
    """Write the pages, or check them; 1 if a page shows what was not printed."""
    wrong = []
    for name in [word for word in arguments if word != "--check"] or PAGES:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            os.environ["FAIRDP_LEDGER"] = str(Path(folder) / "ledger.sqlite")
            found = differences(name) if "--check" in arguments else write(name)
        wrong += [f"{name}: not printed: {line}" for line in found]
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
