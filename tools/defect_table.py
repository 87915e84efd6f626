"""Writes results/audit-defects.md and .json: privacy defects that are put back, and what the replay finds of each.

Run with `OMP_NUM_THREADS=1 python tools/defect_table.py`.
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "results" / "audit-defects"


def main() -> None:
    """Put every defect back in turn."""
    sys.path.insert(0, str(ROOT / "tests"))
    from privacy_defects import DEFECTS, FOUND_BY_TESTS

    rows = []
    for defect in DEFECTS:
        violations = defect.put_back().violations
        named = [v for v in violations if defect.found in f"{v.release}: {v.found}"]
        first = (named or violations or [None])[0]
        rows.append(
            {
                "defect": defect.name,
                "was in fairdp": defect.mended,
                "method": defect.method,
                "route": defect.route,
                "found": bool(named),
                "neighbour": first.neighbour if first else "",
                "release": first.release if first else "",
                "what was found": first.found if first else "",
            }
        )
        print(f"{'found' if named else 'NOT FOUND'}: {defect.name}")
    found = {"replay": rows, "tests": FOUND_BY_TESTS}
    OUT.with_suffix(".json").write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n")
    OUT.with_suffix(".md").write_text(page(rows, FOUND_BY_TESTS))


def page(rows: list[dict[str, object]], elsewhere: dict[str, str]) -> str:
    """The tables for readers."""
    found = sum(bool(row["found"]) for row in rows)
    lines = [
        "# Privacy defects that replay finds",
        "",
        "Each defect was put back by a small patch (`tests/privacy_defects.py`), and one method was replayed on one "
        f"route with it: {found} of {len(rows)} are found. Without the patch the same replay finds nothing.",
        "",
        "| defect | was in fairdp | method, route | neighbour | where | what was found |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        where = f"{row['method']}, {row['route']}"
        was = "yes" if row["was in fairdp"] else "no"
        text = str(row["what was found"]).replace("|", "\\|")
        lines.append(f"| {row['defect']} | {was} | {where} | {row['neighbour']} | {row['release']} | {text} |")
    lines += ["", "Mended defects that no replay can show, each with the test that fails when it is put back:", ""]
    lines += ["| defect | test |", "|---|---|"]
    lines += [f"| {defect} | `{test}` |" for defect, test in elsewhere.items()]
    return "\n".join([*lines, "", "<sub>Made by `OMP_NUM_THREADS=1 python tools/defect_table.py`.</sub>", ""])


if __name__ == "__main__":
    main()
