"""Write docs/reference/parameters.md from the declarations: `python docs/parameter_reference.py`."""

from collections.abc import Iterator
from pathlib import Path

from fairdp.config import DEFAULTS, FEWEST_STEPS, SMALLEST_BATCH
from fairdp.defaults import BY_METHOD, default_text, of_group, shown
from fairdp.methods import METHODS
from fairdp.parameters import GROUPS, Declaration

PAGE = Path(__file__).parent / "reference" / "parameters.md"

OPENING = """# Parameters

<!-- Made by `python docs/parameter_reference.py`; change src/fairdp/parameters.py or config.py instead. -->

`FairDPClassifier(epsilon=2, max_gap=.05)` and `fairdp fit --epsilon 2 --max-gap .05` take the same parameters. Nobody
needs all of them: the groups, and the parameters in each, are listed with the most needed first. In Python, None stands
for a default that depends on other choices. `fairdp tune` and `fairdp compare --grid` take the names without dashes.
"""

DEPENDENT = """
## Defaults by method and model

Where a default depends on the method, the tables above give it for the model that `auto` picks. These are the defaults
for every combination:

"""

CLOSING = """
Combinations that are not in the table use the defaults of "others"; logistic models and your own modules use those of
the MLP. The sampling rate is raised if the smallest group would have fewer than {batch} records in an average batch,
and the number of steps follows from it: every record is seen as often as before, in at least {steps} steps.
"""


def page() -> str:
    """The whole page."""
    groups = ("\n".join([f"\n## {group}\n", *_rows(group)]) + "\n" for group in GROUPS)
    closing = CLOSING.format(batch=SMALLEST_BATCH, steps=FEWEST_STEPS)
    return "".join([OPENING, *groups, DEPENDENT, "\n".join(_dependent_rows()), "\n", closing])


def _rows(group: str) -> Iterator[str]:
    yield from ("| parameter | flag | default | meaning |", "|---|---|---|---|")
    for declared in of_group(group):
        flag = f"`{declared.flags}`" if declared.flags else "–"
        yield f"| `{declared.name}` | {flag} | {_default(declared)} | {_meaning(declared)} |"


def _default(declared: Declaration) -> str:
    text = default_text(declared.name)
    return f"`{text}`" if text == shown(declared.default) else text or "–"


def _meaning(declared: Declaration) -> str:
    choices = ", ".join(f"`{choice}`" for choice in declared.choices)
    return f"{declared.help} One of {choices}." if choices else declared.help


def _dependent_rows() -> Iterator[str]:
    yield f"| method | model | {' | '.join(f'`{name}`' for name in BY_METHOD)} |"
    yield "|---" * (2 + len(BY_METHOD)) + "|"
    rows = [("others", kind, own) for kind, own in DEFAULTS.items()]
    rows += [(f"`{name}`", kind, own) for name, method in METHODS.items() for kind, own in method.defaults.items()]
    for name, kind, own in rows:
        yield f"| {name} | {kind} | {' | '.join(shown(value_of(own)) for value_of in BY_METHOD.values())} |"


if __name__ == "__main__":
    PAGE.write_text(page())
